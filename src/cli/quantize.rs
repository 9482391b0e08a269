//! `laya-convert quantize`: a smaller model file from one of floats.

use super::convert::{HowArguments, TOOL, outtype};
use super::exit::{EXIT_HELP, Exit, Stop};
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
  laya-convert quantize f32.gguf -o model.gguf --outtype f16   everything in 16
  laya-convert quantize f16.gguf --dry-run --json              what would be written";

/// Arguments of `laya-convert quantize`.
#[derive(Debug, clap::Args)]
#[command(about = "Makes a smaller model file from one of floats", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_HELP}"), arg_required_else_help = true)]
pub(super) struct QuantizeArguments {
    /// Model file of f32 or f16 matrices
    #[arg(value_name = "IN.gguf")]
    input: PathBuf,
    /// Model file to write; one that is there is replaced
    #[arg(short, long, value_name = "OUT.gguf", required_unless_present = "dry_run")]
    out: Option<PathBuf>,
    /// How matrices are stored
    #[arg(long, value_name = "NAME", default_value = "q8_0-mixed", value_parser = outtype(&Outtype::RECIPES))]
    recipe: Outtype,
    /// Instead of a recipe: all matrices alike
    #[arg(long, value_name = "TYPE", value_parser = outtype(&[Outtype::F16, Outtype::Q8_0]), conflicts_with = "recipe")]
    outtype: Option<Outtype>,
    #[command(flatten)]
    how: HowArguments,
}

/// Makes what the arguments ask for.
pub(super) fn quantize(arguments: QuantizeArguments) -> Result<Exit, Stop> {
    let QuantizeArguments { input, out, recipe, outtype, how } = arguments;
    let outtype = outtype.unwrap_or(recipe);
    // clap asks for an output unless it is a dry run.
    let out = match out {
        Some(out) if !how.dry_run => out,
        out => {
            stored::planned(TOOL, &convert::plan_quantize(&input, out.as_deref(), outtype)?, how.json)?;
            return Ok(Exit::Done);
        }
    };
    let start = Instant::now();
    let progress = Progress::over_bytes();
    let report =
        convert::quantize(&input, &out, outtype, !how.no_verify, &mut |done, total| progress.written(done, total))?;
    drop(progress);
    stored::written(TOOL, &out, &report, start, Detail { json: how.json, tensors: true }, None)?;
    Ok(Exit::Done)
}
