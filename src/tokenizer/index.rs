//! Ids by token, while a tokenizer is built.

use std::array;
use std::hint::black_box;

use crate::error::Result;

use super::hash::{Seed, scaled};
use super::span::{Span, WORD};
use super::vocabulary::{TOKENS, Vocabulary, invalid};

/// Ids by token. The halves of merges are mostly short: those have a table of their own, which is small.
pub(super) struct Index<'v> {
    vocabulary: &'v Vocabulary,
    seed: Seed,
    /// Tokens of at most one word.
    short: Table<1>,
    /// All others.
    long: Table<2>,
}

/// Ids by token, by open addressing. Tokens of up to `W` words are compared in the slot itself, others where the file has
/// them.
struct Table<const W: usize> {
    slots: Vec<Slot<W>>,
    /// First slot and number of slots where tokens have their home: those that leave most of the last word empty, and the
    /// others. The first are looked up most; they lie together, so that a cache that cannot hold the table holds them.
    regions: [(u32, u32); 2],
}

/// A token, packed to keep the table small.
#[derive(Clone, Copy)]
struct Slot<const W: usize> {
    /// The words of the token, zero-padded, or its hash if it has more. The low half of each first.
    words: [[u32; 2]; W],
    /// The id above the length, in [`LEN_BITS`]; all lengths of more than `W` words are one.
    entry: u32,
}

const LEN_BITS: u32 = 5;
/// The entry of a free slot.
const FREE: u32 = u32::MAX;
/// No id, and that of a free slot.
pub(super) const NONE: u32 = FREE >> LEN_BITS;

/// Strings looked up together. The tables are larger than the caches; reading many slots in a row, before anything depends
/// on one of them, lets their cache misses overlap.
pub(super) const BATCH: usize = 64;

/// Where to look for a token, and what must be there.
#[derive(Clone, Copy)]
struct Search<const W: usize> {
    /// As in a slot.
    words: [u64; W],
    home: u32,
    /// As in a slot.
    len: u32,
}

/// Where to look for a token of at most [`WORD`] bytes.
#[derive(Clone, Copy)]
pub(super) struct Short(Search<1>);

impl<'v> Index<'v> {
    /// Indexes every token but the unused ones.
    pub(super) fn new(vocabulary: &'v Vocabulary) -> Result<Self> {
        // At least as many as there are: any of the restored tokens may have become longer than what is counted here.
        let n_up_to = |max| vocabulary.n_short(max);
        let n_between = |min, max| n_up_to(max) - n_up_to(min) + vocabulary.n_restored();
        let short = Table::new([n_up_to(WORD / 2), n_between(WORD / 2, WORD)]);
        let long = Table::new([n_between(WORD, WORD + WORD / 2), n_between(WORD + WORD / 2, usize::MAX)]);
        let mut index = Self { vocabulary, seed: Seed::new(), short, long };
        let (mut short_tokens, mut long_tokens) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut ids = 0..vocabulary.len();
        while !ids.is_empty() {
            for id in ids.by_ref().take(BATCH) {
                match vocabulary.used(id) {
                    Some(token) if token.len() <= WORD => {
                        short_tokens.push((id, index.short.search(index.seed, token)))
                    }
                    Some(token) => long_tokens.push((id, index.long.search(index.seed, token))),
                    None => {}
                }
            }
            index.short.insert(&mut short_tokens, vocabulary)?;
            index.long.insert(&mut long_tokens, vocabulary)?;
        }
        Ok(index)
    }

    /// The id of `token`.
    pub(super) fn id(&self, token: Span<'_>) -> Option<u32> {
        let is_token = |id| self.vocabulary.span(id).is_some_and(|other| other.is(token));
        let id = if token.len() <= WORD {
            self.short.id(self.short.search(self.seed, token), is_token)
        } else {
            self.long.id(self.long.search(self.seed, token), is_token)
        };
        (id != NONE).then_some(id)
    }

