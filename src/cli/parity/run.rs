//! `parity-gate run`: what a backend answers to a corpus.

use super::TOOL;
use crate::cli::answer::note_adjustments;
use crate::cli::engine::{EngineArguments, SpecArguments};
use crate::cli::exit::{EXIT_HELP, Exit, Stop};
use crate::cli::model::{ModelArguments, ModelFile};
use crate::cli::progress::Progress;
use crate::cli::{destination, stderr};
use crate::convert::Outtype;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::File;
use crate::parity::{
    self, ACTIVATIONS, Backend, Build, Corpus, CorpusIdentity, Endpoint, Existing, Identity, Item, Local, Model,
    Outcome, RunWriter, Said, Server, Subset,
};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  parity-gate run corpus.jsonl -m model.gguf -o ours.jsonl
  parity-gate run corpus.jsonl -m model.gguf -o scalar.jsonl --isa scalar --threads 1
  parity-gate run corpus.jsonl -m model.gguf -o ours.jsonl --resume
  parity-gate run corpus.jsonl -m model.gguf -o server.jsonl --server http://127.0.0.1:8090 --jobs 2
";

/// Runs a corpus through an engine or a server, and records what came out and what it was
///
/// The run file holds, for every question, the token ids, markers, logits and act logits as far as the
/// backend tells them, and its answer; then what ran: model file, corpus, program, processor, set-up. It
/// is written item by item, so that an interrupted run goes on by --resume, and sealed at its end, so that
/// one that was changed is not compared.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"))]
pub(super) struct RunArguments {
    /// The corpus: one request a line, {"id", "cat", "state", "questions"}
    #[arg(value_name = "CORPUS.jsonl")]
    corpus: PathBuf,
    /// The run file to write
    #[arg(short, long, value_name = "RUN.jsonl")]
    output: PathBuf,
    /// Items to run: all, or english, those whose every letter is ASCII
    #[arg(long, value_name = "SUBSET", default_value = "all", value_parser = subset())]
    subset: Subset,
    /// Go on with a run that was interrupted
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Write over a run that is there
    #[arg(long)]
    force: bool,
    /// Batches of items that are asked at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    engine: EngineArguments,
    #[command(flatten)]
    spec: SpecArguments,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "A server instead of the engine (-m names the file it serves)")]
struct ServerArguments {
    /// Ask the server at URL, such as http://127.0.0.1:8090
    #[arg(long, value_name = "URL", conflicts_with_all = ["threads", "isa", "plan", "spec", "allow_spec_mismatch"])]
    server: Option<String>,
    /// What it computes with, where it does not say so, such as cpu or cuda
    #[arg(long, value_name = "NAME", requires = "server")]
    backend: Option<String>,
    /// Its device, where it does not say so
    #[arg(long, value_name = "NAME", requires = "server")]
    device: Option<String>,
    /// Its kernels, where it does not say so
    #[arg(long, value_name = "NAME", requires = "server")]
    server_kernels: Option<String>,
    /// The type its activations have in matrix products, where it does not say so
    #[arg(long, value_name = "TYPE", requires = "server", value_parser = PossibleValuesParser::new(ACTIVATIONS))]
    activations: Option<String>,
}

/// Reads the name of a subset.
pub(super) fn subset() -> impl clap::builder::TypedValueParser<Value = Subset> {
    PossibleValuesParser::new(Subset::ALL.map(Subset::as_str)).try_map(|name| name.parse::<Subset>())
}

