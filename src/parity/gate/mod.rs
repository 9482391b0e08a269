//! The gate: whether a candidate may stand for its baseline.
//!
//! ```text
//! identities --do they belong together?--> inputs --the same?--> numbers --within the tier?--> verdict
//! ```
//!
//! Only questions with the same input on both sides are compared; one that has not, and is no known difference of the tier,
//! fails, as every broken [`Rule`] does.

mod answer;
mod compare;
mod fit;
mod input;
mod number;
mod report;
mod rule;

pub use compare::{Comparison, Flip, Logits, MaxAbsError, Numbers};
pub(super) use fit::{corpus_mismatches, quantized, unknown_activations};
pub use number::{is_within, top_2_gap};
pub use rule::{Failure, Rule};

use super::Run;
use super::tier::{Tier, Tiers};
use crate::error::{Error, ErrorKind, Result};

/// A reason not to compare two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The key of the identity it is about.
    pub key: &'static str,
    /// What it says on both sides, or must say.
    pub reason: String,
}

/// How a candidate is judged.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The numbers.
    pub tiers: &'a Tiers,
    /// By which tier.
    pub tier: Tier,
    /// Which row of `f16-class`; `None` for that of the candidate's weights.
    pub weights: Option<&'a str>,
    /// Compare runs that do not belong together: a diagnosis, no verdict to rely on.
    pub allow_identity_mismatch: bool,
}

/// What the gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The candidate may stand for the baseline.
    Pass,
    /// It may not.
    Fail,
    /// The runs do not belong together.
    Refused,
}

impl Verdict {
    /// The verdict in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Refused => "refused",
        }
    }
}

/// A candidate, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// By which tier.
    pub tier: Tier,
    /// Revision of the tiers.
    pub tiers_version: u64,
    /// SHA-256 of the tiers.
    pub tiers_sha256: String,
    /// Whether they are the registered ones.
    pub tiers_registered: bool,
    /// The row of `f16-class`, and whether it is one for quantized activations.
    pub row: Option<(String, bool)>,
    /// The numbers of the tier. Empty without a row.
    pub thresholds: Vec<(&'static str, f64)>,
    /// Why the runs do not belong together.
    pub mismatches: Vec<Mismatch>,
    /// What was found; `None` when nothing was compared.
    pub comparison: Option<Comparison>,
    /// What follows.
    pub verdict: Verdict,
}

impl Judged {
    /// Whether runs were compared that do not belong together.
    pub fn is_diagnostic(&self) -> bool {
        self.comparison.is_some() && !self.mismatches.is_empty()
    }
}

/// Judges `candidate` against `baseline`.
///
/// # Errors
/// The file of tiers has no such tier.
pub fn judge(baseline: &Run, candidate: &Run, options: Options<'_>) -> Result<Judged> {
    let Options { tiers, tier, weights, allow_identity_mismatch } = options;
    if tier == Tier::BitExact && !tiers.has_bit_exact {
        let message = "the tiers have no bit-exact; use others";
        return Err(Error::new(ErrorKind::Usage, message).at_path("tiers.bit-exact"));
    }
    let [of_baseline, of_candidate] = [&baseline.identity, &candidate.identity];
    let mut mismatches = fit::mismatches(of_baseline, of_candidate, tier, tiers);
    let quantized = fit::quantized(of_candidate);
    // What quantizes the activations decides, not what the weights are stored as.
    let row = weights.or(quantized).unwrap_or(&of_candidate.model.weights);
    let bounds = tiers.class.bounds(row, quantized.is_some());
    let numbers = match tier {
        Tier::StrictF32 => Some(Numbers::Strict(&tiers.strict)),
        Tier::F16Class => bounds.map(Numbers::Class),
        Tier::BitExact => Some(Numbers::Exact),
    };
    let is_refused = numbers.is_none() || (!mismatches.is_empty() && !allow_identity_mismatch);
    if numbers.is_none() {
        let (key, what) =
            if quantized.is_some() { ("runtime.activations", "activations") } else { ("model.weights", "weights") };
        let reason = format!("the tier has no numbers for {row:?} {what}; --weights names another row");
        mismatches.push(Mismatch { key, reason });
    }
    let comparison = numbers
        .filter(|_| !is_refused)
        .map(|numbers| Comparison::new(baseline, candidate, numbers, tiers.known_differences(tier)));
    let verdict = match &comparison {
        None => Verdict::Refused,
        Some(comparison) if comparison.passes() => Verdict::Pass,
        Some(_) => Verdict::Fail,
    };
    Ok(Judged {
        tier,
        tiers_version: tiers.version,
        tiers_sha256: tiers.sha256.clone(),
        tiers_registered: tiers.is_registered(),
        row: (tier == Tier::F16Class).then(|| (row.to_owned(), quantized.is_some())),
        thresholds: match numbers {
            Some(Numbers::Strict(strict)) => strict.named().to_vec(),
            Some(Numbers::Class(bounds)) => bounds.named().to_vec(),
            _ => Vec::new(),
        },
        mismatches,
        comparison,
        verdict,
    })
}
