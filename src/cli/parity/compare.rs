//! `parity-gate compare`: candidates against a baseline.

use super::EXIT_HELP;
use super::tiers::TiersArgument;
use crate::cli::exit::{Exit, Stop};
use crate::cli::stdout::Stdout;
use crate::cli::table::table;
use crate::cli::{destination, escape};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::parity::gate::{Failure, Judged, Options, Verdict, judge};
use crate::parity::tier::Tier;
use crate::parity::{GATES, Run};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use std::path::{Path, PathBuf};

const LONG_ABOUT: &str = "\
Judges candidates against a baseline by a tier.

  strict-f32  F32 weights against the published package under PyTorch: every public number is
              the package's four digits, or one step away
  f16-class   the same model file on another backend, against its CPU run: close probabilities,
              another answer only where the baseline was undecided
  bit-exact   two runs under one numeric contract: every logit, answer and refusal is the same

Runs that do not belong together are refused with the reason: another corpus or subset, other
weights or model file, another class of activations, a backend the tier is not for. Only questions
with the same input tokens are compared; a question that is missing, read differently or refused
fails, unless the tier lists it as a known difference or both sides refuse a state of null. Under
bit-exact two refusals that say the same are the same result.

One row a candidate is printed, and below it why it was refused and what failed first; --json has
more. A verdict by tiers that are not the registered ones says so.";

const EXAMPLES: &str = "\
Examples:
  parity-gate compare reference.jsonl cpu.jsonl --gate strict-f32
  parity-gate compare cpu-f16.jsonl gpu-f16.jsonl --gate f16-class --json gate.json
  parity-gate compare scalar.jsonl avx2.jsonl avx512.jsonl --gate bit-exact
  parity-gate compare cpu-f32.jsonl cpu-f16.jsonl --gate f16-class --allow-identity-mismatch
";

/// Reasons and failures of a candidate that are shown.
const SHOWN: usize = 10;

/// Arguments of `parity-gate compare`.
#[derive(Debug, clap::Args)]
#[command(about = "Judges candidate runs against a baseline run", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
pub(super) struct CompareArguments {
    /// The run that is taken to be right
    #[arg(value_name = "BASELINE")]
    baseline: PathBuf,
    /// The runs to judge
    #[arg(value_name = "CANDIDATE", required = true)]
    candidates: Vec<PathBuf>,
    /// The tier to judge by
    #[arg(long, value_name = "TIER", value_parser = tier())]
    gate: Tier,
    /// The row of f16-class, if not that of the candidate's weights or quantized activations
    #[arg(long, value_name = "CLASS")]
    weights: Option<String>,
    #[command(flatten)]
    tiers: TiersArgument,
    /// Compare runs that do not belong together: a diagnosis, not a verdict to rely on
    #[arg(long)]
    allow_identity_mismatch: bool,
    /// Write the results with both identities
    #[arg(long, value_name = "OUT.json")]
    json: Option<PathBuf>,
}

fn tier() -> impl clap::builder::TypedValueParser<Value = Tier> {
    PossibleValuesParser::new(Tier::ALL.map(Tier::as_str)).try_map(|name| Tier::from_name(&name).ok_or("no such tier"))
}

