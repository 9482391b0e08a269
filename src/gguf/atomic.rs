//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufWriter, ErrorKind as IoKind, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::error::{Error, ErrorKind, Result};

/// Bytes collected before they go to the system.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes written before the disk is given them.
const SYNC_BYTES: usize = 64 << 20;

/// Writes `path` through `write`, durably and atomically: a new file `<path>.<16 hex digits>.tmp` in the same directory,
/// opened exclusively (never through an existing file or link), is filled, synced to disk and renamed to `path`, and the
/// directory is synced. A symbolic link is followed, and the file it leads to is the one replaced.
///
/// On an error before the rename the temporary file is removed and `path` is what it was before. When only the sync of
/// the directory fails, that is an error too, but the new file is in place. A process that is killed leaves the temporary
/// file behind.
///
/// The mode is the one of the file that is replaced, else what the umask gives.
///
/// # Errors
/// What `write` returns, or [`ErrorKind::Io`], with the file named; also when `path` is there and is not a regular file:
/// a device, a pipe or a socket cannot be replaced by a file, and nothing is written to it either.
pub fn write_atomic<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    write_atomic_checked(path, write, |_, result| Ok(result))
}

/// [`write_atomic`] that shows the finished file to `check`, under its temporary name, before it gets its own: when `check`
/// fails, the file is gone and `path` is what it was. The file is synced to disk meanwhile.
///
/// # Errors
/// As [`write_atomic`], and what `check` returns.
pub fn write_atomic_checked<T, U>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T>,
    check: impl FnOnce(&Path, T) -> Result<U>,
) -> Result<U> {
    let path = &destination(path)?;
    let (temporary, file) = Temporary::create(path)?;
    let located = |e: Error| if e.file().is_none() { e.in_file(path) } else { e };
    let failed = |e: std::io::Error| Error::io("cannot write", path, &e);
    let result = thread::scope(|scope| {
        let (more, wake) = sync_channel(1);
        let sync = scope.spawn(|| sync(&file, wake));
        let paced = Paced { file: &file, n_unsynced: 0, more };
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, paced);
        let result = write(&mut out).map_err(located)?;
        let paced = out.into_inner().map_err(|e| failed(e.into_error()))?;
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions()).map_err(failed)?;
        }
        // Nothing more to come.
        drop(paced);
        let checked = check(temporary.path(), result);
        sync.join().unwrap_or_else(|panic| resume_unwind(panic)).map_err(failed)?;
        checked.map_err(located)
    })?;
    drop(file);
    temporary.rename(path).map_err(|e| Error::io("cannot rename the finished file to", path, &e))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_directory(parent).map_err(|e| Error::io("cannot sync the directory of", path, &e))?;
    Ok(result)
}

/// A file whose data goes to the disk while more is written, not all at the end.
struct Paced<'a> {
    file: &'a File,
    n_unsynced: usize,
    more: SyncSender<()>,
}

impl Write for Paced<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut file = self.file;
        let n = file.write(bytes)?;
        self.n_unsynced += n;
        if self.n_unsynced >= SYNC_BYTES && self.more.try_send(()).is_ok() {
            self.n_unsynced = 0;
        }
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Syncs `file` as often as it is woken, and once more, with its size and mode, when there is nothing more to come.
fn sync(file: &File, wake: Receiver<()>) -> std::io::Result<()> {
    while wake.recv().is_ok() {
        file.sync_data()?;
    }
    file.sync_all()
}

/// Refuses what [`write_atomic`] would refuse about `path` before it writes: a directory, a device, a link to nothing.
///
/// # Errors
/// As [`write_atomic`].
pub fn check_destination(path: &Path) -> Result<()> {
    destination(path).map(drop)
}

