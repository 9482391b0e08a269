//! A tensor on its way into a GGUF file.

use std::path::Path;

use super::safetensors::Float;
use crate::error::Error;
use crate::gguf::{File, Map, TensorInfo, TensorType};

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

    /// The data in pieces of `n` elements, with the place of each in [`Weight::release`]'s terms.
    pub(super) fn pieces(&self, n: usize) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let n_bytes = n * self.float.n_bytes();
        self.data.chunks(n_bytes).enumerate().map(move |(i, piece)| (i * n_bytes, piece))
    }

    /// Asks for the memory of `len` bytes of the data from `at`.
    pub(super) fn populate(&self, at: usize, len: usize) {
        self.map.populate(self.start + at, len);
    }

    /// Gives back the memory of `len` bytes of the data from `at`: a checkpoint of any size passes through few pages.
    pub(super) fn release(&self, at: usize, len: usize) {
        self.map.release(self.start + at, len);
    }
}
