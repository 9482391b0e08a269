//! How good probabilities are.

use super::objective::Example;
use crate::readout::{first_largest, softmax};

/// Bins of the calibration error.
pub const N_BINS: usize = 15;

/// The confidences a threshold table is made for.
pub const THRESHOLDS: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// An answer: the probability of the option chosen (`answer_confidence`), and whether it is the true one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Answered {
    confidence: f64,
    correct: bool,
}

impl Answered {
    /// The answer to `example` at `temperature`, chosen as the readout chooses it.
    pub(super) fn new(example: &Example<'_>, temperature: f64) -> Self {
        let (top, confidence) = first_largest(&softmax(example.logits, temperature));
        Self { confidence, correct: top == example.truth }
    }
}

/// The share of right answers; not a number for none.
pub(super) fn accuracy(answers: &[Answered]) -> f64 {
    answers.iter().filter(|answer| answer.correct).count() as f64 / answers.len() as f64
}

/// The expected calibration error of the answer chosen: over [`N_BINS`] bins of equal width, each open below and closed
/// above, the mean distance of accuracy and mean confidence, weighted by answers (Guo et al., as for the temperature).
pub(super) fn calibration_error(answers: &[Answered]) -> f64 {
    let mut bins = [(0.0, 0.0); N_BINS];
    for answer in answers {
        let bin = (answer.confidence * N_BINS as f64).ceil() as usize;
        if let Some((confidence, correct)) = bins.get_mut(bin.saturating_sub(1).min(N_BINS - 1)) {
            *confidence += answer.confidence;
            *correct += f64::from(u8::from(answer.correct));
        }
    }
    // The sizes of the bins cancel.
    bins.iter().map(|(confidence, correct)| (confidence - correct).abs()).sum::<f64>() / answers.len() as f64
}

/// What is left when answers below a confidence are not used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The least `answer_confidence`.
    pub confidence: f64,
    /// Answers that have it.
    pub n: usize,
    /// Their share of all answers.
    pub coverage: f64,
    /// The share of right ones among them; `None` when there are none.
    pub accuracy: Option<f64>,
}

/// One row for each of [`THRESHOLDS`].
pub(super) fn thresholds(answers: &[Answered]) -> Vec<Threshold> {
    let row = |least: &f64| {
        let left: Vec<_> = answers.iter().filter(|answer| answer.confidence >= *least).copied().collect();
        Threshold {
            confidence: *least,
            n: left.len(),
            coverage: left.len() as f64 / answers.len() as f64,
            accuracy: (!left.is_empty()).then(|| accuracy(&left)),
        }
    };
    THRESHOLDS.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(given: &[(f64, bool)]) -> Vec<Answered> {
        given.iter().map(|(confidence, correct)| Answered { confidence: *confidence, correct: *correct }).collect()
    }

    #[test]
    fn the_calibration_error_of_known_answers() {
        // Bin (14/15, 1]: mean 0.975, 3 of 4 right. Bin (9/15, 10/15]: 0.65, none of 1 right.
        let answers = answers(&[(1.0, true), (0.95, true), (0.96, true), (0.99, false), (0.65, false)]);
        let expected = (4.0 * (0.975 - 0.75) + 0.65) / 5.0;
        assert!((calibration_error(&answers) - expected).abs() < 1e-15);
        assert_eq!(accuracy(&answers), 0.6);
        // An edge belongs to the bin below it: 1/3 = 5/15 with 0.3, not with 0.35.
        let edge = |other| calibration_error(&self::answers(&[(5.0 / 15.0, true), (other, false)]));
        assert!((edge(0.3) - (1.0_f64 - (5.0 / 15.0 + 0.3)).abs() / 2.0).abs() < 1e-15);
        assert!((edge(0.35) - (10.0 / 15.0 + 0.35) / 2.0).abs() < 1e-15);
    }

    #[test]
    fn a_threshold_keeps_what_reaches_it() {
        let rows = thresholds(&answers(&[(0.5, false), (0.7, true), (0.9, false), (0.9, true)]));
        let seen: Vec<_> = rows.iter().map(|row| (row.n, row.coverage, row.accuracy)).collect();
        assert_eq!(
            seen,
            [
                (4, 1.0, Some(0.5)),
                (3, 0.75, Some(2.0 / 3.0)),
                (3, 0.75, Some(2.0 / 3.0)),
                (2, 0.5, Some(0.5)),
                (2, 0.5, Some(0.5)),
                (0, 0.0, None)
            ]
        );
        assert_eq!(rows.iter().map(|row| row.confidence).collect::<Vec<_>>(), THRESHOLDS);
    }
}
