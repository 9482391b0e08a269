//! Which type each tensor of a file has, and after whose names it is called.

use super::upstream;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{File, TensorType, Writer};
use crate::layout::RECIPE_KEY;

/// How matrices are stored. Vectors, norms and everything that is no weight are F32 in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Outtype {
    /// 32-bit floats.
    F32,
    /// 16-bit floats: exact for the published checkpoints, which are stored in F16.
    #[default]
    F16,
    /// 8-bit integers, 32 neighbours of a row sharing one 16-bit scale. A matrix whose rows are not whole blocks of 32 is
    /// F16.
    Q8_0,
    /// The protected recipe: [`Outtype::Q8_0`] for the matrices of the encoder's and the head's layers; the embeddings,
    /// the scorer and the act head, small or looked up row by row and next to the answer, stay F16.
    Q8_0Mixed,
}

impl Outtype {
    /// All types, in the order they are listed to people.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Q8_0, Self::Q8_0Mixed];
    /// The types the field's Python converter knows.
    pub const PLAIN: [Self; 3] = [Self::F32, Self::F16, Self::Q8_0];
    /// The recipes, which protect some matrices.
    pub const RECIPES: [Self; 1] = [Self::Q8_0Mixed];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q8_0Mixed => "q8_0-mixed",
        }
    }

    /// How the matrices of `file` are stored, by its own keys; `None` when they name no type known here.
    ///
    /// # Errors
    /// A key has the wrong type.
    pub fn of(file: &File) -> Result<Option<Self>> {
        let (recipe, file_type) = (file.str(RECIPE_KEY)?, file.u32("general.file_type")?);
        Ok(Self::ALL.into_iter().find(|outtype| outtype.recipe() == recipe && Some(outtype.file_type()) == file_type))
    }

    /// What [`RECIPE_KEY`] says, if the file has it. The plain types have none: `general.file_type` says all about them.
    pub(super) fn recipe(self) -> Option<&'static str> {
        Self::RECIPES.contains(&self).then(|| self.as_str())
    }

    /// Sets [`RECIPE_KEY`], or removes it where a plain type has none.
    pub(super) fn set_recipe(self, out: &mut Writer) {
        out.remove(RECIPE_KEY);
        if let Some(recipe) = self.recipe() {
            out.set(RECIPE_KEY, recipe);
        }
    }

    /// `general.file_type`: the type of most matrices.
    pub(super) fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8_0 | Self::Q8_0Mixed => 7,
        }
    }

    /// The type of the tensor `name` with ggml's `shape` (`ne0` first).
    pub(super) fn tensor_type(self, name: &str, shape: &[u64]) -> TensorType {
        if shape.len() <= 1 || name.ends_with("_norm.weight") || !name.ends_with(".weight") {
            return TensorType::F32;
        }
        let whole = shape.first().is_some_and(|n| n.is_multiple_of(TensorType::Q8_0.block_len()));
        match self {
            Self::F32 => TensorType::F32,
            Self::F16 => TensorType::F16,
            Self::Q8_0Mixed if is_protected(name) => TensorType::F16,
            Self::Q8_0 | Self::Q8_0Mixed if whole => TensorType::Q8_0,
            Self::Q8_0 | Self::Q8_0Mixed => TensorType::F16,
        }
    }
}

/// Whether the protected recipe keeps the matrix `name` in F16.
fn is_protected(name: &str) -> bool {
    matches!(name, "token_embd.weight" | "type_emb.weight")
        || name.starts_with("scorer.")
        || name.starts_with("act_head.")
}

impl std::str::FromStr for Outtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|outtype| outtype.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Usage, format!("unknown output type {text:?}; one of {all}"))
        })
    }
}

/// The names of keys and tensors in a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// `general.architecture = laya`: everything the published package computes.
    #[default]
    Laya,
    /// `general.architecture = modern-bert`: what llama.cpp runs. It has no act head.
    ModernBert,
}

impl Layout {
    /// All layouts, in the order they are listed to people.
    pub const ALL: [Self; 2] = [Self::Laya, Self::ModernBert];

    /// The type of the tensor that this layout calls `name`, with ggml's `shape`.
    pub(super) fn tensor_type(self, outtype: Outtype, name: &str, shape: &[u64]) -> TensorType {
        match self {
            Self::Laya => outtype.tensor_type(name, shape),
            Self::ModernBert => upstream::tensor_type(outtype, name, shape),
        }
    }

    /// The name on the command line: the file's `general.architecture`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Laya => "laya",
            Self::ModernBert => "modern-bert",
        }
    }
}

impl std::str::FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|layout| layout.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Usage, format!("unknown layout {text:?}; one of {all}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_rule() {
        use TensorType::{F16, F32, Q8_0};
        for (name, shape, want) in [
            ("blk.1.attn_qkv.weight", &[64, 192][..], [F32, F16, Q8_0, Q8_0]),
            ("head.0.ffn_up.weight", &[64, 256], [F32, F16, Q8_0, Q8_0]),
            // Rows of one and a half blocks.
            ("blk.0.ffn_down.weight", &[48, 64], [F32, F16, F16, F16]),
            ("token_embd.weight", &[64, 1000], [F32, F16, Q8_0, F16]),
            ("type_emb.weight", &[64, 3], [F32, F16, Q8_0, F16]),
            ("scorer.1.weight", &[64, 64], [F32, F16, Q8_0, F16]),
            ("act_head.2.weight", &[256, 2], [F32, F16, Q8_0, F16]),
            ("scorer.0.weight", &[64], [F32; 4]),
            ("blk.1.attn_norm.weight", &[64], [F32; 4]),
            ("head.0.attn_qkv.bias", &[192], [F32; 4]),
        ] {
            assert_eq!(Outtype::ALL.map(|outtype| outtype.tensor_type(name, shape)), want, "{name}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for outtype in Outtype::ALL {
            assert_eq!(outtype.as_str().parse::<Outtype>().unwrap(), outtype);
        }
        let error = "q4_0".parse::<Outtype>().unwrap_err().to_string();
        assert!(error.contains("f32, f16, q8_0, q8_0-mixed"), "{error}");
    }
}
