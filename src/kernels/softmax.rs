//! Softmax of the scores of sixteen queries at a time, a lane for each query.

use std::ops::Range;

use super::elementary::{EXP_NORMAL_LOWEST, exp, exp_normal};
use super::lane::{Isa, LANES, Operation};

/// The keys a query sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// How far a key may be; none where every key is seen.
    pub(super) radius: Option<usize>,
    /// Keys.
    pub(super) n_keys: usize,
}

impl Window {
    /// The keys the queries at the positions `queries` see; each sees all of them where there is no radius.
    pub(super) fn of(self, queries: Range<usize>) -> Range<usize> {
        match self.radius {
            Some(radius) => {
                let high = queries.end.saturating_add(radius).min(self.n_keys);
                queries.start.saturating_sub(radius).min(high)..high
            }
            None => 0..self.n_keys,
        }
    }

    /// The keys every query at the positions `queries` sees.
    fn of_every(self, queries: Range<usize>) -> Range<usize> {
        let (first, last) = (queries.start, queries.end.saturating_sub(1));
        let (low, high) = (self.of(last..last + 1).start, self.of(first..first + 1).end);
        low..high.max(low)
    }
}

/// `softmax(scale * scores)` over the keys each query sees, zero for other keys, in place.
///
/// Every query's sum takes its keys in the lanes of the numeric contract: lane `i` those at the positions `i`, `i + 16`, ...
pub(super) struct Softmax<'a, const VECTORS: usize> {
    /// `[keys, 16 VECTORS]`: the scores of `16 VECTORS` queries.
    pub(super) scores: &'a mut [[[f32; LANES]; VECTORS]],
    /// Position of the first key.
    pub(super) low: usize,
    /// Position of the first query, where the window has a radius.
    pub(super) first: usize,
    /// Positive.
    pub(super) scale: f32,
    /// The keys a query sees.
    pub(super) window: Window,
}

impl<const VECTORS: usize> Operation for Softmax<'_, VECTORS> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for v in 0..VECTORS {
            let first = self.first + v * LANES;
            let every = self.window.of_every(first..first + LANES);
            Column { isa, v, low: self.low, first, radius: self.window.radius, every }.run(self.scores, self.scale);
        }
    }
}

/// One vector of queries.
struct Column<I> {
    isa: I,
    v: usize,
    /// Position of the first key.
    low: usize,
    /// Position of the first query.
    first: usize,
    radius: Option<usize>,
    /// The keys all queries see.
    every: Range<usize>,
}

/// Keys whose exponentials are taken together.
const TOGETHER: usize = 2;

const LANE: [f32; LANES] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

impl<I: Isa> Column<I> {
    #[inline(always)]
    fn run<const VECTORS: usize>(&self, scores: &mut [[[f32; LANES]; VECTORS]], scale: f32) {
        let Self { isa, v, low, .. } = *self;
        let (mut top, mut least) = (isa.splat(f32::NEG_INFINITY), isa.splat(f32::INFINITY));
        for (k, scores) in scores.iter().enumerate() {
            let score = isa.load(&scores[v]);
            top = isa.max(top, self.seen(low + k, score, f32::NEG_INFINITY));
            least = isa.min(least, self.seen(low + k, score, f32::INFINITY));
        }
        // The scale is positive and rounding is monotonic: the largest scaled score is the scaled largest score, and no
        // argument of an exponential is below the one of the least score.
        let scale = isa.splat(scale);
        let top = isa.mul(top, scale);
        let mut lowest = [0.0; LANES];
        isa.store(isa.sub(isa.mul(least, scale), top), &mut lowest);
        // A NaN among the scores makes its lane NaN either way.
        let mut normal = true;
        for lowest in lowest {
            normal &= lowest >= EXP_NORMAL_LOWEST;
        }

        let mut totals = [[0.0; LANES]; LANES];
        let (blocks, rest) = scores.as_chunks_mut::<TOGETHER>();
        let after = low + blocks.len() * TOGETHER;
        for (b, scores) in blocks.iter_mut().enumerate() {
            self.exponentials(scores, low + b * TOGETHER, scale, top, normal, &mut totals);
        }
        for (k, scores) in rest.iter_mut().enumerate() {
            self.exponentials(std::array::from_mut(scores), after + k, scale, top, normal, &mut totals);
        }
        let mut half = LANES / 2;
        while half > 0 {
            let (to, from) = totals.split_at_mut(half);
            for (to, from) in to.iter_mut().zip(from) {
                isa.store(isa.add(isa.load(to), isa.load(from)), to);
            }
            half /= 2;
        }
        let total = isa.load(&totals[0]);
        if normal {
            let inverse = isa.div(isa.splat(1.0), total);
            for scores in scores.iter_mut() {
                let e = isa.load(&scores[v]);
                isa.store(quotient(isa, e, total, inverse), &mut scores[v]);
            }
        } else {
            for scores in scores.iter_mut() {
                isa.store(isa.div(isa.load(&scores[v]), total), &mut scores[v]);
            }
        }
    }

