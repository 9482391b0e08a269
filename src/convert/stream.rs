//! Tensor data, piece by piece, from the source into the file.

use std::io::Write;

use super::range::Range;
use super::report::Stored;
use super::safetensors::Float;
use super::weight::Weight;
use super::{Progress, element};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{TensorType, Writer};

/// Elements converted at a time: whole blocks of every type, and a buffer of a few megabytes.
pub(super) const PIECE: usize = 1 << 20;

/// Writes the file that `layout` describes. `weights` are its tensors in the same order. Returns the size and remarks on
/// the values.
pub(super) fn write<'a>(
    layout: &Writer,
    mut weights: impl Iterator<Item = Weight<'a>>,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> Result<(u64, Vec<String>)> {
    let mut notes = Vec::new();
    let (mut done, total) = (0, layout.data_bytes());
    let mut buffer = Vec::new();
    progress(done, total);
    let n_bytes = layout.write(out, |tensor, out| {
        // The layout has the weights in this order, and the writer checks that each got its bytes.
        let Some(weight) = weights.next() else { return Ok(()) };
        let mut range = Range::default();
        for (at, piece) in weight.pieces(PIECE) {
            let found = Range::of(piece, weight.float, tensor.ty);
            check(found, &weight, tensor.ty)?;
            range = range.and(found);
            let bytes = encode(piece, weight.float, tensor.ty, &mut buffer).map_err(|e| e.at_tensor(weight.name))?;
            out.write_all(bytes).map_err(|e| Error::new(ErrorKind::Io, format!("cannot write: {e}")))?;
            weight.release(at, piece.len());
            done += bytes.len() as u64;
            progress(done, total);
        }
        notes.extend(range.notes(weight.name, tensor.ty));
        Ok(())
    })?;
    Ok((n_bytes, notes))
}

/// What [`write`] would refuse and remark, without writing.
pub(super) fn survey<'a>(layout: &Writer, weights: impl Iterator<Item = Weight<'a>>) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (tensor, weight) in layout.tensors()?.iter().zip(weights) {
        let mut range = Range::default();
        for (at, piece) in weight.pieces(PIECE) {
            range = range.and(Range::of(piece, weight.float, tensor.ty));
            weight.release(at, piece.len());
        }
        check(range, &weight, tensor.ty)?;
        notes.extend(range.notes(weight.name, tensor.ty));
    }
    Ok(notes)
}

/// Refuses `weight` for what `range` found in a part of it; the message counts in all of it.
fn check(range: Range, weight: &Weight<'_>, ty: TensorType) -> Result<()> {
    let checked = range.check(ty).or_else(|_| Range::of(weight.data, weight.float, ty).check(ty));
    checked.map_err(|e| e.at_tensor(weight.name))
}

/// The tensors of the file, each with its type in the source.
pub(super) fn stored<'a>(layout: &Writer, weights: impl Iterator<Item = Weight<'a>>) -> Result<Vec<Stored>> {
    let pairs = layout.tensors()?.into_iter().zip(weights);
    Ok(pairs
        .map(|(tensor, weight)| Stored {
            name: tensor.name,
            shape: tensor.shape,
            from: weight.float.name(),
            to: tensor.ty,
            n_bytes: tensor.n_bytes,
            error: None,
        })
        .collect())
}

/// The bytes of `data`, whole blocks of a weight, as `ty`.
fn encode<'a>(data: &'a [u8], float: Float, ty: TensorType, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    match (float, ty) {
        (Float::F32, TensorType::F32) | (Float::F16, TensorType::F16) => return Ok(data),
        (float, TensorType::F32) => element::to_f32(data, float, buffer),
        (float, TensorType::F16) => element::to_f16(data, float, buffer),
        (float, TensorType::Q8_0) => element::to_q8_0(data, float, buffer),
        (_, other) => return Err(Error::new(ErrorKind::Unsupported, format!("cannot write {other}"))),
    }
    Ok(buffer)
}
