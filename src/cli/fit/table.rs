//! What people read about a fit.

use crate::calibrate::temperature::{Bucket, Effect, Fit, Group, Interval, Mean, THRESHOLDS, Threshold, TypeFit};
use crate::cli::table::table;

/// Least answers a share of right ones is shown of.
const LEAST_SHOWN: usize = 20;

/// Every type and bucket: what was fitted, and what it does on held-out questions.
pub(super) fn temperatures(fit: &Fit) -> String {
    let header = [
        "type",
        "bucket",
        "verdict",
        "fit",
        "held out",
        "states",
        "T in force",
        "T fitted",
        "T used",
        "NLL in force",
        "NLL at T fitted",
        "gain over T in force",
        "gain over T of type",
        "ECE in force",
        "ECE at T fitted",
        "accuracy",
    ];
    let mut table = table(&header, 3);
    for_each(fit, |of_type, bucket, group| {
        let mut row = vec![
            of_type.kind.as_str().to_owned(),
            bucket.to_owned(),
            group.verdict.as_str().to_owned(),
            group.n_fit.to_string(),
            group.n_eval.to_string(),
            group.n_eval_states.to_string(),
        ];
        let has_questions = group.n_fit + group.n_eval > 0;
        let range = |range: &dyn ToString| if has_questions { range.to_string() } else { "-".to_owned() };
        let (in_force, uses) = (range(&group.in_force), range(&group.uses));
        match &group.judged {
            None => {
                row.extend([in_force, "-".into(), uses]);
                row.resize(header.len(), "-".into());
            }
            Some(judged) => {
                let effect = &judged.effect;
                row.extend([in_force, format!("{:.4}", judged.temperature), uses]);
                row.extend([effect.nll_before, effect.nll_after, effect.gain].map(with_interval));
                row.push(judged.over_type.map_or_else(|| "-".into(), |(_, gain)| with_interval(gain)));
                row.extend([effect.ece_before, effect.ece_after].map(|ece| format!("{ece:.4}")));
                // A temperature chooses no other option.
                row.push(percent(effect.accuracy_after));
            }
        }
        table.add_row(row);
    });
    table.trim_fmt()
}

/// Every type and bucket: how many held-out answers reach a confidence, and how many of these are right.
pub(super) fn thresholds(fit: &Fit) -> String {
    let mut header = vec!["type".to_owned(), "bucket".into(), "held out".into()];
    header.extend(THRESHOLDS.map(|threshold| format!(">= {threshold}")));
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    let mut table = table(&header, 2);
    for_each(fit, |of_type, bucket, group| {
        let Some(Effect { thresholds, .. }) = &group.in_use else { return };
        let mut row = vec![of_type.kind.as_str().to_owned(), bucket.to_owned(), group.n_eval.to_string()];
        row.extend(thresholds.iter().map(threshold));
        table.add_row(row);
    });
    table.trim_fmt()
}

/// Every type with records that were kept for a test: the answers before and after, on these.
pub(super) fn test(fit: &Fit) -> Option<String> {
    let header = [
        "type",
        "test",
        "states",
        "NLL in force",
        "NLL as calibrated",
        "gain",
        "ECE in force",
        "ECE as calibrated",
        "accuracy",
    ];
    let mut table = table(&header, 1);
    let mut is_empty = true;
    for (of_type, effect) in fit.types.iter().filter_map(|of_type| Some((of_type, of_type.test.as_ref()?))) {
        is_empty = false;
        let mut row = vec![of_type.kind.as_str().to_owned(), effect.n.to_string(), effect.n_states.to_string()];
        row.extend([effect.nll_before, effect.nll_after, effect.gain].map(with_interval));
        row.extend([effect.ece_before, effect.ece_after].map(|ece| format!("{ece:.4}")));
        row.push(percent(effect.accuracy_after));
        table.add_row(row);
    }
    (!is_empty).then(|| table.trim_fmt())
}

fn threshold(row: &Threshold) -> String {
    match row.accuracy.filter(|_| row.n >= LEAST_SHOWN) {
        Some(accuracy) => format!("{} ({}) / {}", percent(row.coverage), row.n, percent(accuracy)),
        None => format!("{} ({}) / -", percent(row.coverage), row.n),
    }
}

/// Calls `work` for every row, with the name of its bucket.
fn for_each(fit: &Fit, mut work: impl FnMut(&TypeFit, &str, &Group)) {
    for of_type in &fit.types {
        work(of_type, if of_type.rest.is_some() { "all" } else { "*" }, &of_type.whole);
        for group in &of_type.buckets {
            work(of_type, group.bucket.map_or("*", Bucket::as_str), group);
        }
        if let Some(rest) = &of_type.rest {
            work(of_type, "*", rest);
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn with_interval((value, Interval { low, high }): Mean) -> String {
    format!("{value:.4} ({low:.4} to {high:.4})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_answers_have_no_share_of_right_ones() {
        let row = |n| threshold(&Threshold { confidence: 0.5, n, coverage: 0.25, accuracy: Some(1.0) });
        assert_eq!([row(19), row(20)], ["25.0 % (19) / -", "25.0 % (20) / 100.0 %"]);
    }
}