    /// The exponentials of the scores of the keys at `position` and after it, in place and added to the totals.
    #[inline(always)]
    fn exponentials<const VECTORS: usize, const N: usize>(
        &self,
        scores: &mut [[[f32; LANES]; VECTORS]; N],
        position: usize,
        scale: I::V,
        top: I::V,
        normal: bool,
        totals: &mut [[f32; LANES]; LANES],
    ) {
        let Self { isa, v, .. } = *self;
        let mut e = [scale; N];
        for i in 0..N {
            e[i] = isa.sub(isa.mul(isa.load(&scores[i][v]), scale), top);
        }
        if normal {
            e = exp_normal(isa, e);
        } else {
            for e in &mut e {
                *e = exp(isa, *e);
            }
        }
        for i in 0..N {
            let e = self.seen(position + i, e[i], 0.0);
            let total = &mut totals[(position + i) % LANES];
            isa.store(isa.add(isa.load(total), e), total);
            isa.store(e, &mut scores[i][v]);
        }
    }

    /// `x` of the queries that see the key at `position`, `other` of those that do not.
    #[inline(always)]
    fn seen(&self, position: usize, x: I::V, other: f32) -> I::V {
        let Some(radius) = self.radius else { return x };
        if self.every.contains(&position) {
            return x;
        }
        let isa = self.isa;
        // The first and the last lane that sees the key.
        let lane = isa.load(&LANE);
        let from = position.saturating_sub(radius).saturating_sub(self.first).min(LANES) as f32;
        let other = isa.splat(other);
        let x = isa.select_less(lane, isa.splat(from), other, x);
        match position.saturating_add(radius).checked_sub(self.first) {
            Some(to) => isa.select_less(isa.splat(to.min(LANES) as f32), lane, other, x),
            None => other,
        }
    }
}

