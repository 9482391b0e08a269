//! What a spec is bound to: the layout of the file, the model and the numbers its calibration was fitted on.

use super::contract::Kernels;
use super::{Problem, model_sha256, shown};
use crate::error::Result;
use crate::gguf::File;
use crate::json::{Object, Value};
use crate::layout::is_laya;

/// Everything about `file` and this build, which computes under `numeric_contract`, that `spec` was not made for.
///
/// The fields are looked at as they are, so it can be asked about a spec that breaks a rule elsewhere.
///
/// # Errors
/// The calibration is bound to a model, and the data of this one cannot be read.
pub(super) fn problems(
    spec: &Object,
    file: &File,
    numeric_contract: u32,
    n_threads: Option<usize>,
) -> Result<Vec<Problem>> {
    let mut problems = Vec::from_iter(layout(spec, file));
    problems.extend(kernels(spec));
    problems.extend(contract(spec, numeric_contract));
    // It takes reading the whole file, which is no use when the calibration cannot be used anyway.
    if problems.is_empty() {
        problems.extend(model(spec, file, n_threads)?);
    }
    Ok(problems)
}

/// A spec for models of another layout.
pub(super) fn layout(spec: &Object, file: &File) -> Option<Problem> {
    let fits = match spec.get("layout")?.as_str()? {
        "laya" => is_laya(file),
        // Any language model may be one letters are read from, but a Laya model is none.
        "semif-letters" => !is_laya(file),
        // Not a layout at all, which is another problem.
        _ => true,
    };
    let architecture = file.get("general.architecture").map_or("not given".to_owned(), shown);
    let message = format!("is not the layout of this file, whose general.architecture is {architecture}");
    (!fits).then(|| problem("layout", message))
}

/// Kernels this build does not have.
pub(super) fn kernels(spec: &Object) -> Option<Problem> {
    let pinned = Kernels::from_name(spec.get("plan")?.get("kernels")?.as_str()?)?;
    let message = format!("is {:?}: the calibration was fitted with kernels this build does not have", pinned.as_str());
    (!Kernels::HERE.contains(&pinned)).then(|| problem("plan.kernels", message))
}

/// What the temperatures of `spec` were fitted on, if they are used and it says so.
fn fitted(spec: &Object) -> Option<&Value> {
    let calibration = spec.get("calibration")?;
    calibration.get("fitted").filter(|_| calibration.get("method").and_then(Value::as_str) != Some("none"))
}

/// A calibration that was fitted under another numeric contract.
pub(super) fn contract(spec: &Object, numeric_contract: u32) -> Option<Problem> {
    let bound = fitted(spec)?.get("numeric_contract")?.as_u64()?;
    let message = format!(
        "is {bound}, but this build computes under numeric contract {numeric_contract}: the calibration was fitted on other \
         numbers"
    );
    (bound != u64::from(numeric_contract)).then(|| problem("calibration.fitted.numeric_contract", message))
}

/// A calibration that was fitted on another model.
pub(super) fn model(spec: &Object, file: &File, n_threads: Option<usize>) -> Result<Option<Problem>> {
    let Some(bound) = fitted(spec).and_then(|fitted| fitted.get("model_sha256")?.as_str()) else { return Ok(None) };
    let own = match n_threads.map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build()) {
        Some(Ok(pool)) => pool.install(|| model_sha256(file))?,
        // Without threads of its own it takes those of the process.
        Some(Err(_)) | None => model_sha256(file)?,
    };
    let message = format!("is {bound}, but this model is {own}: the calibration was fitted on another one");
    Ok((bound != own).then(|| problem("calibration.fitted.model_sha256", message)))
}

fn problem(path: &str, message: String) -> Problem {
    Problem { path: path.to_owned(), message }
}
