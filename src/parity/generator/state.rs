//! States of every JSON kind, short ones and ones that no window holds.

use super::edge;
use super::random::Random;
use super::text::{ENGLISH, Texts};
use crate::json::{Number, Object, Value};

/// Passages that are more than 1024 tokens in every language.
const LONG: usize = 15;

/// The kinds of states that sets of mixed questions are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sentence,
    Passage,
    Edge,
    Json,
    LongText,
    Flat,
    Nested,
    Numbers,
    LongObject,
    Turns,
    LongTurns,
    Texts,
    LongTexts,
    NumberList,
    Records,
    Mixed,
    Empty,
}

impl Kind {
    pub(super) const ALL: [(&'static str, Self); 17] = [
        ("state_sentence", Self::Sentence),
        ("state_passage", Self::Passage),
        ("state_edge", Self::Edge),
        ("state_json_text", Self::Json),
        ("state_long_text", Self::LongText),
        ("state_object", Self::Flat),
        ("state_nested", Self::Nested),
        ("state_numbers", Self::Numbers),
        ("state_long_object", Self::LongObject),
        ("state_turns", Self::Turns),
        ("state_long_turns", Self::LongTurns),
        ("state_texts", Self::Texts),
        ("state_long_texts", Self::LongTexts),
        ("state_number_list", Self::NumberList),
        ("state_records", Self::Records),
        ("state_mixed_list", Self::Mixed),
        ("state_empty", Self::Empty),
    ];

    /// Whether such a state is longer than every window.
    pub(super) fn is_long(self) -> bool {
        matches!(self, Self::LongText | Self::LongObject | Self::LongTurns | Self::LongTexts)
    }

    /// Draws a state, the `number`th of its kind.
    pub(super) fn draw(self, texts: &Texts, random: &mut Random, language: &str, number: usize) -> Value {
        match self {
            Self::Sentence => texts.sentence(random, language).into(),
            Self::Passage => texts.paragraphs(random, language, 1).into(),
            Self::Edge => Value::from(format!("{} {}", random.pick(edge::TEXTS), random.pick(edge::TEXTS))),
            Self::Json => form(texts, random, language).dumps().into(),
            Self::LongText => texts.paragraphs(random, language, LONG).into(),
            Self::Flat => form(texts, random, language),
            Self::Nested => nested(texts, random, language, 4),
            Self::Numbers => numbers(random),
            Self::LongObject => {
                let document = texts.paragraphs(random, language, LONG);
                object([
                    ("title", texts.sentence(random, language).into()),
                    ("document", document.into()),
                    ("end", true.into()),
                ])
            }
            Self::Turns => {
                let n = random.within(2, 4);
                turns(random, n, |random| texts.sentence(random, language).to_owned())
            }
            Self::LongTurns => {
                let passages = texts.paragraphs(random, language, LONG);
                let mut passages = passages.split("\n\n");
                turns(random, LONG, |_| passages.next().unwrap_or_default().to_owned())
            }
            Self::Texts => {
                let n = random.within(1, 3);
                let more = texts.sentence(random, ENGLISH);
                (0..n).map(|_| texts.sentence(random, language)).chain([more]).collect()
            }
            Self::LongTexts => texts.paragraphs(random, language, LONG).split("\n\n").collect(),
            Self::NumberList => {
                let n = random.within(4, 20);
                (0..n).map(|_| number_of(random)).collect()
            }
            Self::Records => {
                let n = random.within(2, 3);
                (0..n).map(|_| form(texts, random, language)).collect()
            }
            Self::Mixed => {
                let parts = [
                    Value::Null,
                    true.into(),
                    number_of(random),
                    texts.sentence(random, language).into(),
                    (0..3).map(|_| number_of(random)).collect(),
                    form(texts, random, language),
                ];
                let order = random.draw(&[0, 1, 2, 3, 4, 5], 6);
                order.into_iter().filter_map(|i: usize| parts.get(i).cloned()).collect()
            }
            Self::Empty => empty(number),
        }
    }
}

/// An object of `entries`.
pub(super) fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    entries.into_iter().collect::<Object>().into()
}

