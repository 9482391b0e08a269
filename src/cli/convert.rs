//! `laya-convert`: makes model files, and compares them.

use super::cache::{self, CacheArguments};
use super::exit::{self, COMPARE_EXIT_HELP, Exit, Stop};
use super::progress::Progress;
use super::quantize::{self, QuantizeArguments};
use super::stdout::Stdout;
use super::stored::{self, Against, Detail};
use super::synth::{self, SynthArguments};
use crate::convert::{self, Layout, Options, Outtype};
use crate::error::{Error, ErrorKind};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub(super) const TOOL: &str = "laya-convert";

const ABOUT: &str = "Makes a model file (GGUF) from a checkpoint directory";

const LONG_ABOUT: &str = "\
Makes a model file (GGUF) from a checkpoint directory.

The directory is a decision model as it is published: rl_agent_config.json, encoder/config.json,
tokenizer/ and the weights in *.safetensors. Before the file gets its name it is read back: every
key, every value, and the tokenizer against the tokenizers library on texts of every kind. It
appears whole or not at all; when interrupted, a temporary MODEL.gguf.*.tmp may stay beside it, to
be deleted.";

const USAGE: &str = "\
laya-convert [OPTIONS] --out <MODEL.gguf> <CHECKPOINT>
       laya-convert [OPTIONS] --dry-run <CHECKPOINT>
       laya-convert --compare <A.gguf> <B.gguf>
       laya-convert <COMMAND>";

const EXAMPLES: &str = "\
Examples:
  laya-convert checkpoint/ -o model.gguf                      half precision, half the size
  laya-convert checkpoint/ -o model.gguf --outtype f32        every bit of a float32 checkpoint
  laya-convert checkpoint/ -o model.gguf --recipe q8_0-mixed  8-bit layers, the rest protected
  laya-convert checkpoint/ --dry-run                          what would be written
  laya-convert quantize f16.gguf -o model.gguf                the same from a model file
  laya-convert --compare a.gguf b.gguf                        where two model files differ first
  laya-convert synth --arch tiny-mmbert -o tiny.gguf          random weights, to try things with
";

#[derive(Debug, clap::Parser)]
#[command(name = TOOL, version, about = ABOUT, long_about = LONG_ABOUT, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLES}\n{COMPARE_EXIT_HELP}"), arg_required_else_help = true)]
#[command(override_usage = USAGE)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    convert: ConvertArguments,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Cache(CacheArguments),
    Quantize(QuantizeArguments),
    Synth(SynthArguments),
}

#[derive(Debug, clap::Args)]
struct ConvertArguments {
    /// Checkpoint directory
    #[arg(value_name = "CHECKPOINT", required_unless_present = "compare")]
    checkpoint: Option<PathBuf>,
    /// Model file to write; one that is there is replaced
    #[arg(short, long, value_name = "MODEL.gguf", required_unless_present_any = ["compare", "dry_run"])]
    out: Option<PathBuf>,
    /// How matrices are stored; vectors and norms always are f32, and with q8_0 matrices whose rows
    /// are not whole blocks of 32 are f16
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = outtype(&Outtype::PLAIN))]
    outtype: Outtype,
    /// Instead of --outtype: q8_0-mixed stores the layers as q8_0 and keeps embeddings, scorer and
    /// act head f16
    #[arg(long, value_name = "NAME", value_parser = outtype(&Outtype::RECIPES), conflicts_with = "outtype")]
    recipe: Option<Outtype>,
    /// Name of the model in the file [default: from the model card or the directory]
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Names of keys and tensors
    #[arg(long, value_name = "NAME", default_value = Layout::default().as_str(), value_parser = layout())]
    layout: Layout,
    /// Compare the written file with this one; the exit code is 2 when they differ
    #[arg(long, value_name = "REF.gguf", conflicts_with = "dry_run")]
    verify_against: Option<PathBuf>,
    /// Print a line for every tensor written, as with --recipe
    #[arg(short, long, conflicts_with_all = ["dry_run", "json"])]
    verbose: bool,
    #[command(flatten)]
    how: HowArguments,
    /// Compare two model files instead: keys, tensors, data, bytes; the exit code is 2 when they
    /// differ
    #[arg(long, value_names = ["A.gguf", "B.gguf"], num_args = 2, exclusive = true)]
    compare: Vec<PathBuf>,
}

