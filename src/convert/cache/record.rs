//! What an entry was made from, beside its model: for people who look at the cache, and to know a file that was cut.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::Outtype;
use super::key::VERSION;
use super::owner;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::write_atomic_checked;
use crate::json::{self, Object, Value};

/// A longer file is no record.
const MAX_BYTES: u64 = 1 << 20;

/// The record of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: String,
    /// The directory, as it was named.
    pub(super) checkpoint: PathBuf,
    pub(super) outtype: Outtype,
    /// Version of the converter.
    pub(super) converter: u64,
    /// Size of the model.
    pub(super) n_bytes: u64,
    /// Seconds since 1970.
    pub(super) created: u64,
    /// What the conversion remarked.
    pub(super) notes: Vec<String>,
}

impl Record {
    /// The record of a model of `n_bytes` made of `checkpoint` just now, without notes.
    pub(super) fn new(key: &str, checkpoint: &Path, outtype: Outtype, n_bytes: u64) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let checkpoint = std::path::absolute(checkpoint).unwrap_or_else(|_| checkpoint.to_owned());
        let (key, notes) = (key.to_owned(), Vec::new());
        Self { key, checkpoint, outtype, converter: VERSION.into(), n_bytes, created, notes }
    }

    /// The record in the file `path`; `None` when there is none that can be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let facts = fs::symlink_metadata(path).ok()?;
        if !facts.is_file() || facts.len() > MAX_BYTES {
            return None;
        }
        let mut text = Vec::new();
        fs::File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let value = json::parse(&text).ok()?;
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let notes = value.get("notes").and_then(Value::as_array).unwrap_or_default();
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        Some(Self {
            key: text("key")?.to_owned(),
            checkpoint: text("checkpoint")?.into(),
            outtype: text("outtype")?.parse().ok()?,
            converter: number("converter")?,
            n_bytes: number("n_bytes")?,
            created: number("created")?,
            notes: notes.iter().map(|note| note.as_str().map(str::to_owned)).collect::<Option<_>>()?,
        })
    }

    /// What this says of another model than that of `key`, if it does: then the model beside it is not the one it is
    /// named by.
    pub(super) fn contradicts(&self, key: &str) -> Option<String> {
        (self.key != key).then(|| format!("its record is that of the key {:?}", self.key))
    }

    /// [`Record::contradicts`] for whoever knows what the model of `key` is made with.
    pub(super) fn contradicts_all(&self, key: &str, outtype: Outtype) -> Option<String> {
        let of_outtype = || format!("its record says {}, not {}", self.outtype.as_str(), outtype.as_str());
        let of_version = || format!("its record says version {} of the converter, not {VERSION}", self.converter);
        self.contradicts(key)
            .or_else(|| (self.outtype != outtype).then(of_outtype))
            .or_else(|| (self.converter != u64::from(VERSION)).then(of_version))
    }

    /// Writes it to the file `path`, whole or not at all.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let mut object = Object::new();
        object.insert("key", self.key.as_str());
        object.insert("checkpoint", self.checkpoint.to_string_lossy().into_owned());
        object.insert("outtype", self.outtype.as_str());
        object.insert("converter", self.converter);
        object.insert("n_bytes", self.n_bytes);
        object.insert("created", self.created);
        object.insert("notes", self.notes.iter().map(|note| Value::from(note.as_str())).collect::<Vec<_>>());
        let text = Value::Object(object).dumps_indent(2) + "\n";
        write_atomic_checked(
            path,
            |out| out.write_all(text.as_bytes()).map_err(|e| Error::new(ErrorKind::Io, format!("cannot write: {e}"))),
            |file, ()| owner::restrict(file),
        )
    }

    /// When the model was made.
    pub(super) fn created(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.created))
    }
}

/// Notes in the file `path` that the entry is used now.
pub(super) fn touch(path: &Path) -> std::io::Result<()> {
    // Open for writing, as some systems want it; nothing is written.
    fs::File::options().append(true).open(path)?.set_modified(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_anything_else_is_none() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("record.json");
        assert_eq!(Record::read(&path), None);
        let mut record = Record::new("k", Path::new("a \"checkpoint\"\n"), Outtype::Q8_0Mixed, u64::MAX);
        record.notes = vec!["one".into(), "the \"other\"".into()];
        assert!(record.checkpoint.is_absolute() && record.created > 1_700_000_000);
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path), Some(record.clone()));
        assert_eq!(record.created().unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs(), record.created);
        let text = fs::read_to_string(&path).unwrap();
        for damaged in [
            "",
            "[]",
            "{}",
            &text[..text.len() - 3],
            &text.replace("q8_0-mixed", "q9"),
            &text.replace("\"created\": ", "\"created\": -"),
            &text.replace("\"key\"", "\"kex\""),
            &text.replace("\"one\"", "1"),
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(Record::read(&path), None, "{damaged}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(Record::read(&path), None);
    }

    #[test]
    fn a_record_of_another_model_contradicts() {
        let record = Record::new("k", Path::new("c"), Outtype::F16, 1);
        assert_eq!((record.contradicts("k"), record.contradicts_all("k", Outtype::F16)), (None, None));
        for said in [record.contradicts("l"), record.contradicts_all("l", Outtype::F16)] {
            assert_eq!(said.as_deref(), Some("its record is that of the key \"k\""));
        }
        let said = record.contradicts_all("k", Outtype::F32);
        assert_eq!(said.as_deref(), Some("its record says f16, not f32"));
        let newer = Record { converter: record.converter + 1, ..record };
        assert!(newer.contradicts("k").is_none(), "of another version is not damaged, only never asked for");
        assert!(newer.contradicts_all("k", Outtype::F16).is_some_and(|said| said.contains("of the converter")));
    }

    #[test]
    fn use_is_noted_by_the_time_of_the_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("record.json");
        fs::write(&path, "").unwrap();
        fs::File::options().append(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        touch(&path).unwrap();
        assert!(fs::metadata(&path).unwrap().modified().unwrap() > UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        assert!(touch(&root.path().join("nothing")).is_err());
    }
}
