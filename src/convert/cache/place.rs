//! Where the cache is, and that this is nowhere inside the checkpoint.

use std::ffi::OsString;
use std::io::ErrorKind as IoKind;
use std::path::{Component, Path, PathBuf};

use super::key::READ_FOLDERS;
use crate::error::{Error, ErrorKind, Result};

/// The environment variable that names the cache.
const VARIABLE: &str = "LAYA_CACHE";

pub(super) fn default_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A variable set to nothing is one not set.
    let path_in = |name: &str| variable(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    if let Some(dir) = path_in(VARIABLE) {
        return Some(dir);
    }
    let caches = if cfg!(windows) {
        path_in("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        path_in("HOME").map(|home| home.join("Library").join("Caches"))
    } else {
        path_in("XDG_CACHE_HOME").or_else(|| Some(path_in("HOME")?.join(".cache")))
    };
    caches.map(|caches| caches.join("laya").join("gguf"))
}

/// Refuses a cache `dir` inside the checkpoint: nothing is ever written there.
pub(super) fn outside(dir: &Path, checkpoint: &Path) -> Result<()> {
    let cache = resolve(dir)?;
    let folders = READ_FOLDERS.iter().map(|folder| checkpoint.join(folder));
    for folder in std::iter::once(checkpoint.to_owned()).chain(folders) {
        let Ok(real) = folder.canonicalize() else { continue };
        if cache.ancestors().any(|part| part == real || is_same(part, &real)) {
            let message = format!(
                "the conversion cache cannot be inside the checkpoint directory {}, which is only read; name another place",
                checkpoint.display()
            );
            return Err(Error::new(ErrorKind::Usage, message).in_file(dir));
        }
    }
    Ok(())
}

/// `path` with links followed as far as it is there; the rest, which is not there yet, is taken as it is spelled.
fn resolve(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Error::new(ErrorKind::Usage, "the conversion cache has an empty name; name a directory"));
    }
    let failed = |e: std::io::Error| Error::io("cannot use as conversion cache", path, &e);
    let mut found = PathBuf::new();
    for component in std::path::absolute(path).map_err(failed)?.components() {
        match component {
            Component::CurDir => {}
            // What was found so far has no links left, so its parent is the one the system would go to.
            Component::ParentDir => {
                found.pop();
            }
            Component::Prefix(_) | Component::RootDir => found.push(component),
            Component::Normal(name) => {
                found.push(name);
                match found.canonicalize() {
                    Ok(real) => found = real,
                    Err(e) if e.kind() == IoKind::NotFound && !found.is_symlink() => {}
                    Err(e) => return Err(failed(e)),
                }
            }
        }
    }
    Ok(found)
}

/// Whether both are the same directory under two names, as behind a second mount or on a disk that ignores case.
fn is_same(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let id = |path: &Path| std::fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()));
        id(a).is_some_and(|a| Some(a) == id(b))
    }
    #[cfg(not(unix))]
    {
        let _ = (a, b);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_nearest_name_wins() {
        let set = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(v))).collect();
            default_dir(move |name| pairs.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
        };
        assert_eq!(set(&[]), None);
        assert_eq!(set(&[("HOME", ""), ("LOCALAPPDATA", "")]), None);
        assert_eq!(set(&[(VARIABLE, "c"), ("HOME", "h"), ("XDG_CACHE_HOME", "x")]), Some("c".into()));
        let (variables, want): (&[_], _) = if cfg!(windows) {
            (&[("LOCALAPPDATA", "l")], "l/laya/gguf")
        } else if cfg!(target_os = "macos") {
            (&[("HOME", "h")], "h/Library/Caches/laya/gguf")
        } else {
            assert_eq!(set(&[("HOME", "h"), ("XDG_CACHE_HOME", "x")]), Some("x/laya/gguf".into()));
            (&[("HOME", "h"), ("XDG_CACHE_HOME", "")], "h/.cache/laya/gguf")
        };
        assert_eq!(set(variables), Some(want.into()));
    }

    #[test]
    fn a_place_inside_the_checkpoint_is_seen_under_every_spelling() {
        let root = tempfile::tempdir().unwrap();
        let checkpoint = root.path().join("checkpoint");
        fs::create_dir_all(checkpoint.join("encoder")).unwrap();
        fs::create_dir_all(root.path().join("beside/below")).unwrap();
        let mut inside =
            vec!["checkpoint", "checkpoint/new/c", "beside/../checkpoint/c", "beside/new/../../checkpoint"];
        let mut allowed = vec![".", "beside", "new", "checkpoint-2/c", "checkpoint/../c", "checkpoint/new/../../c"];
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink("checkpoint", root.path().join("link")).unwrap();
            symlink("../checkpoint/encoder", root.path().join("beside/deep")).unwrap();
            symlink("../beside/below", checkpoint.join("tokenizer")).unwrap();
            symlink("beside/below", root.path().join("far")).unwrap();
            // The parent of where a link leads to is not the directory that the link is in.
            inside.extend(["link", "link/new", "beside/deep/../new", "far/c", "beside/below"]);
            allowed.extend(["far/../c", "link/../c"]);
            symlink("checkpoint/not-there", root.path().join("dangling")).unwrap();
            for path in ["dangling", "dangling/c"] {
                let error = outside(&root.path().join(path), &checkpoint).unwrap_err();
                assert!(error.message().starts_with("cannot use as conversion cache"), "{error}");
            }
        }
        for path in inside {
            let error = outside(&root.path().join(path), &checkpoint).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{path}");
            assert!(error.message().contains("cannot be inside the checkpoint directory"), "{path}: {error}");
        }
        for path in allowed {
            outside(&root.path().join(path), &checkpoint).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        assert_eq!(outside(Path::new(""), &checkpoint).unwrap_err().kind(), ErrorKind::Usage);
        // Looking leaves nothing behind.
        assert!(!checkpoint.join("new").exists() && !root.path().join("new").exists());
    }
}
