//! Tiers: how far apart two runs may be, registered before the runs they judge.
//!
//! The rules are code ([`super::gate`]); the numbers and what a tier admits are data, in `tiers.json` or a file like it.

mod read;

use crate::error::{Error, Result};
use crate::spec::hex;
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// The registered tiers.
const REGISTERED: &str = include_str!("../tiers.json");

/// Which tier a candidate is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// F32 weights against the published package: every public number to its four digits.
    StrictF32,
    /// The same model file on another backend, with the room half precision needs.
    F16Class,
    /// The same numeric contract: no room.
    BitExact,
}

impl Tier {
    /// Every tier, the widest apart runs first.
    pub const ALL: [Self; 3] = [Self::StrictF32, Self::F16Class, Self::BitExact];

    /// The name of the tier on the command line and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StrictF32 => "strict-f32",
            Self::F16Class => "f16-class",
            Self::BitExact => "bit-exact",
        }
    }

    /// The tier of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == name)
    }
}

/// A difference between runs that is intended, known, and counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// A server's answer has no `answer_confidence`, or no `action`.
    ServerAnswerShape,
    /// A server gave no act logits in its whole run.
    ServerNoActHead,
    /// One side refuses a state of `null`.
    NullStateRefused,
}

impl Difference {
    /// Every difference a tier can allow.
    pub const ALL: [Self; 3] = [Self::ServerAnswerShape, Self::ServerNoActHead, Self::NullStateRefused];

    /// The name of the difference in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServerAnswerShape => "server_answer_shape",
            Self::ServerNoActHead => "server_no_act_head",
            Self::NullStateRefused => "null_state_refused",
        }
    }

    /// The difference of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|difference| difference.as_str() == name)
    }
}

/// The numbers of `strict-f32`.
#[derive(Debug, Clone, PartialEq)]
pub struct Strict {
    /// Weights a candidate may have.
    pub candidate_weights: Vec<String>,
    /// Backends a candidate may run on, with the kernels it must use there; `None` for any.
    pub candidate_backends: Vec<(String, Option<String>)>,
    /// Largest error of a public number.
    pub public_atol: f64,
    /// Largest relative error of an act logit.
    pub act_max_rel_dlogit: f64,
    /// What may differ.
    pub known_differences: Vec<Difference>,
}

/// The numbers of `f16-class` for one kind of weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Gap of the baseline's two first probabilities from which on another answer fails.
    pub flip_max_gap: f64,
    /// Largest share of compared questions with another answer.
    pub max_flip_fraction: f64,
    /// Largest error of a probability.
    pub max_abs_dp: f64,
    /// Largest mean error of the probabilities.
    pub mean_abs_dp: f64,
    /// Largest relative error of an act logit.
    pub act_max_rel_dlogit: f64,
}

impl Bounds {
    /// The numbers by the names they have in files.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("flip_max_gap", self.flip_max_gap),
            ("max_flip_fraction", self.max_flip_fraction),
            ("max_abs_dp", self.max_abs_dp),
            ("mean_abs_dp", self.mean_abs_dp),
            ("act_max_rel_dlogit", self.act_max_rel_dlogit),
        ]
    }
}

/// The numbers of `f16-class`.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// By the weights of the candidate.
    pub weights: Vec<(String, Bounds)>,
    /// By the type to which a candidate quantizes its activations.
    pub activation_quantized: Vec<(String, Bounds)>,
    /// What may differ.
    pub known_differences: Vec<Difference>,
}

impl Class {
    /// The row `name`: of weights, or of the type to which activations are quantized.
    pub fn bounds(&self, name: &str, activations_quantized: bool) -> Option<&Bounds> {
        let rows = if activations_quantized { &self.activation_quantized } else { &self.weights };
        rows.iter().find(|(row, _)| row == name).map(|(_, bounds)| bounds)
    }
}

/// A file of tiers, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiers {
    /// Its revision.
    pub version: u64,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// The numbers of `strict-f32`.
    pub strict: Strict,
    /// The numbers of `f16-class`.
    pub class: Class,
    /// Whether it has `bit-exact`, which has no numbers.
    pub has_bit_exact: bool,
}

