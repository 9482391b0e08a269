//! What gates said, a line each: read back from the results that `parity-gate compare --json` writes.

use super::{Identity, Kind, generator, tier};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{self, Value};

/// Name of the format of results.
pub const GATES: &str = "laya-parity-gates/1";

/// What [`Line::cells`] are.
pub const COLUMNS: [&str; 11] = [
    "model",
    "corpus",
    "questions",
    "candidate",
    "baseline",
    "tier",
    "verdict",
    "flips",
    "max |dp|",
    "mean |dp|",
    "act, relative",
];

/// One judged candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// A text for each of [`COLUMNS`].
    pub cells: [String; 11],
}

impl Line {
    /// The candidates in a file of results.
    ///
    /// # Errors
    /// It is no such file; the error names the place.
    pub fn read(text: &[u8]) -> Result<Vec<Self>> {
        let results = json::parse(text).map_err(|fault| Error::new(ErrorKind::Json, fault.to_string()))?;
        let fault = |path: String, message: String| Error::new(ErrorKind::Json, message).at_path(path);
        match results.get("schema").and_then(Value::as_str) {
            Some(GATES) => {}
            found => {
                let message = format!("is {}; parity-gate compare --json writes {GATES:?}", found.unwrap_or("missing"));
                return Err(fault("schema".into(), message));
            }
        }
        let candidates = results.get("candidates").and_then(Value::as_array);
        let candidates = candidates.ok_or_else(|| fault("candidates".into(), "must be a list".into()))?;
        let read = |(i, candidate): (usize, &Value)| {
            let path = |key: &str| format!("candidates[{i}].{key}");
            let identity = |side: &str| {
                let value = candidate.get("identity").and_then(|identity| identity.get(side));
                Identity::from_json(value.unwrap_or(&Value::Null))
                    .map_err(|error| fault(path(&format!("identity.{side}")), error.to_string()))
            };
            let gate = Gate(candidate.get("gate").ok_or_else(|| fault(path("gate"), "is missing".into()))?);
            Self::new(&gate, &identity("baseline")?, &identity("candidate")?).map_err(|key| {
                fault(path(&format!("gate.{key}")), "must be there, as parity-gate compare writes it".into())
            })
        };
        candidates.iter().enumerate().map(read).collect()
    }

    fn new(gate: &Gate<'_>, baseline: &Identity, candidate: &Identity) -> Result<Self, &'static str> {
        let corpus = &candidate.corpus;
        let own = generator::sha256();
        let name = if Some(corpus.sha256.as_str()) == own.as_deref() { "own" } else { &corpus.sha256[..8] };
        let subset = if corpus.subset == "all" { String::new() } else { format!(", {}", corpus.subset) };
        let verdict = gate.text("verdict")?;
        let (is_refused, is_exact) = (verdict == "refused", gate.text("tier")? == "bit-exact");
        let diagnostic = gate.0.get("diagnostic").and_then(Value::as_bool).unwrap_or(false);
        let tiers = gate.text("tiers_sha256")?;
        let mut remarks = Vec::new();
        if diagnostic {
            remarks.push("diagnostic".to_owned());
        }
        if tiers != tier::registered_sha256() {
            remarks.push(format!("tiers {}", tiers.chars().take(8).collect::<String>()));
        }
        let count = |key| if is_refused { Ok("-".to_owned()) } else { gate.count(key) };
        let error = |key| if is_refused { Ok("-".to_owned()) } else { gate.error(key) };
        let max_dp = if is_refused { Ok("-".to_owned()) } else { gate.error_in("max_abs_error", "prob") };
        Ok(Self {
            cells: [
                candidate.model.name.clone(),
                format!("{name}{subset}"),
                count("compared")?,
                shown(candidate, is_exact),
                shown(baseline, is_exact),
                gate.text("tier")?.to_owned(),
                if remarks.is_empty() { verdict.to_owned() } else { format!("{verdict} ({})", remarks.join(", ")) },
                count("flips")?,
                max_dp?,
                error("mean_abs_dp")?,
                error("act_max_rel_dlogit")?,
            ],
        })
    }

    /// A table of Markdown. What would break a line or drive what shows it is for the caller to replace.
    pub fn markdown(lines: &[Self]) -> String {
        let row = |cells: &[&str]| {
            // What would end a cell is text of it here.
            let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut table = row(&COLUMNS) + "|" + &"---|".repeat(COLUMNS.len()) + "\n";
        lines.iter().for_each(|line| table += &row(&line.cells.each_ref().map(String::as_str)));
        table
    }
}

/// What a run is, in few words; `fully` with what changes no bit.
fn shown(identity: &Identity, fully: bool) -> String {
    let (model, runtime) = (&identity.model, &identity.runtime);
    let mut words = match identity.kind {
        Kind::Reference => vec!["published package".to_owned()],
        Kind::Engine => Vec::new(),
        Kind::Server => vec!["server".to_owned(), runtime.backend.clone()],
    };
    words.push(model.weights.clone());
    if fully {
        words.extend(runtime.isa.clone());
        words.extend(runtime.plan.clone());
        words.extend(runtime.n_threads.map(|n| if n == 1 { "1 thread".to_owned() } else { format!("{n} threads") }));
    }
    words.join(", ")
}

/// The `gate` of a result; errors are the key at fault.
struct Gate<'a>(&'a Value);

impl<'a> Gate<'a> {
    fn text(&self, key: &'static str) -> Result<&'a str, &'static str> {
        self.0.get(key).and_then(Value::as_str).ok_or(key)
    }

    fn count(&self, key: &'static str) -> Result<String, &'static str> {
        self.0.get(key).and_then(Value::as_u64).map(|n| n.to_string()).ok_or(key)
    }

    fn error(&self, key: &'static str) -> Result<String, &'static str> {
        self.0.get(key).and_then(Value::as_f64).map(size).ok_or(key)
    }

    fn error_in(&self, key: &'static str, inner: &str) -> Result<String, &'static str> {
        self.0.get(key).and_then(|value| value.get(inner)).and_then(Value::as_f64).map(size).ok_or(key)
    }
}

/// The size of an error: two digits say enough.
fn size(error: f64) -> String {
    if error == 0.0 { "0".into() } else { format!("{error:.1e}") }
}