/// Runs the corpus.
pub(super) fn run(arguments: RunArguments) -> Result<Exit, Stop> {
    let RunArguments { corpus, output, subset, resume, force, jobs, model, server, engine, spec } = arguments;
    let existing = match (resume, force) {
        (true, _) => Existing::Resume,
        (_, true) => Existing::Replace,
        _ => Existing::Keep,
    };
    // Before minutes of work, and before a model is loaded.
    let named = model.name()?;
    destination::check(&[&output], &[corpus.as_path(), &named].into_iter().chain(spec.file()).collect::<Vec<_>>())?;
    if existing == Existing::Keep && output.exists() {
        let message = "is there already; go on with it by --resume, or begin again by --force";
        return Err(Error::new(ErrorKind::Usage, message).in_file(output).into());
    }
    let requests = Corpus::read(&corpus)?;
    let items: Vec<_> = requests.subset(subset).collect();
    if items.is_empty() {
        let message = format!("has no items in the subset {subset}");
        return Err(Error::new(ErrorKind::Json, message).in_file(corpus).into());
    }
    let corpus = identity_of(&requests, subset, &items);
    let model = model.file(TOOL)?;
    // A checkpoint directory is another file once it is converted.
    destination::check(&[&output], &[&model.path])?;
    match &server.server {
        Some(url) => {
            let backend = Server::new(Endpoint::new(url)?)?;
            if let Some(served) = backend.model_path() {
                destination::check(&[&output], &[Path::new(served)])?;
            }
            let identity = identity_of_server(&backend, &model, corpus, &server)?;
            record(&backend, &identity, &items, usize::from(jobs), &output, existing)
        }
        None => {
            let engine = spec.open(&engine, &model)?;
            note_adjustments(TOOL, &engine);
            let (backend, file) = (Local::new(engine), File::open(&model.path)?);
            let program = std::env::current_exe().map_err(|error| Error::io("cannot find", TOOL, &error))?;
            let identity = backend.identity(&file, weights(&file)?, Build::of(&program)?, corpus)?;
            record(&backend, &identity, &items, usize::from(jobs), &output, existing)
        }
    }
}

fn identity_of(corpus: &Corpus, subset: Subset, items: &[&Item]) -> CorpusIdentity {
    CorpusIdentity {
        sha256: corpus.sha256.clone(),
        subset: subset.as_str().into(),
        n_items: items.len() as u64,
        n_questions: items.iter().map(|item| item.n_questions() as u64).sum(),
    }
}

/// How the matrices of a model file are stored.
fn weights(file: &File) -> Result<&'static str> {
    Ok(Outtype::of(file)?.map_or("unknown", Outtype::as_str))
}

/// What `server` is, which serves the model in `file`.
fn identity_of_server(
    server: &Server,
    file: &ModelFile,
    corpus: CorpusIdentity,
    given: &ServerArguments,
) -> Result<Identity> {
    let open = |path: &Path| {
        let file = File::open(path)?;
        Model::of(&file, weights(&file)?)
    };
    let model = open(&file.path)?;
    // It may name its file otherwise, or be elsewhere; a file of another content is another model.
    if let Some(served) = server.model_path().map(Path::new).filter(|path| path.is_file()) {
        let is_this = served.canonicalize().ok() == file.path.canonicalize().ok();
        if !is_this && open(served)?.sha256 != model.sha256 {
            let message = format!("is not the model the server serves, which is {}", served.display());
            return Err(Error::new(ErrorKind::Usage, message).in_file(&file.path));
        }
    }
    let ServerArguments { backend, device, server_kernels: kernels, activations, .. } = given.clone();
    server.identity(model, corpus, &Said { backend, device, kernels, activations })
}

/// Runs `items` through `backend` into the file at `output`.
fn record(
    backend: &dyn Backend,
    identity: &Identity,
    items: &[&Item],
    jobs: usize,
    output: &Path,
    existing: Existing,
) -> Result<Exit, Stop> {
    let start = Instant::now();
    let mut writer = RunWriter::open(output, identity, existing)?;
    let done = writer.n_items();
    let rest = items.get(done..).ok_or_else(|| {
        let message = format!("has {done} items, more than the {} there are; begin again by --force", items.len());
        Error::new(ErrorKind::Json, message).in_file(output)
    })?;
    if done > 0 {
        stderr::note(TOOL, &format!("{}: goes on after {done} items", output.display()));
    }
    let progress = Progress::over_records(rest.len() as u64);
    let (mut n_refused, mut n_failed) = (0, 0);
    parity::run(backend, rest, jobs, |item| {
        match &item.outcome {
            Outcome::Answered(_) => {}
            Outcome::Refused(_) => n_refused += 1,
            Outcome::Failed(_) => n_failed += 1,
        }
        progress.done();
        writer.put(&item)
    })?;
    drop(progress);
    if n_failed > 0 {
        // Unsealed: nothing can be concluded from it, and it can go on.
        let what = if n_failed == 1 { "1 item".to_owned() } else { format!("{n_failed} items") };
        let message = format!("the backend failed at {what}; --resume goes on from the first of them");
        return Err(Error::new(ErrorKind::Endpoint, message).in_file(output).into());
    }
    writer.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    stderr::line(&format!("wrote {} in {seconds:.1} s ({} items, {n_refused} refused)", output.display(), items.len()));
    Ok(Exit::Done)
}
