//! AVX2 with FMA and F16C: sixteen lanes as two 256-bit registers.

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _CMP_LT_OQ, _MM_HINT_T1, _mm_loadu_si128, _mm_prefetch, _mm_unpackhi_epi64,
    _mm256_add_epi32, _mm256_add_ps, _mm256_andnot_ps, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_cmp_ps, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtph_ps, _mm256_div_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_permute2f128_ps, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_srai_epi32, _mm256_storeu_ps, _mm256_sub_epi32,
    _mm256_sub_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm256_xor_ps,
};

use crate::kernels::lane::{Isa, LANES, Operation, ROUND_MAGIC};

/// Proof that the processor has AVX2, FMA and F16C.
#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// The proof, when the processor has them.
    pub fn detect() -> Option<Self> {
        let has =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }

    /// Does the work of `operation` with these instructions.
    pub fn run<O: Operation>(self, operation: O) -> O::Output {
        // SAFETY: a value of this type exists only after `detect` found every feature `enabled` asks for.
        unsafe { enabled(self, operation) }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
fn enabled<O: Operation>(isa: Avx2, operation: O) -> O::Output {
    operation.run(isa)
}

/// Sixteen lanes: the first eight and the last eight.
#[derive(Debug, Clone, Copy)]
pub struct Lanes(__m256, __m256);

/// Applies an intrinsic to both halves.
macro_rules! both {
    ($f:ident, $($v:expr),+) => {{
        // SAFETY: the instruction set value proves the features; the intrinsic only computes on registers.
        unsafe { Lanes($f($($v.0),+), $f($($v.1),+)) }
    }};
}

impl Isa for Avx2 {
    type V = Lanes;
    // 6 rows x 16 outputs: 12 accumulators, 2 weight registers and 1 broadcast fill the 16 registers.
    const TILE_ROWS: usize = 6;
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Lanes {
        // SAFETY: as in `both!`.
        let v = unsafe { _mm256_set1_ps(x) };
        Lanes(v, v)
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Lanes {
        // SAFETY: the array holds sixteen floats; the loads do not ask for alignment.
        unsafe { Lanes(_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))) }
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> Lanes {
        let at = from.as_ptr().cast::<__m128i>();
        // SAFETY: the array holds two groups of eight 16-bit values; the loads do not ask for alignment.
        unsafe { Lanes(_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at.add(1)))) }
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Lanes {
        // SAFETY: the array holds sixteen bytes; the load does not ask for alignment.
        unsafe {
            let bytes = _mm_loadu_si128(from.as_ptr().cast::<__m128i>());
            let high = _mm_unpackhi_epi64(bytes, bytes);
            Lanes(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)))
        }
    }
    #[inline(always)]
    fn store(self, v: Lanes, to: &mut [f32; LANES]) {
        // SAFETY: the array holds sixteen floats; the stores do not ask for alignment.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), v.0);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), v.1);
        }
    }
    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        both!(_mm256_add_ps, a, b)
    }
    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        both!(_mm256_sub_ps, a, b)
    }
    #[inline(always)]
    fn mul(self, a: Lanes, b: Lanes) -> Lanes {
        both!(_mm256_mul_ps, a, b)
    }
    #[inline(always)]
    fn div(self, a: Lanes, b: Lanes) -> Lanes {
        both!(_mm256_div_ps, a, b)
    }
    #[inline(always)]
    fn fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        both!(_mm256_fmadd_ps, a, b, c)
    }
    #[inline(always)]
    fn max(self, a: Lanes, b: Lanes) -> Lanes {
        // The instruction's own rule is `a > b ? a : b`, also for NaN and signed zeros.
        both!(_mm256_max_ps, a, b)
    }
    #[inline(always)]
    fn min(self, a: Lanes, b: Lanes) -> Lanes {
        // The instruction's own rule is `a < b ? a : b`, also for NaN and signed zeros.
        both!(_mm256_min_ps, a, b)
    }
    #[inline(always)]
    fn select_less(self, a: Lanes, b: Lanes, x: Lanes, y: Lanes) -> Lanes {
        #[inline(always)]
        fn half(a: __m256, b: __m256, x: __m256, y: __m256) -> __m256 {
            // SAFETY: as in `both!`.
            unsafe { _mm256_blendv_ps(y, x, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) }
        }
        Lanes(half(a.0, b.0, x.0, y.0), half(a.1, b.1, x.1, y.1))
    }
    #[inline(always)]
    fn abs(self, a: Lanes) -> Lanes {
        let sign = self.splat(-0.0);
        both!(_mm256_andnot_ps, sign, a)
    }
    #[inline(always)]
    fn neg(self, a: Lanes) -> Lanes {
        let sign = self.splat(-0.0);
        both!(_mm256_xor_ps, sign, a)
    }
    #[inline(always)]
    fn scale_by_power_of_two(self, p: Lanes, t: Lanes) -> Lanes {
        #[inline(always)]
        fn power(n: __m256i) -> __m256 {
            // SAFETY: as in `both!`.
            unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127)))) }
        }
        #[inline(always)]
        fn half(p: __m256, t: __m256) -> __m256 {
            // SAFETY: as in `both!`.
            unsafe {
                let n = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(ROUND_MAGIC.to_bits() as i32));
                let first = _mm256_srai_epi32::<1>(n);
                _mm256_mul_ps(_mm256_mul_ps(p, power(first)), power(_mm256_sub_epi32(n, first)))
            }
        }
        Lanes(half(p.0, t.0), half(p.1, t.1))
    }
    #[inline(always)]
    fn scale_by_normal_power_of_two(self, p: Lanes, t: Lanes) -> Lanes {
        #[inline(always)]
        fn half(p: __m256, t: __m256) -> __m256 {
            // SAFETY: as in `both!`. The bits of the constant itself leave the word.
            unsafe {
                let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(t));
                _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_add_epi32(n, _mm256_set1_epi32(127 << 23))))
            }
        }
        Lanes(half(p.0, t.0), half(p.1, t.1))
    }

    #[inline(always)]
    fn store_interleaved<const ROWS: usize>(self, rows: &[Lanes; ROWS], to: &mut [f32]) {
        let mut parts = [[[self.splat(0.0).0; 8]; 2]; 2];
        for (i, row) in rows.iter().enumerate() {
            (parts[0][i / 8][i % 8], parts[1][i / 8][i % 8]) = (row.0, row.1);
        }
        let (low, high) = to.split_at_mut(8 * ROWS);
        store_eight_columns::<ROWS>(&parts[0], low);
        store_eight_columns::<ROWS>(&parts[1], high);
    }

    #[inline(always)]
    fn interleave<const ROWS: usize>(self, rows: &[&[f32; LANES]; ROWS], to: &mut [f32]) {
        // One half after the other: both at once do not fit the registers.
        for (half, to) in to[..LANES * ROWS].chunks_exact_mut(8 * ROWS).enumerate() {
            let mut part = [[self.splat(0.0).0; 8]; 2];
            for (part, row) in part.as_flattened_mut().iter_mut().zip(rows) {
                // SAFETY: a row holds sixteen floats, a half eight of them; the load does not ask for alignment.
                *part = unsafe { _mm256_loadu_ps(row.as_ptr().add(8 * half)) };
            }
            store_eight_columns::<ROWS>(&part, to);
        }
    }

    #[inline(always)]
    fn call<O: Operation>(self, operation: O) -> O::Output {
        self.run(operation)
    }

    #[inline(always)]
    fn prefetch<T>(self, at: &T) {
        // SAFETY: a prefetch reads nothing; the reference is a valid address all the same.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(at).cast()) }
    }
}

