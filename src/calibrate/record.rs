//! A labelled request.

use super::Split;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::json::{self, Object, Value};
use crate::request::{Limits, Question, QuestionType, Request};

/// One line of labelled data: a request with the true answers to some or all of its questions.
///
/// ```json
/// {"id": "r1", "state": "Billed twice", "questions": {"refund": {"type": "noul", "instructions": "Asks for money?"}},
///  "labels": {"refund": true}, "split": "fit"}
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its line in the data, from 1.
    pub line: u64,
    /// Its id, as text.
    pub id: Option<String>,
    /// The split it asks for.
    pub split: Option<Split>,
    /// The request.
    pub request: Request,
    /// The position of the true option of each question, where it is labelled. `[n_questions]`
    pub truths: Vec<Option<usize>>,
}

impl Record {
    /// Reads the record on line `line` (from 1) of the data.
    ///
    /// | key | |
    /// |---|---|
    /// | `state`, `questions`, … | a request, see [`Request`] |
    /// | `labels` | question id -> truth: a choice's label as its criteria have it; a score's level as index or as its text; a noul's `true` or `false`. A question without one is left out of a fit |
    /// | `id` | text or an integer, optional |
    /// | `split` | `fit`, `eval` or `test`, optional; see [`Fraction::split`](super::Fraction::split) |
    ///
    /// # Errors
    /// The line is no such object; the error names the line, the place in it, and what is wrong.
    pub fn parse(line: u64, bytes: &[u8]) -> Result<Self> {
        read(line, bytes).map_err(|(path, message)| {
            let message = if path.is_empty() { message } else { format!("{path}: {message}") };
            Error::new(ErrorKind::Request, message).at(Place::Line(line))
        })
    }

    /// How many of its questions have a label.
    pub fn n_labelled(&self) -> usize {
        self.truths.iter().flatten().count()
    }
}

/// Where in the line, and what is wrong there.
type Fault = (String, String);

fn read(line: u64, bytes: &[u8]) -> Result<Record, Fault> {
    let fault = |path: &str, message: String| (path.to_owned(), message);
    let body = json::parse(bytes).map_err(|error| fault("", format!("column {}: {}", error.column, error.message)))?;
    if body.as_object().is_none() {
        return Err(fault("", format!("is {}, not an object", body.python_type_name())));
    }
    let id = match body.get("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) if other.as_i64().is_some() || other.as_u64().is_some() => Some(other.dumps()),
        Some(other) => return Err(fault("id", format!("must be text or an integer, got {}", other.dumps()))),
    };
    let split = match body.get("split") {
        None | Some(Value::Null) => None,
        Some(given) => match given.as_str().and_then(Split::from_name) {
            None => {
                return Err(fault("split", format!("must be \"fit\", \"eval\" or \"test\", got {}", given.dumps())));
            }
            split => split,
        },
    };
    let labels = match body.get("labels") {
        Some(Value::Object(labels)) => labels.clone(),
        Some(other) => {
            let message = format!("must be an object of question id -> truth, got {}", other.python_type_name());
            return Err(fault("labels", message));
        }
        None => {
            let message = "is missing; it holds the true answers, such as {\"refund\": true}, or is {}";
            return Err(fault("labels", message.to_owned()));
        }
    };
    let request = Request::take(body, &Limits::default()).map_err(|error| (error.param, error.message))?;
    let truths = truths(&request.questions, &labels)?;
    Ok(Record { line, id, split, request, truths })
}

/// The positions `labels` name, of each question.
fn truths(questions: &[Question], labels: &Object) -> Result<Vec<Option<usize>>, Fault> {
    if let Some(id) = labels.keys().find(|id| !questions.iter().any(|question| question.id == *id)) {
        return Err((format!("labels.{id}"), "there is no question of that id".into()));
    }
    questions
        .iter()
        .map(|question| {
            let Some(label) = labels.get(&question.id) else { return Ok(None) };
            truth(question, label).map(Some).map_err(|message| (format!("labels.{}", question.id), message))
        })
        .collect()
}

