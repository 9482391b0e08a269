//! The tokenizer against published ids: `../shared/conformance/tokenizer` and `torture`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod vocabulary;

use std::time::Instant;

use laya::convert::vocabulary_gguf;
use laya::gguf::File;
use laya::json::{self, Value};
use laya::tokenizer::Tokenizer;
use sha2::{Digest, Sha256};
use vocabulary::{items, shared, text, tokenizer};

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(shared(path)?).unwrap())
}

fn lines(path: &str) -> Option<Vec<Value>> {
    Some(read(path)?.lines().map(|line| json::parse(line.as_bytes()).unwrap()).collect())
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn both() -> Option<[(&'static str, Tokenizer); 2]> {
    Some([("en", tokenizer("english")?), ("ml", tokenizer("multilingual")?)])
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn little_endian(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

#[test]
fn published_ids() {
    let (Some(both), Some(golden)) = (both(), lines("conformance/tokenizer/tokenizer_golden.jsonl")) else { return };
    assert_eq!(golden.len(), 609);
    for row in &golden {
        for (language, tokenizer) in &both {
            assert_eq!(
                tokenizer.encode(text(row, "text")),
                ids(row.get(language).unwrap()),
                "{language}: {:?}",
                text(row, "text")
            );
        }
    }
    for ((_, tokenizer), (file, n)) in both.iter().zip([("cases", 253), ("multilingual", 270)]) {
        let cases = read(&format!("conformance/tokenizer/tokenizer-{file}.json")).unwrap();
        let cases = json::parse(cases.as_bytes()).unwrap();
        let cases = cases.as_array().unwrap();
        assert_eq!(cases.len(), n);
        for case in cases {
            assert_eq!(tokenizer.encode(text(case, "text")), ids(case.get("ids").unwrap()), "{:?}", text(case, "text"));
        }
    }
}

#[test]
fn declaration_of_human_rights_in_532_languages() {
    let (Some(both), Some(expected), Some(texts)) =
        (both(), lines("conformance/tokenizer/udhr_ids.jsonl"), lines("conformance/torture/udhr_500_languages.jsonl"))
    else {
        return;
    };
    assert_eq!((expected.len(), texts.len()), (532, 532));
    for (row, source) in expected.iter().zip(&texts) {
        assert_eq!(text(row, "lang"), text(source, "lang"));
        for (language, tokenizer) in &both {
            let ids = tokenizer.encode(text(source, "text"));
            let [n, digest] = items(row, language) else { panic!("{}", row.dumps()) };
            assert_eq!(ids.len() as u64, n.as_u64().unwrap(), "{language} {}", text(row, "lang"));
            // The files do not say how the ids are spelled for the hash; this is how.
            assert_eq!(hash(&little_endian(&ids)), digest.as_str().unwrap(), "{language} {}", text(row, "lang"));
        }
    }
}

#[test]
fn every_code_point_alone_and_in_context() {
    let (Some(both), Some(sweep)) = (both(), read("conformance/tokenizer/codepoint_sweep.tsv")) else { return };
    let mut blocks = 0;
    for line in sweep.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let block = u32::from_str_radix(fields[0], 16).unwrap() * 256;
        let points: Vec<char> = (block..block + 256).filter_map(char::from_u32).collect();
        for (at, (language, tokenizer)) in both.iter().enumerate() {
            let digest = |spell: &dyn Fn(char) -> String| {
                let mut bytes = Vec::new();
                for &c in &points {
                    let ids = tokenizer.encode(&spell(c));
                    bytes.extend((ids.len() as u32).to_le_bytes());
                    bytes.extend(little_endian(&ids));
                }
                hash(&bytes)
            };
            assert_eq!(digest(&|c| c.to_string()), fields[1 + at], "{language} alone, block {}", fields[0]);
            assert_eq!(
                digest(&|c| format!("a{c} {c}{c}b")),
                fields[3 + at],
                "{language} in context, block {}",
                fields[0]
            );
        }
        blocks += 1;
    }
    assert!(blocks >= 4344, "{blocks} blocks");
}

/// Input texts of a kitoken file and their ids. `small` spells line breaks and a final space as escapes.
fn kitoken(name: &str, kind: &str) -> Option<Vec<(String, Vec<u32>)>> {
    let input = read(&format!("conformance/torture/kitoken_{name}_input.txt"))?;
    let expected = read(&format!("conformance/torture/kitoken_{name}_tokens_{kind}.txt"))?;
    let parse =
        |line: &str| line.split(", ").filter(|id| !id.is_empty()).map(|id| id.trim().parse().unwrap()).collect();
    Some(match name {
        "utf8" => vec![(input, parse(&expected))],
        _ => {
            assert_eq!(input.lines().count(), expected.lines().count());
            let unescape =
                |line: &str| if name == "small" { line.replace("\\n", "\n").replace("\\s", " ") } else { line.into() };
            input.lines().map(unescape).zip(expected.lines().map(parse)).collect()
        }
    })
}

#[test]
fn kitoken_modernbert() {
    let Some(tokenizer) = tokenizer("english") else { return };
    let mut n = 0;
    for name in ["small", "mixed", "utf8"] {
        for (text, ids) in kitoken(name, "modernbert").unwrap() {
            assert_eq!(tokenizer.encode(&text), ids, "{name}: {text:?}");
            n += 1;
        }
    }
    assert_eq!(n, 141);
}

/// The Gemma ids of kitoken have the same vocabulary and merges, but no U+2581 in front of a stretch of text and no split
/// into words. Where a word stands between single spaces both come to the same ids, so those words are compared, in all
/// texts of one line.
#[test]
fn kitoken_gemma_words() {
    let Some(tokenizer) = tokenizer("multilingual") else { return };
    // Where each token starts in the text, in bytes.
    let starts = |ids: &[u32], from: usize| -> Vec<(usize, u32)> {
        let mut at = from;
        let len = |id| match tokenizer.token(id).unwrap() {
            [b'<', b'0', b'x', _, _, b'>'] => 1,
            token => token.len(),
        };
        ids.iter()
            .map(|&id| {
                let start = at;
                at += len(id);
                (start, id)
            })
            .collect()
    };
    let mut compared = 0;
    for (spaced, expected) in ["small", "mixed"].iter().flat_map(|name| kitoken(name, "gemma_spm").unwrap()) {
        let text = spaced.replace(' ', "\u{2581}");
        if text.contains(['\n', '\t', '<']) {
            continue; // an added token, after which a stretch starts anew
        }
        let prefix = if text.starts_with('\u{2581}') { 0 } else { 3 };
        let (ours, theirs) = (starts(&tokenizer.encode(&spaced), 0), starts(&expected, prefix));
        let mut at = prefix;
        for word in text.split('\u{2581}') {
            let before = at - prefix;
            let inside = |(start, _): &&(usize, u32)| (at - 3..at + word.len()).contains(start);
            if before > 0 && !word.is_empty() && !text[..before - 3].ends_with('\u{2581}') {
                let words = [&ours, &theirs].map(|all| all.iter().filter(inside).collect::<Vec<_>>());
                assert_eq!(words[0], words[1], "{word:?} in {text:?}");
                compared += 1;
            }
            at += word.len() + 3;
        }
    }
    println!("{compared} words");
    assert!(compared > 2_000, "{compared} words");
}

#[test]
fn what_users_reported() {
    let Some([(_, english), (_, multilingual)]) = both() else { return };
    // A decomposed accent joins in English only.
    assert_eq!(english.encode("cafe\u{301} is here").len(), 5);
    assert_eq!(english.encode("cafe\u{301} is here"), english.encode("caf\u{e9} is here"));
    assert_ne!(multilingual.encode("cafe\u{301} is here"), multilingual.encode("caf\u{e9} is here"));
    // No text, no tokens.
    assert!(english.encode("").is_empty());
    assert!(multilingual.encode("").is_empty());
    // Added tokens are single ids, longest first.
    let token = |id: u32| String::from_utf8_lossy(multilingual.token(id).unwrap()).into_owned();
    let spelled: Vec<String> = multilingual.encode("<table><td>\n\n\n</td>").into_iter().map(token).collect();
    assert_eq!(spelled, ["<table>", "<td>", "\n\n\n", "</td>"]);
    assert_eq!(english.token(english.encode("x [unused5]")[2]).unwrap(), b"[unused5]");
    // The mask token swallows the spaces before it.
    assert_eq!(english.encode("a [MASK] b"), [66, 50284, 270]);
    assert_eq!(multilingual.encode(" <mask>"), [multilingual.special().mask]);
    assert_eq!((english.mask_text(), multilingual.mask_text()), ("[MASK]", "<mask>"));
}

/// Best and median of ten: `cargo test --release --test conformance_tokenizer -- --ignored --nocapture`.
#[test]
#[ignore = "prints times"]
fn time_to_open() {
    let Some(json) = vocabulary::tokenizer_json("multilingual") else { return };
    let file = vocabulary_gguf(&json).unwrap();
    let path = std::env::temp_dir().join(format!("laya-time-to-open-{}.gguf", std::process::id()));
    std::fs::write(&path, file.map().bytes()).unwrap();
    let (mut open, mut build) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let start = Instant::now();
        let file = File::open(&path).unwrap();
        open.push(start.elapsed());
        let start = Instant::now();
        assert_eq!(Tokenizer::from_gguf(&file).unwrap().n_tokens(), 256_000);
        build.push(start.elapsed());
    }
    std::fs::remove_file(&path).unwrap();
    for (what, mut times) in [("File::open", open), ("Tokenizer::from_gguf", build)] {
        times.sort();
        println!("{what}: best {:?}, median {:?}", times[0], times[times.len() / 2]);
    }
}

#[test]
fn control_texts_are_the_published_ones_and_become_spaces() {
    let (Some(both), Some(cases)) = (both(), lines("conformance/engine/router_cases.jsonl")) else { return };
    let sets = cases[0].get("control_sets").unwrap();
    for (language, tokenizer) in &both {
        let set = sets.get(language).unwrap();
        let published: Vec<_> = set.get("control").and_then(Value::as_array).unwrap().iter().collect();
        let published: Vec<_> = published.into_iter().map(|text| text.as_str().unwrap()).collect();
        assert_eq!(tokenizer.control_texts().collect::<Vec<_>>(), published, "{language}");
        assert_eq!(tokenizer.mask_text(), text(set, "mask"));
        // Replacing one after the other gives the same, in any order.
        let one_by_one = |text: &str| published.iter().fold(text.to_owned(), |text, token| text.replace(token, " "));
        for text in [
            String::new(),
            "nothing here, not even <un used1> or [ MASK ]".into(),
            format!("{} a{}b  {}", published[0], published[1], published[2]),
            published.concat(),
            published.iter().rev().map(|token| format!("{}{token}é{token}<", &token[..1])).collect(),
            format!("{}{}", &published[3][..2], published[3]),
        ] {
            assert_eq!(tokenizer.escape_control(&text), one_by_one(&text), "{language}: {text:?}");
            assert!(published.iter().all(|token| !tokenizer.escape_control(&text).contains(token)));
        }
    }
}
