//! Tokens by id.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::Strings;

use super::span::Span;

/// What `tokenizer.ggml.token_type` says about a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenType {
    /// A piece of text.
    Normal,
    /// A token with a role, such as `[CLS]` or `<eos>`: an added token.
    Control,
    /// Any other added token: found in the text before it is split into words.
    UserDefined,
    /// A row of the embedding that stands for no text.
    Unused,
    /// One byte of a character the vocabulary lacks.
    Byte,
}

impl TokenType {
    fn new(number: i32) -> Option<Self> {
        match number {
            // 0 is "undefined" and 2 "unknown"; both occur as plain vocabulary entries.
            0..=2 => Some(Self::Normal),
            3 => Some(Self::Control),
            4 => Some(Self::UserDefined),
            5 => Some(Self::Unused),
            6 => Some(Self::Byte),
            _ => None,
        }
    }

    /// Whether this is a token of the added vocabulary.
    pub fn is_added(self) -> bool {
        matches!(self, Self::Control | Self::UserDefined)
    }
}

/// The vocabulary: token bytes stay where the file holds them.
pub(super) struct Vocabulary {
    tokens: Strings,
    types: Vec<TokenType>,
    /// Tokens whose spaces the converter made from U+2581, with it put back, by ascending id.
    restored: Vec<(u32, Box<[u8]>)>,
    /// From the first of their ids to past the last one: for most tokens there is nothing to look for.
    restored_ids: Range<u32>,
}

/// The merge table packs two ids and a rank into one word. The largest vocabularies in use have an eighth of this.
pub(super) const MAX_TOKENS: usize = 1 << 21;
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";

/// What replaces a space in metaspace vocabularies: U+2581.
pub(super) const METASPACE: char = '\u{2581}';

pub(super) fn invalid(key: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Tokenizer, message).at_key(key)
}

impl Vocabulary {
    /// `restore` puts U+2581 back into user-defined tokens (metaspace family).
    pub(super) fn new(tokens: Strings, types: &[i32], restore: bool) -> Result<Self> {
        if tokens.is_empty() {
            return Err(invalid(TOKENS, "holds no tokens; convert the checkpoint again"));
        }
        if tokens.len() > MAX_TOKENS {
            return Err(invalid(TOKENS, format!("holds {} tokens; at most {MAX_TOKENS} are supported", tokens.len())));
        }
        if tokens.len() != types.len() {
            let message = format!("holds {} types for {} tokens", types.len(), tokens.len());
            return Err(invalid(TOKEN_TYPE, message));
        }
        let numbers = types;
        let mut types = Vec::with_capacity(numbers.len());
        for (id, &number) in numbers.iter().enumerate() {
            let Some(ty) = TokenType::new(number) else {
                let message = format!("token {id} has the unknown type {number}; 0 to 6 exist");
                return Err(invalid(TOKEN_TYPE, message));
            };
            types.push(ty);
        }
        let mut restored = Vec::new();
        if restore {
            for (id, _) in types.iter().enumerate().filter(|(_, ty)| **ty == TokenType::UserDefined) {
                let token = tokens.get(id).unwrap_or_default();
                if token.contains(&b' ') {
                    let parts: Vec<&[u8]> = token.split(|&byte| byte == b' ').collect();
                    restored.push((
                        id as u32,
                        parts.join(METASPACE.encode_utf8(&mut [0; 4]).as_bytes()).into_boxed_slice(),
                    ));
                }
            }
        }
        let restored_ids = match (restored.first(), restored.last()) {
            (Some(&(first, _)), Some(&(last, _))) => first..last + 1,
            _ => 0..0,
        };
        Ok(Self { tokens, types, restored, restored_ids })
    }

    /// Number of ids.
    pub(super) fn len(&self) -> u32 {
        // `new` refused more.
        self.tokens.len() as u32
    }

    /// The bytes token `id` stands for in the tokenizer.
    pub(super) fn token(&self, id: u32) -> Option<&[u8]> {
        self.span(id).map(Span::bytes)
    }

    /// The same where it lies.
    #[inline]
    pub(super) fn span(&self, id: u32) -> Option<Span<'_>> {
        let (bytes, len) = self.tokens.get_with_rest(id as usize)?;
        Some(self.restored(id).unwrap_or_else(|| Span::new(bytes, len)))
    }

    /// The token of `id` with its spaces put back, if it had any.
    #[inline]
    fn restored(&self, id: u32) -> Option<Span<'_>> {
        if !self.restored_ids.contains(&id) {
            return None;
        }
        let at = self.restored.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.restored.get(at).map(|(_, token)| Span::from(&**token))
    }

    /// The same, but only for ids that stand for something.
    #[inline]
    pub(super) fn used(&self, id: u32) -> Option<Span<'_>> {
        if self.token_type(id)? == TokenType::Unused { None } else { self.span(id) }
    }

    #[inline]
    pub(super) fn token_type(&self, id: u32) -> Option<TokenType> {
        self.types.get(id as usize).copied()
    }

    /// All ids that stand for something, in order, with their tokens, but not all of those that are longer than `max` bytes.
    /// Much quicker than all of them.
    pub(super) fn iter_short(&self, max: usize) -> impl Iterator<Item = (u32, Span<'_>)> + '_ {
        // What the file has is never longer than the token.
        let short = (0u32..).zip(self.tokens.lens()).filter(move |&(_, len)| len <= max);
        short.filter_map(|(id, _)| Some((id, self.used(id)?)))
    }

    /// Number of tokens of at most `max` bytes in the file, those that stand for nothing included.
    pub(super) fn n_short(&self, max: usize) -> u32 {
        self.tokens.lens().filter(|&len| len <= max).count() as u32
    }

    /// Number of tokens that are longer than in the file.
    pub(super) fn n_restored(&self) -> u32 {
        self.restored.len() as u32
    }

    /// All ids in order, with their types.
    pub(super) fn types(&self) -> impl Iterator<Item = (u32, TokenType)> + '_ {
        (0u32..).zip(self.types.iter().copied())
    }
}
