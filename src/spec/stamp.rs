//! Writing a spec into a model file, and taking it out.

use std::fs;
use std::path::{Path, PathBuf};

use super::{KEY, MIRROR_KEYS, Problem, Spec, binding};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{self, Change, Edit, File, Output, Ownership, Replace, Snapshot, Value};

/// What [`stamp`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    /// The file that was written.
    pub path: PathBuf,
    /// SHA-256 of the spec's bytes.
    pub sha256: String,
    /// Why the spec would not have been written without `force`.
    pub overridden: Vec<Problem>,
    /// Whether the file still belongs to whom it did; of a copy, nothing is asked.
    pub ownership: Ownership,
}

/// Writes the spec `text`, its bytes unchanged, and its mirror keys into the model file `path`, or into a copy of it, `out`.
/// Mirror keys that this spec does not give are removed; every other key, the tensors and their data stay byte for byte.
///
/// The file appears whole or not at all: it is written beside the one it replaces, read back and compared, and then takes
/// its name, as [`gguf::Output`] does it. Without `out` it replaces only the very file that was read, unchanged, and keeps
/// its mode, and its owner where that is permitted; a copy has the mode of the file it replaces, else that of `path`. A
/// symbolic link is followed. `progress` hears how many bytes are written, of how many.
///
/// With `force`, `out` may be there already, and a spec is written all the same that was fitted on another model, under
/// another numeric contract than `numeric_contract`, or with kernels this build does not have.
///
/// # Errors
/// The spec breaks a rule, is for models of another layout, or was fitted on other numbers; `out` is there, or is in the
/// end; `path`, to be replaced, was changed meanwhile; a file cannot be read or written. Then `path` and `out` are what they
/// were, or what others made of them.
pub fn stamp(
    path: &Path,
    out: Option<&Path>,
    text: &[u8],
    numeric_contract: u32,
    force: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Stamped> {
    let spec = Spec::parse(text)?;
    check_out(out, force)?;
    let (source, file) = Source::open(path)?;
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
    let ownership = source.rewrite(file, out, force, &changes, progress)?;
    Ok(Stamped { path: out.unwrap_or(path).to_owned(), sha256: spec.sha256(), overridden, ownership })
}

/// Takes the spec and its mirror keys out of the model file `path`, or out of a copy of it, `out`, as [`stamp`] puts them
/// in. Says whether the file still belongs to whom it did; `None` when there was no such key and nothing was written.
///
/// # Errors
/// As [`stamp`], but for those about the spec.
pub fn unstamp(
    path: &Path,
    out: Option<&Path>,
    force: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<Ownership>> {
    check_out(out, force)?;
    let (source, file) = Source::open(path)?;
    let keys = MIRROR_KEYS.into_iter().chain([KEY]).filter(|key| file.get(key).is_some());
    let changes: Vec<_> = keys.map(|key| Change::Remove(key.to_owned())).collect();
    if changes.is_empty() {
        return Ok(None);
    }
    source.rewrite(file, out, force, &changes, progress).map(Some)
}

/// Refuses a copy that cannot be written, or is there, before anything is read.
fn check_out(out: Option<&Path>, force: bool) -> Result<()> {
    let Some(out) = out else { return Ok(()) };
    if !force && fs::symlink_metadata(out).is_ok() {
        return Err(Error::new(ErrorKind::Io, "is there already; --force replaces it").in_file(out));
    }
    gguf::check_destination(out)
}

/// The model file that is rewritten.
struct Source<'p> {
    path: &'p Path,
    /// What it was before it was opened: whatever happens to it from then on is seen.
    was: Snapshot,
}

impl<'p> Source<'p> {
    fn open(path: &'p Path) -> Result<(Self, File)> {
        let was = Snapshot::of(path)?;
        Ok((Self { path, was }, File::open(path)?))
    }

    /// Writes `file`, which this is, after `changes` to its place or to `out`, and compares what was written.
    fn rewrite(
        &self,
        file: File,
        out: Option<&Path>,
        force: bool,
        changes: &[Change],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Ownership> {
        let edit = Edit::new(&file, changes)?;
        // Both are gone before the rename: a file that is mapped cannot be replaced everywhere.
        drop(file);
        let replace = match out {
            None => Replace::Only(&self.was),
            Some(_) if force => Replace::Any,
            Some(_) => Replace::Nothing,
        };
        Output::new(out.unwrap_or(self.path)).replacing(replace).like(&self.was).write(
            |file| edit.write(file, progress).map(|()| edit),
            |written, edit| {
                let checked = edit.check(&File::open(written)?);
                // One that is written to in place differs from its copy, which is not the fault of the disk.
                checked.map_err(|error| self.was.check(self.path).err().unwrap_or(error))?;
                if out.is_some() { Ok(Ownership::Kept) } else { self.was.ownership(written) }
            },
        )
    }
}
