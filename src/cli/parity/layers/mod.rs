//! `parity-gate layers`: where two computations part.

mod side;
mod table;

use super::TOOL;
use crate::cli::destination;
use crate::cli::escape::printable;
use crate::cli::exit::{Exit, Stop};
use crate::cli::model::ModelArguments;
use crate::cli::progress::Progress;
use crate::cli::stderr;
use crate::cli::stdout::Stdout;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::model::Config;
use crate::parity::Corpus;
use crate::parity::layers::{
    Baseline, Comparison, Dump, Mutation, Outcome, Rule, Side, TracedRow, compare, pick, plot, report, rows_of,
};
use clap::builder::PossibleValuesParser;
use side::SideArguments;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const ABOUT: &str = "Finds where two computations part, node by node";

const LONG_ABOUT: &str = "\
Finds where two computations part: traces both over rows of a corpus, compares their hidden states
node by node (embeddings, every encoder layer, final norm, type embedding, every head layer, marker
and act logits), and names the first one past tolerance.

The candidate is the engine on this processor. It is compared with another model file, instruction
set, number of threads or plan, or with the states another program wrote to a file: --reference,
made by scripts/parity_layers.py with the published package.

Models of this family put numbers near 1.4e4 on the first token from some layer on, where one step
of a float32 is 1e-3. So the rule has two tiers: absolute for the embeddings and the layers before
that, relative to the magnitude of each position's state after.

--mutate checks the gate itself: the engine runs with a mistake that ports have made, and the
comparison must fail. It says where first, and by how many times the bar. A candidate that is past
tolerance without a mistake shows nothing by being so with one: then none is judged.";

const EXAMPLES: &str = "\
Examples:
  parity-gate layers corpus.jsonl -m model.gguf --mutate all --svg controls.svg
  parity-gate layers corpus.jsonl -m f32.gguf --candidate-model f16.gguf
  parity-gate layers corpus.jsonl -m model.gguf --baseline-isa scalar --candidate-isa avx2
  parity-gate layers corpus.jsonl -m model.gguf --reference published.safetensors --json out.json

Exit codes:
  0    every node is within tolerance; with --mutate, every mistake is past it
  1    the work failed, or a node is past tolerance, or a mistake is not noticed; stderr says why
  2    refused: the two sides do not compute the same rows or have other nodes, or the dump has rows
       that would not be compared
  64   the command line makes no sense
  130  interrupted (Ctrl-C), as a shell reports it";

/// Arguments of `parity-gate layers`.
#[derive(Debug, clap::Args)]
#[command(about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES, arg_required_else_help = true)]
pub(super) struct LayersArguments {
    /// Corpus, one item a line
    #[arg(value_name = "CORPUS.jsonl")]
    corpus: PathBuf,
    #[command(flatten)]
    model: ModelArguments,
    /// Compare with the states in this dump
    #[arg(long, value_name = "DUMP", conflicts_with_all = CONFLICTS)]
    reference: Option<PathBuf>,
    /// Compare this model file (GGUF) with the other
    #[arg(long, value_name = "MODEL.gguf")]
    candidate_model: Option<PathBuf>,
    /// Make these mistakes, each of which must fail: a list of names, or all
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = mutation_names())]
    mutate: Vec<String>,
    /// Write the comparison with both identities here
    #[arg(long, value_name = "OUT.json")]
    json: Option<PathBuf>,
    /// Draw error against depth here
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
    // Below them, so that their headings are not those of the arguments above.
    #[command(flatten)]
    rows: RowArguments,
    #[command(flatten)]
    sides: SideArguments,
    #[command(flatten)]
    rule: RuleArguments,
}

