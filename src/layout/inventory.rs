//! The tensors a Laya model is made of, under the names of the laya layout.
//!
//! The loader finds out by loading; this tells from the header alone, and for models of any size, what it would miss.

use std::collections::HashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{File, TensorInfo, TensorType};

/// More blocks than any model has.
pub(super) const MAX_BLOCKS: u32 = 65_536;

/// Findings of one sort that are named; of more there is only the number.
const MAX_NAMED: usize = 5;

/// Types the loader computes with.
const COMPUTED: [TensorType; 3] = [TensorType::F32, TensorType::F16, TensorType::Q8_0];

/// The hyperparameters that say which tensors there are, of which shape.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    n_embd: u64,
    n_ff: u64,
    n_vocab: u64,
    n_question_type: u64,
    n_layer: u32,
    n_head_layer: u32,
    /// Outputs of the act head and the width between its two layers; a model may have none.
    act: Option<(u64, u64)>,
}

/// What the tensors of a file are found to be.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Whether every tensor of the model is there, where the keys say which those are.
    pub(super) complete: Option<bool>,
    /// What keeps the loader from loading it.
    pub(super) findings: Vec<Error>,
}

/// Compares the tensors of `view`, a file of the laya layout, with what its keys ask for.
pub(super) fn take(view: &File) -> Inventory {
    let sizes = match sizes(view) {
        Ok(sizes) => sizes,
        Err(error) => return Inventory { complete: None, findings: vec![error] },
    };
    let (mut missing, mut misshapen, mut untyped) = (Findings::default(), Findings::default(), Findings::default());
    let mut wanted: HashSet<&str> = HashSet::new();
    for_each(&sizes, &mut |name, shape| match view.tensor(name) {
        None => missing.add(|| at(name, "is missing".into())),
        Some(tensor) => {
            wanted.insert(tensor.name.as_str());
            if significant(&tensor.shape) != significant(shape) {
                misshapen
                    .add(|| at(name, format!("has shape {:?}, the hyperparameters ask for {shape:?}", tensor.shape)));
            }
            if !COMPUTED.contains(&tensor.ty) {
                untyped.add(|| {
                    at(name, format!("is stored as {}; this build computes with F32, F16 and Q8_0", tensor.ty))
                });
            }
        }
    });
    let mut unread = Findings::default();
    let is_unread = |tensor: &&TensorInfo| !wanted.contains(tensor.name.as_str());
    for tensor in view.tensors().iter().filter(is_unread) {
        unread.add(|| at(&tensor.name, "is not part of the layout: nothing would read it".into()));
    }
    let complete = Some(missing.n == 0);
    let sorts = [
        (missing, "are missing"),
        (misshapen, "have another shape than the hyperparameters ask for"),
        (untyped, "are stored in types this build does not compute with"),
        (unread, "are not part of the layout"),
    ];
    Inventory { complete, findings: sorts.into_iter().flat_map(|(findings, are)| findings.listed(are)).collect() }
}

fn at(tensor: &str, message: String) -> Error {
    Error::new(ErrorKind::Model, message).at_tensor(tensor)
}

/// A shape without trailing dimensions of 1, which carry no meaning.
fn significant(shape: &[u64]) -> &[u64] {
    let n = shape.iter().rposition(|n| *n != 1).map_or(1, |at| at + 1);
    shape.get(..n).unwrap_or(shape)
}

/// The first few findings of one sort, and how many there are.
#[derive(Debug, Default)]
struct Findings {
    first: Vec<Error>,
    n: usize,
}

impl Findings {
    fn add(&mut self, finding: impl FnOnce() -> Error) {
        if self.n < MAX_NAMED {
            self.first.push(finding());
        }
        self.n += 1;
    }

    fn listed(mut self, are: &str) -> Vec<Error> {
        let n_more = self.n - self.first.len();
        if n_more > 0 {
            self.first.push(Error::new(ErrorKind::Model, format!("{n_more} more tensors {are}")));
        }
        self.first
    }
}

fn sizes(view: &File) -> Result<Sizes> {
    let count = |key: &str| view.require_u32(key).map(u64::from);
    let blocks = |key: &str, n: u32| {
        let message = || Error::new(ErrorKind::Model, format!("is {n}; no model has that many layers")).at_key(key);
        if n <= MAX_BLOCKS { Ok(n) } else { Err(message()) }
    };
    let act = if view.bool("laya.act_head")? == Some(false) {
        None
    } else {
        // The width between the two layers is stated by a tensor alone.
        let width = view.tensor("act_head.0.bias").and_then(|bias| bias.shape.first().copied());
        Some((u64::from(view.u32("laya.act_classes")?.unwrap_or(2)), width.unwrap_or(0)))
    };
    Ok(Sizes {
        n_embd: count("laya.embedding_length")?,
        n_ff: count("laya.feed_forward_length")?,
        n_vocab: count("laya.vocab_size")?,
        n_question_type: u64::from(view.u32("laya.n_qtype")?.unwrap_or(3)),
        n_layer: blocks("laya.block_count", view.require_u32("laya.block_count")?)?,
        n_head_layer: blocks("laya.head_layers", view.u32("laya.head_layers")?.unwrap_or(2))?,
        act,
    })
}

