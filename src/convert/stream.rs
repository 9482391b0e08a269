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
use super::weight::Weight;
use super::{Progress, element};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{TensorInfo, TensorType, Writer};
use crate::safetensors::Float;

/// Elements converted at a time: whole blocks of every type, and a buffer of a few megabytes.
const PIECE: usize = 1 << 20;
/// Pieces that are ready and not written yet.
const N_AHEAD: usize = 2;

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
                let piece: Vec<u8> = piece;
                let n_bytes = piece.len() as u64;
                out.write_all(&piece).map_err(|e| Error::new(ErrorKind::Io, format!("cannot write: {e}")))?;
                // Without room for it, it is not needed any more.
                let _ = give_back.try_send(piece);
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
    send: &SyncSender<Vec<u8>>,
    spare: &Receiver<Vec<u8>>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut source = Vec::new();
    for (tensor, weight) in tensors.iter().zip(weights) {
        let mut range = Range::default();
        for piece in weight.pieces(PIECE) {
            weight.read(piece, &mut source)?;
            let found = Range::of(&source, weight.float, tensor.ty);
            check(found, &weight, tensor.ty)?;
            range = range.and(found);
            let mut buffer = spare.try_recv().unwrap_or_default();
            if same(weight.float, tensor.ty) {
                std::mem::swap(&mut source, &mut buffer);
            } else {
                encode(&source, weight.float, tensor.ty, &mut buffer).map_err(|e| weight.locate(e))?;
            }
            if send.send(buffer).is_err() {
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
    let mut source = Vec::new();
    for (tensor, weight) in layout.tensors()?.iter().zip(weights) {
        let mut range = Range::default();
        for piece in weight.pieces(PIECE) {
            weight.read(piece, &mut source)?;
            range = range.and(Range::of(&source, weight.float, tensor.ty));
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

/// Whether elements of a weight are stored as they are.
pub(super) fn same(float: Float, ty: TensorType) -> bool {
    matches!((float, ty), (Float::F32, TensorType::F32) | (Float::F16, TensorType::F16))
}

/// Puts the bytes of `data`, whole blocks of a weight, as `ty` into `out`.
fn encode(data: &[u8], float: Float, ty: TensorType, out: &mut Vec<u8>) -> Result<()> {
    match ty {
        TensorType::F32 => element::to_f32(data, float, out),
        TensorType::F16 => element::to_f16(data, float, out),
        TensorType::Q8_0 => element::to_q8_0(data, float, out),
        other => return Err(Error::new(ErrorKind::Unsupported, format!("cannot write {other}"))),
    }
    Ok(())
}
