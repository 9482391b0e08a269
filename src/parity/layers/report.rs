//! What a comparison came to, as JSON.

use super::compare::{Comparison, Outcome};
use super::distance::Distance;
use super::row::TracedRow;
use super::rule::Rule;
use crate::json::{Object, Value};

/// `{rule, rows, faithful, controls}`: `faithful` is the comparison without a mistake, `controls` are those with one. A
/// number that is not finite is null.
pub fn report(comparisons: &[Comparison], rows: &[TracedRow], rule: &Rule) -> Object {
    let mut object = Object::new();
    let mut bars = Object::new();
    bars.insert("absolute", rule.absolute);
    bars.insert("absolute_until", rule.absolute_until);
    bars.insert("relative", rule.relative);
    bars.insert("logit", rule.logit);
    if *rule == Rule::DEFAULT {
        bars.insert("source", Rule::SOURCE);
    }
    object.insert("rule", bars);
    let row = |row: &TracedRow| {
        let mut object = Object::new();
        object.insert("item", row.item.as_str());
        object.insert("question", row.question.as_str());
        object.insert("n_tokens", row.ids.len());
        Value::Object(object)
    };
    object.insert("rows", rows.iter().map(row).collect::<Value>());
    let (mistaken, faithful): (Vec<_>, Vec<_>) =
        comparisons.iter().partition(|comparison| comparison.mutation.is_some());
    if let Some(faithful) = faithful.first() {
        object.insert("faithful", comparison(faithful, rows));
    }
    object.insert("controls", mistaken.into_iter().map(|one| Value::Object(comparison(one, rows))).collect::<Value>());
    object
}

fn comparison(comparison: &Comparison, rows: &[TracedRow]) -> Object {
    let mut object = Object::new();
    if let Some(mutation) = comparison.mutation {
        object.insert("name", mutation.name);
    }
    let outcome = match comparison.outcome() {
        Outcome::Passes => "pass",
        Outcome::Fails => "fail",
        Outcome::NotExercised => "not exercised",
        Outcome::NotJudged => "not judged",
    };
    object.insert("outcome", outcome);
    let name = |distance: Option<&Distance>| distance.map_or(Value::Null, |distance| distance.node.name().into());
    object.insert("first", name(comparison.first()));
    object.insert("most", name(comparison.most().filter(|most| most.factor > 0.0)));
    object.insert("factor", finite(comparison.most().map_or(0.0, |most| most.factor)));
    let nodes = comparison.nodes.iter().map(|distance| Value::Object(node(distance, rows)));
    object.insert("nodes", nodes.collect::<Value>());
    object
}

fn node(distance: &Distance, rows: &[TracedRow]) -> Object {
    let mut object = Object::new();
    object.insert("node", distance.node.name());
    object.insert("measure", distance.bar.measure.as_str());
    object.insert("tolerance", distance.bar.tolerance);
    object.insert("max_abs", finite(distance.max_abs));
    object.insert("mean_abs", finite(distance.mean_abs()));
    object.insert("max_rel", finite(distance.max_rel));
    object.insert("max_base", finite(distance.max_base));
    object.insert("n_differ", distance.n_differ);
    object.insert("n_not_finite", distance.n_not_finite);
    object.insert("factor", finite(distance.factor));
    object.insert("pass", distance.passes());
    if let Some((worst, row)) = distance.worst.and_then(|worst| Some((worst, rows.get(worst.row)?))) {
        object.insert("item", row.item.as_str());
        object.insert("question", row.question.as_str());
        object.insert("position", worst.position);
    }
    object
}

/// JSON has finite numbers only.
fn finite(x: f64) -> Value {
    if x.is_finite() { x.into() } else { Value::Null }
}
