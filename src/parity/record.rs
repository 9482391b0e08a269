//! What a backend answered to one item.

use std::collections::HashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::request::QuestionType;

use super::corpus::Item;
use super::identity::Fields;

/// What a backend answered to one item.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemRecord {
    /// The item.
    pub id: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Its questions were answered. `[n_questions]`
    Answered(Vec<QuestionRecord>),
    /// The backend refused the request.
    Refused(Refusal),
    /// The backend took the request and gave no answer: it has a fault.
    Failed(String),
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub message: String,
    /// Whether the state is null, which backends may refuse.
    pub null_state: bool,
    /// Questions of the request, so that none can be missing unseen; `None` when the run does not say.
    pub n_questions: Option<u64>,
}

impl Refusal {
    /// That `item` was refused with `message`.
    pub(super) fn of(item: &Item, message: String) -> Self {
        Self { message, null_state: item.has_null_state(), n_questions: Some(item.n_questions() as u64) }
    }
}

impl Outcome {
    /// The answers `questions` to `item`: a failure unless they are to its questions, each with parts that belong together.
    pub(super) fn of(item: &Item, questions: Vec<QuestionRecord>) -> Self {
        let asked: HashSet<_> = item.questions().collect();
        let mut answered = HashSet::new();
        for question in &questions {
            let id = question.id.as_str();
            if !asked.contains(id) {
                return Self::Failed(format!("it answers {id:?}, which was not asked"));
            }
            if !answered.insert(id) {
                return Self::Failed(format!("it answers {id:?} twice"));
            }
            if let Err((key, what)) = question.check() {
                return Self::Failed(format!("the answer to {id:?} is none: {key} {what}"));
            }
        }
        match item.questions().find(|id| !answered.contains(id)) {
            Some(id) => Self::Failed(format!("it does not answer {id:?}")),
            None => Self::Answered(questions),
        }
    }
}

/// The answer to one question, and what it was read off. A server need not tell what it read and computed.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionRecord {
    /// The question.
    pub id: String,
    /// Its type.
    pub kind: QuestionType,
    /// Token ids of its row. `[n_tokens]`
    pub ids: Option<Vec<u32>>,
    /// Position of every option's marker. `[n_options]`
    pub markers: Option<Vec<u32>>,
    /// Raw logits of the options, finite. `[n_options]`
    pub logits: Option<Vec<f32>>,
    /// Raw logits of the act head, finite. `[n_act]`
    pub act_logits: Option<Vec<f32>>,
    /// The public answer.
    pub answer: Option<Object>,
}

impl ItemRecord {
    /// Questions of the item, answered or refused; `None` when the record does not say.
    pub(super) fn n_questions(&self) -> Option<u64> {
        match &self.outcome {
            Outcome::Answered(questions) => Some(questions.len() as u64),
            Outcome::Refused(refusal) => refusal.n_questions,
            Outcome::Failed(_) => None,
        }
    }

    /// As a line of a run file, without a line break.
    pub fn to_line(&self) -> String {
        let mut line = Object::new();
        line.insert("id", self.id.as_str());
        match &self.outcome {
            Outcome::Answered(questions) => {
                let mut object = Object::new();
                for question in questions {
                    object.insert(question.id.clone(), question.to_json());
                }
                line.insert("questions", object);
            }
            Outcome::Refused(Refusal { message, null_state, n_questions }) => {
                let mut refused = Object::new();
                refused.insert("message", message.as_str());
                refused.insert("null_state", *null_state);
                if let Some(n_questions) = n_questions {
                    refused.insert("n_questions", *n_questions);
                }
                line.insert("refused", refused);
            }
            Outcome::Failed(message) => {
                let mut failed = Object::new();
                failed.insert("message", message.as_str());
                line.insert("failed", failed);
            }
        }
        Value::Object(line).dumps_compact()
    }

