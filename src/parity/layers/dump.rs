//! A reference dump: the states of another program, in a safetensors file.
//!
//! For every row, named `item/question`: `…/ids` and `…/markers` (I64 or I32), `…/logits`, `…/act_logits` and the states
//! `…/embeddings`, `…/layer_00`, …, `…/final_norm`, `…/type_emb`, `…/head_00`, … (F32, `[n_tokens, n_embd]`).

use std::collections::HashSet;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::node::Node;
use super::row::TracedRow;
use super::trace::States;
use crate::error::{Error, ErrorKind, Result};
use crate::json::Object;
use crate::safetensors::{SafeTensors, Tensor};
use crate::spec::hex;

/// A reference dump that was opened.
#[derive(Debug)]
pub struct Dump {
    file: SafeTensors,
}

impl Dump {
    /// Opens the dump at `path`.
    ///
    /// # Errors
    /// It cannot be read or is not a safetensors file.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { file: SafeTensors::open(path)? })
    }

    /// Whether it holds `row`.
    pub fn holds(&self, row: &TracedRow) -> bool {
        self.find(&format!("{}/ids", row.name())).is_some()
    }

    /// The names of the rows it holds, see [`TracedRow::name`], in order of their names.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.file.tensors().iter().filter_map(|tensor| tensor.name.strip_suffix("/ids"))
    }

    /// What its maker says about it: texts by name, such as the versions of its packages.
    pub fn metadata(&self) -> &Object {
        self.file.metadata()
    }

    /// SHA-256 of the file, in lower-case hex.
    pub fn sha256(&self) -> String {
        hex(&Sha256::digest(self.file.map().bytes()))
    }

    fn find(&self, name: &str) -> Option<&Tensor> {
        let tensors = self.file.tensors();
        tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name)).ok().map(|i| &tensors[i])
    }

    /// The tensor `name`.
    fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.find(name)
            .ok_or_else(|| self.refused(name, "is missing; make the dump again with scripts/parity_layers.py"))
    }

    fn refused(&self, name: &str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Mismatch, message).at_tensor(name).in_file(self.file.path())
    }

    fn bytes(&self, tensor: &Tensor) -> &[u8] {
        let (start, len) = self.file.place(tensor);
        &self.file.map().bytes()[start..start + len]
    }

    /// The numbers of a list of token ids or positions.
    fn integers(&self, name: &str) -> Result<Vec<u32>> {
        let tensor = self.tensor(name)?;
        let bytes = self.bytes(tensor);
        let numbers: Option<Vec<u32>> = match (tensor.dtype, tensor.shape.as_slice()) {
            ("I64", [_]) => bytes.as_chunks().0.iter().map(|b| u32::try_from(i64::from_le_bytes(*b)).ok()).collect(),
            ("I32", [_]) => bytes.as_chunks().0.iter().map(|b| u32::try_from(i32::from_le_bytes(*b)).ok()).collect(),
            (dtype, shape) => {
                let message = format!("is {dtype} {shape:?}; it must be a list of I64 or I32");
                return Err(self.refused(name, message));
            }
        };
        numbers.ok_or_else(|| self.refused(name, "holds a negative number, or one that is no token or position"))
    }

    /// The numbers of a tensor that must have `shape`.
    fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let tensor = self.tensor(name)?;
        let same = tensor.shape.iter().map(|n| usize::try_from(*n).ok()).eq(shape.iter().map(|n| Some(*n)));
        if tensor.dtype != "F32" || !same {
            let (dtype, found) = (tensor.dtype, &tensor.shape);
            let message = format!("is {dtype} {found:?}; this model and row need F32 {shape:?}");
            return Err(self.refused(name, message));
        }
        let values: Vec<f32> = self.bytes(tensor).as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        match values.iter().find(|x| !x.is_finite()) {
            Some(x) => Err(self.refused(name, format!("holds {x}; a reference is finite"))),
            None => Ok(values),
        }
    }

    /// The states of `row`, in the order of `nodes`, of a model with states of `width` and `n_act` act logits.
    ///
    /// # Errors
    /// The dump's row is another one, or a tensor is missing, has another shape, or is one the model does not have.
    pub(super) fn states(&self, row: &TracedRow, nodes: &[Node], width: usize, n_act: usize) -> Result<States> {
        let name = |part: &str| format!("{}/{part}", row.name());
        for (part, ours) in [("ids", &row.ids), ("markers", &row.markers)] {
            let theirs = self.integers(&name(part))?;
            if theirs != *ours {
                let at = theirs.iter().zip(ours).take_while(|(a, b)| a == b).count();
                let shown = |list: &[u32]| list.get(at).map_or_else(|| "nothing".into(), u32::to_string);
                let message = format!(
                    "is another row: position {at} has {}, this engine's row has {} ({} and {} in all); the corpus, the \
                     tokenizer or the budget is another one",
                    shown(&theirs),
                    shown(ours),
                    theirs.len(),
                    ours.len()
                );
                return Err(self.refused(&name(part), message));
            }
        }
        let of_node = |node: &Node| {
            let shape: &[usize] = match node {
                Node::State(_) => &[row.ids.len(), width],
                Node::Logits => &[row.markers.len()],
                Node::ActLogits => &[n_act],
            };
            self.floats(&name(&node.name()), shape)
        };
        let states = nodes.iter().map(of_node).collect::<Result<_>>()?;
        let known: HashSet<_> = nodes
            .iter()
            .map(|node| node.name())
            .chain(["ids".into(), "markers".into()])
            .map(|part| name(&part))
            .collect();
        let prefix = name("");
        let tensors = self.file.tensors();
        let first = tensors.partition_point(|tensor| tensor.name < prefix);
        let mut own = tensors[first..].iter().take_while(|tensor| tensor.name.starts_with(&prefix));
        // A name with one more stroke is of another row: that of the question "b/c" begins like that of "b".
        let is_own = |tensor: &Tensor| !tensor.name[prefix.len()..].contains('/');
        match own.find(|tensor| is_own(tensor) && !known.contains(&tensor.name)) {
            Some(extra) => Err(self.refused(&extra.name, "is not a node of this model; the dump is of another model")),
            None => Ok(states),
        }
    }
}
