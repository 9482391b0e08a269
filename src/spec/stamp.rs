//! Writing a spec into a model file, and taking it out.

use std::fs;
use std::path::{Path, PathBuf};

use super::{KEY, MIRROR_KEYS, Problem, Spec, binding};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{self, Change, Edit, File, Value};

/// What [`stamp`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    /// The file that was written.
    pub path: PathBuf,
    /// SHA-256 of the spec's bytes.
    pub sha256: String,
    /// Why the spec would not have been written without `force`.
    pub overridden: Vec<Problem>,
}

/// Writes the spec `text`, its bytes unchanged, and its mirror keys into the model file `path`, or into a copy of it, `out`.
/// Mirror keys that this spec does not give are removed; every other key, the tensors and their data stay byte for byte.
///
/// The file appears whole or not at all: it is written beside the one it replaces, read back and compared, and then takes
/// its name, as [`gguf::write_atomic_checked`] does it. The mode of a file that is replaced is kept and a symbolic link
/// followed. `progress` hears how many bytes are written, of how many.
///
/// With `force`, `out` may be there already, and a spec is written all the same that was fitted on another model, under
/// another numeric contract than `numeric_contract`, or with kernels this build does not have.
///
/// # Errors
/// The spec breaks a rule, is for models of another layout, or was fitted on other numbers; `out` is there; a file cannot be
/// read or written. Then `path` and `out` are what they were.
pub fn stamp(
    path: &Path,
    out: Option<&Path>,
    text: &[u8],
    numeric_contract: u32,
    force: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Stamped> {
    let spec = Spec::parse(text)?;
    let target = destination(path, out, force)?;
    let file = File::open(path)?;
    if let Some(problem) = binding::layout(spec.value(), &file) {
        return Err(Error::from(problem).in_file(path));
    }
    let overridden = binding::problems(spec.value(), &file, numeric_contract, None)?;
    if let Some(problem) = overridden.first().filter(|_| !force) {
        let message = format!("{}. Fit it again on this one, or write it all the same with --force", problem.message);
        return Err(Error::from(Problem { message, ..problem.clone() }).in_file(path));
    }
    let mirrors = spec.mirrors();
    let stale = MIRROR_KEYS.into_iter().filter(|key| mirrors.iter().all(|(given, _)| given != key));
    let mut changes = vec![Change::Set(KEY.to_owned(), Value::String(text.to_vec()))];
    changes.extend(stale.map(|key| Change::Remove(key.to_owned())));
    changes.extend(mirrors.iter().map(|(key, value)| Change::Set((*key).to_owned(), value.clone())));
    rewrite(file, target, &changes, progress)?;
    Ok(Stamped { path: target.to_owned(), sha256: spec.sha256(), overridden })
}

/// Takes the spec and its mirror keys out of the model file `path`, or out of a copy of it, `out`, as [`stamp`] puts them
/// in. Says whether there was any of them; if not, nothing is written.
///
/// # Errors
/// `out` is there and `force` is not given; a file cannot be read or written. Then `path` and `out` are what they were.
pub fn unstamp(path: &Path, out: Option<&Path>, force: bool, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
    let target = destination(path, out, force)?;
    let file = File::open(path)?;
    let keys = MIRROR_KEYS.into_iter().chain([KEY]).filter(|key| file.get(key).is_some());
    let changes: Vec<_> = keys.map(|key| Change::Remove(key.to_owned())).collect();
    if changes.is_empty() {
        return Ok(false);
    }
    rewrite(file, target, &changes, progress)?;
    Ok(true)
}

/// The file to write.
fn destination<'p>(path: &'p Path, out: Option<&'p Path>, force: bool) -> Result<&'p Path> {
    if let Some(out) = out.filter(|out| !force && fs::symlink_metadata(out).is_ok()) {
        return Err(Error::new(ErrorKind::Io, "is there already; --force replaces it").in_file(out));
    }
    let target = out.unwrap_or(path);
    if out.is_some() {
        gguf::check_destination(target)?;
    }
    Ok(target)
}

/// Writes `file` after `changes` to `target` and compares what was written.
fn rewrite(file: File, target: &Path, changes: &[Change], progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let edit = Edit::new(&file, changes)?;
    // Both are gone before the rename: a file that is mapped cannot be replaced everywhere.
    drop(file);
    gguf::write_atomic_checked(
        target,
        |out| edit.write(out, progress).map(|()| edit),
        |written, edit| edit.check(&File::open(written)?),
    )
}
