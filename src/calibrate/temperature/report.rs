//! Everything about a fit, as JSON.

use super::bootstrap::Interval;
use super::{Fit, Group, InUse, Judged, N_BINS, Options, TypeFit, block};
use crate::calibrate::{Leak, LogitFile};
use crate::json::{Object, Value};

/// The report of `fit`, made of `logits` with `options`: data, engine, options, every type and bucket, the calibration.
pub fn report(fit: &Fit, logits: &LogitFile, options: &Options, leak: &Leak) -> Object {
    let mut report = Object::new();
    report.insert("data", logits.data.to_json());
    report.insert("engine", logits.identity.to_json());
    report.insert("options", options_json(options));
    report.insert("leakage", leak_json(leak));
    report.insert("n_single_option", fit.n_single_option);
    report.insert("notes", fit.notes.iter().map(String::as_str).collect::<Value>());
    report.insert("types", fit.types.iter().map(type_json).collect::<Object>());
    report.insert("calibration", block(fit, options, &logits.identity, &logits.data));
    report
}

/// All that changes a figure; the number of threads does not.
fn options_json(options: &Options) -> Object {
    let mut object = Object::new();
    object.insert("types", options.types.iter().map(|kind| kind.as_str()).collect::<Value>());
    object.insert("clamp", [options.clamp.low(), options.clamp.high()].into_iter().collect::<Value>());
    object.insert("heldout_frac", options.fraction.get());
    object.insert("min_examples", options.min_examples);
    object.insert("min_eval", options.min_eval);
    object.insert("bootstrap", options.n_resamples);
    object.insert("seed", options.seed);
    object.insert("all_buckets", options.all_buckets);
    object.insert("ece_bins", N_BINS);
    object
}

fn leak_json(leak: &Leak) -> Object {
    let lines = |lines: &[u64]| lines.iter().copied().collect::<Value>();
    let mut object = Object::new();
    let repeated = leak.repeated_ids.iter().map(|(id, of)| (id.as_str(), lines(of)));
    object.insert("repeated_ids", repeated.collect::<Object>());
    object.insert("states_in_both_splits", leak.shared_states.iter().map(|of| lines(of)).collect::<Value>());
    object
}

fn type_json(of_type: &TypeFit) -> (&'static str, Value) {
    let mut object = Object::new();
    for group in &of_type.buckets {
        object.insert(group.bucket.map_or("*", super::Bucket::as_str), group_json(group));
    }
    object.insert("*", group_json(&of_type.whole));
    (of_type.kind.as_str(), object.into())
}

fn group_json(group: &Group) -> Object {
    let mut object = Object::new();
    object.insert("n_fit", group.n_fit);
    object.insert("n_eval", group.n_eval);
    object.insert("n_eval_records", group.n_eval_records);
    object.insert("verdict", group.verdict.as_str());
    object.insert("temperature_used", group.used);
    object.insert("fitted", group.judged.as_ref().map(judged_json));
    object.insert("in_use", group.in_use.as_ref().map(in_use_json));
    object
}

fn judged_json(judged: &Judged) -> Object {
    let mut object = Object::new();
    object.insert("temperature", judged.temperature);
    object.insert("replaces", judged.replaces);
    object.insert("fit_nll", judged.fit_nll);
    object.insert("nll_before", with_interval(judged.nll_before));
    object.insert("nll_after", with_interval(judged.nll_after));
    object.insert("nll_gain", with_interval(judged.gain));
    object.insert("ece_before", judged.ece_before);
    object.insert("ece_after", judged.ece_after);
    object.insert("accuracy_before", judged.accuracy_before);
    object.insert("accuracy_after", judged.accuracy_after);
    object
}

fn with_interval((value, Interval { low, high }): (f64, Interval)) -> Object {
    let mut object = Object::new();
    object.insert("value", value);
    object.insert("interval_95", [low, high].into_iter().collect::<Value>());
    object
}

fn in_use_json(in_use: &InUse) -> Object {
    let mut object = Object::new();
    object.insert("nll", in_use.nll);
    object.insert("ece", in_use.ece);
    object.insert("accuracy", in_use.accuracy);
    let rows = in_use.thresholds.iter().map(|row| {
        let mut object = Object::new();
        object.insert("answer_confidence", row.confidence);
        object.insert("n", row.n);
        object.insert("coverage", row.coverage);
        object.insert("accuracy", row.accuracy);
        object
    });
    object.insert("thresholds", rows.collect::<Value>());
    object
}
