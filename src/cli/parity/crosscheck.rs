//! `parity-gate crosscheck`: generative backends against each other.

use super::TOOL;
use crate::cli::destination;
use crate::cli::escape::printable;
use crate::cli::exit::{Exit, Stop};
use crate::cli::progress::Progress;
use crate::cli::stderr;
use crate::cli::stdout::Stdout;
use crate::cli::table::table;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::parity::Endpoint;
use crate::parity::crosscheck::{
    Agreement, BUILT_IN, Backend, Disagreement, Mode, Prefix, Recording, agreements, check_baseline, check_candidate,
    prefixes, rate, read_prompts,
};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ABOUT: &str = "Compares two generative backends token by token";

const LONG_ABOUT: &str = "\
Compares two generative backends token by token. Each is the URL of a server with the /tokenize and
/completion of llama.cpp's llama-server, or a run that was recorded from one with --record. Only
token ids are compared, never text.

argmax asks whether the forward pass is right: the baseline's own tokens are replayed through the
candidate, and at each position its most probable token is compared with the baseline's. A near tie
that breaks the other way costs one position. Fails below --threshold.

greedy asks whether free generation matches: both generate, and the first token that differs is
judged by the baseline's gap there, the log-probability of its own token over the candidate's. After
a near tie two correct programs write different texts, so only a confident divergence fails: one at
a gap of --confident-gap or more. So does one whose gap is not known: the candidate's token is not
among the ten that the baseline finds most probable, or the server gave no probabilities.";

const EXAMPLES: &str = "\
Examples:
  parity-gate crosscheck http://127.0.0.1:8080 http://127.0.0.1:8081 --mode argmax
  parity-gate crosscheck http://127.0.0.1:8080 --record baseline.jsonl
  parity-gate crosscheck baseline.jsonl http://127.0.0.1:8081 --mode greedy --json out.json

Exit codes:
  0    the candidate agrees; with no candidate, the run is recorded
  1    the work failed, or the candidate does not agree; stderr says why
  2    refused: the runs have other prompts, or the backends other vocabularies
  64   the command line makes no sense
  130  interrupted (Ctrl-C), as a shell reports it";

/// Arguments of `parity-gate crosscheck`.
#[derive(Debug, clap::Args)]
#[command(about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES, arg_required_else_help = true)]
pub(super) struct CrosscheckArguments {
    /// What is compared with: http://HOST:PORT, or a recorded run
    #[arg(value_name = "BASELINE")]
    baseline: String,
    /// What is compared: http://HOST:PORT, or a recorded run
    #[arg(value_name = "CANDIDATE")]
    candidate: Option<String>,
    /// argmax: replay the baseline's tokens; greedy: let both generate [default: argmax]
    #[arg(long, value_name = "MODE", requires = "candidate", value_parser = mode())]
    mode: Option<Mode>,
    /// Prompts, one a line [default: eight built-in ones]. A recorded run has its own
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Tokens to generate a prompt [default: 48]. A recorded run has its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    tokens: Option<u16>,
    /// Least share of positions that must agree (argmax) [default: 0.95]
    #[arg(long, value_name = "SHARE", requires = "candidate", value_parser = share)]
    threshold: Option<f64>,
    /// Smallest gap, in nats, at which a divergence fails (greedy) [default: 0.5]
    #[arg(long, value_name = "NATS", requires = "candidate", value_parser = nats)]
    confident_gap: Option<f64>,
    /// Longest time one answer of a server may take, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Write what the candidate generates here, or the baseline where it is alone; it must be a server
    #[arg(long, value_name = "RUN.jsonl")]
    record: Option<PathBuf>,
    /// Write the comparison here as JSON
    #[arg(long, value_name = "OUT.json", requires = "candidate")]
    json: Option<PathBuf>,
}

/// Tokens a prompt, least share and smallest gap when nobody says.
const N_TOKENS: u16 = 48;
const THRESHOLD: f64 = 0.95;
const CONFIDENT_GAP: f64 = 0.5;

/// Most characters of a prompt in a table.
const SHOWN: usize = 40;

fn mode() -> impl clap::builder::TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::as_str))
        .map(|name| Mode::ALL.into_iter().find(|mode| mode.as_str() == name).unwrap_or(Mode::Argmax))
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x| (0.0..=1.0).contains(x)).ok_or_else(|| "it is a share from 0 to 1".into())
}

