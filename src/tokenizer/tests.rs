//! Small vocabularies whose ids can be checked by eye, and damaged ones.

use super::source::Parts;
use super::*;
use crate::gguf::Strings;

/// A vocabulary in owned form.
#[derive(Clone)]
struct Tiny {
    family: Family,
    nfc: bool,
    tokens: Vec<Vec<u8>>,
    types: Vec<i32>,
    merges: Vec<Vec<u8>>,
    added: Option<Vec<i32>>,
    /// bos, eos, sep, mask, unk, pad.
    special: [Option<u32>; 6],
}

impl Tiny {
    fn new(family: Family, tokens: &[(&str, i32)], merges: &[&str]) -> Self {
        Self {
            family,
            nfc: family == Family::ByteLevelBpe,
            tokens: tokens.iter().map(|(token, _)| token.as_bytes().to_vec()).collect(),
            types: tokens.iter().map(|(_, ty)| *ty).collect(),
            merges: merges.iter().map(|merge| merge.as_bytes().to_vec()).collect(),
            added: None,
            special: [None; 6],
        }
    }

    fn build(&self) -> Result<Tokenizer, crate::Error> {
        let merges: Strings = self.merges.iter().collect();
        let [bos, eos, sep, mask, unk, pad] = self.special;
        Tokenizer::from_parts(Parts {
            family: self.family,
            nfc: self.nfc,
            tokens: self.tokens.iter().collect(),
            token_types: &self.types,
            merges: Some(&merges),
            added_tokens: self.added.as_deref(),
            bos,
            eos,
            sep,
            mask,
            unk,
            pad,
        })
    }

    fn refusal(&self) -> String {
        self.build().expect_err("a broken vocabulary is refused").to_string()
    }
}

fn metaspace() -> Tiny {
    let mut tokens = vec![("<pad>", 3), ("<eos>", 3), ("<bos>", 3), ("<unk>", 3), ("<mask>", 3)];
    tokens.extend([
        ("\n", 4),
        ("\n\n", 4),
        ("  ", 4),
        ("\u{2581}", 1),
        ("a", 1),
        ("b", 1),
        ("\u{2581}a", 1),
        ("ab", 1),
    ]);
    tokens.extend([
        ("\u{2581}ab", 1),
        ("\u{e9}", 1),
        ("<0xC3>", 6),
        ("<0xA8>", 6),
        ("<0xE2>", 6),
        ("aa", 1),
        ("[PAD0]", 5),
    ]);
    Tiny::new(Family::MetaspaceBpe, &tokens, &["\u{2581} a", "a b", "\u{2581}a b", "a a"])
}

fn bytelevel() -> Tiny {
    let mut tokens =
        vec![("[UNK]", 3), ("[CLS]", 3), ("[SEP]", 3), ("[PAD]", 3), ("[MASK]", 3), ("   ", 4), ("|x|", 4)];
    tokens.extend([("a", 1), ("b", 1), ("\u{120}", 1), ("\u{120}a", 1), ("ab", 1), ("\u{c3}", 1), ("\u{a9}", 1)]);
    tokens.extend([("\u{c3}\u{a9}", 1), ("\u{10a}", 1), ("'", 1), ("s", 1), ("'s", 1), ("[PAD19]", 5)]);
    let merges = ["\u{120} a", "a b", "\u{c3} \u{a9}", "' s"];
    Tiny {
        added: Some(vec![0, 0, 1, 0, 2, 0, 3, 0, 4, 1, 5, 2, 6, 2]),
        special: [Some(1), None, Some(2), Some(4), Some(0), Some(3)],
        ..Tiny::new(Family::ByteLevelBpe, &tokens, &merges)
    }
}

