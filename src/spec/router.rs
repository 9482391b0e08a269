//! The router block of a spec: which question candidates are asked, and what makes a probability of its logit.

use super::problem::{Problems, join, must};
use crate::json::{Object, Value};
use crate::request::Question;

const PATH: &str = "router";
/// The card the router reads, and how it is written out.
const CARD: [(&str, &str); 2] = [("card_schema", "atomic.executor-card/1"), ("card_renderer", "card-v1")];

/// The router block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Router {
    /// The question, as given; none is the built-in one.
    pub question: Option<Object>,
    /// Longest card, in tokens; 0 is no limit.
    pub max_card_tokens: Option<u32>,
    /// What makes a probability of a logit.
    pub calibration: Option<Platt>,
}

/// `p = 1 / (1 + exp(-(a z + b)))` for the logit `z`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Platt {
    /// The slope.
    pub a: f64,
    /// The offset.
    pub b: f64,
}

impl Router {
    /// Reads the block; `None` when there is none.
    pub(super) fn read(problems: &mut Problems, value: Option<&Value>) -> Option<Self> {
        let fields = problems.object(PATH, value)?;
        for (key, only) in CARD {
            problems.word(&join(PATH, key), fields.get(key), (), &[(only, ())]);
        }
        let max_card_tokens =
            fields.get("max_card_tokens").and_then(|value| problems.count(&join(PATH, "max_card_tokens"), Some(value)));
        let question = problems.object(&join(PATH, "question"), fields.get("question"));
        if let Some(question) = question {
            check_question(problems, question);
        }
        let calibration = read_platt(problems, fields.get("calibration"));
        Some(Self { question: question.cloned(), max_card_tokens, calibration })
    }
}

/// Checks a router question: a noul one, with instructions that are a text with something in it.
fn check_question(problems: &mut Problems, question: &Object) {
    let path = join(PATH, "question");
    if question.get("type").and_then(Value::as_str) != Some("noul") {
        let found = question.get("type").map_or("is missing; it must be \"noul\"".into(), |ty| must("\"noul\"", ty));
        return problems.add(&join(&path, "type"), found);
    }
    match question.get("instructions") {
        Some(Value::String(text)) if !crate::request::is_blank(text) => {}
        Some(other) => problems.add(&join(&path, "instructions"), must("a text that is not blank", other)),
        None => problems.add(&join(&path, "instructions"), "is missing; it is the text the model is to answer"),
    }
    // The rules of any other noul question.
    let mut definition = question.clone();
    definition.insert("instructions", "");
    if let Err(error) = Question::parse("", &Value::Object(definition)) {
        let field = error.param.strip_prefix("questions.").unwrap_or(&error.param);
        let message = error.message.strip_prefix("question '': ").unwrap_or(&error.message);
        problems.add(&format!("{path}{field}"), message);
    }
}

fn read_platt(problems: &mut Problems, value: Option<&Value>) -> Option<Platt> {
    let path = join(PATH, "calibration");
    let fields = problems.object(&path, value)?;
    // What the other fields are depends on it.
    let method = fields.get("method");
    if method.is_none() {
        problems.add(&join(&path, "method"), "is missing; it must be \"platt\"");
    }
    problems.word(&join(&path, "method"), method, None, &[("platt", Some(()))])?;
    let mut number = |key: &str| problems.number(&join(&path, key), fields.get(key));
    let (a, b) = (number("a"), number("b"));
    Some(Platt { a: a?, b: b? })
}
