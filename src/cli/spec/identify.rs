//! `gguf-spec identify`: what a file is.

use super::TOOL;
use super::stamped::{SpecFacts, Stamp};
use super::value::shortened;
use crate::cli::exit::{EXIT_HELP, Exit, Stop};
use crate::cli::progress::Progress;
use crate::cli::stdout::Stdout;
use crate::cli::stored::size;
use crate::cli::{escape, stderr};
use crate::error::Result;
use crate::gguf::File;
use crate::json::{Object, Value};
use crate::layout::{self, Calibration, Identity, Kind, Runner};
use crate::spec;
use std::path::{Path, PathBuf};

const LONG_ABOUT: &str = "\
Says which of the layouts decision models circulate in a GGUF file has, what runs it, what it holds
and whether it is complete, how it is calibrated, and whether it says how it must be used.

Nothing of a model but its header is read, and the whole file for its SHA-256 and to tell whether a
calibration that was fitted on one model was fitted on this. A file of any kind and size is told in
a few lines; one that is no GGUF at all is an error.

With --json: one line of JSON a file, also for files that cannot be read, which have an \"error\".";

const EXAMPLES: &str = "\
Examples:
  gguf-spec identify model.gguf                   what it is, with the SHA-256 of the file
  gguf-spec identify --no-hash *.gguf             of many files, at once
  gguf-spec identify --json model.gguf | jq .runs
";

/// Bytes of a value that are shown to people, and problems.
const SHOWN_BYTES: usize = 800;
const SHOWN_PROBLEMS: usize = 30;

/// Arguments of `gguf-spec identify`.
#[derive(Debug, clap::Args)]
#[command(about = "Says what a GGUF file is and what runs it", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
pub(super) struct IdentifyArguments {
    /// GGUF files
    #[arg(value_name = "MODEL.gguf", required = true)]
    models: Vec<PathBuf>,
    /// Print JSON, a line for each file
    #[arg(long)]
    json: bool,
    /// Leave out what the whole file is read for: its SHA-256, and whether its calibration is this model's
    #[arg(long)]
    no_hash: bool,
}

/// Does what the arguments ask for. A file that cannot be read keeps no other from being told.
pub(super) fn run(arguments: IdentifyArguments) -> Result<Exit, Stop> {
    let IdentifyArguments { models, json, no_hash } = arguments;
    let mut stdout = Stdout::open();
    let mut exit = Exit::Done;
    let mut n_told = 0;
    for model in &models {
        match Report::of(model, !no_hash) {
            Ok(report) if json => stdout.line(escape::json(report.to_json().dumps()))?,
            Ok(report) => {
                let text = report.to_text();
                stdout.line(if n_told == 0 { text } else { format!("\n{text}") })?;
                n_told += 1;
            }
            Err(error) => {
                exit = Exit::Failed;
                let mut object = Object::new();
                object.insert("file", model.to_string_lossy().into_owned());
                object.insert("error", error.to_string());
                if json {
                    stdout.line(escape::json(Value::Object(object).dumps()))?;
                }
                stderr::error(TOOL, &error.to_string());
            }
        }
    }
    Ok(exit)
}

/// All that is said of a file.
struct Report<'a> {
    path: &'a Path,
    identity: Identity,
    spec: Stamp,
    sha256: Option<String>,
}

impl<'a> Report<'a> {
    fn of(path: &'a Path, hash: bool) -> Result<Self> {
        let file = File::open(path)?;
        let mut identity = layout::identify(&file);
        let reads = identity.runners().any(|runner| runner == Runner::ThisToolbox);
        let (spec, findings) = Stamp::of(&file, reads, hash);
        findings.into_iter().for_each(|finding| identity.add_finding(finding));
        let progress = Progress::over_bytes();
        let sha256 = hash.then(|| spec::file_sha256(&file, &mut |done, total| progress.read(done, total)));
        let sha256 = sha256.transpose()?;
        Ok(Self { path, identity, spec, sha256 })
    }
}

