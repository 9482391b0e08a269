//! `parity-gate flips`: the questions that two runs answer differently.

mod excerpt;
mod html;
mod json;

use std::path::{Path, PathBuf};

use crate::cli::destination;
use crate::cli::escape;
use crate::cli::exit::{Exit, Stop};
use crate::cli::stderr;
use crate::cli::stdout::Stdout;
use crate::cli::table::table;
use crate::parity::{Corpus, Flip, Flips, LeftOut, Run, Side, Source, refusal};
use crate::request::QuestionType;

use super::TOOL;
use excerpt::excerpt;

/// Characters of a state, a name and an option that a line of the table has room for.
const STATE_CHARS: usize = 48;
const NAME_CHARS: usize = 24;

const LONG_ABOUT: &str = "\
Lists the questions that two runs answer differently, the one the baseline is surest of first.

An answer is the option with the largest raw logit, or the public answer where a run has no logits.
The gap is how far the baseline's first option is ahead of its second: the difference of the two
probabilities, softmax of the raw logits at temperature 1, or those of the public answer where a run
has no logits: then they are calibrated, and marked with a * in the table. A change where the gap is
small is what rounding does; one where it is large is a fault to look for.

With --corpus, the file both runs are of, options, instructions and states are shown. --html writes
a page that needs nothing but itself, --json what a program can read; both have every change. The
table on the terminal has the first ones.

This lists, it does not judge: for a verdict, use compare.";

const EXAMPLES: &str = "\
Examples:
  parity-gate flips f32.jsonl q8.jsonl                                   which answers change?
  parity-gate flips f32.jsonl q8.jsonl --corpus corpus.jsonl             and what was asked?
  parity-gate flips f32.jsonl q8.jsonl --corpus corpus.jsonl --html flips.html
  parity-gate flips f32.jsonl q8.jsonl --json flips.json --top 0         for a program
";

const EXIT_HELP: &str = "\
Exit codes:
  0    done, whether answers change or not
  1    the work failed; stderr says why
  2    the runs are not of the same requests, or the corpus is another one
  64   the command line makes no sense
  130  interrupted (Ctrl-C), as a shell reports it";

