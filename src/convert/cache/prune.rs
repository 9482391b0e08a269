//! Making the cache smaller.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::entry::{self, Entry, State};
use super::folder::Folder;
use super::lock::{Attempt, Lock};
use super::owner;
use crate::error::{Error, Result};

/// What is to be removed: all that any of these names.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Every entry.
    pub all: bool,
    /// Entries that cannot be used, and what killed conversions left.
    pub damaged: bool,
    /// Entries not used for longer.
    pub older_than: Option<Duration>,
    /// The least recently used ones, until the rest has at most so many bytes.
    pub max_bytes: Option<u64>,
    /// Only find out what would be removed.
    pub dry_run: bool,
}

/// What pruning did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Pruned {
    /// What was removed, or would be.
    pub removed: Vec<Removed>,
    /// What should have been removed and was not.
    pub kept: Vec<Kept>,
    /// Entries that are left.
    pub n_left: usize,
    /// Their size.
    pub left_bytes: u64,
}

impl Pruned {
    /// Bytes that were removed, or would be.
    pub fn n_bytes(&self) -> u64 {
        self.removed.iter().map(|removed| removed.n_bytes).sum()
    }
}

/// What was removed of an entry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Removed {
    /// The entry as it was.
    pub entry: Entry,
    /// Bytes removed.
    pub n_bytes: u64,
    /// Whether the entry itself is still there, without what killed conversions had left in it.
    pub only_stale: bool,
}

/// An entry that should have been removed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Kept {
    /// The entry.
    pub entry: Entry,
    /// Why it is still there.
    pub why: String,
    /// Whether removing it was tried and failed, rather than not allowed.
    pub is_failure: bool,
}

/// Why an entry stays.
struct Stay {
    why: String,
    is_failure: bool,
}

impl Stay {
    fn rightly(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_failure: false }
    }

    fn failed(path: &Path, error: &std::io::Error) -> Self {
        Error::io("cannot remove", path, error).into()
    }

    fn keep(self, entry: Entry) -> Kept {
        Kept { entry, why: self.why, is_failure: self.is_failure }
    }
}

impl From<Error> for Stay {
    fn from(error: Error) -> Self {
        Self { why: error.to_string(), is_failure: true }
    }
}

pub(super) fn prune(cache: &Path, policy: &Policy) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    let mut left = Vec::new();
    for entry in entry::list(cache)? {
        if policy.names(&entry) {
            left.extend(pruned.remove(cache, entry, policy));
        } else if policy.damaged && entry.n_stale > 0 {
            left.extend(pruned.sweep(cache, entry, policy));
        } else {
            left.push(entry);
        }
    }
    let mut left_bytes: u64 = left.iter().map(|entry| entry.n_bytes).sum();
    let mut kept = Vec::new();
    // The list is in the order of use.
    for entry in left {
        let n_bytes = entry.n_bytes;
        let tried = pruned.kept.iter().any(|kept| kept.entry.key == entry.key);
        if policy.max_bytes.is_none_or(|max| left_bytes <= max) || tried {
            kept.push(entry);
            continue;
        }
        match pruned.remove(cache, entry, policy) {
            Some(entry) => kept.push(entry),
            None => left_bytes -= n_bytes,
        }
    }
    pruned.n_left = kept.len();
    pruned.left_bytes = left_bytes;
    Ok(pruned)
}

impl Policy {
    /// Whether `entry` goes whatever its size is.
    fn names(&self, entry: &Entry) -> bool {
        let is_unusable = matches!(entry.state, State::Damaged(_) | State::Unfinished);
        let unused = entry.last_used.and_then(|time| SystemTime::now().duration_since(time).ok());
        self.all
            || (self.damaged && is_unusable)
            || self.older_than.is_some_and(|longest| unused.is_some_and(|unused| unused > longest))
    }
}

impl Pruned {
    /// Removes `entry`; gives it back when it stays.
    fn remove(&mut self, cache: &Path, entry: Entry, policy: &Policy) -> Option<Entry> {
        match with_lock(cache, &entry, policy.dry_run, remove_folder) {
            Ok(()) => {
                self.removed.push(Removed { n_bytes: entry.n_bytes, only_stale: false, entry });
                None
            }
            Err(stay) => {
                self.kept.push(stay.keep(entry.clone()));
                Some(entry)
            }
        }
    }

    /// Removes what killed conversions left in `entry`, and gives the entry back.
    fn sweep(&mut self, cache: &Path, mut entry: Entry, policy: &Policy) -> Option<Entry> {
        match with_lock(cache, &entry, policy.dry_run, |folder, _| Ok(folder.sweep().map(drop)?)) {
            Ok(()) => {
                self.removed.push(Removed { entry: entry.clone(), n_bytes: entry.stale_bytes, only_stale: true });
                entry.n_bytes -= entry.stale_bytes;
                (entry.n_stale, entry.stale_bytes) = (0, 0);
            }
            Err(stay) => self.kept.push(stay.keep(entry.clone())),
        }
        Some(entry)
    }
}

/// Does `work` on the folder of `entry` while no other process does anything there; or says why not.
fn with_lock(
    cache: &Path,
    entry: &Entry,
    dry_run: bool,
    work: impl FnOnce(&Folder, Lock) -> Result<(), Stay>,
) -> Result<(), Stay> {
    const BUSY: &str = "a process is using it";
    if let State::Refused(why) = &entry.state {
        return Err(Stay::rightly(why));
    }
    if entry.is_held {
        return Err(Stay::rightly(BUSY));
    }
    if dry_run {
        return Ok(());
    }
    let folder = Folder::of(cache, &entry.key);
    owner::directory(folder.path())?;
    match Lock::attempt(&folder.lock())? {
        Attempt::Taken(lock) => work(&folder, lock),
        Attempt::Busy => Err(Stay::rightly(BUSY)),
        Attempt::Gone => Err(Stay::rightly("another process removed it")),
    }
}

/// Removes the folder with all that is in it, which is looked at again: time has passed since it was listed.
fn remove_folder(folder: &Folder, lock: Lock) -> Result<(), Stay> {
    let Some(contents) = folder.contents()? else {
        return Err(Stay::rightly("it holds files that are not the cache's"));
    };
    if !lock.is_exclusive && contents.temporaries.iter().any(|temporary| !temporary.is_stale()) {
        return Err(Stay::rightly("a conversion may be under way, and there are no locks here to tell"));
    }
    let temporaries = contents.temporaries.iter().map(|temporary| temporary.path.clone());
    // The model first: what is left of a removal that was interrupted is an entry without one.
    let record = contents.has_record.then(|| folder.record());
    for path in contents.model.into_iter().chain(temporaries).chain(record) {
        fs::remove_file(&path).map_err(|e| Stay::failed(&path, &e))?;
    }
    lock.remove().map_err(|e| Stay::failed(&folder.lock(), &e))?;
    match fs::remove_dir(folder.path()) {
        // A process that waited for the lock has begun anew.
        Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed.map_err(|e| Stay::failed(folder.path(), &e)),
    }
}
