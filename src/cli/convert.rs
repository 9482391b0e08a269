//! `laya-convert`: makes model files.

use super::exit::{self, EXIT_HELP, Exit, Stop};
use super::progress::Progress;
use super::stderr;
use super::synth::{self, SynthArguments};
use crate::convert::{self, Options, Outtype, Report};
use crate::error::{Error, ErrorKind};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const TOOL: &str = "laya-convert";

const ABOUT: &str = "Makes a model file (GGUF) from a checkpoint directory";

const LONG_ABOUT: &str = "\
Makes a model file (GGUF) from a checkpoint directory.

The directory is a decision model as it is published: rl_agent_config.json, encoder/config.json,
tokenizer/ and the weights in *.safetensors. The file appears whole or not at all; when interrupted,
a temporary MODEL.gguf.*.tmp may stay beside it, to be deleted.";

const EXAMPLES: &str = "\
Examples:
  laya-convert checkpoint/ -o model.gguf                     half precision, half the size
  laya-convert checkpoint/ -o model.gguf --outtype f32       every bit of a float32 checkpoint
  laya-convert checkpoint/ -o model.gguf --outtype q8_0      8-bit blocks, about half of f16
  laya-convert synth --arch tiny-mmbert -o tiny.gguf         random weights, to try things with
";

#[derive(Debug, clap::Parser)]
#[command(name = TOOL, version, about = ABOUT, long_about = LONG_ABOUT, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    convert: Option<ConvertArguments>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Synth(SynthArguments),
}

#[derive(Debug, clap::Args)]
struct ConvertArguments {
    /// Checkpoint directory
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: PathBuf,
    /// Model file to write; one that is there is replaced
    #[arg(short, long, value_name = "MODEL.gguf")]
    out: PathBuf,
    /// How matrices are stored; vectors and norms always are f32, and with q8_0 matrices whose rows
    /// are not whole blocks of 32 are f16
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = outtype())]
    outtype: Outtype,
    /// Name of the model in the file [default: from the model card or the directory]
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
}

/// Reads the name of an output type.
pub(super) fn outtype() -> impl clap::builder::TypedValueParser<Value = Outtype> {
    PossibleValuesParser::new(Outtype::ALL.map(Outtype::as_str)).try_map(|name| name.parse::<Outtype>())
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    exit::main(TOOL, |arguments: Arguments| match (arguments.command, arguments.convert) {
        (Some(Command::Synth(arguments)), _) => synth::synth(arguments),
        (None, Some(arguments)) => convert(arguments),
        // clap requires one of the two.
        (None, None) => Err(Error::new(ErrorKind::Usage, "nothing to convert: name a checkpoint directory").into()),
    })
}

fn convert(arguments: ConvertArguments) -> Result<Exit, Stop> {
    let ConvertArguments { checkpoint, out, outtype, model_name } = arguments;
    if !checkpoint.is_dir() {
        let what = if checkpoint.exists() { "is not a directory" } else { "no such directory" };
        let message = format!("{what}; a checkpoint is a directory with rl_agent_config.json in it");
        return Err(Error::new(ErrorKind::Checkpoint, message).in_file(checkpoint).into());
    }
    let start = Instant::now();
    let progress = Progress::over_bytes();
    let options = Options { outtype, model_name, ..Options::default() };
    let report =
        convert::convert_with_progress(&checkpoint, &out, &options, &mut |done, total| progress.written(done, total))?;
    drop(progress);
    wrote(&out, &report, start);
    Ok(Exit::Done)
}

/// Says on stderr what was written.
pub(super) fn wrote(out: &Path, report: &Report, start: Instant) {
    for note in &report.notes {
        stderr::note(TOOL, note);
    }
    stderr::line(&format!("wrote {} in {:.1} s", out.display(), start.elapsed().as_secs_f64()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound_and_its_help_fits() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let mut help = command.render_long_help().to_string();
        help += &command.find_subcommand_mut("synth").unwrap().render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}