#[test]
fn metaspace_words() {
    let tokenizer = metaspace().build().unwrap();
    for (text, ids) in [
        ("", &[][..]),
        (" ", &[8]),
        ("a", &[11]),
        (" a", &[11]),
        ("  a", &[8, 11]),
        ("a a ", &[11, 11, 8]),
        ("\u{2581}a", &[11]),
        // Two U+2581 in the text are an added token, two spaces are not. After it a stretch starts anew.
        ("\u{2581}\u{2581}a", &[7, 11]),
        ("a\nb", &[11, 5, 8, 10]),
        ("\n\n\n", &[6, 5]),
        // The lowest rank first (a b is rank 1), then from the left.
        ("bab", &[8, 10, 12]),
        ("baaa", &[8, 10, 18, 9]),
        // "U+2581 a" has rank 0 and goes before "a b"; "U+2581a b" then makes the whole word.
        ("ab", &[13]),
        // The mask token swallows spaces on its left, the others do not.
        ("a <mask> b", &[11, 4, 8, 10]),
        ("a <eos>b", &[11, 8, 1, 8, 10]),
        // Bytes of an unknown character if all are there, else one unknown token for the run.
        ("\u{e9}\u{e8}", &[8, 14, 15, 16]),
        ("\u{ea}\u{eb}a", &[8, 3, 9]),
        ("\u{ea}a", &[8, 3, 9]),
        // As in the reference the unknown token waits until the next known character.
        ("\u{ea}\u{e8}\u{eb}b", &[8, 15, 16, 3, 10]),
        ("\u{ea} \u{ea}", &[8, 3, 8, 3]),
        // An unused row stands for no text.
        ("[PAD0]", &[8, 3]),
    ] {
        assert_eq!(tokenizer.encode(text), ids, "{text:?}");
    }
    assert_eq!(tokenizer.token(7), Some("\u{2581}\u{2581}".as_bytes()));
    assert_eq!((tokenizer.token(99), tokenizer.token_type(99)), (None, None));
    assert_eq!((tokenizer.token_type(4), tokenizer.token_type(8)), (Some(TokenType::Control), Some(TokenType::Normal)));
    assert_eq!((tokenizer.n_tokens(), tokenizer.n_merges(), tokenizer.mask_text()), (20, 4, "<mask>"));
    assert_eq!(*tokenizer.special(), Special { cls: 2, sep: 1, mask: 4, pad: Some(0), unk: Some(3) });
}

#[test]
fn bytelevel_words() {
    let tokenizer = bytelevel().build().unwrap();
    for (text, ids) in [
        ("", &[][..]),
        ("a a", &[7, 10]),
        ("a  a", &[7, 9, 10]),
        ("ab's", &[11, 18]),
        ("e\u{301}\u{e9}", &[14, 14]),
        ("\n\na", &[15, 15, 7]),
        // Normalized added tokens are found after NFC, the others before it; only [MASK] strips.
        ("a   [MASK]a", &[7, 4, 7]),
        ("a   [SEP]a", &[7, 5, 2, 7]),
        ("|x|    ", &[6, 5, 9]),
        // Bytes without a token leave no symbol, so their neighbours in the word meet.
        ("a\u{4e2d}b", &[11]),
        ("ezb", &[8]),
    ] {
        assert_eq!(tokenizer.encode(text), ids, "{text:?}");
    }
    assert_eq!(tokenizer.family().as_str(), "bytelevel-bpe");
}

#[test]
fn without_nfc_the_text_stays() {
    let tiny = Tiny { nfc: false, ..bytelevel() };
    assert_eq!(tiny.build().unwrap().encode("\u{e9}a\u{301}"), [14, 7]);
    assert_eq!(bytelevel().build().unwrap().encode("\u{e9}a\u{301}"), [14, 12]);
}

#[test]
fn a_later_duplicate_merge_takes_its_rank() {
    let mut tiny = metaspace();
    assert_eq!(tiny.build().unwrap().encode("aab"), [11, 12]);
    tiny.merges = ["a b", "\u{2581} a", "a a", "a b"].map(|merge| merge.as_bytes().to_vec()).to_vec();
    let tokenizer = tiny.build().unwrap();
    assert_eq!((tokenizer.encode("bab"), tokenizer.n_merges()), (vec![8, 10, 12], 3));
    // "a a" (rank 2) now goes before "a b" (rank 3).
    assert_eq!(tokenizer.encode("baab"), [8, 10, 18, 10]);
}

