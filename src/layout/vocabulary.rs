//! The vocabulary of llama.cpp's layout.
//!
//! llama.cpp knows two pre-tokenizers of this family by name and finds added tokens by their type alone. What the laya
//! layout states and this one does not is the same for every published model, and is read as it is there.

use super::upstream::Keys;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::File;

const PRE: &str = "tokenizer.ggml.pre";
const MODEL: &str = "tokenizer.ggml.model";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MASK: &str = "tokenizer.ggml.mask_token_id";
const NORMALIZER: &str = "decision.laya.normalizer";
const ADDED_TOKENS: &str = "decision.laya.added_tokens";

/// ggml's token types.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Flags in [`ADDED_TOKENS`]: the token swallows the blanks before it; it is looked for in the normalized text.
const LSTRIP: i32 = 1;
const NORMALIZED: i32 = 2;

/// A pre-tokenizer of this family, by its name in llama.cpp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pretokenizer {
    /// Metaspace, multilingual.
    Mmbert,
    /// Byte-level, English.
    ModernBert,
}

impl Pretokenizer {
    /// The one that llama.cpp calls `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Mmbert, Self::ModernBert].into_iter().find(|known| known.as_str() == name)
    }

    /// The value of `tokenizer.ggml.pre`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mmbert => "mmbert",
            Self::ModernBert => "modern-bert",
        }
    }

    /// The longest row of the published models that have it, in tokens.
    pub fn max_len(self) -> u32 {
        match self {
            Self::Mmbert => 1024,
            Self::ModernBert => 512,
        }
    }
}

/// Whether a token is a run of two or more U+2581. mmBERT has such runs as added tokens, found where the text itself has
/// that character; llama.cpp, which finds added tokens after spaces became that character, has them as normal ones.
pub fn is_run_of_spaces(token: &[u8]) -> bool {
    const METASPACE: [u8; 3] = [0xe2, 0x96, 0x81];
    let (marks, rest) = token.as_chunks();
    rest.is_empty() && marks.len() > 1 && marks.iter().all(|mark: &[u8; 3]| *mark == METASPACE)
}

/// `(id, flags)` pairs of the added tokens as ModernBERT's published tokenizer has them: special tokens are looked for in
/// the text as given, the others in the normalized text, and only the mask swallows the blanks before it.
pub fn added_flags(types: &[i32], mask: u32) -> Vec<i32> {
    let flag = |(id, ty): (i32, &i32)| match *ty {
        CONTROL if u32::try_from(id) == Ok(mask) => Some([id, LSTRIP]),
        CONTROL => Some([id, 0]),
        USER_DEFINED => Some([id, NORMALIZED]),
        _ => None,
    };
    (0i32..).zip(types).filter_map(flag).flatten().collect()
}

/// Sets what a tokenizer of the laya layout reads beyond the keys both layouts share.
pub(super) fn set(keys: &mut Keys, file: &File) -> Result<Pretokenizer> {
    if let Some(model) = file.str(MODEL)?.filter(|model| *model != "gpt2") {
        let message = format!("is {model:?}; the vocabularies of this family are \"gpt2\" (BPE)");
        return Err(file.locate(Error::new(ErrorKind::Unsupported, message).at_key(MODEL)));
    }
    let pre = file.require_str(PRE)?;
    let Some(pre) = Pretokenizer::named(pre) else {
        let message = format!("is {pre:?}; a Laya model has \"mmbert\" or \"modern-bert\"");
        return Err(file.locate(Error::new(ErrorKind::Unsupported, message).at_key(PRE)));
    };
    let (tokens, types) = (file.require_strings(TOKENS)?, file.require_i32s(TYPES)?);
    let stated = file.get(ADDED_TOKENS).is_some();
    match pre {
        Pretokenizer::Mmbert => {
            keys.set("decision.laya.tokenizer", "metaspace-bpe");
            // Types and tokens that differ in number are the tokenizer's to refuse.
            if !stated && tokens.len() == types.len() {
                let is_added = |token: &[u8], ty: i32| ty == NORMAL && is_run_of_spaces(token);
                let ty = |(token, &ty)| if is_added(token, ty) { USER_DEFINED } else { ty };
                keys.set(TYPES, tokens.iter().zip(types).map(ty).collect::<Vec<i32>>());
            }
        }
        Pretokenizer::ModernBert => {
            keys.set("decision.laya.tokenizer", "bytelevel-bpe");
            if file.get(NORMALIZER).is_none() {
                keys.set(NORMALIZER, "nfc");
            }
            if !stated {
                keys.set(ADDED_TOKENS, added_flags(types, file.require_u32(MASK)?));
            }
        }
    }
    Ok(pre)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_spaces() {
        for run in ["\u{2581}\u{2581}", "\u{2581}\u{2581}\u{2581}"] {
            assert!(is_run_of_spaces(run.as_bytes()), "{run}");
        }
        for other in ["", "\u{2581}", " \u{2581}", "  ", "\u{2581}\u{2581}a", "a\u{2581}\u{2581}", "\u{2582}\u{2582}"] {
            assert!(!is_run_of_spaces(other.as_bytes()), "{other}");
        }
        assert!(!is_run_of_spaces(&[0xe2, 0x96, 0x81, 0xe2, 0x96]));
    }

    #[test]
    fn flags_follow_the_types() {
        assert_eq!(added_flags(&[1, 3, 4, 3, 5, 6], 3), [1, 0, 2, 2, 3, 1]);
        assert!(added_flags(&[], 0).is_empty());
    }
}
