//! Whether what a file says about its use is sound and fits the file.

use super::{KEY, MIRROR_KEYS, Problem, binding, check, hex};
use crate::error::Result;
use crate::gguf::{File, Value};
use crate::json;
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
/// value and type, a layout that is not the file's, kernels this build does not have, a calibration that was fitted on
/// another model or under another numeric contract than `numeric_contract`, and a difference from `expected`, byte for byte,
/// save for one line break more at its end.
///
/// A file without a spec has no problem, unless it has mirror keys.
///
/// # Errors
/// The calibration is bound to a model, and the data of this one cannot be read.
pub fn verify(file: &File, expected: Option<&[u8]>, numeric_contract: u32) -> Result<Verdict> {
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
    // A broken rule elsewhere does not matter to these.
    if let Ok(json::Value::Object(spec)) = json::parse(text) {
        problems.extend(super::mirror_problems(&spec, file));
        problems.extend(binding::problems(&spec, file, numeric_contract, None)?);
    }
    problems.extend(expected.and_then(|expected| difference(text, expected)));
    Ok(Verdict { stamped: true, sha256: Some(hex(&Sha256::digest(text))), problems })
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
