//! Building a tokenizer from the keys of a GGUF.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{File, Strings};

use super::added::{Added, Finder};
use super::alphabet::{ByteAlphabet, CharAlphabet};
use super::index::Index;
use super::merge::{MERGES, Merges};
use super::nfc::nfc;
use super::vocabulary::{METASPACE, TOKEN_TYPE, TOKENS, TokenType, Vocabulary, invalid};
use super::{Alphabet, Family, Special, Tokenizer};

const FAMILY: &str = "decision.laya.tokenizer";
const NORMALIZER: &str = "decision.laya.normalizer";
const ADDED_TOKENS: &str = "decision.laya.added_tokens";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
// The spelling of the format.
const SEP: &str = "tokenizer.ggml.seperator_token_id";
const MASK: &str = "tokenizer.ggml.mask_token_id";
const UNK: &str = "tokenizer.ggml.unknown_token_id";
const PAD: &str = "tokenizer.ggml.padding_token_id";

/// Flags of an added token in [`ADDED_TOKENS`].
const LSTRIP: i32 = 1;
const NORMALIZED: i32 = 2;

/// Everything a tokenizer is made of, as the keys hold it.
pub(super) struct Parts<'a> {
    pub(super) family: Family,
    pub(super) nfc: bool,
    pub(super) tokens: Strings,
    pub(super) token_types: &'a [i32],
    pub(super) merges: Option<&'a Strings>,
    /// (id, flags) pairs, flat.
    pub(super) added_tokens: Option<&'a [i32]>,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) sep: Option<u32>,
    pub(super) mask: Option<u32>,
    pub(super) unk: Option<u32>,
    pub(super) pad: Option<u32>,
}

impl Tokenizer {
    /// The tokenizer of a laya GGUF, from its `tokenizer.ggml.*` and `decision.laya.*` keys.
    ///
    /// # Errors
    /// Kind `Tokenizer` or `Model`, with the key at fault: a required key is missing or of another type, types and
    /// tokens differ in number, a token occurs twice, a merge names a token that does not exist, an id is past the
    /// vocabulary, the mask token is no text.
    pub fn from_gguf(file: &File) -> Result<Self> {
        let family = match file.str(FAMILY)? {
            None | Some("metaspace-bpe") => Family::MetaspaceBpe,
            Some("bytelevel-bpe") => Family::ByteLevelBpe,
            Some(other) => {
                let message = format!("is {other:?}; this build knows \"metaspace-bpe\" and \"bytelevel-bpe\"");
                return Err(Error::new(ErrorKind::Unsupported, message).at_key(FAMILY));
            }
        };
        let nfc = match (file.str(NORMALIZER)?, family) {
            (None | Some("none"), _) => false,
            (Some("nfc"), Family::ByteLevelBpe) => true,
            (Some(other), _) => {
                let message = format!("is {other:?}, which {} does not have; convert again", family.as_str());
                return Err(Error::new(ErrorKind::Unsupported, message).at_key(NORMALIZER));
            }
        };
        let parts = Parts {
            family,
            nfc,
            tokens: file.require_strings(TOKENS)?.clone(),
            token_types: file.require_i32s(TOKEN_TYPE)?,
            merges: file.strings(MERGES)?,
            added_tokens: file.i32s(ADDED_TOKENS)?,
            bos: file.u32(BOS)?,
            eos: file.u32(EOS)?,
            sep: file.u32(SEP)?,
            mask: file.u32(MASK)?,
            unk: file.u32(UNK)?,
            pad: file.u32(PAD)?,
        };
        let tokenizer = Self::from_parts(parts).map_err(|error| file.locate(error));
        // The strings of 580,000 merges are not read again, and those of the tokens hardly ever.
        file.release_header();
        tokenizer
    }

