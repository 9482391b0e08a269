//! Two public answers side by side.

use super::Rule;
use crate::json::{Number, Object, Value};
use crate::request::QuestionType;

/// Which bound a public number has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A probability, or the value of a noul.
    Probability,
    /// A confidence.
    Confidence,
    /// The value of a score.
    Score,
    /// Anything else.
    Other,
}

/// A number both answers have.
#[derive(Debug, PartialEq)]
pub(super) struct Pair {
    /// Its path in the answer.
    pub(super) path: String,
    /// Its class.
    pub(super) class: Class,
    /// In the answer of the baseline.
    pub(super) baseline: f64,
    /// In the answer of the candidate.
    pub(super) candidate: f64,
}

/// What two answers have in common.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Every number.
    pub(super) pairs: Vec<Pair>,
    /// Whether another choice was made.
    pub(super) choice_differs: bool,
    /// Whether a side lacks what an answer of its type is nothing without.
    pub(super) is_incomplete: bool,
    /// Whether a key was left out that only one side has.
    pub(super) left_out: bool,
    /// What breaks a rule.
    pub(super) faults: Vec<(Rule, String)>,
}

/// The keys a server may leave out.
const SERVER_LEAVES_OUT: [&str; 2] = ["answer_confidence", "action"];

/// The answers of both sides to a question of type `kind` with `n_options` raw logits; `is_lax` says which sides, baseline
/// then candidate, may leave out what a server leaves out.
pub(super) fn compare(
    kind: QuestionType,
    baseline: &Object,
    candidate: &Object,
    n_options: usize,
    is_lax: [bool; 2],
) -> Compared {
    let mut compared = Compared::default();
    for (name, side) in [("baseline", baseline), ("candidate", candidate)] {
        if let Some((rule, what)) = incomplete(kind, side, n_options) {
            compared.is_incomplete = true;
            compared.faults.push((rule, format!("the answer of the {name} {what}")));
        }
    }
    if compared.is_incomplete {
        return compared;
    }
    let may_drop = |key: &str, lax: bool| lax && SERVER_LEAVES_OUT.contains(&key);
    let mut baseline = baseline.clone();
    let mut candidate = candidate.clone();
    for key in SERVER_LEAVES_OUT {
        let [in_baseline, in_candidate] = [&baseline, &candidate].map(|side| side.contains_key(key));
        if in_baseline && !in_candidate && may_drop(key, is_lax[1]) {
            baseline.remove(key);
            compared.left_out = true;
        } else if in_candidate && !in_baseline && may_drop(key, is_lax[0]) {
            candidate.remove(key);
            compared.left_out = true;
        }
    }
    if let Some(what) = keys_differ("the answer", &baseline, &candidate) {
        compared.faults.push((Rule::AnswerKeys, what));
        return compared;
    }
    for (key, a) in baseline.iter() {
        let b = candidate.get(key).unwrap_or(&Value::Null);
        match key {
            // What was chosen is judged with the order of the options.
            "choice" => compared.choice_differs = !same(a, b),
            "type" if a.as_str() != Some(kind.as_str()) || !same(a, b) => {
                let what =
                    format!("the answers to a {} question are of type {} and {}", kind.as_str(), a.dumps(), b.dumps());
                compared.faults.push((Rule::AnswerLabel, what));
            }
            // Levels may be numbers, which no tolerance is for.
            "type" | "legend" if same(a, b) => {}
            "legend" => {
                compared.faults.push((Rule::AnswerLabel, format!("legend is {} and {}", a.dumps(), b.dumps())));
            }
            _ => walk(key, class(kind, key), a, b, &mut compared),
        }
    }
    compared
}

/// What is wrong with what an answer of a type is nothing without. Two answers that lack it alike are no more right.
fn incomplete(kind: QuestionType, answer: &Object, n_options: usize) -> Option<(Rule, String)> {
    let needed: &[_] = match kind {
        QuestionType::Choice => &["choice", "probabilities"],
        QuestionType::Score => &["score", "probabilities"],
        QuestionType::Noul => &["noul"],
    };
    let is_number = |value: &Value| matches!(value, Value::Number(_));
    needed.iter().find_map(|key| match (*key, answer.get(key)) {
        (_, None) => Some((Rule::PublicMissing, format!("has no {key}"))),
        ("choice", Some(_)) => None,
        ("probabilities", Some(Value::Object(all))) if all.len() != n_options => {
            Some((Rule::PublicMissing, format!("has {} probabilities for {n_options} options", all.len())))
        }
        ("probabilities", Some(Value::Object(all))) => all.iter().find(|(_, p)| !is_number(p)).map(|(option, p)| {
            (Rule::AnswerNumber, format!("has {} as probabilities.{option}, which is no number", p.dumps()))
        }),
        ("probabilities", Some(other)) => {
            Some((Rule::AnswerNumber, format!("has {} as probabilities, which is no object", other.dumps())))
        }
        (_, Some(value)) if is_number(value) => None,
        (key, Some(other)) => Some((Rule::AnswerNumber, format!("has {} as {key}, which is no number", other.dumps()))),
    })
}

fn class(kind: QuestionType, key: &str) -> Class {
    match (kind, key) {
        (QuestionType::Noul, "noul") | (QuestionType::Choice | QuestionType::Score, "probabilities") => {
            Class::Probability
        }
        (_, "confidence" | "answer_confidence") => Class::Confidence,
        (QuestionType::Score, "score") => Class::Score,
        _ => Class::Other,
    }
}