fn nats(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0).ok_or_else(|| "it is a number, 0 or more".into())
}

/// Whether a side is a server, not a file.
fn is_url(name: &str) -> bool {
    name.contains("://")
}

/// One side.
enum Side {
    Server(Backend),
    Recorded(Recording),
}

impl Side {
    fn open(name: &str, timeout: Duration) -> Result<Self> {
        if is_url(name) {
            return Ok(Self::Server(Backend::new(Endpoint::with_timeout(name, timeout)?)));
        }
        Ok(Self::Recorded(Recording::read(Path::new(name))?))
    }

    fn recorded(&self) -> Option<&Recording> {
        match self {
            Self::Recorded(recording) => Some(recording),
            Self::Server(_) => None,
        }
    }
}

/// Generates what is not recorded, compares, and judges.
pub(super) fn run(arguments: CrosscheckArguments) -> Result<Exit, Stop> {
    let usage = |message: &str| Stop::from(Error::new(ErrorKind::Usage, message));
    if arguments.candidate.is_none() && arguments.record.is_none() {
        return Err(usage("there is nothing to compare the baseline with: name a candidate, or --record the baseline"));
    }
    let mode = arguments.mode.unwrap_or(Mode::Argmax);
    for (option, is_given, of) in [
        ("--threshold", arguments.threshold.is_some(), Mode::Argmax),
        ("--confident-gap", arguments.confident_gap.is_some(), Mode::Greedy),
    ] {
        if is_given && mode != of {
            let (mode, of) = (mode.as_str(), of.as_str());
            return Err(usage(&format!("{option} is of mode {of}, and this is mode {mode}; leave it out")));
        }
    }
    check_files(&arguments)?;
    let timeout = Duration::from_secs(arguments.timeout);
    let baseline = Side::open(&arguments.baseline, timeout)?;
    let candidate = arguments.candidate.as_deref().map(|name| Side::open(name, timeout)).transpose()?;
    if arguments.record.is_some() && candidate.as_ref().unwrap_or(&baseline).recorded().is_some() {
        return Err(usage("--record writes what a server generates; the side it would write is recorded already"));
    }
    // Before a server is asked for anything.
    if candidate.is_some()
        && let Some(recording) = baseline.recorded()
    {
        check_baseline(recording.mode)?;
    }
    if let Some(recording) = candidate.as_ref().and_then(Side::recorded) {
        check_candidate(recording.mode, mode)?;
    }
    let own = baseline.recorded().or(candidate.as_ref().and_then(Side::recorded));
    if own.is_some() && (arguments.prompts.is_some() || arguments.tokens.is_some()) {
        return Err(usage("a recorded run has its own prompts and number of tokens; leave out --prompts and --tokens"));
    }
    let prompts = match (own, &arguments.prompts) {
        (Some(recording), _) => recording.passages.iter().map(|passage| passage.prompt.clone()).collect(),
        (None, Some(path)) => distinct(read_prompts(path)?),
        (None, None) => BUILT_IN.map(str::to_owned).to_vec(),
    };
    let n_tokens = own.map_or_else(|| usize::from(arguments.tokens.unwrap_or(N_TOKENS)), |own| own.n_tokens);
    let is_server = |side: &Side| usize::from(side.recorded().is_none());
    let n_sides = is_server(&baseline) + candidate.as_ref().map_or(0, is_server);
    let progress = Progress::over_records((prompts.len() * n_sides) as u64);

    let baseline = match baseline {
        Side::Recorded(recording) => recording,
        Side::Server(backend) => backend.generate(&prompts, n_tokens, &mut || progress.done())?,
    };
    let Some(candidate) = candidate else {
        drop(progress);
        record(arguments.record.as_deref(), &baseline)?;
        return Ok(Exit::Done);
    };
    let candidate = match (candidate, mode) {
        (Side::Recorded(recording), _) => recording,
        (Side::Server(backend), Mode::Argmax) => backend.replay(&baseline, &mut || progress.done())?,
        (Side::Server(backend), Mode::Greedy) => backend.follow(&baseline, &mut || progress.done())?,
    };
    drop(progress);
    record(arguments.record.as_deref(), &candidate)?;
    match mode {
        Mode::Argmax => argmax(&arguments, &baseline, &candidate),
        Mode::Greedy => greedy(&arguments, &baseline, &candidate),
    }
}