/// Does what the arguments ask for. A run that cannot be read keeps all others from being judged.
pub(super) fn run(arguments: CompareArguments) -> Result<Exit, Stop> {
    let CompareArguments { baseline, candidates, gate, weights, tiers, allow_identity_mismatch, json } = arguments;
    if weights.is_some() && gate != Tier::F16Class {
        let message = format!("--weights chooses a row of f16-class; {} has none", gate.as_str());
        return Err(Error::new(ErrorKind::Usage, message).into());
    }
    check_files(&baseline, &candidates, tiers.file(), json.as_deref())?;
    let tiers_file = tiers.file().map(shown);
    let tiers = tiers.read()?;
    let options = Options { tiers: &tiers, tier: gate, weights: weights.as_deref(), allow_identity_mismatch };
    let run = Run::read(&baseline)?;
    let mut judged = Vec::new();
    let mut results = Vec::new();
    for path in &candidates {
        let candidate = Run::read(path)?;
        let of_candidate = judge(&run, &candidate, options)?;
        if json.is_some() {
            let mut result = Object::new();
            result.insert("candidate", shown(path));
            result.extend(of_candidate.to_json(&run.identity, &candidate.identity));
            results.push(Value::Object(result));
        }
        judged.push((path, of_candidate));
    }
    if let Some(path) = &json {
        let mut file = Object::new();
        file.insert("schema", GATES);
        file.insert("baseline", shown(&baseline));
        file.insert("candidates", Value::Array(results));
        write(path, &Value::Object(file))?;
    }
    let mut stdout = Stdout::open();
    stdout.line(rows(&judged, tiers_file.as_deref()))?;
    for (path, judged) in &judged {
        for line in remarks(path, judged) {
            stdout.line(line)?;
        }
    }
    let any = |verdict| judged.iter().any(|(_, judged)| judged.verdict == verdict);
    Ok(if any(Verdict::Fail) {
        Exit::Failed
    } else if any(Verdict::Refused) {
        Exit::Refused
    } else {
        Exit::Done
    })
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Writes `value` for people to read and machines to parse.
pub(super) fn write(path: &Path, value: &Value) -> Result<()> {
    destination::write(path, &(value.dumps_indent(1) + "\n"))
}

/// Refuses an output that is an input, and a run that would be compared with itself.
fn check_files(baseline: &Path, candidates: &[PathBuf], tiers: Option<&Path>, json: Option<&Path>) -> Result<()> {
    if let Some(path) = candidates.iter().find(|path| destination::is_same(path, baseline)) {
        let message = "is the baseline; a run compared with itself shows nothing";
        return Err(Error::new(ErrorKind::Usage, message).in_file(path));
    }
    let inputs: Vec<_> = candidates.iter().map(PathBuf::as_path).chain([baseline]).chain(tiers).collect();
    destination::check(json.as_slice(), &inputs)
}

/// The verdict, and why it says less than it seems to: runs that do not belong together, or tiers of a `file` that are
/// not the registered ones.
fn verdict(judged: &Judged, file: Option<&str>) -> String {
    let mut remarks = Vec::new();
    if judged.is_diagnostic() {
        remarks.push("diagnostic".to_owned());
    }
    if !judged.tiers_registered {
        remarks.push(format!("tiers of {}", escape::printable(file.unwrap_or("another program"))));
    }
    let verdict = judged.verdict.as_str();
    if remarks.is_empty() { verdict.to_owned() } else { format!("{verdict} ({})", remarks.join(", ")) }
}

fn rows(judged: &[(&PathBuf, Judged)], tiers: Option<&str>) -> String {
    const HEADER: [&str; 9] =
        ["candidate", "verdict", "compared", "flips", "max |dp|", "mean |dp|", "max error", "act rel", "failures"];
    let mut table = table(&HEADER, 2);
    for (path, judged) in judged {
        let mut row = vec![escape::printable(&shown(path)), verdict(judged, tiers)];
        match &judged.comparison {
            None => row.resize(HEADER.len(), "-".to_owned()),
            Some(found) => {
                row.push(format!("{} of {}", found.n_compared, found.n_questions));
                row.push(match (found.flips.len(), found.n_allowed_flips()) {
                    (0, _) => "0".to_owned(),
                    (n, allowed) => format!("{n}, {allowed} allowed"),
                });
                let errors = &found.max_abs_error;
                row.extend([errors.prob, found.mean_abs_dp(), errors.largest()].map(number));
                row.push(if found.n_act_checked == 0 { "-".to_owned() } else { number(found.act_max_rel_dlogit) });
                row.push(found.n_failures.to_string());
            }
        }
        table.add_row(row);
    }
    table.trim_fmt()
}

/// An error in three digits.
pub(super) fn number(error: f64) -> String {
    if error == 0.0 { "0".to_owned() } else { format!("{error:.2e}") }
}

/// Why a candidate was refused, what was not compared or differs as is known, and what failed.
fn remarks(path: &Path, judged: &Judged) -> Vec<String> {
    let of = escape::printable(&shown(path));
    let mut lines = Vec::new();
    let how = if judged.comparison.is_some() { "not the same" } else { "refused" };
    for mismatch in &judged.mismatches {
        lines.push(format!("{of}: {how}: {}: {}", mismatch.key, escape::printable(&mismatch.reason)));
    }
    let Some(found) = &judged.comparison else { return lines };
    for (difference, n) in crate::parity::tier::Difference::ALL.iter().zip(found.known_differences) {
        if n > 0 {
            lines.push(format!("{of}: known difference: {} ({n})", difference.as_str()));
        }
    }
    if found.n_both_refused > 0 {
        lines.push(format!("{of}: items both sides refuse: {}", found.n_both_refused));
    }
    for failure in found.failures.iter().take(SHOWN) {
        lines.push(format!("{of}: {}", line(failure)));
    }
    let n_more = found.n_failures.saturating_sub(SHOWN as u64);
    if n_more > 0 {
        lines.push(format!("{of}: {n_more} failures more"));
    }
    lines
}

fn line(failure: &Failure) -> String {
    let place = match (&failure.item, &failure.question) {
        (Some(item), Some(question)) => format!("item {item}, question {question}: "),
        (Some(item), None) => format!("item {item}: "),
        _ => String::new(),
    };
    escape::printable(&format!("{}: {place}{}", failure.rule.as_str(), failure.what))
}
