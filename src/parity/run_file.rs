//! A run on disk: a header with its identity, a line an item, a seal.
//!
//! The seal is the SHA-256 of all bytes before it. A run without one is unfinished; one whose bytes were changed is
//! refused, so that nothing is concluded from it.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::identity::{Fields, Identity};
use super::record::{ItemRecord, Outcome};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::json::{self, Object, Value};
use crate::spec::hex;

/// Name of the format.
pub(super) const FORMAT: &str = "laya-parity-run/1";

/// A finished run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What ran.
    pub identity: Identity,
    /// What it answered, in the order of the corpus. `[n_items]`
    pub items: Vec<ItemRecord>,
}

impl Run {
    /// Reads a run file.
    ///
    /// # Errors
    /// It cannot be read, is unfinished, was changed after it was written or has another shape; the error names file,
    /// line and key.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::io("cannot read", path, &error))?;
        Self::parse(&bytes).map_err(|error| error.in_file(path))
    }

    /// Reads the bytes of a run file.
    ///
    /// # Errors
    /// As [`Run::read`], without a file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let (body, seal) = sealed(bytes).ok_or_else(|| {
            let message = "is no finished run: its last line is not the seal; finish it with run --resume";
            Error::new(ErrorKind::Json, message)
        })?;
        let mut lines = body.split_inclusive(|byte| *byte == b'\n').zip(1_u64..);
        let identity = header(lines.next().map_or(&[][..], |(line, _)| line))?;
        if seal != seal_line(body).as_bytes() {
            return Err(Error::new(ErrorKind::Json, "was changed after it was written: its seal does not fit"));
        }
        let mut items = Vec::new();
        let mut seen = HashSet::new();
        for (line, number) in lines {
            let item = value(line).and_then(|value| ItemRecord::from_json(&value));
            let item = item.map_err(|error| error.in_line(number))?;
            if !seen.insert(item.id.clone()) {
                let message = format!("the item {:?} is there twice", item.id);
                return Err(Error::new(ErrorKind::Json, message).at(Place::Line(number)));
            }
            items.push(item);
        }
        let run = Self { identity, items };
        run.check_counts()?;
        Ok(run)
    }

    /// That there are as many items and questions as the identity says.
    fn check_counts(&self) -> Result<()> {
        let corpus = &self.identity.corpus;
        let fault = |key: &str, said: u64, n: u64| {
            let message = format!("is {said}, but the run has {n}");
            Err(Error::new(ErrorKind::Json, message).at_path(format!("identity.corpus.{key}")))
        };
        if corpus.n_items != self.items.len() as u64 {
            return fault("n_items", corpus.n_items, self.items.len() as u64);
        }
        // Those of failed items are in the corpus and not in the run.
        let n_questions = self.items.iter().fold(0_u64, |n, item| n.saturating_add(item.n_questions().unwrap_or(0)));
        if corpus.n_questions < n_questions {
            return fault("n_questions", corpus.n_questions, n_questions);
        }
        Ok(())
    }

    /// The bytes of its file.
    pub fn to_text(&self) -> String {
        let mut text = header_line(&self.identity);
        for item in &self.items {
            text += &item.to_line();
            text.push('\n');
        }
        let seal = seal_line(text.as_bytes());
        text + &seal
    }
}

/// Everything before the last line, and that line if it may be a seal.
pub(super) fn sealed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.strip_suffix(b"\n")?;
    let start = end.iter().rposition(|byte| *byte == b'\n')? + 1;
    let (body, seal) = bytes.split_at(start);
    seal.starts_with(b"{\"seal\":").then_some((body, seal))
}

/// The line that seals `body`: a header and a line an item.
pub(super) fn seal_line(body: &[u8]) -> String {
    seal_of(n_items(body), &Sha256::digest(body))
}

/// Lines of `body` after its header.
fn n_items(body: &[u8]) -> usize {
    body.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1)
}

fn seal_of(n_items: usize, digest: &[u8]) -> String {
    format!("{{\"seal\":{{\"n_items\":{n_items},\"sha256\":\"{}\"}}}}\n", hex(digest))
}

/// The JSON on a line.
pub(super) fn value(line: &[u8]) -> Result<Value> {
    json::parse(line)
        .map_err(|fault| Error::new(ErrorKind::Json, format!("column {}: {}", fault.column, fault.message)))
}

