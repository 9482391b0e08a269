//! Rows against those of the published package on the two real vocabularies.
//!
//! The published files are read from `../shared` when it is there. Every row is built twice: with Hugging Face's own
//! tokenizer, where a difference is one of the row building, and with ours.

#![allow(clippy::expect_used, reason = "a test stops at the first surprise")]

#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]
mod vocabulary;

use laya::json::{self, Object, Value};
use laya::request::Request;
use laya::sequence::{Budget, Encode, Sequence, StateTokens, build};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use vocabulary::{items, shared, text};

fn read(path: &Path) -> Value {
    json::parse(&fs::read(path).expect("a readable file")).expect("JSON")
}

fn ids(value: &Value, key: &str) -> Vec<u32> {
    items(value, key).iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()).expect("an id")).collect()
}

fn number(value: &Value, key: &str) -> usize {
    value.get(key).and_then(Value::as_u64).expect("a number") as usize
}

/// Hugging Face's tokenizer with the special tokens of its checkpoint.
struct HuggingFace {
    tokenizer: tokenizers::Tokenizer,
    cls: &'static str,
    sep: &'static str,
    mask: &'static str,
}

impl HuggingFace {
    fn new(file: &str, [cls, sep, mask]: [&'static str; 3]) -> Option<Self> {
        let path = shared("tokenizers")?.join(file);
        let mut tokenizer = tokenizers::Tokenizer::from_file(path).expect("a tokenizer");
        tokenizer.with_truncation(None).expect("no truncation").with_padding(None);
        Some(Self { tokenizer, cls, sep, mask })
    }

    fn english() -> Option<Self> {
        Self::new("laya-english.tokenizer.json", ["[CLS]", "[SEP]", "[MASK]"])
    }

    fn multilingual() -> Option<Self> {
        Self::new("laya-multilingual.tokenizer.json", ["<bos>", "<eos>", "<mask>"])
    }
}

impl Encode for HuggingFace {
    fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode_fast(text, false).expect("ids").get_ids().to_vec()
    }
    fn cls(&self) -> u32 {
        self.tokenizer.token_to_id(self.cls).expect("an id")
    }
    fn sep(&self) -> u32 {
        self.tokenizer.token_to_id(self.sep).expect("an id")
    }
    fn mask(&self) -> u32 {
        self.tokenizer.token_to_id(self.mask).expect("an id")
    }
    fn mask_text(&self) -> &str {
        self.mask
    }
}

fn object<const N: usize>(entries: [(&str, Option<&Value>); N]) -> Value {
    Value::from(entries.into_iter().map(|(key, value)| (key, value.cloned())).collect::<Object>())
}

fn rows(tokenizer: &impl Encode, request: &Request, budget: Budget) -> Vec<Sequence> {
    let state = StateTokens::new(tokenizer, request);
    let row = |question| build(tokenizer, question, &state, budget).expect("a row");
    request.questions.iter().map(row).collect()
}

/// Every row of `sequence_golden.jsonl` under the key `side`.
fn check_golden_rows(tokenizer: &impl Encode, side: &str, budget: Budget) {
    let Some(folder) = shared("conformance") else { return };
    let cases = fs::read_to_string(folder.join("labelled/jevbench240_cases.jsonl")).expect("the cases");
    let cases = cases.lines().map(|line| json::parse(line.as_bytes()).expect("a case"));
    let cases: HashMap<String, Value> = cases.map(|case| (text(&case, "id").to_owned(), case)).collect();
    let golden = fs::read_to_string(folder.join("sequence/sequence_golden.jsonl")).expect("the rows");
    let mut n_rows = 0;
    for line in golden.lines() {
        let golden = json::parse(line.as_bytes()).expect("a row");
        let id = text(&golden, "id");
        let (name, question, state) = match golden.get("q") {
            Some(question) => ("q", Some(question), golden.get("state")),
            None => {
                let (name, case) = (text(&golden, "question"), &cases[id]);
                (name, case.get("questions").and_then(|questions| questions.get(name)), case.get("state"))
            }
        };
        let questions = object([(name, question)]);
        let request = Request::parse(&object([("state", state), ("questions", Some(&questions))])).expect("a request");
        let row = &rows(tokenizer, &request, budget)[0];
        let expected = golden.get(side).expect("a side");
        assert_eq!(row.ids, ids(expected, "ids"), "{side} {id} {name}");
        assert_eq!(row.markers, ids(expected, "markers"), "{side} {id} {name}");
        let (stats, cut) = (expected.get("stats").expect("stats"), expected.get("trunc").expect("cuts"));
        let facts = row.facts;
        assert_eq!(facts.options, number(stats, "options"), "{side} {id}");
        assert_eq!(facts.options_distinct, number(stats, "options_distinct"), "{side} {id}");
        assert_eq!(Some(&Value::from(facts.tokens_per_option)), stats.get("tokens_per_option"), "{side} {id}");
        assert_eq!(facts.state_tokens, number(cut, "state_tokens"), "{side} {id}");
        assert_eq!(facts.state_tokens_used, number(cut, "state_tokens_used"), "{side} {id}");
        assert_eq!(facts.state_tokens_dropped(), number(cut, "state_tokens_dropped"), "{side} {id}");
        assert_eq!(Some(facts.state_cut), cut.get("truncated").and_then(Value::as_bool), "{side} {id}");
        n_rows += 1;
    }
    eprintln!("{n_rows} {side} rows");
    assert_eq!(n_rows, 126);
}