#[test]
fn a_merge_with_a_space_takes_no_rank_from_the_one_spelled_alike() {
    let mut tiny = bytelevel();
    let first = tiny.tokens.len() as u32;
    tiny.tokens.extend(["x", "y", "\u{120}x", "xy", "\u{120}xy"].map(|token| token.as_bytes().to_vec()));
    tiny.types.resize(tiny.tokens.len(), 1);
    tiny.merges.extend(["\u{120} x", "x y", "\u{120}x y", "\u{120} x"].map(|merge| merge.as_bytes().to_vec()));
    // Written twice, the later one counts: "x y" goes before it.
    assert_eq!(tiny.build().unwrap().encode(" xy"), [9, first + 3]);
    // With a token " x" it is that one's merge, which no word can use.
    tiny.tokens.push(b" x".to_vec());
    tiny.types.push(1);
    assert_eq!(tiny.build().unwrap().encode(" xy"), [first + 4]);
}

#[test]
fn a_merge_may_start_with_a_space_and_spell_one() {
    let mut tiny = metaspace();
    tiny.tokens.extend([b" ".to_vec(), b" a".to_vec()]);
    tiny.types.extend([1, 1]);
    tiny.merges.push(b"  a".to_vec());
    tiny.merges.push("\u{120} a".into());
    assert_eq!(tiny.build().unwrap().n_merges(), 5);
}

/// Every merge of "c" to "ccc...", more than are looked up together, with halves of all lengths.
#[test]
fn many_merges_of_all_lengths() {
    let mut tiny = metaspace();
    let first = tiny.tokens.len();
    let word = |n: usize| "c".repeat(n);
    tiny.tokens.extend((1..=40).map(|n| word(n).into_bytes()));
    tiny.types.resize(tiny.tokens.len(), 1);
    tiny.merges.clear();
    let mut expected = Vec::new();
    for n in 2..=40 {
        for left in 1..n {
            tiny.merges.push(format!("{} {}", word(left), word(n - left)).into_bytes());
            expected.push([left, n - left, n].map(|n| (first + n - 1) as u32));
        }
    }
    // Not in the order of their tokens.
    tiny.merges.rotate_left(333);
    expected.rotate_left(333);
    let tokenizer = tiny.build().unwrap();
    assert_eq!(tokenizer.n_merges(), expected.len());
    for (rank, [left, right, merged]) in (0..).zip(expected) {
        assert_eq!(tokenizer.merges.rank(left, right), rank);
        assert_eq!(tokenizer.merges.id(rank), merged);
    }
    let n = tiny.merges.len();
    for at in [0, 1, 63, 64, 65, n / 2, n - 1] {
        for (half, what) in [("starts", "cccccccccd c"), ("ends", "c cccccccccd"), ("ends", "c d"), ("starts", "d c")] {
            let mut tiny = tiny.clone();
            tiny.merges[at] = what.as_bytes().to_vec();
            let message = format!("merge {at} ({what:?}) {half} with a token that is not in the vocabulary");
            assert_eq!(tiny.refusal(), format!("key tokenizer.ggml.merges: {message}"));
        }
        let mut tiny = tiny.clone();
        tiny.merges[at] = format!("{} {}", word(20), word(21)).into_bytes();
        assert!(tiny.refusal().ends_with("makes a token that is not in the vocabulary"));
    }
}

#[test]
fn short_medium_and_long_words_merge_alike() {
    let tokenizer = metaspace().build().unwrap();
    let mut state = 1u64;
    for n in 1..200 {
        let word: Vec<u32> = (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                [8, 9, 9, 10][(state >> 62) as usize]
            })
            .collect();
        let (mut short, mut medium, mut long) = (Vec::new(), Vec::new(), Vec::new());
        let mut merger = Merger::default();
        merger.merge_short(&tokenizer.merges, &mut word.clone(), &mut short);
        merger.merge_medium(&tokenizer.merges, &word, &mut medium);
        merger.merge_long(&tokenizer.merges, &word, &mut long);
        assert_eq!(short, medium, "{word:?}");
        assert_eq!(short, long, "{word:?}");
    }
}