fn header_line(identity: &Identity) -> String {
    let mut header = Object::new();
    header.insert("run", FORMAT);
    header.insert("identity", identity.to_json());
    Value::Object(header).dumps_compact() + "\n"
}

fn header(line: &[u8]) -> Result<Identity> {
    let read = |line| {
        let value = value(line)?;
        let fields = Fields::new("header", Some(&value), &["run", "identity"])?;
        match fields.text("run")? {
            format if format == FORMAT => Identity::from_json(fields.get("identity").unwrap_or(&Value::Null)),
            format => Err(fields.fault("run", &format!("is {format:?}; this build reads {FORMAT:?}"))),
        }
    };
    read(line).map_err(|error| error.in_line(1))
}

/// A run that is being written, line by line, so that an interrupted one can go on.
#[derive(Debug)]
pub struct RunWriter {
    path: PathBuf,
    file: File,
    hash: Sha256,
    n_items: usize,
}

/// What to do about a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    Keep,
    /// Go on with the run in it.
    Resume,
    /// Begin again.
    Replace,
}

impl RunWriter {
    /// Begins the run of `identity` in the file at `path`, or goes on with it.
    ///
    /// # Errors
    /// The file is there and must be kept, holds another run or a finished one, or cannot be written.
    pub fn open(path: &Path, identity: &Identity, existing: Existing) -> Result<Self> {
        let header = header_line(identity);
        let file = match existing {
            Existing::Resume if path.exists() => {
                return Self::resume(path, identity, &header).map_err(|error| error.in_file(path));
            }
            Existing::Replace => File::create(path),
            // Whoever else begins a run there keeps it.
            Existing::Keep | Existing::Resume => File::create_new(path),
        };
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let message = "is there already; go on with it by --resume, or begin again by --force";
                Error::new(ErrorKind::Usage, message).in_file(path)
            }
            _ => Error::io("cannot create", path, &error),
        })?;
        let mut writer = Self { path: path.to_owned(), file, hash: Sha256::new(), n_items: 0 };
        writer.append(&header)?;
        Ok(writer)
    }

    fn resume(path: &Path, identity: &Identity, header_text: &str) -> Result<Self> {
        let io = |error: std::io::Error| Error::io("cannot go on with", path, &error);
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        // A line that was cut off is computed again.
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
        if !bytes.is_empty() {
            let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
            let found = header(first)?;
            if let Some(difference) = difference(&found.to_json(), &identity.to_json(), "identity") {
                let message = format!("is a run of something else: {difference}");
                return Err(Error::new(ErrorKind::Usage, message));
            }
            if sealed(&bytes).is_some() {
                return Err(Error::new(ErrorKind::Usage, "is complete; begin again by --force"));
            }
            bytes.truncate(before_failed(&bytes)?);
        }
        file.set_len(bytes.len() as u64).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        let n_items = n_items(&bytes);
        let hash = Sha256::new_with_prefix(&bytes);
        let mut writer = Self { path: path.to_owned(), file, hash, n_items };
        if bytes.is_empty() {
            writer.append(header_text)?;
        }
        Ok(writer)
    }

    /// Items it has.
    pub fn n_items(&self) -> usize {
        self.n_items
    }

    fn append(&mut self, text: &str) -> Result<()> {
        self.hash.update(text);
        // Unbuffered: what is computed is in the file.
        self.file.write_all(text.as_bytes()).map_err(|error| Error::io("cannot write", &self.path, &error))
    }

    /// Adds the next item.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&mut self, item: &ItemRecord) -> Result<()> {
        self.append(&(item.to_line() + "\n"))?;
        self.n_items += 1;
        Ok(())
    }

    /// Seals the run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<()> {
        let seal = seal_of(self.n_items, &self.hash.clone().finalize());
        self.append(&seal)?;
        self.file.sync_all().map_err(|error| Error::io("cannot write", &self.path, &error))
    }
}

/// Length of the header and the items before the first that failed: a fault may be gone, so it is asked again, and what
/// follows too, because items are in order.
fn before_failed(bytes: &[u8]) -> Result<usize> {
    let mut length = 0;
    for (line, number) in bytes.split_inclusive(|byte| *byte == b'\n').zip(1_u64..) {
        if number > 1 {
            let item = value(line).and_then(|value| ItemRecord::from_json(&value));
            let item = item.map_err(|error| error.in_line(number))?;
            if matches!(item.outcome, Outcome::Failed(_)) {
                break;
            }
        }
        length += line.len();
    }
    Ok(length)
}