impl Report<'_> {
    fn to_text(&self) -> String {
        let Identity { kind, architecture, decision, name, vocabulary, sizes, types, recipe, .. } = &self.identity;
        let mut text = Block::new(&format!("{}: {}", self.path.display(), kind.description()));
        text.row("runs with", self.runners());
        text.row("layout", kind.as_str());
        let decision = decision.as_ref().map_or_else(String::new, |decision| format!(", decision model {decision}"));
        text.row("architecture", format!("{}{decision}", architecture.as_deref().unwrap_or("not stated")));
        if let Some(complete) = self.identity.complete {
            text.row("complete", if complete { "yes" } else { "no" });
        }
        text.problems(self.identity.findings.iter().map(ToString::to_string));
        if let Some(name) = name {
            text.row("name", name);
        }
        let n_tokens = vocabulary.n_tokens.map_or_else(String::new, |n| format!(", {n} tokens"));
        text.row("tokenizer", format!("{}{n_tokens}", vocabulary.family.as_str()));
        let n_tensors = sizes.n_tensors;
        text.row("size", format!("{}, {} parameters in {n_tensors} tensors", size(sizes.n_bytes), sizes.n_parameters));
        let types = types.iter().map(|ty| format!("{} x {} ({})", ty.ty, ty.n_tensors, size(ty.n_bytes)));
        text.row("types", types.collect::<Vec<_>>().join(", "));
        if let Some(recipe) = recipe {
            text.row("recipe", recipe);
        }
        text.stated("layers", &[(sizes.n_layer, ""), (sizes.n_head_layer, " of the decision head")], " and ");
        text.stated("width", &[(sizes.n_embd, "")], "");
        let lens = [(sizes.max_len, " tokens"), (sizes.head_max_len, " of them for question and options")];
        text.stated("longest row", &lens, ", ");
        let overridden = if self.spec.overrides() { "; overridden by decision.spec" } else { "" };
        text.row("temperatures", temperatures(&self.identity.calibration) + overridden);
        self.spec_rows(&mut text);
        if let Some(sha256) = &self.sha256 {
            text.row("sha256", sha256);
        }
        text.0
    }

    fn runners(&self) -> String {
        let kind = self.identity.kind;
        let runners: Vec<_> = self.identity.runners().map(Runner::as_str).collect();
        let runners = match runners.as_slice() {
            [] if kind == Kind::Unknown => "nothing that this build knows".to_owned(),
            [] if kind.runners().is_empty() => "nothing alone".to_owned(),
            [] if self.identity.sizes.n_tensors == 0 => "nothing that this build knows: it has no tensors".to_owned(),
            [] => "nothing as it is".to_owned(),
            runners => runners.join(", "),
        };
        kind.advice().into_iter().fold(runners, |runners, advice| runners + "; " + advice)
    }

    fn spec_rows(&self, text: &mut Block) {
        match &self.spec {
            Stamp::Absent => text.row(spec::KEY, "unstamped"),
            Stamp::Invalid(problems) => {
                text.row(spec::KEY, "stamped, but invalid");
                text.problems(problems.iter().cloned());
            }
            Stamp::Valid(spec, fitted_on) => {
                let facts = SpecFacts::of(spec);
                let version = facts.version.map_or_else(String::new, |version| format!(" {version}"));
                let model_id = facts.model_id.unwrap_or("without a model_id");
                text.row(spec::KEY, format!("stamped, {model_id}{version}"));
                text.row("spec sha256", spec.sha256());
                let version = facts.calibration_version.map(|version| format!(" (version {version})"));
                text.row("calibration", format!("{}{}", facts.calibration, version.unwrap_or_default()));
                if let Some(fitted_on) = fitted_on {
                    text.row("fitted on", fitted_on.as_str());
                }
            }
        }
    }

    fn to_json(&self) -> Value {
        let Identity { kind, architecture, decision, name, vocabulary, sizes, types, recipe, .. } = &self.identity;
        let mut out = Object::new();
        out.insert("file", self.path.to_string_lossy().into_owned());
        out.insert("layout", kind.as_str());
        out.insert("description", kind.description());
        out.insert("runs", self.identity.runners().map(Runner::as_str).collect::<Value>());
        out.insert("complete", self.identity.complete);
        out.insert("problems", self.identity.findings.iter().map(ToString::to_string).collect::<Value>());
        out.insert("architecture", architecture.clone());
        out.insert("decision", decision.clone());
        out.insert("name", name.clone());
        out.insert("tokenizer", vocabulary.family.as_str());
        out.insert("n_tokens", vocabulary.n_tokens);
        out.insert("n_bytes", sizes.n_bytes);
        out.insert("n_parameters", sizes.n_parameters);
        out.insert("n_tensors", sizes.n_tensors);
        out.insert("n_layers", sizes.n_layer);
        out.insert("n_embd", sizes.n_embd);
        out.insert("n_head_layers", sizes.n_head_layer);
        out.insert("max_len", sizes.max_len);
        out.insert("head_max_len", sizes.head_max_len);
        let types = types.iter().map(|ty| {
            let mut out = Object::new();
            out.insert("type", ty.ty.name());
            out.insert("n_tensors", ty.n_tensors);
            out.insert("n_bytes", ty.n_bytes);
            out
        });
        out.insert("types", types.collect::<Value>());
        out.insert("recipe", recipe.clone());
        let Calibration { by_type, by_options } = &self.identity.calibration;
        let mut calibration = Object::new();
        calibration.insert("temperatures", self.identity.calibration.state());
        calibration.insert("by_type", degrees(by_type));
        calibration.insert("by_options", degrees(by_options));
        calibration.insert("overridden", self.spec.overrides());
        out.insert("calibration", calibration);
        out.insert("spec", self.spec.to_json());
        out.insert("sha256", self.sha256.clone());
        Value::Object(out)
    }
}

