//! The tokenizer against the `tokenizers` crate, loaded from the same `tokenizer.json`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod random;
mod vocabulary;

use std::path::Path;
use std::time::Instant;

use laya::convert::vocabulary_gguf;
use laya::json;
use laya::tokenizer::Tokenizer;
use random::SplitMix64 as Random;
use vocabulary::{shared, tokenizer, tokenizer_json};

/// Both implementations of one vocabulary.
struct Pair {
    name: &'static str,
    ours: Tokenizer,
    theirs: tokenizers::Tokenizer,
    /// Texts of the added tokens.
    added: Vec<String>,
}

impl Pair {
    fn load(name: &'static str) -> Option<Self> {
        Some(Self::from_json(name, &tokenizer_json(name)?))
    }

    fn from_json(name: &'static str, json: &Path) -> Self {
        let ours = Tokenizer::from_gguf(&vocabulary_gguf(json).unwrap()).unwrap();
        let theirs = tokenizers::Tokenizer::from_file(json).unwrap();
        let mut added: Vec<String> =
            theirs.get_added_tokens_decoder().into_values().map(|token| token.content).collect();
        added.sort();
        Self { name, ours, theirs, added }
    }

    fn check(&self, text: &str) {
        let expected = self.theirs.encode_fast(text, false).unwrap();
        let ours = self.ours.encode(text);
        if ours != expected.get_ids() {
            let spell = |ids: &[u32]| -> Vec<String> {
                ids.iter()
                    .map(|&id| String::from_utf8_lossy(self.ours.token(id).unwrap_or(b"?")).into_owned())
                    .collect()
            };
            panic!("{} {text:?}\n  ours {:?}\ntheirs {:?}", self.name, spell(&ours), spell(expected.get_ids()));
        }
    }
}

fn pairs() -> impl Iterator<Item = Pair> {
    ["english", "multilingual"].into_iter().filter_map(Pair::load)
}

impl Random {
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn char_in(&mut self, (first, last): (u32, u32)) -> char {
        let c = first + self.below((last - first + 1) as usize) as u32;
        char::from_u32(c).unwrap_or('\u{FFFD}')
    }
}

const SCRIPTS: &[(u32, u32)] = &[
    (0x61, 0x7A),
    (0x41, 0x5A),
    (0x30, 0x39),
    (0x21, 0x2F),
    (0xA1, 0x24F),
    (0x370, 0x3FF),
    (0x400, 0x52F),
    (0x5D0, 0x5EA),
    (0x600, 0x6FF),
    (0x900, 0x97F),
    (0x980, 0x9FF),
    (0xB80, 0xBFF),
    (0xE00, 0xE7F),
    (0xF00, 0xFFF),
    (0x1000, 0x109F),
    (0x1100, 0x11FF),
    (0x1780, 0x17FF),
    (0x1E00, 0x1FFF),
    (0x2000, 0x206F),
    (0x2070, 0x218F),
    (0x2190, 0x2BFF),
    (0x3000, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0xFB1D, 0xFDFF),
    (0xFE00, 0xFE2F),
    (0xFF00, 0xFFEF),
    (0x10000, 0x102FF),
    (0x10D40, 0x10D8F),
    (0x11900, 0x119FF),
    (0x16D40, 0x16D7F),
    (0x1D100, 0x1D1FF),
    (0x1D400, 0x1D7FF),
    (0x1E4D0, 0x1E5FF),
    (0x1F300, 0x1FAFF),
    (0x20000, 0x2A6DF),
    (0x2F800, 0x2FA1F),
    (0x31350, 0x3347F),
    (0xE0000, 0xE01EF),
];

/// Marks of many combining classes.
const MARKS: &[(u32, u32)] = &[
    (0x300, 0x36F),
    (0x483, 0x487),
    (0x591, 0x5BD),
    (0x64B, 0x65F),
    (0x93C, 0x93C),
    (0x94D, 0x94D),
    (0x1AB0, 0x1ACE),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20F0),
    (0x3099, 0x309A),
    (0x10D69, 0x10D6D),
    (0x1D165, 0x1D172),
    (0x1E4EC, 0x1E4EF),
];

