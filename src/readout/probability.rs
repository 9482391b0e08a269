//! Probabilities and how concentrated they are.

use crate::request::QuestionType;
use crate::spec::Confidence;

/// Softmax of `logits / temperature`, in F64. `[n]` to `[n]`
///
/// The logits must be finite and there must be at least one; the largest is subtracted first, so nothing overflows.
pub fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let scaled = || logits.iter().map(|logit| f64::from(*logit) / temperature);
    let largest = scaled().fold(f64::NEG_INFINITY, f64::max);
    let mut p: Vec<f64> = scaled().map(|z| libm::exp(z - largest)).collect();
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= sum);
    p
}

/// How concentrated a distribution is: one minus its entropy over that of a uniform one, `1 - H(p) / ln k`, kept within
/// 0 and 1; 1 for a single option. `[k]`
pub fn concentration(p: &[f64]) -> f64 {
    if p.len() < 2 {
        return 1.0;
    }
    // The floor under the logarithm is the published package's; it only matters where p is 0.
    let entropy: f64 = p.iter().map(|p| -p * libm::log(p.clamp(1e-12, 1.0))).sum();
    (1.0 - entropy / libm::log(p.len() as f64)).clamp(0.0, 1.0)
}

/// The confidence of an answer to a question of type `kind` with the probabilities `p`, by the formula a spec names. `[k]`
///
/// | name | noul | choice, score |
/// |---|---|---|
/// | `laya` | `max(p, 1 - p)` of the second option | `1 - H(p) / ln k` |
/// | `typesafe` | `1 - H(p) / ln k` | `1 - H(p) / ln k` |
/// | `max_p` | `max(p)` | `max(p)` |
pub fn confidence(formula: Confidence, kind: QuestionType, p: &[f64]) -> f64 {
    match (formula, kind, p) {
        (Confidence::Laya, QuestionType::Noul, [_, yes]) => yes.max(1.0 - yes),
        (Confidence::Laya | Confidence::Typesafe, ..) => concentration(p),
        (Confidence::MaxP, ..) => p.iter().copied().fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_of_known_values() {
        assert_eq!(softmax(&[3.5], 1.0), [1.0]);
        assert_eq!(softmax(&[-2.0; 4], 0.5), [0.25; 4]);
        let p = softmax(&[1.0, 0.0], 1.0);
        assert!((p[0] - 0.731_058_578_630_004_9).abs() < 1e-15);
        // A higher temperature flattens: e^(1/2) / (1 + e^(1/2)).
        assert!((softmax(&[1.0, 0.0], 2.0)[0] - 0.622_459_331_201_854_6).abs() < 1e-15);
        assert_eq!(softmax(&[1e30, -1e30, 0.0], 1.0), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn concentration_at_its_ends() {
        assert_eq!(concentration(&[1.0]), 1.0);
        assert_eq!(concentration(&[1.0, 0.0]), 1.0);
        assert_eq!(concentration(&[0.0, 1.0, 0.0]), 1.0);
        assert!(concentration(&[0.25; 4]) < 1e-15);
        // 1 - H(0.7, 0.2, 0.1) / ln 3.
        assert!((concentration(&[0.7, 0.2, 0.1]) - 0.270_153_300_837_902_57).abs() < 1e-15);
    }
}
