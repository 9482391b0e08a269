//! Laying out a GGUF file.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use super::file::File;
use super::map::Map;
use super::read::Header;
use super::tensor::{TensorInfo, TensorType};
use super::value::{Array, Value};
use super::{ALIGNMENT_KEY, MAGIC, VERSION};
use crate::error::{Error, ErrorKind, Result};

/// Alignment of tensor data in a file that does not state its own.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// What goes into a GGUF file: keys in order, tensors in order. [`Writer::write`] streams the file.
///
/// The bytes are the ones gguf-py writes for the same keys and tensors.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    keys: Vec<(String, Value)>,
    key_index: HashMap<String, usize>,
    tensors: Vec<TensorInfo>,
    tensor_index: HashMap<String, usize>,
}

impl Writer {
    /// No keys, no tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key. Setting a key again keeps its first position and takes the last value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        let known = self.key_index.get(&key).and_then(|&i| self.keys.get_mut(i));
        if let Some((_, old)) = known {
            *old = value;
        } else {
            self.key_index.insert(key.clone(), self.keys.len());
            self.keys.push((key, value));
        }
    }

    /// Removes a key; says whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        let Some(i) = self.key_index.get(key).copied() else { return false };
        self.keys.remove(i);
        self.key_index = self.keys.iter().enumerate().map(|(i, (key, _))| (key.clone(), i)).collect();
        true
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.key_index.get(key).and_then(|&i| self.keys.get(i)).map(|(_, value)| value)
    }

    /// Adds a tensor with the dimensions `shape` (`ne0` first). Its data is asked for by [`Writer::write`].
    ///
    /// # Errors
    /// When the name is taken, there are not 1 to 4 non-empty dimensions, the size overflows, or the rows are not whole
    /// blocks of `ty`.
    pub fn add_tensor(&mut self, name: impl Into<String>, shape: &[u64], ty: TensorType) -> Result<()> {
        let name = name.into();
        let error = |message: String| Err(Error::new(ErrorKind::Gguf, message).at_tensor(&name));
        if self.tensor_index.contains_key(&name) {
            return error("is added twice".into());
        }
        if shape.is_empty() || shape.len() > 4 || shape.contains(&0) {
            return error(format!("cannot have the shape {shape:?}"));
        }
        let Some(n_bytes) = ty.n_bytes(shape) else {
            return error(format!("the shape {shape:?} overflows or is not whole blocks of {ty}"));
        };
        self.tensor_index.insert(name.clone(), self.tensors.len());
        self.tensors.push(TensorInfo { name, shape: shape.to_vec(), ty, offset: 0, n_bytes });
        Ok(())
    }

    /// The tensors so far, with their final offsets.
    ///
    /// # Errors
    /// When the alignment key is not a power of two or the offsets overflow.
    pub fn tensors(&self) -> Result<Vec<TensorInfo>> {
        let alignment = self.alignment()?;
        let mut at = 0u64;
        let mut tensors = self.tensors.clone();
        for tensor in &mut tensors {
            tensor.offset = at;
            at = padded(at, tensor.n_bytes, alignment)
                .ok_or_else(|| Error::new(ErrorKind::Gguf, "the file would be too large").at_tensor(&tensor.name))?;
        }
        Ok(tensors)
    }

    /// All keys and values in their order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.keys.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The file as it will be read, but without the data of its tensors. Arrays of strings are shared with this.
    ///
    /// # Errors
    /// As [`Writer::tensors`].
    pub fn without_data(&self) -> Result<File> {
        let (alignment, tensors) = (self.alignment()?, self.tensors()?);
        Ok(File::new(
            Arc::new(Map::from_vec(Vec::new())),
            Header { keys: self.keys.clone(), tensors, alignment, data_start: 0 },
        ))
    }

    /// Size of the whole file.
    ///
    /// # Errors
    /// As [`Writer::tensors`].
    pub fn n_bytes(&self) -> Result<u64> {
        let alignment = self.alignment()?;
        let tensors = self.tensors()?;
        let header = padded(0, self.header(&tensors).len() as u64, alignment);
        let data = tensors.last().map_or(Some(0), |last| padded(last.offset, last.n_bytes, alignment));
        let size = header.zip(data).and_then(|(header, data)| header.checked_add(data));
        size.ok_or_else(|| Error::new(ErrorKind::Gguf, "the file would be too large"))
    }

    /// Bytes of all tensor data, without padding: the work of [`Writer::write`], for progress.
    pub fn data_bytes(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, tensor| sum.saturating_add(tensor.n_bytes))
    }

    /// Writes the whole file to `out`, asking `fill` for the data of each tensor in order. Returns the bytes written.
    ///
    /// # Errors
    /// What `fill` returns; when it writes more or fewer bytes than its tensor has; when `out` fails.
    pub fn write(
        &self,
        out: &mut dyn Write,
        mut fill: impl FnMut(&TensorInfo, &mut dyn Write) -> Result<()>,
    ) -> Result<u64> {
        let alignment = self.alignment()?;
        let tensors = self.tensors()?;
        let mut header = self.header(&tensors);
        let data_start = padded(0, header.len() as u64, alignment).unwrap_or(0);
        header.resize(usize::try_from(data_start).unwrap_or(header.len()), 0);
        put(out, &header)?;
        let mut total = header.len() as u64;
        for tensor in &tensors {
            let mut counted = Counted { out, n: 0 };
            fill(tensor, &mut counted)?;
            if counted.n != tensor.n_bytes {
                let message = format!("{} bytes were written for a tensor of {}", counted.n, tensor.n_bytes);
                return Err(Error::new(ErrorKind::Gguf, message).at_tensor(&tensor.name));
            }
            let end = padded(0, tensor.n_bytes, alignment).unwrap_or(tensor.n_bytes);
            put(out, &vec![0; usize::try_from(end - tensor.n_bytes).unwrap_or(0)])?;
            total = total.saturating_add(end);
        }
        Ok(total)
    }

    /// Writes the file into memory.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn to_bytes(&self, fill: impl FnMut(&TensorInfo, &mut dyn Write) -> Result<()>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(&mut bytes, fill)?;
        Ok(bytes)
    }

    fn alignment(&self) -> Result<u64> {
        match self.get(ALIGNMENT_KEY) {
            None => Ok(u64::from(DEFAULT_ALIGNMENT)),
            Some(Value::U32(n)) if n.is_power_of_two() => Ok(u64::from(*n)),
            Some(_) => Err(Error::new(ErrorKind::Gguf, "must be a u32 power of two").at_key(ALIGNMENT_KEY)),
        }
    }

    /// Everything up to the padding before the data.
    fn header(&self, tensors: &[TensorInfo]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        put_u64(&mut out, tensors.len() as u64);
        put_u64(&mut out, self.keys.len() as u64);
        for (key, value) in &self.keys {
            put_entry(&mut out, key, value);
        }
        for tensor in tensors {
            put_bytes(&mut out, tensor.name.as_bytes());
            out.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
            for &ne in &tensor.shape {
                put_u64(&mut out, ne);
            }
            out.extend_from_slice(&tensor.ty.id().to_le_bytes());
            put_u64(&mut out, tensor.offset);
        }
        out
    }
}

