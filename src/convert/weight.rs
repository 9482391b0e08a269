//! A tensor on its way into a GGUF file.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{File, Map, TensorInfo, TensorType};
use crate::safetensors::Float;

/// A tensor to be written.
#[derive(Clone, Copy)]
pub(super) struct Weight<'a> {
    /// Name in the file that is written.
    pub(super) name: &'a str,
    /// Name in the file that is read, and that file.
    source: (&'a str, &'a Path),
    /// PyTorch's order: the contiguous dimension last.
    pub(super) shape: &'a [u64],
    pub(super) float: Float,
    pub(super) data: &'a [u8],
    /// The file that `data` lies in, and where in it.
    map: &'a Map,
    start: usize,
}

impl<'a> Weight<'a> {
    /// `len` bytes of `map` from `start`, which the caller has found to be inside. `source` is its name and file there.
    pub(super) fn new(
        name: &'a str,
        source: (&'a str, &'a Path),
        shape: &'a [u64],
        float: Float,
        map: &'a Map,
        (start, len): (usize, usize),
    ) -> Self {
        let data = map.bytes().get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default();
        Self { name, source, shape, float, data, map, start }
    }

    /// A float tensor of a GGUF file; `shape` is its shape in PyTorch's order.
    pub(super) fn of_gguf(file: &'a File, tensor: &'a TensorInfo, shape: &'a [u64]) -> Option<Self> {
        let float = match tensor.ty {
            TensorType::F32 => Float::F32,
            TensorType::F16 => Float::F16,
            TensorType::BF16 => Float::BF16,
            _ => return None,
        };
        let place = (file.tensor_start(tensor)?, usize::try_from(tensor.n_bytes).ok()?);
        let source = (tensor.name.as_str(), file.path().unwrap_or(Path::new("")));
        Some(Self::new(&tensor.name, source, shape, float, file.map(), place))
    }

    /// `error` about this tensor of the source.
    pub(super) fn locate(&self, error: Error) -> Error {
        let (name, path) = self.source;
        error.at_tensor(name).in_file(path)
    }

    /// ggml's order: `ne0`, the contiguous dimension, first.
    pub(super) fn ne(&self) -> Vec<u64> {
        self.shape.iter().rev().copied().collect()
    }

    /// Where the pieces of `n` elements of the data lie in it, in bytes: start and length. The last may be shorter.
    pub(super) fn pieces(&self, n: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (n_bytes, total) = (n * self.float.n_bytes(), self.data.len());
        (0..total).step_by(n_bytes).map(move |at| (at, n_bytes.min(total - at)))
    }

    /// Copies a piece of the data into `out`, as [`Map::read`] does.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], with tensor and file.
    pub(super) fn read(&self, (at, len): (usize, usize), out: &mut Vec<u8>) -> Result<()> {
        self.map.read(self.start + at, len, out).map_err(|e| {
            let message = format!("cannot be read: {e}; was the file changed meanwhile?");
            self.locate(Error::new(ErrorKind::Io, message))
        })
    }
}
