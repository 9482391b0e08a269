//! What a calibration was fitted on, and whether a model is that.

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::problem::{Problems, join, must};
use super::{KEY, MIRROR_KEYS, hex, is_sha256};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{File, Writer};
use crate::json::{Object, Value};

/// Bytes of tensor data hashed at a time: a part of the definition of [`model_sha256`].
const PIECE: usize = 4 << 20;

/// The `calibration.fitted` of a spec: temperatures belong to the numbers they were fitted on, so they are bound to the
/// model and the numeric contract that gave those. The kernels that gave them are pinned by `plan.kernels`.
///
/// What else a fit writes down here, such as its plan and its data, binds nothing: under the numeric contract no plan changes
/// a bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// [`model_sha256`] of the model.
    pub model_sha256: Option<String>,
    /// The numeric contract of the engine.
    pub numeric_contract: Option<u32>,
}

impl Fitted {
    /// Reads it from a `calibration`; `None` when that says nothing.
    pub(super) fn read(problems: &mut Problems, calibration: Option<&Value>) -> Option<Self> {
        const PATH: &str = "calibration.fitted";
        let fields: &Object = problems.object(PATH, calibration.and_then(|calibration| calibration.get("fitted")))?;
        let model_sha256 = fields.get("model_sha256").and_then(|value| {
            let hash = value.as_str().filter(|text| is_sha256(text));
            if hash.is_none() {
                problems.add(&join(PATH, "model_sha256"), must("64 lower-case hexadecimal digits", value));
            }
            hash.map(str::to_owned)
        });
        let contract = fields.get("numeric_contract");
        let numeric_contract = contract.and_then(|value| problems.count(&join(PATH, "numeric_contract"), Some(value)));
        Some(Self { model_sha256, numeric_contract })
    }
}

/// The identity of a model: SHA-256, in hexadecimal, of everything its answers can depend on and stamping does not change.
///
/// That is the keys, [`KEY`] and its mirrors left out, as a GGUF file without tensors has them; then for each tensor its
/// name, shape and type and the SHA-256 of each 4 MiB of its data. So a model is hashed on all cores, and keeps its
/// identity when its spec comes, changes or goes.
///
/// # Errors
/// The tensor data cannot be read.
pub fn model_sha256(file: &File) -> Result<String> {
    let mut keys = Writer::new();
    for (key, value) in file.keys().filter(|(key, _)| *key != KEY && !MIRROR_KEYS.contains(key)) {
        keys.set(key, value.clone());
    }
    let mut hash = Sha256::new();
    hash.update(keys.to_bytes(|_, _| Ok(()))?);
    for tensor in file.tensors() {
        let n_bytes = usize::try_from(tensor.n_bytes).unwrap_or(usize::MAX);
        let starts: Vec<_> = (0..n_bytes).step_by(PIECE).collect();
        let digests: std::io::Result<Vec<[u8; 32]>> = starts
            .into_par_iter()
            .map_init(Vec::new, |piece, at| {
                let start = file.tensor_start(tensor).and_then(|start| start.checked_add(at));
                file.map().read(start.unwrap_or(usize::MAX), PIECE.min(n_bytes - at), piece)?;
                Ok(Sha256::digest(piece).into())
            })
            .collect();
        let digests = digests.map_err(|error| file.locate(unreadable(&error)).at_tensor(&tensor.name))?;
        hash.update((tensor.name.len() as u64).to_le_bytes());
        hash.update(tensor.name.as_bytes());
        hash.update((tensor.shape.len() as u64).to_le_bytes());
        tensor.shape.iter().for_each(|n| hash.update(n.to_le_bytes()));
        hash.update(tensor.ty.id().to_le_bytes());
        digests.iter().for_each(|digest| hash.update(digest));
    }
    Ok(hex(&hash.finalize()))
}

/// SHA-256, in lower-case hexadecimal, of all bytes of `file`; `progress` hears how many are done, of how many.
///
/// # Errors
/// They cannot be read.
pub fn file_sha256(file: &File, progress: &mut dyn FnMut(u64, u64)) -> Result<String> {
    let n_bytes = file.map().bytes().len();
    let mut hash = Sha256::new();
    let mut piece = Vec::new();
    for start in (0..n_bytes).step_by(PIECE) {
        progress(start as u64, n_bytes as u64);
        let read = file.map().read(start, PIECE.min(n_bytes - start), &mut piece);
        read.map_err(|error| file.locate(unreadable(&error)))?;
        hash.update(&piece);
    }
    Ok(hex(&hash.finalize()))
}

/// That data could not be read.
pub(crate) fn unreadable(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot be read: {error}; was the file changed meanwhile?"))
}
