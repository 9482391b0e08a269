//! `parity-gate`: whether a run of one backend may stand for another.

mod compare;
mod corpus;
mod crosscheck;
mod derive;
mod flips;
mod identity;
mod layers;
mod listed;
mod report;
mod run;
mod tiers;

use super::exit;
use std::process::ExitCode;

const TOOL: &str = "parity-gate";

const ABOUT: &str = "Says whether a run of one backend may stand for another";

const LONG_ABOUT: &str = "\
Says whether a run of one backend may stand for another.

A run is what a backend answers to a corpus of requests, with a record of what ran: model file,
corpus, program, processor. Two runs are compared by a tier, whose rules and numbers are registered
before they are used; runs that do not belong together are not compared at all.";

const EXAMPLES: &str = "\
Examples:
  parity-gate corpus -o corpus.jsonl      write the requests to run
  parity-gate run corpus.jsonl -m model.gguf -o ours.jsonl
  parity-gate identity ours.jsonl
  parity-gate compare reference.jsonl cpu.jsonl --gate strict-f32
  parity-gate flips base.jsonl cand.jsonl --html flips.html
  parity-gate report gates/*.json
  parity-gate derive cpu-f32.jsonl=cpu-f16.jsonl --check
  parity-gate tiers
  parity-gate layers corpus.jsonl -m model.gguf --mutate all
  parity-gate crosscheck http://127.0.0.1:8080 http://127.0.0.1:8081 --mode argmax
";

/// The exit codes of a tool that judges.
const EXIT_HELP: &str = "\
Exit codes:
  0    done; the gate passes
  1    the work failed, or the gate's verdict is fail: stdout says what failed first
  2    the gate refuses to judge: the runs do not belong together
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
    Corpus(corpus::CorpusArguments),
    Run(run::RunArguments),
    Identity(identity::IdentityArguments),
    Compare(compare::CompareArguments),
    Flips(flips::FlipsArguments),
    Report(report::ReportArguments),
    Derive(derive::DeriveArguments),
    Tiers(tiers::TiersArguments),
    Layers(layers::LayersArguments),
    Crosscheck(crosscheck::CrosscheckArguments),
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    exit::main(TOOL, |arguments: Arguments| match arguments.command {
        Command::Corpus(arguments) => corpus::corpus(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Identity(arguments) => identity::run(&arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Flips(arguments) => flips::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Derive(arguments) => derive::run(arguments),
        Command::Tiers(arguments) => tiers::run(arguments),
        Command::Layers(arguments) => layers::run(arguments),
        Command::Crosscheck(arguments) => crosscheck::run(arguments),
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
