//! `parity-gate report`: the results of gates in one table.

use crate::cli::exit::{EXIT_HELP, Exit, Stop};
use crate::cli::input::Input;
use crate::cli::stderr::printable;
use crate::cli::stdout::Stdout;
use crate::cli::table::table;
use crate::parity::{COLUMNS, Line};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  parity-gate compare reference.jsonl ours.jsonl --gate strict-f32 --json gate.json
  parity-gate report gate.json
  parity-gate report --markdown gates/*.json
";

/// Columns of text.
const N_TEXTS: usize = 2;

/// Shows the results of gates in one table, a line a candidate
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"))]
pub(super) struct ReportArguments {
    /// Results that parity-gate compare --json wrote
    #[arg(value_name = "GATES.json", required = true)]
    results: Vec<PathBuf>,
    /// As a table of Markdown
    #[arg(long)]
    markdown: bool,
}

/// Prints the table.
pub(super) fn run(arguments: ReportArguments) -> Result<Exit, Stop> {
    let mut lines = Vec::new();
    for path in arguments.results {
        let input = Input::from(path);
        let read = Line::read(&input.read()?).map_err(|error| error.in_file(input.name()))?;
        lines.extend(read.into_iter().map(|line| Line { cells: line.cells.map(|cell| printable(&cell)) }));
    }
    let text = if arguments.markdown {
        Line::markdown(&lines)
    } else {
        let mut table = table(&COLUMNS, N_TEXTS);
        for line in &lines {
            table.add_row(&line.cells);
        }
        table.to_string()
    };
    Stdout::open().line(text.trim_end_matches('\n').to_owned())?;
    Ok(Exit::Done)
}
