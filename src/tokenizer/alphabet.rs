//! The symbols a word consists of before any merge.

use super::index::Index;
use super::span::Span;
use super::vocabulary::{METASPACE, Vocabulary};

/// Ids by byte.
type Bytes = [Option<u32>; 256];

/// Symbols of byte-level BPE: one a byte. A byte without a token leaves none, as in the reference.
pub(super) struct ByteAlphabet(Box<Bytes>);

impl ByteAlphabet {
    pub(super) fn new(index: &Index<'_>) -> Self {
        let mut ids = Box::new([None; 256]);
        let mut spare = 0x100; // code points for the bytes that have no printable character of their own
        for (byte, id) in (0u8..=255).zip(ids.iter_mut()) {
            let spelled = match byte {
                b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
                _ => {
                    spare += 1;
                    char::from_u32(spare - 1).unwrap_or_default()
                }
            };
            *id = index.id(Span::from(spelled.encode_utf8(&mut [0; 4]).as_bytes()));
        }
        Self(ids)
    }

    /// Appends the symbols of `word`.
    pub(super) fn symbols(&self, word: &str, out: &mut Vec<u32>) {
        out.extend(word.bytes().filter_map(|byte| self.0.get(byte as usize).copied().flatten()));
    }
}

/// Symbols of metaspace BPE: one a character; a character without a token gives one a byte (`<0xHH>`) if all its bytes
/// have one, else the unknown token.
pub(super) struct CharAlphabet {
    /// Index into `pages` by code point / 256.
    page: Vec<Option<u32>>,
    pages: Vec<[Option<u32>; 256]>,
    bytes: Box<Bytes>,
    unk: u32,
}

impl CharAlphabet {
    pub(super) fn new(vocabulary: &Vocabulary, index: &Index<'_>, unk: u32) -> Self {
        let mut bytes = Box::new([None; 256]);
        for (byte, id) in bytes.iter_mut().enumerate() {
            *id = index.id(Span::from(format!("<0x{byte:02X}>").as_bytes()));
        }
        let mut alphabet = Self { page: Vec::new(), pages: Vec::new(), bytes, unk };
        for (id, token) in vocabulary.iter_short(char::MAX.len_utf8()) {
            if let Some(c) = only_char(token.bytes()) {
                alphabet.insert(c, id);
            }
        }
        alphabet
    }

    fn insert(&mut self, c: char, id: u32) {
        let page = c as usize >> 8;
        if self.page.len() <= page {
            self.page.resize(page + 1, None);
        }
        let Some(page) = self.page.get_mut(page) else { return };
        let at = *page.get_or_insert_with(|| {
            self.pages.push([None; 256]);
            self.pages.len() as u32 - 1
        });
        if let Some(cell) = self.pages.get_mut(at as usize).and_then(|page| page.get_mut(c as usize & 0xFF)) {
            *cell = Some(id);
        }
    }

    #[inline]
    fn id(&self, c: char) -> Option<u32> {
        let page = (*self.page.get(c as usize >> 8)?)?;
        *self.pages.get(page as usize)?.get(c as usize & 0xFF)?
    }

    /// Appends the symbols of `c`. Unknown characters in a row are one unknown token; as in the reference `unknown`
    /// holds it back until the next known character, so byte tokens in between go before it. End a word with
    /// [`CharAlphabet::end`].
    #[inline]
    pub(super) fn symbols(&self, c: char, unknown: &mut bool, out: &mut Vec<u32>) {
        if let Some(id) = self.id(c) {
            self.end(unknown, out);
            out.push(id);
            return;
        }
        let known = out.len();
        let mut utf8 = [0; 4];
        let utf8 = c.encode_utf8(&mut utf8);
        out.extend(utf8.bytes().filter_map(|byte| self.bytes.get(byte as usize).copied().flatten()));
        if out.len() - known < utf8.len() {
            out.truncate(known);
            *unknown = true;
        }
    }

    /// Appends the unknown token that is held back, if any.
    #[inline]
    pub(super) fn end(&self, unknown: &mut bool, out: &mut Vec<u32>) {
        if std::mem::take(unknown) {
            out.push(self.unk);
        }
    }
}

/// Whether a metaspace word starts here: U+2581, or the space it stands for.
#[inline]
pub(super) fn starts_word(c: char) -> bool {
    c == ' ' || c == METASPACE
}

fn only_char(token: &[u8]) -> Option<char> {
    let mut chars = std::str::from_utf8(token).ok()?.chars();
    chars.next().filter(|_| chars.as_str().is_empty())
}