    /// Reads what [`Index::id`] will for this token, which brings it into the cache. What it gives back is of no use but
    /// that the compiler cannot leave the reading out.
    pub(super) fn peek(&self, token: Span<'_>) -> u32 {
        if token.len() <= WORD {
            self.short.peek(&self.short.search(self.seed, token))
        } else {
            self.long.peek(&self.long.search(self.seed, token))
        }
    }

    /// Prepares to look for a token of at most [`WORD`] bytes.
    #[inline(always)]
    pub(super) fn search_short(&self, token: Span<'_>) -> Short {
        Short(self.short.search(self.seed, token))
    }

    /// As [`Index::peek`].
    #[inline(always)]
    pub(super) fn peek_short(&self, search: &Short) -> u32 {
        self.short.peek(&search.0)
    }

    /// The id of the token searched for, or [`NONE`].
    #[inline(always)]
    pub(super) fn id_short(&self, search: Short) -> u32 {
        self.short.id(search.0, |_| true)
    }
}

/// Which region holds tokens of this length.
#[inline(always)]
fn region<const W: usize>(len: usize) -> usize {
    usize::from(len > W * WORD - WORD / 2)
}

impl<const W: usize> Table<W> {
    /// For so many tokens in each region.
    fn new(n: [u32; 2]) -> Self {
        // A third of the slots stays free.
        let [first, second] = n.map(|n| n + n / 2 + 1);
        let free = Slot { words: [[0; 2]; W], entry: FREE };
        Self { slots: vec![free; (first + second) as usize], regions: [(0, first), (first, second)] }
    }

    /// Prepares to look for `token`.
    #[inline(always)]
    fn search(&self, seed: Seed, token: Span<'_>) -> Search<W> {
        let mut words = array::from_fn(|i| token.skip(i * WORD).head());
        let mut hash = seed.words(words);
        let mut len = token.len();
        if len > W * WORD {
            hash = seed.bytes(token.bytes());
            words = [hash; W];
            len = W * WORD + 1;
        }
        let (start, n) = self.regions[region::<W>(len)];
        let home = start + scaled(hash, n as usize) as u32;
        Search { words, home, len: len as u32 }
    }

    #[inline(always)]
    fn peek(&self, search: &Search<W>) -> u32 {
        self.slots.get(search.home as usize).map_or(0, |slot| slot.entry)
    }

    /// The slot of the token searched for, or the free one where it belongs. `is_token` is asked about tokens longer than
    /// `W` words. Ends because there are free slots.
    #[inline(always)]
    fn probe(&self, search: Search<W>, is_token: impl Fn(u32) -> bool) -> usize {
        let mut at = search.home as usize;
        loop {
            let Some(slot) = self.slots.get(at) else {
                at = 0;
                continue;
            };
            let words = slot.words.map(|[low, high]| u64::from(low) | u64::from(high) << 32);
            let same = words == search.words && slot.entry % (1 << LEN_BITS) == search.len;
            if same && (search.len as usize <= W * WORD || is_token(slot.id())) || slot.entry == FREE {
                return at;
            }
            at += 1;
        }
    }

    #[inline(always)]
    fn id(&self, search: Search<W>, is_token: impl Fn(u32) -> bool) -> u32 {
        self.slots.get(self.probe(search, is_token)).map_or(NONE, |slot| slot.id())
    }

    /// Takes up the tokens of these ids.
    fn insert(&mut self, tokens: &mut Vec<(u32, Search<W>)>, vocabulary: &Vocabulary) -> Result<()> {
        black_box(tokens.iter().fold(0, |sum, (_, search)| sum ^ self.peek(search)));
        for (id, search) in tokens.drain(..) {
            let at = self.probe(search, |other| vocabulary.token(other) == vocabulary.token(id));
            let Some(slot) = self.slots.get_mut(at) else { continue };
            if slot.entry != FREE {
                let token = String::from_utf8_lossy(vocabulary.token(id).unwrap_or_default());
                return Err(invalid(TOKENS, format!("tokens {} and {id} are both {token:?}", slot.id())));
            }
            let words = search.words.map(|word| [word as u32, (word >> 32) as u32]);
            *slot = Slot { words, entry: id << LEN_BITS | search.len };
        }
        Ok(())
    }
}

