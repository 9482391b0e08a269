//! Reading safetensors files: length, cap, slice, whole table validated, then trusted.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::Map;
use crate::json::{self, Object, Value};

/// A longer header is refused, as the format's own library does.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The header of a well-formed file is nested three levels deep.
const MAX_DEPTH: usize = 8;

/// Element types, with the bytes of one element.
const DTYPES: [(&str, u64); 17] = [
    ("BOOL", 1),
    ("U8", 1),
    ("I8", 1),
    ("F8_E4M3", 1),
    ("F8_E5M2", 1),
    ("F8_E8M0", 1),
    ("I16", 2),
    ("U16", 2),
    ("F16", 2),
    ("BF16", 2),
    ("I32", 4),
    ("U32", 4),
    ("F32", 4),
    ("I64", 8),
    ("U64", 8),
    ("F64", 8),
    ("C64", 8),
];

/// The element types a weight may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float {
    F16,
    BF16,
    F32,
    F64,
}

impl Float {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "F16" => Some(Self::F16),
            "BF16" => Some(Self::BF16),
            "F32" => Some(Self::F32),
            "F64" => Some(Self::F64),
            _ => None,
        }
    }

    /// The name in a file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::F32 => "F32",
            Self::F64 => "F64",
        }
    }

    /// Bytes of one element.
    pub(crate) fn n_bytes(self) -> usize {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// One tensor of a file.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    /// Dimensions in the file's order: the contiguous one last.
    pub(crate) shape: Vec<u64>,
    /// Byte range from the start of the data.
    start: usize,
    end: usize,
}

/// A validated safetensors file.
#[derive(Debug)]
pub(crate) struct SafeTensors {
    path: PathBuf,
    map: Map,
    data_start: usize,
    /// Sorted by name.
    tensors: Vec<Tensor>,
    /// Texts by name.
    metadata: Object,
}

impl SafeTensors {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let map = Map::open(path)?;
        let Header { data_start, tensors, metadata } = header(map.bytes()).map_err(|e| e.in_file(path))?;
        Ok(Self { path: path.to_owned(), map, data_start, tensors, metadata })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The texts of the header's `__metadata__`.
    pub(crate) fn metadata(&self) -> &Object {
        &self.metadata
    }

    /// The bytes of the whole file.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Where the data of one of this file's tensors lies in [`SafeTensors::map`]: start and length.
    pub(crate) fn place(&self, tensor: &Tensor) -> (usize, usize) {
        (self.data_start + tensor.start, tensor.end - tensor.start)
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Checkpoint, message)
}

/// What the header says.
#[derive(Debug)]
struct Header {
    /// Where the data starts.
    data_start: usize,
    /// Sorted by name.
    tensors: Vec<Tensor>,
    metadata: Object,
}

fn header(bytes: &[u8]) -> Result<Header> {
    let Some(length) = bytes.first_chunk::<8>().map(|length| u64::from_le_bytes(*length)) else {
        return Err(bad(format!("not a safetensors file: {} bytes are shorter than its header", bytes.len())));
    };
    if length > MAX_HEADER_BYTES {
        return Err(bad(format!("not a safetensors file: a header of {length} bytes is more than {MAX_HEADER_BYTES}")));
    }
    let data_start = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
    let text = data_start.and_then(|end| bytes.get(8..end));
    let (Some(data_start), Some(text)) = (data_start, text) else {
        return Err(bad(format!("the header of {length} bytes runs past the end of the file; it is truncated")));
    };
    if text.first() != Some(&b'{') {
        return Err(bad("not a safetensors file: the header is not a JSON object"));
    }
    let table = json::parse_within(text, MAX_DEPTH).map_err(|e| bad(format!("the header is not JSON: {e}")))?;
    let Some(table) = table.as_object() else {
        return Err(bad("not a safetensors file: the header is not a JSON object"));
    };
    let mut tensors = Vec::with_capacity(table.len());
    let mut metadata = Object::new();
    for (name, entry) in table.iter() {
        if name == "__metadata__" {
            let texts = entry.as_object().filter(|object| object.values().all(|value| value.as_str().is_some()));
            metadata = texts.cloned().ok_or_else(|| bad("the __metadata__ of the header is not an object of texts"))?;
            continue;
        }
        let tensor = tensor(name, entry).map_err(|e| e.at_tensor(name))?;
        tensors.push(tensor);
    }
    contiguous(&mut tensors, (bytes.len() - data_start) as u64)?;
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Header { data_start, tensors, metadata })
}

