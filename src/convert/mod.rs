//! From a checkpoint directory to a GGUF file.
//!
//! ```text
//! rl_agent_config.json  encoder/config.json   README.md, directory name   tokenizer/      *.safetensors
//!          \                 /                        |                       |                 |
//!           hyperparameters                       metadata               vocabulary      header, tensors
//!                    \________________________________|_______________________|________________/
//!                                             keys in order, then tensor data, streamed
//! ```
//!
//! The bytes are those the field's Python converter writes for the same directory. Weights are read from a mapping and
//! written tensor by tensor, so a conversion needs little memory whatever the model's size. What would convert but not
//! compute as the published package does is refused with the file and the key at fault.

use std::io::Write;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{TensorType, Writer, write_atomic};

mod added;
mod card;
mod checkpoint;
mod config;
mod element;
mod hyper;
mod metadata;
mod naming;
mod quant;
mod range;
mod safetensors;
mod source;
mod special;
pub mod synth;
mod template;
pub mod vocabulary;
mod yaml;

pub use vocabulary::{Vocabulary, vocabulary_gguf};

use checkpoint::Checkpoint;
use metadata::Metadata;
use range::Range;
use safetensors::Float;

/// Elements converted at a time: whole blocks of every type, and a buffer of a few megabytes.
const PIECE: usize = 1 << 21;

/// How matrices are stored. Vectors and norms are always F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outtype {
    /// 32-bit floats.
    F32,
    /// 16-bit floats: exact for the published checkpoints, which are stored in F16.
    #[default]
    F16,
    /// 8-bit integers, 32 neighbours of a row sharing one 16-bit scale. A matrix whose rows are not whole blocks of 32 is
    /// F16.
    Q8_0,
}

impl Outtype {
    /// All types, in the order they are listed to people.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Q8_0];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
        }
    }

    /// `general.file_type`.
    fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8_0 => 7,
        }
    }

    /// The type of the tensor `name` with PyTorch's `shape`: vectors, norms and everything that is no weight stay F32.
    fn tensor_type(self, name: &str, shape: &[u64]) -> TensorType {
        if shape.len() <= 1 || name.ends_with("_norm.weight") || !name.ends_with(".weight") {
            return TensorType::F32;
        }
        match self {
            Self::F32 => TensorType::F32,
            Self::F16 => TensorType::F16,
            Self::Q8_0 => {
                let whole = shape.last().is_some_and(|n| n.is_multiple_of(TensorType::Q8_0.block_len()));
                if whole { TensorType::Q8_0 } else { TensorType::F16 }
            }
        }
    }
}

impl std::str::FromStr for Outtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|outtype| outtype.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Usage, format!("unknown output type {text:?}; one of {all}"))
        })
    }
}

/// What a conversion is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How matrices are stored.
    pub outtype: Outtype,
    /// Replaces `general.name`.
    pub model_name: Option<String>,
}

/// What a conversion did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Size of the file.
    pub n_bytes: u64,
    /// Number of tensors.
    pub n_tensors: usize,
    /// Number of parameters.
    pub n_params: u64,
    /// Remarks for people, one line each.
    pub notes: Vec<String>,
}

/// Called with the tensor bytes written so far and in all.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Converts the checkpoint in `dir` to the GGUF file `out`, which appears whole or not at all.
///
/// # Errors
/// [`ErrorKind::Usage`] when `out` is a file of the checkpoint; [`ErrorKind::Checkpoint`] (or [`ErrorKind::Json`]) when the directory is not a complete checkpoint of this family,
/// naming the file, key or tensor; [`ErrorKind::Io`] when a file cannot be read or written.
pub fn convert(dir: &Path, out: &Path, options: &Options) -> Result<Report> {
    convert_with_progress(dir, out, options, &mut |_, _| {})
}

/// [`convert`] that reports its progress.
///
/// # Errors
/// As [`convert`].
pub fn convert_with_progress(dir: &Path, out: &Path, options: &Options, progress: &mut Progress<'_>) -> Result<Report> {
    let job = Job::new(dir, options)?;
    if job.checkpoint.reads(out) {
        return Err(overwrites(out));
    }
    let (n_bytes, notes) = write_atomic(out, |file| job.write(file, progress))?;
    Ok(job.report(n_bytes, notes))
}

