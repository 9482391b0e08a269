//! Other values for some keys of a file; every other byte stays as it is.
//!
//! Nothing is decoded and encoded again: the entries of the keys that stay, the tensor infos and the data section are
//! copied as bytes. The offsets of tensors count from the start of the data section, so they hold wherever it comes to lie.

use std::collections::HashSet;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::ALIGNMENT_KEY;
use super::file::File;
use super::map::Map;
use super::read::{self, MAX_KEY, Spans};
use super::value::Value;
use super::write::{put, put_entry};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of data that are copied or compared at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Magic, version, number of tensors.
const COUNTED: Range<usize> = 0..16;
/// Where the keys start: after the number of keys.
const KEYS_START: usize = 24;

/// What is to become of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It gets this value. One that is there keeps its place, a new one goes after all others.
    Set(String, Value),
    /// It is removed. One that is not there stays away.
    Remove(String),
}

impl Change {
    fn key(&self) -> &str {
        match self {
            Self::Set(key, _) | Self::Remove(key) => key,
        }
    }
}

/// An entry of the edited file.
#[derive(Debug)]
enum Entry {
    /// These bytes of the original.
    Kept(Range<usize>),
    /// A value of its own.
    Own(Vec<u8>),
}

/// A file with other values for some of its keys, ready to be written.
///
/// It keeps the bytes of the original, which on some systems cannot be replaced before this is dropped.
#[derive(Debug)]
pub struct Edit {
    map: Arc<Map>,
    path: Option<PathBuf>,
    entries: Vec<Entry>,
    /// The tensor infos, in the original.
    infos: Range<usize>,
    /// The data section, in the original: from where the data starts to the end of the file.
    data: Range<usize>,
    /// Where the data section starts in the edited file.
    data_start: usize,
}

impl Edit {
    /// `file` after `changes`, of which there is at most one a key.
    ///
    /// The keys are those in the bytes of the file: what [`File::renamed`] calls them has no part in it.
    ///
    /// # Errors
    /// [`ErrorKind::Gguf`] when a key is changed twice, has a name no file may have, or is the alignment of the file, which
    /// says where its tensors lie.
    pub fn new(file: &File, changes: &[Change]) -> Result<Self> {
        let mut changed = HashSet::with_capacity(changes.len());
        for change in changes {
            let key = change.key();
            let refused = |message: String| Err(file.locate(Error::new(ErrorKind::Gguf, message).at_key(key)));
            if key == ALIGNMENT_KEY {
                return refused("says where the tensors lie and cannot be changed; convert the model again".to_owned());
            }
            if key.is_empty() || key.len() as u64 > MAX_KEY {
                return refused(format!("the name has {} bytes; 1 to {MAX_KEY} are allowed", key.len()));
            }
            if !changed.insert(key) {
                return refused("is changed twice".to_owned());
            }
        }
        let map = file.map();
        let (header, spans) = read::spanned(map).map_err(|error| file.locate(error))?;
        let mut entries = Vec::with_capacity(header.keys.len() + changes.len());
        for ((key, _), &[start, end]) in header.keys.iter().zip(spans.keys.array_windows()) {
            match changes.iter().find(|change| change.key() == key) {
                None => entries.push(Entry::Kept(start..end)),
                Some(Change::Set(key, value)) => entries.push(own(key, value)),
                Some(Change::Remove(_)) => {}
            }
        }
        let there: HashSet<&str> = header.keys.iter().map(|(key, _)| key.as_str()).collect();
        entries.extend(changes.iter().filter_map(|change| match change {
            Change::Set(key, value) if !there.contains(key.as_str()) => Some(own(key, value)),
            _ => None,
        }));

        let n_file = map.bytes().len();
        // A file without tensors may end before its data would start.
        let data = usize::try_from(header.data_start).unwrap_or(n_file).min(n_file)..n_file;
        let n_keys: usize = entries.iter().map(Entry::len).sum();
        let end = KEYS_START + n_keys + spans.infos.len();
        let alignment = usize::try_from(header.alignment).unwrap_or(1);
        let data_start = if header.data_start > n_file as u64 { end } else { end.next_multiple_of(alignment) };
        let (map, path) = (Arc::clone(map), file.path().map(Into::into));
        Ok(Self { map, path, entries, infos: spans.infos, data, data_start })
    }

