//! A GGUF file that was read and validated.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::map::Map;
use super::read;
use super::strings::Strings;
use super::tensor::TensorInfo;
use super::value::{Array, Value};
use crate::error::{Error, ErrorKind, Result};

/// A validated GGUF file. Metadata is in memory (string arrays as positions); tensor data stays where it is.
#[derive(Debug, Clone)]
pub struct File {
    map: Arc<Map>,
    path: Option<PathBuf>,
    keys: Vec<(String, Value)>,
    key_index: HashMap<String, usize>,
    tensors: Vec<TensorInfo>,
    tensor_index: HashMap<String, usize>,
    alignment: u64,
    data_start: u64,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $get:ident, $require:ident, $want:literal, $out:ty, $pattern:pat => $value:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// When the key has another type; the error names the key.
        pub fn $get(&self, key: &str) -> Result<Option<$out>> {
            match self.get(key) {
                None => Ok(None),
                Some($pattern) => Ok(Some($value)),
                Some(other) => Err(self.wrong_type(key, $want, other)),
            }
        }

        /// The same for a key that must be there.
        ///
        /// # Errors
        /// When the key is missing or has another type.
        pub fn $require(&self, key: &str) -> Result<$out> {
            self.$get(key)?.ok_or_else(|| self.missing(key))
        }
    )*};
}

impl File {
    /// Maps and validates the file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be read, [`ErrorKind::Gguf`] when it is not a well-formed GGUF file.
    pub fn open(path: &Path) -> Result<Self> {
        let map = Arc::new(Map::open(path)?);
        let mut file = Self::from_map(map).map_err(|e| e.in_file(path))?;
        file.path = Some(path.to_owned());
        Ok(file)
    }

