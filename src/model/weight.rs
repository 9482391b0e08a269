//! Tensors, checked against the hyperparameters and laid out for the kernels.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use half::f16;

use super::config::Config;
use crate::error::{Error, Result};
use crate::gguf::{File, Map, TensorInfo, TensorType};
use crate::kernels::norm;
use crate::kernels::pack::{Q8_0_BLOCK, Source};
use crate::kernels::{PackedMatrix, Threads};

/// Everything a model computes with.
#[derive(Debug)]
pub struct Weights {
    /// `[n_vocab, n_embd]`, left in the file's mapping.
    pub token_embd: TokenEmbedding,
    /// `[n_embd]`.
    pub token_embd_norm: Vec<f32>,
    /// The encoder.
    pub layers: Vec<EncoderLayer>,
    /// `[n_embd]`.
    pub output_norm: Vec<f32>,
    /// `[n_question_type, n_embd]`.
    pub type_embd: Vec<f32>,
    /// The decision head.
    pub head: Vec<HeadLayer>,
    /// Scores an option at its marker.
    pub scorer: Scorer,
    /// Scores acting against escalating; not every layout keeps it.
    pub act: Option<ActHead>,
}

/// One encoder layer.
#[derive(Debug)]
pub struct EncoderLayer {
    /// `[n_embd]`; layer 0 has none.
    pub attn_norm: Option<Vec<f32>>,
    /// `[3 n_embd, n_embd]`: rows q, k, v.
    pub attn_qkv: PackedMatrix,
    /// `[n_embd, n_embd]`.
    pub attn_output: PackedMatrix,
    /// `[n_embd]`.
    pub ffn_norm: Vec<f32>,
    /// `[2 n_ff, n_embd]`: first the activated half, then the linear half.
    pub ffn_up: PackedMatrix,
    /// `[n_embd, n_ff]`.
    pub ffn_down: PackedMatrix,
}

/// A layer norm with bias.
#[derive(Debug)]
pub struct Norm {
    /// `[n_embd]`.
    pub weight: Vec<f32>,
    /// `[n_embd]`.
    pub bias: Vec<f32>,
}

impl Norm {
    /// The norm with its epsilon.
    pub(super) fn with(&self, epsilon: f32) -> norm::Norm<'_> {
        norm::Norm { weight: &self.weight, bias: Some(&self.bias), epsilon }
    }
}

/// A linear map with bias.
#[derive(Debug)]
pub struct Linear {
    /// `[n_out, n_in]`.
    pub weight: PackedMatrix,
    /// `[n_out]`.
    pub bias: Vec<f32>,
}

/// One layer of the decision head: pre-norm attention over the whole row, then a ReLU feed-forward.
#[derive(Debug)]
pub struct HeadLayer {
    /// Before the attention.
    pub attn_norm: Norm,
    /// `n_embd` to `3 n_embd`.
    pub attn_qkv: Linear,
    /// `n_embd` to `n_embd`.
    pub attn_output: Linear,
    /// Before the feed-forward.
    pub ffn_norm: Norm,
    /// `n_embd` to `4 n_embd`.
    pub ffn_up: Linear,
    /// `4 n_embd` to `n_embd`.
    pub ffn_down: Linear,
}

/// Norm, linear, GELU, linear to one number.
#[derive(Debug)]
pub struct Scorer {
    /// `scorer.0`.
    pub norm: Norm,
    /// `scorer.1`, `n_embd` to `n_embd`.
    pub hidden: Linear,
    /// `scorer.3`, `n_embd` to 1.
    pub output: Linear,
}

/// Linear, GELU, linear over the `[CLS]` row and four features of the option probabilities.
#[derive(Debug)]
pub struct ActHead {
    /// `act_head.0`, `n_embd + 4` to its own width.
    pub hidden: Linear,
    /// `act_head.2`, to `n_act`.
    pub output: Linear,
}

/// The token embedding, read row by row from the mapping: only the rows of tokens seen become resident.
#[derive(Debug)]
pub struct TokenEmbedding {
    map: Arc<Map>,
    start: usize,
    n_rows: usize,
    width: usize,
    ty: Stored,
}

/// A weight type this build computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    F32,
    F16,
    Q8_0,
}

impl Stored {
    /// `ty` as one of them.
    fn of(ty: TensorType) -> Option<Self> {
        match ty {
            TensorType::F32 => Some(Self::F32),
            TensorType::F16 => Some(Self::F16),
            TensorType::Q8_0 => Some(Self::Q8_0),
            _ => None,
        }
    }

    /// Bytes of a row of `n` values.
    fn row_bytes(self, n: usize) -> usize {
        match self {
            Self::F32 => 4 * n,
            Self::F16 => 2 * n,
            Self::Q8_0 => n / Q8_0_BLOCK * (2 + Q8_0_BLOCK),
        }
    }
}

