//! Reading a written file back: every key is the one that was set, every value what its type's rule makes of the source.
//!
//! The rules are stated here a second time, as bounds on the values instead of as the steps that made them, so that a
//! mistake in those steps does not repeat itself: an F32 is the source, an F16 is the nearest one (of two equally near the
//! even one), and a Q8_0 element is within half a step of the source, the step being the nearest F16 to a 127th of the
//! block's largest magnitude.

use std::path::Path;

use half::f16;
use rayon::prelude::*;

use super::compare::same;
use super::element;
use super::quant;
use super::report::{Loss, Stored};
use super::stream;
use super::weight::Weight;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{File, TensorType, Writer};
use crate::layout;
use crate::safetensors::Float;
use crate::tokenizer::Tokenizer;

/// Elements compared at a time: whole blocks, and what is read for them stays in a core's own cache.
const CHUNK: usize = 1 << 16;
/// Half a step of Q8_0, and what rounding the products that find it can add.
const HALF_STEP: f64 = 0.5 + 1e-4;

/// Compares the file at `path` with what it was made from; fills in the loss of every tensor.
///
/// # Errors
/// What differs first: key or tensor, with the element.
pub(super) fn check<'a>(
    path: &Path,
    layout: &Writer,
    weights: impl Iterator<Item = Weight<'a>>,
    stored: &mut [Stored],
) -> Result<()> {
    let file = File::open(path).map_err(|e| failed(format!("cannot be read back: {}", e.message())))?;
    let wrong = layout.keys().zip(file.keys()).find(|((a, set), (b, read))| a != b || !same(set, read));
    if let Some(((key, _), _)) = wrong {
        return Err(failed("is not what was set when it is read back").at_key(key));
    }
    if layout.keys().len() != file.keys().len() {
        return Err(failed(format!("{} keys were set and {} read back", layout.keys().len(), file.keys().len())));
    }
    if layout.tensors()? != file.tensors() {
        return Err(failed("the tensors read back are not those that were laid out"));
    }
    for ((tensor, weight), stored) in file.tensors().iter().zip(weights).zip(stored) {
        let unit = CHUNK / usize::try_from(tensor.ty.block_len()).unwrap_or(1)
            * usize::try_from(tensor.ty.block_bytes()).unwrap_or(1);
        let (start, n_bytes) = (file.tensor_start(tensor), usize::try_from(tensor.n_bytes));
        let (Some(start), Ok(n_bytes)) = (start, n_bytes) else {
            return Err(failed("a tensor read back is too large"));
        };
        let chunks: Vec<_> = weight.pieces(CHUNK).zip((0..n_bytes).step_by(unit)).enumerate().collect();
        // In order, so that the first wrong element is the one named.
        let found: Vec<_> = chunks
            .into_par_iter()
            .map_init(<[Vec<u8>; 2]>::default, |[source, written], (i, (place, at))| {
                weight.read(place, source).map_err(Wrong::Unread)?;
                let read = file.map().read(start + at, unit.min(n_bytes - at), written);
                read.map_err(|e| Wrong::Unread(failed(format!("cannot be read back: {e}"))))?;
                chunk(source, weight.float, written, tensor.ty).map_err(|wrong| Wrong::Element(i * CHUNK + wrong))
            })
            .collect();
        let mut sums = Sums::default();
        for found in found {
            sums = sums.and(found.map_err(|wrong| {
                let i = match wrong {
                    Wrong::Unread(error) => return error,
                    Wrong::Element(i) => i,
                };
                let (i, row) = (i as u64, tensor.shape.first().copied().unwrap_or(1).max(1));
                let (row, column) = (i / row, i % row);
                let message =
                    format!("the value written at row {row}, column {column} is not the source's as {}", tensor.ty);
                failed(message).at_tensor(&tensor.name)
            })?);
        }
        stored.error = Some(sums.loss());
    }
    Ok(())
}

/// The tokenizer of the file that `layout` describes, made from the vocabulary in `source`. That the file holds what was
/// laid out is for [`check`] to say, so this can be asked before there is one.
///
/// # Errors
/// The vocabulary is none: what the format makes of it cannot be used.
pub(super) fn tokenizer(layout: &Writer, source: &Path) -> Result<Tokenizer> {
    let file = layout.without_data()?;
    layout::read(&file).and_then(|view| Tokenizer::from_gguf(view.file())).map_err(|error| {
        let place = error.place().map_or_else(String::new, |place| format!("{place}: "));
        let message = format!(
            "no tokenizer can be built from what the format makes of this vocabulary: {place}{}; a conversion that is not \
             verified writes the file all the same",
            error.message()
        );
        Error::new(ErrorKind::Tokenizer, message).in_file(source)
    })
}

