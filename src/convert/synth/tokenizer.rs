//! A generated `tokenizer.json` of a given size.
//!
//! The layout of ids is the one of the real file: mmBERT's special tokens first, bytes, learned pieces, characters;
//! ModernBERT's letters and learned pieces first, then runs of blanks and the special tokens. Learned pieces are words (see
//! [`super::word`]), each with the merges that build it from its letters.

use std::collections::HashSet;

use super::word::words;
use crate::json::{Object, Value};
use crate::tokenizer::Family;

/// A `tokenizer.json` with ids `0..n_vocab`. `n_vocab` must be at least 600.
pub(super) fn generate(family: Family, n_vocab: u32) -> Value {
    match family {
        Family::MetaspaceBpe => metaspace(n_vocab as usize),
        Family::ByteLevelBpe => bytelevel(n_vocab as usize),
    }
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().collect::<Object>())
}

/// An added token; `flags` are those that are true.
fn added(id: usize, content: &str, flags: &[&str]) -> Value {
    let mut token = Object::new();
    token.insert("id", id);
    token.insert("content", content);
    for flag in ["single_word", "lstrip", "rstrip", "normalized", "special"] {
        token.insert(flag, flags.contains(&flag));
    }
    Value::Object(token)
}

/// The published template: `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`.
fn template(cls: (&str, usize), sep: (&str, usize)) -> Value {
    let special = |name: &str| object([("SpecialToken", object([("id", name.into()), ("type_id", 0u32.into())]))]);
    let sequence = |name: &str| object([("Sequence", object([("id", name.into()), ("type_id", 0u32.into())]))]);
    let entry = |(name, id): (&str, usize)| {
        let ids = std::iter::once(id).collect();
        object([("id", name.into()), ("ids", ids), ("tokens", std::iter::once(name).collect())])
    };
    let table: Object = [(cls.0, entry(cls)), (sep.0, entry(sep))].into_iter().collect();
    let single = vec![special(cls.0), sequence("A"), special(sep.0)];
    let pair = [single.clone(), vec![sequence("B"), special(sep.0)]].concat();
    object([
        ("type", "TemplateProcessing".into()),
        ("single", single.into()),
        ("pair", pair.into()),
        ("special_tokens", Value::Object(table)),
    ])
}

/// The `model` part.
fn model(pieces: &Pieces, metaspace: bool) -> Value {
    let vocab: Object = pieces.list.iter().enumerate().map(|(id, piece)| (piece.as_str(), id)).collect();
    let merges =
        pieces.merges.iter().map(|(left, right)| [left.as_str(), right.as_str()].into_iter().collect::<Value>());
    object([
        ("type", "BPE".into()),
        ("dropout", Value::Null),
        ("unk_token", if metaspace { "<unk>".into() } else { Value::Null }),
        ("continuing_subword_prefix", Value::Null),
        ("end_of_word_suffix", Value::Null),
        ("fuse_unk", metaspace.into()),
        ("byte_fallback", metaspace.into()),
        ("ignore_merges", false.into()),
        ("vocab", Value::Object(vocab)),
        ("merges", merges.collect()),
    ])
}

fn tokenizer(added: Vec<Value>, normalizer: Value, pre: Value, post: Value, decoder: Value, model: Value) -> Value {
    object([
        ("version", "1.0".into()),
        ("truncation", Value::Null),
        ("padding", Value::Null),
        ("added_tokens", added.into()),
        ("normalizer", normalizer),
        ("pre_tokenizer", pre),
        ("post_processor", post),
        ("decoder", decoder),
        ("model", model),
    ])
}

/// Pieces by id, and the merges that build the longer ones.
#[derive(Default)]
struct Pieces {
    list: Vec<String>,
    known: HashSet<String>,
    merges: Vec<(String, String)>,
}

impl Pieces {
    fn push(&mut self, piece: &str) -> bool {
        let new = self.known.insert(piece.to_owned());
        if new {
            self.list.push(piece.to_owned());
        }
        new
    }

