//! What a temperature minimises.
//!
//! With `beta = 1 / T`, logits `z` and the position `y` of the true option, the negative log-likelihood of one question is
//!
//! ```text
//! nll(beta)   = ln(sum_j exp(beta z_j)) - beta z_y
//! nll'(beta)  = E[z] - z_y            with j drawn from p = softmax(beta z)
//! nll''(beta) = E[z^2] - E[z]^2 = Var[z] >= 0
//! ```
//!
//! so its mean over questions is convex in `beta` (the log-partition function of an exponential family has the mean and
//! the variance of its statistic as derivatives: Boyd and Vandenberghe, "Convex Optimization", 3.1.5; Wainwright and
//! Jordan, "Graphical Models, Exponential Families, and Variational Inference", 3.5). It is not convex in `T`.
//!
//! Everything is F64, with exponentials and logarithms of the one pure-Rust implementation that answers are made with,
//! and summed in the order of the questions: the same bits on every machine.

/// A question to fit on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Example<'a> {
    /// Raw logits, finite, at least one. `[n_options]`
    pub logits: &'a [f32],
    /// The position of the true option, one of the logits.
    pub truth: usize,
}

/// First and second derivative of the mean negative log-likelihood in `beta`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// The first.
    pub gradient: f64,
    /// The second, never negative.
    pub curvature: f64,
}

/// Logits below the largest one: `z - max z`, so that no exponential overflows.
fn below_largest(logits: &[f32]) -> impl Iterator<Item = f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().map(move |z| f64::from(*z) - f64::from(largest))
}

/// The negative log-likelihood of the truth of `example` at `beta = 1 / T`.
pub fn nll(example: &Example<'_>, beta: f64) -> f64 {
    let (mut sum, mut of_truth) = (0.0, 0.0);
    for (j, z) in below_largest(example.logits).enumerate() {
        sum += libm::exp(beta * z);
        if j == example.truth {
            of_truth = beta * z;
        }
    }
    libm::log(sum) - of_truth
}

/// The mean of [`nll`] over `examples`; not a number for none.
pub fn mean_nll(examples: &[Example<'_>], beta: f64) -> f64 {
    examples.iter().map(|example| nll(example, beta)).sum::<f64>() / examples.len() as f64
}

/// The derivatives of [`mean_nll`] at `beta`.
pub fn slope(examples: &[Example<'_>], beta: f64) -> Slope {
    let (mut gradient, mut curvature) = (0.0, 0.0);
    for example in examples {
        let (mut sum, mut sum_z, mut of_truth) = (0.0, 0.0, 0.0);
        for (j, z) in below_largest(example.logits).enumerate() {
            let weight = libm::exp(beta * z);
            sum += weight;
            sum_z += weight * z;
            if j == example.truth {
                of_truth = z;
            }
        }
        let mean = sum_z / sum;
        // The deviations, not E[z^2] - E[z]^2, which cancels.
        let deviations = below_largest(example.logits).map(|z| libm::exp(beta * z) * (z - mean) * (z - mean));
        curvature += deviations.sum::<f64>() / sum;
        gradient += mean - of_truth;
    }
    let n = examples.len() as f64;
    Slope { gradient: gradient / n, curvature: curvature / n }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readout::softmax;

    const LOGITS: [([f32; 4], usize); 4] =
        [([0.3, -1.0, 2.5, 2.0], 2), ([9.0, 8.5, 1.0, -4.0], 1), ([0.0; 4], 3), ([-20.0, 5.0, 30.0, 29.0], 0)];

    fn examples() -> Vec<Example<'static>> {
        LOGITS.iter().map(|(logits, truth)| Example { logits, truth: *truth }).collect()
    }

    #[test]
    fn it_is_minus_the_logarithm_of_the_probability_of_the_answer() {
        for temperature in [0.5, 1.0, 1.7, 5.0] {
            for example in examples() {
                let p = softmax(example.logits, temperature)[example.truth];
                assert!((nll(&example, 1.0 / temperature) + libm::log(p)).abs() < 1e-12 * nll(&example, 1.0).max(1.0));
            }
        }
        // A probability of 0 as a double is no infinite loss.
        let far = Example { logits: &[0.0, -1e30], truth: 1 };
        assert_eq!(nll(&far, 1.0), f64::from(1e30_f32));
        assert_eq!(nll(&Example { logits: &[7.0], truth: 0 }, 0.3), 0.0);
    }

    #[test]
    fn the_derivatives_are_those_of_finite_differences() {
        let examples = examples();
        for beta in [0.2, 0.7, 1.0, 2.0] {
            let Slope { gradient, curvature } = slope(&examples, beta);
            // Fourth-order central differences.
            let h = 2e-4;
            let five = |f: &dyn Fn(f64) -> f64| {
                (8.0 * (f(beta + h) - f(beta - h)) - (f(beta + 2.0 * h) - f(beta - 2.0 * h))) / (12.0 * h)
            };
            let first = five(&|b| mean_nll(&examples, b));
            let second = five(&|b| slope(&examples, b).gradient);
            assert!((gradient - first).abs() < 1e-9 * gradient.abs().max(1.0), "{beta}: {gradient} {first}");
            assert!((curvature - second).abs() < 1e-9 * curvature.max(1.0), "{beta}: {curvature} {second}");
            assert!(curvature > 0.0);
        }
        assert_eq!(slope(&examples[2..3], 1.0), Slope { gradient: 0.0, curvature: 0.0 });
    }
}
