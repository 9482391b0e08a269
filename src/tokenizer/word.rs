//! Byte-pair encoding of one word.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::merge::{Merges, NO_MERGE};

/// Up to this many symbols the plain loop beats the heap.
const SHORT: usize = 48;
/// Up to this many symbols the heap, which visits the word in random order, beats the lists.
const MEDIUM: usize = 1 << 12;
/// No neighbour, or the id of a symbol that went into the one on its left.
const NONE: u32 = u32::MAX;

/// Merges words in reused buffers.
#[derive(Default)]
pub(super) struct Merger {
    ranks: Vec<u32>,
    heap: Vec<Reverse<u64>>,
    word: Linked,
}

impl Merger {
    /// Merges the symbols of one word until no merge applies, lowest rank first and leftmost among equals, and appends
    /// what is left to `out`. `symbols` is used up. O(n log n) in the number of symbols.
    pub(super) fn merge(&mut self, merges: &Merges, symbols: &mut Vec<u32>, out: &mut Vec<u32>) {
        match symbols.len() {
            0 => {}
            1 => out.extend_from_slice(symbols),
            n if n <= SHORT => self.merge_short(merges, symbols, out),
            n if n <= MEDIUM => self.merge_medium(merges, symbols, out),
            // Positions are 32 bits; a longer word (over 4 GiB) is merged in parts.
            _ => symbols.chunks(NONE as usize - 1).for_each(|part| self.merge_long(merges, part, out)),
        }
        symbols.clear();
    }

    /// By looking for the lowest rank each time.
    pub(super) fn merge_short(&mut self, merges: &Merges, symbols: &mut Vec<u32>, out: &mut Vec<u32>) {
        let ranks = &mut self.ranks;
        ranks.clear();
        // ranks[i] joins symbols i and i + 1.
        ranks.extend(pairs(symbols).map(|(left, right)| merges.rank(left, right)));
        while let Some((at, &rank)) = ranks.iter().enumerate().min_by_key(|(_, rank)| **rank)
            && rank != NO_MERGE
        {
            if let Some(symbol) = symbols.get_mut(at) {
                *symbol = merges.id(rank);
            }
            symbols.remove(at + 1);
            ranks.remove(at);
            for at in [at.wrapping_sub(1), at] {
                if let Some(rank) = ranks.get_mut(at)
                    && let Some(&[left, right]) = symbols.get(at..at + 2)
                {
                    *rank = merges.rank(left, right);
                }
            }
        }
        out.extend_from_slice(symbols);
    }

    /// By a heap of (rank, position).
    pub(super) fn merge_medium(&mut self, merges: &Merges, symbols: &[u32], out: &mut Vec<u32>) {
        let entry = |rank: u32, at: u32| Reverse(u64::from(rank) << 32 | u64::from(at));
        let mut entries = std::mem::take(&mut self.heap);
        entries.clear();
        self.word.start(merges, symbols, |rank, at| entries.push(entry(rank, at)));
        let mut heap = BinaryHeap::from(entries);
        while let Some(Reverse(top)) = heap.pop() {
            self.word.merge(merges, (top >> 32) as u32, top as u32, |rank, at| heap.push(entry(rank, at)));
        }
        self.heap = heap.into_vec();
        self.word.finish(out);
    }

    /// By one ascending list of positions per rank, so that a long word is walked through in order.
    ///
    /// While the list of a rank is worked off nothing is added to it: what its merges lead to are tokens longer than
    /// both of its own. So each list is sorted once.
    pub(super) fn merge_long(&mut self, merges: &Merges, symbols: &[u32], out: &mut Vec<u32>) {
        let mut lists = Lists::default();
        self.word.start(merges, symbols, |rank, at| lists.push(rank, at));
        while let Some((rank, at)) = lists.pop() {
            self.word.merge(merges, rank, at, |rank, at| lists.push(rank, at));
        }
        self.word.finish(out);
    }
}

