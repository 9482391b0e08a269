//! Questions of the three types.

use super::edge;
use super::random::Random;
use super::state::object;
use super::text::{ENGLISH, Texts};
use crate::json::{Object, Value};
use crate::request::QuestionType;

/// How the options of a question read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Options {
    /// As people write them: a label and some words about it.
    Plain,
    /// Labels alone.
    Bare,
    /// Each far longer than the 48 tokens that an option may have.
    Long,
}

/// A question of `kind` with `n` options; a noul has two whatever `n` is.
pub(super) fn question(
    texts: &Texts,
    random: &mut Random,
    language: &str,
    kind: QuestionType,
    n: usize,
    options: Options,
) -> Object {
    let instructions = instructions(texts, random, language, kind);
    let criteria = match kind {
        QuestionType::Choice => Some(choice(texts, random, language, n, options)),
        QuestionType::Score => Some(score(texts, random, language, n, options)),
        QuestionType::Noul => noul(texts, random, language, options),
    };
    of(kind, instructions.into(), criteria)
}

/// A question with these parts.
pub(super) fn of(kind: QuestionType, instructions: Value, criteria: Option<Value>) -> Object {
    let mut question = Object::new();
    question.insert("type", kind.as_str());
    question.insert("instructions", instructions);
    if let Some(criteria) = criteria {
        question.insert("criteria", criteria);
    }
    question
}

/// What a question of `kind` asks.
pub(super) fn instructions(texts: &Texts, random: &mut Random, language: &str, kind: QuestionType) -> &'static str {
    if language == ENGLISH {
        return random.pick(texts.short(kind.as_str(), ENGLISH));
    }
    // The three lines of the other languages, in this order.
    let at = match kind {
        QuestionType::Choice => 0,
        QuestionType::Score => 1,
        QuestionType::Noul => 2,
    };
    texts.short("ask", language).get(at).copied().unwrap_or_default()
}

/// `n` labels with their descriptions: those of the language first, then English ones.
fn labels(texts: &Texts, random: &mut Random, language: &str, n: usize) -> Vec<(&'static str, &'static str)> {
    let mut labels = random.draw(&texts.labels(language), n);
    if language != ENGLISH {
        labels.extend(random.draw(&texts.labels(ENGLISH), n - labels.len()));
    }
    labels
}

fn choice(texts: &Texts, random: &mut Random, language: &str, n: usize, options: Options) -> Value {
    let labels = labels(texts, random, language, n);
    if options == Options::Bare {
        return labels.into_iter().map(|(label, _)| label).collect();
    }
    let mut criteria = Object::new();
    for (label, description) in labels {
        let description = match options {
            Options::Long => long(texts, random, language).into(),
            _ if random.chance(10) => Value::Null,
            _ if random.chance(5) => "".into(),
            _ => Value::from(description),
        };
        criteria.insert(label, description);
    }
    criteria.into()
}

fn score(texts: &Texts, random: &mut Random, language: &str, n: usize, options: Options) -> Value {
    if options == Options::Long {
        return (0..n).map(|_| long(texts, random, language)).collect();
    }
    let scales = texts.scales(language);
    if n == 5 || (n < 5 && language != ENGLISH) {
        let scale = scales.get(random.below(scales.len())).cloned().unwrap_or_default();
        return thinned(&scale, n);
    }
    thinned(texts.short("steps", ENGLISH), n)
}

/// `n` of the levels of a scale from its first to its last, in their order and evenly apart.
fn thinned(levels: &[&str], n: usize) -> Value {
    let step = |i: usize| i * levels.len().saturating_sub(1) / n.saturating_sub(1).max(1);
    (0..n).filter_map(|i| levels.get(step(i)).copied()).collect()
}

fn noul(texts: &Texts, random: &mut Random, language: &str, options: Options) -> Option<Value> {
    let description = |random: &mut Random| match options {
        Options::Long => long(texts, random, language),
        _ => texts.sentence(random, language).to_owned(),
    };
    let [no, yes] = [description(random), description(random)];
    let both = Object::from_iter([("false", no.clone()), ("true", yes.clone())]);
    let one = Object::from_iter([if random.chance(50) { ("true", yes) } else { ("false", no) }]);
    match random.below(4) {
        _ if options == Options::Long => Some(both.into()),
        0 => Some(both.into()),
        1 => Some(one.into()),
        _ => None,
    }
}

/// A text of more than 48 tokens in every language.
fn long(texts: &Texts, random: &mut Random, language: &str) -> String {
    texts.paragraphs(random, language, if language == ENGLISH { 1 } else { 2 })
}

/// `n` questions of mixed types with 2 to 8 options.
pub(super) fn mixed(texts: &Texts, random: &mut Random, language: &str, n: usize) -> Object {
    let first = random.below(3);
    let mut questions = Object::new();
    for i in 0..n {
        let kind = QuestionType::ALL.get((first + i) % 3).copied().unwrap_or(QuestionType::Noul);
        let n_options = random.within(2, 8);
        let options = if random.chance(25) { Options::Bare } else { Options::Plain };
        let question = question(texts, random, language, kind, n_options, options);
        questions.insert(format!("{}_{}", kind.as_str(), i + 1), question);
    }
    questions
}

/// A value of every JSON kind in turn, where others write a text.
fn structured(texts: &Texts, random: &mut Random, number: usize) -> Value {
    let sentence = texts.sentence(random, ENGLISH);
    match number % 9 {
        0 => sentence.into(),
        1 => true.into(),
        2 => Value::from(random.pick(&edge::INTEGERS)),
        3 => Value::from(random.pick(&edge::DOUBLES)),
        4 => object([("about", sentence.into()), ("weight", Value::from(random.pick(&edge::DOUBLES)))]),
        5 => Value::Array(vec![sentence.into(), Value::Null, Value::from(random.below(9))]),
        6 => object([("any", Value::Array(vec![object([("of", sentence.into())]), false.into()]))]),
        7 => false.into(),
        _ => Value::Array(Vec::new()),
    }
}

/// A choice, a score and a noul whose criteria are not texts; `number` turns them.
pub(super) fn structured_criteria(texts: &Texts, random: &mut Random, number: usize) -> Object {
    let n = random.within(3, 12);
    let labels: Object = labels(texts, random, ENGLISH, n)
        .into_iter()
        .enumerate()
        .map(|(i, (label, _))| (label, structured(texts, random, number + i)))
        .collect();
    let n = random.within(3, 10);
    let levels: Value = (0..n).map(|i| structured(texts, random, number + 3 * i)).collect();
    let sides = [structured(texts, random, number), structured(texts, random, number + 4)];
    let sides = Object::from_iter(["true", "false"].into_iter().zip(sides));
    let noul = match number % 4 {
        0 => Object::new(),
        1 => Object::from_iter([("false", Value::Null), ("true", "".into())]),
        _ => sides,
    };
    let kinds = [QuestionType::Choice, QuestionType::Score, QuestionType::Noul];
    let criteria = [Value::from(labels), levels, Value::from(noul)];
    let mut questions = Object::new();
    for (kind, criteria) in kinds.into_iter().zip(criteria) {
        let asked = instructions(texts, random, ENGLISH, kind).into();
        questions.insert(kind.as_str(), of(kind, asked, Some(criteria)));
    }
    questions
}
