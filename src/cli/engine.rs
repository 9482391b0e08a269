//! How the engine of a tool runs: the arguments about speed, never about results.

use crate::engine::{Engine, Options};
use crate::error::Result;
use crate::kernels::InstructionSet;
use clap::builder::PossibleValuesParser;
use std::path::Path;

/// Arguments of a tool that computes. They change how long the work takes and not one bit of its result.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Speed (the answers stay the same to the last bit)")]
pub(super) struct EngineArguments {
    /// Threads to compute with [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Instruction set to compute with [default: the widest this processor has]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(InstructionSet::NAMES))]
    isa: Option<String>,
}

impl EngineArguments {
    /// Opens `model` to run this way.
    ///
    /// # Errors
    /// This processor does not have the instruction set, or the file is not a usable model.
    pub(super) fn open(self, model: &Path) -> Result<Engine> {
        let isa = self.isa.as_deref().map(InstructionSet::named).transpose()?;
        Engine::open(model, &Options { n_threads: self.threads.map(usize::from), isa })
    }
}
