//! The hash of the tokenizer's tables: quick on short keys, seeded per table so that a crafted vocabulary cannot aim at it.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A hash function.
#[derive(Clone, Copy)]
pub(super) struct Seed(u64);

impl Seed {
    /// A seed no input can know.
    pub(super) fn new() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }

    /// Hash of a number.
    #[inline]
    pub(super) fn word(self, word: u64) -> u64 {
        fold(word ^ self.0, 0x9E37_79B9_7F4A_7C15)
    }

    /// Hash of some numbers.
    #[inline]
    pub(super) fn words<const W: usize>(self, words: [u64; W]) -> u64 {
        words.iter().fold(self.0, |hash, word| fold(hash ^ word, 0x9E37_79B9_7F4A_7C15))
    }

    /// Hash of a byte string.
    #[inline]
    pub(super) fn bytes(self, bytes: &[u8]) -> u64 {
        let mut hash = self.0 ^ bytes.len() as u64;
        let mut rest = bytes;
        while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
            hash = fold(hash ^ u64::from_le_bytes(*chunk), 0x9E37_79B9_7F4A_7C15);
            rest = after;
        }
        // The last up to seven bytes; where both parts overlap the length tells equal words apart.
        let tail = match (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
            (Some(low), Some(high)) => u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << 32,
            _ => rest.iter().fold(0, |tail, &byte| tail << 8 | u64::from(byte)),
        };
        fold(hash ^ tail, 0xD6E8_FEB8_6659_FD93)
    }
}

/// The upper half of a hash, scaled to below `n`: a place in a table of that length, which has to be less than 2^32.
#[inline(always)]
pub(super) fn scaled(hash: u64, n: usize) -> usize {
    (((hash >> 32) * n as u64) >> 32) as usize
}

/// Both halves of the 128-bit product, folded together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}
