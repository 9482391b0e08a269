//! Who could have written a file of the cache.
//!
//! A cache may lie in a place that several users share. What another of them could have put there would be loaded as the
//! model of a checkpoint they never saw, so it is refused.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

/// What there is at a path of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// What was looked for, and only this user and the system's own could have written it.
    Trusted,
}

/// Looks for the directory `path`; refuses one that others could have written.
pub(super) fn directory(path: &Path) -> Result<Found> {
    check(path, "directory", std::fs::FileType::is_dir)
}

/// Looks for the file `path`; refuses one that others could have written.
pub(super) fn file(path: &Path) -> Result<Found> {
    check(path, "file", std::fs::FileType::is_file)
}

/// Looks for the cache itself at `path`; refuses one in which others could put, rename or remove what they like. Whoever
/// named it may have named a link.
pub(super) fn root(path: &Path) -> Result<Found> {
    let facts = match std::fs::metadata(path) {
        Ok(facts) => facts,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) => return Err(Error::io("cannot look at the conversion cache", path, &e)),
    };
    if !facts.is_dir() {
        return Err(refused(path, "is not a directory; name a directory for the conversion cache"));
    }
    // Where only the owner of a file may rename or remove it, as in /tmp, the entries are looked at one by one.
    trusted(path, &facts, 0o1000)
}

fn check(path: &Path, what: &str, is_what: impl Fn(&std::fs::FileType) -> bool) -> Result<Found> {
    // Of the link itself: where a link leads to is another's to change.
    let facts = match std::fs::symlink_metadata(path) {
        Ok(facts) => facts,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) => return Err(Error::io("cannot look at", path, &e)),
    };
    if facts.is_symlink() || !is_what(&facts.file_type()) {
        let found = if facts.is_symlink() { "a symbolic link" } else { "something else" };
        return Err(refused(path, &format!("is {found} where the conversion cache has a {what}; remove it")));
    }
    trusted(path, &facts, 0)
}

/// Refuses what another user owns, or can write although none of the mode bits `excused` is set.
fn trusted(path: &Path, facts: &std::fs::Metadata, excused: u32) -> Result<Found> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let user = user()?;
        // The system's own user can write everything anyway.
        if facts.uid() != user && facts.uid() != 0 {
            let message = format!(
                "belongs to user {}, not to {user}, who runs this; what others put in a conversion cache is not trusted: \
                 remove it, or name a cache of your own",
                facts.uid()
            );
            return Err(refused(path, &message));
        }
        let mode = facts.permissions().mode() & 0o7777;
        if mode & OTHERS_WRITE != 0 && mode & excused == 0 {
            let message = format!(
                "can be written by other users (mode {mode:04o}); what others put in a conversion cache is not trusted: \
                 remove it, or if nobody did, chmod go-w it"
            );
            return Err(refused(path, &message));
        }
    }
    #[cfg(not(unix))]
    let _ = (path, facts, excused);
    Ok(Found::Trusted)
}

fn refused(path: &Path, message: &str) -> Error {
    Error::new(ErrorKind::Io, message).in_file(path)
}

/// The mode bits that let the group and everybody write.
#[cfg(unix)]
const OTHERS_WRITE: u32 = 0o022;

/// The user this process makes files as.
#[cfg(unix)]
fn user() -> Result<u32> {
    use std::os::unix::fs::MetadataExt as _;
    #[cfg(target_os = "linux")]
    if let Ok(facts) = std::fs::metadata("/proc/self") {
        return Ok(facts.uid());
    }
    let made = tempfile::tempfile().and_then(|file| file.metadata());
    let failed = |e| Error::new(ErrorKind::Io, format!("cannot find out which user runs this: {e}"));
    made.map(|facts| facts.uid()).map_err(failed)
}

