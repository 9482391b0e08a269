//! Tokens by id, and (while a tokenizer is built) ids by token.

use std::hint::black_box;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::Strings;

use super::hash::Seed;

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
        let types = types
            .iter()
            .enumerate()
            .map(|(id, &number)| {
                TokenType::new(number).ok_or_else(|| {
                    invalid(TOKEN_TYPE, format!("token {id} has the unknown type {number}; 0 to 6 exist"))
                })
            })
            .collect::<Result<Vec<_>>>()?;
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
        Ok(Self { tokens, types, restored })
    }

    /// Number of ids.
    pub(super) fn len(&self) -> u32 {
        // `new` refused more.
        self.tokens.len() as u32
    }

    /// The bytes token `id` stands for in the tokenizer.
    #[inline]
    pub(super) fn token(&self, id: u32) -> Option<&[u8]> {
        if !self.restored.is_empty()
            && self.token_type(id) == Some(TokenType::UserDefined)
            && let Ok(at) = self.restored.binary_search_by_key(&id, |(id, _)| *id)
        {
            return self.restored.get(at).map(|(_, token)| &**token);
        }
        self.tokens.get(id as usize)
    }

    /// The same, but only for ids that stand for something.
    #[inline]
    pub(super) fn used(&self, id: u32) -> Option<&[u8]> {
        self.token(id).filter(|_| self.token_type(id) != Some(TokenType::Unused))
    }

    pub(super) fn token_type(&self, id: u32) -> Option<TokenType> {
        self.types.get(id as usize).copied()
    }

    /// All ids in order, with their tokens and types.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8], TokenType)> + '_ {
        (0u32..).zip(&self.types).map(|(id, &ty)| (id, self.token(id).unwrap_or_default(), ty))
    }
}

/// Ids by token, by open addressing. Short tokens are compared in the slot itself, longer ones where the file has them.
pub(super) struct Index<'v> {
    vocabulary: &'v Vocabulary,
    seed: Seed,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    /// The token itself, zero-padded, up to 8 bytes; its hash if it is longer.
    head: u64,
    /// Length of the token, and its id + 1; both 0 when free.
    len: u32,
    entry: u32,
}

const FREE: Slot = Slot { head: 0, len: 0, entry: 0 };

/// Tokens looked up together. The tables are larger than the caches; touching many slots in a row, before anything depends
/// on one of them, lets their cache misses overlap (a third of the time for 580,000 merges).
pub(super) const BATCH: usize = 64;

/// Where to look for a token, and what must be there.
#[derive(Clone, Copy)]
pub(super) struct Search {
    head: u64,
    hash: u64,
}

impl<'v> Index<'v> {
    /// Indexes every token but the unused ones.
    pub(super) fn new(vocabulary: &'v Vocabulary) -> Result<Self> {
        let capacity = (vocabulary.len() as usize * 4 / 3 + 1).next_power_of_two();
        let mut index = Self { vocabulary, seed: Seed::new(), slots: vec![FREE; capacity] };
        let mut tokens = vocabulary.iter().filter(|(.., ty)| *ty != TokenType::Unused);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            batch.extend(tokens.by_ref().take(BATCH).map(|(id, token, _)| (id, token, index.search(token))));
            if batch.is_empty() {
                return Ok(index);
            }
            batch.iter().for_each(|(.., search)| index.touch(search));
            for (id, token, search) in &batch {
                index.insert(*id, token, search)?;
            }
        }
    }

    fn insert(&mut self, id: u32, token: &[u8], search: &Search) -> Result<()> {
        let at = match self.find(token, search) {
            Ok(other) => {
                let token = String::from_utf8_lossy(token);
                return Err(invalid(TOKENS, format!("tokens {other} and {id} are both {token:?}")));
            }
            Err(at) => at,
        };
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Slot { head: search.head, len: token.len() as u32, entry: id + 1 };
        }
        Ok(())
    }

    /// The id of `token`.
    pub(super) fn id(&self, token: &[u8]) -> Option<u32> {
        self.find(token, &self.search(token)).ok()
    }

    pub(super) fn search(&self, token: &[u8]) -> Search {
        if token.len() > 8 {
            let hash = self.seed.bytes(token);
            return Search { head: hash, hash };
        }
        let mut head = [0; 8];
        for (to, from) in head.iter_mut().zip(token) {
            *to = *from;
        }
        let head = u64::from_le_bytes(head);
        Search { head, hash: self.seed.word(head) }
    }

    /// Brings the slot of a search into the cache.
    #[inline]
    pub(super) fn touch(&self, search: &Search) {
        black_box(self.slots.get(search.hash as usize & (self.slots.len() - 1)).copied());
    }

    /// The id of `token`, or the free slot where it belongs. Ends because a quarter of the slots is free.
    #[inline]
    pub(super) fn find(&self, token: &[u8], search: &Search) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut at = search.hash as usize & mask;
        loop {
            let slot = self.slots.get(at).copied().unwrap_or(FREE);
            let Some(id) = slot.entry.checked_sub(1) else { return Err(at) };
            if slot.head == search.head
                && slot.len as usize == token.len()
                && (token.len() <= 8 || self.vocabulary.token(id) == Some(token))
            {
                return Ok(id);
            }
            at = (at + 1) & mask;
        }
    }
}
