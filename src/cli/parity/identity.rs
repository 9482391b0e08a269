//! `parity-gate identity`: what a run says it is.

use crate::cli::exit::{EXIT_HELP, Exit, Stop};
use crate::cli::output::Output;
use crate::cli::stdout::Stdout;
use crate::json::{Object, Value};
use crate::parity::Run;
use std::path::PathBuf;

/// Prints what runs say they are: program, model, corpus, set-up
///
/// A run that is unfinished, or was changed after it was written, is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_HELP)]
pub(super) struct IdentityArguments {
    /// Run files
    #[arg(value_name = "RUN.jsonl", required = true)]
    runs: Vec<PathBuf>,
}

/// Prints an object for each run.
pub(super) fn run(arguments: &IdentityArguments) -> Result<Exit, Stop> {
    let mut stdout = Stdout::open();
    for path in &arguments.runs {
        let run = Run::read(path)?;
        let mut object = Object::new();
        object.insert("file", path.to_string_lossy().into_owned());
        for (key, value) in run.identity.to_json().iter() {
            object.insert(key, value.clone());
        }
        stdout.line(Output::from(Value::Object(object)).dumps_indent(1))?;
    }
    Ok(Exit::Done)
}