    /// Reads [`ItemRecord::to_line`] back.
    ///
    /// # Errors
    /// It has not this shape; the error names the key.
    pub(super) fn from_json(value: &Value) -> Result<Self> {
        let fault = |path: &str, message: &str| Err(Error::new(ErrorKind::Json, message).at_path(path));
        let Some(Value::String(id)) = value.get("id") else {
            return fault("id", "must be the item's name, a text");
        };
        let n_keys = value.as_object().map_or(0, Object::len);
        let outcome = match (value.get("questions"), value.get("refused"), value.get("failed")) {
            (Some(questions), None, None) if n_keys == 2 => {
                let Some(questions) = questions.as_object() else {
                    return fault("questions", "must be an object");
                };
                let questions = questions.iter().map(|(id, value)| QuestionRecord::from_json(id, value));
                Outcome::Answered(questions.collect::<Result<_>>()?)
            }
            (None, Some(refused), None) if n_keys == 2 => {
                let fields = Fields::new("refused", Some(refused), &["message", "null_state", "n_questions"])?;
                let null_state = fields.get("null_state").and_then(Value::as_bool);
                let null_state = null_state.ok_or_else(|| fields.fault("null_state", "must be true or false"))?;
                let n_questions = fields.count("n_questions")?;
                Outcome::Refused(Refusal { message: fields.text("message")?, null_state, n_questions })
            }
            (None, None, Some(failed)) if n_keys == 2 => {
                Outcome::Failed(Fields::new("failed", Some(failed), &["message"])?.text("message")?)
            }
            _ => {
                let message = "must be an object of id and one of questions, refused and failed";
                return Err(Error::new(ErrorKind::Json, message));
            }
        };
        Ok(Self { id: id.clone(), outcome })
    }
}

impl QuestionRecord {
    fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("type", self.kind.as_str());
        let numbers = |logits: &[f32]| logits.iter().copied().map(f64::from).collect::<Value>();
        let members = [
            ("ids", self.ids.as_ref().map(|ids| ids.iter().copied().collect())),
            ("markers", self.markers.as_ref().map(|markers| markers.iter().copied().collect())),
            ("logits", self.logits.as_deref().map(numbers)),
            ("act_logits", self.act_logits.as_deref().map(numbers)),
            ("answer", self.answer.clone().map(Value::Object)),
        ];
        for (key, value) in members {
            if let Some(value) = value {
                object.insert(key, value);
            }
        }
        object
    }

    fn from_json(id: &str, value: &Value) -> Result<Self> {
        const KEYS: [&str; 6] = ["type", "ids", "markers", "logits", "act_logits", "answer"];
        let path = format!("questions.{id}");
        let fields = Fields::new(&path, Some(value), &KEYS)?;
        let kind = QuestionType::from_name(&fields.text("type")?);
        let answer = match fields.get("answer") {
            None => None,
            Some(Value::Object(answer)) => Some(answer.clone()),
            Some(_) => return Err(fields.fault("answer", "must be an object")),
        };
        let count = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
        // What is no float32 was not computed as one: it would be another number after reading.
        let logit =
            |value: &Value| value.as_f64().filter(|x| x.is_finite() && f64::from(*x as f32).to_bits() == x.to_bits());
        let record = Self {
            id: id.to_owned(),
            kind: kind.ok_or_else(|| fields.fault("type", "must be choice, score or noul"))?,
            ids: list(&fields, "ids", "token ids", count)?,
            markers: list(&fields, "markers", "positions", count)?,
            logits: list(&fields, "logits", "finite float32 numbers", |x| logit(x).map(|x| x as f32))?,
            act_logits: list(&fields, "act_logits", "finite float32 numbers", |x| logit(x).map(|x| x as f32))?,
            answer,
        };
        record.check().map_err(|(key, what)| fields.fault(key, &what))?;
        Ok(record)
    }

    /// That the parts belong together; an error is the key at fault and what is wrong with it.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if let (Some(markers), Some(ids)) = (&self.markers, &self.ids)
            && markers.iter().any(|at| *at as usize >= ids.len())
        {
            return Err(("markers", format!("one is outside the row of {} tokens", ids.len())));
        }
        if let Some(markers) = &self.markers {
            let mut seen = HashSet::new();
            if !markers.iter().all(|at| seen.insert(at)) {
                return Err(("markers", "two options have the same".into()));
            }
        }
        for (key, logits) in [("logits", &self.logits), ("act_logits", &self.act_logits)] {
            match logits {
                Some(logits) if logits.is_empty() => return Err((key, "must not be empty".into())),
                Some(logits) if !logits.iter().all(|logit| logit.is_finite()) => {
                    return Err((key, "must be finite".into()));
                }
                _ => {}
            }
        }
        match (&self.logits, &self.markers) {
            (Some(logits), Some(markers)) if logits.len() != markers.len() => {
                Err(("logits", format!("are {} for {} markers", logits.len(), markers.len())))
            }
            _ => Ok(()),
        }
    }
}

