//! How the engine of a tool runs: the arguments about speed, never about results.

use super::input::Input;
use super::model::ModelFile;
use crate::engine::{Engine, Options, Plan};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::InstructionSet;
use crate::kernels::topology::default_threads;
use crate::spec::{Given, Kernels};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable that names an instruction set.
const ISA_VARIABLE: &str = "LAYA_ISA";

/// What a tool computes with. It changes how long the work takes and not one bit of its result.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Speed (the answers stay the same to the last bit)")]
pub(super) struct SpeedArguments {
    /// Threads to compute with [default: one for each physical performance core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Instruction set to compute with. Without it: $LAYA_ISA, then the widest this processor has
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(InstructionSet::NAMES))]
    isa: Option<String>,
}

/// Arguments of a tool that answers requests.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Speed (the answers stay the same to the last bit)")]
pub(super) struct EngineArguments {
    #[command(flatten)]
    speed: SpeedArguments,
    /// packed: questions, and lines that wait, share a pass; sequential: every question has its own. Without it: what
    /// the model's spec says, then packed
    #[arg(long, value_name = "PLAN", value_parser = plan())]
    plan: Option<Plan>,
}

/// What a tool makes of the logits.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Calibration (the model's decision.spec)")]
pub(super) struct SpecArguments {
    /// Use this decision.spec, or bare calibration.json, instead of the one in the model (- for
    /// standard input)
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Kernels to compute with whatever the spec pins: auto or default, which are the same here
    #[arg(long, value_name = "NAME", value_parser = kernels())]
    kernels: Option<Kernels>,
    /// Use a calibration that was fitted on another model or under another numeric contract
    #[arg(long)]
    allow_spec_mismatch: bool,
}

/// Reads the name of kernels this build has.
fn kernels() -> impl clap::builder::TypedValueParser<Value = Kernels> {
    PossibleValuesParser::new(Kernels::HERE.map(Kernels::as_str))
        .map(|name| Kernels::from_name(&name).unwrap_or_default())
}

/// Reads the name of a plan.
pub(super) fn plan() -> impl clap::builder::TypedValueParser<Value = Plan> {
    PossibleValuesParser::new(Plan::ALL.map(Plan::as_str)).try_map(|name| name.parse::<Plan>())
}

impl SpeedArguments {
    /// The instruction set and the number of threads.
    ///
    /// # Errors
    /// This processor does not have the instruction set.
    pub(super) fn choice(&self) -> Result<(InstructionSet, usize)> {
        choice(self.isa.as_deref(), self.threads)
    }
}

/// The instruction set called `isa` and `threads`, or what takes the place of those not given.
///
/// # Errors
/// This processor does not have the instruction set.
pub(super) fn choice(isa: Option<&str>, threads: Option<u16>) -> Result<(InstructionSet, usize)> {
    let isa = instruction_set(isa, env::var_os(ISA_VARIABLE))?;
    let n_threads = threads.map_or_else(default_threads, usize::from);
    Ok((isa.unwrap_or_else(InstructionSet::widest), n_threads))
}

impl EngineArguments {
    /// How an engine is to run.
    ///
    /// # Errors
    /// This processor does not have the instruction set.
    pub(super) fn options(&self) -> Result<Options> {
        let (isa, n_threads) = self.speed.choice()?;
        Ok(Options { n_threads: Some(n_threads), isa: Some(isa), plan: self.plan, ..Options::default() })
    }
}

impl SpecArguments {
    /// The file the spec is read from, if one is given.
    pub(super) fn file(&self) -> Option<&Path> {
        self.spec.as_deref()
    }

    /// Refuses to read the spec and `requests` both from standard input.
    ///
    /// # Errors
    /// As said.
    pub(super) fn check_beside(&self, requests: &Input) -> Result<()> {
        if requests.is_stdin() && self.spec.clone().is_some_and(|spec| Input::from(spec).is_stdin()) {
            let message = "the spec and the requests cannot both come from standard input; name a file for one";
            return Err(Error::new(ErrorKind::Usage, message));
        }
        Ok(())
    }

    /// Opens `model` to answer by its spec, or by the one given for it.
    ///
    /// # Errors
    /// This processor does not have the instruction set, the file is not a usable model, or its spec cannot be used.
    pub(super) fn open(&self, engine: &EngineArguments, model: &ModelFile) -> Result<Engine> {
        let options = Options { spec: self.given(model)?, ..engine.options()? };
        Engine::open(&model.path, &options).map_err(|error| match &self.spec {
            // The file at fault is then not the model.
            Some(path) if error.kind() == ErrorKind::Spec && error.file() == Some(model.path.as_path()) => {
                error.of_file(Input::from(path.clone()).name())
            }
            _ => error,
        })
    }

    /// What they say about the spec of `model`.
    ///
    /// # Errors
    /// The file cannot be read.
    fn given(&self, model: &ModelFile) -> Result<Given> {
        let text = self.spec.clone().map(|spec| Input::from(spec).read_spec()).transpose()?;
        let (kernels, allow_mismatch) = (self.kernels, self.allow_spec_mismatch);
        let model_id = model.id().unwrap_or_default();
        Ok(Given { text, model_id, kernels, allow_mismatch, ..Given::default() })
    }
}

/// The instruction set called `given`, else the one the `variable` names.
fn instruction_set(given: Option<&str>, variable: Option<OsString>) -> Result<Option<InstructionSet>> {
    if let Some(name) = given {
        return InstructionSet::named(name).map(Some);
    }
    // A variable set to nothing is one not set.
    let Some(name) = variable.filter(|name| !name.is_empty()) else { return Ok(None) };
    InstructionSet::named(&name.to_string_lossy()).map(Some).map_err(|error| {
        let message = format!("the environment variable {ISA_VARIABLE}: {}", error.message());
        Error::new(ErrorKind::Usage, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_goes_before_the_variable() {
        let name = |given, variable: Option<&str>| {
            instruction_set(given, variable.map(OsString::from)).map(|set| set.map(InstructionSet::name))
        };
        assert_eq!(name(None, None).unwrap(), None);
        assert_eq!(name(None, Some("")).unwrap(), None);
        assert_eq!(name(None, Some("scalar")).unwrap(), Some("scalar"));
        assert_eq!(name(Some("scalar"), Some("sse9")).unwrap(), Some("scalar"));
        let error = name(None, Some("sse9")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.message().starts_with("the environment variable LAYA_ISA: there is no instruction set \"sse9\""));
    }
}
