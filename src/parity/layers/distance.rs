//! How far a node of the candidate is from the baseline's, over all rows.

use super::node::Node;
use super::rule::{Bar, Measure};

/// Where the largest error of a node is, in units of its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worst {
    /// Index of the row.
    pub row: usize,
    /// The token of a state, the option or class of logits.
    pub position: usize,
}

/// The errors of one node over all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Distance {
    /// The node.
    pub node: Node,
    /// Its bar.
    pub bar: Bar,
    /// Largest `|a - b|`.
    pub max_abs: f64,
    /// Largest error relative to the magnitude of its position (states), or to `max(|a|, |b|, 1)` (logits).
    pub max_rel: f64,
    /// Largest magnitude of the baseline.
    pub max_base: f64,
    /// The largest error in units of the bar: above 1 the node is past tolerance. Infinite where a number of either side
    /// is not finite, and where one side has values that the other has not.
    pub factor: f64,
    /// Where `factor` is; `None` while every value is equal.
    pub worst: Option<Worst>,
    /// Values that are not the same to the last bit.
    pub n_differ: u64,
    /// Values of the baseline that are not finite. Nothing can be said about such a node, whatever the candidate has.
    pub n_not_finite: u64,
    sum_abs: f64,
    n_values: u64,
}

impl Distance {
    /// Of nothing yet.
    pub(super) fn new(node: Node, bar: Bar) -> Self {
        Self {
            node,
            bar,
            max_abs: 0.0,
            max_rel: 0.0,
            max_base: 0.0,
            factor: 0.0,
            worst: None,
            n_differ: 0,
            n_not_finite: 0,
            sum_abs: 0.0,
            n_values: 0,
        }
    }

    /// Mean `|a - b|` over all values.
    pub fn mean_abs(&self) -> f64 {
        if self.n_values == 0 { 0.0 } else { self.sum_abs / self.n_values as f64 }
    }

    /// The largest error as the bar measures it.
    pub fn error(&self) -> f64 {
        match self.bar.measure {
            Measure::Absolute => self.max_abs,
            Measure::Relative | Measure::Logit => self.max_rel,
        }
    }

    /// Whether it is within tolerance. An error equal to the tolerance is; a node without a value is not.
    pub fn passes(&self) -> bool {
        self.n_values > 0 && self.factor <= 1.0
    }