/// Takes from `path` what would let others write it, whatever the umask gave.
pub(super) fn restrict(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let failed = |e: std::io::Error| Error::io("cannot set the mode of", path, &e);
        let mut permissions = std::fs::metadata(path).map_err(failed)?.permissions();
        if permissions.mode() & OTHERS_WRITE != 0 {
            permissions.set_mode(permissions.mode() & !OTHERS_WRITE);
            std::fs::set_permissions(path, permissions).map_err(failed)?;
            // With the mode it was synced with, it would be refused after a power loss.
            std::fs::File::open(path).and_then(|file| file.sync_all()).map_err(failed)?;
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
    use std::path::PathBuf;

    fn with_mode(path: PathBuf, mode: u32) -> PathBuf {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn made() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let (dir, path) = (root.path().join("dir"), root.path().join("file"));
        fs::create_dir(&dir).unwrap();
        fs::write(&path, "").unwrap();
        (root, with_mode(dir, 0o700), with_mode(path, 0o600))
    }

    #[test]
    fn what_only_this_user_writes_is_trusted() {
        let (root, dir, path) = made();
        assert_eq!(directory(&dir).unwrap(), Found::Trusted);
        assert_eq!(directory(&with_mode(dir, 0o755)).unwrap(), Found::Trusted);
        assert_eq!(file(&path).unwrap(), Found::Trusted);
        assert_eq!(file(&with_mode(path.clone(), 0o644)).unwrap(), Found::Trusted);
        assert_eq!(file(&root.path().join("nothing")).unwrap(), Found::Nothing);
        assert_eq!(user().unwrap(), fs::metadata(&path).unwrap().uid());
    }

    #[test]
    fn what_others_write_is_refused_with_its_mode() {
        let (_root, dir, path) = made();
        for mode in [0o777, 0o770, 0o720, 0o702, 0o1777] {
            let error = directory(&with_mode(dir.clone(), mode)).unwrap_err().to_string();
            assert!(error.contains(&format!("(mode {mode:04o})")) && error.contains("chmod go-w"), "{error}");
        }
        let error = file(&with_mode(path.clone(), 0o660)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: can be written by other users", path.display())), "{error}");
        restrict(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(file(&path).unwrap(), Found::Trusted);
    }

    #[test]
    fn a_cache_that_others_write_is_refused_unless_files_in_it_are_their_owners() {
        let (root, dir, path) = made();
        let link = root.path().join("link");
        symlink(&dir, &link).unwrap();
        for mode in [0o700, 0o755, 0o1777, 0o1770] {
            assert_eq!(super::root(&with_mode(dir.clone(), mode)).unwrap(), Found::Trusted, "{mode:o}");
            assert_eq!(super::root(&link).unwrap(), Found::Trusted, "{mode:o}");
        }
        for mode in [0o777, 0o775, 0o722] {
            let error = super::root(&with_mode(dir.clone(), mode)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: can be written", dir.display())), "{error}");
            assert!(error.contains("chmod go-w") && super::root(&link).is_err(), "{error}");
        }
        assert_eq!(super::root(&root.path().join("nothing")).unwrap(), Found::Nothing);
        assert!(super::root(&path).unwrap_err().message().contains("not a directory"));
    }

    #[test]
    fn links_and_things_of_another_kind_are_refused() {
        let (root, dir, path) = made();
        let link = root.path().join("link");
        symlink(&dir, &link).unwrap();
        assert!(directory(&link).unwrap_err().message().contains("symbolic link"));
        fs::remove_file(&link).unwrap();
        symlink(root.path().join("nothing"), &link).unwrap();
        assert!(file(&link).unwrap_err().message().contains("symbolic link"));
        assert!(file(&dir).unwrap_err().message().contains("something else"));
        assert!(directory(&path).unwrap_err().message().contains("something else"));
    }

    #[test]
    fn what_another_user_owns_is_refused() {
        let (_root, dir, path) = made();
        if user().unwrap() != 0 {
            println!("skipped: only root can give a file to another user");
            return;
        }
        for path in [&dir, &path] {
            chown(path, Some(12_345), None).unwrap();
        }
        for error in [directory(&dir).unwrap_err(), file(&path).unwrap_err()] {
            assert!(error.message().starts_with("belongs to user 12345, not to 0, who runs this"), "{error}");
        }
    }
}
