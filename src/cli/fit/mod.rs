//! `fit-router-calibration`: fits what turns logits into probabilities, on labelled data.

mod data;
mod in_force;
mod table;
mod temperatures;

use super::exit;
use std::process::ExitCode;

const TOOL: &str = "fit-router-calibration";

const ABOUT: &str = "Fits the calibration of a decision model on labelled data";

const EXAMPLES: &str = "\
Examples:
  fit-router-calibration temperatures data.jsonl -m model.gguf
  fit-router-calibration temperatures data.jsonl -m model.gguf -o report.json --spec-out spec.json
  gguf-spec set model.gguf spec.json
";

#[derive(Debug, clap::Parser)]
#[command(name = TOOL, version, about = ABOUT, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLES}\n{}", exit::EXIT_HELP), arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Temperatures(temperatures::Arguments),
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    exit::main(TOOL, |arguments: Arguments| match arguments.command {
        Command::Temperatures(arguments) => temperatures::fit(arguments),
    })
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
