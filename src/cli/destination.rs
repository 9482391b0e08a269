//! Output files of a tool: checked before any work is done, written whole or not at all.

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{check_destination, write_atomic};
use std::path::{Path, PathBuf};

/// Refuses outputs that cannot be written, that are inputs or lie in an input that is a directory, or that are named
/// twice.
///
/// # Errors
/// As said; the error names the output.
pub(super) fn check(outputs: &[&Path], inputs: &[&Path]) -> Result<()> {
    for (i, output) in outputs.iter().enumerate() {
        check_destination(output)?;
        // Neither may a file in a checkpoint directory be one.
        let is_in = |folder: &Path| {
            folder.is_dir() && output.exists() && output.parent().is_some_and(|parent| is_same(&here(parent), folder))
        };
        if inputs.iter().any(|input| is_same(output, input) || is_in(input)) {
            let message = "is to be read and written; name another output";
            return Err(Error::new(ErrorKind::Usage, message).in_file(*output));
        }
        if outputs[..i].iter().any(|other| is_same(output, other)) {
            return Err(Error::new(ErrorKind::Usage, "is named for two outputs; name another").in_file(*output));
        }
    }
    Ok(())
}

/// Whether both are one file, however it is named.
pub(super) fn is_same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// `parent` as it can be opened: that of a bare name is the current folder.
fn here(parent: &Path) -> PathBuf {
    if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() }
}

/// Writes `text` to `path`, whole or not at all.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    write_atomic(path, |out| out.write_all(text.as_bytes()).map_err(|error| Error::io("cannot write", path, &error)))
}