/// The regular file that writing to `path` makes or replaces.
fn destination(path: &Path) -> Result<PathBuf> {
    let refused = |what: &str| Err(Error::new(ErrorKind::Io, format!("cannot write: this is {what}")).in_file(path));
    if path.file_name().is_none() {
        return refused("a directory, name a file");
    }
    let failed = |e: std::io::Error| Error::io("cannot write", path, &e);
    let (target, kind) = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == IoKind::NotFound => return Ok(path.to_owned()),
        Err(e) => return Err(failed(e)),
        Ok(facts) if facts.is_symlink() => match path.canonicalize() {
            Err(e) if e.kind() == IoKind::NotFound => return refused("a link to a file that is not there"),
            Err(e) => return Err(failed(e)),
            Ok(target) => {
                let kind = fs::metadata(&target).map_err(failed)?.file_type();
                (target, kind)
            }
        },
        Ok(facts) => (path.to_owned(), facts.file_type()),
    };
    if kind.is_dir() {
        return refused("a directory, name a file");
    }
    if !kind.is_file() {
        return refused("a device, a pipe or a socket, name a regular file");
    }
    Ok(target)
}

/// A temporary file that is removed unless it was renamed.
struct Temporary {
    path: Option<PathBuf>,
}

impl Temporary {
    fn create(target: &Path) -> Result<(Self, File)> {
        loop {
            let mut name = target.as_os_str().to_owned();
            // A fresh `RandomState` is seeded by the system; nothing secret depends on the name.
            name.push(format!(".{:016x}.tmp", RandomState::new().build_hasher().finish()));
            let path = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((Self { path: Some(path) }, file)),
                Err(e) if e.kind() == IoKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("cannot create", target, &e)),
            }
        }
    }

    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    fn rename(mut self, target: &Path) -> std::io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, target)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Nothing better can be done about a file that cannot be removed, and the real error is on its way.
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the names in the directory `path` durable: what was made, renamed or removed there. Does nothing on systems other
/// than Unix.
///
/// # Errors
/// The directory cannot be opened or synced.
pub fn sync_directory(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn writes_whole_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let n = write_atomic(&path, |w| {
            w.write_all(b"abc").unwrap();
            assert_eq!(names(dir.path()).len(), 1);
            let temporary = names(dir.path()).remove(0);
            let hex = temporary.strip_prefix("out.").and_then(|n| n.strip_suffix(".tmp")).unwrap();
            assert!(hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{temporary}");
            Ok(3)
        });
        assert_eq!(n.unwrap(), 3);
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn an_error_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, b"old").unwrap();
        let error = write_atomic(&path, |w| -> Result<()> {
            w.write_all(b"half").unwrap();
            Err(Error::new(ErrorKind::Model, "no"))
        });
        assert_eq!(error.unwrap_err().file(), Some(path.as_path()));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_file_gets_its_name_only_when_it_passes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let written = |pass: bool| {
            write_atomic_checked(
                &path,
                |w| w.write_all(b"abc").map(|()| 3).map_err(|e| Error::new(ErrorKind::Io, e.to_string())),
                |temporary, n: usize| {
                    assert_eq!(fs::read(temporary).unwrap(), b"abc");
                    assert!(!path.exists() && temporary != path);
                    if pass { Ok(n + 1) } else { Err(Error::new(ErrorKind::Model, "no")) }
                },
            )
        };
        let error = written(false).unwrap_err();
        assert_eq!((error.message(), error.file()), ("no", Some(path.as_path())));
        assert!(names(dir.path()).is_empty());
        assert_eq!(written(true).unwrap(), 4);
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_missing_directory_and_a_directory_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_atomic(&dir.path().join("no/out"), |_| Ok(())).is_err());
        assert!(write_atomic(dir.path(), |_| Ok(())).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_what_it_leads_to_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::os::unix::fs::symlink("target", &link).unwrap();
        let error = write_atomic(&link, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("a link to a file that is not there"), "{error}");
        fs::write(&target, b"old").unwrap();
        write_atomic(&link, |w| w.write_all(b"new").map_err(|e| Error::new(ErrorKind::Io, e.to_string()))).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(dir.path()), ["link", "target"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let link = dir.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for path in [socket.as_path(), &link, Path::new("/dev/null")] {
            let error = write_atomic(path, |_| -> Result<()> { unreachable!("written to {}", path.display()) });
            let error = error.unwrap_err().to_string();
            assert!(error.contains("a device, a pipe or a socket, name a regular file"), "{error}");
            assert!(!fs::metadata(path).unwrap().is_file());
        }
        assert_eq!(names(dir.path()), ["null", "socket"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_mode_of_a_replaced_file_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        write_atomic(&path, |w| w.write_all(b"new").map_err(|e| Error::new(ErrorKind::Io, e.to_string()))).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