/// The first key at which two records differ, with both values.
fn difference(a: &Object, b: &Object, path: &str) -> Option<String> {
    b.iter().find_map(|(key, wanted)| {
        let path = format!("{path}.{key}");
        match (a.get(key), wanted) {
            (Some(Value::Object(found)), Value::Object(wanted)) => difference(found, wanted, &path),
            (found, wanted) if found == Some(wanted) => None,
            (found, wanted) => {
                let found = found.map_or_else(|| "missing".to_owned(), Value::dumps);
                Some(format!("its {path} is {found} and would now be {}", wanted.dumps()))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parity::identity::tests::example;
    use crate::parity::{CorpusIdentity, Refusal};

    fn identity(n_items: u64) -> Identity {
        let example = example();
        Identity { corpus: CorpusIdentity { n_items, n_questions: 2, ..example.corpus }, ..example }
    }

    fn item(id: &str) -> ItemRecord {
        let refusal = Refusal { message: "no".into(), null_state: false, n_questions: Some(0) };
        ItemRecord { id: id.into(), outcome: Outcome::Refused(refusal) }
    }

    #[test]
    fn an_interrupted_run_goes_on_to_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        let items = [item("a"), item("b"), item("c")];
        let mut writer = RunWriter::open(&whole, &identity(3), Existing::Keep).unwrap();
        items.iter().for_each(|item| writer.put(item).unwrap());
        writer.finish().unwrap();
        let text = std::fs::read(&whole).unwrap();
        let run = Run::read(&whole).unwrap();
        assert_eq!((run.items.as_slice(), run.to_text().as_bytes()), (items.as_slice(), text.as_slice()));
        // Cut anywhere, in the header, in a line or between two, it goes on.
        for length in (0..text.len() - 1).step_by(7).chain([text.len() - 1]) {
            std::fs::write(&parts, &text[..length]).unwrap();
            assert!(Run::read(&parts).is_err(), "{length}");
            let mut writer = RunWriter::open(&parts, &identity(3), Existing::Resume).unwrap();
            items[writer.n_items()..].iter().for_each(|item| writer.put(item).unwrap());
            writer.finish().unwrap();
            assert_eq!(std::fs::read(&parts).unwrap(), text, "{length}");
        }
        for (n_items, says) in [(3, "is complete"), (4, "its identity.corpus.n_items is 3 and would now be 4")] {
            let error = RunWriter::open(&whole, &identity(n_items), Existing::Resume).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let error = RunWriter::open(&whole, &identity(3), Existing::Keep).unwrap_err().to_string();
        assert!(error.contains("--resume"), "{error}");
        assert_eq!(std::fs::read(&whole).unwrap(), text, "a refusal changes nothing");
    }

    #[test]
    fn an_item_that_failed_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let mut writer = RunWriter::open(&path, &identity(3), Existing::Keep).unwrap();
        let failed = ItemRecord { id: "b".into(), outcome: Outcome::Failed("status 500".into()) };
        [item("a"), failed, item("c")].iter().for_each(|item| writer.put(item).unwrap());
        drop(writer);
        let mut writer = RunWriter::open(&path, &identity(3), Existing::Resume).unwrap();
        assert_eq!(writer.n_items(), 1);
        [item("b"), item("c")].iter().for_each(|item| writer.put(item).unwrap());
        writer.finish().unwrap();
        assert_eq!(Run::read(&path).unwrap().items, [item("a"), item("b"), item("c")]);
        // What is no item is not gone on with.
        let text = header_line(&identity(3)) + "{}\n";
        std::fs::write(&path, &text).unwrap();
        let error = RunWriter::open(&path, &identity(3), Existing::Resume).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn changed_bytes_are_refused() {
        let text = Run { identity: identity(2), items: vec![item("a"), item("b")] }.to_text();
        assert!(Run::parse(text.as_bytes()).is_ok());
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(Run::parse(&bytes).is_err(), "byte {at}");
            bytes.remove(at);
            assert!(Run::parse(&bytes).is_err(), "without byte {at}");
        }
        for items in [vec![item("a"), item("a")], vec![item("a")]] {
            assert!(Run::parse(Run { identity: identity(2), items }.to_text().as_bytes()).is_err());
        }
    }
}
