//! One question.

use super::body::text_of;
use super::{Limits, Reason, RequestError, choice, noul, score};
use crate::json::{Value, python_str_repr};

/// The kind of a question. The order is that of the model's type embedding and temperatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionType {
    /// One label out of several.
    Choice,
    /// A level on an ordered scale.
    Score,
    /// Whether a statement holds.
    Noul,
}

impl QuestionType {
    /// Every type, in index order.
    pub const ALL: [Self; 3] = [Self::Choice, Self::Score, Self::Noul];

    /// Row of the type embedding: 0 choice, 1 score, 2 noul.
    pub fn index(self) -> usize {
        match self {
            Self::Choice => 0,
            Self::Score => 1,
            Self::Noul => 2,
        }
    }

    /// The name used in requests, rows and calibration buckets.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Choice => "choice",
            Self::Score => "score",
            Self::Noul => "noul",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A checked question.
///
/// | type | `criteria` | options |
/// |---|---|---|
/// | `choice` | `{label: description}` or a list of labels | `label`, or `label: description` |
/// | `score` | a list of levels, lowest first | `level 0: …`, `level 1: …` |
/// | `noul` | absent, `null`, or `{"false": …, "true": …}` | `false: …`, `true: …`, words replaced by `labels` |
///
/// A choice or score question without `criteria` may give the same value as `options` instead; the published package
/// refuses such a question, so nothing it accepts is read differently.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Key of the question in the request.
    pub id: String,
    /// Its type.
    pub kind: QuestionType,
    /// The instructions a model reads: a string as given, everything else its `json.dumps` text.
    pub instructions: String,
    /// The option texts a model reads, before mask-token text is replaced. `[n_options]`
    pub options: Vec<String>,
    /// What each option stands for: a choice's label as given, a score's level as given, `false` and `true`.
    /// `[n_options]`
    pub labels: Vec<Value>,
    /// The keys of the options in an answer's probabilities. `[n_options]`
    pub answer_keys: Vec<String>,
}

impl Question {
    /// Checks one definition.
    ///
    /// # Errors
    /// The first broken rule, as a message that starts with `question '<id>': `.
    pub fn parse(id: &str, definition: &Value) -> Result<Self, RequestError> {
        Self::parse_within(id, definition, &Limits::default())
    }

    /// As [`Question::parse`], with a limit on the number of options.
    ///
    /// # Errors
    /// As [`Question::parse`], and [`Reason::TooManyOptions`].
    pub fn parse_within(id: &str, definition: &Value, limits: &Limits) -> Result<Self, RequestError> {
        read(id, definition, limits).map_err(|fault| {
            let message = format!("question {}: {}", python_str_repr(id), fault.message);
            RequestError::new(fault.reason, path(id, &fault.field), message)
        })
    }

    /// The id as messages show it: quoted and escaped as Python's `repr` does.
    pub fn shown_id(&self) -> String {
        python_str_repr(&self.id)
    }

    /// The JSON path of a field of this question, such as `.criteria`.
    pub fn path(&self, field: &str) -> String {
        path(&self.id, field)
    }
}

/// The options of one question, side by side. `[n_options]` each
pub(super) struct OptionSet {
    pub texts: Vec<String>,
    pub labels: Vec<Value>,
    pub answer_keys: Vec<String>,
}

/// A broken rule of one question.
pub(super) struct Fault {
    reason: Reason,
    /// Path from the question to the field, such as `.criteria[2]`.
    field: String,
    message: String,
}

impl Fault {
    pub(super) fn new(reason: Reason, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }
}

fn path(id: &str, field: &str) -> String {
    format!("questions.{id}{field}")
}

