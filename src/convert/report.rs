//! What a conversion did, or would do.

use crate::gguf::TensorType;

/// What a conversion did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Size of the file.
    pub n_bytes: u64,
    /// Number of tensors.
    pub n_tensors: usize,
    /// Number of parameters.
    pub n_params: u64,
    /// Every tensor of the file, in its order; empty for a synthetic checkpoint.
    pub tensors: Vec<Stored>,
    /// What the file was compared with before it got its name; `None` when nothing was.
    pub proof: Option<Proof>,
    /// Remarks for people, one line each.
    pub notes: Vec<String>,
}

/// One tensor of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Name in the file.
    pub name: String,
    /// Dimensions, `ne0` first.
    pub shape: Vec<u64>,
    /// Type in the source, in the source's words: `BF16`.
    pub from: &'static str,
    /// Type in the file.
    pub to: TensorType,
    /// Bytes in the file, without padding.
    pub n_bytes: u64,
    /// How far the values are from the source's, when the file was read back.
    pub error: Option<Loss>,
}

/// The difference of stored values to their source.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Loss {
    /// Largest magnitude of a difference, over the values that are finite in both.
    pub max_abs: f64,
    /// Over the same values, root of the sum of squared differences over the sum of squared values; 0 for a tensor of zeros.
    pub relative: f64,
    /// Values that are finite in the source and not in the file.
    pub n_lost: u64,
}

/// What was compared after writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// Tensors whose every value is what the type's rule makes of the source.
    pub n_tensors: usize,
    /// Texts that the file's tokenizer and the one of the `tokenizers` library split into the same ids; 0 when the source
    /// has no `tokenizer.json`.
    pub n_probes: usize,
}