/// The position of the option that `label` names.
fn truth(question: &Question, label: &Value) -> Result<usize, String> {
    let shown = || label.dumps();
    match question.kind {
        QuestionType::Noul => match label.as_bool() {
            Some(holds) => Ok(usize::from(holds)),
            None => Err(format!("the truth of a noul question is true or false, got {}", shown())),
        },
        QuestionType::Choice => question.labels.iter().position(|option| same(option, label)).ok_or_else(|| {
            let options = question.labels.iter().collect::<Vec<_>>();
            format!("{} is not among the options {}", shown(), listed(&options))
        }),
        QuestionType::Score => {
            let n = question.labels.len();
            if let Some(text) = label.as_str() {
                let mut found = (0..n).filter(|i| question.labels.get(*i).and_then(Value::as_str) == Some(text));
                return match (found.next(), found.next()) {
                    (Some(level), None) => Ok(level),
                    (Some(_), Some(_)) => Err(format!("{} is the text of several levels; give the index", shown())),
                    (None, _) => {
                        let options = question.labels.iter().collect::<Vec<_>>();
                        Err(format!(
                            "{} is not among the levels {}; give one of them or its index",
                            shown(),
                            listed(&options)
                        ))
                    }
                };
            }
            let level = label.as_u64().and_then(|level| usize::try_from(level).ok());
            let level = level.filter(|level| *level < n).ok_or_else(|| {
                let last = n.saturating_sub(1);
                format!("the truth of a score question is a level from 0 to {last} or its text, got {}", shown())
            })?;
            // Levels that are numbers: whoever labels them may well mean the number and not the index.
            let is_named = |option: &Value| same(option, label) || option.as_str() == Some(shown().as_str());
            let named = question.labels.iter().enumerate().find(|(i, option)| *i != level && is_named(option));
            match (named, question.labels.get(level)) {
                (Some((other, text)), Some(at_index)) => Err(format!(
                    "{} is ambiguous: the level at index {level} is {}, and {} is the level at index {other}; give the levels \
                     names that are no numbers, and one of these as the truth",
                    shown(),
                    at_index.dumps(),
                    text.dumps()
                )),
                _ => Ok(level),
            }
        }
    }
}

/// What the option at `truth` is called, to tell classes apart: a choice's label, whose position may differ from question to
/// question; a score's index; a noul's `true` or `false`.
pub(super) fn class(question: &Question, truth: usize) -> String {
    match (question.kind, question.labels.get(truth)) {
        (QuestionType::Choice, Some(Value::String(text))) => text.clone(),
        (QuestionType::Choice, Some(label)) => label.dumps(),
        (QuestionType::Noul, _) => (truth == 1).to_string(),
        (QuestionType::Score | QuestionType::Choice, _) => truth.to_string(),
    }
}

/// Whether a label names an option: equal, where `1` and `1.0` are the same and `true` is another.
fn same(option: &Value, label: &Value) -> bool {
    option.as_bool().is_some() == label.as_bool().is_some()
        && option.scalar_key().is_some_and(|key| label.scalar_key() == Some(key))
}

