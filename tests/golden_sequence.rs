//! Rows against those of the published package under budgets that cut (`scripts/gen_sequence_golden.py`).

#![allow(clippy::expect_used, reason = "a test stops at the first surprise")]

use laya::json::{self, Object, Value};
use laya::request::{Reason, Request};
use laya::sequence::{Budget, Encode, StateTokens, build};
use std::fs;
use std::path::PathBuf;

/// One token a character, as in the script.
struct Letters;

impl Encode for Letters {
    fn encode(&self, text: &str) -> Vec<u32> {
        text.chars().map(u32::from).collect()
    }
    fn cls(&self) -> u32 {
        u32::from('<')
    }
    fn sep(&self) -> u32 {
        u32::from('|')
    }
    fn mask(&self) -> u32 {
        u32::from('*')
    }
    fn mask_text(&self) -> &str {
        "[M]"
    }
}

fn number(value: &Value, key: &str) -> usize {
    value.get(key).and_then(Value::as_u64).expect("a number") as usize
}

#[test]
fn rows_are_cut_as_the_published_package_cuts_them() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/sequence/cases.jsonl");
    let golden = fs::read_to_string(path).expect("the golden file");
    let (mut n_rows, mut n_refused, mut n_capped, mut n_left_cut) = (0, 0, 0, 0);
    for (line, n_line) in golden.split_terminator('\n').zip(1..) {
        let case = json::parse(line.as_bytes()).expect("a case");
        let questions: Object = [("q", case.get("question").cloned())].into_iter().collect();
        let body: Object =
            [("state", case.get("state").cloned()), ("questions", Some(Value::from(questions)))].into_iter().collect();
        let request = Request::parse(&Value::from(body)).expect("a request");
        let state = StateTokens::new(&Letters, &request);
        let budget = Budget { max_len: number(&case, "max_len"), head_max_len: number(&case, "head_max_len") };
        let outcome = build(&Letters, &request.questions[0], &state, budget);
        if let Some(refusal) = case.get("refused").and_then(Value::as_str) {
            let error = outcome.expect_err(refusal);
            assert_eq!(error.reason, Reason::OptionsTruncated);
            assert!(error.message.starts_with(refusal), "line {n_line}: {}", error.message);
            n_refused += 1;
            continue;
        }
        let row = outcome.expect("a row");
        let shown: String = row.ids.iter().filter_map(|id| char::from_u32(*id)).collect();
        assert_eq!(Some(shown.as_str()), case.get("row").and_then(Value::as_str), "line {n_line}");
        let markers: Value = row.markers.iter().copied().collect();
        assert_eq!(Some(&markers), case.get("markers"), "line {n_line}");
        let expected = case.get("options").expect("statistics");
        assert_eq!(row.facts.options, number(expected, "options"), "line {n_line}");
        assert_eq!(row.facts.options_distinct, number(expected, "options_distinct"), "line {n_line}");
        let cap = Value::from(row.facts.tokens_per_option);
        assert_eq!(Some(&cap), expected.get("tokens_per_option"), "line {n_line}");
        n_rows += 1;
        n_capped += usize::from(row.facts.tokens_per_option.is_some());
        n_left_cut += usize::from(row.facts.state_cut && state.is_list && row.facts.state_tokens_used > 0);
    }
    eprintln!("{n_rows} rows, {n_capped} with capped options, {n_left_cut} cut from the left, {n_refused} refused");
    assert!(n_rows >= 80 && n_refused >= 20 && n_capped >= 30 && n_left_cut >= 3);
}
