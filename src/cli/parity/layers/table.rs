//! What people read about a comparison of nodes.

use crate::cli::escape::printable;
use crate::cli::table::table;
use crate::parity::layers::{Comparison, Distance, Measure, Node, Outcome, TracedRow};

/// Every node of one comparison.
pub(super) fn nodes(comparison: &Comparison) -> String {
    let header = ["node", "measure", "max |d|", "mean |d|", "relative", "bar", "of the bar", "verdict"];
    let mut table = table(&header, 2);
    for distance in &comparison.nodes {
        table.add_row([
            distance.node.name(),
            distance.bar.measure.as_str().into(),
            number(distance.max_abs),
            number(distance.mean_abs()),
            number(distance.max_rel),
            number(distance.bar.tolerance),
            times(distance.factor),
            if distance.passes() { "pass".into() } else { "FAIL".into() },
        ]);
    }
    table.trim_fmt()
}

/// What a faithful comparison came to, in a sentence.
pub(super) fn verdict(comparison: &Comparison, rows: &[TracedRow]) -> String {
    let (n_nodes, n_rows) = (comparison.nodes.len(), rows.len());
    let n_tokens: usize = rows.iter().map(|row| row.ids.len()).sum();
    let over = format!("{n_nodes} nodes, {n_rows} rows, {n_tokens} tokens");
    match (comparison.first(), comparison.most()) {
        (Some(first), _) => {
            format!("fail: the first node past tolerance is {}{}; {over}", first.node.name(), error(first, rows))
        }
        (None, Some(most)) if most.factor > 0.0 => {
            format!("pass: nearest to its bar is {}{}; {over}", most.node.name(), error(most, rows))
        }
        _ if comparison.nodes.iter().all(|distance| distance.n_differ == 0) => {
            format!("pass: equal to the last bit; {over}")
        }
        // Zeros of either sign.
        _ => format!("pass: equal; {over}"),
    }
}

/// `: relative error 3.1e-2, 155 times its bar, in item/question at token 12`.
fn error(distance: &Distance, rows: &[TracedRow]) -> String {
    let (measure, what) = match (distance.bar.measure, distance.node) {
        (Measure::Absolute, _) => ("absolute", "token"),
        (Measure::Relative, _) => ("relative", "token"),
        (Measure::Logit, Node::ActLogits) => ("logit", "class"),
        (Measure::Logit, _) => ("logit", "option"),
    };
    let place = distance.worst.and_then(|worst| {
        let row = rows.get(worst.row)?;
        Some(format!(", in {} at {what} {}", printable(&row.name()), worst.position))
    });
    format!(
        ": {measure} error {}, {} times its bar{}",
        number(distance.error()),
        times(distance.factor),
        place.unwrap_or_default()
    )
}

/// Every mistake.
pub(super) fn controls(controls: &[Comparison]) -> String {
    let header = [
        "control",
        "outcome",
        "first past tolerance",
        "times its bar",
        "farthest",
        "times its bar",
        "logits, times their bar",
    ];
    let mut table = table(&header, 3);
    for control in controls {
        let outcome = match control.outcome() {
            Outcome::Fails => "fails, as it must",
            Outcome::Passes => "PASSES",
            Outcome::NotExercised => "NOT EXERCISED",
            Outcome::NotJudged => "not judged",
        };
        let of = |distance: Option<&Distance>| match distance {
            Some(distance) if distance.factor > 0.0 => [distance.node.name(), times(distance.factor)],
            _ => ["-".to_owned(), "-".to_owned()],
        };
        let name = control.mutation.map_or("-", |mutation| mutation.name);
        let mut row = vec![name.to_owned(), outcome.to_owned()];
        row.extend(of(control.first()));
        row.extend(of(control.most()));
        row.push(control.factor(Node::Logits).map_or_else(|| "-".into(), times));
        table.add_row(row);
    }
    table.trim_fmt()
}

/// What the mistakes came to, in a sentence.
pub(super) fn controls_verdict(controls: &[Comparison]) -> String {
    if controls.iter().any(|control| control.outcome() == Outcome::NotJudged) {
        return "fail: no mistake is judged; the candidate is past tolerance without one".into();
    }
    let failing: Vec<_> = controls.iter().filter(|control| control.outcome() == Outcome::Fails).collect();
    let (n, all) = (failing.len(), controls.len());
    let verdict = if n == all { "pass" } else { "fail" };
    let most = |control: &Comparison| control.most().map_or(0.0, |most| most.factor);
    let weakest = failing.into_iter().min_by(|a, b| most(a).total_cmp(&most(b)));
    let weakest = weakest.and_then(|control| {
        let (mutation, most) = (control.mutation?, control.most()?);
        let (name, node, factor) = (mutation.name, most.node.name(), times(most.factor));
        Some(format!("; the smallest is {name}, {factor} times its bar in {node}"))
    });
    format!("{verdict}: {n} of {all} mistakes are past tolerance{}", weakest.unwrap_or_default())
}

/// A measured number.
fn number(x: f64) -> String {
    if x == 0.0 {
        "0".into()
    } else if x.is_finite() {
        format!("{x:.1e}")
    } else {
        "not finite".into()
    }
}

/// A number of bars.
fn times(x: f64) -> String {
    match x {
        0.0 => "0".into(),
        x if !x.is_finite() => "infinitely many".into(),
        x if !(0.01..1e6).contains(&x) => format!("{x:.1e}"),
        x if x < 10.0 => format!("{x:.2}"),
        x => format!("{x:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        assert_eq!([0.0, 1.24e-5, f64::INFINITY].map(number), ["0", "1.2e-5", "not finite"]);
        let factors = [0.0, 0.001, 0.25, 9.5, 155.4, 3e7, f64::INFINITY];
        assert_eq!(factors.map(times), ["0", "1.0e-3", "0.25", "9.50", "155", "3.0e7", "infinitely many"]);
    }
}
