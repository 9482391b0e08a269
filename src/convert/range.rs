//! Values that have no finite counterpart in the GGUF file: found and counted, so that they can be said.

use half::f16;
use rayon::prelude::*;

use super::safetensors::Float;
use crate::gguf::TensorType;

/// Elements one task looks at.
const CHUNK: usize = 1 << 16;
/// The smallest magnitude that rounds to infinity as F16: halfway from 65504 to 2^16.
const F16_OVERFLOW: f32 = 65520.0;

/// What the values of one tensor cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
    n: usize,
    /// Infinite or not a number in the checkpoint already.
    not_finite: usize,
    /// Finite in the checkpoint and infinite in the GGUF file.
    overflow: usize,
}

impl Range {
    /// Looks at the little-endian elements of `source`, which are written as `to`.
    pub(super) fn of(source: &[u8], from: Float, to: TensorType) -> Self {
        let half = to == TensorType::F16;
        let counts = source.par_chunks(CHUNK * from.n_bytes()).map(|chunk| match from {
            Float::F16 => count(chunk.as_chunks().0, |b| f64::from(f16::from_le_bytes(b).to_f32()), half),
            Float::BF16 => {
                let wide = |b| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16));
                count(chunk.as_chunks().0, wide, half)
            }
            Float::F32 => count(chunk.as_chunks().0, |b| f64::from(f32::from_le_bytes(b)), half),
            Float::F64 => count(chunk.as_chunks().0, f64::from_le_bytes, half),
        });
        counts.reduce(Self::default, |a, b| Self {
            n: a.n + b.n,
            not_finite: a.not_finite + b.not_finite,
            overflow: a.overflow + b.overflow,
        })
    }

    /// The remarks about tensor `name`, if there is anything to say.
    pub(super) fn notes(self, name: &str, to: TensorType) -> impl Iterator<Item = String> {
        let Self { n, not_finite, overflow } = self;
        let advice = if to == TensorType::F16 { "; use --outtype f32" } else { "" };
        let not_finite = (not_finite > 0).then(|| {
            format!("tensor {name}: {not_finite} of {n} values are infinite or not a number in the checkpoint")
        });
        let overflow = (overflow > 0).then(|| {
            format!("tensor {name}: {overflow} of {n} values are too large for {to} and become infinite{advice}")
        });
        not_finite.into_iter().chain(overflow)
    }
}

/// Counts over the elements of one chunk. The way to F16 goes through F32, as the conversion itself does.
fn count<const N: usize>(elements: &[[u8; N]], value: impl Fn([u8; N]) -> f64, half: bool) -> Range {
    let mut range = Range { n: elements.len(), ..Range::default() };
    for &element in elements {
        let value = value(element);
        let narrow = value as f32;
        if !value.is_finite() {
            range.not_finite += 1;
        } else if narrow.is_infinite() || (half && narrow.abs() >= F16_OVERFLOW) {
            range.overflow += 1;
        }
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], from: Float, to: TensorType) -> (usize, usize) {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|&value| match from {
                Float::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
                Float::BF16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
                Float::F32 => (value as f32).to_le_bytes().to_vec(),
                Float::F64 => value.to_le_bytes().to_vec(),
            })
            .collect();
        let range = Range::of(&bytes, from, to);
        assert_eq!(range.n, values.len());
        (range.not_finite, range.overflow)
    }

    #[test]
    fn counts_what_becomes_infinite_and_what_was() {
        let values = [1.0, -65519.0, 65520.0, -1e30, f64::NAN, f64::INFINITY];
        assert_eq!(of(&values, Float::F32, TensorType::F16), (2, 2));
        assert_eq!(of(&values, Float::F32, TensorType::F32), (2, 0));
        assert_eq!(of(&values, Float::F64, TensorType::F16), (2, 2));
        // A BF16 is 65536 where the F32 is 65519.
        assert_eq!(of(&values, Float::BF16, TensorType::F16), (2, 3));
        assert_eq!(of(&values, Float::F16, TensorType::F16), (4, 0));
        assert_eq!(of(&[1e39, 1e38, f64::NEG_INFINITY], Float::F64, TensorType::F32), (1, 1));
        // More than one task.
        assert_eq!(of(&vec![1e6; 3 * CHUNK + 1], Float::F32, TensorType::F16), (0, 3 * CHUNK + 1));
    }

    #[test]
    fn the_limit_is_the_one_of_the_conversion() {
        assert!(f16::from_f32(F16_OVERFLOW).is_infinite());
        assert!(f16::from_f32(F16_OVERFLOW.next_down()).is_finite());
    }
}