fn degrees(named: &[(String, f32)]) -> Object {
    let mut out = Object::new();
    for (name, degree) in named {
        let degree = f64::from(*degree);
        out.insert(name.clone(), if degree.is_finite() { Value::from(degree) } else { degree.to_string().into() });
    }
    out
}

fn temperatures(calibration: &Calibration) -> String {
    let state = calibration.state();
    let named = calibration.by_type.iter().chain(&calibration.by_options);
    let values: Vec<_> = named.map(|(name, degree)| format!("{name} {degree}")).collect();
    if values.is_empty() { state.to_owned() } else { format!("{state}: {}", values.join(", ")) }
}

/// A line and rows under it, of names and values. Values may quote the file.
struct Block(String);

impl Block {
    fn new(title: &str) -> Self {
        Self(escape::printable(title))
    }

    fn row(&mut self, name: &str, value: impl AsRef<str>) {
        let value = value.as_ref();
        // Most are sentences of this tool, in which a backslash is one.
        let value = if value.len() > SHOWN_BYTES { shortened(value, SHOWN_BYTES) } else { escape::printable(value) };
        self.0.push_str(&format!("\n  {name:<14}{value}"));
    }

    /// A row of the numbers that are stated.
    fn stated(&mut self, name: &str, numbers: &[(Option<u64>, &str)], between: &str) {
        let stated: Vec<_> = numbers.iter().filter_map(|(n, of)| n.map(|n| format!("{n}{of}"))).collect();
        if !stated.is_empty() {
            self.row(name, stated.join(between));
        }
    }

    fn problems(&mut self, problems: impl ExactSizeIterator<Item = String>) {
        let n_more = problems.len().saturating_sub(SHOWN_PROBLEMS);
        problems.take(SHOWN_PROBLEMS).for_each(|problem| self.row("problem", problem));
        if n_more > 0 {
            self.row("", format!("and {n_more} more"));
        }
    }
}
