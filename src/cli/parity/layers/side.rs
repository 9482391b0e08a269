//! The two sides of a comparison: how they are opened, shown and recorded.

use super::super::TOOL;
use crate::cli::destination::is_same;
use crate::cli::engine::{choice, plan};
use crate::cli::escape::printable;
use crate::convert::Outtype;
use crate::engine::{Engine, Options, Plan};
use crate::error::{Error, Result};
use crate::gguf::File;
use crate::json::{Object, Value};
use crate::kernels::InstructionSet;
use crate::parity::layers::Dump;
use crate::parity::{Build, Corpus, CorpusIdentity, Local, Subset};
use clap::builder::PossibleValuesParser;
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How each side computes (a candidate's that is not given is the baseline's)")]
pub(super) struct SideArguments {
    /// Instruction set of the baseline. Without it: $LAYA_ISA, then the widest of this processor
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(InstructionSet::NAMES))]
    baseline_isa: Option<String>,
    /// Threads of the baseline [default: one for each physical performance core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    baseline_threads: Option<u16>,
    /// Plan of the baseline: whether the questions of an item share a pass
    #[arg(long, value_name = "PLAN", value_parser = plan())]
    baseline_plan: Option<Plan>,
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

impl SideArguments {
    pub(super) fn candidate_is_given(&self) -> bool {
        self.candidate_isa.is_some() || self.candidate_threads.is_some() || self.candidate_plan.is_some()
    }

    pub(super) fn baseline(&self) -> Result<Options> {
        let (isa, n_threads) = choice(self.baseline_isa.as_deref(), self.baseline_threads)?;
        Ok(Options { isa: Some(isa), n_threads: Some(n_threads), plan: self.baseline_plan, ..Options::default() })
    }

    pub(super) fn candidate(&self) -> Result<Options> {
        let isa = self.candidate_isa.as_ref().or(self.baseline_isa.as_ref());
        let threads = self.candidate_threads.or(self.baseline_threads);
        let (isa, n_threads) = choice(isa.map(String::as_str), threads)?;
        let plan = self.candidate_plan.or(self.baseline_plan);
        Ok(Options { isa: Some(isa), n_threads: Some(n_threads), plan, ..Options::default() })
    }
}

/// Whether two engines, of the models at those paths, compute the same in the same way.
pub(super) fn are_same(a: (&Path, &Engine), b: (&Path, &Engine)) -> bool {
    let how = |engine: &Engine| (engine.instruction_set().name(), engine.n_threads(), engine.plan());
    is_same(a.0, b.0) && how(a.1) == how(b.1)
}

/// An engine in a line.
pub(super) fn line(path: &Path, engine: &Engine) -> String {
    let n = engine.n_threads();
    let threads = if n == 1 { "thread" } else { "threads" };
    let (isa, plan) = (engine.instruction_set().name(), engine.plan().as_str());
    format!("{}, {isa}, {n} {threads}, {plan}", printable(&path.display().to_string()))
}

/// The identity of the engine of the model at `path`.
///
/// # Errors
/// The model file or this program cannot be read.
pub(super) fn identity(path: &Path, engine: Engine, corpus: &Corpus) -> Result<Object> {
    let file = File::open(path)?;
    let weights = Outtype::of(&file)?.map_or("unknown", Outtype::as_str);
    let program = std::env::current_exe().map_err(|error| Error::io("cannot find", TOOL, &error))?;
    let of_corpus = CorpusIdentity {
        sha256: corpus.sha256.clone(),
        subset: Subset::All.as_str().into(),
        n_items: corpus.items.len() as u64,
        n_questions: corpus.items.iter().map(|item| item.n_questions() as u64).sum(),
    };
    Ok(Local::new(engine).identity(&file, weights, Build::of(&program)?, of_corpus)?.to_json())
}

/// What a dump says about itself.
pub(super) fn of_dump(path: &Path, dump: &Dump) -> Object {
    let mut object = Object::new();
    object.insert("reference", path.display().to_string());
    object.insert("sha256", dump.sha256());
    object.insert("metadata", Value::Object(dump.metadata().clone()));
    object
}