/// The first few of `values`.
fn listed(values: &[&Value]) -> String {
    const SHOWN: usize = 8;
    let mut texts: Vec<_> = values.iter().take(SHOWN).map(|value| value.dumps()).collect();
    if values.len() > SHOWN {
        texts.push(format!("… ({} in all)", values.len()));
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTIONS: &str = r#""state": "s", "questions": {
        "c": {"type": "choice", "instructions": "i", "criteria": ["a", 1, false, 2.5]},
        "s": {"type": "score", "instructions": "i", "criteria": ["low", "mid", "mid", 3]},
        "n": {"type": "noul", "instructions": "i"}}"#;

    fn parse(rest: &str) -> Result<Record> {
        Record::parse(7, format!("{{{}{rest}}}", QUESTIONS.replace('\n', " ")).as_bytes())
    }

    #[test]
    fn truths_become_positions() {
        for (labels, truths) in [
            (r#"{"c": "a", "s": 0, "n": true}"#, [Some(0), Some(0), Some(1)]),
            (r#"{"c": 1.0, "s": "low", "n": false}"#, [Some(1), Some(0), Some(0)]),
            (r#"{"c": false, "s": 3}"#, [Some(2), Some(3), None]),
            (r#"{"c": 2.5}"#, [Some(3), None, None]),
            ("{}", [None; 3]),
        ] {
            let record = parse(&format!(r#", "labels": {labels}"#)).unwrap();
            assert_eq!(record.truths, truths, "{labels}");
            assert_eq!(record.n_labelled(), truths.iter().flatten().count());
        }
        let record = parse(r#", "labels": {}, "id": 17, "split": "eval", "model": "ignored""#).unwrap();
        assert_eq!((record.id.as_deref(), record.split, record.line), (Some("17"), Some(Split::Eval), 7));
        let record = parse(r#", "labels": {}, "id": null, "split": null"#).unwrap();
        assert_eq!((record.id, record.split), (None, None));
    }

    #[test]
    fn a_number_that_names_two_levels_is_refused() {
        let truth = |criteria: &str, label: &str| {
            let line = format!(
                r#"{{"state": "s", "questions": {{"s": {{"type": "score", "instructions": "i", "criteria": {criteria}}}}},
                    "labels": {{"s": {label}}}}}"#
            );
            Record::parse(1, line.as_bytes()).map(|record| record.truths[0].unwrap()).map_err(|error| error.to_string())
        };
        for criteria in ["[1, 2, 3]", r#"["1", "2", "3"]"#] {
            let error = truth(criteria, "1").unwrap_err();
            assert!(error.contains("labels.s: 1 is ambiguous: the level at index 1 is "), "{error}");
            assert!(error.contains("is the level at index 0"), "{error}");
            assert!(truth(criteria, "2").is_err());
            // No level has that name.
            assert_eq!(truth(criteria, "0"), Ok(0));
        }
        assert_eq!(truth(r#"["1", "2", "3"]"#, "\"1\""), Ok(0));
        assert_eq!(truth("[0, 1, 2]", "1"), Ok(1));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said_with_its_number_and_place() {
        for (rest, message) in [
            ("", "line 7: labels: is missing; it holds the true answers"),
            (r#", "labels": []"#, "line 7: labels: must be an object of question id -> truth, got list"),
            (r#", "labels": {"x": 1}"#, "line 7: labels.x: there is no question of that id"),
            (r#", "labels": {"c": "b"}"#, "line 7: labels.c: \"b\" is not among the options \"a\", 1, false, 2.5"),
            (r#", "labels": {"c": true}"#, "line 7: labels.c: true is not among the options"),
            (r#", "labels": {"c": 0}"#, "line 7: labels.c: 0 is not among the options"),
            (r#", "labels": {"c": null}"#, "line 7: labels.c: null is not among the options"),
            (r#", "labels": {"c": ["a"]}"#, "line 7: labels.c: [\"a\"] is not among the options"),
            (r#", "labels": {"s": 4}"#, "line 7: labels.s: the truth of a score question is a level from 0 to 3 or"),
            (r#", "labels": {"s": -1}"#, "line 7: labels.s: the truth of a score question is a level from 0 to 3 or"),
            (r#", "labels": {"s": 1.0}"#, "line 7: labels.s: the truth of a score question is a level from 0 to 3 or"),
            (r#", "labels": {"s": "mid"}"#, "line 7: labels.s: \"mid\" is the text of several levels; give the index"),
            (
                r#", "labels": {"s": "3"}"#,
                "line 7: labels.s: \"3\" is not among the levels \"low\", \"mid\", \"mid\", 3;",
            ),
            (
                r#", "labels": {"n": "true"}"#,
                "line 7: labels.n: the truth of a noul question is true or false, got \"true\"",
            ),
            (r#", "labels": {"n": 1}"#, "line 7: labels.n: the truth of a noul question is true or false, got 1"),
            (r#", "labels": {}, "id": 1.5"#, "line 7: id: must be text or an integer, got 1.5"),
            (
                r#", "labels": {}, "split": "train""#,
                "line 7: split: must be \"fit\", \"eval\" or \"test\", got \"train\"",
            ),
            (r#", "labels": {}, "truncation": "x""#, "line 7: truncation: truncation must be 'allow' or 'error'"),
            (
                r#", "labels": {}, "questions": {"q": 1}"#,
                "line 7: questions.q: question 'q': definition must be a dict",
            ),
            (r#", "labels": {}, "state": null"#, "line 7: state: state must not be None"),
            (r#", "labels""#, "line 7: column "),
        ] {
            let error = parse(rest).unwrap_err().to_string();
            assert!(error.starts_with(message), "{rest}: {error}");
        }
        for (bytes, message) in [
            (&b""[..], "line 2: column 1: "),
            (b"[]", "line 2: is list, not an object"),
            (b"\xff", "line 2: column 1: "),
        ] {
            let error = Record::parse(2, bytes).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
