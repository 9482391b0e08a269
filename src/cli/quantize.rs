//! `laya-convert quantize`: a smaller model file from one of floats.

use super::convert::{HowArguments, TOOL, outtype};
use super::exit::{Exit, Stop};
use super::progress::Progress;
use super::stored::{self, Detail};
use crate::convert::{self, Outtype};
use std::path::PathBuf;
use std::time::Instant;

const LONG_ABOUT: &str = "\
Makes a smaller model file from one of 32- or 16-bit floats.

The recipe q8_0-mixed stores the matrices of the layers in 8 bits (32 values of a row share a
scale) and keeps the embeddings, the scorer and the act head in 16; it is recorded in the file. A
table says for every tensor how far its values moved.";

const EXAMPLES: &str = "\
Examples:
  laya-convert quantize f16.gguf -o model.gguf                 layers in 8 bits
  laya-convert quantize f32.gguf -o model.gguf --recipe f16    everything in 16
  laya-convert quantize f16.gguf --dry-run --json              what would be written";

/// Arguments of `laya-convert quantize`.
#[derive(Debug, clap::Args)]
#[command(about = "Makes a smaller model file from one of floats", long_about = LONG_ABOUT)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(super) struct QuantizeArguments {
    /// Model file of f32 or f16 matrices
    #[arg(value_name = "IN.gguf")]
    input: PathBuf,
    /// Model file to write; one that is there is replaced
    #[arg(short, long, value_name = "OUT.gguf", required_unless_present = "dry_run")]
    out: Option<PathBuf>,
    /// How matrices are stored
    #[arg(long, value_name = "NAME", default_value = "q8_0-mixed", value_parser = recipe())]
    recipe: Outtype,
    #[command(flatten)]
    how: HowArguments,
}

fn recipe() -> impl clap::builder::TypedValueParser<Value = Outtype> {
    outtype(&[Outtype::Q8_0Mixed, Outtype::Q8_0, Outtype::F16])
}

/// Makes what the arguments ask for.
pub(super) fn quantize(arguments: QuantizeArguments) -> Result<Exit, Stop> {
    let QuantizeArguments { input, out, recipe, how } = arguments;
    let Some(out) = out.filter(|_| !how.dry_run) else {
        stored::planned(TOOL, &convert::plan_quantize(&input, recipe)?, how.json)?;
        return Ok(Exit::Done);
    };
    let start = Instant::now();
    let progress = Progress::over_bytes();
    let report =
        convert::quantize(&input, &out, recipe, !how.no_verify, &mut |done, total| progress.written(done, total))?;
    drop(progress);
    stored::written(TOOL, &out, &report, start, Detail { json: how.json, tensors: true })?;
    Ok(Exit::Done)
}
