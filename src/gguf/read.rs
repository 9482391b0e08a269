//! Reading and validating the header of a GGUF file.
//!
//! Nothing here trusts a count: every count and length is compared with the bytes that are left before anything is
//! allocated for it, so memory grows only with entries that are really there. Bulk data costs about its size; an entry of
//! a few bytes (a key, an array inside an array) costs some ten times that. Offsets that come from the file are added and
//! multiplied with checks.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::map::Map;
use super::strings::{PREFIX, Strings};
use super::tensor::{TensorInfo, TensorType};
use super::value::{Array, Value};
use super::{ALIGNMENT_KEY, MAGIC, VERSION, write::DEFAULT_ALIGNMENT};
use crate::error::{Error, ErrorKind, Place, Result};

/// Arrays inside arrays deeper than this are refused.
const MAX_NESTING: usize = 4;
/// The longest key the format allows, in bytes.
pub(super) const MAX_KEY: u64 = 65_535;
/// A larger alignment is a mistake.
const MAX_ALIGNMENT: u32 = 1 << 20;
/// The shortest metadata entry: an empty name, a type and a one-byte value.
const MIN_ENTRY: u64 = 8 + 4 + 1;
/// The shortest tensor info: an empty name, `n_dims`, one dimension, type and offset.
const MIN_INFO: u64 = 8 + 4 + 8 + 4 + 8;

/// A validated header.
pub(super) struct Header {
    pub(super) keys: Vec<(String, Value)>,
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) alignment: u64,
    /// Where the data section starts in the file.
    pub(super) data_start: u64,
}

/// Where the parts of a header lie in the file, in bytes from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spans {
    /// Each key with its type and value: entry `i` is bytes `keys[i]..keys[i + 1]`. `[n_keys + 1]`
    pub(super) keys: Vec<usize>,
    /// The tensor infos.
    pub(super) infos: Range<usize>,
}

/// Reads and validates everything but the tensor data itself.
pub(super) fn header(map: &Arc<Map>) -> Result<Header> {
    spanned(map).map(|(header, _)| header)
}

/// As [`header`], and says where its parts lie.
pub(super) fn spanned(map: &Arc<Map>) -> Result<(Header, Spans)> {
    let mut cursor = Cursor { map, at: 0 };
    magic(map.bytes())?;
    cursor.at = 8;
    let n_tensors = cursor.u64("the number of tensors")?;
    let n_keys = cursor.u64("the number of metadata keys")?;
    cursor.check_count(n_keys, MIN_ENTRY, "metadata keys")?;
    cursor.check_count(n_tensors, MIN_INFO, "tensors")?;

    let mut spans = Vec::new();
    let keys = cursor.keys(n_keys, &mut spans)?;
    let alignment = alignment(&keys)?;
    cursor.check_count(n_tensors, MIN_INFO, "tensors")?;
    let start = cursor.at;
    let tensors = cursor.infos(n_tensors, alignment)?;
    let spans = Spans { keys: spans, infos: start..cursor.at };

    let data_start = (cursor.at as u64)
        .checked_next_multiple_of(alignment)
        .ok_or_else(|| bad("the data section would start past the end of any file"))?;
    extents(&tensors, data_start, map.bytes().len() as u64)?;
    Ok((Header { keys, tensors, alignment, data_start }, spans))
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Gguf, message)
}

/// Checks magic and version; other files that end up here get the reason in one line.
fn magic(bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Err(bad("the file is empty; it is not a GGUF file (an interrupted download or copy?)"));
    }
    let head = bytes.get(..4).unwrap_or(bytes);
    if head != MAGIC {
        return Err(bad(format!("not a GGUF file: {}", other_format(bytes))));
    }
    let Some(version) = bytes.get(4..8).and_then(|v| v.try_into().ok()).map(u32::from_le_bytes) else {
        return Err(bad("the file ends inside the GGUF header; it is truncated"));
    };
    match version {
        VERSION => Ok(()),
        1 | 2 => {
            Err(bad(format!("GGUF version {version} is not supported, only version 3 is; convert the model again")))
        }
        _ if version.swap_bytes() == VERSION => {
            Err(bad("a big-endian GGUF file; only little-endian files are supported, convert the model again"))
        }
        _ => Err(bad(format!("GGUF version {version} is not supported, only version 3 is"))),
    }
}

