//! Unicode normalization form C, with the data of the PyPI package `tokenizers` (see `unicode_table.rs`).

use std::borrow::Cow;
use std::sync::LazyLock;

use super::class::{Classes, IS_UNSTABLE};
use super::unicode_table::{COMPOSED, MARK, REPLACED};

const SYLLABLE: u32 = 0xAC00;
const LEADING: u32 = 0x1100;
const VOWEL: u32 = 0x1161;
/// One before the first trailing consonant: trailing 0 means none.
const TRAILING: u32 = 0x11A7;
const N_LEADING: u32 = 19;
const N_VOWEL: u32 = 21;
const N_TRAILING: u32 = 28;
const N_SYLLABLE: u32 = N_LEADING * N_VOWEL * N_TRAILING;

/// (first, second, composed), sorted for look-up by the pair.
static PAIRS: LazyLock<Vec<(u32, u32, u32)>> = LazyLock::new(|| {
    let mut pairs: Vec<_> = COMPOSED.iter().map(|&(c, first, second)| (first, second, c)).collect();
    pairs.sort_unstable();
    pairs
});

/// `text` in NFC. Text that already is costs one pass and no copy.
pub(super) fn nfc(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let classes = Classes::new();
    let mut out = String::new();
    let mut points = Vec::new();
    let mut done = 0; // text before this byte is in `out`
    let mut last_stable = 0; // start of the last stable character
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if classes.of(c) & IS_UNSTABLE == 0 {
            last_stable = at;
            continue;
        }
        // An unstable character can change the stable one before it and everything up to the next stable one.
        let start = last_stable.max(done);
        let end = loop {
            match chars.clone().next() {
                Some((_, next)) if classes.of(next) & IS_UNSTABLE != 0 => chars.next(),
                Some((next_at, _)) => break next_at,
                None => break text.len(),
            };
        };
        out.push_str(text.get(done..start).unwrap_or_default());
        points.clear();
        text.get(start..end).unwrap_or_default().chars().for_each(|c| decompose(c as u32, &mut points));
        order(&mut points);
        compose(&mut points);
        out.extend(points.iter().filter_map(|&(c, _)| char::from_u32(c)));
        done = end;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

/// Appends the full canonical decomposition of `c`, each character with its combining class.
fn decompose(c: u32, out: &mut Vec<(u32, u8)>) {
    let syllable = c.wrapping_sub(SYLLABLE);
    if syllable < N_SYLLABLE {
        out.push((LEADING + syllable / (N_VOWEL * N_TRAILING), 0));
        out.push((VOWEL + syllable % (N_VOWEL * N_TRAILING) / N_TRAILING, 0));
        if !syllable.is_multiple_of(N_TRAILING) {
            out.push((TRAILING + syllable % N_TRAILING, 0));
        }
    } else if let Some((_, parts)) = find(REPLACED, c, |&(key, _)| key) {
        out.extend(parts.chars().map(|part| (part as u32, combining_class(part as u32))));
    } else if let Some(&(_, first, second)) = find(COMPOSED, c, |&(key, _, _)| key) {
        // Each step leaves a shorter decomposition, at most four deep.
        decompose(first, out);
        decompose(second, out);
    } else {
        out.push((c, combining_class(c)));
    }
}

fn find<T>(table: &[T], c: u32, key: impl Fn(&T) -> u32) -> Option<&T> {
    table.binary_search_by_key(&c, key).ok().and_then(|at| table.get(at))
}

fn combining_class(c: u32) -> u8 {
    let after = MARK.partition_point(|&(first, _, _)| first <= c);
    match after.checked_sub(1).and_then(|at| MARK.get(at)) {
        Some(&(_, last, class)) if c <= last => class,
        _ => 0,
    }
}

/// Puts every run of marks into the order of their classes, equal ones as they stand.
fn order(points: &mut [(u32, u8)]) {
    for run in points.split_mut(|&(_, class)| class == 0) {
        if !run.is_sorted_by_key(|&(_, class)| class) {
            run.sort_by_key(|&(_, class)| class);
        }
    }
}

/// Joins what composes, in place.
fn compose(points: &mut Vec<(u32, u8)>) {
    let mut kept = 0; // points[..kept] is done
    let mut starter: Option<usize> = None;
    let mut last_class = 0;
    for at in 0..points.len() {
        let Some(&(c, class)) = points.get(at) else { break };
        // Between the starter and `c` stand only marks of lower classes (or nothing), else `c` is blocked.
        let open = starter.filter(|&starter| starter + 1 == kept || (last_class != 0 && last_class < class));
        if let Some(first) = open.and_then(|starter| points.get_mut(starter))
            && let Some(composed) = pair(first.0, c)
        {
            first.0 = composed;
            continue;
        }
        if class == 0 {
            starter = Some(kept);
        }
        last_class = class;
        if let Some(slot) = points.get_mut(kept) {
            *slot = (c, class);
        }
        kept += 1;
    }
    points.truncate(kept);
}

fn pair(first: u32, second: u32) -> Option<u32> {
    let (leading, vowel) = (first.wrapping_sub(LEADING), second.wrapping_sub(VOWEL));
    if leading < N_LEADING && vowel < N_VOWEL {
        return Some(SYLLABLE + (leading * N_VOWEL + vowel) * N_TRAILING);
    }
    let (syllable, trailing) = (first.wrapping_sub(SYLLABLE), second.wrapping_sub(TRAILING));
    if syllable < N_SYLLABLE && syllable.is_multiple_of(N_TRAILING) && (1..N_TRAILING).contains(&trailing) {
        return Some(first + trailing);
    }
    let at = PAIRS.binary_search_by_key(&(first, second), |&(first, second, _)| (first, second)).ok()?;
    PAIRS.get(at).map(|&(_, _, composed)| composed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composes_orders_and_replaces() {
        for (text, expected) in [
            ("cafe\u{301} is", "caf\u{e9} is"),
            ("\u{e9}", "\u{e9}"),
            ("e\u{323}\u{302}", "\u{1ec7}"),
            ("e\u{302}\u{323}", "\u{1ec7}"),
            ("q\u{307}\u{323}", "q\u{323}\u{307}"),
            ("\u{212b}\u{2126}", "\u{c5}\u{3a9}"),
            ("\u{1100}\u{1161}\u{11a8}", "\u{ac01}"),
            ("\u{ac00}\u{11a8}x", "\u{ac01}x"),
            ("\u{301}a\u{301}", "\u{301}\u{e1}"),
            ("\u{fb2c}", "\u{5e9}\u{5bc}\u{5c1}"),
            ("\u{958}", "\u{915}\u{93c}"),
            ("a\u{327}\u{301}b", "\u{e1}\u{327}b"),
            // Two marks of one class: the second is blocked.
            ("a\u{301}\u{301}", "\u{e1}\u{301}"),
            ("a\u{30a}\u{301}", "\u{1fb}"),
        ] {
            assert_eq!(nfc(text), expected, "{text:?}");
        }
        assert!(matches!(nfc("na\u{ef}ve \u{4e2d}"), Cow::Borrowed(_)));
    }

    #[test]
    fn is_idempotent_on_every_code_point_between_letters_and_marks() {
        for c in (0..=0x10FFFF).filter_map(char::from_u32) {
            let once = nfc(&format!("a{c}\u{301}{c}")).into_owned();
            assert_eq!(nfc(&once), once, "{c:?}");
        }
    }

    #[test]
    fn a_long_run_of_marks_stays_fast() {
        let text: String = std::iter::once('a').chain((0..1 << 20).map(|i| ['\u{301}', '\u{323}'][i % 2])).collect();
        assert_eq!(nfc(&text).chars().count(), (1 << 20) + 1 - 1);
    }
}