/// Refuses, before any work, outputs that cannot be written or are inputs.
fn check_files(arguments: &CrosscheckArguments) -> Result<()> {
    let sides = [Some(&arguments.baseline), arguments.candidate.as_ref()].into_iter().flatten();
    let mut inputs: Vec<&Path> = sides.filter(|name| !is_url(name)).map(Path::new).collect();
    inputs.extend(arguments.prompts.as_deref());
    let outputs = [&arguments.record, &arguments.json].into_iter().flatten();
    destination::check(&outputs.map(PathBuf::as_path).collect::<Vec<_>>(), &inputs)
}

/// Writes what a server generated where that is asked for.
fn record(path: Option<&Path>, recording: &Recording) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    destination::write(path, &recording.to_text())?;
    let n_tokens: usize = recording.passages.iter().map(|passage| passage.steps.len()).sum();
    let n = recording.passages.len();
    stderr::line(&format!("wrote {} ({n} prompts, {n_tokens} tokens)", path.display()));
    Ok(())
}

/// Each prompt once, in order.
fn distinct(prompts: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    prompts.into_iter().filter(|prompt| seen.insert(prompt.clone())).collect()
}

/// Every position by teacher forcing.
fn argmax(arguments: &CrosscheckArguments, baseline: &Recording, candidate: &Recording) -> Result<Exit, Stop> {
    let found = agreements(baseline, candidate)?;
    let rate = rate(&found).ok_or_else(|| {
        Error::new(ErrorKind::Mismatch, "there is no position to compare: the baseline generated no token")
    })?;
    let threshold = arguments.threshold.unwrap_or(THRESHOLD);
    let passes = rate >= threshold;
    if let Some(path) = &arguments.json {
        let mut object = report(Mode::Argmax, baseline, candidate);
        object.insert("threshold", threshold);
        object.insert("agreement", rate);
        object.insert("pass", passes);
        object.insert("prompts", found.iter().map(agreement).collect::<Value>());
        destination::write(path, &(Value::Object(object).dumps_indent(1) + "\n"))?;
    }
    let mut rows = table(&["prompt", "agree", "of", "share", "largest gap where not"], 1);
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    for one in &found {
        let gaps = one.disagreements.iter().map(|one| one.gap);
        let largest = gaps.reduce(|a, b| Some(a?.max(b?)));
        rows.add_row([
            shown(&one.prompt),
            one.n_agree().to_string(),
            one.n_total.to_string(),
            if one.n_total == 0 { "-".into() } else { percent(one.n_agree() as f64 / one.n_total as f64) },
            largest.map_or_else(|| "-".into(), gap),
        ]);
    }
    let mut stdout = Stdout::open();
    stdout.line(rows.trim_fmt())?;
    stdout.line(String::new())?;
    let n_agree: usize = found.iter().map(Agreement::n_agree).sum();
    let n_total: usize = found.iter().map(|one| one.n_total).sum();
    let verdict = if passes { "pass" } else { "fail" };
    let (rate, threshold) = (percent(rate), percent(threshold));
    stdout.line(format!("{verdict}: {n_agree} of {n_total} positions agree, {rate}; the threshold is {threshold}"))?;
    Ok(if passes { Exit::Done } else { Exit::Failed })
}

