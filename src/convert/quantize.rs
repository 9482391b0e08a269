//! From a GGUF file of floats to a smaller one.

use std::path::Path;

use super::outtype::{Layout, Outtype};
use super::report::{Proof, Report, Stored};
use super::weight::Weight;
use super::{Progress, overwrites, proof, stream};
use crate::error::Result;
use crate::gguf::{File, TensorType, Writer, check_destination, write_atomic_checked};

/// Keys about how a model is used that were fitted on the numbers of one file.
const SPEC_KEY: &str = "decision.spec";
/// The version of ggml's quantized types, which a reader may ask a quantized file for.
const VERSION_KEY: &str = "general.quantization_version";

/// Stores the tensors of the GGUF file `input` as `outtype` in the file `out`, which appears whole or not at all. Every
/// other key is the input's. With `verify` the file is read back before it gets its name.
///
/// The input has floats; what is quantized already has lost what another type would keep.
///
/// # Errors
/// Kind `Usage` when `out` is the input, `Model` when the input is no decision model or is quantized, `Checkpoint` for values
/// that the type cannot hold, with the tensor; else as [`super::convert`].
pub fn quantize(
    input: &Path,
    out: &Path,
    outtype: Outtype,
    verify: bool,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let source = Source::open(input, outtype)?;
    check_output(input, out)?;
    let mut stored = stream::stored(&source.layout, source.weights())?;
    let (n_bytes, notes, proof) = write_atomic_checked(
        out,
        |file| stream::write(&source.layout, source.weights(), file, progress),
        |file, (n_bytes, notes)| {
            let proof = verify.then(|| source.prove(file, &mut stored)).transpose()?;
            Ok((n_bytes, notes, proof))
        },
    )?;
    Ok(source.report(n_bytes, notes, stored, proof))
}

/// What [`quantize`] would write, to `out` if it is named: every check is made, the values included, and no file.
///
/// # Errors
/// As [`quantize`], but for writing.
pub fn plan_quantize(input: &Path, out: Option<&Path>, outtype: Outtype) -> Result<Report> {
    let source = Source::open(input, outtype)?;
    if let Some(out) = out {
        check_output(input, out)?;
        check_destination(out)?;
    }
    proof::tokenizer(&source.layout, input)?;
    let notes = stream::survey(&source.layout, source.weights())?;
    let stored = stream::stored(&source.layout, source.weights())?;
    let n_bytes = source.layout.n_bytes()?;
    Ok(source.report(n_bytes, notes, stored, None))
}

fn check_output(input: &Path, out: &Path) -> Result<()> {
    match (input.canonicalize(), out.canonicalize()) {
        (Ok(a), Ok(b)) if a == b => Err(overwrites(out)),
        _ => Ok(()),
    }
}

/// The input, and what is made of it.
struct Source {
    file: File,
    /// Shapes in PyTorch's order, in the order of the tensors.
    shapes: Vec<Vec<u64>>,
    layout: Writer,
}

impl Source {
    fn open(path: &Path, outtype: Outtype) -> Result<Self> {
        let file = File::open(path)?;
        // Whether it is a decision model, and of which layout.
        crate::layout::read(&file)?;
        let names: Layout = file.require_str("general.architecture")?.parse()?;
        for tensor in file.tensors() {
            if !matches!(tensor.ty, TensorType::F32 | TensorType::F16 | TensorType::BF16) {
                let message = format!("is {} already; quantize the f32 or f16 file it was made from", tensor.ty);
                return Err(file.error(message).at_tensor(&tensor.name));
            }
        }
        let mut layout = Writer::new();
        for (key, value) in file.keys() {
            layout.set(key, value.clone());
        }
        layout.set("general.file_type", outtype.file_type());
        if layout.get(VERSION_KEY).is_none() {
            layout.set(VERSION_KEY, 2u32);
        }
        outtype.set_recipe(&mut layout);
        for tensor in file.tensors() {
            let ty = names.tensor_type(outtype, &tensor.name, &tensor.shape);
            layout.add_tensor(&*tensor.name, &tensor.shape, ty)?;
        }
        let shapes = file.tensors().iter().map(|tensor| tensor.shape.iter().rev().copied().collect()).collect();
        Ok(Self { file, shapes, layout })
    }

    fn weights(&self) -> impl Iterator<Item = Weight<'_>> {
        // `open` has refused every tensor that is none.
        let tensors = self.file.tensors().iter().zip(&self.shapes);
        tensors.filter_map(|(tensor, shape)| Weight::of_gguf(&self.file, tensor, shape))
    }

    /// Reads the written file back; its tokenizer must be one.
    fn prove(&self, file_path: &Path, stored: &mut [Stored]) -> Result<Proof> {
        proof::check(file_path, &self.layout, self.weights(), stored)?;
        proof::tokenizer(&self.layout, self.file.path().unwrap_or(file_path))?;
        Ok(Proof { n_tensors: stored.len(), n_probes: 0 })
    }

    fn report(&self, n_bytes: u64, mut notes: Vec<String>, tensors: Vec<Stored>, proof: Option<Proof>) -> Report {
        if self.file.get(SPEC_KEY).is_some() {
            notes.push(format!("{SPEC_KEY} is kept; its calibration was fitted on the input's numbers, fit it again"));
        }
        let n_params = self.file.tensors().iter().fold(0u64, |n, tensor| n.saturating_add(tensor.n_elements()));
        Report { n_bytes, n_tensors: tensors.len(), n_params, tensors, proof, notes }
    }
}
