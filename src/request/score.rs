//! The levels of a score question.

use super::question::{Fault, OptionSet};
use super::{Reason, body::text_of};
use crate::json::Value;

/// Reads the levels of a score from `criteria` (spelled `field`), lowest first.
pub(super) fn read(criteria: &Value, field: &str) -> Result<OptionSet, Fault> {
    let Value::Array(levels) = criteria else {
        let message = format!(
            "a score question takes 'criteria' as a list of level descriptions, index 0 first; got {}",
            criteria.python_type_name()
        );
        return Err(Fault::new(Reason::UnsupportedCriteriaValue, field, message));
    };
    if levels.is_empty() {
        return Err(Fault::new(Reason::TooFewOptions, field, "a score question needs at least one level"));
    }
    if let Some(at) = levels.iter().position(Value::is_null) {
        let message = format!("score level {at} is null; give every level a description, index 0 first");
        return Err(Fault::new(Reason::UnsupportedCriteriaValue, format!("{field}[{at}]"), message));
    }
    Ok(OptionSet {
        texts: levels.iter().enumerate().map(|(i, level)| format!("level {i}: {}", text_of(level))).collect(),
        answer_keys: (0..levels.len()).map(|i| i.to_string()).collect(),
        labels: levels.clone(),
    })
}