    /// Validates a file held in memory.
    ///
    /// # Errors
    /// [`ErrorKind::Gguf`] when it is not a well-formed GGUF file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::from_map(Arc::new(Map::from_vec(bytes)))
    }

    fn from_map(map: Arc<Map>) -> Result<Self> {
        let header = read::header(&map)?;
        Ok(Self::new(map, header))
    }

    /// The file in `map`, which `header` describes.
    pub(super) fn new(map: Arc<Map>, header: read::Header) -> Self {
        let read::Header { keys, tensors, alignment, data_start } = header;
        let key_index = keys.iter().enumerate().map(|(i, (key, _))| (key.clone(), i)).collect();
        let tensor_index = tensors.iter().enumerate().map(|(i, tensor)| (tensor.name.clone(), i)).collect();
        Self { map, path: None, keys, key_index, tensors, tensor_index, alignment, data_start }
    }

    /// This file under other names: with `keys` instead of its own, and its tensors called `names`, in their order
    /// (`[n_tensors]`). The data stays where it is; both share it.
    ///
    /// # Errors
    /// [`ErrorKind::Gguf`] when two keys or two tensors would have one name, or there is not a name for each tensor.
    pub fn renamed(&self, keys: Vec<(String, Value)>, names: Vec<String>) -> Result<Self> {
        if names.len() != self.tensors.len() {
            let message = format!("{} names for {} tensors", names.len(), self.tensors.len());
            return Err(self.locate(Error::new(ErrorKind::Gguf, message)));
        }
        let mut key_index = HashMap::with_capacity(keys.len());
        for (i, (key, _)) in keys.iter().enumerate() {
            if key_index.insert(key.clone(), i).is_some() {
                return Err(self.locate(Error::new(ErrorKind::Gguf, "would be there twice").at_key(key)));
            }
        }
        let mut tensor_index = HashMap::with_capacity(names.len());
        for (i, name) in names.iter().enumerate() {
            if tensor_index.insert(name.clone(), i).is_some() {
                return Err(self.locate(Error::new(ErrorKind::Gguf, "would be there twice").at_tensor(name)));
            }
        }
        let tensors = self.tensors.iter().zip(names).map(|(tensor, name)| TensorInfo { name, ..tensor.clone() });
        let tensors = tensors.collect();
        let (map, path) = (Arc::clone(&self.map), self.path.clone());
        Ok(Self { map, path, keys, key_index, tensors, tensor_index, ..*self })
    }

    /// Where the file was read from.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The bytes of the whole file.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// All keys and values in file order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.keys.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.key_index.get(key).and_then(|&i| self.keys.get(i)).map(|(_, value)| value)
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensor_index.get(name).and_then(|&i| self.tensors.get(i))
    }

    /// The data of one of this file's tensors, without padding: `n_bytes` bytes.
    ///
    /// For a tensor info of another file the bytes mean nothing, and are empty where this file has none.
    pub fn tensor_data(&self, tensor: &TensorInfo) -> &[u8] {
        let range = self.tensor_start(tensor).and_then(|start| {
            let end = start.checked_add(usize::try_from(tensor.n_bytes).ok()?)?;
            Some(start..end)
        });
        range.and_then(|range| self.map.bytes().get(range)).unwrap_or_default()
    }

    /// Gives back the memory of the pages of one of this file's tensors, as [`Map::release`] does.
    pub fn release_tensor(&self, tensor: &TensorInfo) {
        if let (Some(start), Ok(len)) = (self.tensor_start(tensor), usize::try_from(tensor.n_bytes)) {
            self.map.release(start, len);
        }
    }

    /// Where the data of one of this file's tensors starts in [`File::map`].
    pub fn tensor_start(&self, tensor: &TensorInfo) -> Option<usize> {
        self.data_start.checked_add(tensor.offset).and_then(|start| usize::try_from(start).ok())
    }

    /// Gives back the memory of the file's pages before the tensor data, as [`Map::release`] does. Strings that are
    /// still read afterwards, of whichever array, are read from the file again.
    pub fn release_header(&self) {
        self.map.release(0, usize::try_from(self.data_start).unwrap_or(0).min(self.map.bytes().len()));
    }

    /// The alignment of tensor data, in bytes.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Where the data section starts, in bytes from the start of the file.
    pub fn data_start(&self) -> u64 {
        self.data_start
    }

    getters! {
        /// A u32, or `None` when the key is absent.
        u32, require_u32, "u32", u32, Value::U32(value) => *value;
        /// A f32, or `None` when the key is absent.
        f32, require_f32, "f32", f32, Value::F32(value) => *value;
        /// A bool, or `None` when the key is absent.
        bool, require_bool, "bool", bool, Value::Bool(value) => *value;
        /// A byte string, or `None` when the key is absent.
        string, require_string, "string", &[u8], Value::String(value) => value;
        /// An array of i32, or `None` when the key is absent.
        i32s, require_i32s, "array of i32", &[i32], Value::Array(Array::I32(values)) => values;
        /// An array of u32, or `None` when the key is absent.
        u32s, require_u32s, "array of u32", &[u32], Value::Array(Array::U32(values)) => values;
        /// An array of f32, or `None` when the key is absent.
        f32s, require_f32s, "array of f32", &[f32], Value::Array(Array::F32(values)) => values;
        /// An array of strings, or `None` when the key is absent.
        strings, require_strings, "array of string", &Strings, Value::Array(Array::String(values)) => values;
    }

    /// Text, or `None` when the key is absent.
    ///
    /// # Errors
    /// When the key is not a string or not UTF-8.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        let text = self.string(key)?.map(std::str::from_utf8).transpose();
        text.map_err(|_| self.error("is not UTF-8 text").at_key(key))
    }

    /// The same for a key that must be there.
    ///
    /// # Errors
    /// When the key is missing, not a string or not UTF-8.
    pub fn require_str(&self, key: &str) -> Result<&str> {
        self.str(key)?.ok_or_else(|| self.missing(key))
    }

    /// A [`ErrorKind::Model`] error about this file.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.locate(Error::new(ErrorKind::Model, message))
    }

    /// `error` with this file's path, when it has one.
    pub fn locate(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }

    fn missing(&self, key: &str) -> Error {
        self.error("is missing from the GGUF file; convert the checkpoint again").at_key(key)
    }

    fn wrong_type(&self, key: &str, want: &str, found: &Value) -> Error {
        self.error(format!("must be {want}, not {}", found.type_name())).at_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TensorType, Writer};
    use super::*;

    #[test]
    fn a_renamed_file_has_each_name_once() {
        let mut writer = Writer::new();
        writer.set("a", 1u32);
        for name in ["x", "y"] {
            writer.add_tensor(name, &[1], TensorType::F32).unwrap();
        }
        let bytes = writer.to_bytes(|tensor, out| {
            out.write_all(&f32::from(tensor.name.as_bytes()[0]).to_le_bytes()).unwrap();
            Ok(())
        });
        let file = File::from_bytes(bytes.unwrap()).unwrap();
        let keys = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), Value::U32(7))).collect();
        let tensors = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();

        let renamed = file.renamed(keys(&["b", "c"]), tensors(&["y", "z"])).unwrap();
        assert_eq!((renamed.get("a"), renamed.u32("c").unwrap()), (None, Some(7)));
        assert!(renamed.tensor("x").is_none());
        assert_eq!(renamed.tensor_data(renamed.tensor("y").unwrap()), 120f32.to_le_bytes());
        assert_eq!(renamed.tensor_data(renamed.tensor("z").unwrap()), 121f32.to_le_bytes());

        for (keys, tensors, says) in [
            (keys(&["b", "b"]), tensors(&["x", "y"]), "key b: would be there twice"),
            (keys(&[]), tensors(&["y", "y"]), "tensor y: would be there twice"),
            (keys(&[]), tensors(&["y"]), "1 names for 2 tensors"),
        ] {
            assert_eq!(file.renamed(keys, tensors).unwrap_err().to_string(), says);
        }
    }
}