fn pairs(symbols: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    symbols.iter().zip(symbols.iter().skip(1)).map(|(&left, &right)| (left, right))
}

/// A word whose symbols know their neighbours.
#[derive(Default)]
struct Linked(Vec<Symbol>);

#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    previous: u32,
    next: u32,
}

impl Linked {
    /// Takes up `symbols` and reports every pair that merges: (rank, position).
    fn start(&mut self, merges: &Merges, symbols: &[u32], mut found: impl FnMut(u32, u32)) {
        let last = (symbols.len() as u32).wrapping_sub(1);
        self.0.clear();
        self.0.extend((0u32..).zip(symbols).map(|(at, &id)| Symbol {
            id,
            previous: at.wrapping_sub(1),
            next: if at == last { NONE } else { at + 1 },
        }));
        for (at, (left, right)) in (0u32..).zip(pairs(symbols)) {
            let rank = merges.rank(left, right);
            if rank != NO_MERGE {
                found(rank, at);
            }
        }
    }

    /// Merges the symbol at `at` with the next one if their rank (still) is `rank`, and reports the new pairs that merge.
    fn merge(&mut self, merges: &Merges, rank: u32, at: u32, mut found: impl FnMut(u32, u32)) {
        let Some((left, right)) = self.pair(at) else { return };
        if left.id == NONE || merges.rank(left.id, right.id) != rank {
            return;
        }
        let id = merges.id(rank);
        self.set(at, |symbol| (symbol.id, symbol.next) = (id, right.next));
        self.set(left.next, |symbol| symbol.id = NONE);
        self.set(right.next, |symbol| symbol.previous = at);
        for at in [left.previous, at] {
            if let Some((left, right)) = self.pair(at) {
                let rank = merges.rank(left.id, right.id);
                if rank != NO_MERGE {
                    found(rank, at);
                }
            }
        }
    }

    /// The symbol at `at` and its next one.
    #[inline]
    fn pair(&self, at: u32) -> Option<(Symbol, Symbol)> {
        let left = *self.0.get(at as usize)?;
        Some((left, *self.0.get(left.next as usize)?))
    }

    #[inline]
    fn set(&mut self, at: u32, change: impl FnOnce(&mut Symbol)) {
        if let Some(symbol) = self.0.get_mut(at as usize) {
            change(symbol);
        }
    }

    fn finish(&self, out: &mut Vec<u32>) {
        out.extend(self.0.iter().map(|symbol| symbol.id).filter(|&id| id != NONE));
    }
}

/// Positions by rank, each rank's in ascending order.
#[derive(Default)]
struct Lists {
    by_rank: BTreeMap<u32, List>,
    /// Emptied lists, for their memory.
    spare: Vec<Vec<u32>>,
}

#[derive(Default)]
struct List {
    positions: Vec<u32>,
    /// How many are used up.
    done: usize,
    unsorted: bool,
}

impl Lists {
    fn push(&mut self, rank: u32, at: u32) {
        let list = self.by_rank.entry(rank).or_insert_with(|| {
            let positions = self.spare.pop().unwrap_or_default();
            List { positions, ..List::default() }
        });
        list.unsorted |= list.positions.last().is_some_and(|&last| last > at);
        list.positions.push(at);
    }

    /// The lowest rank's first position.
    fn pop(&mut self) -> Option<(u32, u32)> {
        let mut first = self.by_rank.first_entry()?;
        let rank = *first.key();
        let list = first.get_mut();
        if std::mem::take(&mut list.unsorted)
            && let Some(rest) = list.positions.get_mut(list.done..)
        {
            rest.sort_unstable();
        }
        let at = list.positions.get(list.done).copied()?;
        list.done += 1;
        if list.done == list.positions.len() {
            let mut positions = first.remove().positions;
            positions.clear();
            self.spare.push(positions);
        }
        Some((rank, at))
    }
}