/// Lane `j` of row `i` goes to `to[j * ROWS + i]`, for the first `ROWS` of twice eight rows of eight lanes.
#[inline(always)]
fn store_eight_columns<const ROWS: usize>(rows: &[[__m256; 8]; 2], to: &mut [f32]) {
    assert!(ROWS <= 16 && to.len() >= 8 * ROWS, "eight lanes of at most sixteen rows");
    let first = transpose(&rows[0]);
    let second = if ROWS > 8 { transpose(&rows[1]) } else { first };
    // Ascending, so that what a whole store writes past a row's end is overwritten by its own values.
    for j in 0..8 {
        store_first(&mut to[j * ROWS..], ROWS.min(8), first[j]);
        if ROWS > 8 {
            store_first(&mut to[j * ROWS + 8..], ROWS - 8, second[j]);
        }
    }
}

/// Stores the first `n` of eight lanes; the others too where `to` has room, for the caller to overwrite.
#[inline(always)]
fn store_first(to: &mut [f32], n: usize, v: __m256) {
    if let Some(to) = to.first_chunk_mut::<8>() {
        // SAFETY: the array holds eight floats; the store does not ask for alignment.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) }
    } else {
        let mut lanes = [0.0; 8];
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), v) }
        to[..n].copy_from_slice(&lanes[..n]);
    }
}

/// Lane `j` of row `i` becomes lane `i` of row `j`.
#[inline(always)]
fn transpose(r: &[__m256; 8]) -> [__m256; 8] {
    // SAFETY: an `Avx2` value, without which nothing here is called, proves the features; only registers are used.
    unsafe {
        let a0 = _mm256_unpacklo_ps(r[0], r[1]);
        let a1 = _mm256_unpackhi_ps(r[0], r[1]);
        let a2 = _mm256_unpacklo_ps(r[2], r[3]);
        let a3 = _mm256_unpackhi_ps(r[2], r[3]);
        let a4 = _mm256_unpacklo_ps(r[4], r[5]);
        let a5 = _mm256_unpackhi_ps(r[4], r[5]);
        let a6 = _mm256_unpacklo_ps(r[6], r[7]);
        let a7 = _mm256_unpackhi_ps(r[6], r[7]);
        // Four columns of each 128-bit half: of rows 0 to 3, then of rows 4 to 7.
        let b0 = _mm256_shuffle_ps::<0b01_00_01_00>(a0, a2);
        let b1 = _mm256_shuffle_ps::<0b11_10_11_10>(a0, a2);
        let b2 = _mm256_shuffle_ps::<0b01_00_01_00>(a1, a3);
        let b3 = _mm256_shuffle_ps::<0b11_10_11_10>(a1, a3);
        let b4 = _mm256_shuffle_ps::<0b01_00_01_00>(a4, a6);
        let b5 = _mm256_shuffle_ps::<0b11_10_11_10>(a4, a6);
        let b6 = _mm256_shuffle_ps::<0b01_00_01_00>(a5, a7);
        let b7 = _mm256_shuffle_ps::<0b11_10_11_10>(a5, a7);
        [
            _mm256_permute2f128_ps::<0x20>(b0, b4),
            _mm256_permute2f128_ps::<0x20>(b1, b5),
            _mm256_permute2f128_ps::<0x20>(b2, b6),
            _mm256_permute2f128_ps::<0x20>(b3, b7),
            _mm256_permute2f128_ps::<0x31>(b0, b4),
            _mm256_permute2f128_ps::<0x31>(b1, b5),
            _mm256_permute2f128_ps::<0x31>(b2, b6),
            _mm256_permute2f128_ps::<0x31>(b3, b7),
        ]
    }
}
