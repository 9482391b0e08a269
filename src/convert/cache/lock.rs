//! The lock of an entry: whoever holds it converts, or removes the entry.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

use super::owner;
use crate::error::{Error, Result};

/// A lock, held until it is dropped or the process ends, in whatever way.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Its descriptor is the lock.
    file: File,
    /// Whether the file system has locks at all.
    pub(super) is_exclusive: bool,
}

/// What asking for a lock without waiting gives.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The lock.
    Taken(Lock),
    /// Another process holds it.
    Busy,
    /// The file, or its directory, was removed meanwhile.
    Gone,
}

impl Lock {
    /// Takes the lock that the file `path` stands for and calls `waiting` if another process holds it. `None` when the
    /// file was removed before the lock was had, with its directory or alone: then it says nothing any more, and all
    /// begins anew. On a file system without locks everybody gets one that is not exclusive.
    pub(super) fn take(path: &Path, waiting: impl FnOnce()) -> Result<Option<Self>> {
        match Self::attempt(path)? {
            Attempt::Taken(lock) => return Ok(Some(lock)),
            Attempt::Gone => return Ok(None),
            Attempt::Busy => waiting(),
        }
        let Some(file) = open(path)? else { return Ok(None) };
        let is_exclusive = loop {
            match file.lock() {
                Ok(()) => break true,
                // A signal that did not end the process.
                Err(e) if e.kind() == IoKind::Interrupted => {}
                Err(_) => break false,
            }
        };
        Ok(Self::of(path, file, is_exclusive))
    }

    /// The same without waiting.
    pub(super) fn attempt(path: &Path) -> Result<Attempt> {
        let Some(file) = open(path)? else { return Ok(Attempt::Gone) };
        let is_exclusive = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => return Ok(Attempt::Busy),
            Err(TryLockError::Error(_)) => false,
        };
        Ok(Self::of(path, file, is_exclusive).map_or(Attempt::Gone, Attempt::Taken))
    }

    fn of(path: &Path, file: File, is_exclusive: bool) -> Option<Self> {
        is_at(&file, path).then(|| Self { path: path.to_owned(), file, is_exclusive })
    }

    /// Removes the file while it is held, so that whoever waits for it begins anew.
    pub(super) fn remove(self) -> std::io::Result<()> {
        let removed = std::fs::remove_file(&self.path);
        drop(self.file);
        removed
    }
}

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody.
    Nobody,
    /// Another process.
    Another,
    /// There is no telling: it cannot be opened, or there are no locks here.
    Unknown,
}

/// Who holds the lock that the file `path` stands for.
pub(super) fn holder(path: &Path) -> Holder {
    // Opening a pipe would wait for somebody to write to it.
    match owner::file(path) {
        Ok(owner::Found::Nothing) => return Holder::Nobody,
        Ok(owner::Found::Trusted) => {}
        Err(_) => return Holder::Unknown,
    }
    let Ok(file) = File::open(path) else { return Holder::Unknown };
    // Shared, so that two who look do not see each other.
    match file.try_lock_shared() {
        Ok(()) => Holder::Nobody,
        Err(TryLockError::WouldBlock) => Holder::Another,
        Err(TryLockError::Error(_)) => Holder::Unknown,
    }
}

/// Opens or makes the file; `None` when its directory is not there.
fn open(path: &Path) -> Result<Option<File>> {
    owner::file(path)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == IoKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("cannot open the lock", path, &e)),
    }
}

/// Whether `path` still is the file that was opened.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(opened), Ok(found)) = (file.metadata(), std::fs::symlink_metadata(path)) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (opened.dev(), opened.ino()) == (found.dev(), found.ino())
    }
    #[cfg(not(unix))]
    {
        // A file that is open is not replaced there.
        opened.file_type() == found.file_type()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_the_next_waits() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lock");
        assert_eq!(holder(&path), Holder::Nobody);
        let first = Lock::take(&path, || panic!("nobody holds it")).unwrap().unwrap();
        if !first.is_exclusive {
            println!("skipped: no locks here");
            return;
        }
        assert_eq!(holder(&path), Holder::Another);
        assert!(matches!(Lock::attempt(&path).unwrap(), Attempt::Busy));
        let mut first = Some(first);
        // Let go of only once the second has said that it waits.
        let second = Lock::take(&path, || drop(first.take())).unwrap().unwrap();
        assert!(second.is_exclusive);
        drop(second);
        assert_eq!(holder(&path), Holder::Nobody);
        assert!(matches!(Lock::attempt(&path).unwrap(), Attempt::Taken(_)));
    }

    #[test]
    fn what_is_no_file_is_no_lock_and_is_not_opened() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lock");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(holder(&path), Holder::Unknown);
        assert!(Lock::attempt(&path).unwrap_err().message().contains("something else"));
        #[cfg(unix)]
        {
            let pipe = root.path().join("pipe");
            let made = std::process::Command::new("mkfifo").arg(&pipe).status();
            assert!(made.is_ok_and(|status| status.success()), "mkfifo");
            assert_eq!(holder(&pipe), Holder::Unknown);
            assert!(Lock::take(&pipe, || ()).unwrap_err().message().contains("something else"));
        }
    }

    #[test]
    fn a_lock_that_was_removed_is_none() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lock");
        let mut first = Lock::take(&path, || ()).unwrap();
        if !first.as_ref().unwrap().is_exclusive {
            println!("skipped: no locks here");
            return;
        }
        let removed = Lock::take(&path, || {
            // The file under the name is another one, or none, by the time the second has its lock.
            first.take().unwrap().remove().unwrap();
        });
        let again = removed.unwrap();
        // Opened after the removal, it is a lock on the new file.
        assert!(again.is_some_and(|lock| lock.is_exclusive));
        let folder = root.path().join("folder");
        assert!(Lock::take(&folder.join("lock"), || ()).unwrap().is_none());
        assert!(matches!(Lock::attempt(&folder.join("lock")).unwrap(), Attempt::Gone));

        let file = open(&path).unwrap().unwrap();
        assert!(is_at(&file, &path));
        std::fs::rename(&path, root.path().join("other")).unwrap();
        assert!(!is_at(&file, &path));
        std::fs::write(&path, "").unwrap();
        assert!(!is_at(&file, &path) || cfg!(not(unix)));
    }
}