fn read(id: &str, definition: &Value, limits: &Limits) -> Result<Question, Fault> {
    let Some(fields) = definition.as_object() else {
        let message = format!("definition must be a dict, got {}", definition.python_type_name());
        return Err(Fault::new(Reason::InvalidRequest, "", message));
    };
    let kind = fields.get("type").unwrap_or(&Value::Null);
    let Some(kind) = kind.as_str().and_then(QuestionType::from_name) else {
        let message = format!("unknown type {}; use one of ['choice', 'noul', 'score']", kind.python_repr());
        return Err(Fault::new(Reason::UnknownQuestionType, ".type", message));
    };
    let Some(instructions) = fields.get("instructions") else {
        let message = "no 'instructions'; add the text the model is to answer";
        return Err(Fault::new(Reason::EmptyInstructions, ".instructions", message));
    };
    let (criteria, field) = match (fields.get("criteria"), fields.get("options")) {
        (None, Some(options)) if kind != QuestionType::Noul => (options, ".options"),
        (criteria, _) => (criteria.unwrap_or(&Value::Null), ".criteria"),
    };
    let set = match kind {
        QuestionType::Choice => choice::read(criteria, field)?,
        QuestionType::Score => score::read(criteria, field)?,
        QuestionType::Noul => noul::read(criteria, fields.get("labels"))?,
    };
    if kind != QuestionType::Noul && fields.contains_key("labels") {
        let message = "'labels' is only supported for noul questions; name the options in 'criteria'";
        return Err(Fault::new(Reason::UnsupportedCriteriaValue, ".labels", message));
    }
    if let Some(limit) = limits.max_options.filter(|limit| set.texts.len() > *limit) {
        let message = format!("{} options are more than the limit of {limit}", set.texts.len());
        return Err(Fault::new(Reason::TooManyOptions, field, message));
    }
    Ok(Question {
        id: id.to_owned(),
        kind,
        instructions: text_of(instructions).into_owned(),
        options: set.texts,
        labels: set.labels,
        answer_keys: set.answer_keys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn parse(definition: &str) -> Result<Question, RequestError> {
        Question::parse("q", &json::parse(definition.as_bytes()).unwrap())
    }

    #[test]
    fn option_texts_labels_and_keys() {
        let question = parse(
            r#"{"type": "choice", "instructions": {"q": "é?"}, "criteria": {"a": null, "b": "", "c": 0, "d": false, "e": [], "f": {"x": 1.0}, "g": "t"}}"#,
        )
        .unwrap();
        assert_eq!(question.instructions, r#"{"q": "é?"}"#);
        assert_eq!(question.options, ["a", "b", "c: 0", "d: false", "e: []", r#"f: {"x": 1.0}"#, "g: t"]);
        assert_eq!(question.answer_keys, ["a", "b", "c", "d", "e", "f", "g"]);

        let question =
            parse(r#"{"type": "choice", "instructions": null, "criteria": [true, 1e22, 3, "x", 2.5]}"#).unwrap();
        assert_eq!(question.instructions, "null");
        assert_eq!(question.options, ["True", "1e+22", "3", "x", "2.5"]);
        assert_eq!(question.answer_keys, ["true", "1e+22", "3", "x", "2.5"]);
        assert_eq!(question.labels[0], Value::from(true));

        let question =
            parse(r#"{"type": "score", "instructions": "", "criteria": ["low", "", 3, {"a": null}]}"#).unwrap();
        assert_eq!(question.options, ["level 0: low", "level 1: ", "level 2: 3", r#"level 3: {"a": null}"#]);
        assert_eq!(question.answer_keys, ["0", "1", "2", "3"]);
        assert_eq!(question.labels[2], Value::from(3_i64));

        let question = parse(
            r#"{"type": "noul", "instructions": "i", "criteria": {"FALSE": 0}, "labels": {"true": " now\u2028", "false": "\u0085later"}}"#,
        )
        .unwrap();
        assert_eq!(question.options, ["later: 0", "now: yes, the statement holds"]);
        assert_eq!(question.labels, [Value::from(false), Value::from(true)]);
    }

    #[test]
    fn refusals_name_the_field_and_the_rule() {
        use Reason::{
            InvalidNoulCriteria, InvalidRequest, TooFewOptions, UnknownQuestionType, UnsupportedCriteriaValue,
        };
        for (definition, reason, field, message) in [
            ("[]", InvalidRequest, "", "definition must be a dict, got list"),
            ("{}", UnknownQuestionType, ".type", "unknown type None; use one of ['choice', 'noul', 'score']"),
            (r#"{"type": "Choice"}"#, UnknownQuestionType, ".type", "unknown type 'Choice'; use"),
            (r#"{"type": ["choice"]}"#, UnknownQuestionType, ".type", "unknown type ['choice']; use"),
            (r#"{"type": "noul"}"#, Reason::EmptyInstructions, ".instructions", "no 'instructions'; add the text"),
            (
                r#"{"type": "choice", "instructions": 1}"#,
                UnsupportedCriteriaValue,
                ".criteria",
                "a choice question takes",
            ),
            (
                r#"{"type": "choice", "instructions": 1, "criteria": {}}"#,
                TooFewOptions,
                ".criteria",
                "a choice question needs",
            ),
            (
                r#"{"type": "choice", "instructions": 1, "criteria": ["a", ["b"]]}"#,
                UnsupportedCriteriaValue,
                ".criteria[1]",
                "choice label 1 is a list; ",
            ),
            (
                r#"{"type": "choice", "instructions": 1, "criteria": [null]}"#,
                UnsupportedCriteriaValue,
                ".criteria[0]",
                "choice label 0 is null; ",
            ),
            (
                r#"{"type": "choice", "instructions": 1, "criteria": ["a", 1, true]}"#,
                UnsupportedCriteriaValue,
                ".criteria[2]",
                "choice label 2 (True) repeats label 1; ",
            ),
            (
                r#"{"type": "choice", "instructions": 1, "criteria": ["1", 1]}"#,
                UnsupportedCriteriaValue,
                ".criteria[1]",
                "choice label 1 (1) has the answer key \"1\" of label 0",
            ),
            (
                r#"{"type": "choice", "instructions": 1, "options": ["a", "a"]}"#,
                UnsupportedCriteriaValue,
                ".options[1]",
                "choice label 1 ('a') repeats label 0; ",
            ),
            (
                r#"{"type": "choice", "instructions": 1, "criteria": ["a"], "labels": null}"#,
                UnsupportedCriteriaValue,
                ".labels",
                "'labels' is only supported",
            ),
            (
                r#"{"type": "score", "instructions": 1, "criteria": {"a": 1}}"#,
                UnsupportedCriteriaValue,
                ".criteria",
                "a score question takes",
            ),
            (
                r#"{"type": "score", "instructions": 1, "criteria": []}"#,
                TooFewOptions,
                ".criteria",
                "a score question needs",
            ),
            (
                r#"{"type": "score", "instructions": 1, "criteria": ["low", null]}"#,
                UnsupportedCriteriaValue,
                ".criteria[1]",
                "score level 1 is null; ",
            ),
            (
                r#"{"type": "noul", "instructions": 1, "criteria": []}"#,
                InvalidNoulCriteria,
                ".criteria",
                "a noul question takes 'criteria' as a dict",
            ),
            (
                r#"{"type": "noul", "instructions": 1, "criteria": {"Yes": 1, "no": 2}}"#,
                InvalidNoulCriteria,
                ".criteria",
                "a noul question takes 'criteria' keyed only 'true'/'false', got ['no', 'yes']",
            ),
            (
                r#"{"type": "noul", "instructions": 1, "labels": {"false": "a", "true": " a "}}"#,
                InvalidNoulCriteria,
                ".labels",
                "noul labels must map exactly",
            ),
            (
                r#"{"type": "noul", "instructions": 1, "labels": {"false": "a", "true": "b", "x": "c"}}"#,
                InvalidNoulCriteria,
                ".labels",
                "noul labels must map exactly",
            ),
        ] {
            let error = parse(definition).unwrap_err();
            assert_eq!(
                (error.reason, error.param.as_str()),
                (reason, format!("questions.q{field}").as_str()),
                "{definition}"
            );
            assert!(error.message.starts_with(&format!("question 'q': {message}")), "{}", error.message);
        }
    }

    #[test]
    fn options_stand_in_for_missing_criteria_only() {
        let question = parse(r#"{"type": "choice", "instructions": "i", "options": {"a": "x"}}"#).unwrap();
        assert_eq!(question.options, ["a: x"]);
        let question =
            parse(r#"{"type": "choice", "instructions": "i", "criteria": ["b"], "options": ["a"]}"#).unwrap();
        assert_eq!(question.options, ["b"]);
        let question = parse(r#"{"type": "noul", "instructions": "i", "options": {"true": "x"}}"#).unwrap();
        assert_eq!(question.options[1], "true: yes, the statement holds");
        assert!(parse(r#"{"type": "choice", "instructions": "i", "criteria": null, "options": ["a"]}"#).is_err());
    }

    #[test]
    fn an_id_is_shown_as_python_shows_it() {
        let error = Question::parse("it's\n", &Value::Null).unwrap_err();
        assert_eq!(error.message, "question \"it's\\n\": definition must be a dict, got NoneType");
        assert_eq!(error.param, "questions.it's\n");
    }
}