const SPACES: &[&str] = &[
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\t\t",
    "\u{a0}",
    "\u{85}",
    "\u{2028}",
    "\u{3000}",
    "\u{200b}",
    "\u{180e}",
    "\u{feff}",
    "\u{b}",
    "\u{2581}",
    "\u{2581}\u{2581}",
];

const ODD: &[&str] = &[
    "'s",
    "'t",
    "'re",
    "'ve",
    "'m",
    "'ll",
    "'d",
    "'S",
    "''",
    "\u{2019}s",
    "\\ud800",
    "\u{fffd}",
    "\u{0}",
    "\u{7f}",
    "\u{9f}",
    "\u{fffe}",
    "\u{10ffff}",
    "<0x41>",
    "<0xE2>",
    "\u{120}",
    "\u{10a}",
    "\u{c3}\u{a9}",
    "e\u{301}",
    "\u{212b}",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "\u{1f3fd}",
    "\u{fe0f}",
    "\u{1f1f8}\u{1f1ea}",
    "{\"a\": [1, 2.5e-7]}",
    "https://x.y/z?q=1&r=%20",
    "0x7fff_ffff",
    "///",
    "----",
    "====",
    "...",
    "|||",
    "<|",
    "[unused",
    "</",
    "aGVsbG8gd29ybGQ=",
];

fn random_text(random: &mut Random, added: &[String]) -> String {
    let mut text = String::new();
    let script = *random.pick(SCRIPTS);
    for _ in 0..1 + random.below(24) {
        match random.below(16) {
            0..=3 => (0..1 + random.below(9)).for_each(|_| text.push(random.char_in(script))),
            4 | 5 => {
                let script = *random.pick(SCRIPTS);
                (0..1 + random.below(6)).for_each(|_| text.push(random.char_in(script)));
            }
            6 => (0..1 + random.below(8)).for_each(|_| text.push(random.char_in((0x61, 0x7A)))),
            7 => (0..1 + random.below(5)).for_each(|_| {
                let marks = *random.pick(MARKS);
                text.push(random.char_in(marks));
            }),
            8..=10 => text.push_str(SPACES[random.below(SPACES.len())]),
            11 => text.push_str(&SPACES[random.below(SPACES.len())].repeat(1 + random.below(40))),
            12 => text.push_str(random.pick(added).as_str()),
            13 => {
                // Part of an added token.
                let token = random.pick(added);
                text.extend(token.chars().take(1 + random.below(token.chars().count())));
            }
            14 => text.push_str(ODD[random.below(ODD.len())]),
            _ => text.push(random.char_in((0, 0x10FFFF))),
        }
    }
    text
}

#[test]
fn random_texts() {
    const N: usize = 12_000;
    for pair in pairs() {
        let mut random = Random(20_260_930);
        let mut n_bytes = 0;
        for _ in 0..N {
            let text = random_text(&mut random, &pair.added);
            n_bytes += text.len();
            pair.check(&text);
        }
        println!("{}: {N} random texts, {n_bytes} bytes, 0 differences", pair.name);
    }
}

fn without_spaced_merges(tokenizer_json: &str) -> String {
    let mut value = json::parse(tokenizer_json.as_bytes()).unwrap();
    let json::Value::Object(root) = &mut value else { panic!("not an object") };
    let Some(json::Value::Object(model)) = root.get_mut("model") else { panic!("no model") };
    let Some(json::Value::Array(merges)) = model.get_mut("merges") else { panic!("no merges") };
    merges.retain(|merge| !merge.dumps().contains("\" "));
    value.dumps()
}

