//! Reads a file of tiers.

use super::{Bounds, Class, Difference, Strict, Tier, Tiers};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{self, Object, Value};

const SCHEMA: &str = "laya-parity-tiers/2";

/// Keys for people, in the file and in a tier.
const FILE_TEXT: [&str; 3] = ["registered", "derivation", "revisions"];
const TIER_TEXT: [&str; 3] = ["baseline", "argmax", "public_rule"];

/// Reads the text of a file whose SHA-256 is `sha256`.
pub(super) fn tiers(bytes: &[u8], sha256: String) -> Result<Tiers> {
    let value = json::parse(bytes).map_err(|error| {
        let path = json::path_at(bytes, error.offset);
        let error = Error::from(error);
        if path.is_empty() { error } else { Error::new(ErrorKind::Json, error.message()).at_path(path) }
    })?;
    let file = At { path: String::new(), value: &value };
    let object = file.keys(&[&["schema", "version", "tiers"][..], &FILE_TEXT].concat(), "a tiers file")?;
    let schema = file.member(object, "schema")?;
    if schema.value.as_str() != Some(SCHEMA) {
        return Err(schema.fault(&format!("must be \"{SCHEMA}\"")));
    }
    let version = file.member(object, "version")?;
    let number = version.value.as_u64().filter(|version| *version > 0);
    let version = number.ok_or_else(|| version.fault("must be a number from 1 without a point"))?;
    let at = file.member(object, "tiers")?;
    let tiers = at.object()?;
    if let Some(name) = tiers.keys().find(|name| Tier::from_name(name).is_none()) {
        return Err(at.within(name, &Value::Null).fault("is no tier; there are strict-f32, f16-class and bit-exact"));
    }
    let strict = strict(&at.member(tiers, Tier::StrictF32.as_str())?)?;
    let class = class(&at.member(tiers, Tier::F16Class.as_str())?)?;
    let exact = tiers.get(Tier::BitExact.as_str()).map(|value| at.within(Tier::BitExact.as_str(), value));
    exact.as_ref().map(bit_exact).transpose()?;
    Ok(Tiers { version, sha256, strict, class, has_bit_exact: exact.is_some() })
}

fn strict(at: &At<'_>) -> Result<Strict> {
    const KEYS: [&str; 5] =
        ["candidate_weights", "candidate_backends", "public_atol", "act_max_rel_dlogit", "known_differences"];
    let object = at.tier(&KEYS)?;
    at.exact(object)?;
    let weights = at.member(object, "candidate_weights")?;
    let candidate_weights = weights.texts()?;
    if candidate_weights.is_empty() {
        return Err(weights.fault("must be a list of at least one text"));
    }
    let backends = at.member(object, "candidate_backends")?;
    let mut candidate_backends = Vec::new();
    for (name, value) in backends.object()?.iter() {
        let kernels = backends.within(name, value).text()?;
        candidate_backends.push((name.to_owned(), (kernels != "any").then(|| kernels.to_owned())));
    }
    Ok(Strict {
        candidate_weights,
        candidate_backends,
        public_atol: at.number(object, "public_atol")?,
        act_max_rel_dlogit: at.number(object, "act_max_rel_dlogit")?,
        known_differences: at.differences(object)?,
    })
}

fn class(at: &At<'_>) -> Result<Class> {
    let object = at.tier(&["weights", "activation_quantized", "known_differences"])?;
    let rows = |key: &str| -> Result<Vec<(String, Bounds)>> {
        let rows = at.member(object, key)?;
        rows.object()?.iter().map(|(name, row)| Ok((name.to_owned(), bounds(&rows.within(name, row))?))).collect()
    };
    Ok(Class {
        weights: rows("weights")?,
        activation_quantized: rows("activation_quantized")?,
        known_differences: at.differences(object)?,
    })
}

