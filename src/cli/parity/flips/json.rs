//! Changed answers for programs.

use super::super::listed::listed;
use super::excerpt::excerpt;
use crate::json::{Object, Value};
use crate::parity::{Flip, Flips, Identity, LeftOut, Side};
use crate::request::QuestionType;

/// Name of the format.
const SCHEMA: &str = "laya-parity-flips/1";

/// Characters of a state that are in the file; the whole one is in the corpus.
const STATE_CHARS: usize = 200;

/// One object whose list `flips` has a line for each.
pub(super) fn text(flips: &Flips, baseline: &Identity, candidate: &Identity) -> String {
    let mut facts = Object::new();
    facts.insert("schema", SCHEMA);
    facts.insert("baseline", baseline.to_json());
    facts.insert("candidate", candidate.to_json());
    let mut compared = Object::new();
    for (kind, agreement) in QuestionType::ALL.into_iter().zip(&flips.agreement) {
        let counts: Object = [("questions", agreement.n), ("same", agreement.n_same)].into_iter().collect();
        compared.insert(kind.as_str(), counts);
    }
    facts.insert("compared", compared);
    let LeftOut { n_unanswered_items, n_single_items, n_single_questions, n_unlike } = flips.left_out;
    let not_compared = [
        ("unanswered_items", n_unanswered_items),
        ("single_items", n_single_items),
        ("single_questions", n_single_questions),
        ("unlike_answers", n_unlike),
    ];
    facts.insert("not_compared", not_compared.into_iter().collect::<Object>());
    facts.insert("n_flips", flips.changed.len());
    listed(facts, "flips", flips.changed.iter().map(|flip| Value::Object(object(flip)))) + "\n"
}

fn object(flip: &Flip) -> Object {
    let mut object = Object::new();
    object.insert("item", flip.item.as_str());
    object.insert("question", flip.question.as_str());
    object.insert("type", flip.kind.as_str());
    object.insert("gap", flip.gap);
    object.insert("same_input", flip.same_input);
    object.insert("options", flip.options.iter().map(String::as_str).collect::<Value>());
    object.insert("baseline", side(&flip.baseline));
    object.insert("candidate", side(&flip.candidate));
    if let Some(asked) = &flip.asked {
        object.insert("category", asked.category.as_str());
        object.insert("instructions", asked.instructions.as_str());
        object.insert("state", excerpt(&asked.state, STATE_CHARS));
    }
    object
}

fn side(side: &Side) -> Object {
    let mut object = Object::new();
    object.insert("first", side.first);
    object.insert("source", side.source.as_str());
    object.insert("probabilities", side.probabilities.iter().copied().collect::<Value>());
    object
}
