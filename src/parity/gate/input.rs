//! Whether the model read the same on both sides.

use super::Rule;
use crate::parity::QuestionRecord;

/// What is said of a question whose inputs are not the same.
pub(super) fn inputs_differ(a: &QuestionRecord, b: &QuestionRecord) -> Option<(Rule, String)> {
    if a.kind != b.kind {
        return Some((Rule::QuestionType, format!("it is of type {} and {}", a.kind.as_str(), b.kind.as_str())));
    }
    let (Some(x), Some(y)) = (&a.ids, &b.ids) else {
        let side = if a.ids.is_none() { "baseline" } else { "candidate" };
        return Some((Rule::InputUnknown, format!("the {side} does not say what the model read (ids)")));
    };
    if x.len() != y.len() {
        return Some((Rule::InputLength, format!("the inputs have {} and {} tokens", x.len(), y.len())));
    }
    let markers_differ = matches!((&a.markers, &b.markers), (Some(x), Some(y)) if x != y);
    if let Some(i) = (0..x.len()).find(|i| x.get(*i) != y.get(*i)) {
        let in_state = !markers_differ && state_start(x, a.markers.as_deref()).is_some_and(|start| i >= start);
        let rule = if in_state { Rule::InputState } else { Rule::InputIds };
        let token = |ids: &[u32]| ids.get(i).copied().unwrap_or_default();
        return Some((rule, format!("the inputs differ from token {i} on: {} and {}", token(x), token(y))));
    }
    markers_differ.then(|| (Rule::InputMarkers, "the options are at other places (markers)".to_owned()))
}

/// Where the state begins: behind the separator, the last token of all, that ends the last option.
fn state_start(ids: &[u32], markers: Option<&[u32]>) -> Option<usize> {
    let last = usize::try_from(*markers?.last()?).ok()?;
    let separator = ids.last()?;
    let after = ids.get(last..)?.iter().position(|id| id == separator)?;
    Some(last + after + 1)
}
