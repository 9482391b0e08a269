//! `gguf-spec set`: another spec for a model file, or none.

use super::{EXIT_HELP, TOOL, unstamped};
use crate::cli::exit::{Exit, Stop};
use crate::cli::input::Input;
use crate::cli::progress::Progress;
use crate::cli::stderr;
use crate::cli::stdout::Stdout;
use crate::error::{Error, ErrorKind};
use crate::gguf::{Owner, Ownership};
use crate::kernels::NUMERIC_CONTRACT;
use crate::spec::{self, KEY};
use std::path::{Path, PathBuf};

const LONG_ABOUT: &str = "\
Writes a spec into a model file, or into a copy of it.

The bytes of SPEC are stored unchanged as given, a line break at their end included, and checked
first: what breaks a rule is not written. Only decision.spec and the keys that repeat it for other
readers (decision.spec_version, .layout, .model_id, .model_version) change; every other key and
the tensors stay byte for byte. The file is written beside the one it replaces, read back, compared
and renamed: when anything fails the old file is what it was. When interrupted, a temporary
MODEL.gguf.*.tmp may stay beside it, to be deleted.

MODEL keeps its mode, and its owner and group where that is permitted; other hard links to it keep
the old content, and ACLs and extended attributes are not copied. If somebody else changes MODEL
meanwhile nothing is written. A new OUT gets the mode of MODEL, less what the umask takes away.";

const EXAMPLES: &str = "\
Examples:
  gguf-spec set model.gguf spec.json                  in place
  gguf-spec set model.gguf spec.json -o new.gguf      into a copy
  gguf-spec get --bare a.gguf | gguf-spec set b.gguf -   the very bytes of another file's spec
  gguf-spec set model.gguf --remove                   no spec any more
";

/// Arguments of `gguf-spec set`.
#[derive(Debug, clap::Args)]
#[command(about = "Writes a spec into a model file, or into a copy of it", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
pub(super) struct SetArguments {
    /// Model file
    #[arg(value_name = "MODEL.gguf")]
    model: PathBuf,
    /// The spec, a JSON file (- for standard input)
    #[arg(value_name = "SPEC", required_unless_present = "remove")]
    spec: Option<PathBuf>,
    /// Write a copy and leave MODEL as it is
    #[arg(short, long, value_name = "OUT.gguf")]
    out: Option<PathBuf>,
    /// Replace OUT if it is there, and write a spec even if it was fitted on other numbers than this
    /// model gives here
    #[arg(long)]
    force: bool,
    /// Take the spec out of the model file instead
    #[arg(long, conflicts_with = "spec")]
    remove: bool,
}

/// Writes the spec, or takes it out.
pub(super) fn set(arguments: &SetArguments) -> Result<Exit, Stop> {
    let SetArguments { model, spec, out, force, remove: _ } = arguments;
    let written = out.as_deref().unwrap_or(model);
    // clap asks for a spec unless it is to be removed.
    let Some(spec) = spec else { return remove(model, out.as_deref(), *force, written) };
    let spec = Input::from(spec.clone());
    let text = spec.read_spec()?;
    let problems = spec::check(&text);
    if !problems.is_empty() {
        for problem in &problems {
            stderr::line(&format!("FAIL {problem}"));
        }
        let n = problems.len();
        let message = format!("is not a spec: {n} problem{}; nothing was written", if n == 1 { "" } else { "s" });
        return Err(Error::new(ErrorKind::Spec, message).in_file(spec.name()).into());
    }
    let progress = Progress::over_bytes();
    let stamped = spec::stamp(model, out.as_deref(), &text, NUMERIC_CONTRACT, *force, &mut |done, total| {
        progress.written(done, total)
    })?;
    drop(progress);
    for problem in &stamped.overridden {
        stderr::note(TOOL, &format!("written in spite of this: {problem}"));
    }
    note_lost(stamped.ownership, written);
    let path = stderr::printable(&written.display().to_string());
    Stdout::open().line(format!("{path}: {KEY} sha256 {}", stamped.sha256))?;
    Ok(Exit::Done)
}

fn remove(model: &Path, out: Option<&Path>, force: bool, written: &Path) -> Result<Exit, Stop> {
    let progress = Progress::over_bytes();
    let removed = spec::unstamp(model, out, force, &mut |done, total| progress.written(done, total))?;
    drop(progress);
    let Some(ownership) = removed else {
        stderr::line(&unstamped(model));
        return Ok(Exit::Failed);
    };
    note_lost(ownership, written);
    Stdout::open().line(format!("{}: {KEY} removed", stderr::printable(&written.display().to_string())))?;
    Ok(Exit::Done)
}

/// Says so when the file does not belong to whom it did.
fn note_lost(ownership: Ownership, written: &Path) {
    if let Ownership::Lost { was, is } = ownership {
        let pair = |Owner { user, group }: Owner| format!("{user}:{group}");
        let (path, was, is) = (written.display(), pair(was), pair(is));
        stderr::note(TOOL, &format!("{path}: owner and group could not be kept: they were {was} and are {is}"));
    }
}
