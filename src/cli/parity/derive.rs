//! `parity-gate derive`: numbers of tiers from runs.

use super::TOOL;
use super::compare::{number, write};
use super::tiers::TiersArgument;
use crate::cli::exit::{Exit, Stop};
use crate::cli::stdout::Stdout;
use crate::cli::table::table;
use crate::cli::{destination, escape, stderr};
use crate::error::Result;
use crate::json::{Object, Value};
use crate::parity::Run;
use crate::parity::derive::{Derived, Pair, derive};
use crate::parity::tier::Tiers;
use std::path::{Path, PathBuf};

const LONG_ABOUT: &str = "\
Derives the numbers of the tiers from pairs of runs that are known to be right.

Each number is twice the largest value seen in the pairs of its class, rounded up to one digit. A
pair is of strict-f32 when its baseline is a run of the published package and its candidate has F32
weights, else of the row of f16-class its candidate's weights name. The runs of a pair need not be
of the same model file, but of the same corpus and the same class of activations.

A pair is refused unless both runs hold the whole corpus and every question both answer has the same
input and raw logits: what is left out may be what is far apart.

What is registered stays registered: the table shows both, and --check fails when a value that was
seen is above what is registered, or belongs to a row that is not registered.";

const EXAMPLES: &str = "\
Examples:
  parity-gate derive cpu-f32.jsonl=cpu-f16.jsonl blas-f16.jsonl=cpu-f16.jsonl
  parity-gate derive reference.jsonl=cpu-f32.jsonl --check
  parity-gate derive cpu-f32.jsonl=cpu-f16.jsonl --json derivation.json
";

const EXIT_HELP: &str = "\
Exit codes:
  0    done; with --check everything seen is registered, and nothing is above it
  1    the work failed, or --check found a value above what is registered or of no registered row
  2    the runs of a pair do not belong together, or are incomplete
  64   the command line makes no sense
  130  interrupted (Ctrl-C), as a shell reports it";

/// Arguments of `parity-gate derive`.
#[derive(Debug, clap::Args)]
#[command(about = "Derives the numbers of the tiers from pairs of runs", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
pub(super) struct DeriveArguments {
    /// Pairs of runs, the more exact one first
    #[arg(value_name = "BASELINE=CANDIDATE", required = true, value_parser = pair)]
    pairs: Vec<(PathBuf, PathBuf)>,
    #[command(flatten)]
    tiers: TiersArgument,
    /// Fail when a value that was seen is above what is registered, or nothing is
    #[arg(long)]
    check: bool,
    /// Write the values of every pair and the numbers
    #[arg(long, value_name = "OUT.json")]
    json: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(PathBuf, PathBuf), String> {
    match text.split_once('=') {
        Some((baseline, candidate)) if !baseline.is_empty() && !candidate.is_empty() && !candidate.contains('=') => {
            Ok((baseline.into(), candidate.into()))
        }
        _ => Err("it is two run files with one = between them, such as baseline.jsonl=candidate.jsonl".into()),
    }
}

/// Does what the arguments ask for.
pub(super) fn run(arguments: DeriveArguments) -> Result<Exit, Stop> {
    let DeriveArguments { pairs: files, tiers, check, json } = arguments;
    if let Some(json) = &json {
        let runs = files.iter().flat_map(|(baseline, candidate)| [baseline.as_path(), candidate]);
        destination::check(&[json], &runs.chain(tiers.file()).collect::<Vec<_>>())?;
    }
    let tiers = tiers.read()?;
    let mut pairs = Vec::new();
    let mut is_refused = false;
    for (baseline, candidate) in &files {
        let name = name(baseline, candidate);
        match Pair::new(&name, &Run::read(baseline)?, &Run::read(candidate)?, &tiers) {
            Ok(pair) => pairs.push(pair),
            Err(mismatches) => {
                is_refused = true;
                for mismatch in mismatches {
                    let reason = format!("{name}: refused: {}: {}", mismatch.key, mismatch.reason);
                    stderr::error(TOOL, &escape::printable(&reason));
                }
            }
        }
    }
    if is_refused {
        return Ok(Exit::Refused);
    }
    let numbers = derive(&pairs, &tiers);
    if let Some(path) = &json {
        let mut file = Object::new();
        file.insert("schema", "laya-parity-derivation/1");
        file.insert("tiers_version", tiers.version);
        file.insert("tiers_sha256", tiers.sha256.as_str());
        file.insert("pairs", pairs.iter().map(Pair::to_json).collect::<Value>());
        file.insert("numbers", numbers.iter().map(Derived::to_json).collect::<Value>());
        write(path, &Value::Object(file))?;
    }
    Stdout::open().line(rows(&numbers, &tiers))?;
    let n_above = numbers.iter().filter(|number| number.exceeds()).count();
    let n_unknown = numbers.iter().filter(|number| number.registered.is_none()).count();
    let mut exit = Exit::Done;
    for (n, what) in [(n_above, "above what is registered"), (n_unknown, "of a row that is not registered")] {
        if check && n > 0 {
            let values = if n == 1 { "1 value is".to_owned() } else { format!("{n} values are") };
            stderr::error(TOOL, &format!("{values} {what}"));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

fn name(baseline: &Path, candidate: &Path) -> String {
    format!("{}={}", baseline.display(), candidate.display())
}

fn rows(numbers: &[Derived], tiers: &Tiers) -> String {
    const HEADER: [&str; 10] =
        ["tier", "weights", "number", "seen in", "check", "pairs", "compared", "seen", "derived", "registered"];
    let mut table = table(&HEADER, 5);
    for derived in numbers {
        let weights = match &derived.row {
            None => tiers.strict.candidate_weights.join(", "),
            Some((weights, false)) => weights.clone(),
            Some((weights, true)) => format!("{weights} activations"),
        };
        let check = match derived.registered {
            None => "not registered",
            Some(_) if derived.exceeds() => "ABOVE",
            Some(_) => "within",
        };
        table.add_row([
            derived.tier.as_str(),
            &escape::printable(&weights),
            derived.name,
            &escape::printable(&derived.pair),
            check,
            &derived.n_pairs.to_string(),
            &derived.n_compared.to_string(),
            &number(derived.observed),
            &derived.derived.to_string(),
            &derived.registered.map_or_else(|| "-".to_owned(), |registered| registered.to_string()),
        ]);
    }
    table.trim_fmt()
}