/// What is done and said beside writing.
#[derive(Debug, clap::Args)]
pub(super) struct HowArguments {
    /// Check everything and print what would be written, tensor by tensor; write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not read the file back, and ask no other tokenizer
    #[arg(long)]
    pub(super) no_verify: bool,
    /// Print what was written, or would be, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Reads the name of one of `types`.
pub(super) fn outtype(types: &[Outtype]) -> impl TypedValueParser<Value = Outtype> + use<> {
    let names: Vec<&str> = types.iter().map(|outtype| outtype.as_str()).collect();
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Outtype>())
}

/// Reads the name of a layout.
fn layout() -> impl TypedValueParser<Value = Layout> {
    PossibleValuesParser::new(Layout::ALL.map(Layout::as_str)).try_map(|name| name.parse::<Layout>())
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    exit::main(TOOL, |arguments: Arguments| match arguments.command {
        Some(Command::Cache(arguments)) => cache::cache(arguments),
        Some(Command::Quantize(arguments)) => quantize::quantize(arguments),
        Some(Command::Synth(arguments)) => synth::synth(arguments),
        None => match arguments.convert.compare.as_slice() {
            [a, b] => compare(a, b),
            _ => convert(arguments.convert),
        },
    })
}

fn convert(arguments: ConvertArguments) -> Result<Exit, Stop> {
    let ConvertArguments { checkpoint, out, outtype, recipe, model_name, layout, verify_against, verbose, how, .. } =
        arguments;
    let checkpoint = checkpoint.unwrap_or_default();
    if !checkpoint.is_dir() {
        let what = match checkpoint.extension() {
            Some(extension) if extension == "gguf" && checkpoint.is_file() => {
                "is a model file already; laya-convert quantize makes a smaller one of it"
            }
            _ if checkpoint.exists() => {
                "is not a directory; a checkpoint is a directory with rl_agent_config.json in it"
            }
            _ => "no such directory; a checkpoint is a directory with rl_agent_config.json in it",
        };
        return Err(Error::new(ErrorKind::Checkpoint, what).in_file(checkpoint).into());
    }
    let options = Options { outtype: recipe.unwrap_or(outtype), model_name, layout, verify: !how.no_verify };
    // clap asks for an output unless it is a dry run.
    let out = match out {
        Some(out) if !how.dry_run => out,
        out => {
            stored::planned(TOOL, &convert::plan(&checkpoint, out.as_deref(), &options)?, how.json)?;
            return Ok(Exit::Done);
        }
    };
    if let Some(reference) = &verify_against {
        convert::check_reference(reference, &out)?;
    }
    let start = Instant::now();
    let progress = Progress::over_bytes();
    let report =
        convert::convert_with_progress(&checkpoint, &out, &options, &mut |done, total| progress.written(done, total))?;
    drop(progress);
    let against = match verify_against {
        None => None,
        Some(reference) => {
            let difference = convert::compare(&out, &reference)?;
            Some(Against { reference, difference })
        }
    };
    let detail = Detail { json: how.json, tensors: verbose || recipe.is_some() };
    stored::written(TOOL, &out, &report, start, detail, against.as_ref())?;
    Ok(against.map_or(Exit::Done, |against| against.exit()))
}

fn compare(a: &Path, b: &Path) -> Result<Exit, Stop> {
    let difference = convert::compare(a, b)?;
    let text = difference.as_ref().map_or("IDENTICAL".to_owned(), |why| format!("DIFFERENT: {why}"));
    Stdout::open().line(text)?;
    Ok(if difference.is_some() { Exit::Differs } else { Exit::Done })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound_and_its_help_fits() {
        crate::cli::sound::check(Arguments::command());
    }
}
