//! The temperature at the minimum.

use super::objective::{Example, slope};

/// Between which temperatures a fitted one must lie: the clamp that is applied to it when it is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clamp {
    low: f64,
    high: f64,
}

impl Clamp {
    /// A clamp from `low` to `high`: from 0.001 to 1, and from 1 to 1000, not both 1. It holds 1, because that is what is
    /// written where no temperature helps.
    pub fn new(low: f64, high: f64) -> Option<Self> {
        ((1e-3..=1.0).contains(&low) && (1.0..=1e3).contains(&high) && low < high).then_some(Self { low, high })
    }

    /// Its lower end.
    pub fn low(self) -> f64 {
        self.low
    }

    /// Its upper end.
    pub fn high(self) -> f64 {
        self.high
    }
}

impl Default for Clamp {
    fn default() -> Self {
        Self { low: 0.5, high: 5.0 }
    }
}

/// Why there is no minimum inside the clamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The likelihood still rises at the lower end: sharper is always better.
    Low,
    /// It still rises at the upper end: flatter is always better.
    High,
    /// It is the same everywhere: the logits of each question are all equal.
    Flat,
}

/// Halvings of a bracket until no double is between its ends, and some to spare.
const MAX_STEPS: usize = 200;

/// The temperature that minimises the mean negative log-likelihood of `examples`, strictly inside `clamp`.
///
/// Newton's method on `beta = 1 / T`, where the mean is convex, kept inside a bracket of the root of the gradient: a step
/// that leaves the bracket is replaced by halving it (Press et al., "Numerical Recipes", 9.4, `rtsafe`).
///
/// # Errors
/// At which [`Edge`] the optimum is instead.
pub fn solve(examples: &[Example<'_>], clamp: Clamp) -> Result<f64, Edge> {
    let (mut low, mut high) = (1.0 / clamp.high, 1.0 / clamp.low);
    let (at_low, at_high) = (slope(examples, low), slope(examples, high));
    if !(at_low.curvature > 0.0 || at_high.curvature > 0.0 || at_low.gradient != 0.0) {
        return Err(Edge::Flat);
    }
    // The gradient rises with beta.
    if at_low.gradient >= 0.0 {
        return Err(Edge::High);
    }
    if at_high.gradient <= 0.0 {
        return Err(Edge::Low);
    }
    let mut beta = 1.0;
    for _ in 0..MAX_STEPS {
        let at = slope(examples, beta);
        if at.gradient < 0.0 {
            low = beta;
        } else if at.gradient > 0.0 {
            high = beta;
        } else {
            break;
        }
        let newton = beta - at.gradient / at.curvature;
        let next = if newton > low && newton < high { newton } else { low + (high - low) / 2.0 };
        let step = (next - beta).abs();
        beta = next;
        if step <= 4.0 * f64::EPSILON * beta {
            break;
        }
    }
    Ok((1.0 / beta).clamp(clamp.low, clamp.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimum_that_can_be_computed_by_hand() {
        // p = sigmoid(beta d) must be the share of the truths with the larger logit: beta = ln(3) / d for 3 of 4.
        for d in [0.5_f32, 1.0, 3.0] {
            let logits = [0.0, d];
            let examples: Vec<_> = [1, 1, 1, 0].map(|truth| Example { logits: &logits, truth }).into();
            let expected = f64::from(d) / 3.0_f64.ln();
            let clamp = Clamp::new(0.01, 100.0).unwrap();
            let found = solve(&examples, clamp).unwrap();
            assert!((found - expected).abs() < 1e-14 * expected, "{found} {expected}");
        }
    }

    #[test]
    fn a_clamp_near_the_optimum_changes_no_bit_of_note() {
        let logits = [[0.0, 1.0, -1.0], [3.0, 2.0, 2.5], [0.5, 0.0, 4.0]];
        let truths = [0, 0, 2];
        let examples: Vec<_> = logits.iter().zip(truths).map(|(logits, truth)| Example { logits, truth }).collect();
        let free = solve(&examples, Clamp::new(1e-3, 1e3).unwrap()).unwrap();
        let tight = solve(&examples, Clamp::new(free.min(1.0) - 1e-6, free.max(1.0) + 1e-6).unwrap()).unwrap();
        assert!((free - tight).abs() < 1e-13 * free, "{free} {tight}");
    }

    #[test]
    fn no_optimum_inside() {
        let (right, wrong, equal) = ([0.0, 1.0], [1.0, 0.0], [2.0; 2]);
        let all = |logits: &'static [f32]| vec![Example { logits, truth: 1 }; 3];
        let clamp = Clamp::default();
        assert_eq!(solve(&all(&[0.0, 1.0]), clamp), Err(Edge::Low));
        assert_eq!(solve(&all(&[1.0, 0.0]), clamp), Err(Edge::High));
        assert_eq!(solve(&all(&[2.0, 2.0]), clamp), Err(Edge::Flat));
        // Half right, half wrong says that the logits mean nothing.
        let half = [right, wrong, equal].map(|logits| logits.to_vec());
        let half: Vec<_> = half.iter().map(|logits| Example { logits, truth: 1 }).collect();
        assert_eq!(solve(&half, clamp), Err(Edge::High));
        // So far apart that no double is between certain and not.
        assert_eq!(solve(&[Example { logits: &[0.0, 1e30], truth: 1 }], clamp), Err(Edge::Flat));
    }

    #[test]
    fn a_clamp_holds_one() {
        for (low, high) in [
            (0.0, 5.0),
            (1e-300, 5.0),
            (0.5, 1001.0),
            (-1.0, 2.0),
            (1.5, 2.0),
            (0.2, 0.9),
            (1.0, 1.0),
            (0.5, f64::INFINITY),
            (f64::NAN, 2.0),
        ] {
            assert_eq!(Clamp::new(low, high), None, "{low} {high}");
        }
        assert!(Clamp::new(1.0, 2.0).is_some() && Clamp::new(0.5, 1.0).is_some());
    }
}
