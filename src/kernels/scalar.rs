//! The scalar kernels: the meaning of every operation, in plain Rust.

use half::f16;

use super::lane::{Isa, LANES, ROUND_MAGIC};

/// One lane after the other; present on every processor, slow, and what every other instruction set must equal.
#[derive(Debug, Clone, Copy)]
pub struct Scalar;

#[inline(always)]
fn map(a: [f32; LANES], f: impl Fn(f32) -> f32) -> [f32; LANES] {
    a.map(f)
}

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// Whether the target's baseline has a fused multiply-add.
pub(super) const HAS_FUSED_MULTIPLY_ADD: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

/// `a * b + c`, rounded once. `f32::mul_add` would call the platform's C library where there is no instruction.
#[inline(always)]
pub fn fused_multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if HAS_FUSED_MULTIPLY_ADD { a.mul_add(b, c) } else { libm::fmaf(a, b, c) }
}

impl Isa for Scalar {
    type V = [f32; LANES];
    const TILE_ROWS: usize = 4;
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        *from
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> Self::V {
        from.map(|bits| f16::from_bits(bits).to_f32())
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::V {
        from.map(f32::from)
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        *to = v;
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| fused_multiply_add(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn select_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }
    #[inline(always)]
    fn abs(self, a: Self::V) -> Self::V {
        map(a, f32::abs)
    }
    #[inline(always)]
    fn neg(self, a: Self::V) -> Self::V {
        map(a, |a| -a)
    }
    #[inline(always)]
    fn scale_by_power_of_two(self, p: Self::V, t: Self::V) -> Self::V {
        zip(p, t, |p, t| {
            let n = (t.to_bits() as i32).wrapping_sub(ROUND_MAGIC.to_bits() as i32);
            let half = n >> 1;
            let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
            p * power(half) * power(n.wrapping_sub(half))
        })
    }
    #[inline(always)]
    fn scale_by_normal_power_of_two(self, p: Self::V, t: Self::V) -> Self::V {
        // The bits of the constant itself leave the word.
        zip(p, t, |p, t| p * f32::from_bits((t.to_bits() << 23).wrapping_add(127 << 23)))
    }
}
