//! Everything about a fit, as JSON.

use super::bootstrap::Interval;
use super::{Effect, Fit, Group, Judged, Mean, N_BINS, Options, Range, TypeFit, block};
use crate::calibrate::{Leak, LogitFile, Split};
use crate::json::{Object, Value};

/// The report of `fit`, made of `logits` with `options`: data, engine, options, every type and bucket, the calibration.
pub fn report(fit: &Fit, logits: &LogitFile, options: &Options, leak: &Leak) -> Object {
    let mut report = Object::new();
    report.insert("data", logits.data.to_json());
    report.insert("engine", logits.identity.to_json());
    report.insert("options", options_json(options));
    report.insert("in_force", logits.in_force.to_json());
    report.insert("leakage", leak_json(leak));
    // Figures of the records that decided what is used flatter it; those of test records do not.
    report.insert("selected_on", Split::Eval.as_str());
    report.insert("n_single_option", fit.n_single_option);
    report.insert("notes", fit.notes.iter().map(String::as_str).collect::<Value>());
    report.insert("types", fit.types.iter().map(type_json).collect::<Object>());
    report.insert("calibration", block(fit, logits, options));
    report
}

/// All that changes a figure; the number of threads does not.
pub(super) fn options_json(options: &Options) -> Object {
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
    object.insert("states_in_several_splits", leak.shared_states.iter().map(|of| lines(of)).collect::<Value>());
    object.insert("states_of_several_records", leak.repeated_states.iter().map(|of| lines(of)).collect::<Value>());
    object
}

fn type_json(of_type: &TypeFit) -> (&'static str, Value) {
    let mut object = Object::new();
    for group in &of_type.buckets {
        object.insert(group.bucket.map_or("*", super::Bucket::as_str), group_json(group));
    }
    match &of_type.rest {
        Some(rest) => {
            object.insert("*", group_json(rest));
            object.insert("all", group_json(&of_type.whole));
        }
        None => {
            object.insert("*", group_json(&of_type.whole));
        }
    }
    object.insert("test", of_type.test.as_ref().map(effect_json));
    (of_type.kind.as_str(), object.into())
}

fn group_json(group: &Group) -> Object {
    let mut object = Object::new();
    object.insert("n_fit", group.n_fit);
    object.insert("n_eval", group.n_eval);
    object.insert("n_eval_states", group.n_eval_states);
    object.insert("verdict", group.verdict.as_str());
    object.insert("refusal", group.refusal.as_ref().map(ToString::to_string));
    // No questions have no temperature.
    let range = |range| (group.n_fit + group.n_eval > 0).then(|| range_json(range));
    object.insert("temperature_in_force", range(group.in_force));
    object.insert("temperature_used", range(group.uses));
    object.insert("fitted", group.judged.as_ref().map(judged_json));
    object.insert("in_use", group.in_use.as_ref().map(effect_json));
    object
}

/// The least and the most.
fn range_json(range: Range) -> Value {
    [range.least, range.most].into_iter().collect()
}

fn judged_json(judged: &Judged) -> Object {
    let mut object = Object::new();
    object.insert("temperature", judged.temperature);
    object.insert("fit_nll", judged.fit_nll);
    for (key, value) in effect_json(&judged.effect).iter().filter(|(key, _)| *key != "thresholds") {
        object.insert(key, value.clone());
    }
    let over_type = judged.over_type.map(|(temperature, gain)| {
        let mut over = Object::new();
        over.insert("temperature", temperature);
        over.insert("nll_gain", with_interval(gain));
        over
    });
    object.insert("over_type", over_type);
    object
}

fn with_interval((value, Interval { low, high }): Mean) -> Object {
    let mut object = Object::new();
    object.insert("value", value);
    object.insert("interval_95", [low, high].into_iter().collect::<Value>());
    object
}

/// Before is with the temperatures in force, after with those instead.
fn effect_json(effect: &Effect) -> Object {
    let mut object = Object::new();
    object.insert("n", effect.n);
    object.insert("n_states", effect.n_states);
    object.insert("nll_before", with_interval(effect.nll_before));
    object.insert("nll_after", with_interval(effect.nll_after));
    object.insert("nll_gain", with_interval(effect.gain));
    object.insert("ece_before", effect.ece_before);
    object.insert("ece_after", effect.ece_after);
    object.insert("accuracy_before", effect.accuracy_before);
    object.insert("accuracy_after", effect.accuracy_after);
    let rows = effect.thresholds.iter().map(|row| {
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
