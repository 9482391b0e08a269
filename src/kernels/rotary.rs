//! Rotary position tables and the rotation of one head's row.

use super::lane::{Isa, LANES, Operation, load_part, store_part};

/// Cosine and sine of every position and frequency, `[n_positions, head / 2]` each.
///
/// The frequencies are `base^(-2 t / head)` for `t` in `0..head / 2`; frequency and angle are `f32` values as the
/// reference computes them, and sine and cosine are `f64` results of a pure-Rust implementation, rounded once.
#[derive(Debug, Clone)]
pub struct RotaryTable {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RotaryTable {
    /// The table of `n_positions` positions for heads of width `head` and frequency base `base`.
    pub fn new(n_positions: usize, head: usize, base: f32) -> Self {
        let half = head / 2;
        let frequencies: Vec<f32> = (0..half)
            .map(|t| {
                let exponent = (2 * t) as f32 / head as f32;
                1.0 / (libm::pow(f64::from(base), f64::from(exponent)) as f32)
            })
            .collect();
        let mut table = Self { half, cos: Vec::new(), sin: Vec::new() };
        for position in 0..n_positions {
            for frequency in &frequencies {
                let angle = f64::from(position as f32 * frequency);
                table.cos.push(libm::cos(angle) as f32);
                table.sin.push(libm::sin(angle) as f32);
            }
        }
        table
    }

    /// Positions the table covers.
    pub fn n_positions(&self) -> usize {
        self.cos.len().checked_div(self.half).unwrap_or(0)
    }

    /// Cosines and sines of `position`, `[head / 2]` each.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let range = position * self.half..(position + 1) * self.half;
        (&self.cos[range.clone()], &self.sin[range])
    }
}

/// Rotates one head's row in halves, in place: element `t` pairs with `t + head / 2`.
///
/// `x[t] <- x[t] cos - x[t + half] sin` and `x[t + half] <- x[t + half] cos + x[t] sin`.
pub struct Rotate<'a> {
    /// `[head]`.
    pub x: &'a mut [f32],
    /// `[head / 2]`.
    pub cos: &'a [f32],
    /// `[head / 2]`.
    pub sin: &'a [f32],
}

impl Operation for Rotate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (low, high) = self.x.split_at_mut(self.cos.len());
        let angles = self.cos.chunks(LANES).zip(self.sin.chunks(LANES));
        for ((low, high), (cos, sin)) in low.chunks_mut(LANES).zip(high.chunks_mut(LANES)).zip(angles) {
            let (a, b) = (load_part(isa, low), load_part(isa, high));
            let (cos, sin) = (load_part(isa, cos), load_part(isa, sin));
            store_part(isa, isa.fma(a, cos, isa.neg(isa.mul(b, sin))), low);
            store_part(isa, isa.fma(b, cos, isa.mul(a, sin)), high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::InstructionSet;

    #[test]
    fn a_rotation_keeps_the_norm_and_position_zero_is_the_identity() {
        let table = RotaryTable::new(300, 64, 160_000.0);
        assert_eq!(table.n_positions(), 300);
        let x: Vec<f32> = (0..64).map(|i| (i as f32 - 31.0) / 17.0).collect();
        for position in [0, 1, 37, 299] {
            let (cos, sin) = table.at(position);
            let mut out = x.clone();
            InstructionSet::widest().run(Rotate { x: &mut out, cos, sin });
            if position == 0 {
                assert_eq!(out, x);
            }
            let norm = |v: &[f32]| v.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
            assert!((norm(&out) / norm(&x) - 1.0).abs() < 1e-6, "position {position}");
        }
    }
}