impl Tiers {
    /// The registered tiers.
    ///
    /// # Errors
    /// None that a test has not ruled out.
    pub fn registered() -> Result<Self> {
        Self::parse(REGISTERED.as_bytes())
    }

    /// Whether these are the registered tiers, to the byte.
    pub fn is_registered(&self) -> bool {
        self.sha256 == registered_sha256()
    }

    /// Reads a file of tiers.
    ///
    /// # Errors
    /// As [`Tiers::parse`], with the file; or it cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::io("cannot read", path, &error))?;
        Self::parse(&bytes).map_err(|error| error.in_file(path))
    }

    /// Reads tiers of schema `laya-parity-tiers/2`.
    ///
    /// `strict-f32` and `f16-class` must be there with every number, `bit-exact` may be. What is said for people
    /// (`baseline`, `argmax`, `public_rule`, `registered`, …) is text and changes no rule.
    ///
    /// # Errors
    /// At its JSON path: a key that is missing, unknown or of another type; a number that is negative or above 1; a
    /// difference that no tier may allow.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        read::tiers(bytes, hex(&Sha256::digest(bytes)))
    }

    /// What `tier` allows to differ.
    pub fn known_differences(&self, tier: Tier) -> &[Difference] {
        match tier {
            Tier::StrictF32 => &self.strict.known_differences,
            Tier::F16Class => &self.class.known_differences,
            Tier::BitExact => &[],
        }
    }
}

/// SHA-256 of the registered tiers.
pub(super) fn registered_sha256() -> String {
    hex(&Sha256::digest(REGISTERED))
}