/// What a dump takes the place of.
const CONFLICTS: [&str; 4] = ["baseline_isa", "baseline_threads", "baseline_plan", "candidate_model"];

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Rows")]
struct RowArguments {
    /// Trace this many rows, spread over their lengths; the longest is among them. With --item or
    /// --reference: all of them
    #[arg(long, value_name = "N|all", value_parser = row_count)]
    rows: Option<usize>,
    /// Only rows of this item (repeatable)
    #[arg(long = "item", value_name = "ID")]
    items: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tolerances")]
struct RuleArguments {
    /// Largest absolute error of the embeddings and the early layers
    #[arg(long, value_name = "X", default_value_t = Rule::DEFAULT.absolute, value_parser = tolerance)]
    absolute: f64,
    /// Last encoder layer held to it: the one before the massive activation
    #[arg(long, value_name = "LAYER", default_value_t = Rule::DEFAULT.absolute_until)]
    absolute_until: usize,
    /// Largest error of later states, relative to the magnitude of their position
    #[arg(long, value_name = "X", default_value_t = Rule::DEFAULT.relative, value_parser = tolerance)]
    relative: f64,
    /// Largest error of logits, relative to their magnitude or 1
    #[arg(long, value_name = "X", default_value_t = Rule::DEFAULT.logit, value_parser = tolerance)]
    logit: f64,
}

/// Rows that are traced when nobody says.
const N_ROWS: usize = 16;

fn mutation_names() -> PossibleValuesParser {
    let names = Mutation::all().into_iter().map(|mutation| mutation.name);
    PossibleValuesParser::new(names.chain(["all"]))
}

fn row_count(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        text => text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "it is a number of rows, or all".into()),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0);
    value.ok_or_else(|| "it is a number above 0".into())
}

/// The mistakes of those names, each once.
fn mutations(names: &[String]) -> Vec<Mutation> {
    let is_named = |mutation: &Mutation| names.iter().any(|name| name == "all" || name == mutation.name);
    Mutation::all().into_iter().filter(is_named).collect()
}

/// Compares, shows and judges.
pub(super) fn run(arguments: LayersArguments) -> Result<Exit, Stop> {
    let LayersArguments { corpus, model, reference, candidate_model, mutate, rows, sides, rule, json, svg } = arguments;
    let mutations = mutations(&mutate);
    if reference.is_none() && candidate_model.is_none() && !sides.candidate_is_given() && mutations.is_empty() {
        let message = "there is nothing to compare the model with: name --candidate-model, --candidate-isa, \
                       --candidate-threads, --candidate-plan, --reference or --mutate";
        return Err(Error::new(ErrorKind::Usage, message).into());
    }
    let RuleArguments { absolute, absolute_until, relative, logit } = rule;
    let rule = Rule { absolute, absolute_until, relative, logit };
    check_files(&corpus, &model.name()?, [&reference, &candidate_model], [&json, &svg])?;
    let corpus_file = Corpus::read(&corpus)?;
    let dump = reference.as_deref().map(Dump::open).transpose()?;
    let model = model.file(TOOL)?;
    let candidate_path = candidate_model.clone().unwrap_or_else(|| model.path.clone());
    let candidate = Engine::open(&candidate_path, &sides.candidate()?)?;
    // The candidate itself where nothing tells the two apart but a mistake.
    let is_other = dump.is_none() && (candidate_model.is_some() || sides.candidate_is_given());
    let mut base = is_other.then(|| Engine::open(&model.path, &sides.baseline()?)).transpose()?;
    if base.as_ref().is_some_and(|base| side::are_same((&model.path, base), (&candidate_path, &candidate))) {
        if mutations.is_empty() {
            let how = side::line(&candidate_path, &candidate);
            let message = format!("both sides are {how}; a side compared with itself shows nothing");
            return Err(Error::new(ErrorKind::Usage, message).into());
        }
        base = None;
    }

    let chosen = choose(&corpus_file, &corpus, &rows, base.as_ref().unwrap_or(&candidate), dump.as_ref())?;
    if base.is_some() && candidate_model.is_some() {
        same_rows(&candidate, &corpus_file, &chosen)?;
    }
    let side = |engine| Side { engine, plan: Engine::plan(engine) };
    let baseline = match &dump {
        Some(dump) => Baseline::Dump(dump),
        None => Baseline::Engine(side(base.as_ref().unwrap_or(&candidate))),
    };
    let progress = Progress::over_records(chosen.len() as u64);
    let comparisons = compare(baseline, side(&candidate), &chosen, &rule, &mutations, &mut || progress.done())?;
    drop(progress);

    let is_itself = dump.is_none() && base.is_none();
    let name_of_base = reference.as_ref().unwrap_or(&model.path);
    if let Some(path) = &svg {
        // A candidate that is its own baseline has no error to draw.
        let shown = if is_itself { &comparisons[1..] } else { &comparisons[..] };
        let n_tokens: usize = chosen.iter().map(|row| row.ids.len()).sum();
        let subtitle = format!(
            "{} against {}; {} rows, {n_tokens} tokens",
            file_name(&candidate_path),
            if is_itself { "itself".into() } else { file_name(name_of_base) },
            chosen.len()
        );
        destination::write(path, &plot(shown, "Error against depth", &printable(&subtitle)))?;
    }
    let of_base = match (&dump, &base) {
        (Some(_), _) => printable(&name_of_base.display().to_string()),
        (None, Some(base)) => side::line(name_of_base, base),
        (None, None) => "the candidate without a mistake".into(),
    };
    let lines = [format!("baseline:  {of_base}"), format!("candidate: {}", side::line(&candidate_path, &candidate))];
    let config = candidate.config().clone();
    if let Some(path) = &json {
        let of_candidate = side::identity(&candidate_path, candidate, &corpus_file)?;
        let of_base = match (&dump, base) {
            (Some(dump), _) => side::of_dump(name_of_base, dump),
            (None, Some(base)) => side::identity(name_of_base, base, &corpus_file)?,
            (None, None) => of_candidate.clone(),
        };
        let mut object = Object::new();
        object.insert("schema", "laya-parity-layers/1");
        object.insert("baseline", of_base);
        object.insert("candidate", of_candidate);
        object.extend(report(&comparisons, &chosen, &rule));
        destination::write(path, &(Value::Object(object).dumps_indent(1) + "\n"))?;
    }
    judge(&comparisons, &chosen, &rule, &config, &lines, !is_itself)
}