/// Vocabularies of twenty tokens leave most text unknown, which the real ones never do.
#[test]
fn tiny_vocabularies() {
    let alphabet = [
        "a", "b", "c", "ab", " ", "  ", "\u{2581}", "\u{e9}", "e\u{301}", "A", "\u{4e2d}", "\n", "!", "x", "y",
        "[MASK]", "<mask>",
    ];
    for (name, folder) in [("metaspace", "laya-tiny-ms-v0.1-8M"), ("bytelevel", "laya-bl-tiny-instruct-30K")] {
        let Some(json) = shared(&format!("conformance/engine/convert/{folder}/tokenizer/tokenizer.json")) else {
            return;
        };
        // The last merge of the second is (space, a). A GGUF spells it like (U+0120, a), which then takes its rank, so a
        // file with both cannot give the ids of the original; everything else can be compared.
        let json = std::fs::read_to_string(json).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), without_spaced_merges(&json)).unwrap();
        let json = file.path().to_owned();
        let pair = Pair::from_json(name, &json);
        let mut random = Random(3);
        for _ in 0..20_000 {
            let text: String = (0..random.below(12)).map(|_| *random.pick(&alphabet)).collect();
            pair.check(&text);
        }
    }
}

#[test]
fn naughty_strings_and_llama_cpp_texts() {
    let Some(blns) = shared("conformance/torture/blns.json") else { return };
    let blns = json::parse(&std::fs::read(blns).unwrap()).unwrap();
    let mut texts: Vec<String> =
        blns.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    assert!(texts.len() > 500);
    for name in ["llamacpp_vocab.inp", "llamacpp_vocab_qwen35.inp"] {
        let file = std::fs::read_to_string(shared(&format!("conformance/torture/{name}")).unwrap()).unwrap();
        texts.extend(file.split("\n__ggml_vocab_test__\n").map(str::to_owned));
    }
    for name in ["small", "mixed", "utf8"] {
        let file =
            std::fs::read_to_string(shared(&format!("conformance/torture/kitoken_{name}_input.txt")).unwrap()).unwrap();
        texts.extend(file.lines().map(str::to_owned));
        texts.push(file);
    }
    for pair in pairs() {
        texts.iter().for_each(|text| pair.check(text));
        println!("{}: {} texts", pair.name, texts.len());
    }
}

#[test]
fn long_words_stay_exact() {
    for pair in pairs() {
        let mut random = Random(7);
        for script in [(0x61, 0x7A), (0x61, 0x62), (0x4E00, 0x9FFF), (0x3041, 0x3096), (0x41, 0x41), (0xE01, 0xE3A)] {
            for n in [47, 48, 49, 50, 200, 4_096, 4_097, 20_000] {
                let text: String = (0..n).map(|_| random.char_in(script)).collect();
                pair.check(&text);
            }
        }
    }
}

#[test]
fn time_grows_with_the_text_not_its_square() {
    for name in ["english", "multilingual"] {
        let Some(tokenizer) = tokenizer(name) else { return };
        let mut random = Random(9);
        let scripts =
            [(0x61, 0x7A), (0x61, 0x61), (0x4E00, 0x9FFF), (0x20, 0x20), (0x0A, 0x0A), (0x301, 0x302), (0x3C, 0x3C)];
        for (at, script) in scripts.into_iter().enumerate() {
            // Ten megabytes of the slowest kind, one of each.
            for n_bytes in if at == 0 { &[1 << 20, 10 << 20][..] } else { &[1 << 20] } {
                let mut text = String::new();
                while text.len() < *n_bytes {
                    text.push(random.char_in(script));
                }
                let start = Instant::now();
                let n = tokenizer.encode(&text).len();
                let seconds = start.elapsed().as_secs_f64();
                println!("{name} U+{:04X}.. {n_bytes} bytes: {n} tokens, {seconds:.3} s", script.0);
                // A square would take hours; the bound leaves room for busy machines.
                assert!(seconds < 60.0, "{name} U+{:04X}: {seconds} s", script.0);
            }
        }
    }
}
