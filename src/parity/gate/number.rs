//! How numbers are compared.

use crate::readout::{first_largest, round_to_4_digits, softmax};

/// Whether `error` is at most `tolerance`, up to the noise of floating point: an error equal to the tolerance passes, as
/// under Python's `isclose(error, tolerance, rel_tol=1e-9, abs_tol=1e-12)`.
pub fn is_within(error: f64, tolerance: f64) -> bool {
    let slack = (1e-9 * error.abs().max(tolerance.abs())).max(1e-12);
    // A difference that is not finite is close to nothing.
    error <= tolerance || (error.is_finite() && (error - tolerance).abs() <= slack)
}

/// `number` as it can be compared with `reference`: rounded to four digits where the reference has no more.
pub(super) fn rounded_like(reference: f64, number: f64) -> f64 {
    if round_to_4_digits(reference) == reference { round_to_4_digits(number) } else { number }
}

/// The error of an act logit: relative, absolute below 1. These logits reach the thousands.
pub(super) fn relative_error(a: f32, b: f32) -> f64 {
    let (a, b) = (f64::from(a), f64::from(b));
    (a - b).abs() / a.abs().max(b.abs()).max(1.0)
}

/// The first option with the largest raw logit.
pub(super) fn first_option(logits: &[f32]) -> usize {
    let wide: Vec<f64> = logits.iter().copied().map(f64::from).collect();
    first_largest(&wide).0
}

/// How far the first option is ahead of the second: the difference of their probabilities, softmax of the raw logits without
/// a temperature. A temperature never changes which is first. 1 for a single option.
pub fn top_2_gap(logits: &[f32]) -> f64 {
    if logits.is_empty() {
        return 0.0;
    }
    let mut first_two = (0.0_f64, 0.0_f64);
    for p in softmax(logits, 1.0) {
        if p > first_two.0 {
            first_two = (p, first_two.0);
        } else if p > first_two.1 {
            first_two.1 = p;
        }
    }
    first_two.0 - first_two.1
}

/// Half the sum of the differences of two distributions, softmax of raw logits.
pub(super) fn total_variation(a: &[f32], b: &[f32]) -> f64 {
    if a.is_empty() {
        return 0.0;
    }
    softmax(a, 1.0).iter().zip(softmax(b, 1.0)).map(|(p, q)| (p - q).abs()).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_equal_to_the_tolerance_passes() {
        // The step of four digits, as subtraction leaves it.
        assert!(is_within(0.8001 - 0.8, 1e-4));
        assert!(is_within(1.000_000_000_000_016_7e-4, 1e-4));
        assert!(!is_within(0.8002 - 0.8, 1e-4));
        assert!(!is_within(1e-4 * (1.0 + 2e-9) + 1e-12, 1e-4));
        assert!(is_within(0.0, 0.0) && is_within(1e-12, 0.0) && !is_within(2e-12, 0.0));
        for error in [f64::NAN, f64::INFINITY] {
            assert!(!is_within(error, 1.0), "{error}");
        }
    }

    #[test]
    fn a_candidate_is_rounded_like_its_reference() {
        assert_eq!(rounded_like(0.8, 0.800_149), 0.8001);
        assert_eq!(rounded_like(0.812_34, 0.800_149), 0.800_149);
        assert_eq!(rounded_like(1.0, 0.999_96), 1.0);
        assert_eq!(rounded_like(0.25, 0.031_25), 0.0312);
    }

    #[test]
    fn act_logits_are_compared_relatively_above_one() {
        assert_eq!(relative_error(1000.0, 900.0), 0.1);
        assert_eq!(relative_error(0.5, 0.25), 0.25);
        assert_eq!(relative_error(-4.0, 4.0), 2.0);
    }

    #[test]
    fn the_gap_is_that_of_the_two_first() {
        assert_eq!(top_2_gap(&[3.0]), 1.0);
        assert_eq!(top_2_gap(&[2.0, 1.0, 2.0]), 0.0);
        // 1 / (1 + e^-1) - 1 / (1 + e).
        assert!((top_2_gap(&[0.0, 1.0]) - 0.462_117_157_260_009_8).abs() < 1e-15);
        assert!((top_2_gap(&[1.0, 0.0]) - 0.462_117_157_260_009_8).abs() < 1e-15);
        assert_eq!(top_2_gap(&[]), 0.0);
    }

    #[test]
    fn the_first_of_equal_options_is_first() {
        assert_eq!(first_option(&[1.0, 2.0, 2.0]), 1);
        assert_eq!(first_option(&[0.1, 0.1_f32.next_up()]), 1);
    }

    #[test]
    fn total_variation_is_half_the_distance() {
        assert_eq!(total_variation(&[1.0, 1.0], &[5.0, 5.0]), 0.0);
        assert!((total_variation(&[0.0, 100.0], &[100.0, 0.0]) - 1.0).abs() < 1e-12);
    }
}
