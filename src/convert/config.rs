//! Reading the JSON files of a checkpoint with errors that name the file and the key.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::Map;
use crate::json::{self, Object, Reason, Value};

/// A larger JSON file is no configuration: the largest real one, a vocabulary of 256,000 tokens, has 34 MB. (The bound also
/// keeps every string array made from it below the 4 GiB that one can hold.)
const MAX_BYTES: usize = 1 << 30;

/// The nesting that the tokenizers library reads.
const MAX_DEPTH: usize = 127;

/// Integers outside 64 bits that a configuration may hold, and the digits of one: more are no finite double.
const MAX_LONG_INTEGERS: usize = 16;
const MAX_DIGITS: usize = 308;

/// A file beside the weights, when it is there. Only "not found" is absence: what cannot be read or is no regular file
/// (a pipe would keep the conversion waiting) is an error.
pub(super) fn side_file(path: &Path) -> Result<Option<Map>> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("cannot read", path, &e)),
        Ok(_) => open(path).map(Some),
    }
}

/// Maps a file of a size that a configuration can have.
fn open(path: &Path) -> Result<Map> {
    let map = Map::open(path)?;
    if map.bytes().len() > MAX_BYTES {
        let message = format!("is larger than {MAX_BYTES} bytes; that is no configuration file");
        return Err(Error::new(ErrorKind::Checkpoint, message).in_file(path));
    }
    Ok(map)
}

/// Reads JSON as Python does, as far as a configuration can go. An integer of any size is a number there, and "no limit" is
/// often written as one of thirty digits; it is read as the nearest double.
fn parse(bytes: &[u8]) -> Result<Value> {
    let mut bytes = Cow::Borrowed(bytes);
    for _ in 0..MAX_LONG_INTEGERS {
        let error = match json::parse_within(&bytes, MAX_DEPTH) {
            Ok(value) => return Ok(value),
            Err(error) if error.reason == Reason::UnsupportedNumber => error,
            Err(error) => return Err(error.into()),
        };
        let after = bytes.get(error.offset..).unwrap_or_default();
        let sign = usize::from(after.first() == Some(&b'-'));
        let digits = after.iter().skip(sign).take_while(|c| c.is_ascii_digit()).count();
        let is_integer = digits > 0 && !matches!(after.get(sign + digits), Some(b'.' | b'e' | b'E'));
        if !is_integer || digits > MAX_DIGITS {
            let message =
                format!("line {}, column {}: not a number that a configuration can hold", error.line, error.column);
            return Err(Error::new(ErrorKind::Json, message));
        }
        let end = error.offset + sign + digits;
        bytes.to_mut().splice(end..end, *b".0");
    }
    let message =
        format!("holds more than {MAX_LONG_INTEGERS} integers outside 64 bits; that is no configuration file");
    Err(Error::new(ErrorKind::Json, message))
}

/// [`side_file`] as text.
pub(super) fn side_text(path: &Path) -> Result<Option<String>> {
    let Some(map) = side_file(path)? else { return Ok(None) };
    let text = std::str::from_utf8(map.bytes());
    let text = text.map_err(|_| Error::new(ErrorKind::Checkpoint, "is not UTF-8 text").in_file(path))?;
    Ok(Some(text.to_owned()))
}

/// A JSON object read from a file.
pub(super) struct Config {
    path: PathBuf,
    value: Value,
}

impl Config {
    /// Reads the object in the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        Self::parse(path, &open(path)?)
    }

    /// The same for a file that may be absent.
    pub(super) fn read_if_there(path: &Path) -> Result<Option<Self>> {
        side_file(path)?.map(|map| Self::parse(path, &map)).transpose()
    }

    fn parse(path: &Path, map: &Map) -> Result<Self> {
        if map.bytes().starts_with("\u{feff}".as_bytes()) {
            let message = "starts with a byte order mark, which the readers of the field refuse; save it without";
            return Err(Error::new(ErrorKind::Checkpoint, message).in_file(path));
        }
        let value = parse(map.bytes()).map_err(|e| e.in_file(path))?;
        if value.as_object().is_none() {
            let message = format!("must hold a JSON object, not {}", value.python_type_name());
            return Err(Error::new(ErrorKind::Checkpoint, message).in_file(path));
        }
        Ok(Self { path: path.to_owned(), value })
    }

    /// An object that came from nowhere else.
    pub(super) fn new(path: &Path, object: Object) -> Self {
        Self { path: path.to_owned(), value: Value::Object(object) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The whole object.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    /// The value of `key`; an explicit null counts as absent, as it does for Python's `.get`.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    /// All keys and values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.value.as_object().into_iter().flat_map(Object::iter)
    }

    /// The value of `key`, for keys that may be left out but not be null.
    pub(super) fn given(&self, key: &str) -> Result<Option<&Value>> {
        match self.value.get(key) {
            Some(Value::Null) => Err(self.error(key, "must not be null; leave the key out instead")),
            other => Ok(other),
        }
    }

    /// Whether the key is there, null included.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value.get(key).is_some()
    }

    /// An error about `key`.
    pub(super) fn error(&self, key: &str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Checkpoint, message).at_key(key).in_file(&self.path)
    }

    /// An integer of at most `max`.
    pub(super) fn integer(&self, key: &str, max: u32) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let n = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|&n| n <= max);
        n.map(Some).ok_or_else(|| self.error(key, format!("must be an integer from 0 to {max}, not {}", value.dumps())))
    }

    /// A finite number as a 32-bit float.
    pub(super) fn float(&self, key: &str) -> Result<Option<f32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let n = number(value);
        n.map(Some).ok_or_else(|| {
            self.error(key, format!("must be a number that a 32-bit float can hold, not {}", value.dumps()))
        })
    }

    /// Refuses a feature this family does not have: the key may be absent, null, false or equal to `only`.
    pub(super) fn refuse(&self, key: &str, only: Option<&Value>, why: &str) -> Result<()> {
        match self.get(key) {
            None | Some(Value::Bool(false)) => Ok(()),
            Some(value) if Some(value) == only => Ok(()),
            Some(value) => Err(self.error(key, format!("{} is not supported: {why}", value.dumps()))),
        }
    }
}

/// A finite JSON number as a 32-bit float, rounded to nearest even.
pub(super) fn number(value: &Value) -> Option<f32> {
    match value {
        Value::Number(n) => Some(n.as_f64() as f32).filter(|n| n.is_finite()),
        _ => None,
    }
}
