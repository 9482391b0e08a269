//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufWriter, ErrorKind as IoKind, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::snapshot::Snapshot;
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
    Output::new(path).write(write, check)
}

/// Which file a finished one may replace.
#[derive(Debug, Clone, Copy)]
pub enum Replace<'a> {
    /// Whichever has the name by then. Its mode is kept.
    Any,
    /// None: a file that has the name by then keeps it, and the finished one is gone.
    Nothing,
    /// This one, if it is still there and what it was; else the finished one is gone. Its mode is kept, and its owner and
    /// group where that is permitted: [`Snapshot::ownership`] says whether it was. The comparison is the last thing before
    /// the rename, but no system does both as one: a change at that very moment is lost.
    Only(&'a Snapshot),
}

/// A file to be written as [`write_atomic_checked`] does it, with a say in what it may replace and who may read it.
///
/// Nobody who may not read the file that it replaces, or is a copy of, can read it while it is written.
#[derive(Debug)]
pub struct Output<'a> {
    path: &'a Path,
    replace: Replace<'a>,
    like: Option<&'a Snapshot>,
}

impl<'a> Output<'a> {
    /// The file `path`, which may replace any other.
    pub fn new(path: &'a Path) -> Self {
        Self { path, replace: Replace::Any, like: None }
    }

    /// The same, but it may replace this only.
    #[must_use]
    pub fn replacing(self, replace: Replace<'a>) -> Self {
        Self { replace, ..self }
    }

    /// The same, but when it replaces nothing it is a copy of `original`: its mode is that one's, less what the umask takes
    /// away.
    #[must_use]
    pub fn like(self, original: &'a Snapshot) -> Self {
        Self { like: Some(original), ..self }
    }

