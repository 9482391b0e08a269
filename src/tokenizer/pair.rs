//! Pairs of tokens to the rank of their merge.

use super::hash::{Seed, scaled};

/// Bits of a pair's key.
pub(super) const KEY_BITS: u32 = 42;
const RANK_BITS: u32 = u64::BITS - KEY_BITS;
/// The rank of a pair that does not merge: after every real one.
pub(super) const NO_MERGE: u32 = (1 << RANK_BITS) - 1;

/// Ranks by key, by open addressing. A slot is one word, key above rank, so that most look-ups touch one cache line.
pub(super) struct Pairs {
    seed: Seed,
    slots: Vec<u64>,
    n_pairs: usize,
}

/// The slot of a free place: its rank is [`NO_MERGE`].
const FREE: u64 = u64::MAX;

impl Pairs {
    /// The rank of `key`, [`NO_MERGE`] if there is none.
    #[inline]
    pub(super) fn rank(&self, key: u64) -> u32 {
        let mut at = self.home(key);
        // Ends because a third of the slots is free.
        loop {
            match self.slots.get(at) {
                Some(&slot) if slot == FREE || slot >> RANK_BITS == key => return slot as u32 & NO_MERGE,
                Some(_) => at += 1,
                None => at = 0,
            }
        }
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.n_pairs
    }

    /// The slot where a key is if no other is in its way.
    #[inline]
    fn home(&self, key: u64) -> usize {
        scaled(self.seed.word(key), self.slots.len())
    }

    /// Puts a pair into the first place for it in `from..end`, if there is one. Of one key the highest rank stays.
    #[inline]
    fn put(&mut self, slot: u64, from: usize, end: usize) -> bool {
        for place in self.slots.get_mut(from..end).into_iter().flatten() {
            if *place == FREE {
                *place = slot;
                self.n_pairs += 1;
                return true;
            }
            if *place >> RANK_BITS == slot >> RANK_BITS {
                *place = slot.max(*place);
                return true;
            }
        }
        false
    }
}

const PARTS: usize = 64;

/// A table under construction.
///
/// It is much larger than the caches: written in the order of the ranks, it would cost a cache miss a pair. So the pairs
/// are first listed by the part of the table they belong to, and then one part after the other is made, which the cache
/// holds. A part's list lies in the memory of the part.
pub(super) struct Builder {
    pairs: Pairs,
    /// Length of a part, and of the list in each.
    part_len: usize,
    n_listed: [usize; PARTS],
    /// Pairs for which there is no room in their part.
    rest: Vec<u64>,
}

impl Builder {
    /// For at most `n` pairs.
    pub(super) fn new(n: usize) -> Self {
        let part_len = (n + n / 2) / PARTS + 1;
        let pairs = Pairs { seed: Seed::new(), slots: vec![0; PARTS * part_len], n_pairs: 0 };
        Self { pairs, part_len, n_listed: [0; PARTS], rest: Vec::new() }
    }

    /// Adds a pair. If the key occurs again its highest rank counts.
    #[inline]
    pub(super) fn add(&mut self, key: u64, rank: u32) {
        let slot = key << RANK_BITS | u64::from(rank);
        // The part that `home` leads to: the top bits of the hash, because the parts are equally long.
        let part = (self.pairs.seed.word(key) >> (u64::BITS - PARTS.ilog2())) as usize;
        if let Some(n) = self.n_listed.get_mut(part)
            && *n < self.part_len
            && let Some(place) = self.pairs.slots.get_mut(part * self.part_len + *n)
        {
            *place = slot;
            *n += 1;
        } else {
            self.rest.push(slot);
        }
    }

    /// The table of all pairs added.
    pub(super) fn build(self) -> Pairs {
        let Self { mut pairs, part_len, n_listed, mut rest } = self;
        let mut list = Vec::with_capacity(part_len);
        for (part, &n) in n_listed.iter().enumerate() {
            let start = part * part_len;
            let end = start + part_len;
            let Some(slots) = pairs.slots.get_mut(start..end) else { continue };
            list.clear();
            list.extend_from_slice(slots.get(..n).unwrap_or_default());
            slots.fill(FREE);
            for &slot in &list {
                let home = pairs.home(slot >> RANK_BITS);
                if !pairs.put(slot, home, end) {
                    rest.push(slot);
                }
            }
        }
        // Now that there are no lists any more, a pair may go past the end of its part.
        let end = pairs.slots.len();
        for slot in rest {
            let home = pairs.home(slot >> RANK_BITS);
            let _ = pairs.put(slot, home, end) || pairs.put(slot, 0, home);
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Every pair of `add` is found with its highest rank, and `absent` are not found.
    fn check(mut builder: Builder, add: &[u64], absent: impl Iterator<Item = u64>) {
        let mut ranks = HashMap::new();
        for (rank, &key) in (0..).zip(add) {
            builder.add(key, rank);
            ranks.insert(key, rank);
        }
        let pairs = builder.build();
        assert_eq!(pairs.len(), ranks.len());
        for (key, rank) in &ranks {
            assert_eq!(pairs.rank(*key), *rank, "{key}");
        }
        for key in absent.filter(|key| !ranks.contains_key(key)) {
            assert_eq!(pairs.rank(key), NO_MERGE, "{key}");
        }
    }

    #[test]
    fn finds_what_was_added_with_its_last_rank() {
        let mut state = 1u64;
        for n in [0, 1, 2, 3, 10, 63, 64, 65, 1000, 20_000] {
            let keys: Vec<u64> = (0..n)
                .map(|i| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Every third key or so comes again.
                    if i % 3 == 0 { state >> 60 } else { state >> (u64::BITS - KEY_BITS) }
                })
                .collect();
            check(Builder::new(n), &keys, 0..2000);
        }
    }

    /// A seed no input can know makes this unlikely; it must work all the same.
    #[test]
    fn pairs_that_all_belong_to_one_part_overflow_into_the_others() {
        for part in [0, 1, PARTS as u64 - 1] {
            let builder = Builder::new(400);
            let in_part = |key: &u64| builder.pairs.seed.word(*key) >> (u64::BITS - PARTS.ilog2()) == part;
            let keys: Vec<u64> = (0..1 << 20).filter(in_part).take(200).collect();
            assert_eq!(keys.len(), 200);
            // Twice, so that a pair and its later rank may end up in different ways.
            let twice: Vec<u64> = keys.iter().chain(&keys).copied().collect();
            check(builder, &twice, 0..2000);
        }
    }
}
