//! The body of a request.

use super::{Question, Reason, RequestError};
use crate::json::{self, Object, Value};
use std::borrow::Cow;

/// A request that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The `id` of the body, to be given back.
    pub id: Option<Value>,
    /// The state, never `null`.
    pub state: Value,
    /// The questions in the order given. None is a valid request with no answers.
    pub questions: Vec<Question>,
    /// The questions as given, for echoing.
    pub given_questions: Object,
    /// Budgets of this request that replace the model's.
    pub budget: BudgetOverride,
    /// Whether a cut is an error.
    pub truncation: Truncation,
}

/// Budgets given in the body, in tokens; `None` keeps the model's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetOverride {
    /// Longest row.
    pub max_len: Option<usize>,
    /// Budget of instructions and options.
    pub head_max_len: Option<usize>,
}

/// What to do when the state, an option or the instructions do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncation {
    /// Cut, as the published package does.
    #[default]
    Allow,
    /// Refuse the request.
    Error,
}

/// Limits a caller may set; the published package has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Most questions of a request.
    pub max_questions: Option<usize>,
    /// Most options (labels or levels) of a question.
    pub max_options: Option<usize>,
}

impl Request {
    /// Checks `body` and reads its questions.
    ///
    /// # Errors
    /// The first broken rule, in this order: the body is an object, `questions` is an object, `state` is there, the
    /// body's own options, each question in order.
    pub fn parse(body: &Value) -> Result<Self, RequestError> {
        Self::parse_within(body, &Limits::default())
    }

    /// As [`Request::parse`], with limits on the number of questions and options.
    ///
    /// # Errors
    /// As [`Request::parse`], and [`Reason::TooManyQuestions`] or [`Reason::TooManyOptions`].
    pub fn parse_within(body: &Value, limits: &Limits) -> Result<Self, RequestError> {
        let Checked { state, given_questions, questions, budget, truncation } = Checked::read(body, limits)?;
        Ok(Self {
            id: body.get("id").cloned(),
            state: state.clone(),
            questions,
            given_questions: given_questions.clone(),
            budget,
            truncation,
        })
    }

    /// As [`Request::parse_within`], of a body that is used up: its state and questions are moved, not copied.
    ///
    /// # Errors
    /// As [`Request::parse_within`].
    pub fn take(body: Value, limits: &Limits) -> Result<Self, RequestError> {
        let Checked { questions, budget, truncation, .. } = Checked::read(&body, limits)?;
        let Value::Object(mut body) = body else { return Err(not_an_object(&body)) };
        let given_questions = match body.remove("questions") {
            Some(Value::Object(given)) => given,
            other => return Err(not_questions(other.as_ref().unwrap_or(&Value::Null))),
        };
        let state = body.remove("state").ok_or_else(no_state)?;
        Ok(Self { id: body.remove("id"), state, questions, given_questions, budget, truncation })
    }

    /// Reads a body from its bytes.
    ///
    /// # Errors
    /// As [`json::parse`] and [`Request::parse_within`].
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self, RequestError> {
        Self::take(json::parse(bytes)?, limits)
    }

    /// The text of the state a model reads, before mask-token text is replaced: a string as it is, everything else
    /// its `json.dumps` text.
    pub fn state_text(&self) -> Cow<'_, str> {
        text_of(&self.state)
    }

    /// Whether the state is a list, which is cut from the left so that its newest entries stay.
    pub fn state_is_list(&self) -> bool {
        matches!(self.state, Value::Array(_))
    }
}

/// What the checks of a body give.
struct Checked<'a> {
    state: &'a Value,
    given_questions: &'a Object,
    questions: Vec<Question>,
    budget: BudgetOverride,
    truncation: Truncation,
}

impl<'a> Checked<'a> {
    fn read(body: &'a Value, limits: &Limits) -> Result<Self, RequestError> {
        let body = body.as_object().ok_or_else(|| not_an_object(body))?;
        let given_questions = body.get("questions").unwrap_or(&Value::Null);
        let given_questions = given_questions.as_object().ok_or_else(|| not_questions(given_questions))?;
        let state = body.get("state").filter(|state| !state.is_null()).ok_or_else(no_state)?;
        let truncation = truncation(body)?;
        let budget = BudgetOverride { max_len: budget(body, "max_len")?, head_max_len: budget(body, "head_max_len")? };
        if let Some(limit) = limits.max_questions.filter(|limit| given_questions.len() > *limit) {
            let message = format!("{} questions are more than the limit of {limit}", given_questions.len());
            return Err(RequestError::new(Reason::TooManyQuestions, "questions", message));
        }
        let mut questions = Vec::with_capacity(given_questions.len());
        for (id, definition) in given_questions.iter() {
            questions.push(Question::parse_within(id, definition, limits)?);
        }
        Ok(Self { state, given_questions, questions, budget, truncation })
    }
}

fn not_an_object(body: &Value) -> RequestError {
    let message = format!("the request must be a JSON object, got {}", body.python_type_name());
    RequestError::new(Reason::BodyNotObject, "", message)
}

fn not_questions(given: &Value) -> RequestError {
    let got = given.python_type_name();
    let message = format!("questions must be a dict of question id -> definition, got {got}");
    RequestError::new(Reason::InvalidRequest, "questions", message)
}

fn no_state() -> RequestError {
    let message = "state must not be None; pass a string, object or list";
    RequestError::new(Reason::InvalidRequest, "state", message)
}

/// A string as it is, everything else its `json.dumps` text.
pub(super) fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.dumps()),
    }
}

