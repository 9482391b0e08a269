//! The entries of a cache, for people who look after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::folder::{Folder, Health, Temporary};
use super::key;
use super::lock::{self, Holder};
use super::owner::{self, Found};
use super::record::Record;
use crate::convert::Outtype;
use crate::error::{Error, Result};

/// A converted checkpoint in the cache.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Entry {
    /// Its directory.
    pub path: PathBuf,
    /// Its key.
    pub key: String,
    /// The model file, when there is one.
    pub model: Option<PathBuf>,
    /// How matrices are stored, when the record says.
    pub outtype: Option<Outtype>,
    /// The directory it was made of, when the record says.
    pub checkpoint: Option<PathBuf>,
    /// Version of the converter that made it, when the record says.
    pub converter: Option<u64>,
    /// Size of all its files, but for those that are not the cache's.
    pub n_bytes: u64,
    /// When it was made.
    pub created: Option<SystemTime>,
    /// When it was last opened, or made.
    pub last_used: Option<SystemTime>,
    /// Whether it can be used.
    pub state: State,
    /// Number of temporary files that killed conversions left.
    pub n_stale: usize,
    /// Their size, part of `n_bytes`.
    pub stale_bytes: u64,
    /// Whether a process converts into it now.
    pub is_held: bool,
}

/// Whether an entry can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is complete.
    Whole,
    /// Its model cannot be used, with the reason: it is made again when it is asked for.
    Damaged(String),
    /// There is no model, because a conversion is under way or was killed.
    Unfinished,
    /// It holds files that are not the cache's, the name of one of which this is: it is not removed.
    Foreign(String),
    /// Others could have written it, with the reason: it is neither used nor removed.
    Refused(String),
}

impl Entry {
    /// Name of the model: that of the directory it was made of.
    pub fn name(&self) -> Option<String> {
        let stem = self.model.as_deref().and_then(Path::file_stem);
        let name = stem.or_else(|| self.checkpoint.as_deref().and_then(Path::file_name));
        name.map(|name| name.to_string_lossy().into_owned())
    }

    /// The entry in the folder of `key`, if there is one.
    pub(super) fn read(cache: &Path, key: &str) -> Option<Self> {
        let folder = Folder::of(cache, key);
        let mut entry = Self {
            path: folder.path().to_owned(),
            key: key.to_owned(),
            model: None,
            outtype: None,
            checkpoint: None,
            converter: None,
            n_bytes: 0,
            created: None,
            last_used: None,
            state: State::Unfinished,
            n_stale: 0,
            stale_bytes: 0,
            is_held: false,
        };
        match owner::directory(folder.path()) {
            Ok(Found::Nothing) => return None,
            Ok(Found::Trusted) => {}
            Err(error) => {
                entry.state = State::Refused(error.message().to_owned());
                return Some(entry);
            }
        }
        let contents = match folder.contents() {
            Ok(contents) => contents?,
            Err(error) => {
                entry.state = State::Refused(error.message().to_owned());
                return Some(entry);
            }
        };
        let time = |path: &Path| fs::symlink_metadata(path).and_then(|facts| facts.modified()).ok();
        let record = Record::read(&folder.record());
        entry.last_used = time(&folder.record());
        if let Some(record) = &record {
            entry.outtype = Some(record.outtype);
            entry.checkpoint = Some(record.checkpoint.clone());
            entry.converter = Some(record.converter);
            entry.created = record.created();
        }
        if let Some(model) = &contents.model {
            entry.created = entry.created.or_else(|| time(model));
            let contradiction = record.as_ref().and_then(|record| record.contradicts(key));
            entry.state = match (folder.health(model, record.as_ref()), contradiction) {
                (Err(error), _) => State::Refused(error.message().to_owned()),
                (Ok(Health::Nothing), _) => State::Unfinished,
                (Ok(Health::Whole(_)), None) => State::Whole,
                (Ok(Health::Damaged(why)), None) | (Ok(_), Some(why)) => State::Damaged(why),
            };
        }
        if let Some(name) = contents.other.filter(|_| !matches!(entry.state, State::Refused(_))) {
            entry.state = State::Foreign(name);
        }
        if let Err(error) = folder.check() {
            entry.state = State::Refused(error.message().to_owned());
        }
        let holder = lock::holder(&folder.lock());
        entry.is_held = holder == Holder::Another;
        let is_left = |temporary: &&Temporary| match holder {
            Holder::Nobody => true,
            // Whoever holds the lock removed what was left before.
            Holder::Another => false,
            Holder::Unknown => temporary.is_stale(),
        };
        let stale = contents.temporaries.iter().filter(is_left);
        (entry.n_stale, entry.stale_bytes) = stale.fold((0, 0), |(n, bytes), file| (n + 1, bytes + file.n_bytes));
        entry.last_used = entry.last_used.or(entry.created).or_else(|| time(folder.path()));
        entry.n_bytes = contents.n_bytes;
        entry.model = contents.model;
        Some(entry)
    }
}

pub(super) fn list(cache: &Path) -> Result<Vec<Entry>> {
    let failed = |e: std::io::Error| Error::io("cannot list the conversion cache", cache, &e);
    owner::root(cache)?;
    let found = match fs::read_dir(cache) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut entries = Vec::new();
    for found in found {
        let name = found.map_err(failed)?.file_name();
        if let Some(key) = name.to_str().filter(|name| key::is_key(name)) {
            entries.extend(Entry::read(cache, key));
        }
    }
    entries.sort_by(|a, b| (a.last_used, &a.key).cmp(&(b.last_used, &b.key)));
    Ok(entries)
}
