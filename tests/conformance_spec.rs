//! The published cases of `decision.spec`.
//!
//! The published file is read from `../shared/conformance` when it is there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use laya::json::{self, Value};
use laya::spec::{self, Spec};

#[test]
fn every_published_case() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance/engine/spec_cases.json");
    let Ok(bytes) = std::fs::read(path) else {
        println!("skipped: no ../shared");
        return;
    };
    let cases = json::parse(&bytes).unwrap();
    let cases = cases.as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let name = case.get("name").and_then(Value::as_str).unwrap();
        let ok = case.get("ok").and_then(Value::as_bool).unwrap();
        let text = case.get("spec").unwrap().dumps();
        let problems = spec::check(text.as_bytes());
        assert_eq!(problems.is_empty(), Spec::parse(text.as_bytes()).is_ok());
        // Whatever is wrong has a path, but for a text that is no object.
        let located = problems.iter().all(|problem| !problem.path.is_empty()) || !text.starts_with('{');
        if problems.is_empty() != ok || !located {
            wrong.push(format!("{name} {ok} {text}: {problems:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(cases.len(), 98);
}