/// Where the next tensor starts after `n_bytes` at `start`.
fn padded(start: u64, n_bytes: u64, alignment: u64) -> Option<u64> {
    start.checked_add(n_bytes)?.checked_next_multiple_of(alignment)
}

/// A key with its type and value, as they lie in a file.
pub(super) fn put_entry(out: &mut Vec<u8>, key: &str, value: &Value) {
    put_bytes(out, key.as_bytes());
    out.extend_from_slice(&value.type_id().to_le_bytes());
    put_value(out, value);
}

pub(super) fn put(out: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).map_err(|e| Error::new(ErrorKind::Io, format!("cannot write: {e}")))
}

fn put_u64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::String(v) => put_bytes(out, v),
        Value::Array(v) => put_array(out, v),
        Value::U64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F64(v) => out.extend_from_slice(&v.to_le_bytes()),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    out.extend_from_slice(&array.element_id().to_le_bytes());
    put_u64(out, array.len() as u64);
    match array {
        Array::U8(v) => out.extend_from_slice(v),
        Array::I8(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Array::U16(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Array::I16(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Array::U32(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Array::I32(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Array::F32(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Array::Bool(v) => v.iter().for_each(|v| out.push(u8::from(*v))),
        Array::String(v) => out.extend_from_slice(v.raw()),
        Array::Array(v) => v.iter().for_each(|v| put_array(out, v)),
        Array::U64(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Array::I64(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Array::F64(v) => v.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
    }
}

/// Counts what passes through.
struct Counted<'a> {
    out: &'a mut dyn Write,
    n: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.n += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
