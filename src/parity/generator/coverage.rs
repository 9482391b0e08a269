//! What the corpus must have in it.

use super::*;
use crate::json;
use crate::parity::Corpus;
use crate::request::{Limits, Request};
use std::collections::{BTreeSet, HashSet};

/// The one item that every implementation must refuse.
const REFUSED: &str = "scalar_state_0000";

fn text<'a>(question: &'a Value, key: &str) -> &'a str {
    question.get(key).and_then(Value::as_str).unwrap()
}

fn state(item: &Item) -> &Value {
    item.body.get("state").unwrap()
}

fn questions(item: &Item) -> impl Iterator<Item = (&str, &Value)> {
    item.body.get("questions").and_then(Value::as_object).unwrap().iter()
}

/// The JSON kind of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(json::Number::Double(_)) => "double",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

const EVERY_KIND: [&str; 7] = ["bool", "double", "integer", "list", "null", "object", "string"];

/// The type, the criteria and the labels of every question.
fn asked(items: &[Item]) -> impl Iterator<Item = (&str, &Value, &Value)> {
    items.iter().flat_map(questions).map(|(_, question)| {
        let part = |key| question.get(key).unwrap_or(&Value::Null);
        (text(question, "type"), part("criteria"), part("labels"))
    })
}

#[test]
fn the_same_bytes_come_out_every_time() {
    let first = jsonl();
    assert_eq!(first, jsonl());
    let read = Corpus::parse(first.as_bytes()).unwrap();
    assert_eq!(read.items, items(), "lines are read back as they were made");
    for line in first.lines() {
        let line = json::parse(line.as_bytes()).unwrap();
        assert!(line.as_object().unwrap().keys().eq(["id", "cat", "state", "questions"]));
    }
}

#[test]
fn the_record_is_of_this_corpus() {
    let description = Description::of(jsonl().as_bytes()).unwrap();
    assert_eq!(differences(&description), [""; 0], "parity-gate corpus --describe --json prints the new record");
    assert_eq!(description.refused, [REFUSED]);
    assert!(description.english.n_items >= 350);
    let changed = Description::of(jsonl().replacen("pier", "quay", 1).as_bytes()).unwrap();
    assert_eq!(differences(&changed), ["sha256"]);
}

#[test]
fn ids_are_unique_and_start_with_their_category() {
    let items = items();
    assert!((500..=620).contains(&items.len()), "{}", items.len());
    let ids: HashSet<_> = items.iter().map(|item| &item.id).collect();
    assert_eq!(ids.len(), items.len());
    for item in &items {
        let (category, number) = item.id.rsplit_once('_').unwrap();
        assert_eq!(category, item.category);
        assert!(number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit()));
    }
}

#[test]
fn every_item_is_a_request_but_the_one_without_a_state() {
    for item in items() {
        match Request::take(item.body, &Limits::default()) {
            Ok(request) => assert!(!request.questions.is_empty(), "{}", item.id),
            Err(error) => assert_eq!(item.id, REFUSED, "{}", error.message),
        }
    }
    let refused = items().into_iter().find(|item| item.id == REFUSED).unwrap();
    assert!(refused.has_null_state());
}

#[test]
fn every_number_of_options_is_asked_for_by_both_types() {
    let items = items();
    for language in [true, false] {
        let items: Vec<Item> = items.iter().filter(|item| item.to_line().is_ascii() == language).cloned().collect();
        for type_ in ["choice", "score"] {
            let counts: BTreeSet<usize> = asked(&items)
                .filter(|(t, ..)| *t == type_)
                .filter_map(|(_, criteria, _)| match criteria {
                    Value::Array(list) => Some(list.len()),
                    Value::Object(object) => Some(object.len()),
                    _ => None,
                })
                .collect();
            assert!(OPTION_COUNTS.into_iter().all(|n| counts.contains(&n)), "{type_} {counts:?}");
        }
    }
    for n in OPTION_COUNTS {
        let of_n: Vec<Item> = items.iter().filter(|item| item.category == format!("options_{n:02}")).cloned().collect();
        for (_, criteria, _) in asked(&of_n) {
            assert_eq!(criteria.as_array().map_or_else(|| criteria.as_object().unwrap().len(), <[_]>::len), n);
        }
        assert_eq!(asked(&of_n).count(), 6);
    }
}

