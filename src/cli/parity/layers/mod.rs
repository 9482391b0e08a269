//! `parity-gate layers`: where two computations part.

mod table;

use super::TOOL;
use crate::cli::engine::{choice, plan};
use crate::cli::exit::{Exit, Stop};
use crate::cli::model::ModelArguments;
use crate::cli::progress::Progress;
use crate::cli::stderr;
use crate::cli::stdout::Stdout;
use crate::engine::{Engine, Options, Plan};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::write_atomic;
use crate::json::{Object, Value};
use crate::kernels::{InstructionSet, NUMERIC_CONTRACT};
use crate::parity::Corpus;
use crate::parity::layers::{
    Baseline, Comparison, Dump, Mutation, Outcome, Rule, Side, TracedRow, compare, pick, plot, report, rows_of,
};
use clap::builder::PossibleValuesParser;
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
comparison must fail. It says where first, and by how many times the bar.";

const EXAMPLES: &str = "\
Examples:
  parity-gate layers corpus.jsonl -m model.gguf --mutate all --svg controls.svg
  parity-gate layers corpus.jsonl -m f32.gguf --candidate-model f16.gguf
  parity-gate layers corpus.jsonl -m model.gguf --base-isa scalar --candidate-isa avx2
  parity-gate layers corpus.jsonl -m model.gguf --reference published.safetensors --json out.json

Exit codes:
  0    every node is within tolerance; with --mutate, every mistake is past it
  1    the work failed, or a node is past tolerance, or a mistake is not noticed; stderr says why
  2    refused: the two sides do not compute the same rows or have other nodes
  64   the command line makes no sense
  130  interrupted (Ctrl-C), as a shell reports it";

/// Arguments of `parity-gate layers`.
#[derive(Debug, clap::Args)]
#[command(about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub(super) struct LayersArguments {
    /// Corpus, one item a line
    #[arg(value_name = "CORPUS")]
    corpus: PathBuf,
    #[command(flatten)]
    model: ModelArguments,
    /// Compare with the states in this dump
    #[arg(long, value_name = "DUMP", conflicts_with_all = ["base_isa", "base_threads", "base_plan", "candidate_model"])]
    reference: Option<PathBuf>,
    /// Compare this model file (GGUF) with the other
    #[arg(long, value_name = "MODEL.gguf")]
    candidate_model: Option<PathBuf>,
    /// Make these mistakes, each of which must fail: a list of names, or all
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = mutation_names())]
    mutate: Vec<String>,
    #[command(flatten)]
    rows: RowArguments,
    #[command(flatten)]
    sides: SideArguments,
    #[command(flatten)]
    rule: RuleArguments,
    /// Write the comparison here as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw error against depth here
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

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
#[command(next_help_heading = "How each side computes (a candidate's that is not given is the base's)")]
struct SideArguments {
    /// Instruction set of the base. Without it: $LAYA_ISA, then the widest of this processor
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(InstructionSet::NAMES))]
    base_isa: Option<String>,
    /// Threads of the base [default: one for each physical performance core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    base_threads: Option<u16>,
    /// Plan of the base: whether the questions of an item share a pass
    #[arg(long, value_name = "PLAN", value_parser = plan())]
    base_plan: Option<Plan>,
    /// Instruction set of the candidate
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(InstructionSet::NAMES))]
    candidate_isa: Option<String>,
    /// Threads of the candidate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    candidate_threads: Option<u16>,
    /// Plan of the candidate
    #[arg(long, value_name = "PLAN", value_parser = plan())]
    candidate_plan: Option<Plan>,
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

impl SideArguments {
    fn candidate_is_given(&self) -> bool {
        self.candidate_isa.is_some() || self.candidate_threads.is_some() || self.candidate_plan.is_some()
    }

    fn base(&self) -> Result<Options> {
        let (isa, n_threads) = choice(self.base_isa.as_deref(), self.base_threads)?;
        Ok(Options { isa: Some(isa), n_threads: Some(n_threads), plan: self.base_plan, ..Options::default() })
    }

