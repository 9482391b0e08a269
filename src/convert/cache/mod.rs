//! The conversion cache: a checkpoint directory named as a model is converted once, and found converted afterwards.
//!
//! ```text
//! <cache>/<key>/<directory name>.gguf    the model, the same bytes as `convert` writes
//!               record.json              what it was made from; its modification time is the last use
//!               lock                     held by the process that converts
//!               *.tmp                    a conversion under way, or one that was killed
//! ```
//!
//! The key names everything the bytes depend on: [converter](VERSION), output type, directory name and files. So an entry
//! is never out of date: a checkpoint that changes has another key, and its old entry stays until it is
//! [pruned](Cache::prune).
//!
//! * The model appears under its name whole, synced and only after the key was found unchanged, so neither a killed
//!   process nor a power loss nor an edit during the conversion leaves a wrong model.
//! * Of many processes that start at the same time one converts, the others wait for it. The lock is the system's: it ends
//!   with the process that holds it. Where there are no locks each converts, and the last rename wins with the same bytes.
//! * A hit costs reading the small files and the header of the model. Tensor data is not read.
//! * What another user could have put there is refused, and the checkpoint is never written to.

mod entry;
mod fill;
mod folder;
mod key;
mod lock;
mod owner;
mod place;
mod prune;
mod record;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Outtype;
use crate::error::Result;

pub use entry::{Entry, State};
pub use key::VERSION;
pub use prune::{Kept, Policy, Pruned, Removed};

/// The directory models that were converted on the way are kept in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    dir: PathBuf,
}

/// What happens while [`Cache::open`] works, for people who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Another process has the entry; it is waited for.
    Waiting,
    /// The checkpoint is converted from now on: an error that follows is about that.
    Started,
    /// The checkpoint is converted: tensor bytes done so far, and in all.
    Converting {
        /// Bytes done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// A converted checkpoint.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Cached {
    /// The model file.
    pub path: PathBuf,
    /// Its key.
    pub key: String,
    /// Size of the file.
    pub n_bytes: u64,
    /// How long the conversion took; `None` when the file was there already.
    pub convert_time: Option<Duration>,
    /// Remarks for people, one line each: those of the conversion are said again with every hit.
    pub notes: Vec<String>,
}

impl Cached {
    /// Whether the model was there already.
    pub fn is_hit(&self) -> bool {
        self.convert_time.is_none()
    }
}

impl Cache {
    /// The cache in `dir`, which need not be there.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The directory of the user's cache, from the environment read through `variable`: `$LAYA_CACHE`, else `laya/gguf`
    /// in the system's place for caches (`$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches` on macOS, `%LOCALAPPDATA%`
    /// on Windows). `None` when the environment names none of them.
    pub fn default_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        place::default_dir(variable)
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The model of the checkpoint directory `checkpoint` with its matrices stored as `outtype`. It is converted when it
    /// is not there, or is not whole.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) when the cache lies inside the checkpoint, which is never written
    /// to; [`ErrorKind::Checkpoint`](crate::ErrorKind::Checkpoint) when the directory is not a checkpoint, cannot be
    /// converted, or changes while it is converted; [`ErrorKind::Io`](crate::ErrorKind::Io) when something cannot be read
    /// or written, or when others could have written the cache or the entry. The file at fault is that of the
    /// conversion's own error. Nothing stays in the cache after an error.
    pub fn open(&self, checkpoint: &Path, outtype: Outtype, on_event: &mut dyn FnMut(Event)) -> Result<Cached> {
        fill::open(&self.dir, checkpoint, outtype, on_event)
    }

    /// Every entry, least recently used first. A cache that is not there has none; what is not called like an entry is
    /// left out.
    ///
    /// # Errors
    /// The directory cannot be listed, or others could have written it.
    pub fn list(&self) -> Result<Vec<Entry>> {
        entry::list(&self.dir)
    }

    /// Removes the entries that `policy` names. An entry that a process holds, one that others could have written, one
    /// that holds other files, and whatever is no entry stay.
    ///
    /// # Errors
    /// The directory cannot be listed, or others could have written it. An entry that cannot be removed is among the kept
    /// ones, with the reason.
    pub fn prune(&self, policy: &Policy) -> Result<Pruned> {
        prune::prune(&self.dir, policy)
    }
}