/// An error about a file that is not what it should be.
pub(super) fn failed(message: impl Into<String>) -> Error {
    let message = format!("{}; nothing was kept. The disk or the memory may be failing", message.into());
    Error::new(ErrorKind::Io, message)
}

/// What the differences of some values add up to.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    max_abs: f64,
    squared_error: f64,
    squared: f64,
    n_lost: u64,
}

impl Sums {
    fn and(self, other: Self) -> Self {
        Self {
            max_abs: self.max_abs.max(other.max_abs),
            squared_error: self.squared_error + other.squared_error,
            squared: self.squared + other.squared,
            n_lost: self.n_lost + other.n_lost,
        }
    }

    fn add(&mut self, source: f64, stored: f64) {
        let error = (source - stored).abs();
        if error.is_finite() {
            self.max_abs = self.max_abs.max(error);
            self.squared_error += error * error;
            self.squared += source * source;
        } else if source.is_finite() {
            self.n_lost += 1;
        }
    }

    fn loss(self) -> Loss {
        let relative = if self.squared > 0.0 { (self.squared_error / self.squared).sqrt() } else { 0.0 };
        Loss { max_abs: self.max_abs, relative, n_lost: self.n_lost }
    }
}

/// What is wrong with a stretch of a tensor.
enum Wrong {
    Unread(Error),
    /// The first element that breaks its rule.
    Element(usize),
}

/// Compares a stretch of a tensor; the error is the first element that breaks the rule.
fn chunk(source: &[u8], float: Float, written: &[u8], ty: TensorType) -> Result<Sums, usize> {
    if stream::same(float, ty) {
        if source == written {
            return Ok(Sums::default());
        }
        let n_bytes = float.n_bytes();
        let wrong = source.chunks(n_bytes).zip(written.chunks(n_bytes)).position(|(a, b)| a != b);
        return Err(wrong.unwrap_or(source.len().min(written.len()) / n_bytes));
    }
    let values = element::widened(source, float);
    match ty {
        TensorType::F32 => f32s(&values, written),
        TensorType::F16 => f16s(&values, written),
        TensorType::Q8_0 => blocks(&values, written),
        _ => Err(0),
    }
}

fn f32s(values: &[f32], written: &[u8]) -> Result<Sums, usize> {
    let mut sums = Sums::default();
    for (i, (&value, &bytes)) in values.iter().zip(written.as_chunks().0).enumerate() {
        let found = f32::from_le_bytes(bytes);
        let same = found.to_bits() == value.to_bits() || (found.is_nan() && value.is_nan());
        if !same {
            return Err(i);
        }
        sums.add(f64::from(value), f64::from(found));
    }
    Ok(sums)
}

fn f16s(values: &[f32], written: &[u8]) -> Result<Sums, usize> {
    let mut sums = Sums::default();
    for (i, (&value, &bytes)) in values.iter().zip(written.as_chunks().0).enumerate() {
        let found = f16::from_le_bytes(bytes);
        if !is_nearest(value, found) {
            return Err(i);
        }
        sums.add(f64::from(value), f64::from(found.to_f32()));
    }
    Ok(sums)
}

/// Whether `found` is the F16 nearest to `value`, ties to even.
fn is_nearest(value: f32, found: f16) -> bool {
    if value.is_nan() || found.is_nan() {
        return value.is_nan() && found.is_nan();
    }
    if value.is_sign_negative() != found.is_sign_negative() {
        return false;
    }
    // Beyond the midpoint between the largest and what would follow it lies infinity.
    if value.abs() >= 65520.0 || found.is_infinite() {
        return value.abs() >= 65520.0 && found.is_infinite();
    }
    // The distance of neighbours around `value`: 2^-10 of its power of two, and 2^-24 for the subnormals.
    let exponent = (value.to_bits() >> 23 & 0xff) as i32 - 127;
    let half_ulp = 2f64.powi(exponent.max(-14) - 11);
    let error = (f64::from(value) - f64::from(found.to_f32())).abs();
    error < half_ulp || (error == half_ulp && found.to_bits() & 1 == 0)
}

