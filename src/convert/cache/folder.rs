//! The folder of one key: what lies in it, and in which state.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::owner::{self, Found};
use super::record::Record;
use crate::error::{Error, Result};
use crate::gguf;
use crate::layout::RECIPE_KEY;

/// Where there are no locks, a temporary file not written to for so long is what a killed conversion left: it outlasts any
/// pause of a conversion under way.
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

/// The files of a folder, but for those that start with a dot: they are the system's, such as `.DS_Store`.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) model: Option<PathBuf>,
    pub(super) has_record: bool,
    pub(super) has_lock: bool,
    pub(super) temporaries: Vec<Temporary>,
    /// Something that is not the cache's, if there is anything.
    pub(super) other: Option<String>,
    /// What file browsers leave everywhere.
    pub(super) hidden: Vec<PathBuf>,
    /// Sizes of all that is the cache's.
    pub(super) n_bytes: u64,
}

/// What was swept out of a folder.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub(super) n_bytes: u64,
    pub(super) n: usize,
    /// Why something that should have been is not, if so.
    pub(super) failure: Option<Error>,
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
            // Another may have been faster, with the cache as well as with the folder.
            if let Some(cache) = self.path.parent() {
                owner::root(cache)?;
                gguf::sync_directory(cache).map_err(|e| Error::io("cannot sync", cache, &e))?;
            }
            owner::directory(&self.path)?;
        }
        Ok(())
    }

    /// Refuses a record or a lock that others could have written, or that is no file: opening a pipe would wait for
    /// somebody to write to it.
    pub(super) fn check(&self) -> Result<()> {
        owner::file(&self.record())?;
        owner::file(&self.lock())?;
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
            Some(record)
                if !matches!(file.u32("general.file_type"), Ok(Some(ty)) if ty == record.outtype.file_type())
                    || !matches!(file.str(RECIPE_KEY), Ok(recipe) if recipe == record.outtype.recipe()) =>
            {
                Ok(Health::Damaged(format!("it is not {}, as its record says", record.outtype.as_str())))
            }
            _ => Ok(Health::Whole(n_bytes)),
        }
    }

    /// The files of the folder; `None` when it is not there.
    pub(super) fn contents(&self) -> Result<Option<Contents>> {
        let failed = |e: std::io::Error| Error::io("cannot list", &self.path, &e);
        let mut contents = Contents::default();
        let found = match fs::read_dir(&self.path) {
            Err(e) if e.kind() == IoKind::NotFound => return Ok(None),
            found => found.map_err(failed)?,
        };
        for entry in found {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b".") {
                let is_browser = name == ".DS_Store" || name.as_encoded_bytes().starts_with(b"._");
                contents.hidden.extend(is_browser.then(|| entry.path()));
                continue;
            }
            // Of a link itself. A file that was removed meanwhile is not there any more.
            let Ok(facts) = entry.metadata() else { continue };
            let name = name.to_string_lossy();
            // What is no file under one of these names is refused when it is looked at.
            if name == LOCK {
                contents.has_lock = true;
            } else if name == RECORD {
                contents.has_record = true;
            } else if name.ends_with(TEMPORARY_SUFFIX) && facts.is_file() {
                let age = facts.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
                let age = age.unwrap_or_default();
                contents.temporaries.push(Temporary { path: entry.path(), n_bytes: facts.len(), age });
            } else if name.ends_with(MODEL_SUFFIX) && contents.model.is_none() {
                contents.model = Some(entry.path());
            } else {
                contents.other.get_or_insert_with(|| name.into_owned());
                continue;
            }
            contents.n_bytes += facts.len();
        }
        Ok(Some(contents))
    }

    /// Removes the temporary files that killed conversions left: all there are when this process holds the lock, and it
    /// `is_exclusive`, else those that are stale.
    pub(super) fn sweep(&self, is_exclusive: bool) -> Result<Swept> {
        let mut swept = Swept::default();
        for temporary in self.contents()?.unwrap_or_default().temporaries {
            if !is_exclusive && !temporary.is_stale() {
                continue;
            }
            match fs::remove_file(&temporary.path) {
                Ok(()) => {
                    swept.n += 1;
                    swept.n_bytes += temporary.n_bytes;
                }
                Err(e) if e.kind() == IoKind::NotFound => {}
                Err(e) => swept.failure = Some(Error::io("cannot remove", temporary.path, &e)),
            }
        }
        Ok(swept)
    }
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
        // As long as it is, it can be written, which makes a temporary file with a longer name first.
        gguf::write_atomic(&long, |_| Ok(())).unwrap();
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
            (replaced(b"file_type\x04\0\0\0\x01", b"file_type\x04\0\0\0\0"), "is not f16, as its record says"),
        ] {
            fs::write(&path, bytes).unwrap();
            match folder.health(&path, Some(&record)).unwrap() {
                Health::Damaged(reason) => assert!(reason.contains(why), "{reason:?} does not say {why:?}"),
                other => panic!("{why}: {other:?}"),
            }
        }
    }

    #[test]
    fn temporary_files_are_swept_when_they_are_stale_or_nobody_else_can_be_writing_them() {
        let (_cache, folder) = folder();
        let model = folder.model("m");
        let temporary = |path: &Path, hex: &str| PathBuf::from(format!("{}.{hex}.tmp", path.display()));
        for (path, age) in [
            (model.clone(), 2 * STALE),
            (folder.lock(), 2 * STALE),
            (folder.record(), 2 * STALE),
            (temporary(&model, "a"), Duration::ZERO),
            (temporary(&model, "b"), STALE / 2),
            (temporary(&model, "c"), STALE),
            (temporary(&folder.record(), "d"), 2 * STALE),
        ] {
            fs::write(&path, "1234").unwrap();
            fs::File::options().append(true).open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
        let sweep = |is_exclusive| {
            let swept = folder.sweep(is_exclusive).unwrap();
            assert_eq!(swept.failure, None);
            (swept.n, swept.n_bytes)
        };
        assert_eq!((sweep(false), sweep(false)), ((2, 8), (0, 0)));
        let contents = folder.contents().unwrap().unwrap();
        assert_eq!((contents.temporaries.len(), contents.n_bytes), (2, 5 * 4));
        assert_eq!(sweep(true), (2, 8));
        let contents = folder.contents().unwrap().unwrap();
        assert!(contents.model == Some(model) && contents.has_lock && contents.has_record);
    }

    #[test]
    fn anything_else_in_a_folder_is_seen() {
        let (_cache, folder) = folder();
        let other = || folder.contents().unwrap().unwrap().other;
        assert_eq!(other(), None);
        for name in ["a.gguf", "lock", "record.json", "a.gguf.0.tmp", ".DS_Store", ".nfs0001"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(other(), None);
        fs::write(folder.path().join("b.gguf"), "").unwrap();
        assert!(other().is_some_and(|name| name.ends_with(".gguf")));
        fs::rename(folder.path().join("b.gguf"), folder.path().join("notes.txt")).unwrap();
        assert_eq!(other().as_deref(), Some("notes.txt"));
        fs::remove_file(folder.path().join("notes.txt")).unwrap();
        fs::create_dir(folder.path().join("c.tmp")).unwrap();
        assert_eq!(other().as_deref(), Some("c.tmp"));
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(folder.contents().unwrap().is_none());
    }
}