/// The list at `key`, unless it is missing; `read` reads an element, which are `what`.
fn list<T>(fields: &Fields<'_>, key: &str, what: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<Vec<T>>> {
    let Some(value) = fields.get(key) else { return Ok(None) };
    let list = value.as_array().and_then(|values| values.iter().map(read).collect());
    list.map(Some).ok_or_else(|| fields.fault(key, &format!("must be a list of {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn read(line: &str) -> Result<ItemRecord> {
        ItemRecord::from_json(&json::parse(line.as_bytes()).unwrap())
    }

    #[test]
    fn records_are_read_as_they_are_written() {
        for line in [
            r#"{"id":"a","questions":{}}"#,
            r#"{"id":"a","questions":{"q":{"type":"noul","ids":[1,2,3],"markers":[1,2],"logits":[0.10000000149011612,-0.0],"act_logits":[1e-45],"answer":{"type":"noul","noul":0.5}},"r":{"type":"score"}}}"#
                .replace("1e-45", "1.401298464324817e-45")
                .as_str(),
            r#"{"id":"a","refused":{"message":"no","null_state":true}}"#,
            r#"{"id":"a","refused":{"message":"no","null_state":false,"n_questions":3}}"#,
            r#"{"id":"a","failed":{"message":"no"}}"#,
        ] {
            assert_eq!(read(line).unwrap().to_line(), line);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let question = |rest: &str| format!(r#"{{"id":"a","questions":{{"q":{{"type":"noul"{rest}}}}}}}"#);
        for (line, says) in [
            (r#"{"questions":{}}"#.to_owned(), "id: must be"),
            (r#"{"id":"a"}"#.into(), "must be an object of id and one of"),
            (r#"{"id":"a","questions":{},"x":1}"#.into(), "must be an object of id and one of"),
            (r#"{"id":"a","questions":[]}"#.into(), "questions: must be an object"),
            (r#"{"id":"a","refused":{"message":"m"}}"#.into(), "refused.null_state: must be"),
            (
                r#"{"id":"a","refused":{"message":"m","null_state":true,"n_questions":-1}}"#.into(),
                "refused.n_questions: must be a count",
            ),
            (question("").replace("noul", "none"), "questions.q.type: must be"),
            (question(r#","logit":[1]"#), "questions.q: has the unknown key"),
            (question(r#","logits":[]"#), "questions.q.logits: must not be empty"),
            (question(r#","act_logits":[]"#), "questions.q.act_logits: must not be empty"),
            (question(r#","logits":[0.1]"#), "questions.q.logits: must be a list of finite float32"),
            (question(r#","logits":[1e300]"#), "questions.q.logits: must be a list of finite float32"),
            (question(r#","ids":[4294967296]"#), "questions.q.ids: must be a list of token ids"),
            (question(r#","ids":[1],"markers":[1]"#), "questions.q.markers: one is outside"),
            (question(r#","markers":[1,1]"#), "questions.q.markers: two options"),
            (question(r#","markers":[1],"logits":[1.0,2.0]"#), "questions.q.logits: are 2 for 1"),
            (question(r#","answer":3"#), "questions.q.answer: must be an object"),
        ] {
            let error = read(&line).unwrap_err().to_string();
            assert!(error.starts_with(says), "{line}: {error}");
        }
    }

    #[test]
    fn answers_are_those_to_the_questions_of_the_item() {
        let item = br#"{"id": "a", "state": "s", "questions": {"q": {"type": "noul"}, "r": {"type": "noul"}}}"#;
        let item = crate::parity::Corpus::parse(item).unwrap().items.remove(0);
        let answer = |id: &str| QuestionRecord {
            id: id.into(),
            kind: QuestionType::Noul,
            ids: None,
            markers: None,
            logits: Some(vec![0.5, 1.0]),
            act_logits: None,
            answer: None,
        };
        let wrong = |logits: Vec<f32>| QuestionRecord { logits: Some(logits), ..answer("r") };
        assert!(matches!(Outcome::of(&item, vec![answer("r"), answer("q")]), Outcome::Answered(_)));
        for (answers, says) in [
            (vec![], "it does not answer \"q\""),
            (vec![answer("q")], "it does not answer \"r\""),
            (vec![answer("q"), answer("s")], "it answers \"s\", which was not asked"),
            (vec![answer("q"), answer("q")], "it answers \"q\" twice"),
            (vec![answer("q"), wrong(vec![])], "the answer to \"r\" is none: logits must not be empty"),
            (vec![answer("q"), wrong(vec![f32::NAN])], "the answer to \"r\" is none: logits must be finite"),
        ] {
            assert_eq!(Outcome::of(&item, answers), Outcome::Failed(says.into()));
        }
    }
}
