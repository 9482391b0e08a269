//! Text to token ids, built from the GGUF's own keys.
//!
//! Two families, each the exact equal of the Hugging Face tokenizer of its checkpoints:
//!
//! | step | metaspace-bpe (mmBERT) | bytelevel-bpe (ModernBERT) |
//! |---|---|---|
//! | 1 | added tokens in the raw text | added tokens in the raw text |
//! | 2 | a space becomes U+2581 | NFC, when the file says so |
//! | 3 | added tokens marked *normalized* | added tokens marked *normalized* |
//! | 4 | U+2581 in front of every stretch that lacks it; a word starts at every U+2581 | GPT-2 word split |
//! | 5 | characters, or their bytes `<0xHH>`, or the unknown token | bytes, spelled as characters |
//! | 6 | merges | merges |
//!
//! Everything is O(n log n) in the text, and building it takes tens of milliseconds for 256,000 tokens: the strings
//! stay in the file, and what is kept of 580,000 merges is a table of id pairs and ranks (10 MB).

mod added;
mod alphabet;
mod class;
mod gpt2;
mod hash;
mod index;
mod merge;
mod nfc;
mod pair;
mod source;
mod span;
#[cfg(test)]
mod tests;
mod unicode_table;
mod vocabulary;
mod word;

use std::borrow::Cow;
use std::fmt;

use added::{Finder, Piece};
use alphabet::{ByteAlphabet, CharAlphabet, starts_word};
use gpt2::Words;
use merge::Merges;
use vocabulary::{METASPACE, Vocabulary};
use word::Merger;

pub use vocabulary::TokenType;

/// The two kinds of tokenizer that decision models of the laya layout use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `metaspace-bpe`: SentencePiece-like, spaces are U+2581 (mmBERT, multilingual).
    MetaspaceBpe,
    /// `bytelevel-bpe`: GPT-2-like, text is bytes (ModernBERT, English).
    ByteLevelBpe,
}

impl Family {
    /// The name in the key `decision.laya.tokenizer`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MetaspaceBpe => "metaspace-bpe",
            Self::ByteLevelBpe => "bytelevel-bpe",
        }
    }
}

/// The ids with a role in a sequence; all are below [`Tokenizer::n_tokens`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Special {
    /// Starts a sequence: `[CLS]` or `<bos>`.
    pub cls: u32,
    /// Ends a part: `[SEP]` or `<eos>`.
    pub sep: u32,
    /// Marks an option: `[MASK]` or `<mask>`.
    pub mask: u32,
    /// Fills a batch; nothing here pads.
    pub pad: Option<u32>,
    /// Stands for text outside the vocabulary.
    pub unk: Option<u32>,
}

/// Text to token ids, for one vocabulary.
pub struct Tokenizer {
    family: Family,
    nfc: bool,
    vocabulary: Vocabulary,
    /// Added tokens found in the raw text, and those found in the normalized text.
    raw: Finder,
    normalized: Finder,
    /// Tokens whose text `escape-control` takes out of a state.
    control: Finder,
    alphabet: Alphabet,
    merges: Merges,
    special: Special,
    mask_text: String,
}

/// Where a word's first symbols come from.
enum Alphabet {
    Bytes(ByteAlphabet),
    Characters(CharAlphabet),
}

/// Buffers of one `encode` call.
#[derive(Default)]
struct Scratch {
    symbols: Vec<u32>,
    merger: Merger,
    out: Vec<u32>,
}

