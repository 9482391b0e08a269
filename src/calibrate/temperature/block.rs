//! The calibration of a spec.

use sha2::{Digest as _, Sha256};

use super::report::options_json;
use super::{Bucket, Fit, Group, Options, TypeFit};
use crate::calibrate::LogitFile;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::request::QuestionType;
use crate::spec::{self, Calibration, Spec};

/// Hexadecimal digits of the hash that names a calibration.
const VERSION_DIGITS: usize = 12;

/// The key of the types that have no temperature of their own.
const ALL: &str = "all";

/// The `calibration` of a spec: the temperatures that are used from now on, those of `fit` and for everything it did not
/// better those in force, and in `fitted` what they are bound to.
pub fn block(fit: &Fit, logits: &LogitFile, options: &Options) -> Object {
    let temperature = temperatures(fit, &logits.in_force);
    let total = |of: fn(&Group) -> usize| fit.types.iter().map(|of_type| of(&of_type.whole)).sum::<usize>();
    let (identity, data) = (&logits.identity, &logits.data);
    let mut fitted = identity.to_json();
    fitted.insert("data_sha256", data.sha256.as_str());
    fitted.insert("n_fit", total(|group| group.n_fit));
    fitted.insert("n_eval", total(|group| group.n_eval));
    fitted.insert("n_failed", data.n_failed);
    fitted.insert("options", options_json(options));
    let clamp: Value = clamp(options, &temperature).into_iter().collect();
    // What is said of it names it: the same data, model and options, and the same temperatures.
    let named: Value = [
        data.sha256.as_str().into(),
        identity.model_sha256.as_str().into(),
        Value::from(options_json(options)),
        clamp.clone(),
        temperature.clone().into(),
    ]
    .into_iter()
    .collect();
    let version = spec::hex(&Sha256::digest(named.dumps()));
    let mut block = Object::new();
    block.insert("method", "temperature");
    // What was complete still is: every entry that was there is, or covers every number of options.
    block.insert("required", logits.in_force.is_required());
    block.insert("clamp", clamp);
    block.insert("temperature", temperature);
    block.insert("version", format!("fit-{}", version.get(..VERSION_DIGITS).unwrap_or(&version)));
    block.insert("fitted", fitted);
    block
}

/// The entries of every type that has one now or had one before.
fn temperatures(fit: &Fit, in_force: &Calibration) -> Object {
    let mut temperature = Object::new();
    for kind in QuestionType::ALL {
        let fitted = fit.types.iter().find(|of_type| of_type.kind == kind).map(|of_type| entry(of_type, in_force));
        if let Some(entry) = fitted.or_else(|| in_force.entry(Some(kind))) {
            temperature.insert(kind.as_str(), entry);
        }
    }
    if let Some(entry) = in_force.entry(None).filter(|_| temperature.len() < QuestionType::ALL.len()) {
        temperature.insert(ALL, entry);
    }
    temperature
}

/// The entry of a type that was fitted.
fn entry(fitted: &TypeFit, in_force: &Calibration) -> Object {
    let kind = fitted.kind;
    let mut entry = Object::new();
    for group in &fitted.buckets {
        if let (Some(bucket), Some(own)) = (group.bucket, group.own()) {
            entry.insert(bucket.as_str(), own);
        }
    }
    let before = in_force.entry(Some(kind)).or(in_force.entry(None));
    let before = before.unwrap_or_else(|| [("*", 1.0)].into_iter().collect());
    let general = fitted.general();
    if entry.is_empty() && general.is_none() {
        return before;
    }
    // Where what is in force stays beside what is new, it is written count by count.
    let general = general.or(before.get("*").and_then(Value::as_f64)).unwrap_or(1.0);
    let has_own = |bucket| fitted.buckets.iter().any(|group| group.bucket == Some(bucket) && group.own().is_some());
    let is_edge = |n: &usize| *n == 1 || Bucket::of(*n) != Bucket::of(*n - 1);
    let mut starts: Vec<_> = (1..=MOST_EDGE).filter(is_edge).chain(in_force.steps(kind)).collect();
    // Counts a bucket can name; no question comes near the end of them.
    starts.retain(|n| (1..1_000_000_000).contains(n));
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).map(|next| Some(next - 1)).chain([None]);
    for (start, end) in starts.iter().zip(ends) {
        let temperature = fitted.temperature(*start, in_force.temperature(kind, *start));
        if has_own(Bucket::of(*start)) || temperature == general {
            continue;
        }
        let name = match end {
            Some(end) if end == *start => start.to_string(),
            Some(end) => format!("{start}-{end}"),
            None => format!("{start}+"),
        };
        entry.insert(name, temperature);
    }
    entry.insert("*", general);
    entry
}

/// No bucket starts above.
const MOST_EDGE: usize = 20;

/// The clamp of the options, as far as it changes none of the temperatures that are written: one that stays in force may be
/// outside of it.
fn clamp(options: &Options, temperature: &Object) -> [f64; 2] {
    let written = temperature.values().filter_map(Value::as_object).flat_map(Object::values).filter_map(Value::as_f64);
    let widened = |[low, high]: [f64; 2], t: f64| [low.min(t), high.max(t)];
    written.fold([options.clamp.low(), options.clamp.high()], widened)
}

/// `base` with `block` as its calibration, the plan the logits come from named and the kernels pinned, so that the model runs
/// as it did for the fit; every other key stays as and where it is. Indented, with a line break at the end.
///
/// # Errors
/// The result would not load; the error says why.
pub fn stamped(base: &Spec, block: Object, logits: &LogitFile) -> Result<Spec> {
    let mut spec = base.value().clone();
    spec.insert("calibration", block);
    let mut plan = match spec.get("plan") {
        Some(Value::Object(plan)) => plan.clone(),
        _ => Object::new(),
    };
    plan.insert("name", logits.identity.plan.as_str());
    plan.insert("kernels", logits.identity.kernels.as_str());
    spec.insert("plan", plan);
    let text = Value::Object(spec).dumps_indent(2) + "\n";
    let problems: Vec<_> = spec::check(text.as_bytes()).iter().map(ToString::to_string).collect();
    if !problems.is_empty() {
        let message = format!("the spec with this calibration would not load: {}", problems.join("; "));
        return Err(Error::new(ErrorKind::Model, message));
    }
    Spec::parse(text.as_bytes())
}