fn truncation(body: &Object) -> Result<Truncation, RequestError> {
    match body.get("truncation") {
        None | Some(Value::Null) => Ok(Truncation::Allow),
        Some(given) => match given.as_str() {
            Some("allow") => Ok(Truncation::Allow),
            Some("error") => Ok(Truncation::Error),
            _ => Err(RequestError::new(
                Reason::InvalidRequest,
                "truncation",
                format!("truncation must be 'allow' or 'error', got {}", given.python_repr()),
            )),
        },
    }
}

fn budget(body: &Object, key: &str) -> Result<Option<usize>, RequestError> {
    let given = match body.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(given) => given,
    };
    match given.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0) {
        Some(n) => Ok(Some(n)),
        None => Err(RequestError::new(
            Reason::InvalidRequest,
            key,
            format!("{key} must be a positive whole number of tokens, got {}", given.python_repr()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Request, RequestError> {
        Request::from_bytes(text.as_bytes(), &Limits::default())
    }

    fn refusal(text: &str) -> (Reason, String) {
        let error = parse(text).unwrap_err();
        (error.reason, error.param)
    }

    #[test]
    fn what_a_body_must_have() {
        for (text, reason, param) in [
            ("[]", Reason::BodyNotObject, ""),
            ("\"x\"", Reason::BodyNotObject, ""),
            ("{", Reason::MalformedJson, ""),
            (r#"{"state": 1e999}"#, Reason::UnsupportedNumber, ""),
            (r#"{"state": "x"}"#, Reason::InvalidRequest, "questions"),
            (r#"{"state": "x", "questions": []}"#, Reason::InvalidRequest, "questions"),
            (r#"{"questions": {}}"#, Reason::InvalidRequest, "state"),
            (r#"{"state": null, "questions": {}}"#, Reason::InvalidRequest, "state"),
            // The questions are looked at first.
            (r#"{"state": null, "questions": 1}"#, Reason::InvalidRequest, "questions"),
            (r#"{"state": 1, "questions": {}, "truncation": "no"}"#, Reason::InvalidRequest, "truncation"),
            (r#"{"state": 1, "questions": {}, "max_len": 0}"#, Reason::InvalidRequest, "max_len"),
            (r#"{"state": 1, "questions": {}, "max_len": true}"#, Reason::InvalidRequest, "max_len"),
            (r#"{"state": 1, "questions": {}, "head_max_len": 1.0}"#, Reason::InvalidRequest, "head_max_len"),
            (r#"{"state": 1, "questions": {}, "head_max_len": -4}"#, Reason::InvalidRequest, "head_max_len"),
        ] {
            assert_eq!(refusal(text), (reason, param.to_owned()), "{text}");
        }
    }

    #[test]
    fn every_state_but_null_and_every_other_key_are_accepted() {
        for (state, text) in [
            ("\"\"", ""),
            ("\"a\\nb\"", "a\nb"),
            ("0", "0"),
            ("false", "false"),
            ("[]", "[]"),
            ("{}", "{}"),
            ("1.0", "1.0"),
            (r#"{"b":1,"a":[true,null]}"#, r#"{"b": 1, "a": [true, null]}"#),
        ] {
            let request =
                parse(&format!(r#"{{"state": {state}, "questions": {{}}, "seed": 7, "model": "m"}}"#)).unwrap();
            assert_eq!(request.state_text(), text);
            assert_eq!(request.state_is_list(), state == "[]");
            assert!(request.questions.is_empty() && request.id.is_none());
        }
    }

    #[test]
    fn the_options_of_a_body() {
        let request = parse(
            r#"{"id": [1], "state": "x", "state": "y", "questions": {}, "truncation": "error", "max_len": 64, "head_max_len": null}"#,
        )
        .unwrap();
        assert_eq!(request.id, Some(Value::from_iter([1_i64])));
        assert_eq!(request.state_text(), "y");
        assert_eq!(request.truncation, Truncation::Error);
        assert_eq!(request.budget, BudgetOverride { max_len: Some(64), head_max_len: None });
    }

    #[test]
    fn taking_a_body_reads_it_the_same() {
        for (text, accepted) in [
            (
                r#"{"id": {"a": 1}, "state": [1, "x"], "questions": {"q": {"type": "noul", "instructions": "i"}}, "x": 1}"#,
                true,
            ),
            (r#"{"state": "", "questions": {}, "max_len": 64}"#, true),
            ("[]", false),
            (r#"{"state": null, "questions": {}}"#, false),
            (r#"{"state": 1, "questions": null}"#, false),
            (r#"{"state": 1, "questions": {"q": 1}}"#, false),
        ] {
            let body = json::parse(text.as_bytes()).unwrap();
            let parsed = Request::parse(&body);
            assert_eq!(parsed.is_ok(), accepted, "{text}");
            assert_eq!(Request::take(body, &Limits::default()), parsed, "{text}");
        }
    }

    #[test]
    fn limits_are_the_callers() {
        let labels: Value = (0..21_i64).collect();
        let body = format!(
            r#"{{"state": 1, "questions": {{"a": {{"type": "choice", "instructions": "", "criteria": {}}}}}}}"#,
            labels.dumps()
        );
        assert_eq!(parse(&body).unwrap().questions[0].options.len(), 21);
        let limits = Limits { max_options: Some(20), ..Limits::default() };
        let error = Request::from_bytes(body.as_bytes(), &limits).unwrap_err();
        assert_eq!((error.reason, error.param.as_str()), (Reason::TooManyOptions, "questions.a.criteria"));
        let limits = Limits { max_questions: Some(0), ..Limits::default() };
        let error = Request::from_bytes(body.as_bytes(), &limits).unwrap_err();
        assert_eq!((error.reason, error.param.as_str()), (Reason::TooManyQuestions, "questions"));
    }
}
