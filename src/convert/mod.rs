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
mod outtype;
mod quant;
mod range;
mod safetensors;
mod source;
mod special;
pub mod synth;
mod upstream;
pub mod vocabulary;

pub use outtype::Outtype;
pub use vocabulary::{Vocabulary, vocabulary_gguf};

use checkpoint::Checkpoint;
use metadata::Metadata;
use range::Range;
use safetensors::Float;

/// Elements converted at a time: whole blocks of every type, and a buffer of a few megabytes.
const PIECE: usize = 1 << 21;

/// What a conversion is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// How matrices are stored.
    pub outtype: Outtype,
    /// Replaces `general.name`.
    pub model_name: Option<String>,
    /// The names of keys and tensors.
    pub layout: Layout,
    /// Read a written file back and compare it with the checkpoint before it gets its name.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { outtype: Outtype::default(), model_name: None, layout: Layout::default(), verify: true }
    }
}

/// The names of keys and tensors in a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// `general.architecture = laya`: everything the published package computes.
    #[default]
    Laya,
    /// `general.architecture = modern-bert`: what llama.cpp runs. It has no act head.
    ModernBert,
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
        let mut checkpoint = Checkpoint::open(dir)?;
        if options.layout == Layout::ModernBert {
            upstream::adopt(&mut checkpoint)?;
        }
        let n_params = checkpoint.weights().fold(0u64, |sum, w| sum.saturating_add(w.shape.iter().product()));
        let metadata = Metadata::read(&checkpoint.dir, options.model_name.as_deref(), n_params)?;
        let layout = layout(&checkpoint, &metadata, options)?;
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
fn layout(checkpoint: &Checkpoint, metadata: &Metadata, options: &Options) -> Result<Writer> {
    let mut out = Writer::new();
    match options.layout {
        Layout::Laya => keys(&mut out, metadata, checkpoint, options.outtype),
        Layout::ModernBert => upstream::keys(&mut out, metadata, checkpoint, options.outtype)?,
    }
    for weight in checkpoint.weights() {
        let shape: Vec<u64> = weight.shape.iter().rev().copied().collect();
        let ty = match options.layout {
            Layout::Laya => options.outtype.tensor_type(weight.name, &shape),
            Layout::ModernBert => upstream::tensor_type(options.outtype, weight.name, &shape),
        };
        out.add_tensor(weight.name, &shape, ty)?;
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
    if let Some(recipe) = outtype.recipe() {
        out.set(outtype::RECIPE_KEY, recipe);
    }
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
