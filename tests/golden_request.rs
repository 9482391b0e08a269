//! Request bodies against what the published package reads in them (`scripts/gen_request_golden.py`).

#![allow(clippy::expect_used, reason = "a test stops at the first surprise")]

use laya::json::{self, Value};
use laya::request::{Limits, Reason, Request};
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).expect("a text")
}

fn texts(case: &Value, key: &str) -> Vec<String> {
    let items = case.get(key).and_then(Value::as_array).expect("a list");
    items.iter().map(|item| item.as_str().expect("a text").to_owned()).collect()
}

#[test]
fn bodies_are_read_and_refused_as_the_published_package_does() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/request/cases.jsonl");
    let golden = fs::read_to_string(path).expect("the golden file");
    let (mut n_read, mut n_refused, mut n_stricter) = (0, 0, 0);
    for line in golden.split_terminator('\n') {
        let case = json::parse(line.as_bytes()).expect("a case");
        let name = text(&case, "name");
        let outcome = Request::from_bytes(text(&case, "body").as_bytes(), &Limits::default());
        if case.get("refused").is_some() {
            let error = outcome.expect_err(name);
            let core = text(&case, "refused");
            if core.starts_with("unhashable type") {
                // The package fails on a list or object as type without naming the question; here it is a wrong type.
                assert_eq!(error.reason, Reason::UnknownQuestionType, "{name}");
            } else {
                assert!(error.message.starts_with(core), "{name}: {:?} does not start with {core:?}", error.message);
            }
            assert!(error.param.starts_with("questions") || error.param == "state", "{name}: {}", error.param);
            n_refused += 1;
            continue;
        }
        let expected = case.get("questions").and_then(Value::as_array).expect("questions");
        let repeats = |question: &Value| {
            let keys = texts(question, "keys");
            keys.iter().collect::<HashSet<_>>().len() < keys.len()
        };
        if expected.iter().any(repeats) {
            // The package writes the same key twice; here that is refused.
            assert_eq!(outcome.expect_err(name).reason, Reason::UnsupportedCriteriaValue, "{name}");
            n_stricter += 1;
            continue;
        }
        let request = outcome.expect(name);
        assert_eq!(request.state_text(), text(&case, "state"), "{name}");
        assert_eq!(request.questions.len(), expected.len(), "{name}");
        for (question, expected) in request.questions.iter().zip(expected) {
            assert_eq!(question.id, text(expected, "id"), "{name}");
            assert_eq!(question.kind.as_str(), text(expected, "type"), "{name}");
            assert_eq!(question.instructions, text(expected, "instructions"), "{name}");
            assert_eq!(question.options, texts(expected, "options"), "{name}");
            assert_eq!(question.answer_keys, texts(expected, "keys"), "{name}");
            assert_eq!(question.labels.len(), question.options.len(), "{name}");
        }
        n_read += 1;
    }
    eprintln!("{n_read} read alike, {n_refused} refused alike, {n_stricter} refused for a repeated answer key");
    assert!(n_read >= 80 && n_refused >= 80 && n_stricter == 3);
}

#[test]
fn damaged_bodies_never_panic() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/request/cases.jsonl");
    let golden = fs::read_to_string(path).expect("the golden file");
    let mut state = 5_u64;
    let mut below = |n: usize| {
        // A linear congruential generator; its high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    // Swapping two words of a body keeps it JSON more often than changing bytes does.
    let words =
        ["null", "[]", "{}", "1", "\"\"", "true", "\"choice\"", "\"noul\"", "\"score\"", "[null]", "{\"true\": 1}"];
    let (mut n_read, mut n_refused) = (0, 0);
    for line in golden.split_terminator('\n') {
        let case = json::parse(line.as_bytes()).expect("a case");
        let body = text(&case, "body");
        for _ in 0..100 {
            let starts: Vec<usize> = body.match_indices([':', ',', '[']).map(|(at, _)| at + 1).collect();
            let mut damaged = body.to_owned();
            if !starts.is_empty() {
                let start = starts[below(starts.len())];
                let end = body[start..].find([',', '}', ']']).map_or(body.len(), |length| start + length);
                damaged.replace_range(start..end, words[below(words.len())]);
            }
            let limits = Limits { max_questions: Some(2), max_options: Some(8) };
            match Request::from_bytes(damaged.as_bytes(), &limits) {
                Ok(request) => {
                    assert!(request.questions.iter().all(|q| !q.options.is_empty() && q.options.len() <= 8));
                    n_read += 1;
                }
                Err(error) => {
                    assert!(!error.message.is_empty() && error.reason.as_str().is_ascii());
                    n_refused += 1;
                }
            }
        }
    }
    eprintln!("{n_read} damaged bodies read, {n_refused} refused");
    assert!(n_read > 500 && n_refused > 5000);
}
