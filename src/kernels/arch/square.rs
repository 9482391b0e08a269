//! Transposing sixteen by sixteen 16-bit values, which is most of the work of laying out half-precision weights.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
    _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
};

/// Value `j` of row `i` becomes value `i` of row `j`; the bytes of a value stay in order.
#[cfg(target_arch = "x86_64")]
pub fn transpose(rows: [&[[u8; 2]; 16]; 16], to: &mut [[u16; 16]; 16]) {
    // SAFETY: SSE2 is part of x86-64. A row holds sixteen values, of which the loads and stores take the eight from `8 a`
    // or `8 b` on; they do not ask for alignment. The processor is little-endian, as the values are.
    unsafe {
        for a in 0..2 {
            for b in 0..2 {
                let mut r = [_mm_loadu_si128(rows[8 * a].as_ptr().add(8 * b).cast::<__m128i>()); 8];
                for (i, r) in r.iter_mut().enumerate().skip(1) {
                    *r = _mm_loadu_si128(rows[8 * a + i].as_ptr().add(8 * b).cast::<__m128i>());
                }
                // Pairs of rows: value 0 to 3, then 4 to 7, of each.
                let mut p = r;
                for i in 0..4 {
                    p[i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
                    p[4 + i] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
                }
                // Fours of rows: two values of each.
                let mut q = p;
                for h in 0..2 {
                    for i in 0..2 {
                        let (x, y) = (p[4 * h + 2 * i], p[4 * h + 2 * i + 1]);
                        q[4 * h + i] = _mm_unpacklo_epi32(x, y);
                        q[4 * h + 2 + i] = _mm_unpackhi_epi32(x, y);
                    }
                }
                for j in 0..4 {
                    let (x, y) = (q[2 * j], q[2 * j + 1]);
                    let at = |j: usize| 8 * b + j;
                    _mm_storeu_si128(to[at(2 * j)].as_mut_ptr().add(8 * a).cast(), _mm_unpacklo_epi64(x, y));
                    _mm_storeu_si128(to[at(2 * j + 1)].as_mut_ptr().add(8 * a).cast(), _mm_unpackhi_epi64(x, y));
                }
            }
        }
    }
}

/// Value `j` of row `i` becomes value `i` of row `j`; the bytes of a value stay in order.
#[cfg(not(target_arch = "x86_64"))]
pub fn transpose(rows: [&[[u8; 2]; 16]; 16], to: &mut [[u16; 16]; 16]) {
    for (i, row) in rows.into_iter().enumerate() {
        for (to, value) in to.iter_mut().zip(row) {
            to[i] = u16::from_le_bytes(*value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let values: [[[u8; 2]; 16]; 16] =
            std::array::from_fn(|i| std::array::from_fn(|j| ((i * 300 + j * 17) as u16).to_le_bytes()));
        let mut to = [[0; 16]; 16];
        transpose(std::array::from_fn(|i| &values[i]), &mut to);
        for (j, row) in to.iter().enumerate() {
            for (i, value) in row.iter().enumerate() {
                assert_eq!(usize::from(*value), i * 300 + j * 17);
            }
        }
    }
}
