//! Tensor data, piece by piece, from the source into the file.
//!
//! One thread reads, checks and converts the pieces, another writes them: what the disk or the system's cache takes to
//! give the one and to take the other passes at the same time.

use std::io::Write;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::range::Range;
use super::report::Stored;
use super::safetensors::Float;
use super::weight::Weight;
use super::{Progress, element};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{TensorInfo, TensorType, Writer};

/// Elements converted at a time: whole blocks of every type, and a buffer of a few megabytes.
pub(super) const PIECE: usize = 1 << 20;
/// Pieces that are ready and not written yet.
const N_AHEAD: usize = 2;

/// A piece of a tensor, ready to be written.
struct Ready<'a> {
    weight: Weight<'a>,
    /// Where it lies in the source's data, and its bytes there.
    at: usize,
    n_source: usize,
    /// The bytes for the file; `None` when they are the source's.
    converted: Option<Vec<u8>>,
}

impl Ready<'_> {
    fn bytes(&self) -> &[u8] {
        let same = || self.weight.data.get(self.at..).and_then(|rest| rest.get(..self.n_source));
        self.converted.as_deref().or_else(same).unwrap_or_default()
    }
}

/// Writes the file that `layout` describes. `weights` are its tensors in the same order. Returns the size and remarks on
/// the values.
pub(super) fn write<'a>(
    layout: &Writer,
    weights: impl Iterator<Item = Weight<'a>> + Send,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> Result<(u64, Vec<String>)> {
    let tensors = layout.tensors()?;
    let (mut done, total) = (0, layout.data_bytes());
    progress(done, total);
    thread::scope(|scope| {
        let (send, ready) = sync_channel(N_AHEAD);
        let (give_back, spare) = sync_channel(N_AHEAD + 1);
        let converter = scope.spawn(move || convert(&tensors, weights, &send, &spare));
        let written = layout.write(out, |tensor, out| {
            let mut left = tensor.n_bytes;
            while left > 0 {
                // The converter ends early only when it has an error to tell, which goes before this one.
                let Ok(piece) = ready.recv() else { return Err(Error::new(ErrorKind::Io, "the conversion stopped")) };
                let piece: Ready<'_> = piece;
                let n_bytes = piece.bytes().len() as u64;
                out.write_all(piece.bytes()).map_err(|e| Error::new(ErrorKind::Io, format!("cannot write: {e}")))?;
                piece.weight.release(piece.at, piece.n_source);
                // Without room for it, it is not needed any more.
                let _ = piece.converted.map(|buffer| give_back.try_send(buffer));
                left = left.saturating_sub(n_bytes);
                done += n_bytes;
                progress(done, total);
            }
            Ok(())
        });
        // A converter that still has pieces must not wait for a writer that failed.
        drop(ready);
        let notes = converter.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok((written?, notes))
    })
}

/// Makes the pieces of all tensors and sends them in order, until nobody takes them any more. Returns remarks on the
/// values.
fn convert<'a>(
    tensors: &[TensorInfo],
    weights: impl Iterator<Item = Weight<'a>>,
    send: &SyncSender<Ready<'a>>,
    spare: &Receiver<Vec<u8>>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (tensor, weight) in tensors.iter().zip(weights) {
        let mut range = Range::default();
        for (at, piece) in weight.pieces(PIECE) {
            weight.populate(at, piece.len());
            let found = Range::of(piece, weight.float, tensor.ty);
            check(found, &weight, tensor.ty)?;
            range = range.and(found);
            let buffer = spare.try_recv().unwrap_or_default();
            let converted = encode(piece, weight.float, tensor.ty, buffer).map_err(|e| weight.locate(e))?;
            if send.send(Ready { weight, at, n_source: piece.len(), converted }).is_err() {
                return Ok(notes);
            }
        }
        notes.extend(range.notes(weight.name, tensor.ty));
    }
    Ok(notes)
}

/// What [`write`] would refuse and remark, without writing.
pub(super) fn survey<'a>(layout: &Writer, weights: impl Iterator<Item = Weight<'a>>) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (tensor, weight) in layout.tensors()?.iter().zip(weights) {
        let mut range = Range::default();
        for (at, piece) in weight.pieces(PIECE) {
            weight.populate(at, piece.len());
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
    checked.map_err(|e| weight.locate(e))
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

/// The bytes of `data`, whole blocks of a weight, as `ty`, in `buffer`; `None` when they are the same.
fn encode(data: &[u8], float: Float, ty: TensorType, mut buffer: Vec<u8>) -> Result<Option<Vec<u8>>> {
    match (float, ty) {
        (Float::F32, TensorType::F32) | (Float::F16, TensorType::F16) => return Ok(None),
        (float, TensorType::F32) => element::to_f32(data, float, &mut buffer),
        (float, TensorType::F16) => element::to_f16(data, float, &mut buffer),
        (float, TensorType::Q8_0) => element::to_q8_0(data, float, &mut buffer),
        (_, other) => return Err(Error::new(ErrorKind::Unsupported, format!("cannot write {other}"))),
    }
    Ok(Some(buffer))
}
