//! Layer normalization of one row.

use super::lane::{Isa, LANES, Operation, load_part, store_part, sum};

/// `out = (x - mean) / sqrt(variance + epsilon) * weight (+ bias)` over one row.
///
/// Mean and (biased) variance are lane reductions of the contract; `1 / sqrt` is an IEEE square root and division.
pub struct LayerNorm<'a> {
    /// The row, `[d]`.
    pub x: &'a [f32],
    /// `[d]`.
    pub weight: &'a [f32],
    /// `[d]`, when the norm has one.
    pub bias: Option<&'a [f32]>,
    /// Added to the variance.
    pub epsilon: f32,
    /// `[d]`.
    pub out: &'a mut [f32],
}

impl Operation for LayerNorm<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let n = self.x.len() as f32;
        let mut total = isa.splat(0.0);
        for x in self.x.chunks(LANES) {
            total = isa.add(total, load_part(isa, x));
        }
        let mean = sum(isa, total) / n;
        let centre = isa.splat(mean);

        let mut squares = isa.splat(0.0);
        let (whole, rest) = self.x.as_chunks::<LANES>();
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
        let scale = isa.splat(1.0 / (sum(isa, squares) / n + self.epsilon).sqrt());

        let rows = self.x.chunks(LANES).zip(self.weight.chunks(LANES)).zip(self.out.chunks_mut(LANES));
        for (i, ((x, w), out)) in rows.enumerate() {
            let x = isa.mul(isa.sub(load_part(isa, x), centre), scale);
            let w = load_part(isa, w);
            let y = match self.bias {
                Some(bias) => {
                    let bias = &bias[(i * LANES).min(bias.len())..];
                    isa.fma(x, w, load_part(isa, &bias[..bias.len().min(LANES)]))
                }
                None => isa.mul(x, w),
            };
            store_part(isa, y, out);
        }
    }
}
