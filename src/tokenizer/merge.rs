//! The merges of byte-pair encoding.

use std::hint::black_box;

use crate::error::{Error, Result};
use crate::gguf::Strings;

use super::hash::Seed;
use super::vocabulary::{BATCH, Index, MAX_TOKENS, Vocabulary, invalid};

pub(super) const MERGES: &str = "tokenizer.ggml.merges";
/// The byte-level spelling of a space, and what the converter writes for a space inside a merge half.
const SPELLED_SPACE: &str = "\u{120}";

/// The rank of a pair that does not merge: after every real one.
pub(super) const NO_MERGE: u32 = (1 << RANK_BITS) - 1;
const RANK_BITS: u32 = 22;
const ID_BITS: u32 = 21;
const _: () = assert!(1 << ID_BITS == MAX_TOKENS && 2 * ID_BITS + RANK_BITS == 64);

/// (left id, right id) to rank, by open addressing, and rank to merged id. A slot is one word (left, right, rank from the
/// top bits down) so that most look-ups touch one cache line.
pub(super) struct Merges {
    seed: Seed,
    slots: Vec<u64>,
    /// Merged id by rank.
    ids: Vec<u32>,
    n_pairs: usize,
}

/// The slot of a free place: its rank is [`NO_MERGE`].
const FREE: u64 = u64::MAX;

impl Merges {
    /// Reads `"left right"` strings, their position being their rank. A pair that occurs again takes the later rank,
    /// as in the reference's map.
    pub(super) fn new(strings: &Strings, vocabulary: &Vocabulary, index: &Index<'_>, metaspace: bool) -> Result<Self> {
        if strings.len() >= NO_MERGE as usize {
            return Err(invalid(MERGES, format!("holds {} merges; at most {NO_MERGE} can be ranked", strings.len())));
        }
        let capacity = (strings.len() * 4 / 3 + 1).next_power_of_two();
        let ids = Vec::with_capacity(strings.len());
        let mut merges = Self { seed: Seed::new(), slots: vec![FREE; capacity], ids, n_pairs: 0 };
        let mut batch = Vec::with_capacity(BATCH);
        let mut pairs = Vec::with_capacity(BATCH);
        let mut strings = (0u32..).zip(strings.iter());
        let mut guess = 0;
        loop {
            batch.clear();
            for (rank, string) in strings.by_ref().take(BATCH) {
                let halves = halves(string).ok_or_else(|| bad(rank, string, "is not two tokens"))?;
                batch.push((rank, string, halves, (index.search(halves.0), index.search(halves.1))));
            }
            if batch.is_empty() {
                return Ok(merges);
            }
            for (.., (left, right)) in &batch {
                index.touch(left);
                index.touch(right);
            }
            pairs.clear();
            for &(rank, string, (left, right), (left_search, right_search)) in &batch {
                // Metaspace text has no spaces, so a half spelled with one is never reached; it still has to exist.
                let spelled = |half: &[u8]| index.id(&spaced(half).filter(|_| metaspace)?);
                let left_id = index.find(left, &left_search).ok().or_else(|| spelled(left));
                let right_id = index.find(right, &right_search).ok().or_else(|| spelled(right));
                // Vocabularies number merged tokens in the order of their merges: mostly this one or the next.
                let is_merged =
                    |id: &u32| vocabulary.used(*id).and_then(|token| token.strip_prefix(left)) == Some(right);
                let id = [guess, guess + 1].into_iter().find(is_merged).or_else(|| {
                    let merged = [left, right].concat();
                    index.id(&merged).or_else(|| spelled(&merged))
                });
                let missing = |what| bad(rank, string, what);
                let left = left_id.ok_or_else(|| missing("starts with a token that is not in the vocabulary"))?;
                let right = right_id.ok_or_else(|| missing("ends with a token that is not in the vocabulary"))?;
                guess = id.ok_or_else(|| missing("makes a token that is not in the vocabulary"))?;
                merges.ids.push(guess);
                pairs.push((rank, left, right, merges.home(left, right)));
            }
            for &(.., home) in &pairs {
                black_box(merges.slots.get(home).copied());
            }
            for &(rank, left, right, _) in &pairs {
                merges.insert(left, right, rank);
            }
        }
    }

    /// The rank of two neighbours, [`NO_MERGE`] if they do not merge.
    #[inline]
    pub(super) fn rank(&self, left: u32, right: u32) -> u32 {
        self.slots.get(self.probe(left, right)).map_or(NO_MERGE, |&slot| slot as u32 & NO_MERGE)
    }

    /// The token that the merge of `rank` makes.
    #[inline]
    pub(super) fn id(&self, rank: u32) -> u32 {
        self.ids.get(rank as usize).copied().unwrap_or_default()
    }

    /// Number of different pairs.
    pub(super) fn n_pairs(&self) -> usize {
        self.n_pairs
    }

    fn insert(&mut self, left: u32, right: u32, rank: u32) {
        let at = self.probe(left, right);
        if let Some(slot) = self.slots.get_mut(at) {
            self.n_pairs += usize::from(*slot == FREE);
            *slot = key(left, right) << RANK_BITS | u64::from(rank);
        }
    }

    /// The slot where the pair is if no other is in its way.
    #[inline]
    fn home(&self, left: u32, right: u32) -> usize {
        self.seed.word(key(left, right)) as usize & (self.slots.len() - 1)
    }

    /// The slot of the pair, or the free one where it belongs. Ends because a quarter of the slots is free.
    #[inline]
    fn probe(&self, left: u32, right: u32) -> usize {
        let key = key(left, right);
        let mut at = self.home(left, right);
        while let Some(&slot) = self.slots.get(at) {
            if slot == FREE || slot >> RANK_BITS == key {
                break;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }
}

/// The two tokens of a merge. A token may itself start with a space.
fn halves(string: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = string.iter().skip(1).position(|&byte| byte == b' ')? + 1;
    let (left, rest) = string.split_at_checked(space)?;
    Some((left, rest.get(1..)?))
}

fn bad(rank: u32, string: &[u8], what: &str) -> Error {
    invalid(MERGES, format!("merge {rank} ({:?}) {what}", String::from_utf8_lossy(string)))
}

/// Both ids in one number; [`Vocabulary`] keeps them below 2^21.
#[inline]
fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}

/// `half` with spaces for their spelling, if that changes it.
fn spaced(half: &[u8]) -> Option<Vec<u8>> {
    let half = std::str::from_utf8(half).ok()?;
    half.contains(SPELLED_SPACE).then(|| half.replace(SPELLED_SPACE, " ").into_bytes())
}