/// Converts the checkpoint in `dir` into `out`, for callers that want the bytes elsewhere than in a file.
///
/// # Errors
/// As [`convert`].
pub fn convert_to(dir: &Path, out: &mut dyn Write, options: &Options, progress: &mut Progress<'_>) -> Result<Report> {
    let job = Job::new(dir, options)?;
    let (n_bytes, notes) = job.write(out, progress)?;
    Ok(job.report(n_bytes, notes))
}

fn overwrites(out: &Path) -> Error {
    let message = "is a file the conversion reads; writing it would destroy it, name another output";
    Error::new(ErrorKind::Usage, message).in_file(out)
}

/// A conversion that only the values of the weights can stop: everything else is read and checked, nothing is written.
struct Job {
    checkpoint: Checkpoint,
    layout: Writer,
    n_params: u64,
}

impl Job {
    fn new(dir: &Path, options: &Options) -> Result<Self> {
        let checkpoint = Checkpoint::open(dir)?;
        let n_params = checkpoint.weights().fold(0u64, |sum, w| sum.saturating_add(w.shape.iter().product()));
        let metadata = Metadata::read(&checkpoint.dir, options.model_name.as_deref(), n_params)?;
        let layout = layout(&checkpoint, &metadata, options.outtype)?;
        Ok(Self { checkpoint, layout, n_params })
    }

    /// Returns the size of the file and remarks on its values.
    fn write(&self, out: &mut dyn Write, progress: &mut Progress<'_>) -> Result<(u64, Vec<String>)> {
        let mut notes = Vec::new();
        let (mut done, total) = (0, self.layout.data_bytes());
        let mut weights = self.checkpoint.weights();
        let mut buffer = Vec::new();
        progress(done, total);
        let n_bytes = self.layout.write(out, |tensor, out| {
            // The layout has the weights in this order, and the writer checks that each got its bytes.
            let Some(weight) = weights.next() else { return Ok(()) };
            let range = Range::of(weight.data, weight.float, tensor.ty);
            range.check(tensor.ty).map_err(|e| e.at_tensor(weight.name))?;
            notes.extend(range.notes(weight.name, tensor.ty));
            for piece in weight.data.chunks(PIECE * weight.float.n_bytes()) {
                let bytes =
                    encode(piece, weight.float, tensor.ty, &mut buffer).map_err(|e| e.at_tensor(weight.name))?;
                out.write_all(bytes).map_err(|e| Error::new(ErrorKind::Io, format!("cannot write: {e}")))?;
                done += bytes.len() as u64;
                progress(done, total);
            }
            Ok(())
        })?;
        Ok((n_bytes, notes))
    }

    fn report(self, n_bytes: u64, on_values: Vec<String>) -> Report {
        let n_tensors = self.checkpoint.weights().count();
        let mut notes = self.checkpoint.notes;
        notes.extend(on_values);
        Report { n_bytes, n_tensors, n_params: self.n_params, notes }
    }
}

/// Keys and tensor infos of the file.
fn layout(checkpoint: &Checkpoint, metadata: &Metadata, outtype: Outtype) -> Result<Writer> {
    let mut out = Writer::new();
    keys(&mut out, metadata, checkpoint, outtype);
    for weight in checkpoint.weights() {
        let shape: Vec<u64> = weight.shape.iter().rev().copied().collect();
        out.add_tensor(weight.name, &shape, outtype.tensor_type(weight.name, weight.shape))?;
    }
    Ok(out)
}

fn keys(out: &mut Writer, metadata: &Metadata, checkpoint: &Checkpoint, outtype: Outtype) {
    out.set("general.architecture", "laya");
    out.set("general.type", "model");
    metadata.set(out);
    checkpoint.hyper.set(out, outtype.file_type());
    out.set("general.quantization_version", 2u32);
    checkpoint.vocabulary.set(out);
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
