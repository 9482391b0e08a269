//! Whether what a file says about its use is sound and fits the file.

use super::{KEY, MIRROR_KEYS, Problem, Spec, check, hex, model_sha256, shown};
use crate::error::Result;
use crate::gguf::{File, Value};
use crate::json::{self, Object};
use crate::layout::is_laya;
use sha2::{Digest as _, Sha256};

/// What [`verify`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the file has the key `decision.spec`.
    pub stamped: bool,
    /// SHA-256 of its bytes, in hexadecimal; `None` when it is absent or not a string.
    pub sha256: Option<String>,
    /// Everything that is wrong. The path is one into the spec, or a key of the file: `decision.spec` or a mirror key.
    pub problems: Vec<Problem>,
}

/// Looks for everything that is wrong with the spec of `file`: rules it breaks, mirror keys that do not agree with it in
/// value and type, a layout that is not the file's, a calibration that was fitted on another model, and a difference from
/// `expected`, byte for byte, save for one line break more at its end.
///
/// A file without a spec has no problem, unless it has mirror keys. Mirror keys of a spec that breaks a rule are not
/// compared: they are written anew with the next one.
///
/// # Errors
/// The calibration is bound to a model, and the data of this one cannot be read.
pub fn verify(file: &File, expected: Option<&[u8]>) -> Result<Verdict> {
    let text = match file.get(KEY) {
        None => {
            let stale = MIRROR_KEYS.into_iter().filter(|key| file.get(key).is_some());
            let problems = stale.map(|key| problem(key, format!("is there without {KEY}"))).collect();
            return Ok(Verdict { stamped: false, sha256: None, problems });
        }
        Some(Value::String(text)) => text,
        Some(other) => {
            let problems = vec![problem(KEY, format!("must be a string, not {}", other.type_name()))];
            return Ok(Verdict { stamped: true, sha256: None, problems });
        }
    };
    let mut problems = check(text);
    if let Ok(spec) = Spec::parse(text) {
        problems.extend(spec.mirror_problems(file));
    }
    // A broken rule elsewhere does not matter to these.
    if let Ok(json::Value::Object(spec)) = json::parse(text) {
        problems.extend(layout(file, &spec));
        problems.extend(fitted(file, &spec)?);
    }
    problems.extend(expected.and_then(|expected| difference(text, expected)));
    Ok(Verdict { stamped: true, sha256: Some(hex(&Sha256::digest(text))), problems })
}

/// A spec for models of another layout.
pub(super) fn layout(file: &File, spec: &Object) -> Option<Problem> {
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

/// A calibration that was fitted on another model.
pub(super) fn fitted(file: &File, spec: &Object) -> Result<Option<Problem>> {
    let bound =
        spec.get("calibration").and_then(|calibration| calibration.get("fitted")?.get("model_sha256")?.as_str());
    let Some(bound) = bound else { return Ok(None) };
    let own = model_sha256(file)?;
    let message = format!("is that of another model, this one has {own}: fit the temperatures again on this one");
    Ok((bound != own).then(|| problem("calibration.fitted.model_sha256", message)))
}

/// Where `text` is not `expected`.
fn difference(text: &[u8], expected: &[u8]) -> Option<Problem> {
    if text == expected || expected.strip_suffix(b"\n") == Some(text) {
        return None;
    }
    let at = text.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let line = 1 + text.iter().take(at).filter(|byte| **byte == b'\n').count();
    let (n, n_expected) = (text.len(), expected.len());
    let message = format!("has {n} bytes, the given spec {n_expected}: they differ from byte {at} on, in line {line}");
    Some(problem(KEY, message))
}

fn problem(path: &str, message: String) -> Problem {
    Problem { path: path.to_owned(), message }
}
