//! exp and GELU, written once over the contract's operations.

use super::lane::{Isa, LANES, Operation, ROUND_MAGIC, load_part, store_part};

/// Below this `exp` is exactly zero (half of the smallest subnormal is 2^-150 = e^-103.97).
const EXP_LOWEST: f32 = -105.0;
/// Above this `exp` is infinity (the largest float is e^88.72).
const EXP_HIGHEST: f32 = 89.0;
/// From here up to 1 [`exp_normal`] may stand for [`exp`], with room to divide by a sum of exponentials.
pub(super) const EXP_NORMAL_LOWEST: f32 = -60.0;
/// ln 2 split so that `n * LN2_HIGH` is exact for |n| < 2^11.
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;
/// Minimax coefficients of `(e^r - 1 - r) / r^2` on |r| <= ln(2) / 2, constant term first (relative error 6e-11).
const EXP: [f32; 6] = [0.5, 0.166_666_66, 0.041_666_295, 0.008_333_498, 0.001_394_470_5, 0.000_197_903_03];

/// Beyond this magnitude the normal tail is exactly zero in `f32` (e^(-x^2 / 2) underflows at 14.4).
const TAIL_HIGHEST: f32 = 16.0;
/// `t = 1 / (1 + TAIL_SCALE * x)` maps `[0, inf)` to `(0, 1]`.
const TAIL_SCALE: f32 = 0.3;
/// Minimax coefficients of `e^(x^2 / 2) * (1 - Phi(x)) / t` in `t`, constant term first (relative error 4e-9 on [0, 14]).
const TAIL: [f32; 10] = [
    0.119_686_63,
    0.119_572_83,
    0.110_227_36,
    0.078_425_41,
    0.096_058_34,
    -0.079_248_29,
    0.191_582_83,
    -0.228_068_37,
    0.112_376_14,
    -0.020_612_895,
];

/// e^x: within 1 ULP; exactly 0 below -105, infinity above 89, NaN for NaN.
#[inline(always)]
pub fn exp<I: Isa>(isa: I, x: I::V) -> I::V {
    // NaN is the second operand, so it survives both clamps.
    let x = isa.min(isa.splat(EXP_HIGHEST), isa.max(isa.splat(EXP_LOWEST), x));
    let ([p], [t]) = exp_parts(isa, [x]);
    isa.scale_by_power_of_two(p, t)
}

/// [`exp`] in fewer steps where its result is neither near the end of the range nor subnormal: the same bits for
/// `-60 <= x <= 1` and NaN, some value for others.
///
/// `N` vectors take every step together, because the steps of one wait for each other.
#[inline(always)]
pub(super) fn exp_normal<I: Isa, const N: usize>(isa: I, x: [I::V; N]) -> [I::V; N] {
    let (mut p, t) = exp_parts(isa, x);
    for i in 0..N {
        p[i] = isa.scale_by_normal_power_of_two(p[i], t[i]);
    }
    p
}

/// `e^x = p 2^n`, where `t = ROUND_MAGIC + n`.
#[inline(always)]
fn exp_parts<I: Isa, const N: usize>(isa: I, x: [I::V; N]) -> ([I::V; N], [I::V; N]) {
    let magic = isa.splat(ROUND_MAGIC);
    let (mut t, mut n, mut r) = (x, x, x);
    for i in 0..N {
        t[i] = isa.fma(x[i], isa.splat(std::f32::consts::LOG2_E), magic);
    }
    for i in 0..N {
        n[i] = isa.sub(magic, t[i]);
    }
    for i in 0..N {
        r[i] = isa.fma(n[i], isa.splat(LN2_HIGH), x[i]);
    }
    for i in 0..N {
        r[i] = isa.fma(n[i], isa.splat(LN2_LOW), r[i]);
    }
    let mut q = [isa.splat(EXP[5]); N];
    for &c in EXP[..5].iter().rev() {
        for i in 0..N {
            q[i] = isa.fma(q[i], r[i], isa.splat(c));
        }
    }
    for i in 0..N {
        q[i] = isa.add(isa.fma(q[i], isa.mul(r[i], r[i]), r[i]), isa.splat(1.0));
    }
    (q, t)
}

