//! Character classes, from the probed table.

use std::sync::LazyLock;

use super::unicode_table::{COMPOSED, LETTER, MARK, NUMBER, REPLACED, SPACE};

/// `\p{L}` of the pre-tokenizer.
pub(super) const IS_LETTER: u8 = 1;
/// `\p{N}` of the pre-tokenizer.
pub(super) const IS_NUMBER: u8 = 2;
/// `\s` of the pre-tokenizer, and what an added token with `lstrip` swallows.
pub(super) const IS_SPACE: u8 = 4;
/// A character that NFC may change, move or join to the one before; text without any is its own NFC.
pub(super) const IS_UNSTABLE: u8 = 8;

/// Hangul vowels and trailing consonants, which join the syllable before them by arithmetic.
const HANGUL_SECOND: [(u32, u32); 2] = [(0x1161, 0x1175), (0x11A8, 0x11C2)];

/// One byte of class bits a code point, up to the last one that has any.
static CLASSES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut classes = Vec::new();
    let mut mark = |first: u32, last: u32, bit: u8| {
        let end = last as usize + 1;
        if classes.len() < end {
            classes.resize(end, 0);
        }
        for class in classes.get_mut(first as usize..end).into_iter().flatten() {
            *class |= bit;
        }
    };
    for (ranges, bit) in [(LETTER, IS_LETTER), (NUMBER, IS_NUMBER), (SPACE, IS_SPACE), (&HANGUL_SECOND, IS_UNSTABLE)] {
        ranges.iter().for_each(|&(first, last)| mark(first, last, bit));
    }
    MARK.iter().for_each(|&(first, last, _)| mark(first, last, IS_UNSTABLE));
    REPLACED.iter().for_each(|&(c, _)| mark(c, c, IS_UNSTABLE));
    COMPOSED.iter().for_each(|&(_, _, second)| mark(second, second, IS_UNSTABLE));
    classes
});

/// A handle on the class table that skips its initialization check.
#[derive(Clone, Copy)]
pub(super) struct Classes(&'static [u8]);

impl Classes {
    pub(super) fn new() -> Self {
        Self(&CLASSES)
    }

    /// The class bits of `c`; 0 for a character that is none of them.
    #[inline]
    pub(super) fn of(self, c: char) -> u8 {
        self.0.get(c as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_packages_not_the_languages() {
        let classes = Classes::new();
        assert_eq!(classes.of('a'), IS_LETTER);
        assert_eq!(classes.of('7'), IS_NUMBER);
        assert_eq!(classes.of('½'), IS_NUMBER);
        assert_eq!(classes.of('\u{3000}'), IS_SPACE);
        assert_eq!(classes.of('\u{85}'), IS_SPACE);
        assert_eq!(classes.of('\u{200B}'), 0);
        assert_eq!(classes.of('\u{301}'), IS_UNSTABLE);
        // A letter of Unicode 15; and one of Unicode 16, which the package does not know yet.
        assert_eq!(classes.of('\u{1E4D0}'), IS_LETTER);
        assert_eq!(classes.of('\u{10D4A}') & IS_LETTER, u8::from(table_has_unicode_16()));
        assert_eq!(classes.of('\u{10FFFF}'), 0);
    }

    fn table_has_unicode_16() -> bool {
        LETTER.iter().any(|&(first, last)| (first..=last).contains(&0x10D4A))
    }
}
