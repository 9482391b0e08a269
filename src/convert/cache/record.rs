//! What an entry was made from, beside its model: for people who look at the cache, and to know a file that was cut.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::Outtype;
use super::key::VERSION;
use super::owner;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::write_atomic;
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
}

impl Record {
    /// The record of a model of `n_bytes` made of `checkpoint` just now.
    pub(super) fn new(key: &str, checkpoint: &Path, outtype: Outtype, n_bytes: u64) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let checkpoint = std::path::absolute(checkpoint).unwrap_or_else(|_| checkpoint.to_owned());
        Self { key: key.to_owned(), checkpoint, outtype, converter: VERSION.into(), n_bytes, created }
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
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        Some(Self {
            key: text("key")?.to_owned(),
            checkpoint: text("checkpoint")?.into(),
            outtype: text("outtype")?.parse().ok()?,
            converter: number("converter")?,
            n_bytes: number("n_bytes")?,
            created: number("created")?,
        })
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
        let text = Value::Object(object).dumps_indent(2) + "\n";
        write_atomic(path, |out| {
            out.write_all(text.as_bytes()).map_err(|e| Error::new(ErrorKind::Io, format!("cannot write: {e}")))
        })?;
        owner::restrict(path)
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
        let record = Record::new("k", Path::new("a \"checkpoint\"\n"), Outtype::Q8_0Mixed, u64::MAX);
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
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(Record::read(&path), None, "{damaged}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(Record::read(&path), None);
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