/// The GELU in its erf form, `x * Phi(x)` with the normal distribution function `Phi`: within 7 ULP where the result is
/// normal, never of the wrong sign.
///
/// `1 - Phi(|x|)` is computed to full relative precision as `e^(-x^2 / 2)` times a polynomial, so the negative tail does
/// not cancel as `1 + erf` does.
#[inline(always)]
pub fn gelu<I: Isa>(isa: I, x: I::V) -> I::V {
    let one = isa.splat(1.0);
    let zero = isa.splat(0.0);
    let magnitude = isa.min(isa.splat(TAIL_HIGHEST), isa.abs(x));
    let t = isa.div(one, isa.fma(magnitude, isa.splat(TAIL_SCALE), one));
    let mut p = isa.splat(TAIL[9]);
    for &c in TAIL[..9].iter().rev() {
        p = isa.fma(p, t, isa.splat(c));
    }
    // e^(-x^2 / 2) with the rounding error of x^2 put back: e^-(s + e) / 2 = e^(-s / 2) * (1 - e / 2).
    let square = isa.mul(magnitude, magnitude);
    let rest = isa.fma(magnitude, magnitude, isa.neg(square));
    let e = exp(isa, isa.mul(square, isa.splat(-0.5)));
    let e = isa.fma(isa.mul(e, isa.splat(-0.5)), rest, e);
    // x joins before e^(-x^2 / 2), which may be subnormal, so that a normal result keeps its precision. It is clamped so
    // that an infinite input does not meet a zero tail.
    let scaled = isa.mul(isa.max(isa.splat(-TAIL_HIGHEST), x), isa.mul(p, t));
    let below = isa.mul(scaled, e);
    let above = isa.select_less(x, isa.splat(TAIL_HIGHEST), isa.fma(isa.neg(scaled), e, x), x);
    isa.select_less(x, zero, below, above)
}

/// The GELU in its tanh form, for negative controls only: no model of this family uses it.
#[inline(always)]
pub fn gelu_tanh<I: Isa>(isa: I, x: I::V) -> I::V {
    // 0.5 * x * (1 + tanh(u)) = x / (1 + e^(-2 u)) with u = sqrt(2 / pi) * (x + 0.044715 * x^3).
    let inner = isa.fma(isa.mul(isa.mul(x, x), isa.splat(0.044_715)), x, x);
    let e = exp(isa, isa.mul(inner, isa.splat(-1.595_769)));
    isa.div(x, isa.add(isa.splat(1.0), e))
}

/// Which function the feed-forward gate, the scorer and the act head apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// The GELU in its erf form.
    Gelu,
    /// The GELU in its tanh form; a negative control.
    GeluTanh,
}

#[inline(always)]
pub(super) fn activate<I: Isa>(isa: I, x: I::V, activation: Activation) -> I::V {
    match activation {
        Activation::Gelu => gelu(isa, x),
        Activation::GeluTanh => gelu_tanh(isa, x),
    }
}

/// `x[i] = activation(x[i])`.
pub struct Activate<'a>(pub &'a mut [f32], pub Activation);

impl Operation for Activate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for x in self.0.chunks_mut(LANES) {
            store_part(isa, activate(isa, load_part(isa, x), self.1), x);
        }
    }
}

/// `x[i] = x[i] + y[i]`.
pub struct AddInPlace<'a>(pub &'a mut [f32], pub &'a [f32]);

impl Operation for AddInPlace<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for (x, y) in self.0.chunks_mut(LANES).zip(self.1.chunks(LANES)) {
            store_part(isa, isa.add(load_part(isa, x), load_part(isa, y)), x);
        }
    }
}
