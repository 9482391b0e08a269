//! Sixteen `f32` lanes: the only arithmetic the kernels are written over.

/// Lanes of a vector, on every instruction set. Narrower machines emulate the sixteen lanes.
pub const LANES: usize = 16;

/// `1.5 * 2^23`: added to a float of small magnitude it leaves the nearest integer in the low mantissa bits.
pub const ROUND_MAGIC: f32 = 12_582_912.0;

/// An instruction set, as a value that proves the processor has it.
///
/// Every method acts lane by lane with IEEE binary32 arithmetic, round to nearest even, subnormals kept. The `max`,
/// `min` and `select_less` rules are stated as comparisons so that signed zeros and NaN have one meaning everywhere.
pub trait Isa: Copy + Send + Sync {
    /// Sixteen `f32` lanes.
    type V: Copy;

    /// Rows a matrix-product tile may hold at most on this instruction set.
    const TILE_ROWS: usize;
    /// Vectors of sixteen outputs a matrix-product tile spans (1 or 2).
    const TILE_VECTORS: usize;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::V;
    /// Lanes from memory.
    fn load(self, from: &[f32; LANES]) -> Self::V;
    /// Lanes from sixteen IEEE binary16 values, widened exactly.
    fn load_f16(self, from: &[u16; LANES]) -> Self::V;
    /// Lanes to memory.
    fn store(self, v: Self::V, to: &mut [f32; LANES]);
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `if a > b { a } else { b }`: `b` when either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `if a < b { a } else { b }`: `b` when either is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `if a < b { x } else { y }`: `y` when either is NaN.
    fn select_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// The sign bit cleared.
    fn abs(self, a: Self::V) -> Self::V;
    /// The sign bit flipped.
    fn neg(self, a: Self::V) -> Self::V;
    /// `p * 2^n`, where `t = ROUND_MAGIC + n` and `-252 <= n <= 254`.
    ///
    /// The scale is applied as two factors, `2^(n >> 1)` then `2^(n - (n >> 1))`, so results may be subnormal.
    fn scale_by_power_of_two(self, p: Self::V, t: Self::V) -> Self::V;
}

/// Work written over any instruction set; see [`crate::kernels::InstructionSet::run`].
///
/// `run` and everything it calls with the instruction set must be `#[inline(always)]`, so that it is compiled with the
/// instructions of that set enabled.
pub trait Operation {
    /// What the work gives.
    type Output;
    /// Does the work.
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// The first sixteen lanes of `from`, zero where it is shorter.
#[inline(always)]
pub fn load_part<I: Isa>(isa: I, from: &[f32]) -> I::V {
    match from.first_chunk::<LANES>() {
        Some(whole) => isa.load(whole),
        None => {
            let mut lanes = [0.0; LANES];
            lanes[..from.len()].copy_from_slice(from);
            isa.load(&lanes)
        }
    }
}

/// Stores the first `to.len()` lanes (sixteen at most).
#[inline(always)]
pub fn store_part<I: Isa>(isa: I, v: I::V, to: &mut [f32]) {
    if let Some(whole) = to.first_chunk_mut::<LANES>() {
        isa.store(v, whole);
    } else {
        let mut lanes = [0.0; LANES];
        isa.store(v, &mut lanes);
        let n = to.len();
        to.copy_from_slice(&lanes[..n]);
    }
}

/// Sum of the lanes in the contract's tree: `i` with `i + 8`, then `+ 4`, `+ 2`, `+ 1`.
#[inline(always)]
pub fn sum<I: Isa>(isa: I, v: I::V) -> f32 {
    let mut lanes = [0.0; LANES];
    isa.store(v, &mut lanes);
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Largest lane, by [`Isa::max`]'s rule in the same tree as [`sum`].
#[inline(always)]
pub fn largest<I: Isa>(isa: I, v: I::V) -> f32 {
    let mut lanes = [0.0; LANES];
    isa.store(v, &mut lanes);
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            let (a, b) = (lanes[i], lanes[i + half]);
            lanes[i] = if a > b { a } else { b };
        }
        half /= 2;
    }
    lanes[0]
}
