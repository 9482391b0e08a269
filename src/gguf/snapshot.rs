//! What a file was when it was opened, so that another one is not taken for it later.

use std::fs::{self, File, Metadata};
use std::path::Path;
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};

/// A file as it was at some time: which one, how long, when changed, whose and for whom. Two that are equal are of one
/// file that nobody changed in between; on systems other than Unix only length and time are compared.
///
/// The time is as fine as the file system keeps it: what changes within one tick of its clock is not told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    n_bytes: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    unix: Unix,
}

/// What only Unix says about a file.
#[cfg(unix)]
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unix {
    device: u64,
    inode: u64,
    /// Without the type of the file.
    mode: u32,
    owner: Owner,
}

/// Whom a file belongs to, in the system's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// Whether a file that replaced another one belongs to whom that one belonged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// It does, or there is none to keep: it replaced nothing, or the system knows no owners.
    Kept,
    /// It does not, because this process may not give files away.
    Lost {
        /// Whom the replaced file belonged to.
        was: Owner,
        /// Whom the new one belongs to.
        is: Owner,
    },
}

impl Snapshot {
    /// The file at `path`, or the one that a link there leads to, as it is now.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when there is none, or nothing is known about it.
    pub fn of(path: &Path) -> Result<Self> {
        fs::metadata(path).map(|facts| Self::from(&facts)).map_err(|e| Error::io("cannot open", path, &e))
    }

    /// Refuses another file at `path`, a changed one, and none.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], with `path`.
    pub fn check(&self, path: &Path) -> Result<()> {
        if fs::metadata(path).is_ok_and(|facts| Self::from(&facts) == *self) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Io, "was changed meanwhile; nothing was written").in_file(path))
    }

    /// Whether the file `other` belongs to whom this one belongs to.
    ///
    /// # Errors
    /// As [`Snapshot::of`].
    pub fn ownership(&self, other: &Path) -> Result<Ownership> {
        #[cfg(unix)]
        {
            let (was, is) = (self.unix.owner, Self::of(other)?.unix.owner);
            Ok(if was == is { Ownership::Kept } else { Ownership::Lost { was, is } })
        }
        #[cfg(not(unix))]
        Self::of(other).map(|_| Ownership::Kept)
    }

    /// Who may do what with the file, as a mode for a new one: without the bits that lend a program its owner's rights.
    pub(super) fn new_mode(&self) -> Option<u32> {
        #[cfg(unix)]
        return Some(self.unix.mode & 0o777);
        #[cfg(not(unix))]
        None
    }

    /// Gives `file` the owner and group of this one, where that is permitted, and its mode. A group that this one did not
    /// belong to gets no other rights than everybody.
    #[cfg(unix)]
    pub(super) fn hand_down(&self, file: &File) -> std::io::Result<()> {
        use std::os::unix::fs::{PermissionsExt as _, fchown};
        let Unix { mut mode, owner, .. } = self.unix;
        let is = |file: &File| file.metadata().map(|facts| Self::from(&facts).unix.owner);
        // Before the mode, some bits of which a change of the owner clears.
        if is(file)? != owner && fchown(file, Some(owner.user), Some(owner.group)).is_err() {
            // Giving a file away takes a privilege, giving it to another of one's groups does not. Whether that was
            // done is looked up.
            let _ = fchown(file, None, Some(owner.group));
        }
        let is = is(file)?;
        if is != owner {
            mode &= 0o777;
        }
        if is.group != owner.group {
            mode = mode & 0o707 | (mode & 0o007) << 3;
        }
        file.set_permissions(fs::Permissions::from_mode(mode))
    }

    /// Does nothing: there is no mode, and a file that may not be written is not replaced.
    #[cfg(not(unix))]
    pub(super) fn hand_down(&self, _file: &File) -> std::io::Result<()> {
        Ok(())
    }
}

impl From<&Metadata> for Snapshot {
    fn from(facts: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Self {
            n_bytes: facts.len(),
            modified: facts.modified().ok(),
            #[cfg(unix)]
            unix: Unix {
                device: facts.dev(),
                inode: facts.ino(),
                mode: facts.mode() & 0o7777,
                owner: Owner { user: facts.uid(), group: facts.gid() },
            },
        }
    }
}