/// What a file that is no GGUF looks like.
fn other_format(bytes: &[u8]) -> &'static str {
    let text_start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let text = bytes.get(text_start..).unwrap_or_default();
    let starts = |prefix: &str| text.get(..prefix.len()).is_some_and(|t| t.eq_ignore_ascii_case(prefix.as_bytes()));
    if bytes.starts_with(b"PK\x03\x04") {
        "this is a zip archive (PyTorch .bin and .pt files are zip archives too)"
    } else if starts("<!doctype") || starts("<html") || starts("<?xml") {
        "this is an HTML page (a download that returned an error page?)"
    } else if bytes.starts_with(b"version https://git-lfs") {
        "this is a Git LFS pointer; fetch the real file with git lfs pull"
    } else if bytes.get(8) == Some(&b'{') && bytes.get(5..8) == Some(&[0, 0, 0]) {
        "this is a safetensors file; convert the checkpoint directory that holds it"
    } else if matches!(bytes.get(..4), Some(b"lmgg" | b"ggml" | b"tjgg" | b"fmgg")) {
        "this is a ggml file from before GGUF; convert the model again"
    } else if bytes.starts_with(b"FUGG") {
        "its magic is byte-swapped (a big-endian writer?)"
    } else if bytes.len() < 4 {
        "it is shorter than the magic"
    } else {
        "it does not start with \"GGUF\""
    }
}

/// The alignment the keys state, or the default.
fn alignment(keys: &[(String, Value)]) -> Result<u64> {
    let Some((_, value)) = keys.iter().find(|(key, _)| key == ALIGNMENT_KEY) else {
        return Ok(u64::from(DEFAULT_ALIGNMENT));
    };
    match value {
        Value::U32(n) if n.is_power_of_two() && *n <= MAX_ALIGNMENT => Ok(u64::from(*n)),
        Value::U32(n) => Err(bad(format!("the alignment {n} is not a power of two of at most {MAX_ALIGNMENT}"))),
        other => Err(bad(format!("must be a u32, not {}", other.type_name()))),
    }
    .map_err(|e| e.at_key(ALIGNMENT_KEY))
}

/// Checks that every tensor lies inside the file and shares no byte with another.
fn extents(tensors: &[TensorInfo], data_start: u64, file_bytes: u64) -> Result<()> {
    let mut ends = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let end = data_start
            .checked_add(tensor.offset)
            .and_then(|start| start.checked_add(tensor.n_bytes))
            .filter(|&end| end <= file_bytes);
        if end.is_none() {
            return Err(bad(format!(
                "its {} bytes at offset {} of the data section run past the end of the file ({file_bytes} bytes); \
                 the file is truncated or damaged",
                tensor.n_bytes, tensor.offset
            ))
            .at_tensor(&tensor.name));
        }
        ends.push((tensor.offset, tensor));
    }
    ends.sort_unstable_by_key(|&(offset, _)| offset);
    for pair in ends.windows(2) {
        if let [(_, a), (start, b)] = pair
            && a.offset.saturating_add(a.n_bytes) > *start
        {
            return Err(bad(format!("overlaps the data of tensor {}", a.name.escape_debug())).at_tensor(&b.name));
        }
    }
    Ok(())
}

