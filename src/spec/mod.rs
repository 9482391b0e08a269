//! `decision.spec`: the text in a model file that says how the model must be used.
//!
//! ```json
//! {"spec_version": 1, "model_id": "example/triage", "layout": "laya",
//!  "calibration": {"method": "temperature", "clamp": [0.5, 5.0],
//!                  "temperature": {"noul": 1.37, "choice": {"2": 1.2, "3-5": 1.45, "6+": 1.6}, "all": 1.3}},
//!  "confidence": "laya", "plan": {"name": "sequential", "kernels": "default"}}
//! ```
//!
//! It is the value of the key [`KEY`]: UTF-8 JSON whose exact bytes count, because their SHA-256 names the spec wherever
//! answers go. [`check`] finds every broken rule, [`Spec::parse`] stops at the first; both name the JSON path.
//!
//! * [`Calibration`] looks temperatures up, [`Contract`] holds layout, limits, confidence and pins, [`Router`] the router
//!   block, [`Fitted`] what a calibration was fitted on.
//! * [`Applied`] is the spec of a loaded model: a file given for it, the one in its GGUF, or the default.
//! * Readers that skip the JSON look at four mirror keys, [`Spec::mirrors`], which must say the same.

mod applied;
mod binding;
mod bucket;
mod calibration;
mod contract;
mod fitted;
mod problem;
mod router;
mod stamp;
mod verify;

pub use applied::{Applied, Given, Source, Stored};
pub use calibration::{Adjustment, Calibration, bucket_holds};
pub use contract::{Confidence, Contract, InputContract, Kernels, Layout, SpecialTokens};
pub(crate) use fitted::unreadable;
pub use fitted::{Fitted, file_sha256, model_sha256};
pub use problem::Problem;
pub use router::{Platt, Router};
pub use stamp::{Stamped, stamp, unstamp};
pub use verify::{Verdict, verify};

use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::gguf;
use crate::json::{self, Object, Value};
use problem::Problems;

/// The key of a spec in a GGUF file.
pub const KEY: &str = "decision.spec";
/// The version this module reads.
pub const VERSION: u32 = 1;
/// The mirror keys, for readers that skip the JSON.
pub const MIRROR_KEYS: [&str; 4] =
    ["decision.spec_version", "decision.layout", "decision.model_id", "decision.model_version"];
/// Longest text. A spec of a few hundred temperatures has some ten thousand bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// A spec without a broken rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    text: Vec<u8>,
    value: Object,
    contract: Contract,
    /// `None` when the spec does not mention it: the model's own temperatures hold then.
    calibration: Option<Calibration>,
    router: Option<Router>,
    fitted: Option<Fitted>,
}

/// Every broken rule of a spec; none when it is one.
pub fn check(text: &[u8]) -> Vec<Problem> {
    read(text).err().unwrap_or_default()
}

impl Spec {
    /// Reads a spec.
    ///
    /// # Errors
    /// The first broken rule, of kind [`ErrorKind::Spec`], with its JSON path.
    pub fn parse(text: &[u8]) -> Result<Self> {
        read(text).map_err(|problems| {
            let mut problems = problems.into_iter();
            let first = problems.next();
            let first = first.unwrap_or_else(|| Problem { path: String::new(), message: "is no spec".into() });
            let others: Vec<_> = problems.map(|problem| problem.path).filter(|path| *path != first.path).collect();
            if others.is_empty() {
                return first.into();
            }
            let message = format!("{} (wrong too: {})", first.message, others.join(", "));
            Problem { message, ..first }.into()
        })
    }

    /// The spec in a model file; `None` for one that was never stamped.
    ///
    /// # Errors
    /// It breaks a rule, or the mirror keys do not say the same.
    pub fn embedded(file: &gguf::File) -> Result<Option<Self>> {
        let Some(text) = file.string(KEY)? else { return Ok(None) };
        let spec = Self::parse(text).map_err(|error| file.locate(error))?;
        match spec.mirror_problems(file).into_iter().next() {
            None => Ok(Some(spec)),
            Some(problem) => Err(file.locate(Error::new(ErrorKind::Spec, problem.message).at_key(problem.path))),
        }
    }

    /// The exact text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// SHA-256 of the exact text, in hexadecimal.
    pub fn sha256(&self) -> String {
        hex(&Sha256::digest(&self.text))
    }

    /// All fields, those without a meaning here included.
    pub fn value(&self) -> &Object {
        &self.value
    }

    /// Layout, contracts, limits and pins.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The router block.
    pub fn router(&self) -> Option<&Router> {
        self.router.as_ref()
    }

