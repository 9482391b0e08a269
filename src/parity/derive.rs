//! Numbers of tiers, from runs that are known to be right.
//!
//! The rule of the registered numbers: twice the largest value seen between the runs of a class, rounded up to one digit.

use super::Kind;
use super::Run;
use super::gate::{Comparison, Mismatch, Numbers, corpus_mismatches, is_within, quantized, unknown_activations};
use super::tier::{Difference, Tier, Tiers};
use crate::json::{Object, Value};

/// What is seen between the two runs of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// What the pair is called.
    pub name: String,
    /// The tier its numbers belong to: `strict-f32` for weights of that tier against the published package, else
    /// `f16-class`.
    pub tier: Tier,
    /// The weights of its candidate.
    pub weights: String,
    /// The type to which both sides quantize activations; `None` when neither does.
    pub quantized: Option<String>,
    /// Questions of the corpus.
    pub n_questions: u64,
    /// Questions that were compared.
    pub n_compared: u64,
    /// The values, by the names tiers have for them. What the runs do not hold is not there.
    pub values: Vec<(&'static str, f64)>,
}

/// A number, derived.
#[derive(Debug, Clone, PartialEq)]
pub struct Derived {
    /// Its tier.
    pub tier: Tier,
    /// Its row, in `f16-class`.
    pub row: Option<(String, bool)>,
    /// Its name.
    pub name: &'static str,
    /// How many pairs show it.
    pub n_pairs: usize,
    /// Questions that were compared in them.
    pub n_compared: u64,
    /// The largest value seen.
    pub observed: f64,
    /// The pair it was seen in.
    pub pair: String,
    /// What the rule makes of it.
    pub derived: f64,
    /// What is registered; `None` where no such row is.
    pub registered: Option<f64>,
}

impl Derived {
    /// Whether what was seen would fail by what is registered.
    pub fn exceeds(&self) -> bool {
        self.registered.is_some_and(|registered| match self.name {
            // A flip passes below its gap, not at it.
            FLIP_MAX_GAP => self.observed > 0.0 && self.observed >= registered,
            _ => !is_within(self.observed, registered),
        })
    }
}

const FLIP_MAX_GAP: &str = "flip_max_gap";

impl Pair {
    /// Compares a pair of runs, the more exact one first.
    ///
    /// # Errors
    /// The reasons not to take numbers from it.
    pub fn new(name: &str, baseline: &Run, candidate: &Run, tiers: &Tiers) -> Result<Self, Vec<Mismatch>> {
        let mut mismatches = corpus_mismatches(&baseline.identity, &candidate.identity);
        let refused = |key, reason: &str| Mismatch { key, reason: reason.to_owned() };
        for (side, run) in [("baseline", baseline), ("candidate", candidate)] {
            mismatches.extend(unknown_activations(side, &run.identity));
        }
        let [a, b] = [baseline, candidate].map(|run| quantized(&run.identity));
        if a != b {
            let reason = "one side quantizes activations and the other does not: no candidate is judged like that";
            mismatches.push(refused("runtime.activations", reason));
        }
        if !mismatches.is_empty() {
            return Err(mismatches);
        }
        let is_reference = baseline.identity.kind == Kind::Reference;
        let weights = &candidate.identity.model.weights;
        let is_strict = is_reference && tiers.strict.candidate_weights.contains(weights);
        let numbers = Numbers::Measured { like_reference: is_reference };
        let found = Comparison::new(baseline, candidate, numbers, &Difference::ALL);
        let mismatches = incomplete(&found);
        if !mismatches.is_empty() {
            return Err(mismatches);
        }
        Ok(Self {
            name: name.to_owned(),
            tier: if is_strict { Tier::StrictF32 } else { Tier::F16Class },
            weights: weights.clone(),
            quantized: b.map(str::to_owned),
            n_questions: found.n_questions,
            n_compared: found.n_compared,
            values: values(&found, is_strict),
        })
    }

    fn row(&self) -> Option<(String, bool)> {
        let row = self.quantized.as_ref().unwrap_or(&self.weights);
        (self.tier == Tier::F16Class).then(|| (row.clone(), self.quantized.is_some()))
    }

    /// The pair as JSON.
    pub fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("pair", self.name.as_str());
        object.insert("tier", self.tier.as_str());
        object.insert("weights", self.weights.as_str());
        object.insert("activation_quantized", self.quantized.is_some());
        object.insert("questions", self.n_questions);
        object.insert("compared", self.n_compared);
        object.insert("values", self.values.iter().copied().collect::<Object>());
        object
    }
}

/// Why not to take numbers from a pair that was not compared as a whole: what was left out may be what is far apart.
fn incomplete(found: &Comparison) -> Vec<Mismatch> {
    let mut mismatches: Vec<_> = found
        .input_mismatches
        .iter()
        .map(|(rule, n)| Mismatch { key: "items", reason: format!("{}: {n}", rule.as_str()) })
        .collect();
    let n_expected = found.n_questions.saturating_sub(found.n_refused_questions);
    if found.n_compared != n_expected || found.n_compared == 0 {
        let reason = format!(
            "{} questions were compared of {n_expected} that both sides should answer (of {}, {} refused)",
            found.n_compared, found.n_questions, found.n_refused_questions
        );
        mismatches.push(Mismatch { key: "questions", reason });
    }
    mismatches
}

