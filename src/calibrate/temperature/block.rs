//! The calibration of a spec.

use super::{Fit, Options};
use crate::calibrate::{Data, Identity};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::spec::{self, Spec};

/// Hexadecimal digits of the data's hash that name a calibration.
const VERSION_DIGITS: usize = 12;

/// The `calibration` of a spec: the temperatures that `fit` uses, and in `fitted` what they are bound to.
///
/// A type without data has no entry, so that 1 is used for it.
pub fn block(fit: &Fit, options: &Options, identity: &Identity, data: &Data) -> Object {
    let mut temperature = Object::new();
    for of_type in &fit.types {
        let mut entry = Object::new();
        for group in of_type.buckets.iter().filter(|group| group.verdict.is_used()) {
            if let Some(bucket) = group.bucket {
                entry.insert(bucket.as_str(), group.used);
            }
        }
        entry.insert("*", of_type.whole.used);
        temperature.insert(of_type.kind.as_str(), entry);
    }
    let total = |of: fn(&super::Group) -> usize| fit.types.iter().map(|of_type| of(&of_type.whole)).sum::<usize>();
    let mut fitted = identity.to_json();
    fitted.insert("data_sha256", data.sha256.as_str());
    fitted.insert("n_fit", total(|group| group.n_fit));
    fitted.insert("n_eval", total(|group| group.n_eval));
    let mut block = Object::new();
    block.insert("method", "temperature");
    block.insert("required", false);
    block.insert("clamp", [options.clamp.low(), options.clamp.high()].into_iter().collect::<Value>());
    block.insert("temperature", temperature);
    block.insert("version", format!("fit-{}", data.sha256.get(..VERSION_DIGITS).unwrap_or(&data.sha256)));
    block.insert("fitted", fitted);
    block
}

/// `base` with `block` as its calibration and the kernels it was fitted with pinned; every other key stays as and where it
/// is. Indented, with a line break at the end.
///
/// # Errors
/// The result would not load; the error says why.
pub fn stamped(base: &Spec, block: Object, kernels: &str) -> Result<Spec> {
    let mut spec = base.value().clone();
    spec.insert("calibration", block);
    let mut plan = match spec.get("plan") {
        Some(Value::Object(plan)) => plan.clone(),
        _ => Object::new(),
    };
    plan.insert("kernels", kernels);
    spec.insert("plan", plan);
    let text = Value::Object(spec).dumps_indent(2) + "\n";
    let problems: Vec<_> = spec::check(text.as_bytes()).iter().map(ToString::to_string).collect();
    if !problems.is_empty() {
        let message = format!("the spec with this calibration would not load: {}", problems.join("; "));
        return Err(Error::new(ErrorKind::Model, message));
    }
    Spec::parse(text.as_bytes())
}
