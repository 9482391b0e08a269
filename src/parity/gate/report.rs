//! A judged candidate as JSON.

use super::{Comparison, Failure, Judged};
use crate::json::{Object, Value};
use crate::parity::Identity;
use crate::parity::tier::Difference;

impl Judged {
    /// The result for a machine: what was judged (`gate`), of which runs (`identity`), and why they do not belong together.
    ///
    /// | key | |
    /// |---|---|
    /// | `gate` | tier, thresholds, counts, errors, failures (the first, all are counted) and `verdict` |
    /// | `identity` | `baseline` and `candidate` |
    /// | `identity_problems` | text, empty for runs that belong together |
    /// | `max_abs_dlogit`, … | the raw logits, which no tier bounds; only where something was compared |
    pub fn to_json(&self, baseline: &Identity, candidate: &Identity) -> Object {
        let mut object = Object::new();
        object.insert("gate", self.gate());
        let identities = [("baseline", baseline.to_json()), ("candidate", candidate.to_json())];
        object.insert("identity", identities.into_iter().collect::<Object>());
        let problem = |mismatch: &super::Mismatch| format!("{}: {}", mismatch.key, mismatch.reason);
        object.insert("identity_problems", self.mismatches.iter().map(problem).collect::<Value>());
        if let Some(comparison) = &self.comparison {
            let logits = &comparison.logits;
            object.insert("argmax_flips", comparison.flips.len());
            object.insert("max_abs_dlogit", logits.max_abs_dlogit);
            object.insert("mean_abs_dlogit", logits.mean_abs_dlogit());
            object.insert("max_tvd", logits.max_tvd);
            object.insert("mean_tvd", logits.mean_tvd());
        }
        object
    }

    fn gate(&self) -> Object {
        let mut gate = Object::new();
        gate.insert("tier", self.tier.as_str());
        gate.insert("thresholds", self.thresholds.iter().copied().collect::<Object>());
        if let Some((weights, quantized)) = &self.row {
            gate.insert("weights", weights.as_str());
            gate.insert("activation_quantized", *quantized);
        }
        gate.insert("tiers_version", self.tiers_version);
        gate.insert("tiers_sha256", self.tiers_sha256.as_str());
        gate.insert("tiers_registered", self.tiers_registered);
        gate.insert("diagnostic", self.is_diagnostic());
        if let Some(comparison) = &self.comparison {
            gate.extend(comparison.to_json());
        }
        gate.insert("verdict", self.verdict.as_str());
        gate
    }
}

impl Comparison {
    fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("items", self.n_items);
        object.insert("questions", self.n_questions);
        object.insert("compared", self.n_compared);
        object.insert("public_checked", self.n_public_checked);
        object.insert("public_missing", self.n_public_missing);
        object.insert("both_refused", self.n_both_refused);
        object.insert("refused_questions", self.n_refused_questions);
        object.insert("argmax_agree", self.n_argmax_agree);
        object.insert("flips", self.flips.len());
        object.insert("allowed_flips", self.n_allowed_flips());
        object.insert("flip_fraction", self.flip_fraction());
        let mismatches = self.input_mismatches.iter().map(|(rule, n)| (rule.as_str(), *n));
        object.insert("input_mismatches", mismatches.collect::<Object>());
        let known = Difference::ALL.iter().zip(self.known_differences).filter(|(_, n)| *n > 0);
        object.insert("known_differences", known.map(|(difference, n)| (difference.as_str(), n)).collect::<Object>());
        object.insert("failures", self.failures.iter().map(Failure::to_json).collect::<Value>());
        object.insert("n_failures", self.n_failures);
        let errors = &self.max_abs_error;
        let named = [
            ("prob", errors.prob),
            ("confidence", errors.confidence),
            ("score", errors.score),
            ("score_raw", errors.score_raw),
            ("other", errors.other),
        ];
        object.insert("max_abs_error", named.into_iter().collect::<Object>());
        object.insert("mean_abs_dp", self.mean_abs_dp());
        object.insert("act_checked", self.n_act_checked);
        object.insert("act_max_rel_dlogit", self.act_max_rel_dlogit);
        object.insert("act_missing", self.n_act_missing);
        object
    }
}

impl Failure {
    fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("rule", self.rule.as_str());
        object.insert("item", self.item.as_deref().map(Value::from));
        object.insert("question", self.question.as_deref().map(Value::from));
        object.insert("what", self.what.as_str());
        object
    }
}
