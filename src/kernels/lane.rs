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

    /// Rows a matrix-product tile may hold at most on this instruction set; at most [`MAX_TILE_ROWS`].
    const TILE_ROWS: usize;
    /// Vectors of sixteen outputs a matrix-product tile spans (1 or 2).
    const TILE_VECTORS: usize;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::V;
    /// Lanes from memory.
    fn load(self, from: &[f32; LANES]) -> Self::V;
    /// Lanes from sixteen IEEE binary16 values, widened exactly.
    fn load_f16(self, from: &[u16; LANES]) -> Self::V;
    /// Lanes from sixteen signed bytes, converted exactly.
    fn load_i8(self, from: &[i8; LANES]) -> Self::V;
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
    /// `p * 2^n`, where `t = ROUND_MAGIC + n` and `-126 <= n <= 127`; NaN for a NaN `p`, some value for other `n`.
    fn scale_by_normal_power_of_two(self, p: Self::V, t: Self::V) -> Self::V;

    /// Transposes while storing: lane `j` of row `i` goes to `to[j * ROWS + i]`. `to` holds `16 * ROWS` values.
    #[inline(always)]
    fn store_interleaved<const ROWS: usize>(self, rows: &[Self::V; ROWS], to: &mut [f32]) {
        let mut lanes = [[0.0; LANES]; ROWS];
        for (lanes, row) in lanes.iter_mut().zip(rows) {
            self.store(*row, lanes);
        }
        let (to, _) = to.as_chunks_mut::<ROWS>();
        for (j, to) in to.iter_mut().enumerate().take(LANES) {
            for (to, lanes) in to.iter_mut().zip(&lanes) {
                *to = lanes[j];
            }
        }
    }

    /// [`Isa::store_interleaved`] of rows in memory.
    #[inline(always)]
    fn interleave<const ROWS: usize>(self, rows: &[&[f32; LANES]; ROWS], to: &mut [f32]) {
        let mut lanes = [self.splat(0.0); ROWS];
        for (lanes, row) in lanes.iter_mut().zip(rows) {
            *lanes = self.load(row);
        }
        self.store_interleaved(&lanes, to);
    }

    /// Does the work of `operation` in a function of its own, so that what has many callers is compiled once.
    #[inline(always)]
    fn call<O: Operation>(self, operation: O) -> O::Output {
        operation.run(self)
    }

    /// Asks for the cache line of `at` ahead of its use, where the instruction set can; changes nothing.
    #[inline(always)]
    fn prefetch<T>(self, _at: &T) {}
}

/// The most rows any instruction set has in a tile.
pub const MAX_TILE_ROWS: usize = 14;

/// Does `$work` with the constant `$ROWS` equal to `$rows`, the rows of a tile of instruction set `$I`: the kernels hold
/// a tile in registers, so every number of rows is code of its own.
macro_rules! with_rows {
    ($I:ty, $rows:expr, $ROWS:ident => $work:expr) => {
        $crate::kernels::lane::with_rows!(@ $I, $rows, $ROWS => $work; 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    };
    (@ $I:ty, $rows:expr, $ROWS:ident => $work:expr; $($n:literal)*) => {
        match $rows {
            $($n if $n <= <$I as $crate::kernels::lane::Isa>::TILE_ROWS => {
                const $ROWS: usize = $n;
                $work
            })*
            // `split` gives no other count, and a tile of the wrong size must not leave stale values.
            rows => unreachable!("a tile of {rows} rows"),
        }
    };
}
pub(super) use with_rows;

const _: () = assert!(MAX_TILE_ROWS == 14, "with_rows lists every number of rows");

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