impl Tokenizer {
    /// Token ids of `text`. No token is added at either end; added tokens in the text, special ones included, become
    /// their ids. The empty text has none.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut scratch = Scratch::default();
        self.raw.pieces(text, |piece| match piece {
            Piece::Token(id) => scratch.out.push(id),
            Piece::Text(text) => self.encode_raw(text, &mut scratch),
        });
        scratch.out
    }

    fn encode_raw(&self, text: &str, scratch: &mut Scratch) {
        let text = match self.family {
            Family::ByteLevelBpe if self.nfc => nfc::nfc(text),
            // The metaspace words below read a space as U+2581; only a search in between has to see it.
            Family::MetaspaceBpe if !self.normalized.is_empty() => {
                Cow::Owned(text.replace(' ', METASPACE.encode_utf8(&mut [0; 4])))
            }
            Family::ByteLevelBpe | Family::MetaspaceBpe => Cow::Borrowed(text),
        };
        self.normalized.pieces(&text, |piece| match piece {
            Piece::Token(id) => scratch.out.push(id),
            Piece::Text(text) => match &self.alphabet {
                Alphabet::Bytes(alphabet) => self.encode_bytes(text, alphabet, scratch),
                Alphabet::Characters(alphabet) => self.encode_characters(text, alphabet, scratch),
            },
        });
    }

    fn encode_bytes(&self, text: &str, alphabet: &ByteAlphabet, scratch: &mut Scratch) {
        for word in Words::new(text) {
            alphabet.symbols(word, &mut scratch.symbols);
            scratch.merger.merge(&self.merges, &mut scratch.symbols, &mut scratch.out);
        }
    }

    fn encode_characters(&self, text: &str, alphabet: &CharAlphabet, scratch: &mut Scratch) {
        let Scratch { symbols, merger, out } = scratch;
        let mut unknown = false;
        if !text.starts_with(starts_word) {
            alphabet.symbols(METASPACE, &mut unknown, symbols);
        }
        for c in text.chars() {
            if starts_word(c) {
                alphabet.end(&mut unknown, symbols);
                merger.merge(&self.merges, symbols, out);
                alphabet.symbols(METASPACE, &mut unknown, symbols);
            } else {
                alphabet.symbols(c, &mut unknown, symbols);
            }
        }
        alphabet.end(&mut unknown, symbols);
        merger.merge(&self.merges, symbols, out);
    }

    /// Number of ids, unused ones included.
    pub fn n_tokens(&self) -> u32 {
        self.vocabulary.len()
    }

    /// The ids with a role.
    pub fn special(&self) -> &Special {
        &self.special
    }

    /// The text of the mask token, which questions and states must not contain.
    pub fn mask_text(&self) -> &str {
        &self.mask_text
    }

    /// `text` with a space for every control token it spells, and for every `<unusedN>` or `[unusedN]`: the special-token contract
    /// `escape-control`, with which nobody's text can pass for the structure of a row. The mask token is one of them.
    ///
    /// What stays of such texts cannot be put together to a new one: none of them holds a space.
    pub fn escape_control<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut escaped: Option<String> = None;
        let mut done = 0;
        self.control.pieces(text, |piece| match piece {
            Piece::Text(text) => {
                done += text.len();
                if let Some(escaped) = &mut escaped {
                    escaped.push_str(text);
                }
            }
            Piece::Token(id) => {
                let before = text.get(..done).unwrap_or_default();
                escaped.get_or_insert_with(|| before.to_owned()).push(' ');
                done += self.vocabulary.token(id).map_or(0, <[u8]>::len);
            }
        });
        escaped.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The texts that [`Tokenizer::escape_control`] takes out, sorted.
    pub fn control_texts(&self) -> impl Iterator<Item = &str> {
        self.control.texts()
    }

    /// Which of the two kinds this is.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The bytes of token `id` as the vocabulary spells them (U+2581 for a space, byte-level characters), `None` past
    /// the vocabulary. Usually UTF-8, but files may hold other bytes.
    pub fn token(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.token(id)
    }

    /// The type of token `id`, `None` past the vocabulary.
    pub fn token_type(&self, id: u32) -> Option<TokenType> {
        self.vocabulary.token_type(id)
    }

    /// Number of different merges.
    pub fn n_merges(&self) -> usize {
        self.merges.n_pairs()
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("family", &self.family.as_str())
            .field("n_tokens", &self.n_tokens())
            .field("n_merges", &self.n_merges())
            .field("special", &self.special)
            .finish_non_exhaustive()
    }
}
