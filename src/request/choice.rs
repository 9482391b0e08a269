//! The options of a choice question.

use super::question::{Fault, OptionSet};
use super::{Reason, body::text_of};
use crate::json::{Object, Value};
use std::collections::HashMap;
use std::hash::Hash;

/// Reads the labels of a choice from `criteria` (spelled `field`).
pub(super) fn read(criteria: &Value, field: &str) -> Result<OptionSet, Fault> {
    let entries: Vec<(Value, &Value)> = match criteria {
        Value::Object(labels) => of_object(labels),
        Value::Array(labels) => labels.iter().map(|label| (label.clone(), &Value::Null)).collect(),
        _ => {
            let message = format!(
                "a choice question takes 'criteria' as a dict of label -> description, or a list of labels; got {}",
                criteria.python_type_name()
            );
            return Err(Fault::new(Reason::UnsupportedCriteriaValue, field, message));
        }
    };
    if entries.is_empty() {
        let message = "a choice question needs at least one criterion";
        return Err(Fault::new(Reason::TooFewOptions, field, message));
    }
    if let Value::Array(labels) = criteria {
        check_labels(labels)
            .map_err(|(at, message)| Fault::new(Reason::UnsupportedCriteriaValue, format!("{field}[{at}]"), message))?;
    }
    Ok(OptionSet {
        texts: entries.iter().map(|(label, description)| text(label, description)).collect(),
        answer_keys: entries.iter().map(|(label, _)| answer_key(label)).collect(),
        labels: entries.into_iter().map(|(label, _)| label).collect(),
    })
}

fn of_object(labels: &Object) -> Vec<(Value, &Value)> {
    labels.iter().map(|(label, description)| (Value::from(label), description)).collect()
}

/// Checks the labels of a list: scalars, none equal to an earlier one under Python's `==`, no two with the same answer
/// key. Returns the position of the first bad one and what is wrong.
///
/// The last rule is ours: `["1", 1]` are two labels, but an answer cannot hold both keys.
fn check_labels(labels: &[Value]) -> Result<(), (usize, String)> {
    let mut keys = Vec::with_capacity(labels.len());
    for (at, label) in labels.iter().enumerate() {
        let why = "a label is shown as option text and is the answer key, so it must be";
        keys.push(match label.scalar_key() {
            Some(_) if label.is_null() => {
                return Err((at, format!("choice label {at} is null; {why} a string, number or bool")));
            }
            Some(key) => key,
            None => {
                let (kind, shown) = (label.python_type_name(), label.python_repr());
                let scalar = "a scalar (a string, number or bool)";
                return Err((at, format!("choice label {at} is a {kind}; {why} {scalar}, got {shown}")));
            }
        });
    }
    if let Some((at, first, label)) = first_repeat(keys, labels) {
        let shown = label.python_repr();
        let message = format!(
            "choice label {at} ({shown}) repeats label {first}; the labels are the answer keys, so every option needs \
             its own (1, 1.0 and True are one key)"
        );
        return Err((at, message));
    }
    if let Some((at, first, label)) = first_repeat(labels.iter().map(answer_key), labels) {
        let (shown, key) = (label.python_repr(), Value::from(answer_key(label)).dumps());
        let message = format!("choice label {at} ({shown}) has the answer key {key} of label {first}; change one");
        return Err((at, message));
    }
    Ok(())
}

/// The first position whose key is that of an earlier one, that earlier position, and the label.
fn first_repeat<K: Eq + Hash>(keys: impl IntoIterator<Item = K>, labels: &[Value]) -> Option<(usize, usize, &Value)> {
    let mut seen = HashMap::with_capacity(labels.len());
    keys.into_iter().zip(labels).enumerate().find_map(|(at, (key, label))| {
        let first = *seen.entry(key).or_insert(at);
        (first != at).then_some((at, first, label))
    })
}

/// The key of an answer's probabilities: a label as `json.dumps` writes a dict key.
fn answer_key(label: &Value) -> String {
    text_of(label).into_owned()
}

/// The label alone when its description is `null` or `""`, else `label: description`. The label is Python's `str()`.
fn text(label: &Value, description: &Value) -> String {
    let label = label.python_str();
    if description.is_null() || description.as_str() == Some("") {
        return label;
    }
    format!("{label}: {}", text_of(description))
}