    /// Writes the file through `write` and shows it to `check`.
    ///
    /// # Errors
    /// As [`write_atomic_checked`]; also when it would replace what it may not. That it replaces nothing it may not is
    /// found first, and again when it is finished.
    pub fn write<T, U>(
        &self,
        write: impl FnOnce(&mut dyn Write) -> Result<T>,
        check: impl FnOnce(&Path, T) -> Result<U>,
    ) -> Result<U> {
        let path = &destination(self.path)?;
        let old = fs::metadata(path).ok();
        self.permitted(path)?;
        let mode = if old.is_some() { Some(0o600) } else { self.like.and_then(Snapshot::new_mode) };
        let (temporary, file) = Temporary::create(path, mode)?;
        let located = |e: Error| if e.file().is_none() { e.in_file(path) } else { e };
        let failed = |e: std::io::Error| Error::io("cannot write", path, &e);
        let result = thread::scope(|scope| {
            let (more, wake) = sync_channel(1);
            let sync = scope.spawn(|| sync(&file, wake));
            let paced = Paced { file: &file, n_unsynced: 0, more };
            let mut out = BufWriter::with_capacity(BUFFER_BYTES, paced);
            let result = write(&mut out).map_err(located)?;
            let paced = out.into_inner().map_err(|e| failed(e.into_error()))?;
            match self.replace {
                Replace::Only(original) => original.hand_down(&file).map_err(failed)?,
                Replace::Any => {
                    if let Some(old) = fs::metadata(path).ok().or(old) {
                        file.set_permissions(old.permissions()).map_err(failed)?;
                    }
                }
                Replace::Nothing => {}
            }
            // Nothing more to come.
            drop(paced);
            let checked = check(temporary.path(), result);
            sync.join().unwrap_or_else(|panic| resume_unwind(panic)).map_err(failed)?;
            checked.map_err(located)
        })?;
        drop(file);
        if matches!(self.replace, Replace::Nothing) {
            temporary.claim(path)?;
        } else {
            self.permitted(path)?;
            temporary.rename(path).map_err(|e| Error::io("cannot rename the finished file to", path, &e))?;
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_directory(parent).map_err(|e| Error::io("cannot sync the directory of", path, &e))?;
        Ok(result)
    }

    /// Refuses to replace what is at `path` now, if it may not be.
    fn permitted(&self, path: &Path) -> Result<()> {
        match self.replace {
            Replace::Nothing if fs::symlink_metadata(path).is_ok() => {
                Err(Error::new(ErrorKind::Io, "is there already; nothing was replaced").in_file(path))
            }
            Replace::Only(original) => original.check(path),
            Replace::Any | Replace::Nothing => Ok(()),
        }
    }
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
    /// A new file beside `target`, with `mode` less what the umask takes away.
    fn create(target: &Path, mode: Option<u32>) -> Result<(Self, File)> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if let Some(mode) = mode {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        }
        #[cfg(not(unix))]
        let _ = mode;
        loop {
            let mut name = target.as_os_str().to_owned();
            // A fresh `RandomState` is seeded by the system; nothing secret depends on the name.
            name.push(format!(".{:016x}.tmp", RandomState::new().build_hasher().finish()));
            let path = PathBuf::from(name);
            match options.open(&path) {
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

    /// Gives the file the name `target` unless another one has it.
    fn claim(self, target: &Path) -> Result<()> {
        match fs::hard_link(self.path(), target) {
            Ok(()) => self.remove().map_err(|e| Error::io("cannot remove the temporary name of", target, &e)),
            Err(e) if e.kind() == IoKind::AlreadyExists => Err(appeared(target)),
            // Most likely a file system without links. Whatever else it is, creating a file fails of it too.
            Err(_) => self.claim_without_links(target),
        }
    }

    /// The same where a file has one name only: an empty file takes the name, if nobody else did, and is replaced.
    fn claim_without_links(self, target: &Path) -> Result<()> {
        let failed = |e: std::io::Error| Error::io("cannot rename the finished file to", target, &e);
        match OpenOptions::new().write(true).create_new(true).open(target) {
            Ok(_) => {}
            Err(e) if e.kind() == IoKind::AlreadyExists => return Err(appeared(target)),
            Err(e) => return Err(failed(e)),
        }
        self.rename(target).map_err(|e| {
            // The error is on its way, whether or not the empty file can be removed.
            let _ = fs::remove_file(target);
            failed(e)
        })
    }

    fn remove(mut self) -> std::io::Result<()> {
        self.path.take().map_or(Ok(()), fs::remove_file)
    }
}

fn appeared(path: &Path) -> Error {
    Error::new(ErrorKind::Io, "appeared meanwhile; nothing was replaced").in_file(path)
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

    fn written(output: &Output<'_>) -> Result<()> {
        output.write(|w| w.write_all(b"new").map_err(|e| Error::new(ErrorKind::Io, e.to_string())), |_, ()| Ok(()))
    }

    #[test]
    fn what_may_not_be_replaced_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let output = Output::new(&path).replacing(Replace::Nothing);
        written(&output).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["out"]);
        let was = Snapshot::of(&path).unwrap();
        written(&Output::new(&path).replacing(Replace::Only(&was))).unwrap();

        fs::write(&path, b"another one").unwrap();
        let changed = Output::new(&path).replacing(Replace::Only(&was));
        for (output, says) in [(output, "is there already"), (changed, "was changed meanwhile")] {
            let error = output.write(|_| -> Result<()> { unreachable!("{says}") }, |_, ()| Ok(())).unwrap_err();
            assert!(error.message().starts_with(says) && error.file() == Some(&path), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"another one");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_name_is_claimed_without_links_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        for content in ["first", "second"] {
            let (temporary, mut file) = Temporary::create(&path, None).unwrap();
            file.write_all(content.as_bytes()).unwrap();
            let claimed = temporary.claim_without_links(&path);
            assert_eq!(claimed.is_ok(), content == "first");
            if let Err(error) = claimed {
                assert_eq!(error.message(), "appeared meanwhile; nothing was replaced");
            }
            assert_eq!(fs::read(&path).unwrap(), b"first");
            assert_eq!(names(dir.path()), ["out"]);
        }
        // The name is free again when the file cannot have it.
        fs::remove_file(&path).unwrap();
        let (temporary, _) = Temporary::create(&path, None).unwrap();
        fs::remove_file(temporary.path()).unwrap();
        assert!(temporary.claim_without_links(&path).is_err());
        assert!(names(dir.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_is_for_whom_any_is_and_a_private_one_never_for_others() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let (any, path) = (dir.path().join("any"), dir.path().join("out"));
        fs::write(&any, b"").unwrap();
        let mut seen = Vec::new();
        for _ in 0..2 {
            write_atomic(&path, |_| {
                let temporary = names(dir.path()).into_iter().find(|name| name.ends_with(".tmp")).unwrap();
                seen.push(mode(&dir.path().join(temporary)));
                Ok(())
            })
            .unwrap();
            assert_eq!(mode(&path), if seen.len() == 1 { mode(&any) } else { 0o640 });
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
        assert_eq!(seen, [mode(&any), 0o600]);
    }
}