impl<const W: usize> Slot<W> {
    #[inline]
    fn id(&self) -> u32 {
        self.entry >> LEN_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: i32 = 1;
    const USER_DEFINED: i32 = 4;
    const UNUSED: i32 = 5;

    fn vocabulary(tokens: &[Vec<u8>], ty: i32) -> Vocabulary {
        Vocabulary::new(tokens.iter().collect(), &vec![ty; tokens.len()], true).unwrap()
    }

    /// Of every length up to 40, some that differ in one byte alone, and some that end in NUL.
    fn tokens() -> Vec<Vec<u8>> {
        let mut tokens = vec![Vec::new()];
        for len in 1..40usize {
            for at in 0..len {
                let mut token: Vec<u8> = (0..len as u8).collect();
                token[at] ^= 0x80;
                tokens.push(token);
            }
            tokens.push([vec![b'x'; len - 1], vec![0]].concat());
        }
        tokens
    }

    #[test]
    fn tokens_of_all_lengths_are_found_and_no_others() {
        let tokens = tokens();
        let vocabulary = vocabulary(&tokens, NORMAL);
        let index = Index::new(&vocabulary).unwrap();
        for (id, token) in (0..).zip(&tokens) {
            // Alone, and with other bytes behind it.
            for behind in [0, 1, 20] {
                let bytes = [token.clone(), vec![b'y'; behind]].concat();
                let span = Span::new(&bytes, token.len());
                assert_eq!(index.id(span), Some(id), "{token:?}");
                if token.len() <= WORD {
                    assert_eq!(index.id_short(index.search_short(span)), id, "{token:?}");
                }
            }
            let mut other = [&**token, &[0]].concat();
            let id_of = |token: &[u8]| tokens.iter().position(|t| t == token).map(|id| id as u32);
            assert_eq!(index.id(Span::from(&*other)), id_of(&other), "{other:?}");
            other.pop();
            if let Some(last) = other.last_mut() {
                *last ^= 0x40;
                assert_eq!(index.id(Span::from(&*other)), id_of(&other), "{other:?}");
            }
        }
        assert_eq!(index.id_short(index.search_short(Span::from(&b"absent"[..]))), NONE);
    }

    #[test]
    fn unused_tokens_are_not_found() {
        let tokens = tokens();
        let vocabulary = vocabulary(&tokens, UNUSED);
        let index = Index::new(&vocabulary).unwrap();
        assert!(tokens.iter().all(|token| index.id(Span::from(&**token)).is_none()));
    }

    #[test]
    fn a_token_twice_is_refused_whatever_its_length() {
        for first in tokens() {
            let tokens = [first.clone(), b"other".to_vec(), first.clone()];
            let error = Index::new(&vocabulary(&tokens, NORMAL)).err().unwrap().to_string();
            let text = String::from_utf8_lossy(&first);
            assert_eq!(error, format!("key tokenizer.ggml.tokens: tokens 0 and 2 are both {text:?}"));
        }
    }

    /// Each token is longer than in the file, so all belong elsewhere than the lengths in the file say.
    #[test]
    fn there_is_room_for_tokens_that_get_longer() {
        for spaces in 1..6 {
            let tokens: Vec<Vec<u8>> =
                (0..500).map(|i| [vec![b' '; spaces], format!("{i:03}").into_bytes()].concat()).collect();
            let vocabulary = vocabulary(&tokens, USER_DEFINED);
            let index = Index::new(&vocabulary).unwrap();
            for (id, token) in (0..).zip(&tokens) {
                let restored = String::from_utf8(token.clone()).unwrap().replace(' ', "\u{2581}");
                assert_eq!(index.id(Span::from(restored.as_bytes())), Some(id));
                assert_eq!(index.id(Span::from(&**token)), None);
            }
        }
    }
}