/// A position in the file.
struct Cursor<'a> {
    map: &'a Arc<Map>,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn left(&self) -> u64 {
        self.map.bytes().len().saturating_sub(self.at) as u64
    }

    fn here(&self, message: impl Into<String>) -> Error {
        bad(message).at(Place::Offset(self.at as u64))
    }

    /// The next `n` bytes, which are `what`.
    fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8]> {
        let start = self.at;
        let taken = usize::try_from(n)
            .ok()
            .and_then(|n| start.checked_add(n))
            .and_then(|end| Some((end, self.map.bytes().get(start..end)?)));
        let Some((end, bytes)) = taken else {
            return Err(self.here(format!("{what} needs {n} bytes but the file ends after {}", self.left())));
        };
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.take(N as u64, what)?;
        bytes.try_into().map_err(|_| self.here(format!("{what} is cut short")))
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Refuses a count of things that could not fit in what is left, before anything is allocated for them.
    fn check_count(&self, n: u64, min_bytes: u64, what: &str) -> Result<()> {
        match n.checked_mul(min_bytes) {
            Some(bytes) if bytes <= self.left() => Ok(()),
            _ => Err(self.here(format!(
                "the file claims {n} {what} but has only {} bytes left; it is truncated or damaged",
                self.left()
            ))),
        }
    }

    fn name(&mut self, what: &str) -> Result<String> {
        let at = self.at as u64;
        let n = self.u64(&format!("the length of {what}"))?;
        let bytes = self.take(n, what)?;
        let text = std::str::from_utf8(bytes).map_err(|_| bad(format!("{what} is not UTF-8")).at(Place::Offset(at)))?;
        Ok(text.to_owned())
    }

    /// The keys; `spans` gets where each starts and the last ends.
    fn keys(&mut self, n_keys: u64, spans: &mut Vec<usize>) -> Result<Vec<(String, Value)>> {
        let mut keys = Vec::new();
        spans.push(self.at);
        let mut seen = HashSet::new();
        for i in 0..n_keys {
            let what = format!("the name of metadata key {i} (of {n_keys})");
            let key = self.name(&what)?;
            if key.is_empty() || key.len() as u64 > MAX_KEY {
                return Err(self.here(format!("{what} has {} bytes; 1 to {MAX_KEY} are allowed", key.len())));
            }
            if !seen.insert(key.clone()) {
                return Err(bad("appears twice").at_key(key));
            }
            let value = self.value().map_err(|e| keyed(e, &key))?;
            keys.push((key, value));
            spans.push(self.at);
        }
        Ok(keys)
    }

    fn value(&mut self) -> Result<Value> {
        let id = self.u32("the type of the value")?;
        Ok(match id {
            0 => Value::U8(u8::from_le_bytes(self.array("the value")?)),
            1 => Value::I8(i8::from_le_bytes(self.array("the value")?)),
            2 => Value::U16(u16::from_le_bytes(self.array("the value")?)),
            3 => Value::I16(i16::from_le_bytes(self.array("the value")?)),
            4 => Value::U32(u32::from_le_bytes(self.array("the value")?)),
            5 => Value::I32(i32::from_le_bytes(self.array("the value")?)),
            6 => Value::F32(f32::from_le_bytes(self.array("the value")?)),
            7 => match self.array("the value")? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return Err(self.here(format!("a bool must be 0 or 1, not {other}"))),
            },
            8 => {
                let n = self.u64("the length of the string")?;
                Value::String(self.take(n, "the string")?.to_vec())
            }
            9 => Value::Array(self.array_value(1)?),
            10 => Value::U64(u64::from_le_bytes(self.array("the value")?)),
            11 => Value::I64(i64::from_le_bytes(self.array("the value")?)),
            12 => Value::F64(f64::from_le_bytes(self.array("the value")?)),
            _ => return Err(self.here(format!("unknown value type {id}"))),
        })
    }

    /// An array of numbers of `N` bytes.
    fn numbers<const N: usize, T>(&mut self, n: u64, from: fn([u8; N]) -> T) -> Result<Vec<T>> {
        self.check_count(n, N as u64, "array elements")?;
        let bytes = self.take(n.saturating_mul(N as u64), "the array")?;
        let (chunks, _) = bytes.as_chunks::<N>();
        Ok(chunks.iter().map(|&chunk| from(chunk)).collect())
    }

    fn array_value(&mut self, depth: usize) -> Result<Array> {
        if depth > MAX_NESTING {
            return Err(self.here(format!("arrays are nested more than {MAX_NESTING} deep")));
        }
        let id = self.u32("the type of the array elements")?;
        let n = self.u64("the number of array elements")?;
        Ok(match id {
            0 => Array::U8(self.numbers(n, u8::from_le_bytes)?),
            1 => Array::I8(self.numbers(n, i8::from_le_bytes)?),
            2 => Array::U16(self.numbers(n, u16::from_le_bytes)?),
            3 => Array::I16(self.numbers(n, i16::from_le_bytes)?),
            4 => Array::U32(self.numbers(n, u32::from_le_bytes)?),
            5 => Array::I32(self.numbers(n, i32::from_le_bytes)?),
            6 => Array::F32(self.numbers(n, f32::from_le_bytes)?),
            7 => {
                let bytes = self.numbers(n, u8::from_le_bytes)?;
                if let Some(other) = bytes.iter().find(|&&b| b > 1) {
                    return Err(self.here(format!("a bool must be 0 or 1, not {other}")));
                }
                Array::Bool(bytes.into_iter().map(|b| b == 1).collect())
            }
            8 => Array::String(self.strings(n)?),
            9 => {
                self.check_count(n, 12, "nested arrays")?;
                let mut arrays = Vec::new();
                for _ in 0..n {
                    arrays.push(self.array_value(depth + 1)?);
                }
                Array::Array(arrays)
            }
            10 => Array::U64(self.numbers(n, u64::from_le_bytes)?),
            11 => Array::I64(self.numbers(n, i64::from_le_bytes)?),
            12 => Array::F64(self.numbers(n, f64::from_le_bytes)?),
            _ => return Err(self.here(format!("unknown array element type {id}"))),
        })
    }

    /// A string array: only the positions are kept.
    fn strings(&mut self, n: u64) -> Result<Strings> {
        self.check_count(n, PREFIX as u64, "strings")?;
        let base = self.at;
        let bytes = self.map.bytes().get(base..).unwrap_or_default();
        // One more than there are strings; `check_count` made sure that it is less than the file has bytes.
        let mut starts = vec![0; usize::try_from(n).unwrap_or(0) + 1];
        let mut at = 0usize;
        for (i, slot) in starts.iter_mut().enumerate() {
            let start = at + PREFIX;
            *slot = start as u32;
            if i as u64 == n {
                break;
            }
            let len = bytes.get(at..start).and_then(|prefix| prefix.try_into().ok()).map(u64::from_le_bytes);
            let end =
                len.and_then(|len| start.checked_add(usize::try_from(len).ok()?)).filter(|&end| end <= bytes.len());
            let Some(end) = end else {
                self.at += at;
                return Err(self.here(format!("string {i} of {n} runs past the end of the file")));
            };
            at = end;
        }
        // As they ascend, the last one tells whether all of them fit.
        if u32::try_from(at + PREFIX).is_err() {
            return Err(self.here("a string array larger than 4 GiB"));
        }
        self.at += at;
        Ok(Strings::from_parts(Arc::clone(self.map), base, starts))
    }

    fn infos(&mut self, n_tensors: u64, alignment: u64) -> Result<Vec<TensorInfo>> {
        let mut tensors = Vec::new();
        let mut seen = HashSet::new();
        for i in 0..n_tensors {
            let name = self.name(&format!("the name of tensor {i} (of {n_tensors})"))?;
            if !seen.insert(name.clone()) {
                return Err(bad("appears twice").at_tensor(name));
            }
            let info = self.info(&name, alignment).map_err(|e| named(e, &name))?;
            tensors.push(TensorInfo { name, ..info });
        }
        Ok(tensors)
    }

    fn info(&mut self, name: &str, alignment: u64) -> Result<TensorInfo> {
        if name.is_empty() {
            return Err(self.here("a tensor without a name"));
        }
        let n_dims = self.u32("the number of dimensions")?;
        if !(1..=4).contains(&n_dims) {
            return Err(self.here(format!("{n_dims} dimensions; 1 to 4 are allowed")));
        }
        let mut shape = Vec::with_capacity(4);
        for _ in 0..n_dims {
            shape.push(self.u64("a dimension")?);
        }
        let id = self.u32("the type of the tensor")?;
        let ty = TensorType::from_id(id).ok_or_else(|| self.here(format!("unknown tensor type {id}")))?;
        let offset = self.u64("the offset")?;
        if shape.contains(&0) {
            return Err(self.here(format!("an empty dimension in shape {shape:?}")));
        }
        // ggml counts elements in an i64.
        let n_elements = shape.iter().try_fold(1u64, |n, &ne| n.checked_mul(ne)).filter(|&n| i64::try_from(n).is_ok());
        if n_elements.is_none() {
            return Err(self.here(format!("the shape {shape:?} overflows")));
        }
        let n_bytes = ty.n_bytes(&shape).ok_or_else(|| {
            let len = ty.block_len();
            self.here(format!("rows of {} elements are not whole blocks of {len} {ty}", shape.first().unwrap_or(&0)))
        })?;
        if !offset.is_multiple_of(alignment) {
            return Err(self.here(format!("the data offset {offset} is not a multiple of {alignment}")));
        }
        Ok(TensorInfo { name: String::new(), shape, ty, offset, n_bytes })
    }
}

/// Names the key, keeping the position in the message.
fn keyed(error: Error, key: &str) -> Error {
    bad(with_offset(&error)).at_key(key)
}

/// Names the tensor, keeping the position in the message.
fn named(error: Error, tensor: &str) -> Error {
    bad(with_offset(&error)).at_tensor(tensor)
}

fn with_offset(error: &Error) -> String {
    match error.place() {
        Some(place @ Place::Offset(_)) => format!("{} (at {place})", error.message()),
        _ => error.message().to_owned(),
    }
}
