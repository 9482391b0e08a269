//! Layer normalization of one row.

use super::lane::{Isa, LANES, Operation, load_part, store_part, sum};

/// The parameters of a layer norm over rows of `d` values.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// `[d]`.
    pub weight: &'a [f32],
    /// `[d]`, when the norm has one.
    pub bias: Option<&'a [f32]>,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Mean of a row and `1 / sqrt(variance + epsilon)`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Statistics {
    mean: f32,
    scale: f32,
}

impl Norm<'_> {
    /// The statistics of the row `x`: lane reductions of the contract, an IEEE square root and an IEEE division.
    #[inline(always)]
    pub(super) fn statistics<I: Isa>(&self, isa: I, x: &[f32]) -> Statistics {
        let n = x.len() as f32;
        let (whole, rest) = x.as_chunks::<LANES>();
        let mut total = isa.splat(0.0);
        for x in whole {
            total = isa.add(total, isa.load(x));
        }
        if !rest.is_empty() {
            total = isa.add(total, load_part(isa, rest));
        }
        let mean = sum(isa, total) / n;
        let centre = isa.splat(mean);

        let mut squares = isa.splat(0.0);
        for x in whole {
            let x = isa.sub(isa.load(x), centre);
            squares = isa.fma(x, x, squares);
        }
        if !rest.is_empty() {
            // Lanes past the end are the mean itself, so they add exactly zero.
            let mut lanes = [mean; LANES];
            lanes[..rest.len()].copy_from_slice(rest);
            let x = isa.sub(isa.load(&lanes), centre);
            squares = isa.fma(x, x, squares);
        }
        Statistics { mean, scale: 1.0 / (sum(isa, squares) / n + self.epsilon).sqrt() }
    }

    /// The normalized values of the columns `at..` of a row, of which `x` are sixteen.
    #[inline(always)]
    pub(super) fn apply<I: Isa>(&self, isa: I, statistics: Statistics, x: I::V, at: usize) -> I::V {
        let x = isa.mul(isa.sub(x, isa.splat(statistics.mean)), isa.splat(statistics.scale));
        let weight = load_part(isa, &self.weight[at..]);
        match self.bias {
            Some(bias) => isa.fma(x, weight, load_part(isa, &bias[at..])),
            None => isa.mul(x, weight),
        }
    }
}

/// `out = (x - mean) / sqrt(variance + epsilon) * weight (+ bias)` over one row.
pub struct LayerNorm<'a> {
    /// The row, `[d]`.
    pub x: &'a [f32],
    /// The parameters.
    pub norm: Norm<'a>,
    /// `[d]`.
    pub out: &'a mut [f32],
}

impl Operation for LayerNorm<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let statistics = self.norm.statistics(isa, self.x);
        for (i, (x, out)) in self.x.chunks(LANES).zip(self.out.chunks_mut(LANES)).enumerate() {
            store_part(isa, self.norm.apply(isa, statistics, load_part(isa, x), i * LANES), out);
        }
    }
}
