//! The tensors of a checkpoint: names, shapes, and what they are called in the GGUF file.

use std::collections::{HashMap, HashSet};

use super::hyper::{Hyper, N_QTYPE};
use crate::error::{Error, ErrorKind, Result};

/// A tensor every checkpoint must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    /// Name in the checkpoint.
    pub(super) source: String,
    /// Name in the GGUF file.
    pub(super) name: String,
    /// PyTorch's shape, `[out, in]`.
    pub(super) shape: Vec<Width>,
}

/// One dimension of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// Given by the configuration.
    Is(u64),
    /// Feed-forward width of the head: the checkpoint's own choice, one for all its layers. The published models have
    /// four times the embedding.
    Head,
    /// Width of the act head: the checkpoint's own choice. The published models have 256.
    Act,
}

/// The published weights have it, nothing reads it.
pub(super) const DROPPED: &str = "temperature";

/// All tensors a checkpoint with these hyperparameters must have, `temperature` aside.
pub(super) fn expected(hyper: &Hyper) -> Vec<Expected> {
    use Width::{Act, Head, Is};
    let [d_in, f_in] = [hyper.n_embd, hyper.n_ff].map(u64::from);
    let (d, f, v) = (Is(d_in), Is(f_in), Is(u64::from(hyper.n_vocab)));
    let mut tensors = Vec::new();
    let mut add = |source: String, name: String, shape: &[Width]| {
        tensors.push(Expected { source, name, shape: shape.to_vec() });
    };
    add("encoder.embeddings.tok_embeddings.weight".into(), "token_embd.weight".into(), &[v, d]);
    add("encoder.embeddings.norm.weight".into(), "token_embd_norm.weight".into(), &[d]);
    add("encoder.final_norm.weight".into(), "output_norm.weight".into(), &[d]);
    for i in 0..hyper.n_layer {
        let mut layer = |source: &str, name: &str, shape: &[Width]| {
            add(format!("encoder.layers.{i}.{source}.weight"), format!("blk.{i}.{name}.weight"), shape);
        };
        // The first layer has no norm before its attention: the embedding is normalized already.
        if i > 0 {
            layer("attn_norm", "attn_norm", &[d]);
        }
        layer("attn.Wqkv", "attn_qkv", &[Is(3 * d_in), d]);
        layer("attn.Wo", "attn_output", &[d, d]);
        layer("mlp_norm", "ffn_norm", &[d]);
        layer("mlp.Wi", "ffn_up", &[Is(2 * f_in), d]);
        layer("mlp.Wo", "ffn_down", &[d, f]);
    }
    for i in 0..hyper.head_layers {
        let mut both = |source: &str, joint: &str, name: &str, shape: &[Width]| {
            add(format!("head.layers.{i}.{source}{joint}weight"), format!("head.{i}.{name}.weight"), shape);
            let bias = shape.first().copied().unwrap_or(d);
            add(format!("head.layers.{i}.{source}{joint}bias"), format!("head.{i}.{name}.bias"), &[bias]);
        };
        both("norm1", ".", "attn_norm", &[d]);
        both("norm2", ".", "ffn_norm", &[d]);
        both("self_attn.in_proj", "_", "attn_qkv", &[Is(3 * d_in), d]);
        both("self_attn.out_proj", ".", "attn_output", &[d, d]);
        both("linear1", ".", "ffn_up", &[Head, d]);
        both("linear2", ".", "ffn_down", &[d, Head]);
    }
    let mut same = |name: &str, shape: &[Width]| add(name.into(), name.into(), shape);
    same("type_emb.weight", &[Is(u64::from(N_QTYPE)), d]);
    same("scorer.0.weight", &[d]);
    same("scorer.0.bias", &[d]);
    same("scorer.1.weight", &[d, d]);
    same("scorer.1.bias", &[d]);
    same("scorer.3.weight", &[Is(1), d]);
    same("scorer.3.bias", &[Is(1)]);
    let act = Is(u64::from(hyper.act_classes));
    same("act_head.0.weight", &[Act, Is(d_in + 4)]);
    same("act_head.0.bias", &[Act]);
    same("act_head.2.weight", &[act, Act]);
    same("act_head.2.bias", &[act]);
    tensors
}

/// What was found: source name to shape.
pub(super) type Found<'a> = HashMap<&'a str, &'a [u64]>;

/// The widths a checkpoint chose for itself.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Own {
    /// Feed-forward width of the head, when it has layers.
    pub(super) head: Option<u64>,
    /// Width of the act head.
    pub(super) act: Option<u64>,
}

impl Own {
    /// What `width` must be; the first tensor that uses a free width decides it as `found`.
    fn resolve(&mut self, width: Width, found: u64) -> u64 {
        match width {
            Width::Is(n) => n,
            Width::Head => *self.head.get_or_insert(found),
            Width::Act => *self.act.get_or_insert(found),
        }
    }
}

/// Checks that the checkpoint has exactly the expected tensors with the expected shapes.
pub(super) fn check(expected: &[Expected], found: &Found<'_>) -> Result<Own> {
    let error = |message: String, name: &str| Error::new(ErrorKind::Checkpoint, message).at_tensor(name);
    let mut own = Own::default();
    for tensor in expected {
        let Some(&shape) = found.get(tensor.source.as_str()) else {
            return Err(error("is missing from the checkpoint".into(), &tensor.source));
        };
        let widths = tensor.shape.iter().enumerate();
        let want: Vec<u64> = widths.map(|(i, &w)| own.resolve(w, shape.get(i).copied().unwrap_or(0))).collect();
        if shape != want || want.contains(&0) {
            let message = format!("has the shape {shape:?}, a model with these settings needs {want:?}");
            return Err(error(message, &tensor.source));
        }
    }
    let names: HashSet<&str> = expected.iter().map(|tensor| tensor.source.as_str()).collect();
    // Sorted, so that the same checkpoint gives the same message.
    let mut extra: Vec<&str> = found.keys().copied().filter(|name| !names.contains(name) && *name != DROPPED).collect();
    extra.sort_unstable();
    match extra.first() {
        None => Ok(own),
        Some(name) => {
            let message = format!("has no place in a model with these settings ({} such tensors)", extra.len());
            Err(error(message, name))
        }
    }
}