impl TokenEmbedding {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Widens row `token` into `out`, `[n_embd]`; false when there is no such row.
    #[must_use]
    pub fn read(&self, token: u32, out: &mut [f32]) -> bool {
        let n_bytes = self.ty.row_bytes(self.width);
        let row = (token as usize)
            .checked_mul(n_bytes)
            .and_then(|at| at.checked_add(self.start))
            .and_then(|at| self.map.bytes().get(at..)?.get(..n_bytes));
        match row {
            Some(row) if (token as usize) < self.n_rows && out.len() == self.width => {
                widen(row, self.ty, out);
                true
            }
            _ => false,
        }
    }
}

/// Whether tensors of type `ty` can be computed with.
pub fn is_known(ty: TensorType) -> bool {
    Stored::of(ty).is_some()
}

/// The values `range` of `tensor`, widened exactly, to `out`; `range` starts at a whole block of the type. `bytes` is
/// scratch.
///
/// # Errors
/// They cannot be read, or the type is not known.
pub fn read_values(
    file: &File,
    tensor: &TensorInfo,
    range: Range<usize>,
    bytes: &mut Vec<u8>,
    out: &mut Vec<f32>,
) -> io::Result<()> {
    let start = Stored::of(tensor.ty)
        .and_then(|ty| Some((ty, file.tensor_start(tensor)?.checked_add(ty.row_bytes(range.start))?)))
        .ok_or(io::ErrorKind::Unsupported);
    let (ty, start) = start?;
    file.map().read(start, ty.row_bytes(range.len()), bytes)?;
    out.resize(range.len(), 0.0);
    widen(bytes, ty, out);
    Ok(())
}

/// Widens little-endian values exactly (Q8_0: scale times byte, rounded once).
fn widen(bytes: &[u8], ty: Stored, out: &mut [f32]) {
    match ty {
        Stored::F32 => {
            bytes.as_chunks::<4>().0.iter().zip(out).for_each(|(from, to)| *to = f32::from_le_bytes(*from));
        }
        Stored::F16 => {
            let halves = bytes.as_chunks::<2>().0.iter();
            halves.zip(out).for_each(|(from, to)| *to = f16::from_le_bytes(*from).to_f32());
        }
        Stored::Q8_0 => {
            let blocks = bytes.as_chunks::<{ 2 + Q8_0_BLOCK }>().0.iter();
            for (block, out) in blocks.zip(out.as_chunks_mut::<Q8_0_BLOCK>().0) {
                let [low, high, quants @ ..] = block;
                let scale = f16::from_le_bytes([*low, *high]).to_f32();
                quants.iter().zip(out).for_each(|(quant, to)| *to = scale * f32::from(quant.cast_signed()));
            }
        }
    }
}

impl Weights {
    /// Loads every tensor of the layout, and refuses tensors that nothing would read.
    ///
    /// # Errors
    /// A tensor is missing, has another shape or a type this build does not compute with, or is not part of the layout;
    /// the error names it.
    pub fn from_gguf(file: &File, config: &Config, threads: &Threads) -> Result<Self> {
        let mut loader = Loader { file, threads, used: HashSet::new() };
        let (d, f) = (config.n_embd, config.n_ff);
        let token_embd = loader.token_embedding("token_embd.weight", config.n_vocab, d)?;
        let token_embd_norm = loader.vector("token_embd_norm.weight", d)?;
        let mut layers = Vec::new();
        for i in 0..config.n_layer {
            let name = |part: &str| format!("blk.{i}.{part}.weight");
            layers.push(EncoderLayer {
                attn_norm: if i == 0 { None } else { Some(loader.vector(&name("attn_norm"), d)?) },
                attn_qkv: loader.matrix(&name("attn_qkv"), 3 * d, d, 3)?,
                attn_output: loader.matrix(&name("attn_output"), d, d, 1)?,
                ffn_norm: loader.vector(&name("ffn_norm"), d)?,
                ffn_up: loader.matrix(&name("ffn_up"), 2 * f, d, 2)?,
                ffn_down: loader.matrix(&name("ffn_down"), d, f, 1)?,
            });
        }
        let output_norm = loader.vector("output_norm.weight", d)?;
        let type_embd = loader.rows("type_emb.weight", config.n_question_type, d)?;
        let mut head = Vec::new();
        for i in 0..config.n_head_layer {
            let name = |part: &str| format!("head.{i}.{part}");
            head.push(HeadLayer {
                attn_norm: loader.norm(&name("attn_norm"), d)?,
                attn_qkv: loader.linear(&name("attn_qkv"), 3 * d, d, 3)?,
                attn_output: loader.linear(&name("attn_output"), d, d, 1)?,
                ffn_norm: loader.norm(&name("ffn_norm"), d)?,
                ffn_up: loader.linear(&name("ffn_up"), 4 * d, d, 1)?,
                ffn_down: loader.linear(&name("ffn_down"), d, 4 * d, 1)?,
            });
        }
        let scorer = Scorer {
            norm: loader.norm("scorer.0", d)?,
            hidden: loader.linear("scorer.1", d, d, 1)?,
            output: loader.linear("scorer.3", 1, d, 1)?,
        };
        let act = (config.n_act > 0).then(|| loader.act_head(config)).transpose()?;
        loader.finish()?;
        Ok(Self { token_embd, token_embd_norm, layers, output_norm, type_embd, head, scorer, act })
    }
}