    fn candidate(&self) -> Result<Options> {
        let (isa, threads) =
            (self.candidate_isa.as_ref().or(self.base_isa.as_ref()), self.candidate_threads.or(self.base_threads));
        let (isa, n_threads) = choice(isa.map(String::as_str), threads)?;
        let plan = self.candidate_plan.or(self.base_plan);
        Ok(Options { isa: Some(isa), n_threads: Some(n_threads), plan, ..Options::default() })
    }
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
    let corpus_file = Corpus::read(&corpus)?;
    let dump = reference.as_deref().map(Dump::open).transpose()?;
    let model = model.file(TOOL)?;
    let candidate_path = candidate_model.clone().unwrap_or_else(|| model.path.clone());
    let candidate = Engine::open(&candidate_path, &sides.candidate()?)?;
    // The candidate itself where nothing tells the two apart but a mistake.
    let is_other = dump.is_none() && (candidate_model.is_some() || sides.candidate_is_given());
    let base = is_other.then(|| Engine::open(&model.path, &sides.base()?)).transpose()?;

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

    let name_of_base = reference.as_ref().unwrap_or(&model.path);
    if let Some(path) = &json {
        let mut object = Object::new();
        object.insert("report", "laya-parity-layers/1");
        object.insert("corpus_sha256", corpus_file.sha256.as_str());
        let mut of_base = Object::new();
        if dump.is_some() {
            of_base.insert("reference", name_of_base.display().to_string());
        } else {
            of_base = described(name_of_base, base.as_ref().unwrap_or(&candidate));
        }
        object.insert("base", of_base);
        object.insert("engine", described(&candidate_path, &candidate));
        object.extend(report(&comparisons, &chosen, &rule));
        let text = Value::Object(object).dumps_indent(2) + "\n";
        write(path, &text)?;
    }
    if let Some(path) = &svg {
        // A candidate that is its own baseline has no error to draw.
        let shown = if dump.is_none() && base.is_none() { &comparisons[1..] } else { &comparisons[..] };
        let n_tokens: usize = chosen.iter().map(|row| row.ids.len()).sum();
        let subtitle = format!(
            "{} against {}; {} rows, {n_tokens} tokens",
            file_name(&candidate_path),
            if dump.is_none() && base.is_none() { "itself".into() } else { file_name(name_of_base) },
            chosen.len()
        );
        write(path, &plot(shown, "Error against depth", &subtitle))?;
    }
    judge(&comparisons, &chosen, &rule, &candidate, dump.is_some() || base.is_some())
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
        let n = dump.n_rows();
        if rows.is_empty() {
            let message = format!("none of the dump's {n} rows is of this corpus; name the corpus it was made from");
            return Err(Error::new(ErrorKind::Mismatch, message).in_file(path));
        }
        if rows.len() < n && arguments.items.is_empty() {
            stderr::note(TOOL, &format!("rows of the dump that this corpus does not have: {}", n - rows.len()));
        }
    }
    if rows.is_empty() {
        return Err(Error::new(ErrorKind::Request, "has no item this model answers").in_file(path));
    }
    let default = if dump.is_some() || !arguments.items.is_empty() { usize::MAX } else { N_ROWS };
    Ok(pick(rows, arguments.rows.unwrap_or(default)))
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

/// An engine, as a report describes it.
fn described(path: &Path, engine: &Engine) -> Object {
    let mut object = Object::new();
    object.insert("model", path.display().to_string());
    object.insert("isa", engine.instruction_set().name());
    object.insert("n_threads", engine.n_threads());
    object.insert("plan", engine.plan().as_str());
    object.insert("numeric_contract", i64::from(NUMERIC_CONTRACT));
    object
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn write(path: &Path, text: &str) -> Result<()> {
    write_atomic(path, |out| out.write_all(text.as_bytes()).map_err(|error| Error::io("cannot write", path, &error)))
}

/// Prints tables and says what follows.
fn judge(
    comparisons: &[Comparison],
    rows: &[TracedRow],
    rule: &Rule,
    engine: &Engine,
    shows_faithful: bool,
) -> Result<Exit, Stop> {
    let mut stdout = Stdout::open();
    let mut fails = false;
    let (faithful, controls) = comparisons.split_first().map_or((None, comparisons), |(a, b)| (Some(a), b));
    if let Some(faithful) = faithful.filter(|_| shows_faithful || controls.is_empty()) {
        stdout.line(table::nodes(faithful))?;
        stdout.line(String::new())?;
        stdout.line(table::verdict(faithful, rows))?;
        fails |= faithful.outcome() != Outcome::Passes;
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
        for control in controls {
            let Some(mutation) = control.mutation else { continue };
            match control.outcome() {
                Outcome::Fails => {}
                Outcome::Passes => {
                    fails = true;
                    let advice = "the gate would not notice this mistake: tighten the rule, or give rows that show it";
                    stderr::error(TOOL, &format!("{} passes: {advice}", mutation.name));
                }
                Outcome::NotExercised => {
                    fails = true;
                    let advice = mutation.advice(engine.config(), rows);
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