    /// Adds the pieces that build `word` letter by letter, until there are `n`. Its letters must be `letters`.
    fn learn(&mut self, word: &str, letters: &HashSet<char>, n: usize) {
        let mut left = String::new();
        for letter in word.chars() {
            if !letters.contains(&letter) {
                return;
            }
            if left.is_empty() {
                left.push(letter);
                continue;
            }
            if self.list.len() >= n {
                return;
            }
            let mut joined = left.clone();
            joined.push(letter);
            if self.push(&joined) {
                self.merges.push((left, letter.to_string()));
            }
            left = joined;
        }
    }
}

/// The characters a metaspace vocabulary has pieces for; all others are spelled in bytes.
fn characters() -> Vec<char> {
    let ranges = ['!'..='~', '\u{a1}'..='\u{17f}', '\u{391}'..='\u{3c9}', '\u{410}'..='\u{44f}', '\u{905}'..='\u{939}'];
    ranges.into_iter().flatten().filter(|c| c.is_alphanumeric() || c.is_ascii() || *c < '\u{100}').collect()
}

fn metaspace(n_vocab: usize) -> Value {
    const BLANK: char = '\u{2581}';
    let mut pieces = Pieces::default();
    let special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"];
    let mut named: Vec<String> = special.iter().chain(&["<2mass>", "[@BOS@]"]).map(|&name| name.to_owned()).collect();
    named.extend((0..99).map(|i| format!("<unused{i}>")).take(if n_vocab > 10_000 { 99 } else { 4 }));
    named.extend(["<start_of_turn>", "<end_of_turn>"].map(String::from));
    let run = |c: char, lengths: std::ops::RangeInclusive<usize>| lengths.map(move |n| String::from(c).repeat(n));
    let longest = if n_vocab > 10_000 { 31 } else { 6 };
    named.extend(run('\n', 1..=longest).chain(run(BLANK, 2..=longest)));
    named.extend(["<table>", "</table>", "<td>", "</td>", "<b>", "</b>", "<code>", "</code>"].map(String::from));
    for name in &named {
        pieces.push(name);
    }
    // As in the published file, the byte 0x09 has no piece of its own: the tab itself stands there.
    for byte in 0..=255u8 {
        pieces.push(&if byte == 9 { "\t".to_owned() } else { format!("<0x{byte:02X}>") });
    }
    let characters = characters();
    let letters: HashSet<char> = characters.iter().copied().chain([BLANK]).collect();
    let n_learned = n_vocab.saturating_sub(letters.len());
    // Runs of blanks are built from the longest known run, so that they come before words that start with one.
    for n in 2..=longest {
        pieces.merges.push((String::from(BLANK).repeat(n - 1), String::from(BLANK)));
    }
    for word in words(&String::from(BLANK)) {
        if pieces.list.len() >= n_learned {
            break;
        }
        pieces.learn(&word, &letters, n_learned);
    }
    pieces.push(&String::from(BLANK));
    for c in characters {
        pieces.push(&String::from(c));
    }
    let added = named.iter().enumerate().map(|(id, name)| match name.as_str() {
        "<mask>" => added(id, name, &["special", "lstrip"]),
        _ if special.contains(&name.as_str()) => added(id, name, &["special"]),
        _ => added(id, name, &[]),
    });
    let replace = |from: &str, to: &str| {
        object([("type", "Replace".into()), ("pattern", object([("String", from.into())])), ("content", to.into())])
    };
    let blank = String::from(BLANK);
    let steps = [replace(&blank, " "), object([("type", "ByteFallback".into())]), object([("type", "Fuse".into())])];
    tokenizer(
        added.collect(),
        replace(" ", &blank),
        object([
            ("type", "Metaspace".into()),
            ("replacement", blank.as_str().into()),
            ("prepend_scheme", "always".into()),
            ("split", true.into()),
        ]),
        template(("<bos>", 2), ("<eos>", 1)),
        object([("type", "Sequence".into()), ("decoders", steps.into_iter().collect())]),
        model(&pieces, true),
    )
}

