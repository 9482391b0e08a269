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
//! The bytes are those the field's Python converter writes for the same directory. Weights pass through in pieces, so a
//! conversion needs little memory whatever the model's size. What would convert but not compute as the published package
//! does is refused with the file and the key at fault.
//!
//! * A written file is read back before it gets its name: [`Options::verify`].
//! * [`quantize`] makes a smaller file of one of floats, [`compare`] says where two files differ first.
//! * [`cache`] keeps what checkpoints named as models were converted to.
//! * [`synth`] makes checkpoints with random weights.

use std::io::Write;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{Writer, check_destination, write_atomic_checked};

mod added;
pub mod cache;
mod card;
mod checkpoint;
mod compare;
mod config;
mod element;
mod hyper;
mod metadata;
mod naming;
mod outtype;
mod probe;
mod proof;
mod quant;
mod quantize;
mod range;
mod report;
mod source;
mod special;
mod stream;
pub mod synth;
mod template;
#[cfg(test)]
mod tests;
mod upstream;
pub mod vocabulary;
mod weight;
mod witness;
mod yaml;

pub use compare::{Difference, check_reference, compare};
pub use outtype::{Layout, Outtype};
pub use quantize::{plan_quantize, quantize};
pub use report::{Loss, Proof, Report, Stored};
pub use vocabulary::{Vocabulary, vocabulary_gguf};

use checkpoint::Checkpoint;
use metadata::Metadata;

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

/// Called with the tensor bytes written so far and in all.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Converts the checkpoint in `dir` to the GGUF file `out`, which appears whole or not at all.
///
/// With [`Options::verify`] the file is read back before it gets its name: keys, tensors and tokenizer must be what the
/// checkpoint has.
///
/// # Errors
/// [`ErrorKind::Usage`] when `out` is a file of the checkpoint; [`ErrorKind::Checkpoint`] (or [`ErrorKind::Json`]) when the
/// directory is not a complete checkpoint of this family, naming the file, key or tensor; [`ErrorKind::Io`] when a file
/// cannot be read or written, or is not what it should be when it is read back.
pub fn convert(dir: &Path, out: &Path, options: &Options) -> Result<Report> {
    convert_with_progress(dir, out, options, &mut |_, _| {})
}

/// [`convert`] that reports its progress.
///
/// # Errors
/// As [`convert`].
pub fn convert_with_progress(dir: &Path, out: &Path, options: &Options, progress: &mut Progress<'_>) -> Result<Report> {
    convert_checked(dir, out, options, progress, &mut |_| Ok(()))
}

/// [`convert_with_progress`] that shows the finished file to `check`, under its temporary name, before it gets its own;
/// when `check` fails it never does.
fn convert_checked(
    dir: &Path,
    out: &Path,
    options: &Options,
    progress: &mut Progress<'_>,
    check: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<Report> {
    let job = Job::new(dir, options)?;
    job.checkpoint.check_output(out)?;
    let mut stored = stream::stored(&job.layout, job.checkpoint.weights())?;
    let (n_bytes, notes, proof) = thread::scope(|scope| {
        // Writing leaves most of a second core idle.
        let tokenizer = scope.spawn(|| job.prove_tokenizer());
        write_atomic_checked(
            out,
            |file| stream::write(&job.layout, job.checkpoint.weights(), file, progress),
            |file, (n_bytes, notes)| {
                let n_probes = tokenizer.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                let proof = n_probes.map(|n_probes| job.prove(file, &mut stored, n_probes)).transpose()?;
                check(file)?;
                Ok((n_bytes, notes, proof))
            },
        )
    })?;
    Ok(job.report(n_bytes, notes, stored, proof))
}

/// Converts the checkpoint in `dir` into `out`, for callers that want the bytes elsewhere than in a file. Nothing is read
/// back.
///
/// # Errors
/// As [`convert`].
pub fn convert_to(dir: &Path, out: &mut dyn Write, options: &Options, progress: &mut Progress<'_>) -> Result<Report> {
    let job = Job::new(dir, &Options { verify: false, ..options.clone() })?;
    let (n_bytes, notes) = stream::write(&job.layout, job.checkpoint.weights(), out, progress)?;
    let stored = stream::stored(&job.layout, job.checkpoint.weights())?;
    Ok(job.report(n_bytes, notes, stored, None))
}

/// What [`convert`] would write, to `out` if it is named: every check is made, those of the values and of the tokenizer
/// included, and no file.
///
/// # Errors
/// As [`convert`], but for writing.
pub fn plan(dir: &Path, out: Option<&Path>, options: &Options) -> Result<Report> {
    let job = Job::new(dir, options)?;
    if let Some(out) = out {
        job.checkpoint.check_output(out)?;
        check_destination(out)?;
    }
    let notes = stream::survey(&job.layout, job.checkpoint.weights())?;
    let stored = stream::stored(&job.layout, job.checkpoint.weights())?;
    job.prove_tokenizer()?;
    Ok(job.report(job.layout.n_bytes()?, notes, stored, None))
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
        let mut checkpoint = Checkpoint::open(dir, options.verify)?;
        if options.layout == Layout::ModernBert {
            upstream::adopt(&mut checkpoint)?;
        }
        let n_params = checkpoint.weights().fold(0u64, |sum, w| sum.saturating_add(w.shape.iter().product()));
        let metadata = Metadata::read(&checkpoint.dir, options.model_name.as_deref(), n_params)?;
        let layout = layout(&checkpoint, &metadata, options)?;
        Ok(Self { checkpoint, layout, n_params })
    }

    /// Compares the file's tokenizer with the other one, if it was asked; returns the number of texts.
    fn prove_tokenizer(&self) -> Result<Option<usize>> {
        let Checkpoint { witness: Some(witness), vocabulary, .. } = &self.checkpoint else { return Ok(None) };
        let ours = proof::tokenizer(&self.layout, witness.path())?;
        witness.check(&ours, vocabulary.respelled()).map(Some)
    }

    /// Reads the written file back, whose tokenizer splits `n_probes` texts right.
    fn prove(&self, file: &Path, stored: &mut [Stored], n_probes: usize) -> Result<Proof> {
        proof::check(file, &self.layout, self.checkpoint.weights(), stored)?;
        Ok(Proof { n_tensors: stored.len(), n_probes })
    }

    fn report(&self, n_bytes: u64, on_values: Vec<String>, tensors: Vec<Stored>, proof: Option<Proof>) -> Report {
        let mut notes = self.checkpoint.notes.clone();
        notes.extend(on_values);
        Report { n_bytes, n_tensors: tensors.len(), n_params: self.n_params, tensors, proof, notes }
    }
}

/// Keys and tensor infos of the file.
fn layout(checkpoint: &Checkpoint, metadata: &Metadata, options: &Options) -> Result<Writer> {
    let mut out = Writer::new();
    match options.layout {
        Layout::Laya => keys(&mut out, metadata, checkpoint, options.outtype),
        Layout::ModernBert => upstream::keys(&mut out, metadata, checkpoint, options.outtype)?,
    }
    options.outtype.set_recipe(&mut out);
    for weight in checkpoint.weights() {
        let shape = weight.ne();
        out.add_tensor(weight.name, &shape, options.layout.tensor_type(options.outtype, weight.name, &shape))?;
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