/// Calls `tensor` with the name and the ggml shape (`ne0` first) of every tensor of a model.
fn for_each(sizes: &Sizes, tensor: &mut dyn FnMut(&str, &[u64])) {
    // No sum or product overflows: they are small multiples of numbers of 32 bits.
    let Sizes { n_embd: d, n_ff: f, .. } = *sizes;
    tensor("token_embd.weight", &[d, sizes.n_vocab]);
    tensor("token_embd_norm.weight", &[d]);
    for i in 0..sizes.n_layer {
        // The embedding is normalized already.
        if i > 0 {
            tensor(&format!("blk.{i}.attn_norm.weight"), &[d]);
        }
        tensor(&format!("blk.{i}.attn_qkv.weight"), &[d, 3 * d]);
        tensor(&format!("blk.{i}.attn_output.weight"), &[d, d]);
        tensor(&format!("blk.{i}.ffn_norm.weight"), &[d]);
        tensor(&format!("blk.{i}.ffn_up.weight"), &[d, 2 * f]);
        tensor(&format!("blk.{i}.ffn_down.weight"), &[f, d]);
    }
    tensor("output_norm.weight", &[d]);
    tensor("type_emb.weight", &[d, sizes.n_question_type]);
    for i in 0..sizes.n_head_layer {
        norm(&format!("head.{i}.attn_norm"), d, tensor);
        linear(&format!("head.{i}.attn_qkv"), d, 3 * d, tensor);
        linear(&format!("head.{i}.attn_output"), d, d, tensor);
        norm(&format!("head.{i}.ffn_norm"), d, tensor);
        linear(&format!("head.{i}.ffn_up"), d, 4 * d, tensor);
        linear(&format!("head.{i}.ffn_down"), 4 * d, d, tensor);
    }
    norm("scorer.0", d, tensor);
    linear("scorer.1", d, d, tensor);
    linear("scorer.3", d, 1, tensor);
    if let Some((n_act, width)) = sizes.act {
        linear("act_head.0", d + 4, width, tensor);
        linear("act_head.2", width, n_act, tensor);
    }
}

fn norm(name: &str, n: u64, tensor: &mut dyn FnMut(&str, &[u64])) {
    tensor(&format!("{name}.weight"), &[n]);
    tensor(&format!("{name}.bias"), &[n]);
}

fn linear(name: &str, n_in: u64, n_out: u64, tensor: &mut dyn FnMut(&str, &[u64])) {
    tensor(&format!("{name}.bias"), &[n_out]);
    tensor(&format!("{name}.weight"), &[n_in, n_out]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_models_have_as_many_tensors_as_their_files() {
        // mmBERT-base, ModernBERT-large and the two toy checkpoints the field tests with.
        for (n_layer, n_head_layer, n_tensors) in [(22, 2, 169), (28, 2, 205), (2, 2, 49), (3, 1, 43)] {
            let sizes = Sizes {
                n_embd: 768,
                n_ff: 1152,
                n_vocab: 256_000,
                n_question_type: 3,
                n_layer,
                n_head_layer,
                act: Some((2, 256)),
            };
            let mut n = 0;
            for_each(&sizes, &mut |_, _| n += 1);
            assert_eq!(n, n_tensors);
        }
    }

    #[test]
    fn dimensions_of_one_at_the_end_carry_no_meaning() {
        for (shape, bare) in [(&[4, 1][..], &[4][..]), (&[4, 1, 1], &[4]), (&[1, 4], &[1, 4]), (&[1], &[1]), (&[], &[])]
        {
            assert_eq!(significant(shape), bare);
        }
    }

    #[test]
    fn a_few_findings_are_named_and_the_rest_counted() {
        let mut findings = Findings::default();
        for i in 0..MAX_NAMED + 3 {
            findings.add(|| at(&format!("t{i}"), "is missing".into()));
        }
        let listed = findings.listed("are missing");
        assert_eq!(listed.len(), MAX_NAMED + 1);
        assert_eq!(listed.last().unwrap().to_string(), "3 more tensors are missing");
    }
}