    /// Counts the values of a row: `[n, width]` each. `width` is 1 for logits. Sides of unequal length, or without a
    /// value, are infinitely far apart.
    pub(super) fn add(&mut self, row: usize, width: usize, base: &[f32], candidate: &[f32]) {
        if base.len() != candidate.len() || base.is_empty() {
            (self.max_abs, self.max_rel, self.factor) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
            self.worst = Some(Worst { row, position: base.len().min(candidate.len()) / width });
            return;
        }
        for (position, (base, candidate)) in base.chunks(width).zip(candidate.chunks(width)).enumerate() {
            let (mut gap, mut size, mut other) = (0.0_f64, 0.0_f64, 0.0_f64);
            for (base, candidate) in base.iter().zip(candidate) {
                let (a, b) = (f64::from(*base), f64::from(*candidate));
                self.n_differ += u64::from(base.to_bits() != candidate.to_bits());
                self.n_not_finite += u64::from(!base.is_finite());
                // What broke the same way on both sides is broken.
                let d = if base.is_finite() && candidate.is_finite() { (a - b).abs() } else { f64::INFINITY };
                gap = gap.max(d);
                size = size.max(a.abs());
                other = other.max(b.abs());
                self.sum_abs += d;
                self.n_values += 1;
            }
            let scale = if self.bar.measure == Measure::Logit { size.max(other).max(1.0) } else { size };
            let relative = match gap {
                0.0 => 0.0,
                // Whatever its scale, and also where that is infinite.
                gap if gap.is_infinite() => f64::INFINITY,
                gap => gap / scale,
            };
            self.max_abs = self.max_abs.max(gap);
            self.max_rel = self.max_rel.max(relative);
            self.max_base = self.max_base.max(size);
            let error = if self.bar.measure == Measure::Absolute { gap } else { relative };
            let factor = if error == 0.0 { 0.0 } else { error / self.bar.tolerance };
            if factor > self.factor {
                self.factor = factor;
                self.worst = Some(Worst { row, position });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Stage;

    fn distance(measure: Measure, width: usize, base: &[f32], candidate: &[f32]) -> Distance {
        let mut distance = Distance::new(Node::State(Stage::Embedding), Bar { measure, tolerance: 0.25 });
        distance.add(3, width, base, candidate);
        distance
    }

    #[test]
    fn each_measure() {
        let (base, candidate) = ([1.0, -4.0, 0.5, 0.0], [1.5, -4.0, 0.5, 0.25]);
        let absolute = distance(Measure::Absolute, 2, &base, &candidate);
        assert_eq!((absolute.max_abs, absolute.mean_abs(), absolute.factor), (0.5, 0.1875, 2.0));
        assert_eq!(absolute.worst, Some(Worst { row: 3, position: 0 }));
        // 0.5 of 4 at the first position, 0.25 of 0.5 at the second.
        let relative = distance(Measure::Relative, 2, &base, &candidate);
        assert_eq!((relative.max_rel, relative.factor, relative.max_base), (0.5, 2.0, 4.0));
        assert_eq!(relative.worst, Some(Worst { row: 3, position: 1 }));
        let logit = distance(Measure::Logit, 1, &[0.5, 8.0], &[0.25, 4.0]);
        assert_eq!((logit.max_rel, logit.factor, logit.error()), (0.5, 2.0, 0.5));
        assert!(distance(Measure::Absolute, 1, &[0.0], &[0.25]).passes());
        assert!(!distance(Measure::Absolute, 1, &[0.0], &[0.250_1]).passes());
    }

    #[test]
    fn nothing_hides_behind_a_number_that_is_not_finite() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        for measure in [Measure::Absolute, Measure::Relative, Measure::Logit] {
            for (a, b) in [(nan, 1.0), (1.0, nan), (infinity, 1.0), (1.0, infinity), (infinity, -infinity), (0.0, nan)]
            {
                let distance = distance(measure, 2, &[1.0, a], &[1.0, b]);
                assert!(distance.factor.is_infinite() && distance.worst.is_some(), "{measure:?} {a} {b}");
            }
            // The same number on both sides is as broken as another one.
            for a in [nan, infinity, -infinity] {
                let distance = distance(measure, 1, &[1.0, a], &[1.0, a]);
                assert!(!distance.passes() && distance.factor.is_infinite(), "{measure:?} {a}");
                assert_eq!((distance.n_differ, distance.n_not_finite), (0, 1));
            }
        }
        // Anything is infinitely far from a state of zeros, relative to it.
        assert!(distance(Measure::Relative, 1, &[0.0], &[1e-9]).factor.is_infinite());
        assert_eq!(distance(Measure::Relative, 1, &[0.0], &[0.0]).factor, 0.0);
    }

    #[test]
    fn a_node_without_values_or_with_more_on_one_side_does_not_pass() {
        let bar = Bar { measure: Measure::Absolute, tolerance: 0.25 };
        assert!(!Distance::new(Node::Logits, bar).passes());
        for (a, b) in [(&[][..], &[][..]), (&[1.0], &[]), (&[], &[1.0]), (&[1.0, 2.0], &[1.0])] {
            let distance = distance(Measure::Absolute, 1, a, b);
            assert!(!distance.passes() && distance.factor.is_infinite(), "{a:?} {b:?}");
        }
        // Nor after a row that was whole.
        let mut later = distance(Measure::Absolute, 1, &[1.0], &[1.0]);
        assert!(later.passes());
        later.add(1, 1, &[1.0], &[]);
        assert!(!later.passes() && later.worst == Some(Worst { row: 1, position: 0 }));
    }
}