fn tensor(name: &str, entry: &Value) -> Result<Tensor> {
    let dtype = entry.get("dtype").and_then(Value::as_str).ok_or_else(|| bad("has no dtype"))?;
    let known = DTYPES.iter().find(|(known, _)| *known == dtype);
    let &(dtype, n_bytes) = known.ok_or_else(|| bad(format!("unknown dtype {dtype:?}")))?;
    let integers = |key: &str| -> Result<Vec<u64>> {
        let list = entry.get(key).and_then(Value::as_array).map(|list| list.iter().map(Value::as_u64).collect());
        list.flatten().ok_or_else(|| bad(format!("{key} is not a list of sizes")))
    };
    let shape = integers("shape")?;
    let [start, end] = integers("data_offsets")?[..] else {
        return Err(bad("data_offsets is not a pair"));
    };
    let size = shape.iter().try_fold(n_bytes, |size, &n| size.checked_mul(n));
    if size.is_none() || end.checked_sub(start) != size {
        return Err(bad(format!("{dtype} with shape {shape:?} does not fill the bytes {start} to {end}")));
    }
    let offset = |at| usize::try_from(at).map_err(|_| bad("is too large for this machine"));
    Ok(Tensor { name: name.to_owned(), dtype, shape, start: offset(start)?, end: offset(end)? })
}

/// The tensors must cover the data exactly: no gap, no overlap, no byte before, between or after them.
fn contiguous(tensors: &mut [Tensor], data_bytes: u64) -> Result<()> {
    tensors.sort_by_key(|tensor| (tensor.start, tensor.end));
    let mut at = 0;
    for tensor in tensors.iter() {
        if tensor.start != at {
            let what = if tensor.start < at { "overlaps the tensor before it" } else { "leaves a gap before it" };
            return Err(bad(format!("the data at byte {} {what}", tensor.start)).at_tensor(&tensor.name));
        }
        at = tensor.end;
    }
    if at as u64 != data_bytes {
        let message =
            format!("the tensors need {at} bytes of data, the file has {data_bytes}; it is truncated or damaged");
        return Err(bad(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, n_data: usize) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; n_data]].concat()
    }

    #[track_caller]
    fn refused(bytes: &[u8], part: &str) {
        let message = header(bytes).unwrap_err().to_string();
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }

    fn one(entry: &str, n_data: usize) -> Vec<u8> {
        file(&format!("{{\"a\":{entry}}}"), n_data)
    }

    #[test]
    fn a_good_file() {
        let text = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},
                       "a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},
                       "e":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}   "#;
        let Header { data_start, tensors, metadata } = header(&file(text, 8)).unwrap();
        assert_eq!(data_start, 8 + text.len());
        assert_eq!(Value::Object(metadata).dumps_compact(), r#"{"format":"pt"}"#);
        assert_eq!(
            tensors.iter().map(|t| (t.name.as_str(), t.start, t.end)).collect::<Vec<_>>(),
            [("a", 0, 4), ("b", 4, 8), ("e", 4, 4)]
        );
    }

    #[test]
    fn every_way_a_header_can_be_wrong() {
        refused(b"", "0 bytes");
        refused(b"1234567", "7 bytes");
        refused(&(1u64 << 63).to_le_bytes(), "more than 100000000");
        refused(&u64::MAX.to_le_bytes(), "more than 100000000");
        refused(&100u64.to_le_bytes(), "past the end");
        refused(&file("", 0), "not a JSON object");
        refused(&file("[1]", 0), "not a JSON object");
        refused(&file("{\"a\":", 0), "not JSON");
        refused(&file(&format!("{{\"a\":{}", "[".repeat(100_000)), 0), "not JSON");
        refused(&file("{\"__metadata__\":{\"a\":1}}", 0), "__metadata__");
        refused(&file("{\"__metadata__\":[]}", 0), "__metadata__");
        refused(&one("{}", 0), "no dtype");
        refused(&one("1", 0), "no dtype");
        refused(&one(r#"{"dtype":"F4","shape":[1],"data_offsets":[0,4]}"#, 4), "unknown dtype");
        refused(&one(r#"{"dtype":"F32","data_offsets":[0,4]}"#, 4), "shape");
        refused(&one(r#"{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}"#, 4), "shape");
        refused(&one(r#"{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}"#, 4), "shape");
        refused(&one(r#"{"dtype":"F32","shape":[1]}"#, 4), "data_offsets");
        refused(&one(r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}"#, 4), "not a pair");
        refused(&one(r#"{"dtype":"F32","shape":[1],"data_offsets":[4,0]}"#, 4), "does not fill");
        refused(&one(r#"{"dtype":"F32","shape":[1],"data_offsets":[0,8]}"#, 8), "does not fill");
        refused(&one(r#"{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}"#, 0), "does not fill");
        refused(&one(r#"{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#, 8), "gap");
        refused(&one(r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#, 3), "has 3");
        refused(&one(r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#, 5), "has 5");
        let two = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
        refused(&file(two, 8), "overlaps");
        refused(&one("{", 0), "not JSON");
    }
}