#[test]
fn broken_vocabularies_say_what_is_wrong() {
    let refusal = |change: fn(&mut Tiny)| {
        let mut tiny = metaspace();
        change(&mut tiny);
        tiny.refusal()
    };
    let error = refusal(|tiny| tiny.merges.push(b"ab".to_vec()));
    assert_eq!(error, "key tokenizer.ggml.merges: merge 4 (\"ab\") is not two tokens");
    let error = refusal(|tiny| tiny.merges.push(b"a z".to_vec()));
    assert_eq!(error, "key tokenizer.ggml.merges: merge 4 (\"a z\") ends with a token that is not in the vocabulary");
    let error = refusal(|tiny| tiny.merges.push(b"z a".to_vec()));
    assert_eq!(error, "key tokenizer.ggml.merges: merge 4 (\"z a\") starts with a token that is not in the vocabulary");
    let error = refusal(|tiny| tiny.merges.push(b"b b".to_vec()));
    assert_eq!(error, "key tokenizer.ggml.merges: merge 4 (\"b b\") makes a token that is not in the vocabulary");
    let error = refusal(|tiny| tiny.types.truncate(19));
    assert_eq!(error, "key tokenizer.ggml.token_type: holds 19 types for 20 tokens");
    let error = refusal(|tiny| tiny.types[3] = 7);
    assert_eq!(error, "key tokenizer.ggml.token_type: token 3 has the unknown type 7; 0 to 6 exist");
    let error = refusal(|tiny| tiny.special[3] = Some(20));
    assert_eq!(error, "key tokenizer.ggml.mask_token_id: is 20, past the 20 tokens of the vocabulary");
    let error = refusal(|tiny| tiny.tokens[10] = b"a".to_vec());
    assert_eq!(error, "key tokenizer.ggml.tokens: tokens 9 and 10 are both \"a\"");
    let error = refusal(|tiny| tiny.tokens[5] = vec![0xFF]);
    assert_eq!(error, "key tokenizer.ggml.tokens: added token 5 is not UTF-8 and could never be found in text");
    let error = refusal(|tiny| tiny.tokens[4].clear());
    assert_eq!(error, "key tokenizer.ggml.mask_token_id: is 4, a token that is empty or not UTF-8");
    let error = refusal(|tiny| tiny.added = Some(vec![1, 0, 2]));
    assert_eq!(error, "key decision.laya.added_tokens: must hold (id, flags) pairs, but one number is left over");
    let error = refusal(|tiny| tiny.added = Some(vec![-1, 0]));
    assert_eq!(error, "key decision.laya.added_tokens: names token -1; the vocabulary has 20");
    let error = refusal(|tiny| tiny.added = Some(vec![1, 4]));
    assert_eq!(
        error,
        "key decision.laya.added_tokens: gives token 1 the flags 4; this build knows 1 (lstrip) and 2 (normalized)"
    );
    let error = refusal(|tiny| tiny.added = Some(vec![1, 0, 1, 1]));
    assert_eq!(error, "key decision.laya.added_tokens: names token 1 twice");
    let error = refusal(|tiny| {
        tiny.tokens.clear();
        tiny.types.clear();
    });
    assert_eq!(error, "key tokenizer.ggml.bos_token_id: is 2, past the 0 tokens of the vocabulary");
    let mut tiny = bytelevel();
    tiny.special[2] = None;
    assert_eq!(
        tiny.refusal(),
        "key tokenizer.ggml.seperator_token_id: is missing, which a bytelevel-bpe file must state; convert again"
    );
}