/// Takes tensors out of a file and remembers which.
struct Loader<'a> {
    file: &'a File,
    threads: &'a Threads,
    used: HashSet<String>,
}

impl<'a> Loader<'a> {
    fn error(&self, name: &str, message: impl Into<String>) -> Error {
        self.file.error(message).at_tensor(name)
    }

    fn find(&self, name: &str) -> Result<&'a TensorInfo> {
        self.file.tensor(name).ok_or_else(|| self.error(name, "is missing; convert the checkpoint again"))
    }

    /// The tensor `name` of ggml shape `shape` (innermost dimension first).
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<(&'a [u8], Stored)> {
        let info = self.find(name)?;
        // A matrix with one row may be stored as a vector, and trailing dimensions of 1 carry no meaning.
        let trim = |shape: &[u64]| {
            let n = shape.iter().rposition(|n| *n != 1).map_or(1, |at| at + 1);
            shape.get(..n).unwrap_or(shape).to_vec()
        };
        let wanted: Vec<u64> = shape.iter().map(|n| *n as u64).collect();
        if trim(&info.shape) != trim(&wanted) {
            return Err(self.error(name, format!("has shape {:?}, the hyperparameters ask for {wanted:?}", info.shape)));
        }
        let ty = Stored::of(info.ty).ok_or_else(|| {
            let stored = info.ty.name();
            self.error(name, format!("is stored as {stored}; this build computes with F32, F16 and Q8_0 weights"))
        })?;
        self.used.insert(name.to_owned());
        Ok((self.file.tensor_data(info), ty))
    }

    fn floats(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let (bytes, ty) = self.take(name, shape)?;
        // `take` compared the shape, and the file checked the bytes of the tensor against it.
        let mut out = vec![0.0; shape.iter().product()];
        widen(bytes, ty, &mut out);
        Ok(out)
    }

    fn vector(&mut self, name: &str, n: usize) -> Result<Vec<f32>> {
        self.floats(name, &[n])
    }

    fn rows(&mut self, name: &str, n: usize, width: usize) -> Result<Vec<f32>> {
        self.floats(name, &[width, n])
    }

    /// A matrix `[n, k]` whose outputs are `n_parts` equal parts.
    fn matrix(&mut self, name: &str, n: usize, k: usize, n_parts: usize) -> Result<PackedMatrix> {
        let (bytes, ty) = self.take(name, &[k, n])?;
        let source = match ty {
            Stored::F32 => Source::F32(bytes),
            Stored::F16 => Source::F16(bytes),
            Stored::Q8_0 => Source::Q8_0(bytes),
        };
        let packed = PackedMatrix::pack(source, n, k, n_parts, self.threads).map_err(|error| error.at_tensor(name))?;
        // The packed copy is what is computed with: the file's own pages need not stay in memory beside it.
        let info = self.find(name)?;
        if let Some(start) = self.file.tensor_start(info) {
            self.file.map().release(start, bytes.len());
        }
        Ok(packed)
    }

    fn linear(&mut self, name: &str, n: usize, k: usize, n_parts: usize) -> Result<Linear> {
        let bias = self.vector(&format!("{name}.bias"), n)?;
        Ok(Linear { weight: self.matrix(&format!("{name}.weight"), n, k, n_parts)?, bias })
    }

    /// The width between its two layers is stated by its tensor alone.
    fn act_head(&mut self, config: &Config) -> Result<ActHead> {
        let width = self.find("act_head.0.bias")?.shape.first().copied().unwrap_or(0);
        let width = usize::try_from(width).unwrap_or(0);
        Ok(ActHead {
            hidden: self.linear("act_head.0", width, config.n_embd + 4, 1)?,
            output: self.linear("act_head.2", config.n_act, width, 1)?,
        })
    }

    fn norm(&mut self, name: &str, n: usize) -> Result<Norm> {
        Ok(Norm { weight: self.vector(&format!("{name}.weight"), n)?, bias: self.vector(&format!("{name}.bias"), n)? })
    }

    fn token_embedding(&mut self, name: &str, n_rows: usize, width: usize) -> Result<TokenEmbedding> {
        let info = self.find(name)?;
        let (_, ty) = self.take(name, &[width, n_rows])?;
        let start = self.file.tensor_start(info).ok_or_else(|| self.error(name, "lies outside the file"))?;
        let map = Arc::clone(self.file.map());
        map.advise_random(start, usize::try_from(info.n_bytes).unwrap_or(0));
        Ok(TokenEmbedding { map, start, n_rows, width, ty })
    }

    fn finish(self) -> Result<()> {
        let unread = self.file.tensors().iter().find(|tensor| !self.used.contains(tensor.name.as_str()));
        match unread {
            Some(tensor) => Err(self
                .error(&tensor.name, "is not part of the laya layout: nothing would read it, so the file is refused")),
            None => Ok(()),
        }
    }
}
