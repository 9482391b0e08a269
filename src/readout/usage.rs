//! What a request cost.

use crate::json::{Object, Value};

/// Token counts of one request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Sum of the row lengths of all questions.
    pub input_tokens: usize,
    /// Questions whose options no longer all differ, in request order.
    pub collapsed: Vec<CollapsedOptions>,
}

/// A question some of whose options read the same to the model after they were cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollapsedOptions {
    /// The question's id.
    pub id: String,
    /// Options of the question.
    pub total: usize,
    /// How many of them differ as tokens.
    pub distinct: usize,
    /// The cap all options were cut to, in tokens with the marker; `None` when they are equal without one.
    pub tokens_per_option: Option<usize>,
}

impl Usage {
    /// The `usage` object of an answer: `input_tokens`, `output_tokens` (always 0), and `options` when options collapsed.
    pub fn to_json(&self) -> Value {
        let mut usage = Object::new();
        usage.insert("input_tokens", self.input_tokens);
        usage.insert("output_tokens", 0_i64);
        if !self.collapsed.is_empty() {
            let options: Object = self.collapsed.iter().map(|c| (c.id.as_str(), c.to_json())).collect();
            usage.insert("options", options);
        }
        Value::from(usage)
    }
}

impl CollapsedOptions {
    fn to_json(&self) -> Value {
        let mut entry = Object::new();
        entry.insert("total", self.total);
        entry.insert("distinct", self.distinct);
        entry.insert("tokens_per_option", self.tokens_per_option);
        Value::from(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collapsed_options_are_listed_only_when_there_are_some() {
        let mut usage = Usage { input_tokens: 142, collapsed: Vec::new() };
        assert_eq!(usage.to_json().dumps(), r#"{"input_tokens": 142, "output_tokens": 0}"#);
        let entry = |id: &str, tokens_per_option| CollapsedOptions {
            id: id.into(),
            total: 58,
            distinct: 42,
            tokens_per_option,
        };
        usage.collapsed = vec![entry("b", Some(4)), entry("a", None)];
        assert_eq!(
            usage.to_json().dumps(),
            r#"{"input_tokens": 142, "output_tokens": 0, "options": {"b": {"total": 58, "distinct": 42, "tokens_per_option": 4}, "a": {"total": 58, "distinct": 42, "tokens_per_option": null}}}"#
        );
    }
}