/// `a / b` rounded once, where `inverse` is `1 / b` rounded once.
///
/// After one correction the quotient is within one unit in the last place, and the second then rounds as a division
/// does (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990) as long as the
/// remainders are exact: `a` is zero or at least `2^-87` and `b` between 1 and `2^24`. It takes half of a division's time.
#[inline(always)]
fn quotient<I: Isa>(isa: I, a: I::V, b: I::V, inverse: I::V) -> I::V {
    let minus_b = isa.neg(b);
    let q = isa.mul(a, inverse);
    let q = isa.fma(isa.fma(q, minus_b, a), inverse, q);
    isa.fma(isa.fma(q, minus_b, a), inverse, q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::InstructionSet;

    /// [`quotient`] by the first number and [`exp_normal`] of each of the others.
    struct Fast([f32; LANES], [f32; LANES]);

    impl Operation for Fast {
        type Output = [[f32; LANES]; 3];
        fn run<I: Isa>(self, isa: I) -> Self::Output {
            let (a, b) = (isa.load(&self.0), isa.load(&self.1));
            let mut out = [[0.0; LANES]; 3];
            isa.store(quotient(isa, a, b, isa.div(isa.splat(1.0), b)), &mut out[0]);
            isa.store(exp_normal(isa, [a])[0], &mut out[1]);
            isa.store(exp(isa, a), &mut out[2]);
            out
        }
    }

    fn fast(a: &[f32; LANES], b: &[f32; LANES]) -> [[f32; LANES]; 3] {
        InstructionSet::widest().run(Fast(*a, *b))
    }

    /// Numbers whose low and high mantissa bits are each taken from a full period.
    fn mantissas() -> impl Iterator<Item = u32> {
        (0..1_u32 << 20).map(|i| i.wrapping_mul(0x9E37_79B1) >> 9)
    }

    #[test]
    fn a_quotient_is_rounded_as_a_division() {
        let exponents = [(127, 127), (126, 127), (127, 140), (40, 127), (40, 150), (100, 131)];
        let mut checked = 0;
        for (of_a, of_b) in exponents {
            let numbers: Vec<f32> = mantissas().map(|m| f32::from_bits(of_a << 23 | m)).collect();
            // Divisors among them whose reciprocal is hard to round: near a power of two on either side.
            let near = [0, 1, 2, 0x7F_FFFF, 0x7F_FFFE, 0x7F_FFFD, 0x40_0000, 0x3F_FFFF];
            let divisors: Vec<f32> =
                near.into_iter().chain(mantissas().skip(7)).map(|m| f32::from_bits(of_b << 23 | m)).collect();
            for (a, b) in numbers.as_chunks().0.iter().zip(divisors.as_chunks().0) {
                for (got, (a, b)) in fast(a, b)[0].iter().zip(a.iter().zip(b)) {
                    assert_eq!(got.to_bits(), (a / b).to_bits(), "{a:e} / {b:e}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 6_000_000);
        assert_eq!(fast(&[0.0; LANES], &[3.0; LANES])[0], [0.0; LANES]);
    }

    #[test]
    fn a_quotient_by_a_hard_divisor_is_rounded_as_a_division() {
        // Every divisor of a sum near one, two and three with many dividends.
        for base in [0x3F80_0000_u32, 0x4000_0000, 0x4040_0000] {
            for offset in 0..300 {
                let b = f32::from_bits((base + offset).saturating_sub(150).max(0x3F80_0000));
                for chunk in mantissas().take(1 << 12).collect::<Vec<_>>().as_chunks::<LANES>().0 {
                    let a = chunk.map(|m| f32::from_bits(0x3F00_0000 | m));
                    for (got, a) in fast(&a, &[b; LANES])[0].iter().zip(a) {
                        assert_eq!(got.to_bits(), (a / b).to_bits(), "{a:e} / {b:e}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_normal_exponential_has_the_bits_of_any() {
        let mut x = EXP_NORMAL_LOWEST;
        while x <= 1.0 {
            let mut inputs = [x; LANES];
            for (i, input) in inputs.iter_mut().enumerate() {
                *input = (x + i as f32 * 1.1e-4).min(1.0);
            }
            let [_, normal, any] = fast(&inputs, &[1.0; LANES]);
            assert_eq!(normal.map(f32::to_bits), any.map(f32::to_bits), "{x}");
            x += LANES as f32 * 1.1e-4;
        }
        let [_, normal, _] = fast(&[f32::NAN; LANES], &[1.0; LANES]);
        assert!(normal.iter().all(|x| x.is_nan()));
        let zeros =
            [0.0, -0.0, 1e-40, -1e-40, 0.0, -0.0, 1e-40, -1e-40, 0.0, -0.0, 1e-40, -1e-40, 0.0, -0.0, 1e-40, -1e-40];
        let [_, normal, any] = fast(&zeros, &[1.0; LANES]);
        assert_eq!(normal, any);
    }

    #[test]
    fn a_window_ends_at_the_radius_and_the_keys() {
        let window = Window { radius: Some(3), n_keys: 20 };
        assert_eq!(window.of(0..4), 0..7);
        assert_eq!(window.of(10..12), 7..15);
        assert_eq!(window.of(18..20), 15..20);
        assert_eq!(window.of_every(10..12), 8..14);
        assert_eq!(window.of_every(0..16), 12..12);
        assert_eq!(Window { radius: None, n_keys: 20 }.of_every(0..16), 0..20);
        assert_eq!(Window { radius: Some(usize::MAX), n_keys: 20 }.of(5..9), 0..20);
    }
}