/// The first difference of free generation.
fn greedy(arguments: &CrosscheckArguments, baseline: &Recording, candidate: &Recording) -> Result<Exit, Stop> {
    let found = prefixes(baseline, candidate)?;
    if found.is_empty() {
        return Err(Error::new(ErrorKind::Mismatch, "there is no prompt to compare").into());
    }
    let confident = arguments.confident_gap.unwrap_or(CONFIDENT_GAP);
    let n_failing = found.iter().filter(|one| one.fails(confident)).count();
    if let Some(path) = &arguments.json {
        let mut object = report(Mode::Greedy, baseline, candidate);
        object.insert("confident_gap", confident);
        object.insert("pass", n_failing == 0);
        object.insert("prompts", found.iter().map(|one| prefix(one, confident)).collect::<Value>());
        destination::write(path, &(Value::Object(object).dumps_indent(1) + "\n"))?;
    }
    let mut rows = table(&["prompt", "verdict", "common", "of", "baseline's gap there"], 2);
    for one in &found {
        let verdict = match one.divergence {
            None => "equal",
            Some(divergence) if divergence.gap.is_none() => "NOT KNOWN",
            Some(_) if one.fails(confident) => "CONFIDENT",
            Some(_) => "near tie",
        };
        rows.add_row([
            shown(&one.prompt),
            verdict.into(),
            one.n_common.to_string(),
            one.n_total.to_string(),
            one.divergence.map_or_else(|| "-".into(), |divergence| gap(divergence.gap)),
        ]);
    }
    let mut stdout = Stdout::open();
    stdout.line(rows.trim_fmt())?;
    stdout.line(String::new())?;
    let (verdict, n) = (if n_failing == 0 { "pass" } else { "fail" }, found.len());
    let n_apart = found.iter().filter(|one| one.divergence.is_some()).count();
    let line = format!(
        "{verdict}: {n_apart} of {n} prompts part, {n_failing} of them at a gap of {confident} nats or more, or not known"
    );
    stdout.line(line)?;
    if found.iter().any(|one| one.divergence.is_some_and(|divergence| divergence.gap.is_none())) {
        let message = "where a gap is not known the divergence counts as confident: the candidate's token is not among the \
                       most probable ones of the baseline, its server gave no probabilities, as inside a character of \
                       several tokens, or one side ran out of room";
        stderr::note(TOOL, message);
    }
    Ok(if n_failing == 0 { Exit::Done } else { Exit::Failed })
}

/// What both reports begin with.
fn report(mode: Mode, baseline: &Recording, candidate: &Recording) -> Object {
    let side = |recording: &Recording| {
        let mut object = Object::new();
        object.insert("server", recording.server.as_str());
        object.insert("model", recording.model.clone());
        object
    };
    let mut object = Object::new();
    object.insert("schema", "laya-parity-crosscheck/1");
    object.insert("mode", mode.as_str());
    object.insert("n_tokens", baseline.n_tokens);
    object.insert("baseline", side(baseline));
    object.insert("candidate", side(candidate));
    object
}

fn agreement(one: &Agreement) -> Value {
    let mut object = Object::new();
    object.insert("prompt", one.prompt.as_str());
    object.insert("n_agree", one.n_agree());
    object.insert("n_total", one.n_total);
    object.insert("disagreements", one.disagreements.iter().map(disagreement).collect::<Value>());
    Value::Object(object)
}

fn prefix(one: &Prefix, confident_gap: f64) -> Value {
    let mut object = Object::new();
    object.insert("prompt", one.prompt.as_str());
    object.insert("n_common", one.n_common);
    object.insert("n_total", one.n_total);
    object.insert("divergence", one.divergence.as_ref().map(disagreement));
    object.insert("pass", !one.fails(confident_gap));
    Value::Object(object)
}

fn disagreement(one: &Disagreement) -> Value {
    let mut object = Object::new();
    object.insert("position", one.position);
    object.insert("baseline", one.baseline);
    object.insert("candidate", one.candidate);
    object.insert("gap", one.gap);
    Value::Object(object)
}

fn gap(nats: Option<f64>) -> String {
    nats.map_or_else(|| "not known".into(), |nats| format!("{nats:.4}"))
}

/// A prompt as it fits a table.
fn shown(prompt: &str) -> String {
    let line = printable(prompt);
    if line.chars().count() <= SHOWN {
        return line;
    }
    line.chars().take(SHOWN - 3).collect::<String>() + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_out_of_range() {
        assert!(share("1.01").is_err() && share("nan").is_err() && nats("-1").is_err() && nats("inf").is_err());
        assert_eq!((share("1"), nats("0")), (Ok(1.0), Ok(0.0)));
        assert_eq!(distinct(["a", "b", "a"].map(str::to_owned).to_vec()), ["a", "b"]);
    }

    #[test]
    fn prompts_fit_their_column() {
        assert_eq!(shown("a\n\u{1b}[2J"), "a\\n\\u{1b}[2J");
        assert_eq!(shown(&"x".repeat(50)).chars().count(), SHOWN);
    }
}