    pub(super) fn from_parts(parts: Parts<'_>) -> Result<Self> {
        let metaspace = parts.family == Family::MetaspaceBpe;
        let special = special(&parts)?;
        let flags = parts.added_tokens.map(|pairs| flags(pairs, parts.tokens.len())).transpose()?;
        let vocabulary = Vocabulary::new(parts.tokens, parts.token_types, metaspace)?;
        let index = Index::new(&vocabulary)?;
        let alphabet = if metaspace {
            Alphabet::Characters(CharAlphabet::new(&vocabulary, &index, special.unk.unwrap_or_default()))
        } else {
            Alphabet::Bytes(ByteAlphabet::new(&index))
        };
        let empty = Strings::from(Vec::new());
        let merges = Merges::new(parts.merges.unwrap_or(&empty), &vocabulary, &index, metaspace)?;
        drop(index);

        let (mut raw, mut normalized, mut control) = (Vec::new(), Vec::new(), Vec::new());
        for (id, ty) in vocabulary.types() {
            let flags = match &flags {
                Some(flags) => flags.get(&(id as i32)).copied(),
                // Files of this family do not carry the flags; its published tokenizers have this one.
                None if metaspace && id == special.mask => Some(LSTRIP),
                None => None,
            };
            if !ty.is_added() && flags.is_none() {
                continue;
            }
            let token = vocabulary.token(id).unwrap_or_default();
            if token.is_empty() {
                continue;
            }
            let text = std::str::from_utf8(token).map_err(|_| {
                invalid(TOKENS, format!("added token {id} is not UTF-8 and could never be found in text"))
            })?;
            if is_control(ty, text) {
                control.push(Added { id, text: text.to_owned(), lstrip: false });
            }
            let flags = flags.unwrap_or(0);
            let lstrip = flags & LSTRIP != 0;
            if flags & NORMALIZED == 0 {
                raw.push(Added { id, text: text.to_owned(), lstrip });
                continue;
            }
            let text = match (metaspace, parts.nfc) {
                (true, _) => Cow::Owned(text.replace(' ', METASPACE.encode_utf8(&mut [0; 4]))),
                (false, true) => nfc(text),
                (false, false) => Cow::Borrowed(text),
            };
            normalized.push(Added { id, text: text.into_owned(), lstrip });
        }
        let mask_text =
            vocabulary.token(special.mask).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        if mask_text.is_empty() {
            return Err(invalid(MASK, format!("is {}, a token that is empty or not UTF-8", special.mask)));
        }
        Ok(Self {
            family: parts.family,
            nfc: parts.nfc,
            raw: Finder::new(raw)?,
            normalized: Finder::new(normalized)?,
            control: Finder::new(control)?,
            alphabet,
            merges,
            special,
            mask_text: mask_text.to_owned(),
            vocabulary,
        })
    }
}

/// Whether text that spells this token could pass for the structure of a row: control tokens, and `<unusedN>` or
/// `[unusedN]`, which stand ready to become some.
fn is_control(ty: TokenType, text: &str) -> bool {
    let number = |open: &str, close: char| text.strip_prefix(open)?.strip_prefix("unused")?.strip_suffix(close);
    let number = number("<", '>').or_else(|| number("[", ']'));
    let is_unused = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    ty == TokenType::Control || (ty.is_added() && is_unused)
}

/// The ids with a role, with the defaults of the metaspace family; all inside the vocabulary.
fn special(parts: &Parts<'_>) -> Result<Special> {
    let n_tokens = parts.tokens.len();
    let check = |key: &str, id: u32| {
        if (id as usize) < n_tokens {
            return Ok(id);
        }
        Err(invalid(key, format!("is {id}, past the {n_tokens} tokens of the vocabulary")))
    };
    let require = |key: &str, id: Option<u32>| {
        id.ok_or_else(|| invalid(key, "is missing, which a bytelevel-bpe file must state; convert again"))
    };
    let optional = |key: &str, id: Option<u32>| id.map(|id| check(key, id)).transpose();
    let eos = optional(EOS, parts.eos)?;
    Ok(match parts.family {
        Family::ByteLevelBpe => Special {
            cls: check(BOS, require(BOS, parts.bos)?)?,
            sep: check(SEP, require(SEP, parts.sep)?)?,
            mask: check(MASK, require(MASK, parts.mask)?)?,
            pad: optional(PAD, parts.pad)?,
            unk: optional(UNK, parts.unk)?,
        },
        Family::MetaspaceBpe => Special {
            cls: check(BOS, parts.bos.unwrap_or(2))?,
            sep: check(SEP, parts.sep.or(eos).unwrap_or(1))?,
            mask: check(MASK, parts.mask.unwrap_or(4))?,
            pad: Some(check(PAD, parts.pad.unwrap_or(0))?),
            unk: Some(check(UNK, parts.unk.unwrap_or(3))?),
        },
    })
}

/// Flags by id from the flat (id, flags) pairs.
fn flags(pairs: &[i32], n_tokens: usize) -> Result<BTreeMap<i32, i32>> {
    let (pairs, rest) = pairs.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid(ADDED_TOKENS, "must hold (id, flags) pairs, but one number is left over"));
    }
    let mut flags = BTreeMap::new();
    for &[id, flag] in pairs {
        if usize::try_from(id).is_ok_and(|id| id >= n_tokens) || id < 0 {
            return Err(invalid(ADDED_TOKENS, format!("names token {id}; the vocabulary has {n_tokens}")));
        }
        if flag & !(LSTRIP | NORMALIZED) != 0 {
            let message = format!("gives token {id} the flags {flag}; this build knows 1 (lstrip) and 2 (normalized)");
            return Err(Error::new(ErrorKind::Unsupported, message).at_key(ADDED_TOKENS));
        }
        if flags.insert(id, flag).is_some() {
            return Err(invalid(ADDED_TOKENS, format!("names token {id} twice")));
        }
    }
    Ok(flags)
}