/// Every question of a folder of `laya-published`: state text, option texts, ids and markers.
fn check_published(tokenizer: &impl Encode, folder: &str, n_expected: usize) {
    let Some(folder) = shared("conformance/laya-published").map(|path| path.join(folder)) else { return };
    let meta = read(&folder.join("meta.json"));
    let budget = Budget { max_len: number(&meta, "max_len"), head_max_len: number(&meta, "head_max_len") };
    let special = meta.get("special_tokens").expect("special tokens");
    assert_eq!(tokenizer.cls() as usize, number(special, "cls_id"));
    assert_eq!(tokenizer.sep() as usize, number(special, "sep_id"));
    assert_eq!(tokenizer.mask() as usize, number(special, "mask_id"));
    assert_eq!(tokenizer.mask_text(), text(special, "mask_token"));
    let mut n_questions = 0;
    for entry in fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.ends_with("meta.json") {
            continue;
        }
        let case = read(&path);
        // A shortlist asks about fewer labels than it was given.
        let questions = case.get("reduced_questions").or_else(|| case.get("questions"));
        let body = object([("state", case.get("state")), ("questions", questions)]);
        let request = Request::parse(&body).expect("a request");
        let place = path.display();
        assert_eq!(request.state_text(), text(&case, "serialized_state"), "{place}");
        let expected = items(&case, "per_question");
        assert_eq!(request.questions.len(), expected.len(), "{place}");
        let rows = rows(tokenizer, &request, budget);
        for ((question, row), expected) in request.questions.iter().zip(&rows).zip(expected) {
            assert_eq!(question.id, text(expected, "id"), "{place}");
            assert_eq!(question.kind.index(), number(expected, "qtype"), "{place}");
            let options: Value = question.options.iter().map(String::as_str).collect();
            assert_eq!(Some(&options), expected.get("options"), "{place}");
            assert_eq!(row.ids, ids(expected, "input_ids"), "{place} {}", question.id);
            assert_eq!(row.markers, ids(expected, "markers"), "{place} {}", question.id);
            assert_eq!(row.kind, question.kind);
            n_questions += 1;
        }
        let n_tokens: usize = rows.iter().map(|row| row.ids.len()).sum();
        let usage = case.get("result").and_then(|result| result.get("usage")).expect("usage");
        assert_eq!(n_tokens, number(usage, "input_tokens"), "{place}");
    }
    eprintln!("{n_questions} questions of {}", folder.display());
    assert_eq!(n_questions, n_expected);
}

const ENGLISH: Budget = Budget { max_len: 512, head_max_len: 192 };
const MULTILINGUAL: Budget = Budget { max_len: 1024, head_max_len: 256 };

#[test]
fn english_rows_are_the_published_ones() {
    let Some(tokenizer) = vocabulary::tokenizer("english") else { return };
    check_golden_rows(&tokenizer, "en", ENGLISH);
    check_published(&tokenizer, "typed-decisions", 28);
}

#[test]
fn multilingual_rows_are_the_published_ones() {
    let Some(tokenizer) = vocabulary::tokenizer("multilingual") else { return };
    check_golden_rows(&tokenizer, "ml", MULTILINGUAL);
    check_published(&tokenizer, "multilingual", 30);
}

#[test]
fn english_rows_of_hugging_faces_tokenizer_are_the_published_ones() {
    let Some(tokenizer) = HuggingFace::english() else { return };
    check_golden_rows(&tokenizer, "en", ENGLISH);
    check_published(&tokenizer, "typed-decisions", 28);
}

#[test]
fn multilingual_rows_of_hugging_faces_tokenizer_are_the_published_ones() {
    let Some(tokenizer) = HuggingFace::multilingual() else { return };
    check_golden_rows(&tokenizer, "ml", MULTILINGUAL);
    check_published(&tokenizer, "multilingual", 30);
}

/// The rows of the generated corpus, with both tokenizers; every kind of cut that it promises is there.
fn check_corpus(ours: &impl Encode, theirs: &impl Encode, budget: Budget, english: bool) {
    let (mut n_rows, mut n_tokens) = (0, 0);
    let mut cut = HashMap::new();
    for item in laya::parity::generator::items() {
        if english && !item.is_english() {
            continue;
        }
        let Ok(request) = Request::parse(&item.body) else { continue };
        let rows = rows(ours, &request, budget);
        assert_eq!(rows, self::rows(theirs, &request, budget), "{}", item.id);
        for facts in rows.iter().map(|row| row.facts) {
            let state = if request.state_is_list() { "list" } else { "text" };
            let crowded = facts.tokens_per_option.is_some();
            let found = [
                ("option", facts.options_cut && !crowded),
                ("crowded", crowded),
                ("head", facts.head_cut),
                (state, facts.state_cut),
            ];
            for (what, is_cut) in found {
                *cut.entry(what).or_insert(0) += usize::from(is_cut);
            }
        }
        n_rows += rows.len();
        n_tokens += rows.iter().map(|row| row.ids.len()).sum::<usize>();
    }
    println!("{n_rows} rows, {n_tokens} tokens, cut: {cut:?}");
    assert!(n_rows > if english { 900 } else { 1300 });
    assert!(n_tokens < 230 * n_rows, "the corpus stays affordable");
    for what in ["option", "crowded", "head", "list", "text"] {
        assert!(cut[what] >= 10, "{what}");
    }
}

#[test]
fn rows_of_the_corpus_are_the_same_with_both_tokenizers() {
    if let (Some(ours), Some(theirs)) = (vocabulary::tokenizer("english"), HuggingFace::english()) {
        check_corpus(&ours, &theirs, ENGLISH, true);
    }
    if let (Some(ours), Some(theirs)) = (vocabulary::tokenizer("multilingual"), HuggingFace::multilingual()) {
        check_corpus(&ours, &theirs, MULTILINGUAL, false);
    }
}
