//! What the weights of a model are, whatever they are stored as and called.

use std::io;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::error::Result;
use crate::gguf::{File, TensorInfo};
use crate::model::weight;
use crate::spec::{hex, unreadable};

/// Values that are hashed together.
const PIECE: usize = 1 << 20;

/// SHA-256, in lower-case hex, of the weights of `file` as float32 values.
///
/// Each tensor is the digest of the number of its values (64 bits, little-endian) and of the digests of its pieces of
/// 2^20 values (little-endian float32). The digests of all tensors are hashed in sorted order, so names and order do not
/// count: a checkpoint and a file made of it without loss have the same. `scripts/parity_reference.py` computes it for
/// checkpoints.
///
/// None when a tensor has a type this build does not compute with.
///
/// # Errors
/// A tensor cannot be read; the error names it.
pub fn values_sha256(file: &File) -> Result<Option<String>> {
    if !file.tensors().iter().all(|tensor| weight::is_known(tensor.ty)) {
        return Ok(None);
    }
    let mut digests = file.tensors().iter().map(|tensor| digest(file, tensor)).collect::<Result<Vec<_>>>()?;
    digests.sort_unstable();
    let mut all = Sha256::new();
    digests.iter().for_each(|digest| all.update(digest));
    Ok(Some(hex(&all.finalize())))
}

fn digest(file: &File, tensor: &TensorInfo) -> Result<[u8; 32]> {
    let n_values = usize::try_from(tensor.n_elements()).unwrap_or(usize::MAX);
    let starts: Vec<_> = (0..n_values).step_by(PIECE).collect();
    let digests: io::Result<Vec<[u8; 32]>> = starts
        .into_par_iter()
        .map_init(
            || (Vec::new(), Vec::new(), Vec::new()),
            |(stored, values, bytes), first| {
                weight::read_values(file, tensor, first..n_values.min(first + PIECE), stored, values)?;
                bytes.clear();
                bytes.extend(values.iter().flat_map(|value: &f32| value.to_le_bytes()));
                Ok(Sha256::digest(bytes).into())
            },
        )
        .collect();
    let digests = digests.map_err(|error| file.locate(unreadable(&error)).at_tensor(&tensor.name))?;
    let mut hash = Sha256::new_with_prefix((n_values as u64).to_le_bytes());
    digests.iter().for_each(|digest| hash.update(digest));
    Ok(hash.finalize().into())
}
