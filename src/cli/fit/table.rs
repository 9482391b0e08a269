//! What people read about a fit.

use crate::calibrate::temperature::{Bucket, Fit, Group, InUse, Interval, THRESHOLDS, TypeFit};
use crate::cli::table::table;
use comfy_table::Table;

/// Every type and bucket: what was fitted, and what it does on held-out questions.
pub(super) fn temperatures(fit: &Fit) -> String {
    let header = [
        "type",
        "bucket",
        "verdict",
        "fit",
        "held out",
        "T",
        "used",
        "NLL at T = 1",
        "NLL at T",
        "gain",
        "ECE at T = 1",
        "ECE at T",
        "accuracy",
    ];
    let mut table = table(&header, 3);
    for_each(fit, |of_type, group| {
        let mut row = vec![
            of_type.kind.as_str().to_owned(),
            group.bucket.map_or("*", Bucket::as_str).to_owned(),
            group.verdict.as_str().to_owned(),
            group.n_fit.to_string(),
            group.n_eval.to_string(),
        ];
        let used = format!("{:.4}", group.used);
        match &group.judged {
            None => {
                row.extend(["-".into(), used]);
                row.resize(header.len(), "-".into());
            }
            Some(judged) => {
                row.extend([format!("{:.4}", judged.temperature), used]);
                row.extend([judged.nll_before, judged.nll_after, judged.gain].map(with_interval));
                row.extend([judged.ece_before, judged.ece_after].map(|ece| format!("{ece:.4}")));
                // A temperature chooses no other option.
                row.push(percent(judged.accuracy_after));
            }
        }
        add(&mut table, row);
    });
    table.trim_fmt()
}

/// Every type and bucket: how many held-out answers reach a confidence, and how many of these are right.
pub(super) fn thresholds(fit: &Fit) -> String {
    let mut header = vec!["type".to_owned(), "bucket".into(), "held out".into()];
    header.extend(THRESHOLDS.map(|threshold| format!(">= {threshold}")));
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    let mut table = table(&header, 2);
    for_each(fit, |of_type, group| {
        let Some(InUse { thresholds, .. }) = &group.in_use else { return };
        let mut row = vec![
            of_type.kind.as_str().to_owned(),
            group.bucket.map_or("*", Bucket::as_str).to_owned(),
            group.n_eval.to_string(),
        ];
        row.extend(thresholds.iter().map(|row| match row.accuracy {
            Some(accuracy) => format!("{} / {}", percent(row.coverage), percent(accuracy)),
            None => format!("{} / -", percent(row.coverage)),
        }));
        add(&mut table, row);
    });
    table.trim_fmt()
}

fn for_each(fit: &Fit, mut work: impl FnMut(&TypeFit, &Group)) {
    for of_type in &fit.types {
        work(of_type, &of_type.whole);
        of_type.buckets.iter().for_each(|group| work(of_type, group));
    }
}

fn add(table: &mut Table, row: Vec<String>) {
    table.add_row(row);
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn with_interval((value, Interval { low, high }): (f64, Interval)) -> String {
    format!("{value:.4} ({low:.4} to {high:.4})")
}