fn values(found: &Comparison, is_strict: bool) -> Vec<(&'static str, f64)> {
    let mut values = Vec::new();
    if is_strict {
        if found.n_public_checked > 0 {
            values.push(("public_atol", found.max_abs_error.largest()));
        }
    } else {
        values.push((FLIP_MAX_GAP, found.flips.iter().map(|flip| flip.gap).fold(0.0, f64::max)));
        values.push(("max_flip_fraction", found.flip_fraction()));
        if found.n_dp() > 0 {
            values.push(("max_abs_dp", found.max_abs_error.prob));
            values.push(("mean_abs_dp", found.mean_abs_dp()));
        }
    }
    if found.n_act_checked > 0 {
        values.push(("act_max_rel_dlogit", found.act_max_rel_dlogit));
    }
    values
}

/// The numbers `pairs` give, beside those of `tiers`, by tier and row in the order the pairs have them.
pub fn derive(pairs: &[Pair], tiers: &Tiers) -> Vec<Derived> {
    let mut all: Vec<Derived> = Vec::new();
    for pair in pairs {
        for (name, value) in &pair.values {
            let row = pair.row();
            let known = all.iter_mut().find(|other| other.name == *name && other.tier == pair.tier && other.row == row);
            let Some(known) = known else {
                let registered = registered(tiers, row.as_ref(), name);
                all.push(Derived {
                    tier: pair.tier,
                    row,
                    name,
                    n_pairs: 1,
                    n_compared: pair.n_compared,
                    observed: *value,
                    pair: pair.name.clone(),
                    derived: threshold(*value),
                    registered,
                });
                continue;
            };
            known.n_pairs += 1;
            known.n_compared += pair.n_compared;
            if *value > known.observed {
                (known.observed, known.derived, known.pair) = (*value, threshold(*value), pair.name.clone());
            }
        }
    }
    let place =
        |derived: &Derived| pairs.iter().position(|pair| pair.tier == derived.tier && pair.row() == derived.row);
    // Rows whole, though their pairs may be mixed. The sort keeps the order of the numbers.
    all.sort_by_key(place);
    all
}

fn registered(tiers: &Tiers, row: Option<&(String, bool)>, name: &str) -> Option<f64> {
    let named = match row {
        None => tiers.strict.named().to_vec(),
        Some((weights, quantized)) => tiers.class.bounds(weights, *quantized)?.named().to_vec(),
    };
    named.into_iter().find(|(key, _)| *key == name).map(|(_, number)| number)
}

/// The threshold of a largest value seen: its double, rounded up to one digit.
pub fn threshold(largest: f64) -> f64 {
    let doubled = 2.0 * largest;
    let text = format!("{doubled:e}");
    let parts = text.split_once('e').and_then(|(digits, exponent)| Some((digits.parse::<f64>().ok()?, exponent)));
    match parts.filter(|_| doubled.is_finite()) {
        None => doubled,
        Some((digits, exponent)) => {
            // The noise of a subtraction is no reason for the next digit.
            let nearest = digits.round();
            let up = if (digits - nearest).abs() <= 1e-9 * digits { nearest } else { digits.ceil() };
            format!("{up}e{exponent}").parse().unwrap_or(doubled)
        }
    }
}

impl Derived {
    /// The number as JSON.
    pub fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("tier", self.tier.as_str());
        if let Some((weights, quantized)) = &self.row {
            object.insert("weights", weights.as_str());
            object.insert("activation_quantized", *quantized);
        }
        object.insert("number", self.name);
        object.insert("pairs", self.n_pairs);
        object.insert("compared", self.n_compared);
        object.insert("observed", self.observed);
        object.insert("observed_in", self.pair.as_str());
        object.insert("derived", self.derived);
        object.insert("registered", self.registered.map(Value::from));
        object.insert("exceeds", self.exceeds());
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registered_numbers_follow_from_what_was_seen() {
        for (seen, number) in [
            (0.004_44, 0.009),
            (0.001_34, 0.003),
            (0.208, 0.5),
            (0.000_609, 0.002),
            (0.058_7, 0.2),
            (0.193, 0.4),
            (0.0092, 0.02),
            (0.002_34, 0.005),
            (0.106, 0.3),
            (8.19e-5, 2e-4),
        ] {
            assert_eq!(threshold(seen), number, "{seen}");
        }
    }

    #[test]
    fn what_has_one_digit_stays() {
        assert_eq!(threshold(0.05), 0.1);
        assert_eq!(threshold(1.000_000_000_000_016_7e-4), 2e-4);
        assert_eq!(threshold(0.050_01), 0.2);
        assert_eq!(threshold(4.8), 10.0);
        assert_eq!(threshold(0.0), 0.0);
        assert_eq!(threshold(f64::MAX), f64::INFINITY);
    }
}
