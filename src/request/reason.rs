//! Why a request is refused.

use crate::error::{Error, ErrorKind};
use crate::json;
use std::fmt;

/// The closed list of reasons a client can match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The body is not JSON; see [`json::Reason::MalformedJson`].
    MalformedJson,
    /// A number of the body fits no 64-bit integer and no finite double.
    UnsupportedNumber,
    /// The body is JSON but not an object.
    BodyNotObject,
    /// `state` or `questions` is missing or of the wrong kind, a question is not an object, or a body option is wrong.
    InvalidRequest,
    /// The type of a question is not `choice`, `score` or `noul`.
    UnknownQuestionType,
    /// A question has no `instructions`.
    EmptyInstructions,
    /// A choice without a label or a score without a level.
    TooFewOptions,
    /// More options than the limit in force.
    TooManyOptions,
    /// More questions than the limit in force.
    TooManyQuestions,
    /// `criteria` or `labels` of a noul question break its rules.
    InvalidNoulCriteria,
    /// `criteria` of a choice or score question break its rules, or `labels` are given to one.
    UnsupportedCriteriaValue,
    /// The instructions do not fit and cutting is not allowed.
    PromptTooLong,
    /// Options do not fit: a marker is lost, or an option is cut and cutting is not allowed.
    OptionsTruncated,
    /// The state does not fit and cutting is not allowed.
    StateTruncated,
}

impl Reason {
    /// The reason as clients match it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MalformedJson => json::Reason::MalformedJson.as_str(),
            Self::UnsupportedNumber => json::Reason::UnsupportedNumber.as_str(),
            Self::BodyNotObject => "BODY_NOT_OBJECT",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::UnknownQuestionType => "UNKNOWN_QUESTION_TYPE",
            Self::EmptyInstructions => "EMPTY_INSTRUCTIONS",
            Self::TooFewOptions => "TOO_FEW_OPTIONS",
            Self::TooManyOptions => "TOO_MANY_OPTIONS",
            Self::TooManyQuestions => "TOO_MANY_QUESTIONS",
            Self::InvalidNoulCriteria => "INVALID_NOUL_CRITERIA",
            Self::UnsupportedCriteriaValue => "UNSUPPORTED_CRITERIA_VALUE",
            Self::PromptTooLong => "PROMPT_TOO_LONG",
            Self::OptionsTruncated => "OPTIONS_TRUNCATED",
            Self::StateTruncated => "STATE_TRUNCATED",
        }
    }
}

/// A request that cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// The reason to match on.
    pub reason: Reason,
    /// JSON path of the field at fault, such as `questions.refund.criteria[2]`; empty for the body as a whole.
    pub param: String,
    /// What is wrong and what to do; about a question it starts with `question '<id>': `.
    pub message: String,
}

impl RequestError {
    /// A refusal for `reason`, at fault `param`.
    pub fn new(reason: Reason, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, param: param.into(), message: message.into() }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        let refusal = Self::new(ErrorKind::Request, error.message);
        if error.param.is_empty() { refusal } else { refusal.at_path(error.param) }
    }
}

impl From<json::ParseError> for RequestError {
    fn from(error: json::ParseError) -> Self {
        let reason = match error.reason {
            json::Reason::MalformedJson => Reason::MalformedJson,
            json::Reason::UnsupportedNumber => Reason::UnsupportedNumber,
        };
        Self::new(reason, "", error.to_string())
    }
}