fn bounds(at: &At<'_>) -> Result<Bounds> {
    const KEYS: [&str; 5] = ["flip_max_gap", "max_flip_fraction", "max_abs_dp", "mean_abs_dp", "act_max_rel_dlogit"];
    let row = at.keys(&KEYS, "a row of numbers")?;
    Ok(Bounds {
        flip_max_gap: at.number(row, "flip_max_gap")?,
        max_flip_fraction: at.number(row, "max_flip_fraction")?,
        max_abs_dp: at.number(row, "max_abs_dp")?,
        mean_abs_dp: at.number(row, "mean_abs_dp")?,
        act_max_rel_dlogit: at.number(row, "act_max_rel_dlogit")?,
    })
}

fn bit_exact(at: &At<'_>) -> Result<()> {
    let object = at.tier(&["known_differences"])?;
    at.exact(object)?;
    if at.differences(object)?.is_empty() {
        return Ok(());
    }
    Err(at.member(object, "known_differences")?.fault("must be empty: nothing differs between runs of this tier"))
}

/// A value and its path.
struct At<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> At<'a> {
    fn fault(&self, message: &str) -> Error {
        let error = Error::new(ErrorKind::Json, message);
        if self.path.is_empty() { error } else { error.at_path(self.path.as_str()) }
    }

    /// The member `key` of this object, with the value `value`.
    fn within(&self, key: &str, value: &'a Value) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { path, value }
    }

    fn object(&self) -> Result<&'a Object> {
        self.value.as_object().ok_or_else(|| self.fault(&format!("must be an object, not {}", self.value.dumps())))
    }

    /// This object, which has no keys but `known`.
    fn keys(&self, known: &[&str], what: &str) -> Result<&'a Object> {
        let object = self.object()?;
        match object.keys().find(|key| !known.contains(key)) {
            Some(key) => {
                let message = format!("is no key of {what}; there are {}", known.join(", "));
                Err(self.within(key, &Value::Null).fault(&message))
            }
            None => Ok(object),
        }
    }

    /// This tier, which has no keys but `known` and those for people.
    fn tier(&self, known: &[&str]) -> Result<&'a Object> {
        let object = self.keys(&[known, &TIER_TEXT].concat(), "this tier")?;
        for key in TIER_TEXT {
            if let Some(value) = object.get(key) {
                self.within(key, value).text()?;
            }
        }
        Ok(object)
    }

    /// Refuses a tier that says something else about first options than what its rule is.
    fn exact(&self, object: &'a Object) -> Result<()> {
        match object.get("argmax") {
            Some(value) if value.as_str() != Some("exact") => {
                Err(self.within("argmax", value).fault("must be \"exact\": the rule of this tier is not to be chosen"))
            }
            _ => Ok(()),
        }
    }

    fn member(&self, object: &'a Object, key: &str) -> Result<Self> {
        match object.get(key) {
            Some(value) => Ok(self.within(key, value)),
            None => Err(self.within(key, self.value).fault("is missing")),
        }
    }

    fn text(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.fault(&format!("must be text, not {}", self.value.dumps())))
    }

    fn items(&self) -> Result<Vec<Self>> {
        let fault = || self.fault(&format!("must be a list, not {}", self.value.dumps()));
        let items = self.value.as_array().ok_or_else(fault)?;
        Ok(items.iter().enumerate().map(|(i, value)| Self { path: format!("{}[{i}]", self.path), value }).collect())
    }

    fn texts(&self) -> Result<Vec<String>> {
        self.items()?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    /// A number of a tier: a share, a probability, or a relative error.
    fn number(&self, object: &'a Object, key: &str) -> Result<f64> {
        let at = self.member(object, key)?;
        let number = at.value.as_f64().filter(|number| (0.0..=1.0).contains(number));
        number.ok_or_else(|| at.fault(&format!("must be a number from 0 to 1, not {}", at.value.dumps())))
    }

    fn differences(&self, object: &'a Object) -> Result<Vec<Difference>> {
        let named = |at: &At<'_>| {
            let known = Difference::ALL.map(Difference::as_str).join(", ");
            let fault = || at.fault(&format!("must be one of {known}, not {}", at.value.dumps()));
            at.value.as_str().and_then(Difference::from_name).ok_or_else(fault)
        };
        self.member(object, "known_differences")?.items()?.iter().map(named).collect()
    }
}