/// Refuses, before any work, outputs that cannot be written or are inputs.
fn check_files(
    corpus: &Path,
    model: &Path,
    inputs: [&Option<PathBuf>; 2],
    outputs: [&Option<PathBuf>; 2],
) -> Result<()> {
    let given = |paths: [&'_ Option<PathBuf>; 2]| paths.into_iter().flatten().cloned().collect::<Vec<_>>();
    let (inputs, outputs) = (given(inputs), given(outputs));
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).chain([corpus, model]).collect();
    destination::check(&outputs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &inputs)
}

/// The rows to trace.
fn choose(
    corpus: &Corpus,
    path: &Path,
    arguments: &RowArguments,
    engine: &Engine,
    dump: Option<&Dump>,
) -> Result<Vec<TracedRow>> {
    let ids: HashSet<&str> = corpus.items.iter().map(|item| item.id.as_str()).collect();
    if let Some(id) = arguments.items.iter().find(|id| !ids.contains(id.as_str())) {
        return Err(Error::new(ErrorKind::Usage, format!("has no item {id:?}; --item names an id of it")).in_file(path));
    }
    let (mut rows, mut n_refused) = (Vec::new(), 0);
    for item in corpus.items.iter().filter(|item| arguments.items.is_empty() || arguments.items.contains(&item.id)) {
        match rows_of(engine, &item.id, &item.body) {
            Ok(found) => rows.extend(found),
            Err(error) if arguments.items.is_empty() => {
                n_refused += 1;
                if n_refused == 1 {
                    stderr::note(TOOL, &format!("left out: item {:?} is refused: {error}", item.id));
                }
            }
            Err(error) => {
                let message = format!("item {:?} is refused: {error}", item.id);
                return Err(Error::new(error.kind(), message).in_file(path));
            }
        }
    }
    if n_refused > 1 {
        stderr::note(TOOL, &format!("left out: {n_refused} refused items in all"));
    }
    if let Some(dump) = dump {
        rows.retain(|row| dump.holds(row));
        check_dump(dump, &rows, arguments).map_err(|error| error.in_file(path))?;
    }
    if rows.is_empty() {
        return Err(Error::new(ErrorKind::Request, "has no item this model answers").in_file(path));
    }
    let default = if dump.is_some() || !arguments.items.is_empty() { usize::MAX } else { N_ROWS };
    Ok(pick(rows, arguments.rows.unwrap_or(default)))
}