    /// Size of the edited file, in bytes.
    pub fn n_bytes(&self) -> u64 {
        (self.data_start + self.data.len()) as u64
    }

    /// Writes the edited file to `out`, telling `progress` after every piece how many bytes are written, of how many.
    ///
    /// # Errors
    /// The original cannot be read, or `out` fails.
    pub fn write(&self, out: &mut dyn Write, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        put(out, self.bytes(COUNTED))?;
        put(out, &(self.entries.len() as u64).to_le_bytes())?;
        let mut n_written = KEYS_START;
        for entry in &self.entries {
            put(out, self.entry(entry))?;
            n_written += entry.len();
        }
        put(out, self.bytes(self.infos.clone()))?;
        n_written += self.infos.len();
        put(out, &vec![0; self.data_start - n_written])?;
        n_written = self.data_start;
        let mut piece = Vec::new();
        for range in pieces(self.data.clone()) {
            self.read(range.clone(), &mut piece)?;
            put(out, &piece)?;
            n_written += range.len();
            progress(n_written as u64, self.n_bytes());
        }
        Ok(())
    }

    /// Compares `written`, read back, with what it was to be: every key with its bytes and place, the tensor infos and
    /// every byte of the data section.
    ///
    /// # Errors
    /// [`ErrorKind::Gguf`] names the first difference, not the file; [`ErrorKind::Io`] when one cannot be read.
    pub fn check(&self, written: &File) -> Result<()> {
        let differs = |what: &str| {
            let message = format!("read back, {what} is not what was written; is the disk failing?");
            Err(Error::new(ErrorKind::Gguf, message))
        };
        let (header, Spans { keys, infos }) = read::spanned(written.map())?;
        let bytes = |range: Range<usize>| written.map().bytes().get(range).unwrap_or_default();
        if header.keys.len() != self.entries.len() {
            return differs("the number of keys");
        }
        for (((key, _), &[start, end]), entry) in header.keys.iter().zip(keys.array_windows()).zip(&self.entries) {
            if bytes(start..end) != self.entry(entry) {
                return differs(&format!("key {}", key.escape_debug()));
            }
        }
        if bytes(infos.clone()) != self.bytes(self.infos.clone()) {
            return differs("the table of tensors");
        }
        if bytes(infos.end..self.data_start).iter().any(|byte| *byte != 0) {
            return differs("the padding before the data");
        }
        let n_file = written.map().bytes().len();
        if n_file as u64 != self.n_bytes() || header.data_start.min(n_file as u64) != self.data_start as u64 {
            return differs("the size");
        }
        let (mut original, mut copy) = (Vec::new(), Vec::new());
        for range in pieces(self.data.clone()) {
            let start = range.start - self.data.start + self.data_start;
            self.read(range.clone(), &mut original)?;
            let read = written.map().read(start, range.len(), &mut copy);
            read.map_err(|error| Error::new(ErrorKind::Io, format!("cannot read back what was written: {error}")))?;
            if original != copy {
                return differs("the data of tensors");
            }
        }
        Ok(())
    }

    fn entry<'b>(&'b self, entry: &'b Entry) -> &'b [u8] {
        match entry {
            Entry::Kept(span) => self.bytes(span.clone()),
            Entry::Own(bytes) => bytes,
        }
    }

    /// Bytes of the header of the original.
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.map.bytes().get(range).unwrap_or_default()
    }

    /// Reads bytes of the original.
    fn read(&self, range: Range<usize>, piece: &mut Vec<u8>) -> Result<()> {
        self.map.read(range.start, range.len(), piece).map_err(|error| {
            let error = Error::new(ErrorKind::Io, format!("cannot read: {error}"));
            self.path.iter().fold(error, |error, path| error.in_file(path))
        })
    }
}

impl Entry {
    fn len(&self) -> usize {
        match self {
            Self::Kept(span) => span.len(),
            Self::Own(bytes) => bytes.len(),
        }
    }
}

fn own(key: &str, value: &Value) -> Entry {
    let mut bytes = Vec::new();
    put_entry(&mut bytes, key, value);
    Entry::Own(bytes)
}

/// `range` in pieces of at most [`PIECE_BYTES`].
fn pieces(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(PIECE_BYTES).map(move |start| start..range.end.min(start.saturating_add(PIECE_BYTES)))
}