/// Arguments of `parity-gate flips`.
#[derive(Debug, clap::Args)]
#[command(about = "Lists the questions that two runs answer differently", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
pub(super) struct FlipsArguments {
    /// Run to compare with
    #[arg(value_name = "BASELINE")]
    baseline: PathBuf,
    /// Run that is compared
    #[arg(value_name = "CANDIDATE")]
    candidate: PathBuf,
    /// The corpus that both are of
    #[arg(long, value_name = "CORPUS.jsonl")]
    corpus: Option<PathBuf>,
    /// Write a page to look at
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    /// Write every change as JSON
    #[arg(long, value_name = "OUT.json")]
    json: Option<PathBuf>,
    /// Changes that the table shows at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// Does what the arguments ask for.
pub(super) fn run(arguments: FlipsArguments) -> Result<Exit, Stop> {
    let FlipsArguments { baseline, candidate, corpus, html, json, top } = arguments;
    let outputs: Vec<&Path> = [&html, &json].into_iter().flatten().map(PathBuf::as_path).collect();
    let inputs = [Some(&baseline), Some(&candidate), corpus.as_ref()];
    destination::check(&outputs, &inputs.into_iter().flatten().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let (baseline, candidate) = (Run::read(&baseline)?, Run::read(&candidate)?);
    if let Some(reason) = refusal(&baseline.identity, &candidate.identity) {
        stderr::error(TOOL, &reason);
        return Ok(Exit::Refused);
    }
    let read = corpus.as_deref().map(Corpus::read).transpose()?;
    if let (Some(path), Some(read)) = (&corpus, &read)
        && read.sha256 != baseline.identity.corpus.sha256
    {
        let (path, ran) = (path.display(), &baseline.identity.corpus.sha256);
        stderr::error(
            TOOL,
            &format!("{path}: is not the corpus of the runs: its SHA-256 is {}, theirs {ran}", read.sha256),
        );
        return Ok(Exit::Refused);
    }
    let flips = Flips::find(&baseline, &candidate, read.as_ref());
    if let Some(path) = &html {
        destination::write(path, &html::page(&flips, &baseline.identity, &candidate.identity))?;
    }
    if let Some(path) = &json {
        destination::write(path, &json::text(&flips, &baseline.identity, &candidate.identity))?;
    }
    Stdout::open().line(text(&flips, top))?;
    Ok(Exit::Done)
}

/// The tables on the terminal.
fn text(flips: &Flips, top: usize) -> String {
    let mut agreement = table(&["type", "compared", "same", "changed"], 1);
    for (name, n, n_same) in agreements(flips) {
        agreement.add_row([name.to_owned(), n.to_string(), n_same.to_string(), (n - n_same).to_string()]);
    }
    let mut text = agreement.trim_fmt();
    for (what, n) in left_out(flips) {
        text += &format!("\nnot compared: {n} {what}");
    }
    if top == 0 || flips.changed.is_empty() {
        return text;
    }
    let has_texts = flips.changed.iter().any(|flip| flip.asked.is_some());
    let mut header = vec!["gap", "item", "question", "baseline", "candidate"];
    header.extend(has_texts.then_some("state"));
    let mut changes = table(&header, 0);
    for column in changes.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for flip in flips.changed.iter().take(top) {
        let name = |text: &str| escape::printable(&excerpt(text, NAME_CHARS));
        let gap = format!("{:.4}{}", flip.gap, mark(&flip.baseline));
        let mut row = vec![gap, escape::printable(&flip.item), name(&flip.question)];
        row.extend(
            [&flip.baseline, &flip.candidate]
                .map(|side| format!("{} {:.3}{}", name(option(flip, side)), share(side), mark(side))),
        );
        let state = flip.asked.as_ref().map(|asked| escape::printable(&excerpt(&asked.state, STATE_CHARS)));
        row.extend(has_texts.then(|| state.unwrap_or_default()));
        changes.add_row(row);
    }
    text += "\n\n";
    text += &changes.trim_fmt();
    let is_marked = |flip: &Flip| [&flip.baseline, &flip.candidate].iter().any(|side| !mark(side).is_empty());
    if flips.changed.iter().take(top).any(is_marked) {
        text += "\n* of the public answer, calibrated: the run has no logits";
    }
    let n_more = flips.changed.len().saturating_sub(top);
    if n_more > 0 {
        text += &format!("\n... {n_more} more, which --top shows");
    }
    text
}

/// Name, compared and equal answers of every type, and of all.
fn agreements(flips: &Flips) -> Vec<(&'static str, usize, usize)> {
    let types = QuestionType::ALL.into_iter().zip(&flips.agreement);
    let mut rows: Vec<_> = types.map(|(kind, agreement)| (kind.as_str(), agreement.n, agreement.n_same)).collect();
    let sum = |of: fn(&(&str, usize, usize)) -> usize| rows.iter().map(of).sum();
    let all = ("all", sum(|row| row.1), sum(|row| row.2));
    rows.push(all);
    rows
}

/// What was not compared, with its number.
fn left_out(flips: &Flips) -> impl Iterator<Item = (&'static str, usize)> {
    let LeftOut { n_unanswered_items, n_single_items, n_single_questions, n_unlike } = flips.left_out;
    let parts = [
        (["item without answers in a run", "items without answers in a run"], n_unanswered_items),
        (["item of one run only", "items of one run only"], n_single_items),
        (["question of one run only", "questions of one run only"], n_single_questions),
        (["question whose answers are not comparable", "questions whose answers are not comparable"], n_unlike),
    ];
    let parts = parts.into_iter().filter(|(_, n)| *n > 0);
    parts.map(|([one, many], n)| (if n == 1 { one } else { many }, n))
}

/// The option that is the answer.
fn option<'a>(flip: &'a Flip, side: &Side) -> &'a str {
    flip.options.get(side.first).map_or("", String::as_str)
}

/// What tells probabilities of a public answer from those of logits.
fn mark(side: &Side) -> &'static str {
    match side.source {
        Source::Logits => "",
        Source::Answer => "*",
    }
}

/// The probability of the answer.
fn share(side: &Side) -> f64 {
    side.probabilities.get(side.first).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