fn walk(path: &str, class: Class, a: &Value, b: &Value, compared: &mut Compared) {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            let (baseline, candidate) = (x.as_f64(), y.as_f64());
            if !(baseline.is_finite() && candidate.is_finite()) {
                compared.faults.push((Rule::AnswerNumber, format!("{path} is not finite: {baseline} and {candidate}")));
                return;
            }
            compared.pairs.push(Pair { path: path.to_owned(), class, baseline, candidate });
        }
        (Value::Number(_), other) | (other, Value::Number(_)) => {
            compared.faults.push((
                Rule::AnswerNumber,
                format!("{path} is a number on one side and {} on the other", other.dumps()),
            ));
        }
        (Value::Object(x), Value::Object(y)) => {
            if let Some(what) = keys_differ(path, x, y) {
                compared.faults.push((Rule::AnswerKeys, what));
                return;
            }
            for (key, a) in x.iter() {
                walk(&format!("{path}.{key}"), class, a, y.get(key).unwrap_or(&Value::Null), compared);
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (a, b)) in x.iter().zip(y).enumerate() {
                walk(&format!("{path}[{i}]"), class, a, b, compared);
            }
        }
        _ if same(a, b) => {}
        _ => compared.faults.push((Rule::AnswerLabel, format!("{path} is {} and {}", a.dumps(), b.dumps()))),
    }
}

/// What is said of two objects whose keys are not the same.
fn keys_differ(path: &str, baseline: &Object, candidate: &Object) -> Option<String> {
    let only = |a: &Object, b: &Object| a.keys().find(|key| !b.contains_key(key)).map(str::to_owned);
    if let Some(key) = only(baseline, candidate) {
        return Some(format!("{path} of the candidate has no {key}"));
    }
    only(candidate, baseline).map(|key| format!("{path} of the baseline has no {key}"))
}

/// Whether two values are the same JSON: keys in any order, numbers that are equal to the bit.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x, y) {
            (Number::Int(x), Number::Int(y)) => x == y,
            (Number::Uint(x), Number::Uint(y)) => x == y,
            _ => x.as_f64().to_bits() == y.as_f64().to_bits(),
        },
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(a, b)| same(a, b)),
        (Value::Object(x), Value::Object(y)) => same_object(x, y),
        _ => a == b,
    }
}

/// [`same`] of two objects.
pub(super) fn same_object(a: &Object, b: &Object) -> bool {
    a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Object {
        crate::json::parse(text.as_bytes()).unwrap().as_object().unwrap().clone()
    }

    #[test]
    fn sameness_is_that_of_json() {
        assert!(same_object(&object(r#"{"a": 1, "b": [true]}"#), &object(r#"{"b": [true], "a": 1.0}"#)));
        for other in [r#"{"a": 2}"#, r#"{"a": "1"}"#, r#"{"a": true}"#, r#"{"a": 1, "b": 1}"#, r#"{"b": 1}"#, "{}"] {
            assert!(!same_object(&object(r#"{"a": 1}"#), &object(other)), "{other}");
        }
        assert!(!same(&Value::from(0.0), &Value::from(-0.0)));
        assert!(!same(&Value::from(0.1), &Value::from(0.1_f64.next_up())));
    }

    #[test]
    fn numbers_have_the_class_of_their_key() {
        let answer = object(
            r#"{"type": "score", "score": 1.5, "legend": {"0": 1, "1": 2}, "probabilities": {"0": 0.25, "1": 0.75},
                "confidence": 0.5, "action": {"act_probability": 1}}"#,
        );
        let compared = compare(QuestionType::Score, &answer, &answer, 2, [false; 2]);
        let classes: Vec<_> = compared.pairs.iter().map(|pair| (pair.path.as_str(), pair.class)).collect();
        use Class::{Confidence, Other, Probability, Score};
        assert_eq!(
            classes,
            [
                ("score", Score),
                ("probabilities.0", Probability),
                ("probabilities.1", Probability),
                ("confidence", Confidence),
                ("action.act_probability", Other)
            ]
        );
        assert!(compared.faults.is_empty());
    }

    #[test]
    fn an_answer_is_nothing_without_its_numbers() {
        use QuestionType::{Choice, Noul, Score};
        for (kind, answer, rule, says) in [
            (Noul, "{}", Rule::PublicMissing, "has no noul"),
            (Noul, r#"{"noul": null}"#, Rule::AnswerNumber, "has null as noul, which is no number"),
            (Score, r#"{"score": "1", "probabilities": {"0": 1, "1": 0}}"#, Rule::AnswerNumber, "has \"1\" as score"),
            (Score, r#"{"score": 1, "probabilities": {"0": 1}}"#, Rule::PublicMissing, "has 1 probabilities for 2"),
            (Choice, r#"{"choice": "a", "probabilities": {}}"#, Rule::PublicMissing, "has 0 probabilities for 2"),
            (Choice, r#"{"choice": "a", "probabilities": [1, 0]}"#, Rule::AnswerNumber, "has [1, 0] as probabilities"),
            (
                Choice,
                r#"{"choice": "a", "probabilities": {"a": 1, "b": null}}"#,
                Rule::AnswerNumber,
                "has null as probabilities.b",
            ),
        ] {
            let answer = object(answer);
            let compared = compare(kind, &answer, &answer, 2, [false; 2]);
            assert!(compared.is_incomplete && compared.pairs.is_empty());
            let faults: Vec<_> = compared.faults.iter().map(|(rule, what)| (*rule, what.contains(says))).collect();
            assert_eq!(faults, [(rule, true); 2], "{:?}", compared.faults);
        }
    }
}