/// Refuses to leave out rows of a dump that nobody left out; `rows` are those of it that the corpus has.
fn check_dump(dump: &Dump, rows: &[TracedRow], arguments: &RowArguments) -> Result<()> {
    let refused = |message: String| Err(Error::new(ErrorKind::Mismatch, message));
    if let Some(id) = arguments.items.iter().find(|id| !rows.iter().any(|row| row.item == **id)) {
        return refused(format!("the dump has no row of the item {id:?}; leave it out, or make the dump with --item"));
    }
    let n = dump.rows().count();
    if rows.is_empty() {
        return refused(format!("none of the dump's {n} rows is of this corpus; name the corpus it was made from"));
    }
    let known: HashSet<String> = rows.iter().map(TracedRow::name).collect();
    let missing: Vec<&str> = dump.rows().filter(|name| !known.contains(*name)).collect();
    match missing.first() {
        Some(first) if arguments.items.is_empty() && arguments.rows.is_none() => refused(format!(
            "{} of the dump's {n} rows would not be compared, the first of them {first}: this corpus has no such row, or \
             its item is refused; name the corpus the dump was made from, or say by --item or --rows what to compare",
            missing.len()
        )),
        Some(_) if arguments.items.is_empty() => {
            stderr::note(TOOL, &format!("rows of the dump that this corpus does not have: {}", missing.len()));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Refuses a candidate that reads the chosen items as other rows.
fn same_rows(candidate: &Engine, corpus: &Corpus, chosen: &[TracedRow]) -> Result<()> {
    for item in corpus.items.iter().filter(|item| chosen.iter().any(|row| row.item == item.id)) {
        let theirs = rows_of(candidate, &item.id, &item.body)?;
        if let Some(row) = chosen.iter().find(|row| row.item == item.id && !theirs.contains(row)) {
            let message = format!(
                "the candidate reads {} as other tokens; it has another vocabulary or budget, so it is another model",
                row.name()
            );
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Prints tables and says what follows.
fn judge(
    comparisons: &[Comparison],
    rows: &[TracedRow],
    rule: &Rule,
    config: &Config,
    sides: &[String],
    is_shown: bool,
) -> Result<Exit, Stop> {
    let mut stdout = Stdout::open();
    for line in sides {
        stdout.line(line.clone())?;
    }
    stdout.line(String::new())?;
    let mut fails = false;
    let (faithful, controls) = comparisons.split_first().map_or((None, comparisons), |(a, b)| (Some(a), b));
    // A candidate that is its own baseline is past tolerance only where it is broken on both sides.
    let is_past = faithful.is_some_and(|faithful| faithful.outcome() != Outcome::Passes);
    let shows_faithful = is_shown || is_past || controls.is_empty();
    if let Some(faithful) = faithful.filter(|_| shows_faithful) {
        stdout.line(table::nodes(faithful))?;
        stdout.line(String::new())?;
        stdout.line(table::verdict(faithful, rows))?;
        fails |= is_past;
        if let Some(until) = faithful.early_until(rule) {
            let advice = format!(
                "numbers of this model are so large from layer {} on that float32 cannot hold the absolute bar there; where \
                 that is the model's massive activation: --absolute-until {until}",
                until + 1
            );
            stderr::note(TOOL, &advice);
        }
    }
    if !controls.is_empty() {
        if shows_faithful {
            stdout.line(String::new())?;
        }
        stdout.line(table::controls(controls))?;
        stdout.line(String::new())?;
        stdout.line(table::controls_verdict(controls))?;
        if is_past {
            let advice = "make it pass first, by other bars or another baseline";
            stderr::error(
                TOOL,
                &format!("the candidate is past tolerance without a mistake, so none is judged: {advice}"),
            );
        }
        for control in controls {
            let Some(mutation) = control.mutation else { continue };
            match control.outcome() {
                Outcome::Fails | Outcome::NotJudged => {}
                Outcome::Passes => {
                    fails = true;
                    let advice = "the gate would not notice this mistake: tighten the rule, or give rows that show it";
                    stderr::error(TOOL, &format!("{} passes: {advice}", mutation.name));
                }
                Outcome::NotExercised => {
                    fails = true;
                    let advice = mutation.advice(config, rows);
                    stderr::error(TOOL, &format!("{} is not exercised: {advice}", mutation.name));
                }
            }
        }
    }
    Ok(if fails { Exit::Failed } else { Exit::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_made_once_and_in_order() {
        let names = |list: &[&str]| -> Vec<_> {
            let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
            mutations(&list).into_iter().map(|mutation| mutation.name).collect()
        };
        assert_eq!(names(&["tanh-gelu", "all-local", "tanh-gelu"]), ["all-local", "tanh-gelu"]);
        assert_eq!(names(&["tanh-gelu", "all"]).len(), 10);
        assert_eq!(row_count("all"), Ok(usize::MAX));
        assert!(row_count("0").is_err() && tolerance("0").is_err() && tolerance("nan").is_err());
    }
}