fn blocks(values: &[f32], written: &[u8]) -> Result<Sums, usize> {
    let mut sums = Sums::default();
    let (values, _) = values.as_chunks::<{ quant::BLOCK }>();
    for (i, (values, bytes)) in values.iter().zip(written.as_chunks::<{ quant::BYTES }>().0).enumerate() {
        let [low, high, quants @ ..] = bytes;
        let scale = f16::from_le_bytes([*low, *high]);
        let most = values.iter().fold(0f32, |most, value| most.max(value.abs()));
        let exact = most / quant::MOST;
        if !is_nearest(exact, scale) {
            return Err(i * quant::BLOCK);
        }
        let step = f64::from(exact);
        // Without a finite inverse the elements are zeros, and so is the scale.
        let lost = !(1.0 / exact).is_finite();
        for (j, (&value, &quant)) in values.iter().zip(quants).enumerate() {
            let (value, quant) = (f64::from(value), f64::from(quant.cast_signed()));
            let near = if lost { quant == 0.0 } else { (value - quant * step).abs() <= HALF_STEP * step };
            if !near {
                return Err(i * quant::BLOCK + j);
            }
            sums.add(value, quant * f64::from(scale.to_f32()));
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_what_narrowing_gives() {
        // Around every F16: itself, the midpoints to its neighbours, and the next floats on either side of those.
        for bits in 0..0x7c00u16 {
            let here = f16::from_bits(bits).to_f32();
            let next = if bits == 0x7bff { 65536.0 } else { f16::from_bits(bits + 1).to_f32() };
            let middle = here.midpoint(next);
            for value in [here, here.next_up(), middle.next_down(), middle, middle.next_up(), next.next_down()] {
                for value in [value, -value] {
                    let narrow = f16::from_bits(element::narrow(value));
                    assert!(is_nearest(value, narrow), "{value:e}");
                    let others = [narrow.to_bits().wrapping_add(1), narrow.to_bits().wrapping_sub(1)];
                    for other in others {
                        assert!(!is_nearest(value, f16::from_bits(other)), "{value:e} {other:04x}");
                    }
                    assert!(!is_nearest(value, -narrow), "{value:e}");
                }
            }
        }
        for value in [f32::INFINITY, 65520.0, 1e30] {
            assert!(is_nearest(value, f16::INFINITY) && !is_nearest(value, f16::MAX) && !is_nearest(value, f16::NAN));
        }
        assert!(is_nearest(f32::NAN, f16::NAN) && !is_nearest(f32::NAN, f16::INFINITY));
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn every_written_type_passes_and_one_changed_byte_does_not() {
        let n = CHUNK + 96;
        let values: Vec<f32> = (0..n).map(|i| ((i * 2_654_435_761) as u32 as f32 / 4e9 - 0.5) * 0.1).collect();
        let source = bytes(&values);
        let mut out = Vec::new();
        for (ty, last) in [(TensorType::F32, n - 1), (TensorType::F16, n - 1), (TensorType::Q8_0, n - 1)] {
            match ty {
                TensorType::F32 => element::to_f32(&source, Float::F32, &mut out),
                TensorType::F16 => element::to_f16(&source, Float::F32, &mut out),
                _ => element::to_q8_0(&source, Float::F32, &mut out),
            }
            let loss = chunk(&source, Float::F32, &out, ty).unwrap().loss();
            match ty {
                TensorType::F32 => assert_eq!(loss, Loss::default()),
                TensorType::F16 => {
                    assert!(loss.max_abs > 0.0 && loss.max_abs < 3.1e-5 && loss.relative < 5e-4, "{loss:?}")
                }
                _ => assert!(loss.max_abs > 1e-4 && loss.max_abs < 3e-4 && loss.relative < 0.01, "{loss:?}"),
            }
            // The last element's last byte: its sign, or for Q8_0 two steps.
            *out.last_mut().unwrap() ^= if ty == TensorType::Q8_0 { 2 } else { 0x80 };
            assert_eq!(chunk(&source, Float::F32, &out, ty).unwrap_err(), last, "{ty}");
        }
        // One more step in the scale of the second block.
        element::to_q8_0(&source, Float::F32, &mut out);
        out[quant::BYTES] ^= 1;
        assert_eq!(chunk(&source, Float::F32, &out, TensorType::Q8_0).unwrap_err(), quant::BLOCK);
    }

    #[test]
    fn blocks_at_the_edges_pass() {
        let mut out = Vec::new();
        for most in
            [0.0, f32::MIN_POSITIVE, 1e-40, 127.0 * 2f32.powi(-128), 127.0 * 2f32.powi(-25), 8.3e6, 1e9, f32::MAX]
        {
            let mut values = [0f32; quant::BLOCK];
            values[3] = -most;
            values[4] = most / 3.0;
            let source = bytes(&values);
            element::to_q8_0(&source, Float::F32, &mut out);
            assert!(chunk(&source, Float::F32, &out, TensorType::Q8_0).is_ok(), "{most:e}");
        }
    }
}
