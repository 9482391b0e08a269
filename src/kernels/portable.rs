//! Sixteen lanes in plain Rust, laid out so that the compiler can keep them in vector registers.

use super::lane::{Isa, LANES, ROUND_MAGIC};
use super::scalar::fused_multiply_add;

/// The widest instruction set of processors nothing was written for: fixed-size arrays and loops of known length, which
/// the compiler turns into the vector instructions of its target (aarch64, for one).
///
/// Where the target's baseline has no fused multiply-add (x86-64) it is as slow as [`super::scalar::Scalar`].
#[derive(Debug, Clone, Copy)]
pub struct Portable;

/// Sixteen lanes, aligned as the widest vector register.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Lanes([f32; LANES]);

/// Lane by lane, in a loop the compiler sees the length of.
macro_rules! lanes {
    ($i:ident => $value:expr) => {{
        let mut out = [0.0; LANES];
        for $i in 0..LANES {
            out[$i] = $value;
        }
        Lanes(out)
    }};
}

/// A binary16 value as `f32`, by integer operations and one exact multiplication, so that lanes need no branch.
#[inline(always)]
fn widen(bits: u16) -> f32 {
    // The exponent moves to its place with the smaller bias of binary16: 2^112 too small, subnormals included.
    let magnitude = (u32::from(bits) & 0x7fff) << 13;
    let value = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    // Infinities and NaN keep the largest exponent.
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(value | special | (u32::from(bits) & 0x8000) << 16)
}

impl Isa for Portable {
    type V = Lanes;
    // 4 rows x 16 outputs: 16 accumulators of four lanes, 4 weight registers and 1 broadcast of aarch64's 32 registers.
    const TILE_ROWS: usize = 4;
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Lanes {
        Lanes([x; LANES])
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Lanes {
        Lanes(*from)
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> Lanes {
        lanes!(i => widen(from[i]))
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Lanes {
        lanes!(i => f32::from(from[i]))
    }
    #[inline(always)]
    fn store(self, v: Lanes, to: &mut [f32; LANES]) {
        *to = v.0;
    }
    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(i => a.0[i] + b.0[i])
    }
    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(i => a.0[i] - b.0[i])
    }
    #[inline(always)]
    fn mul(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(i => a.0[i] * b.0[i])
    }
    #[inline(always)]
    fn div(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(i => a.0[i] / b.0[i])
    }
    #[inline(always)]
    fn fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        lanes!(i => fused_multiply_add(a.0[i], b.0[i], c.0[i]))
    }
    #[inline(always)]
    fn max(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(i => if a.0[i] > b.0[i] { a.0[i] } else { b.0[i] })
    }
    #[inline(always)]
    fn min(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(i => if a.0[i] < b.0[i] { a.0[i] } else { b.0[i] })
    }
    #[inline(always)]
    fn select_less(self, a: Lanes, b: Lanes, x: Lanes, y: Lanes) -> Lanes {
        lanes!(i => if a.0[i] < b.0[i] { x.0[i] } else { y.0[i] })
    }
    #[inline(always)]
    fn abs(self, a: Lanes) -> Lanes {
        lanes!(i => a.0[i].abs())
    }
    #[inline(always)]
    fn neg(self, a: Lanes) -> Lanes {
        lanes!(i => -a.0[i])
    }
    #[inline(always)]
    fn scale_by_power_of_two(self, p: Lanes, t: Lanes) -> Lanes {
        let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
        lanes!(i => {
            let n = (t.0[i].to_bits() as i32).wrapping_sub(ROUND_MAGIC.to_bits() as i32);
            let half = n >> 1;
            p.0[i] * power(half) * power(n.wrapping_sub(half))
        })
    }
    #[inline(always)]
    fn scale_by_normal_power_of_two(self, p: Lanes, t: Lanes) -> Lanes {
        // The bits of the constant itself leave the word.
        lanes!(i => p.0[i] * f32::from_bits((t.0[i].to_bits() << 23).wrapping_add(127 << 23)))
    }
}
