//! Questions in the less usual of the allowed shapes.
//!
//! Only those that the published package takes: `options` in place of `criteria` is ours alone, so that no run of it could
//! be compared.

use crate::json::{self, Object, Value};

/// One question each.
pub(super) const QUESTIONS: [&str; 18] = [
    r#"{"type": "choice", "instructions": "Which team?", "criteria": ["office", "store", "technical"]}"#,
    r#"{"type": "choice", "instructions": "Which team?", "criteria": {"office": "letters", "store": null, "technical": ""}}"#,
    r#"{"type": "choice", "instructions": "Which team?", "criteria": ["office", "store"], "options": ["not read"], "weight": 3}"#,
    r#"{"type": "choice", "instructions": "Which number?", "criteria": ["1", "2", "3", "10"]}"#,
    r#"{"type": "choice", "instructions": "Which number?", "criteria": [1, 2, 3, 10]}"#,
    r#"{"type": "choice", "instructions": "Which amount?", "criteria": [0.5, 2.0, 1e-07, -3]}"#,
    r#"{"type": "choice", "instructions": "Is that so?", "criteria": [true, false]}"#,
    r#"{"type": "choice", "instructions": "Which of these?", "criteria": ["", "blank", " "]}"#,
    r#"{"type": "choice", "instructions": "Same words", "criteria": {"first": "the same", "First": "the same", "first ": null}}"#,
    r#"{"type": "score", "instructions": "How many?", "criteria": [0, "one", 2.5, true]}"#,
    r#"{"type": "score", "instructions": ["How", "many", 2], "criteria": ["none", "some", "all", "all"]}"#,
    r#"{"type": "noul", "instructions": "Is it calm?", "labels": {"false": "calm", "true": "loud"}}"#,
    r#"{"type": "noul", "instructions": "Is it loud?", "labels": {"true": " loud ", "false": "calm"}, "criteria": {"true": "somebody shouts"}}"#,
    r#"{"type": "noul", "instructions": "Is it late?", "criteria": {"True": "after the date", "FALSE": "in time"}}"#,
    r#"{"type": "noul", "instructions": "Is it late?", "criteria": null}"#,
    r#"{"type": "noul", "instructions": {"ask": "Is it late?", "lang": "en"}, "criteria": {}}"#,
    r#"{"type": "noul", "instructions": ""}"#,
    r#"{"type": "choice", "instructions": 2031.5, "criteria": {"a": "one", "b": "two"}}"#,
];

/// The `i`th of [`QUESTIONS`].
pub(super) fn questions(i: usize) -> Object {
    let question = QUESTIONS.get(i).and_then(|text| json::parse(text.as_bytes()).ok());
    Object::from_iter([("q", question.unwrap_or(Value::Null))])
}
