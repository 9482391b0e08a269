//! What a calibration is bound to: the run its logits come from, and the data.

use crate::json::{Object, Value};
use crate::spec::is_sha256;

/// The engine that computed logits. A temperature fitted on one identity is not one for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// What the model computes with, see [`crate::spec::model_sha256`].
    pub model_sha256: String,
    /// The kernels.
    pub kernels: String,
    /// Number of the numeric contract.
    pub numeric_contract: u32,
    /// Which rows share a pass.
    pub plan: String,
    /// How the model's matrices are stored.
    pub recipe: String,
}

impl Identity {
    /// As an object of its five keys.
    pub fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("model_sha256", self.model_sha256.as_str());
        object.insert("kernels", self.kernels.as_str());
        object.insert("numeric_contract", self.numeric_contract);
        object.insert("plan", self.plan.as_str());
        object.insert("recipe", self.recipe.as_str());
        object
    }

    /// Reads [`Identity::to_json`] back; the error is what is wrong with which key.
    pub(super) fn from_json(value: &Value) -> Result<Self, String> {
        let text = |key: &str| match value.get(key).and_then(Value::as_str) {
            Some(text) => Ok(text.to_owned()),
            None => Err(format!("engine.{key}: must be text")),
        };
        let model_sha256 = text("model_sha256")?;
        if !is_sha256(&model_sha256) {
            return Err("engine.model_sha256: must be 64 lower-case hexadecimal digits".into());
        }
        let contract = value.get("numeric_contract").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        Ok(Self {
            model_sha256,
            kernels: text("kernels")?,
            numeric_contract: contract.ok_or("engine.numeric_contract: must be a number such as 1")?,
            plan: text("plan")?,
            recipe: text("recipe")?,
        })
    }
}

/// The data logits come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    /// SHA-256 of the bytes of the data, in lower-case hex.
    pub sha256: String,
    /// Records that were run.
    pub n_records: u64,
    /// Lines that were left out because something is wrong with them.
    pub n_failed: u64,
    /// Questions without a label, which were left out.
    pub n_unlabelled: u64,
}

impl Data {
    /// As an object of its four keys.
    pub fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("sha256", self.sha256.as_str());
        object.insert("n_records", self.n_records);
        object.insert("n_failed", self.n_failed);
        object.insert("n_unlabelled", self.n_unlabelled);
        object
    }

    /// Reads [`Data::to_json`] back; the error is what is wrong with which key.
    pub(super) fn from_json(value: &Value) -> Result<Self, String> {
        let sha256 = value.get("sha256").and_then(Value::as_str).filter(|text| is_sha256(text));
        let count = |key: &str| value.get(key).and_then(Value::as_u64).ok_or(format!("data.{key}: must be a count"));
        Ok(Self {
            sha256: sha256.ok_or("data.sha256: must be 64 lower-case hexadecimal digits")?.to_owned(),
            n_records: count("n_records")?,
            n_failed: count("n_failed")?,
            n_unlabelled: count("n_unlabelled")?,
        })
    }
}
