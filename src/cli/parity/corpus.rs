//! `parity-gate corpus`: the corpus of this project, and what is in any.

use std::path::PathBuf;

use crate::cli::destination;
use crate::cli::escape;
use crate::cli::exit::{EXIT_HELP, Exit, Stop};
use crate::cli::stderr;
use crate::cli::stdout::Stdout;
use crate::cli::stored::size;
use crate::cli::table::table;
use crate::error::Error;
use crate::json::Object;
use crate::parity::{Corpus, Description, Subset, generator};
use crate::request::QuestionType;

use super::listed::listed;
use super::{TOOL, run};

const LONG_ABOUT: &str = "\
Writes the corpus of this project, or says what is in a corpus.

The corpus is generated from texts in the program, the same bytes on every machine. One item a line:
{\"id\", \"cat\", \"state\", \"questions\"}. It has workflows and presets, states of every JSON kind, 18
languages, every number of options from 2 to 20, everything that is cut to fit, criteria that are no
texts, and texts that tokenizers get wrong. Exactly one item, whose state is null, is no request.

The English subset is the items whose every letter, in state and questions, is ASCII. A file of
it is a corpus of its own; to run a part of a whole corpus, give the subset to run instead.

With --check the corpus is generated and compared with what is recorded of it in the sources: hash,
size, and the numbers of items and questions of every category.";

const EXAMPLES: &str = "\
Examples:
  parity-gate corpus -o corpus.jsonl             write it
  parity-gate corpus --check                     does this build generate what is recorded?
  parity-gate corpus | head -1 | jq .questions   look into it
  parity-gate corpus --describe                  what is in it?
  parity-gate corpus --describe mine.jsonl       what is in another?
";

/// Arguments of `parity-gate corpus`.
#[derive(Debug, clap::Args)]
#[command(about = "Writes a corpus of requests, or says what is in one", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"))]
pub(super) struct CorpusArguments {
    /// Write it to a file; without, and without --check, it is printed
    #[arg(short, long, value_name = "CORPUS.jsonl")]
    output: Option<PathBuf>,
    /// Which items to write
    #[arg(long, value_name = "SUBSET", default_value_t, value_parser = run::subset())]
    subset: Subset,
    /// Compare what is generated with the record of it
    #[arg(long)]
    check: bool,
    /// Say what is in a corpus: that of a file, or the generated one
    #[arg(long, value_name = "CORPUS.jsonl", num_args = 0..=1, conflicts_with_all = ["output", "subset", "check"])]
    describe: Option<Option<PathBuf>>,
    /// Describe as JSON
    #[arg(long, requires = "describe")]
    json: bool,
}

/// Does what the arguments ask for.
pub(super) fn corpus(arguments: CorpusArguments) -> Result<Exit, Stop> {
    let CorpusArguments { output, subset, check, describe, json } = arguments;
    match describe {
        Some(Some(path)) => {
            let bytes = std::fs::read(&path).map_err(|error| Error::io("cannot read", &path, &error))?;
            let description = Description::of(&bytes).map_err(|error| error.in_file(&path))?;
            return print(&description, json.then(|| description.to_json()));
        }
        Some(None) => {
            let description = Description::of(generator::jsonl().as_bytes())?;
            return print(&description, json.then(|| generator::record(&description)));
        }
        None => {}
    }
    destination::check(output.as_deref().as_slice(), &[])?;
    let whole = generator::jsonl();
    if check {
        let description = Description::of(whole.as_bytes())?;
        let differences = generator::differences(&description);
        if !differences.is_empty() {
            let differences = differences.join(", ");
            stderr::error(TOOL, &format!("the corpus is not what is recorded of it; what differs: {differences}"));
            return Ok(Exit::Failed);
        }
        Stdout::open().line(format!("as recorded: {}", summary(&description)))?;
    }
    let part = match subset {
        Subset::All => whole,
        part => Corpus::parse(whole.as_bytes())?.subset(part).map(|item| item.to_line() + "\n").collect(),
    };
    match &output {
        Some(path) => destination::write(path, &part)?,
        None if !check => Stdout::open().bytes(part.as_bytes())?,
        None => {}
    }
    Ok(Exit::Done)
}

/// Prints `json` if there is any, else tables.
fn print(description: &Description, json: Option<Object>) -> Result<Exit, Stop> {
    let text = match json {
        Some(json) => lines(json),
        None => tables(description),
    };
    Stdout::open().line(text)?;
    Ok(Exit::Done)
}

/// JSON with a line for every category.
fn lines(mut description: Object) -> String {
    let categories = description.remove("categories").unwrap_or_default();
    listed(description, "categories", categories.as_array().unwrap_or_default().iter().cloned())
}

fn summary(description: &Description) -> String {
    let Description { all, n_bytes, sha256, .. } = description;
    let size = size(*n_bytes as u64);
    format!("{} items, {} questions, {size}, sha256 {sha256}", all.n_items, all.n_questions)
}

fn tables(description: &Description) -> String {
    let mut header = vec!["subset", "items", "questions"];
    header.extend(QuestionType::ALL.map(QuestionType::as_str));
    let mut subsets = table(&header, 1);
    for (subset, count) in Subset::ALL.into_iter().zip([description.all, description.english]) {
        let counts = [count.n_items, count.n_questions].into_iter().chain(count.by_type);
        subsets.add_row(std::iter::once(subset.to_string()).chain(counts.map(|n| n.to_string())));
    }
    let mut categories = table(&["category", "items", "questions", "english items", "english questions"], 1);
    for category in &description.categories {
        let counts = [category.all, category.english].map(|count| [count.n_items, count.n_questions]);
        let counts = counts.into_iter().flatten().map(|n| n.to_string());
        let name = if category.name.is_empty() { "-".to_owned() } else { escape::printable(&category.name) };
        categories.add_row(std::iter::once(name).chain(counts));
    }
    let refused = description.refused.iter().map(|id| format!("\nno request: {}", escape::printable(id)));
    format!(
        "{}{}\n\n{}\n\n{}",
        summary(description),
        refused.collect::<String>(),
        subsets.trim_fmt(),
        categories.trim_fmt()
    )
}