/// GPT-2's printable letter for every byte, in the order of its table.
fn byte_letters() -> Vec<char> {
    let printable = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let own = (0..256).filter(|&b| printable(b));
    let moved = (0..256).filter(|&b| !printable(b)).enumerate().map(|(n, _)| 256 + n as u32);
    own.chain(moved).filter_map(char::from_u32).collect()
}

fn bytelevel(n_vocab: usize) -> Value {
    let unused = if n_vocab > 10_000 { 83 } else { 4 };
    let runs: Vec<String> = (2..=24).rev().map(|n| " ".repeat(n)).collect();
    let names = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"];
    let contacts = ["|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||", "<|endoftext|>"];
    let n_base = n_vocab.saturating_sub(names.len() + unused);
    let n_learned = n_base.saturating_sub(runs.len() + contacts.len());

    let mut pieces = Pieces::default();
    pieces.push("|||IP_ADDRESS|||");
    pieces.push("<|padding|>");
    let letters = byte_letters();
    for letter in &letters {
        pieces.push(&String::from(*letter));
    }
    let letters: HashSet<char> = letters.into_iter().collect();
    for word in words("\u{120}") {
        if pieces.list.len() >= n_learned {
            break;
        }
        pieces.learn(&word, &letters, n_learned);
    }
    let mut tokens = vec![added(0, "|||IP_ADDRESS|||", &["normalized"]), added(1, "<|padding|>", &["special"])];
    for piece in runs.iter().map(String::as_str).chain(contacts) {
        let flag = if piece == "<|endoftext|>" { "special" } else { "normalized" };
        tokens.push(added(pieces.list.len(), piece, &[flag]));
        pieces.push(piece);
    }
    let mut id = pieces.list.len();
    let (mut cls, mut sep) = (0, 0);
    for name in names {
        match name {
            "[CLS]" => cls = id,
            "[SEP]" => sep = id,
            _ => {}
        }
        tokens.push(added(id, name, if name == "[MASK]" { &["special", "lstrip"] } else { &["special"] }));
        id += 1;
    }
    for i in 0..unused {
        tokens.push(added(id, &format!("[unused{i}]"), &["normalized"]));
        id += 1;
    }
    let level = object([
        ("type", "ByteLevel".into()),
        ("add_prefix_space", false.into()),
        ("trim_offsets", true.into()),
        ("use_regex", true.into()),
    ]);
    tokenizer(
        tokens,
        object([("type", "NFC".into())]),
        level.clone(),
        template(("[CLS]", cls), ("[SEP]", sep)),
        level,
        model(&pieces, false),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabularies_have_the_size_that_was_asked_for() {
        for (family, n) in [
            (Family::MetaspaceBpe, 1024),
            (Family::MetaspaceBpe, 256_000),
            (Family::ByteLevelBpe, 1024),
            (Family::ByteLevelBpe, 50_368),
        ] {
            let json = generate(family, n);
            let vocab = json.get("model").and_then(|m| m.get("vocab")).and_then(Value::as_object).unwrap();
            let added = json.get("added_tokens").and_then(Value::as_array).unwrap();
            let mut ids: HashSet<u64> = vocab.values().map(|id| id.as_u64().unwrap()).collect();
            ids.extend(added.iter().map(|token| token.get("id").unwrap().as_u64().unwrap()));
            assert_eq!(ids.len(), n as usize, "{family:?}");
            assert_eq!(ids.iter().max(), Some(&(u64::from(n) - 1)), "{family:?}");
        }
    }

    #[test]
    fn special_ids_are_those_of_the_published_files() {
        let json = generate(Family::ByteLevelBpe, 50_368);
        let added = json.get("added_tokens").and_then(Value::as_array).unwrap();
        for (name, id) in [("[UNK]", 50280), ("[CLS]", 50281), ("[SEP]", 50282), ("[PAD]", 50283), ("[MASK]", 50284)] {
            let token = added.iter().find(|token| token.get("content").unwrap().as_str() == Some(name)).unwrap();
            assert_eq!(token.get("id").unwrap().as_u64(), Some(id), "{name}");
        }
    }
}
