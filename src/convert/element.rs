//! Elements: from the float types of checkpoints to the ones of the GGUF file.

use half::f16;
use rayon::prelude::*;

use super::quant;
use crate::safetensors::Float;

/// Elements one task converts: whole blocks of Q8_0.
const CHUNK: usize = 1 << 14;

/// F32 elements of `source`, as little-endian bytes. Not-a-numbers of 16-bit sources come out quiet, as processors widen
/// them.
pub(super) fn to_f32(source: &[u8], from: Float, out: &mut Vec<u8>) {
    if from == Float::F32 {
        return copy(source, out);
    }
    convert(source, from, out, CHUNK * 4, |values, out| store(values, false, out));
}

/// F16 elements of `source`, rounded to nearest even; a not-a-number keeps its sign and top payload bits and is quiet.
/// Elements that are F16 already keep every bit.
pub(super) fn to_f16(source: &[u8], from: Float, out: &mut Vec<u8>) {
    if from == Float::F16 {
        return copy(source, out);
    }
    convert(source, from, out, CHUNK * 2, |values, out| store(values, true, out));
}

/// Q8_0 blocks of `source`, whose elements are finite and whole blocks.
pub(super) fn to_q8_0(source: &[u8], from: Float, out: &mut Vec<u8>) {
    convert(source, from, out, CHUNK / quant::BLOCK * quant::BYTES, quant::store);
}

/// Little-endian bytes of `values`, as F16 (rounded to nearest even) or F32.
pub(super) fn from_f32(values: &[f32], half: bool, out: &mut Vec<u8>) {
    let n_bytes = if half { 2 } else { 4 };
    out.clear();
    out.resize(values.len() * n_bytes, 0);
    let chunks = out.par_chunks_mut(CHUNK * n_bytes).zip(values.par_chunks(CHUNK));
    chunks.for_each(|(out, values)| store(values, half, out));
}

fn copy(source: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(source);
}

/// Elements of `source` as F32, given to `store` chunk by chunk and in parallel; each chunk is stored in `chunk_bytes`, the
/// last in its share of them.
fn convert(
    source: &[u8],
    from: Float,
    out: &mut Vec<u8>,
    chunk_bytes: usize,
    store: impl Fn(&[f32], &mut [u8]) + Sync,
) {
    let n = source.len() / from.n_bytes();
    out.clear();
    out.resize(n / CHUNK * chunk_bytes + n % CHUNK * chunk_bytes / CHUNK, 0);
    out.par_chunks_mut(chunk_bytes).zip(source.par_chunks(CHUNK * from.n_bytes())).for_each(|(out, source)| {
        store(&widened(source, from), out);
    });
}

/// The elements of `source` as the 32-bit floats through which all conversions go; exact for all but F64.
pub(super) fn widened(source: &[u8], from: Float) -> Vec<f32> {
    match from {
        Float::F16 => source.as_chunks().0.iter().map(|&b| f16::from_le_bytes(b).to_f32()).collect(),
        Float::BF16 => {
            source.as_chunks().0.iter().map(|&b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)).collect()
        }
        Float::F32 => source.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
        Float::F64 => source.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b) as f32).collect(),
    }
}

/// Stores `values` as F16 or F32; `out` has room for exactly them.
fn store(values: &[f32], half: bool, out: &mut [u8]) {
    if half {
        let (out, _) = out.as_chunks_mut();
        values.iter().zip(out).for_each(|(value, out)| *out = narrow(*value).to_le_bytes());
    } else {
        let (out, _) = out.as_chunks_mut();
        values.iter().zip(out).for_each(|(value, out)| *out = value.to_le_bytes());
    }
}

/// The bits of the nearest F16.
pub(super) fn narrow(value: f32) -> u16 {
    if value.is_nan() {
        let bits = value.to_bits();
        return ((bits >> 16) & 0x8000) as u16 | 0x7e00 | ((bits >> 13) & 0x1ff) as u16;
    }
    f16::from_f32(value).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_rounds_to_even_and_keeps_not_a_numbers() {
        let cases: [(u32, u16); 12] = [
            (0x3f80_0000, 0x3c00),
            (0x8000_0000, 0x8000),
            // Halfway between 1 and the next: to even.
            (0x3f80_1000, 0x3c00),
            (0x3f80_3000, 0x3c02),
            (0x3f80_1001, 0x3c01),
            // 65504, and the first value that rounds to infinity.
            (0x477f_e000, 0x7bff),
            (0x477f_efff, 0x7bff),
            (0x477f_f000, 0x7c00),
            // The smallest subnormal and half of it.
            (0x3380_0000, 0x0001),
            (0x3300_0000, 0x0000),
            (0x7f80_0001, 0x7e00),
            (0xffc0_2000, 0xfe01),
        ];
        for (bits, want) in cases {
            assert_eq!(narrow(f32::from_bits(bits)), want, "{bits:08x}");
        }
    }

    #[test]
    fn every_f16_survives_the_way_up_and_down() {
        let source: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let (mut wide, mut back) = (Vec::new(), Vec::new());
        to_f32(&source, Float::F16, &mut wide);
        to_f16(&wide, Float::F32, &mut back);
        for (bits, back) in (0..=u16::MAX).zip(back.as_chunks().0) {
            let quiet = if bits & 0x7fff > 0x7c00 { bits | 0x0200 } else { bits };
            assert_eq!(u16::from_le_bytes(*back), quiet);
        }
        to_f16(&source, Float::F16, &mut back);
        assert_eq!(back, source);
    }

    #[test]
    fn blocks_of_any_source_are_those_of_its_floats() {
        // Two tasks, the second of them short.
        let n = CHUNK + 3 * quant::BLOCK;
        let halves: Vec<u16> = (0..n).map(|i| (i * 40_503 % 0x7c00) as u16 | (i as u16 & 1) << 15).collect();
        let halves: Vec<u8> = halves.into_iter().flat_map(u16::to_le_bytes).collect();
        let doubles: Vec<u8> = (0..n).flat_map(|i| (1.0 / (i as f64 + 0.1)).to_le_bytes()).collect();
        for (source, from) in [(&halves, Float::F16), (&halves, Float::BF16), (&doubles, Float::F64)] {
            let (mut wide, mut want, mut found) = (Vec::new(), Vec::new(), Vec::new());
            to_f32(source, from, &mut wide);
            to_q8_0(&wide, Float::F32, &mut want);
            to_q8_0(source, from, &mut found);
            assert_eq!(found.len(), n / quant::BLOCK * quant::BYTES);
            assert!(found == want, "{from:?}");
            let mut alone = Vec::new();
            to_q8_0(&wide[4 * CHUNK..], Float::F32, &mut alone);
            assert!(found.ends_with(&alone) && alone.len() == 3 * quant::BYTES, "{from:?}");
        }
    }

    #[test]
    fn other_sources() {
        let mut out = Vec::new();
        to_f32(&[0x80, 0x3f, 0xc0, 0x7f], Float::BF16, &mut out);
        assert_eq!(out, [1f32.to_le_bytes(), 0x7fc0_0000u32.to_le_bytes()].concat());
        to_f32(&0.1f64.to_le_bytes(), Float::F64, &mut out);
        assert_eq!(out, 0.1f32.to_le_bytes());
        to_f16(&1e6f64.to_le_bytes(), Float::F64, &mut out);
        assert_eq!(out, 0x7c00u16.to_le_bytes());
    }
}
