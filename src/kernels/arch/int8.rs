//! Eight-bit multiply-adds, measured only: no kernel of the numeric contract uses them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm256_add_epi8, _mm256_add_epi32, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm512_dpbusd_epi32, _mm512_reduce_add_epi32, _mm512_set1_epi32,
    _mm512_setzero_si512,
};
use std::hint::black_box;

/// Proof that the processor has instructions for eight-bit multiply-adds.
#[derive(Debug, Clone, Copy)]
pub struct Unit(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni512,
}

impl Unit {
    /// The widest the processor has.
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
                return Some(Self(Kind::Vnni512));
            }
            if is_x86_feature_detected!("avx2") {
                return Some(Self(Kind::Avx2));
            }
        }
        None
    }

    /// `n` steps of independent chains; a value that depends on them, and the operations of one step.
    pub fn run(self, n: usize) -> (i32, f64) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` found the features of this kind.
            Kind::Avx2 => unsafe { avx2(n) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Vnni512 => unsafe { vnni512(n) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(n: usize) -> (i32, f64) {
    const CHAINS: usize = 6;
    let (y, one) = (_mm256_set1_epi8(black_box(1)), _mm256_set1_epi16(1));
    let mut x = y;
    let mut sums = [_mm256_setzero_si256(); CHAINS];
    for _ in 0..n {
        // Another operand in every step, or the products would be computed once.
        x = _mm256_add_epi8(x, y);
        for (i, sum) in sums.iter_mut().enumerate() {
            let products = _mm256_maddubs_epi16(x, _mm256_set1_epi8(i as i8));
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(products, one));
        }
    }
    let mut lanes = [0_i32; 8];
    let mut total = 0_i32;
    for sum in sums {
        // SAFETY: the array holds eight integers; the store does not ask for alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) }
        total = lanes.iter().fold(total, |total, lane| total.wrapping_add(*lane));
    }
    (total, (2 * 32 * CHAINS) as f64)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn vnni512(n: usize) -> (i32, f64) {
    const CHAINS: usize = 24;
    let (x, y) = (_mm512_set1_epi32(black_box(0x0101_0101)), _mm512_set1_epi32(black_box(0x0101_0101)));
    let mut sums = [_mm512_setzero_si512(); CHAINS];
    for _ in 0..n {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, x, y);
        }
    }
    let mut total = 0_i32;
    for sum in sums {
        total = total.wrapping_add(_mm512_reduce_add_epi32(sum));
    }
    (total, (2 * 64 * CHAINS) as f64)
}