/// Damaged vocabularies are refused or used, never a panic; what is used gives ids inside the vocabulary.
#[test]
fn twenty_thousand_damaged_vocabularies() {
    let mut state = 0x5EED_u64;
    let mut below = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % n as u64) as usize
    };
    let texts = ["a <mask>ab\n\n \u{e9}\u{ea}", "\u{2581}\u{2581}b|x|   e\u{301}'s [MASK]", "[PAD0]aaaa bbbb"];
    let (mut built, mut refused) = (0, 0);
    for round in 0..20_000 {
        let mut tiny = if round % 2 == 0 { metaspace() } else { bytelevel() };
        for _ in 0..1 + below(3) {
            let token = below(tiny.tokens.len());
            let merge = below(tiny.merges.len().max(1));
            match below(13) {
                0 => tiny.tokens[token].clear(),
                1 => {
                    let byte = [b' ', b'a', 0xE2, 0xFF, 0, b'\n'][below(6)];
                    let at = below(tiny.tokens[token].len() + 1);
                    tiny.tokens[token].insert(at, byte);
                }
                2 => drop(tiny.tokens[token].pop()),
                3 if token < tiny.types.len() => tiny.types[token] = [0, 1, 3, 4, 5, 6, 7, -1][below(8)],
                4 => drop(tiny.types.pop()),
                5 => {
                    tiny.tokens.truncate(1 + token);
                    tiny.types.truncate(1 + token + below(8) / 7);
                }
                6 if !tiny.merges.is_empty() => {
                    let at = below(tiny.merges[merge].len() + 1);
                    tiny.merges[merge].insert(at, [b' ', b'a', 0xC4, b'b'][below(4)]);
                }
                7 if !tiny.merges.is_empty() => drop(tiny.merges[merge].pop()),
                8 if !tiny.merges.is_empty() => drop(tiny.merges.swap_remove(merge)),
                9 => tiny.special[below(6)] = [None, Some(token as u32), Some(u32::MAX)][below(3)],
                10 => {
                    tiny.added = [None, Some(vec![token as i32, below(5) as i32]), Some(vec![below(40) as i32 - 10])]
                        [below(3)]
                    .clone()
                }
                11 => tiny.family = [Family::ByteLevelBpe, Family::MetaspaceBpe][below(2)],
                _ => tiny.tokens.swap(token, 0),
            }
        }
        match tiny.build() {
            Err(error) => {
                assert!(error.place().is_some(), "{error}");
                refused += 1;
            }
            Ok(tokenizer) => {
                built += 1;
                for text in texts {
                    assert!(tokenizer.encode(text).iter().all(|&id| id < tokenizer.n_tokens()));
                }
            }
        }
    }
    println!("{built} built, {refused} refused");
    assert!(built > 2_000 && refused > 2_000, "{built} built, {refused} refused");
}

/// The keys of the metaspace vocabulary, changed.
fn keys(change: impl FnOnce(&mut crate::gguf::Writer)) -> Result<Tokenizer, crate::Error> {
    let tiny = metaspace();
    let mut writer = crate::gguf::Writer::new();
    writer.set("general.architecture", "laya");
    writer.set("tokenizer.ggml.tokens", tiny.tokens.iter().collect::<Strings>());
    writer.set("tokenizer.ggml.token_type", tiny.types.clone());
    writer.set("tokenizer.ggml.merges", tiny.merges.iter().collect::<Strings>());
    change(&mut writer);
    let bytes = writer.to_bytes(|_, _| Ok(())).unwrap();
    Tokenizer::from_gguf(&crate::gguf::File::from_bytes(bytes).unwrap())
}

#[test]
fn keys_of_a_file() {
    let place = |result: Result<Tokenizer, crate::Error>| result.unwrap_err().place().unwrap().to_string();
    assert_eq!(keys(|_| {}).unwrap().encode("ab"), [13]);
    // A file without merges has no such key.
    assert_eq!(keys(|w| assert!(w.remove("tokenizer.ggml.merges"))).unwrap().encode("ab"), [8, 9, 10]);
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.token_type"] {
        assert_eq!(place(keys(|w| assert!(w.remove(key)))), format!("key {key}"));
    }
    for key in
        ["tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type", "decision.laya.added_tokens"]
    {
        assert_eq!(place(keys(|w| w.set(key, vec![1u8, 2]))), format!("key {key}"));
    }
    for role in ["bos", "eos", "seperator", "mask", "unknown", "padding"] {
        let key = format!("tokenizer.ggml.{role}_token_id");
        assert_eq!(place(keys(|w| w.set(&key, 20u32))), format!("key {key}"));
        assert_eq!(place(keys(|w| w.set(&key, "x"))), format!("key {key}"));
    }
    for (key, value) in [("decision.laya.tokenizer", "wordpiece"), ("decision.laya.normalizer", "nfc")] {
        let error = keys(|w| w.set(key, value)).unwrap_err();
        assert_eq!(
            (error.kind(), error.place().unwrap().to_string()),
            (crate::ErrorKind::Unsupported, format!("key {key}"))
        );
    }
    // `eos` stands in for a missing `seperator`; flags in the file replace the built-in one of the mask token.
    let tokenizer = keys(|w| {
        w.set("tokenizer.ggml.eos_token_id", 2u32);
        w.set("decision.laya.added_tokens", vec![1i32, 1]);
    });
    let tokenizer = tokenizer.unwrap();
    assert_eq!(tokenizer.special().sep, 2);
    assert_eq!(tokenizer.encode("a <mask> <eos>"), [11, 8, 4, 1]);
}

#[test]
fn a_tokenizer_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Tokenizer>();
}
