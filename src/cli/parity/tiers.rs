//! `parity-gate tiers`: the numbers of the tiers.

use crate::cli::exit::{EXIT_HELP, Exit, Stop};
use crate::cli::stdout::Stdout;
use crate::cli::table::table;
use crate::cli::{escape, stderr};
use crate::error::Result;
use crate::parity::tier::{Difference, Tier, Tiers};
use std::path::{Path, PathBuf};

const LONG_ABOUT: &str = "\
Prints the numbers of the tiers: those this program was built with, or those of a file.

A file of tiers is checked as it is read: every number must be there, and nothing else.";

const EXAMPLES: &str = "\
Examples:
  parity-gate tiers
  parity-gate tiers --tiers tiers.json
";

/// Which tiers.
#[derive(Debug, clap::Args)]
pub(super) struct TiersArgument {
    /// Tiers of a file instead of the registered ones
    #[arg(long, value_name = "FILE")]
    tiers: Option<PathBuf>,
}

impl TiersArgument {
    /// The tiers that were asked for.
    ///
    /// # Errors
    /// The file cannot be read, or is none of tiers.
    pub(super) fn read(&self) -> Result<Tiers> {
        self.file().map_or_else(Tiers::registered, Tiers::read)
    }

    /// The file they are in, if they are not the registered ones of this program.
    pub(super) fn file(&self) -> Option<&Path> {
        self.tiers.as_deref()
    }
}

/// Arguments of `parity-gate tiers`.
#[derive(Debug, clap::Args)]
#[command(about = "Prints the numbers of the tiers", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"))]
pub(super) struct TiersArguments {
    #[command(flatten)]
    tiers: TiersArgument,
}

/// Does what the arguments ask for.
pub(super) fn run(arguments: TiersArguments) -> Result<Exit, Stop> {
    let tiers = arguments.tiers.read()?;
    stderr::note(super::TOOL, &format!("tiers version {}, sha256 {}", tiers.version, tiers.sha256));
    Stdout::open().line(rows(&tiers))?;
    Ok(Exit::Done)
}

fn rows(tiers: &Tiers) -> String {
    let mut table = table(&["tier", "weights", "number", "registered"], 3);
    let mut row = |tier: Tier, weights: &str, name: &str, number: String| {
        table.add_row([tier.as_str(), &escape::printable(weights), name, &number]);
    };
    let weights = tiers.strict.candidate_weights.join(", ");
    for (name, number) in tiers.strict.named() {
        row(Tier::StrictF32, &weights, name, number.to_string());
    }
    for (rows, note) in [(&tiers.class.weights, ""), (&tiers.class.activation_quantized, " activations")] {
        for (weights, bounds) in rows {
            for (name, number) in bounds.named() {
                row(Tier::F16Class, &format!("{weights}{note}"), name, number.to_string());
            }
        }
    }
    if tiers.has_bit_exact {
        row(Tier::BitExact, "any", "every bit", "0".to_owned());
    }
    for tier in Tier::ALL {
        let allowed: Vec<_> = tiers.known_differences(tier).iter().copied().map(Difference::as_str).collect();
        if !allowed.is_empty() {
            row(tier, "any", "known differences", allowed.join(", "));
        }
    }
    table.trim_fmt()
}
