//! AVX2 with FMA and F16C: sixteen lanes as two 256-bit registers.

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _CMP_LT_OQ, _mm_loadu_si128, _mm256_add_epi32, _mm256_add_ps, _mm256_andnot_ps,
    _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtph_ps, _mm256_div_ps,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_slli_epi32, _mm256_srai_epi32, _mm256_storeu_ps, _mm256_sub_epi32, _mm256_sub_ps, _mm256_xor_ps,
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
}
