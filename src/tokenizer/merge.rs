//! The merges of byte-pair encoding.

use std::collections::HashSet;
use std::hint::black_box;
use std::mem;

use crate::error::{Error, Result};
use crate::gguf::Strings;

use super::index::{BATCH, Index, NONE, Short};
pub(super) use super::pair::NO_MERGE;
use super::pair::{Builder, KEY_BITS, Pairs};
use super::span::{Span, WORD};
use super::vocabulary::{MAX_TOKENS, Vocabulary, invalid};

pub(super) const MERGES: &str = "tokenizer.ggml.merges";
/// The byte-level spelling of a space, and what the converter writes for a space inside a merge half.
const SPELLED_SPACE: &str = "\u{120}";

const ID_BITS: u32 = 21;
const _: () = assert!(1 << ID_BITS == MAX_TOKENS && 2 * ID_BITS == KEY_BITS);

/// (left id, right id) to rank, and rank to merged id.
pub(super) struct Merges {
    pairs: Pairs,
    /// Merged id by rank.
    ids: Vec<u32>,
}

impl Merges {
    /// Reads `"left right"` strings, their position being their rank. A pair that occurs again takes the later rank,
    /// as in the reference's map, unless it only seems to occur again (see [`respelled`]).
    pub(super) fn new(strings: &Strings, vocabulary: &Vocabulary, index: &Index<'_>, metaspace: bool) -> Result<Self> {
        let merges = Self::without(&HashSet::new(), strings, vocabulary, index, metaspace)?;
        if metaspace || merges.n_pairs() == strings.len() {
            return Ok(merges);
        }
        let respelled = respelled(strings, index);
        if respelled.is_empty() {
            return Ok(merges);
        }
        Self::without(&respelled, strings, vocabulary, index, metaspace)
    }

    /// The merges but those of some ranks.
    fn without(
        skipped: &HashSet<u32>,
        strings: &Strings,
        vocabulary: &Vocabulary,
        index: &Index<'_>,
        metaspace: bool,
    ) -> Result<Self> {
        let n = strings.len();
        if n >= NO_MERGE as usize {
            return Err(invalid(MERGES, format!("holds {n} merges; at most {NO_MERGE} can be ranked")));
        }
        let mut reader = Reader {
            strings,
            index,
            metaspace,
            pairs: Builder::new(n),
            short: Vec::with_capacity(BATCH),
            long: Vec::with_capacity(2 * BATCH),
        };
        let mut ids = Vec::with_capacity(n);
        let mut merged = Merged::default();
        let mut strings = (0u32..).zip(strings.iter_with_rest());
        while ids.len() < n {
            for (rank, (bytes, len)) in strings.by_ref().take(BATCH) {
                let line = Line::new(rank, Span::new(bytes, len))?;
                if !skipped.is_empty() && skipped.contains(&rank) {
                    ids.push(0);
                    continue;
                }
                if merged.is(line) || {
                    merged = Merged::new(vocabulary, merged.id + 1);
                    merged.is(line)
                } {
                    reader.push(line);
                } else {
                    merged = Merged::new(vocabulary, reader.push_with_merged(line)?);
                }
                ids.push(merged.id);
            }
            reader.add_short()?;
            if reader.long.len() >= BATCH {
                reader.add_long()?;
            }
        }
        reader.add_long()?;
        Ok(Self { pairs: reader.pairs.build(), ids })
    }

    /// The rank of two neighbours, [`NO_MERGE`] if they do not merge.
    #[inline]
    pub(super) fn rank(&self, left: u32, right: u32) -> u32 {
        self.pairs.rank(key(left, right))
    }

    /// The token that the merge of `rank` makes.
    #[inline]
    pub(super) fn id(&self, rank: u32) -> u32 {
        self.ids.get(rank as usize).copied().unwrap_or_default()
    }

    /// Number of different pairs.
    pub(super) fn n_pairs(&self) -> usize {
        self.pairs.len()
    }
}

/// The two tokens of a merge.
#[derive(Clone, Copy)]
struct Line<'s> {
    rank: u32,
    left: Span<'s>,
    right: Span<'s>,
}

impl<'s> Line<'s> {
    #[inline(always)]
    fn new(rank: u32, string: Span<'s>) -> Result<Self> {
        // A token may itself start with a space.
        match string.inner_space() {
            Some(space) => Ok(Self { rank, left: string.first(space), right: string.skip(space + 1) }),
            None => Err(bad(rank, string.bytes(), "is not two tokens")),
        }
    }

    /// An error about this merge.
    #[cold]
    fn error(self, what: &str) -> Error {
        bad(self.rank, &[self.left.bytes(), b" ", self.right.bytes()].concat(), what)
    }
}

