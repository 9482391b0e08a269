//! `gguf-spec`: what model files are, and what they say about their use.

mod dump;
mod get;
mod identify;
mod schema;
mod set;
mod stamped;
mod value;
mod verify;

use super::exit;
use crate::spec::KEY;
use std::path::Path;
use std::process::ExitCode;

const TOOL: &str = "gguf-spec";

const ABOUT: &str = "Says what model files are, and reads, writes and checks their decision.spec";

const LONG_ABOUT: &str = "\
Says what model files are, and reads, writes and checks their decision.spec.

The spec is JSON text in the file itself that says how the model must be used: its calibration,
its input contract, its limits. Its exact bytes count: their SHA-256 names it in every answer.";

const EXAMPLES: &str = "\
Examples:
  gguf-spec get model.gguf                           the spec of a model file
  gguf-spec set model.gguf spec.json                 write another one, in place
  gguf-spec set model.gguf spec.json -o new.gguf     the same into a copy
  gguf-spec verify model.gguf spec.json              is it sound, and is it this one?
  gguf-spec schema spec                              its rules as JSON Schema
  gguf-spec identify *.gguf                          what each is and what can run it
  gguf-spec dump model.gguf                          its keys and tensors
";

/// The exit codes of a tool that looks for problems.
const EXIT_HELP: &str = "\
Exit codes:
  0    done, and nothing is wrong
  1    the work failed, there is no spec, or verify found problems
  64   the command line makes no sense
  130  interrupted (Ctrl-C), as a shell reports it";

#[derive(Debug, clap::Parser)]
#[command(name = TOOL, version, about = ABOUT, long_about = LONG_ABOUT, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Identify(identify::IdentifyArguments),
    Dump(dump::DumpArguments),
    Get(get::GetArguments),
    Set(set::SetArguments),
    Verify(verify::VerifyArguments),
    Schema(schema::SchemaArguments),
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    exit::main(TOOL, |arguments: Arguments| match arguments.command {
        Command::Identify(arguments) => identify::run(arguments),
        Command::Dump(arguments) => dump::run(arguments),
        Command::Get(arguments) => get::get(&arguments),
        Command::Set(arguments) => set::set(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Schema(arguments) => schema::schema(&arguments),
    })
}

/// What is said about a model file without a spec.
fn unstamped(path: &Path) -> String {
    format!("{}: no {KEY}", path.display())
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
