//! The folder of one key: what lies in it, and in which state.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::owner::{self, Found};
use super::record::Record;
use crate::error::{Error, Result};
use crate::gguf;

/// A temporary file not written to for so long is what a killed conversion left. It outlasts any pause of a conversion
/// under way where there are no locks.
pub(super) const STALE: Duration = Duration::from_secs(600);

/// The longest part of a directory name a model file is named by, in bytes: with what temporary files append, a name of
/// 255 bytes is never reached.
const MAX_NAME_BYTES: usize = 180;

const LOCK: &str = "lock";
const RECORD: &str = "record.json";
const MODEL_SUFFIX: &str = ".gguf";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// A tensor every decision model has, and the key its vocabulary is under.
const SURE_TENSOR: &str = "token_embd.weight";
const SURE_KEY: &str = "tokenizer.ggml.tokens";

/// The folder of a key, which need not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folder {
    path: PathBuf,
}

/// Whether a model is what it should be, as far as its header tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// There is none.
    Nothing,
    /// Its data is all there; its size.
    Whole(u64),
    /// What is wrong with it.
    Damaged(String),
}

/// The files of a folder.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) model: Option<PathBuf>,
    pub(super) has_record: bool,
    pub(super) has_lock: bool,
    pub(super) temporaries: Vec<Temporary>,
    /// Sizes of all of them.
    pub(super) n_bytes: u64,
}

/// A temporary file.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) path: PathBuf,
    pub(super) n_bytes: u64,
    /// How long it was not written to.
    age: Duration,
}

impl Temporary {
    pub(super) fn is_stale(&self) -> bool {
        self.age >= STALE
    }
}

impl Folder {
    pub(super) fn of(cache: &Path, key: &str) -> Self {
        Self { path: cache.join(key) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The model made of a checkpoint directory called `name`.
    pub(super) fn model(&self, name: &str) -> PathBuf {
        let name = if name.is_empty() { "model" } else { &name[..name.floor_char_boundary(MAX_NAME_BYTES)] };
        self.path.join(format!("{name}{MODEL_SUFFIX}"))
    }

    /// A name for a model that is not ready, no other process's.
    pub(super) fn temporary(model: &Path) -> PathBuf {
        let mut name = model.as_os_str().to_owned();
        // A fresh `RandomState` is seeded by the system; nothing secret depends on the name.
        name.push(format!(".{:016x}{TEMPORARY_SUFFIX}", RandomState::new().build_hasher().finish()));
        name.into()
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    pub(super) fn record(&self) -> PathBuf {
        self.path.join(RECORD)
    }

    /// Makes the folder, which nobody else can look into, and the cache around it.
    pub(super) fn create(&self) -> Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        if owner::directory(&self.path)? == Found::Nothing {
            let failed = |e: std::io::Error| Error::io("cannot create in the conversion cache", &self.path, &e);
            builder.create(&self.path).map_err(failed)?;
            if let Some(cache) = self.path.parent() {
                sync(cache)?;
            }
            // Another may have been faster.
            owner::directory(&self.path)?;
        }
        Ok(())
    }

    /// Whether the file `model` can be used, without reading its tensor data.
    ///
    /// # Errors
    /// Others could have written it.
    pub(super) fn health(&self, model: &Path, record: Option<&Record>) -> Result<Health> {
        if owner::file(model)? == Found::Nothing {
            return Ok(Health::Nothing);
        }
        // The size of each tensor is checked against that of the file when it is opened.
        let file = match gguf::File::open(model) {
            Ok(file) => file,
            Err(error) => return Ok(Health::Damaged(error.message().to_owned())),
        };
        let n_bytes = file.map().bytes().len() as u64;
        let damaged = |why: &str| Ok(Health::Damaged(why.to_owned()));
        if !matches!(file.str("general.architecture"), Ok(Some("laya"))) {
            return damaged("it is not a decision model");
        }
        if file.tensor(SURE_TENSOR).is_none() || file.get(SURE_KEY).is_none() {
            return damaged("the model is not complete");
        }
        match record {
            Some(record) if record.n_bytes != n_bytes => {
                Ok(Health::Damaged(format!("it has {n_bytes} bytes and was made with {}", record.n_bytes)))
            }
            _ => Ok(Health::Whole(n_bytes)),
        }
    }

    /// The files of the folder; `None` when it holds anything the cache does not make, or nothing it does.
    pub(super) fn contents(&self) -> Result<Option<Contents>> {
        let failed = |e: std::io::Error| Error::io("cannot list", &self.path, &e);
        let mut contents = Contents::default();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Of a link itself. A file that was removed meanwhile is not there any more.
            let Ok(facts) = entry.metadata() else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if facts.is_dir() {
                return Ok(None);
            }
            if name == LOCK {
                contents.has_lock = true;
            } else if name == RECORD {
                contents.has_record = true;
            } else if name.ends_with(TEMPORARY_SUFFIX) {
                let age = facts.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
                let age = age.unwrap_or_default();
                contents.temporaries.push(Temporary { path: entry.path(), n_bytes: facts.len(), age });
            } else if name.ends_with(MODEL_SUFFIX) && contents.model.is_none() {
                contents.model = Some(entry.path());
            } else {
                return Ok(None);
            }
            contents.n_bytes += facts.len();
        }
        let is_ours = contents.has_lock || contents.has_record || contents.model.is_some();
        Ok(is_ours.then_some(contents))
    }

    /// Removes the temporary files that killed conversions left; returns their size.
    pub(super) fn sweep(&self) -> Result<u64> {
        let mut n_bytes = 0;
        for temporary in self.contents()?.unwrap_or_default().temporaries {
            // One that cannot be removed costs space and does no other harm.
            if temporary.is_stale() && fs::remove_file(&temporary.path).is_ok() {
                n_bytes += temporary.n_bytes;
            }
        }
        Ok(n_bytes)
    }
}

/// Makes names in the directory `path` durable.
pub(super) fn sync(path: &Path) -> Result<()> {
    #[cfg(unix)]
    fs::File::open(path).and_then(|dir| dir.sync_all()).map_err(|e| Error::io("cannot sync", path, &e))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{Options, Outtype, convert};

    fn folder() -> (tempfile::TempDir, Folder) {
        let cache = tempfile::tempdir().unwrap();
        let folder = Folder::of(&cache.path().join("new/cache"), &"0".repeat(32));
        folder.create().unwrap();
        (cache, folder)
    }

    #[test]
    fn a_folder_is_made_for_this_user_alone() {
        let (_cache, folder) = folder();
        folder.create().unwrap();
        #[cfg(unix)]
        for dir in folder.path().ancestors().take(3) {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o7777, 0o700, "{}", dir.display());
        }
        fs::remove_dir(folder.path()).unwrap();
        fs::write(folder.path(), "").unwrap();
        assert!(folder.create().unwrap_err().message().contains("something else"));
    }