/// The token that a merge makes.
///
/// Vocabularies number merged tokens in the order of their merges: mostly a merge makes the same token as the one before
/// it, or the next one, and then it need not be looked for.
#[derive(Clone, Copy, Default)]
struct Merged<'v> {
    id: u32,
    token: Span<'v>,
}

impl<'v> Merged<'v> {
    fn new(vocabulary: &'v Vocabulary, id: u32) -> Self {
        Self { id, token: vocabulary.used(id).unwrap_or_default() }
    }

    /// Whether this token is both halves together.
    #[inline(always)]
    fn is(&self, Line { left, right, .. }: Line<'_>) -> bool {
        self.token.len() == left.len() + right.len()
            && self.token.starts_with(left)
            && self.token.skip(left.len()).starts_with(right)
    }
}

/// Looks up the halves of merges, many at a time, and collects the pairs.
struct Reader<'a> {
    strings: &'a Strings,
    index: &'a Index<'a>,
    metaspace: bool,
    pairs: Builder,
    /// Merges by rank whose halves are both short, to be looked up.
    short: Vec<(u32, Short, Short)>,
    /// The others.
    long: Vec<Line<'a>>,
}

impl<'a> Reader<'a> {
    /// Takes up a merge.
    #[inline(always)]
    fn push(&mut self, line: Line<'a>) {
        if line.left.len() <= WORD && line.right.len() <= WORD {
            self.short.push((line.rank, self.index.search_short(line.left), self.index.search_short(line.right)));
        } else {
            self.long.push(line);
        }
    }

    /// Takes up a merge, and finds the token that it makes.
    #[cold]
    fn push_with_merged(&mut self, line: Line<'a>) -> Result<u32> {
        self.add(line)?;
        let merged = [line.left.bytes(), line.right.bytes()].concat();
        self.id(Span::from(&*merged)).ok_or_else(|| line.error("makes a token that is not in the vocabulary"))
    }

    /// Adds the pairs of [`Reader::short`].
    #[inline(always)]
    fn add_short(&mut self) -> Result<()> {
        let index = self.index;
        let peek = |sum, (_, left, right): &(u32, Short, Short)| sum ^ index.peek_short(left) ^ index.peek_short(right);
        black_box(self.short.iter().fold(0, peek));
        let mut short = mem::take(&mut self.short);
        for &(rank, left, right) in &short {
            let (left, right) = (index.id_short(left), index.id_short(right));
            if left != NONE && right != NONE {
                self.pairs.add(key(left, right), rank);
            } else {
                let (bytes, len) = self.strings.get_with_rest(rank as usize).unwrap_or_default();
                self.add(Line::new(rank, Span::new(bytes, len))?)?;
            }
        }
        short.clear();
        self.short = short;
        Ok(())
    }

    /// Adds the pairs of [`Reader::long`].
    fn add_long(&mut self) -> Result<()> {
        let index = self.index;
        black_box(self.long.iter().fold(0, |sum, line| sum ^ index.peek(line.left) ^ index.peek(line.right)));
        let mut long = mem::take(&mut self.long);
        for &line in &long {
            self.add(line)?;
        }
        long.clear();
        self.long = long;
        Ok(())
    }

    fn add(&mut self, line: Line<'_>) -> Result<()> {
        let missing = |what| move || line.error(what);
        let left = self.id(line.left).ok_or_else(missing("starts with a token that is not in the vocabulary"))?;
        let right = self.id(line.right).ok_or_else(missing("ends with a token that is not in the vocabulary"))?;
        self.pairs.add(key(left, right), line.rank);
        Ok(())
    }

    /// The id of a token of a merge. Metaspace text has no spaces, so a token spelled with one is never reached; it still
    /// has to exist.
    fn id(&self, token: Span<'_>) -> Option<u32> {
        let spelled = || self.index.id(Span::from(&*spaced(token.bytes()).filter(|_| self.metaspace)?));
        self.index.id(token).or_else(spelled)
    }
}

/// Ranks of byte-level merges that are written like one before them because a space inside a half is written like the
/// byte-level spelling of a space. The vocabulary then has both tokens. No byte is spelled as a space, so no word can use
/// the merge with the space, and the other one must not lose its rank to it.
fn respelled(strings: &Strings, index: &Index<'_>) -> HashSet<u32> {
    let mut seen = HashSet::new();
    let again = (0u32..).zip(strings.iter()).filter(|(_, string)| !seen.insert(*string));
    let both = again.filter(|(rank, string)| {
        Line::new(*rank, Span::from(*string)).is_ok_and(|line| {
            let merged = [line.left.bytes(), line.right.bytes()].concat();
            spaced(&merged).is_some_and(|merged| index.id(Span::from(&*merged)).is_some())
        })
    });
    both.map(|(rank, _)| rank).collect()
}

#[cold]
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
