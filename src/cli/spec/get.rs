//! `gguf-spec get`: the exact bytes of a spec.

use super::{EXIT_HELP, unstamped};
use crate::cli::exit::{Exit, Stop};
use crate::cli::stderr;
use crate::cli::stdout::Stdout;
use crate::gguf::File;
use crate::spec::KEY;
use std::path::PathBuf;

/// Arguments of `gguf-spec get`.
#[derive(Debug, clap::Args)]
#[command(about = "Prints the spec of a model file: its exact bytes, and a line break")]
#[command(after_help = EXIT_HELP, arg_required_else_help = true)]
pub(super) struct GetArguments {
    /// Model file
    #[arg(value_name = "MODEL.gguf")]
    model: PathBuf,
    /// Print no line break after the bytes
    #[arg(long)]
    bare: bool,
}

/// Prints the spec.
pub(super) fn get(arguments: &GetArguments) -> Result<Exit, Stop> {
    let GetArguments { model, bare } = arguments;
    let file = File::open(model)?;
    let Some(text) = file.string(KEY)? else {
        stderr::line(&unstamped(model));
        return Ok(Exit::Failed);
    };
    let end: &[u8] = if *bare { b"" } else { b"\n" };
    Stdout::open().bytes(&[text, end].concat())?;
    Ok(Exit::Done)
}
