//! AVX-512 (F): sixteen lanes as one 512-bit register.

use std::arch::x86_64::{
    __m128i, __m256i, __m512, __m512i, _CMP_LT_OQ, _MM_HINT_T1, _mm_loadu_si128, _mm_prefetch, _mm256_loadu_si256,
    _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask,
    _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps, _mm512_cvtph_ps, _mm512_div_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_blend_ps, _mm512_mask_storeu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_shuffle_f32x4, _mm512_shuffle_ps, _mm512_slli_epi32, _mm512_srai_epi32, _mm512_storeu_ps,
    _mm512_sub_epi32, _mm512_sub_ps, _mm512_unpackhi_ps, _mm512_unpacklo_ps, _mm512_xor_si512,
};

use crate::kernels::lane::{Isa, LANES, Operation, ROUND_MAGIC};

/// Proof that the processor has AVX-512 F.
#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// The proof, when the processor has it.
    pub fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }

    /// Does the work of `operation` with these instructions.
    pub fn run<O: Operation>(self, operation: O) -> O::Output {
        // SAFETY: a value of this type exists only after `detect` found every feature `enabled` asks for.
        unsafe { enabled(self, operation) }
    }
}

#[target_feature(enable = "avx512f")]
#[inline(never)]
fn enabled<O: Operation>(isa: Avx512, operation: O) -> O::Output {
    operation.run(isa)
}

/// Calls an intrinsic on whole registers.
macro_rules! call {
    ($f:ident, $($v:expr),+) => {{
        // SAFETY: the instruction set value proves the feature; the intrinsic only computes on registers.
        unsafe { $f($($v),+) }
    }};
}

impl Isa for Avx512 {
    type V = __m512;
    // 14 rows x 32 outputs: 28 accumulators, 2 weight registers and 1 broadcast of the 32 registers.
    const TILE_ROWS: usize = 14;
    const TILE_VECTORS: usize = 2;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        call!(_mm512_set1_ps, x)
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> __m512 {
        // SAFETY: the array holds sixteen floats; the load does not ask for alignment.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> __m512 {
        // SAFETY: the array holds sixteen 16-bit values; the load does not ask for alignment.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast::<__m256i>())) }
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> __m512 {
        // SAFETY: the array holds sixteen bytes; the load does not ask for alignment.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast::<__m128i>()))) }
    }
    #[inline(always)]
    fn store(self, v: __m512, to: &mut [f32; LANES]) {
        // SAFETY: the array holds sixteen floats; the store does not ask for alignment.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        call!(_mm512_add_ps, a, b)
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        call!(_mm512_sub_ps, a, b)
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        call!(_mm512_mul_ps, a, b)
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        call!(_mm512_div_ps, a, b)
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        call!(_mm512_fmadd_ps, a, b, c)
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // The instruction's own rule is `a > b ? a : b`, also for NaN and signed zeros.
        call!(_mm512_max_ps, a, b)
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // The instruction's own rule is `a < b ? a : b`, also for NaN and signed zeros.
        call!(_mm512_min_ps, a, b)
    }
    #[inline(always)]
    fn select_less(self, a: __m512, b: __m512, x: __m512, y: __m512) -> __m512 {
        // SAFETY: as in `call!`.
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x) }
    }
    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        // SAFETY: as in `call!`. The integer form needs no more than AVX-512 F.
        unsafe { _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(i32::MAX))) }
    }
    #[inline(always)]
    fn neg(self, a: __m512) -> __m512 {
        // SAFETY: as in `call!`. The integer form needs no more than AVX-512 F.
        unsafe { _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(i32::MIN))) }
    }
    #[inline(always)]
    fn scale_by_power_of_two(self, p: __m512, t: __m512) -> __m512 {
        #[inline(always)]
        fn power(n: __m512i) -> __m512 {
            // SAFETY: as in `call!`.
            unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(n, _mm512_set1_epi32(127)))) }
        }
        // SAFETY: as in `call!`.
        unsafe {
            let n = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(ROUND_MAGIC.to_bits() as i32));
            let first = _mm512_srai_epi32::<1>(n);
            _mm512_mul_ps(_mm512_mul_ps(p, power(first)), power(_mm512_sub_epi32(n, first)))
        }
    }
    #[inline(always)]
    fn scale_by_normal_power_of_two(self, p: __m512, t: __m512) -> __m512 {
        // SAFETY: as in `call!`. The bits of the constant itself leave the word.
        unsafe {
            let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(t));
            _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_add_epi32(n, _mm512_set1_epi32(127 << 23))))
        }
    }

    #[inline(always)]
    fn store_interleaved<const ROWS: usize>(self, rows: &[__m512; ROWS], to: &mut [f32]) {
        assert!(ROWS <= LANES && to.len() >= LANES * ROWS, "sixteen lanes of at most sixteen rows");
        let mut whole = [self.splat(0.0); LANES];
        whole[..ROWS].copy_from_slice(rows);
        let columns = transpose(whole);
        let mask = ((1_u32 << ROWS) - 1) as u16;
        for (to, column) in to.chunks_exact_mut(ROWS).zip(columns) {
            // SAFETY: the mask lets through as many lanes as the chunk has floats.
            unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), mask, column) }
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

/// Lane `j` of row `i` becomes lane `i` of row `j`.
#[inline(always)]
fn transpose(r: [__m512; 16]) -> [__m512; 16] {
    // SAFETY: an `Avx512` value, without which nothing here is called, proves the feature; only registers are used.
    unsafe {
        // Loops of known length and no closures: a closure is compiled without the instructions of the set.
        let mut pairs = r;
        for i in 0..8 {
            pairs[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        // quads[4 g + c]: column c of each of the four 128-bit parts, for the rows 4 g to 4 g + 3.
        let mut quads = r;
        for g in 0..4 {
            for c in 0..2 {
                let (a, b) = (pairs[4 * g + c], pairs[4 * g + c + 2]);
                quads[4 * g + 2 * c] = _mm512_shuffle_ps::<0b01_00_01_00>(a, b);
                quads[4 * g + 2 * c + 1] = _mm512_shuffle_ps::<0b11_10_11_10>(a, b);
            }
        }
        let mut columns = r;
        for c in 0..4 {
            let (a, b, d, e) = (quads[c], quads[4 + c], quads[8 + c], quads[12 + c]);
            // Parts 0 and 1, then 2 and 3, of two groups of rows; then one part of all four.
            let (ab_low, de_low) =
                (_mm512_shuffle_f32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_f32x4::<0b01_00_01_00>(d, e));
            let (ab_high, de_high) =
                (_mm512_shuffle_f32x4::<0b11_10_11_10>(a, b), _mm512_shuffle_f32x4::<0b11_10_11_10>(d, e));
            columns[c] = _mm512_shuffle_f32x4::<0b10_00_10_00>(ab_low, de_low);
            columns[4 + c] = _mm512_shuffle_f32x4::<0b11_01_11_01>(ab_low, de_low);
            columns[8 + c] = _mm512_shuffle_f32x4::<0b10_00_10_00>(ab_high, de_high);
            columns[12 + c] = _mm512_shuffle_f32x4::<0b11_01_11_01>(ab_high, de_high);
        }
        columns
    }
}