/// States with next to nothing in them.
fn empty(number: usize) -> Value {
    let list = |items: Vec<Value>| Value::Array(items);
    let states = [
        "".into(),
        Object::new().into(),
        list(Vec::new()),
        " \n ".into(),
        list(vec![list(Vec::new())]),
        object([("", "".into())]),
        list(vec![Value::Null]),
        object([("state", Value::Null)]),
    ];
    states.get(number % states.len()).cloned().unwrap_or_default()
}

/// A number that is easy to write wrong, or a plain one.
fn number_of(random: &mut Random) -> Value {
    match random.below(6) {
        0 => Value::from(random.pick(&edge::DOUBLES)),
        1 => Value::from(random.pick(&edge::INTEGERS)),
        2 => Value::from(random.below(2_000) as i64 - 1_000),
        // One division of integers: the nearest double, on every machine.
        3 => Value::from(random.below(1_000_000) as f64 / 1_000.0),
        4 => Value::from((random.below(1_000) as f64 - 500.0) / 7.0),
        _ => Value::from(random.below(1_000_000_000_000)),
    }
}

fn numbers(random: &mut Random) -> Value {
    let mut object = Object::new();
    for name in ["mean", "least", "most", "limit"] {
        object.insert(name, number_of(random));
    }
    let n = random.within(3, 6);
    object.insert("readings", (0..n).map(|_| number_of(random)).collect::<Value>());
    object.insert("largest", Number::Uint(u64::MAX));
    object.into()
}

/// A flat object as a form or a table row is one.
pub(super) fn form(texts: &Texts, random: &mut Random, language: &str) -> Value {
    let mut object = Object::new();
    let n = random.within(3, 6);
    for field in random.draw(texts.short("fields", ENGLISH), n) {
        object.insert(field, scalar(texts, random, language));
    }
    object.into()
}

fn scalar(texts: &Texts, random: &mut Random, language: &str) -> Value {
    match random.below(6) {
        0 => Value::Null,
        1 => random.chance(50).into(),
        2 | 3 => number_of(random),
        _ => texts.sentence(random, language).into(),
    }
}

/// Objects in lists in objects, with keys that need escapes.
fn nested(texts: &Texts, random: &mut Random, language: &str, depth: usize) -> Value {
    if depth == 0 || random.chance(30) {
        return scalar(texts, random, language);
    }
    if random.chance(30) {
        let n = random.within(1, 2);
        return (0..n).map(|_| nested(texts, random, language, depth - 1)).collect();
    }
    let mut object = Object::new();
    for key in random.draw(&edge::KEYS, 2) {
        object.insert(key, nested(texts, random, language, depth - 1));
    }
    object.insert(random.pick(texts.short("fields", ENGLISH)), scalar(texts, random, language));
    object.into()
}

/// A conversation.
fn turns(random: &mut Random, n: usize, mut say: impl FnMut(&mut Random) -> String) -> Value {
    let turn = |i: usize, said: String| {
        object([
            ("role", if i.is_multiple_of(2) { "customer" } else { "assistant" }.into()),
            ("said", said.into()),
            ("minute", Value::from(3 * i)),
        ])
    };
    (0..n).map(|i| turn(i, say(random))).collect()
}

/// The record of a task that was done in steps: what was asked, what was tried, what came of it.
pub(super) fn workflow(texts: &Texts, random: &mut Random, language: &str) -> Object {
    let mut state = Object::new();
    state.insert("task", random.pick(texts.short("tasks", ENGLISH)));
    state.insert("assistant", format!("helper-{}", random.within(1, 9)));
    if random.chance(60) {
        state.insert("policy", texts.sentence(random, language));
    }
    let n = random.within(1, 3);
    let actions = (1..=n).map(|i| {
        let ok = random.chance(70);
        let mut action = Object::new();
        action.insert("n", Value::from(i));
        action.insert("tool", random.pick(texts.short("tools", ENGLISH)));
        action.insert(
            "input",
            object([
                ("about", random.pick(texts.short("fields", ENGLISH)).into()),
                ("rows", Value::from(random.below(400))),
            ]),
        );
        action.insert("ok", ok);
        action.insert("seconds", random.below(90_000) as f64 / 1_000.0);
        if !ok {
            action.insert("error", random.pick(&["timed out", "not allowed", "no such row", ""]));
        }
        Value::from(action)
    });
    state.insert("actions", actions.collect::<Value>());
    state.insert("result", if random.chance(80) { texts.sentence(random, language).into() } else { Value::Null });
    state
}