    #[test]
    fn names_of_models_fit_and_keep_whole_characters() {
        let (_cache, folder) = folder();
        assert_eq!(folder.model("tiny"), folder.path().join("tiny.gguf"));
        assert_eq!(folder.model(""), folder.path().join("model.gguf"));
        let long = folder.model(&"я".repeat(300));
        assert_eq!(long, folder.path().join(format!("{}.gguf", "я".repeat(90))));
        let temporary = Folder::temporary(&Folder::temporary(&long));
        fs::write(&temporary, "").unwrap();
        assert!(temporary.file_name().unwrap().len() < 255);
    }

    #[test]
    fn every_way_a_model_can_be_damaged() {
        let (_cache, folder) = folder();
        let path = folder.model("tiny");
        assert_eq!(folder.health(&path, None).unwrap(), Health::Nothing);
        let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tiny-mmbert/checkpoint");
        let n_bytes = convert(&checkpoint, &path, &Options::default()).unwrap().n_bytes;
        let record = Record::new("", &checkpoint, Outtype::F16, n_bytes);
        assert_eq!(folder.health(&path, None).unwrap(), Health::Whole(n_bytes));
        assert_eq!(folder.health(&path, Some(&record)).unwrap(), Health::Whole(n_bytes));
        let good = fs::read(&path).unwrap();
        let replaced = |old: &[u8], new: &[u8]| {
            let mut bytes = good.clone();
            let at = (0..bytes.len()).find(|at| bytes[*at..].starts_with(old)).unwrap();
            bytes[at..at + old.len()].copy_from_slice(new);
            bytes
        };
        for (bytes, why) in [
            (Vec::new(), "empty"),
            (good[..good.len() / 2].to_vec(), "end"),
            (good[..good.len() - 32].to_vec(), "end"),
            (vec![0; good.len()], "not a GGUF file"),
            (replaced(b"\x04\0\0\0\0\0\0\0laya", b"\x04\0\0\0\0\0\0\0bert"), "not a decision model"),
            (replaced(b"token_embd.weight", b"token_embd.height"), "not complete"),
            (replaced(b"tokenizer.ggml.tokens", b"tokenizer.ggml.tokenz"), "not complete"),
            ([&good[..], &[0; 32]].concat(), "and was made with"),
        ] {
            fs::write(&path, bytes).unwrap();
            match folder.health(&path, Some(&record)).unwrap() {
                Health::Damaged(reason) => assert!(reason.contains(why), "{reason:?} does not say {why:?}"),
                other => panic!("{why}: {other:?}"),
            }
        }
    }

    #[test]
    fn only_stale_temporary_files_are_swept() {
        let (_cache, folder) = folder();
        let model = folder.model("m");
        for (path, age) in [
            (model.clone(), 2 * STALE),
            (folder.lock(), 2 * STALE),
            (folder.record(), 2 * STALE),
            (Folder::temporary(&model), Duration::ZERO),
            (Folder::temporary(&model), STALE / 2),
            (Folder::temporary(&model), STALE),
            (Folder::temporary(&folder.record()), 2 * STALE),
        ] {
            fs::write(&path, "1234").unwrap();
            fs::File::options().append(true).open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
        assert_eq!(folder.sweep().unwrap(), 8);
        let contents = folder.contents().unwrap().unwrap();
        assert_eq!((contents.temporaries.len(), contents.n_bytes), (2, 5 * 4));
        assert!(contents.model == Some(model) && contents.has_lock && contents.has_record);
    }

    #[test]
    fn a_folder_with_anything_else_in_it_is_no_entry() {
        let (_cache, folder) = folder();
        let is_entry = || folder.contents().unwrap().is_some();
        assert!(!is_entry(), "an empty one is not known to be ours");
        fs::write(folder.path().join("a.gguf"), "").unwrap();
        assert!(is_entry());
        fs::write(folder.path().join("b.gguf"), "").unwrap();
        assert!(!is_entry());
        fs::rename(folder.path().join("b.gguf"), folder.path().join("notes.txt")).unwrap();
        assert!(!is_entry());
        fs::remove_file(folder.path().join("notes.txt")).unwrap();
        fs::create_dir(folder.path().join("c.tmp")).unwrap();
        assert!(!is_entry());
    }
}