impl Strict {
    /// The numbers by the names they have in files.
    pub fn named(&self) -> [(&'static str, f64); 2] {
        [("public_atol", self.public_atol), ("act_max_rel_dlogit", self.act_max_rel_dlogit)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registered_tiers_are_these() {
        let tiers = Tiers::registered().unwrap();
        assert_eq!(tiers.version, 3);
        assert!(tiers.has_bit_exact);
        assert_eq!(tiers.strict.named(), [("public_atol", 1e-4), ("act_max_rel_dlogit", 2e-4)]);
        assert_eq!(tiers.strict.candidate_weights, ["f32"]);
        let half = Bounds {
            flip_max_gap: 0.009,
            max_flip_fraction: 0.003,
            max_abs_dp: 0.5,
            mean_abs_dp: 0.002,
            act_max_rel_dlogit: 0.2,
        };
        for weights in ["f32", "f16", "q8_0", "q8_0-mixed"] {
            assert_eq!(tiers.class.bounds(weights, false), Some(&half), "{weights}");
        }
        let quantized = tiers.class.bounds("q8_0", true).unwrap();
        assert_eq!(quantized.named().map(|(_, number)| number), [0.4, 0.02, 0.5, 0.005, 0.3]);
        assert_eq!(tiers.class.bounds("f16", true), None);
        use Difference::{NullStateRefused, ServerAnswerShape, ServerNoActHead};
        assert_eq!(tiers.known_differences(Tier::StrictF32), [NullStateRefused, ServerAnswerShape]);
        assert_eq!(tiers.known_differences(Tier::F16Class), [ServerNoActHead]);
        assert!(tiers.known_differences(Tier::BitExact).is_empty());
    }

    #[test]
    fn names_are_read_back() {
        assert!(Tier::ALL.iter().all(|tier| Tier::from_name(tier.as_str()) == Some(*tier)));
        assert!(
            Difference::ALL.iter().all(|difference| Difference::from_name(difference.as_str()) == Some(*difference))
        );
        assert_eq!(Difference::from_name("list_state_truncation"), None);
    }

    /// The registered file with `from` (once in it) as `to`.
    fn changed(from: &str, to: &str) -> Result<Tiers> {
        assert!(REGISTERED.matches(from).count() > 0, "{from}");
        Tiers::parse(REGISTERED.replacen(from, to, 1).as_bytes())
    }

    #[test]
    fn what_is_wrong_is_said_at_its_path() {
        for (from, to, says) in [
            ("laya-parity-tiers/2", "laya-parity-tiers/1", "schema: must be \"laya-parity-tiers/2\""),
            ("\"version\": 3,", "\"version\": 3.0,", "version: must be a number from 1"),
            ("\"version\": 3,", "", "version: is missing"),
            (
                "\"registered\": \"2026-12-01, ",
                "\"Registered\": \"2026-12-01, ",
                "Registered: is no key of a tiers file",
            ),
            (
                "\"public_atol\": 0.0001",
                "\"public_atol\": -0.0001",
                "tiers.strict-f32.public_atol: must be a number from 0",
            ),
            (
                "\"public_atol\": 0.0001",
                "\"public_atol\": 1.5",
                "tiers.strict-f32.public_atol: must be a number from 0",
            ),
            (
                "\"public_atol\": 0.0001",
                "\"public_atol\": \"0.0001\"",
                "tiers.strict-f32.public_atol: must be a number",
            ),
            ("\"public_atol\": 0.0001", "\"public_atol\": true", "tiers.strict-f32.public_atol: must be a number"),
            ("   \"public_atol\": 0.0001,\n", "", "tiers.strict-f32.public_atol: is missing"),
            ("\"public_atol\": 0.0001", "\"public_atol\": 0.0001, \"slack\": 1", "tiers.strict-f32.slack: is no key"),
            ("\"public_atol\": 0.0001", "\"public_atol\": NaN", "tiers.strict-f32.public_atol: "),
            ("\"public_atol\": 0.0001", "\"public_atol\": 1e999", "tiers.strict-f32.public_atol: "),
            ("\"flip_max_gap\": 0.009, ", "", "tiers.f16-class.weights.f16.flip_max_gap: is missing"),
            ("\"max_abs_dp\": 0.5", "\"max_abs_dp\": null", "tiers.f16-class.weights.f16.max_abs_dp: must be a number"),
            ("\"max_abs_dp\": 0.5", "\"max_dp\": 0.5", "tiers.f16-class.weights.f16.max_dp: is no key"),
            ("[\"f32\"]", "[]", "tiers.strict-f32.candidate_weights: must be a list of at least one text"),
            ("[\"f32\"]", "[32]", "tiers.strict-f32.candidate_weights[0]: must be text"),
            ("\"cpu\": \"any\"", "\"cpu\": 1", "tiers.strict-f32.candidate_backends.cpu: must be text"),
            ("\"server_no_act_head\"", "\"server_no_head\"", "tiers.f16-class.known_differences[0]: must be one of"),
            (
                "\"server_no_act_head\"",
                "\"list_state_truncation\"",
                "tiers.f16-class.known_differences[0]: must be one of",
            ),
            (
                "\"known_differences\": []",
                "\"known_differences\": [\"null_state_refused\"]",
                "tiers.bit-exact.known_differences: must be empty",
            ),
            ("\"bit-exact\"", "\"bit-equal\"", "tiers.bit-equal: is no tier"),
            ("\"strict-f32\"", "\"strict-F32\"", "tiers.strict-F32: is no tier"),
            ("\"argmax\": \"exact\"", "\"argmax\": \"any\"", "tiers.strict-f32.argmax: must be \"exact\""),
            ("\"baseline\"", "\"base\"", "tiers.strict-f32.base: is no key"),
            ("{\n \"schema\"", "[{\n \"schema\"", "expected"),
        ] {
            let error = changed(from, to).unwrap_err().to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
        assert!(Tiers::parse(b"[]").unwrap_err().to_string().contains("must be an object"));
    }

    #[test]
    fn a_file_without_bit_exact_is_one_too() {
        let start = REGISTERED.find(",\n  \"bit-exact\"").unwrap();
        let text = format!("{}\n }}\n}}", &REGISTERED[..start]);
        let tiers = Tiers::parse(text.as_bytes()).unwrap();
        assert!(!tiers.has_bit_exact);
        assert_eq!(tiers.class, Tiers::registered().unwrap().class);
    }
}
