//! `laya-convert synth`: makes synthetic checkpoints and model files.

use super::convert::TOOL;
use super::exit::{EXIT_HELP, Exit, Stop};
use super::progress::Progress;
use super::stored::{self, Detail};
use crate::convert::Outtype;
use crate::convert::synth::{self, Arch, Dtype, Options};
use crate::error::{Error, ErrorKind};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;
use std::time::Instant;

const LONG_ABOUT: &str = "\
Makes a checkpoint with random weights of a real shape.

Its answers mean nothing, but its size, speed and arithmetic are those of the real model, and the
same seed gives the same bytes on every machine. It is made to test and to measure with. When
interrupted, a temporary .laya-synth-* or *.tmp may stay beside the output, to be deleted.";

const EXAMPLES: &str = "\
Examples:
  laya-convert synth --arch mmbert-base -o base.gguf           a model file
  laya-convert synth --arch modernbert-large -o large/         a checkpoint directory
  laya-convert synth --arch mmbert-base --tokenizer tokenizer.json -o base.gguf";

/// Arguments of `laya-convert synth`.
#[derive(Debug, clap::Args)]
#[command(about = "Makes a checkpoint with random weights of a real shape", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_HELP}"), arg_required_else_help = true)]
pub(super) struct SynthArguments {
    /// Shape to make
    #[arg(long, value_name = "NAME", value_parser = arch())]
    arch: Arch,
    /// Where to write it: a model file when the name ends in .gguf, else a new directory
    #[arg(short, long, value_name = "DIR|FILE.gguf")]
    out: PathBuf,
    /// Another seed, other weights
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Give the first token activations thousands of times the usual size, as trained models have
    #[arg(long)]
    outliers: bool,
    /// Build it around a real tokenizer.json [default: a generated vocabulary of the real size]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// How a directory stores its weights
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = dtype())]
    dtype: Dtype,
    /// How a model file stores its matrices
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = super::convert::outtype(&Outtype::PLAIN))]
    outtype: Outtype,
}

fn arch() -> impl TypedValueParser<Value = Arch> {
    PossibleValuesParser::new(Arch::ALL.map(Arch::as_str)).try_map(|name| name.parse::<Arch>())
}

fn dtype() -> impl TypedValueParser<Value = Dtype> {
    PossibleValuesParser::new(["f32", "f16"]).map(|name| if name == "f32" { Dtype::F32 } else { Dtype::F16 })
}

/// Makes what the arguments ask for.
pub(super) fn synth(arguments: SynthArguments) -> Result<Exit, Stop> {
    let SynthArguments { arch, out, seed, outliers, tokenizer, dtype, outtype } = arguments;
    let options = Options { arch, seed, outliers, tokenizer, dtype, outtype };
    let start = Instant::now();
    let progress = Progress::over_bytes();
    let mut written = |done, total| progress.written(done, total);
    let report = if out.extension().is_some_and(|extension| extension == "gguf") {
        synth::write_gguf(&out, &options, &mut written)
    } else if out.is_file() {
        let message = "is a file; name a new directory, or a model file whose name ends in .gguf";
        Err(Error::new(ErrorKind::Io, message).in_file(&out))
    } else {
        synth::write_checkpoint(&out, &options, &mut written)
    }?;
    drop(progress);
    stored::written(TOOL, &out, &report, start, Detail { json: false, tensors: false }, None)?;
    Ok(Exit::Done)
}