#[test]
fn every_json_kind_is_a_state_and_a_criterion() {
    let items = items();
    let states: BTreeSet<_> = items.iter().map(|item| kind(state(item))).collect();
    assert!(states.iter().eq(&EVERY_KIND), "{states:?}");
    let empty: BTreeSet<_> = items.iter().map(|item| state(item).dumps()).filter(|t| t.len() == 2).collect();
    assert!(["\"\"", "[]", "{}"].iter().all(|state| empty.contains(*state)), "{empty:?}");
    for (type_, never) in [("choice", &[][..]), ("score", &["null"]), ("noul", &[])] {
        let mut kinds = BTreeSet::new();
        for (_, criteria, _) in asked(&items).filter(|(t, ..)| *t == type_) {
            match criteria {
                Value::Object(object) => kinds.extend(object.values().map(kind)),
                Value::Array(list) if type_ == "score" => kinds.extend(list.iter().map(kind)),
                _ => {}
            }
        }
        assert!(kinds.iter().eq(EVERY_KIND.iter().filter(|kind| !never.contains(kind))), "{type_} {kinds:?}");
    }
    let labels: BTreeSet<_> = asked(&items)
        .filter(|(t, ..)| *t == "choice")
        .flat_map(|(_, criteria, _)| criteria.as_array().unwrap_or_default())
        .map(kind)
        .collect();
    assert!(labels.iter().eq(&["bool", "double", "integer", "string"]), "{labels:?}");
    let instructions: BTreeSet<_> =
        items.iter().flat_map(questions).map(|(_, question)| kind(question.get("instructions").unwrap())).collect();
    assert!(["double", "list", "object", "string"].iter().all(|kind| instructions.contains(kind)), "{instructions:?}");
}

#[test]
fn a_noul_is_asked_with_every_part_and_without() {
    let items = items();
    let mut seen = BTreeSet::new();
    for (_, criteria, labels) in asked(&items).filter(|(t, ..)| *t == "noul") {
        seen.insert(match criteria.as_object().map(|object| object.keys().collect::<Vec<_>>()).as_deref() {
            None => "none",
            Some([]) => "empty",
            Some(["true"]) => "true",
            Some(["false"]) => "false",
            Some(["true", "false"]) => "turned",
            Some(["false", "true"]) => "both",
            Some(_) => "other spelling",
        });
        if !labels.is_null() {
            seen.insert("labels");
        }
    }
    let wanted = ["both", "empty", "false", "labels", "none", "other spelling", "true", "turned"];
    assert!(seen.iter().eq(&wanted), "{seen:?}");
}

#[test]
fn every_edge_text_is_a_state_and_in_a_question() {
    let items = items();
    let of = |category: &str| items.iter().filter(|item| item.category == category).collect::<Vec<_>>();
    let edges = of("edge_text");
    assert_eq!(edges.len(), edge::TEXTS.len());
    for (item, expected) in edges.iter().zip(edge::TEXTS) {
        let state = state(item);
        assert_eq!(state.as_str().or_else(|| state.get("text")?.as_str()), Some(*expected));
        let asked = item.body.get("questions").unwrap();
        assert!(text(asked.get("same").unwrap(), "instructions").ends_with(expected));
        let criteria = asked.get("which").unwrap().get("criteria").unwrap().as_object().unwrap();
        assert!(criteria.values().any(|value| value.as_str() == Some(*expected)));
    }
    let texts: HashSet<_> = edge::TEXTS.iter().collect();
    assert_eq!(texts.len(), edge::TEXTS.len());
    for language in LANGUAGES {
        assert_eq!(of(&format!("language_{language}")).len(), 3);
    }
}

#[test]
fn a_noul_is_one_of_its_kind_whatever_the_language() {
    // The lines of a language are for choice, score and noul, in this order.
    let texts = Texts::read();
    let mut random = Random::of(SEED, "test", 0);
    for language in LANGUAGES {
        let asked = QuestionType::ALL.map(|kind| question::instructions(&texts, &mut random, language, kind));
        assert_eq!(asked.as_slice(), texts.short("ask", language));
    }
}
