//! What two runs of generative backends come to.

use super::recording::{Mode, Passage, Recording};
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// A position where the candidate would have chosen another token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disagreement {
    /// Position, from 0 at the first generated token.
    pub position: usize,
    /// The baseline's token; none where it had ended.
    pub baseline: Option<u32>,
    /// The candidate's token; none where it had ended.
    pub candidate: Option<u32>,
    /// How sure the baseline was of its token and not the candidate's: the log-probability of its first token over that of
    /// the candidate's, in nats; none where it did not say, as of a token that is not among its most probable ones.
    pub gap: Option<f64>,
}

/// One prompt under [`Mode::Argmax`].
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// The prompt.
    pub prompt: String,
    /// Positions compared.
    pub n_total: usize,
    /// Those where the candidate disagrees.
    pub disagreements: Vec<Disagreement>,
}

impl Agreement {
    /// Positions where both choose the same token.
    pub fn n_agree(&self) -> usize {
        self.n_total - self.disagreements.len()
    }
}

/// One prompt under [`Mode::Greedy`].
#[derive(Debug, Clone, PartialEq)]
pub struct Prefix {
    /// The prompt.
    pub prompt: String,
    /// Tokens until the first that differs.
    pub n_common: usize,
    /// Tokens of the longer side.
    pub n_total: usize,
    /// Where they part, if they do.
    pub divergence: Option<Disagreement>,
}

impl Prefix {
    /// Whether they part where the baseline was sure: where its gap is at least `confident_gap`, or not known.
    pub fn fails(&self, confident_gap: f64) -> bool {
        self.divergence.is_some_and(|divergence| divergence.gap.is_none_or(|gap| gap >= confident_gap))
    }
}

/// Share of the positions at which the candidate agrees; none without a position.
pub fn rate(agreements: &[Agreement]) -> Option<f64> {
    let n_total: usize = agreements.iter().map(|agreement| agreement.n_total).sum();
    let n_agree: usize = agreements.iter().map(Agreement::n_agree).sum();
    (n_total > 0).then(|| n_agree as f64 / n_total as f64)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Mismatch, message)
}

/// The passages of both that belong together, in the order of the baseline.
fn pairs<'a>(baseline: &'a Recording, candidate: &'a Recording) -> Result<Vec<(&'a Passage, &'a Passage)>> {
    let (n, m) = (baseline.passages.len(), candidate.passages.len());
    if n != m {
        return Err(refused(format!("the baseline has {n} prompts and the candidate {m}; record both with the same")));
    }
    let others: HashMap<&str, &Passage> =
        candidate.passages.iter().map(|passage| (passage.prompt.as_str(), passage)).collect();
    let pair = |base: &'a Passage| {
        let other = others.get(base.prompt.as_str()).copied().ok_or_else(|| {
            refused(format!("the candidate does not have the prompt {:?}; record both with the same", base.prompt))
        })?;
        if other.prompt_ids != base.prompt_ids {
            let message = "ids of different vocabularies cannot be compared";
            return Err(refused(format!("the prompt {:?} has other tokens in the candidate; {message}", base.prompt)));
        }
        Ok((base, other))
    };
    baseline.passages.iter().map(pair).collect()
}

/// Refuses a baseline that did not generate its own tokens.
///
/// # Errors
/// As said.
pub fn check_baseline(baseline: Mode) -> Result<()> {
    match baseline {
        Mode::Greedy => Ok(()),
        Mode::Argmax => {
            Err(refused("the baseline is a replay of another run; it must be one that generated, mode greedy".into()))
        }
    }
}

/// Refuses a candidate whose tokens came about in another way than `mode` compares.
///
/// # Errors
/// As said.
pub fn check_candidate(candidate: Mode, mode: Mode) -> Result<()> {
    let message = match (mode, candidate) {
        (Mode::Argmax, Mode::Argmax) | (Mode::Greedy, Mode::Greedy) => return Ok(()),
        (Mode::Argmax, Mode::Greedy) => {
            "the candidate generated its own tokens; to compare every position it must replay the baseline's: record it \
             with --mode argmax"
        }
        (Mode::Greedy, Mode::Argmax) => {
            "the candidate is a replay of another run; for mode greedy it must have generated itself"
        }
    };
    Err(refused(message.into()))
}

/// Compares a candidate that replayed the baseline's tokens with it, position by position.
///
/// # Errors
/// The runs have other prompts or tokens of prompts, the baseline is not a greedy run, or the candidate replayed other
/// tokens or none.
pub fn agreements(baseline: &Recording, candidate: &Recording) -> Result<Vec<Agreement>> {
    check_baseline(baseline.mode)?;
    check_candidate(candidate.mode, Mode::Argmax)?;
    let agreement = |(base, other): (&Passage, &Passage)| {
        if other.forced.as_ref() != Some(&base.ids()) {
            let message = "the candidate replayed other tokens than this baseline's, after the prompt";
            return Err(refused(format!("{message} {:?}; record it again", base.prompt)));
        }
        let steps = base.steps.iter().zip(&other.steps).enumerate();
        let disagreements = steps.filter(|(_, (a, b))| a.id != b.id).map(|(position, (a, b))| Disagreement {
            position,
            baseline: Some(a.id),
            candidate: Some(b.id),
            gap: a.gap_to(b.id),
        });
        Ok(Agreement { prompt: base.prompt.clone(), n_total: base.steps.len(), disagreements: disagreements.collect() })
    };
    pairs(baseline, candidate)?.into_iter().map(agreement).collect()
}

/// Compares two runs that each generated their own tokens.
///
/// # Errors
/// The runs have other prompts or tokens of prompts, or asked for different numbers of tokens, or one is a replay.
pub fn prefixes(baseline: &Recording, candidate: &Recording) -> Result<Vec<Prefix>> {
    check_baseline(baseline.mode)?;
    check_candidate(candidate.mode, Mode::Greedy)?;
    let (n, m) = (baseline.n_tokens, candidate.n_tokens);
    if n != m {
        return Err(refused(format!("the baseline was asked for {n} tokens a prompt and the candidate for {m}")));
    }
    let prefix = |(base, other): (&Passage, &Passage)| {
        let n_common = base.steps.iter().zip(&other.steps).take_while(|(a, b)| a.id == b.id).count();
        let n_total = base.steps.len().max(other.steps.len());
        let divergence = (n_common < n_total).then(|| {
            let (base, other) = (base.steps.get(n_common), other.steps.get(n_common).map(|step| step.id));
            Disagreement {
                position: n_common,
                baseline: base.map(|step| step.id),
                candidate: other,
                // One that ends without a token that says so ran out of room: no probability excuses that.
                gap: base.zip(other).and_then(|(step, token)| step.gap_to(token)),
            }
        });
        Prefix { prompt: base.prompt.clone(), n_common, n_total, divergence }
    };
    Ok(pairs(baseline, candidate)?.into_iter().map(prefix).collect())
}
