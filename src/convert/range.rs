//! Values that have no finite counterpart in the GGUF file: found and counted, so that they can be said.

use super::quant;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::TensorType;
use crate::safetensors::Float;

/// Elements one task looks at.
const CHUNK: usize = 1 << 16;
/// The smallest magnitude that rounds to infinity as F16: halfway from 65504 to 2^16.
const F16_OVERFLOW: f32 = 65520.0;
/// The smallest magnitude whose block of Q8_0 has an infinite scale.
const Q8_0_OVERFLOW: f32 = F16_OVERFLOW * quant::MOST;

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
        let limit = match to {
            TensorType::F16 => F16_OVERFLOW,
            TensorType::Q8_0 => Q8_0_OVERFLOW,
            _ => f32::INFINITY,
        };
        // One thread is as fast as memory is, and waking others for a piece takes as long as the piece.
        let counts = source.chunks(CHUNK * from.n_bytes()).map(|chunk| match from {
            Float::F16 => halves(chunk.as_chunks().0),
            Float::BF16 => floats(chunk.as_chunks().0, |b| u32::from(u16::from_le_bytes(b)) << 16, limit),
            Float::F32 => floats(chunk.as_chunks().0, u32::from_le_bytes, limit),
            Float::F64 => doubles(chunk.as_chunks().0, limit),
        });
        counts.fold(Self::default(), Self::and)
    }

    /// The counts of two stretches of values together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            n: self.n + other.n,
            not_finite: self.not_finite + other.not_finite,
            overflow: self.overflow + other.overflow,
        }
    }

    /// Refuses what the type `to` has no form for: one infinity makes zeros of all its neighbours in a Q8_0 block, and
    /// what a not-a-number is rounded to depends on the processor.
    ///
    /// # Errors
    /// [`ErrorKind::Checkpoint`] when values are not finite in the checkpoint and `to` is Q8_0.
    pub(super) fn check(self, to: TensorType) -> Result<()> {
        let Self { n, not_finite, .. } = self;
        if to == TensorType::Q8_0 && not_finite > 0 {
            let message = format!(
                "{not_finite} of {n} values are infinite or not a number, which {to} cannot hold; store it as f16"
            );
            return Err(Error::new(ErrorKind::Checkpoint, message));
        }
        Ok(())
    }

    /// The remarks about tensor `name`, if there is anything to say.
    pub(super) fn notes(self, name: &str, to: TensorType) -> impl Iterator<Item = String> {
        let Self { n, not_finite, overflow } = self;
        let then = match to {
            TensorType::F16 => "become infinite; store it as f32",
            TensorType::Q8_0 => "make their blocks infinite; store it as f32",
            _ => "become infinite",
        };
        let not_finite = (not_finite > 0)
            .then(|| format!("tensor {name}: {not_finite} of {n} values are infinite or not a number in the source"));
        let overflow = (overflow > 0)
            .then(|| format!("tensor {name}: {overflow} of {n} values are too large for {to} and {then}"));
        not_finite.into_iter().chain(overflow)
    }
}

/// Counts over F16 elements, none of which is too large for any type: the largest is 65504.
fn halves(elements: &[[u8; 2]]) -> Range {
    const INFINITE: u16 = 0x7c00;
    // Counters as narrow as the elements let a compiler look at as many at a time as fit a register.
    let in_run =
        |run: &[[u8; 2]]| -> u16 { run.iter().map(|&b| u16::from(u16::from_le_bytes(b) & INFINITE == INFINITE)).sum() };
    let counts = elements.chunks(usize::from(u16::MAX)).map(|run| usize::from(in_run(run)));
    Range { n: elements.len(), not_finite: counts.sum(), overflow: 0 }
}

/// Counts over elements that are 32-bit floats or widen to them, given as their bits: magnitudes are ordered as integers.
fn floats<const N: usize>(elements: &[[u8; N]], bits: impl Fn([u8; N]) -> u32, limit: f32) -> Range {
    const INFINITE: u32 = f32::INFINITY.to_bits();
    let limit = limit.to_bits();
    let (mut not_finite, mut at_least) = (0u32, 0u32);
    for &element in elements {
        let magnitude = bits(element) & !(1 << 31);
        not_finite += u32::from(magnitude >= INFINITE);
        at_least += u32::from(magnitude >= limit);
    }
    Range { n: elements.len(), not_finite: not_finite as usize, overflow: (at_least - not_finite) as usize }
}

/// Counts over F64 elements. Their way to every type goes through F32, as the conversion itself does.
fn doubles(elements: &[[u8; 8]], limit: f32) -> Range {
    let mut range = Range { n: elements.len(), ..Range::default() };
    for &element in elements {
        let value = f64::from_le_bytes(element);
        if !value.is_finite() {
            range.not_finite += 1;
        } else if (value as f32).abs() >= limit {
            range.overflow += 1;
        }
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

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
        assert_eq!(of(&[8e6, -8_321_040.0, 1e39, f64::NAN], Float::F64, TensorType::Q8_0), (1, 2));
        for (to, refuses) in [(TensorType::F32, false), (TensorType::F16, false), (TensorType::Q8_0, true)] {
            let source = f32::NAN.to_le_bytes();
            assert_eq!(Range::of(&source, Float::F32, to).check(to).is_err(), refuses, "{to}");
        }
        // More than one chunk.
        assert_eq!(of(&vec![1e6; 3 * CHUNK + 1], Float::F32, TensorType::F16), (0, 3 * CHUNK + 1));
    }

    #[test]
    fn the_limit_is_the_one_of_the_conversion() {
        assert!(f16::from_f32(F16_OVERFLOW).is_infinite());
        assert!(f16::from_f32(F16_OVERFLOW.next_down()).is_finite());
        let scale = |most: f32| {
            let (mut values, mut block) = ([0.0; quant::BLOCK], [0; quant::BYTES]);
            values[7] = most;
            quant::store(&values, &mut block);
            f16::from_le_bytes([block[0], block[1]])
        };
        assert!(scale(Q8_0_OVERFLOW).is_infinite() && scale(-Q8_0_OVERFLOW).is_infinite());
        assert!(scale(Q8_0_OVERFLOW.next_down()).is_finite());
    }
}