    /// What the calibration was fitted on, if the spec says so.
    pub fn fitted(&self) -> Option<&Fitted> {
        self.fitted.as_ref()
    }

    /// The calibration of the spec. `None` when it does not mention one: the model's own temperatures hold then. One that
    /// is switched off is one.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    /// The mirror keys that belong to this spec, with their values.
    pub fn mirrors(&self) -> Vec<(&'static str, gguf::Value)> {
        mirrors(&self.value)
    }

    /// Mirror keys of `file` that do not say what this spec does; the path of a problem is the key.
    pub fn mirror_problems(&self, file: &gguf::File) -> Vec<Problem> {
        mirror_problems(&self.value, file)
    }
}

/// The mirror keys of the spec with these fields; a field of the wrong type has none.
fn mirrors(spec: &Object) -> Vec<(&'static str, gguf::Value)> {
    let text = |text: &str| gguf::Value::String(text.as_bytes().to_vec());
    let version = spec.get("spec_version").and_then(Value::as_u64).and_then(|version| u32::try_from(version).ok());
    let [version_key, texts @ ..] = MIRROR_KEYS;
    let mut mirrors = Vec::from_iter(version.map(|version| (version_key, version.into())));
    for (key, field) in texts.into_iter().zip(["layout", "model_id", "model_version"]) {
        mirrors.extend(spec.get(field).and_then(Value::as_str).map(|value| (key, text(value))));
    }
    mirrors
}

/// As [`Spec::mirror_problems`].
fn mirror_problems(spec: &Object, file: &gguf::File) -> Vec<Problem> {
    let mirrors = mirrors(spec);
    let wanted = |key: &str| mirrors.iter().find(|(known, _)| *known == key).map(|(_, value)| value);
    let wrong = |key: &str| {
        let message = match (file.get(key), wanted(key)) {
            (None, _) => return None,
            (Some(found), Some(wanted)) if found == wanted => return None,
            (Some(found), Some(wanted)) => format!("is {}, but {KEY} says {}", shown(found), shown(wanted)),
            (Some(found), None) => format!("is {}, but {KEY} says nothing of it", shown(found)),
        };
        Some(Problem { path: key.to_owned(), message: format!("{message}; stamp the file again: gguf-spec set") })
    };
    MIRROR_KEYS.into_iter().filter_map(wrong).collect()
}

/// A metadata value as messages show it.
fn shown(value: &gguf::Value) -> String {
    match value {
        gguf::Value::U32(n) => n.to_string(),
        gguf::Value::String(text) => format!("{:?}", String::from_utf8_lossy(text)),
        other => format!("of type {}", other.type_name()),
    }
}

/// Bytes in lower-case hexadecimal, as hashes are written everywhere.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `text` is a SHA-256 as [`hex`] writes it.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a text, or says everything that is wrong with it.
fn read(text: &[u8]) -> Result<Spec, Vec<Problem>> {
    read_fields(text).map_err(|mut problems| {
        problems.iter_mut().for_each(Problem::shorten);
        problems
    })
}

fn read_fields(text: &[u8]) -> Result<Spec, Vec<Problem>> {
    let mut problems = Problems::default();
    if text.len() > MAX_BYTES {
        problems.add("", format!("has {} bytes; a spec has at most {MAX_BYTES}", text.len()));
        return Err(problems.0);
    }
    let value = json::parse(text).map_err(|error| {
        let message = format!("{} (line {}, column {})", error.message, error.line, error.column);
        vec![Problem { path: json::path_at(text, error.offset), message }]
    })?;
    let Value::Object(value) = value else {
        problems.add("", problem::must("a JSON object", &value));
        return Err(problems.0);
    };
    let contract = Contract::read(&mut problems, &value);
    let clamp = contract.as_ref().map_or(calibration::LAYA_CLAMP, |contract| contract.layout.clamp());
    let max_options = contract.as_ref().map_or(Layout::Laya.max_options(), Contract::covered_options);
    let given = value.get("calibration");
    let calibration = Calibration::read(&mut problems, given, clamp, max_options);
    let fitted = Fitted::read(&mut problems, given);
    let router = Router::read(&mut problems, value.get("router"));
    match contract {
        Some(contract) if problems.0.is_empty() => {
            // A null switches calibration off, as the method none does.
            let calibration = calibration.or_else(|| given.map(|_| Calibration::default()));
            Ok(Spec { text: text.to_vec(), value, contract, calibration, router, fitted })
        }
        _ => Err(problems.0),
    }
}
