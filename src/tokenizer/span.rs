//! Byte strings that are read eight bytes at a time.

/// A byte string where it lies, and how many of the bytes from there on belong to it.
///
/// Most tokens have eight bytes or fewer. Where more bytes follow, such a string is one load and a mask, without a branch
/// on its length.
#[derive(Clone, Copy, Default)]
pub(super) struct Span<'a> {
    bytes: &'a [u8],
    len: usize,
}

/// Bytes in a word.
pub(super) const WORD: usize = 8;

/// Which bits of a word belong to a string of so many bytes.
const MASKS: [u64; WORD] =
    [0, 0xFF, 0xFFFF, 0xFF_FFFF, 0xFFFF_FFFF, 0xFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF, 0xFF_FFFF_FFFF_FFFF];

impl<'a> Span<'a> {
    /// The first `len` of `bytes`, or all if there are fewer.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], len: usize) -> Self {
        Self { bytes, len: len.min(bytes.len()) }
    }

    /// Number of bytes.
    #[inline]
    pub(super) fn len(self) -> usize {
        self.len
    }

    /// The bytes.
    #[inline]
    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The string without its first `n` bytes.
    #[inline]
    pub(super) fn skip(self, n: usize) -> Self {
        Self { bytes: self.bytes.get(n..).unwrap_or_default(), len: self.len.saturating_sub(n) }
    }

    /// The first `n` bytes of the string.
    #[inline]
    pub(super) fn first(self, n: usize) -> Self {
        Self { bytes: self.bytes, len: self.len.min(n) }
    }

    /// Up to eight bytes of the string as one number, padded with zeros.
    #[inline]
    pub(super) fn head(self) -> u64 {
        self.word() & MASKS.get(self.len).copied().unwrap_or(u64::MAX)
    }

    /// The eight bytes from the start of the string on, whatever they belong to, as one number.
    #[inline]
    fn word(self) -> u64 {
        match self.bytes.first_chunk::<WORD>() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => short_word(self.bytes),
        }
    }

    /// Whether both are the same string.
    #[inline]
    pub(super) fn is(self, other: Self) -> bool {
        self.len == other.len && self.starts_with(other)
    }

    /// Whether the string starts with `other`, which is not longer.
    #[inline]
    pub(super) fn starts_with(self, other: Self) -> bool {
        let different = (self.word() ^ other.word()) & MASKS.get(other.len).copied().unwrap_or(u64::MAX);
        different == 0 && (other.len <= WORD || self.bytes().starts_with(other.bytes()))
    }

    /// The position of the first space that is not the first byte.
    #[inline]
    pub(super) fn inner_space(self) -> Option<usize> {
        // The first byte does not count.
        let first = spaces(self.word()) & !0xFF;
        let at = if first != 0 { first.trailing_zeros() as usize / 8 } else { self.late_space() };
        (at < self.len).then_some(at)
    }

    /// The position of the first space after the first word, or one past the end.
    #[inline(never)]
    fn late_space(self) -> usize {
        let mut at = WORD;
        while at < self.len {
            let spaces = spaces(self.skip(at).word());
            if spaces != 0 {
                return at + spaces.trailing_zeros() as usize / 8;
            }
            at += WORD;
        }
        at
    }
}

/// The top bit of every byte of a word that is a space, and of no other.
#[inline(always)]
fn spaces(word: u64) -> u64 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let other = word ^ 0x2020_2020_2020_2020;
    !(((other & LOW) + LOW) | other | LOW)
}

impl<'a> From<&'a [u8]> for Span<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, len: bytes.len() }
    }
}

/// Fewer than eight bytes as one number.
#[cold]
fn short_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_string_and_nothing_behind_it() {
        let bytes = *b"abcdefghijkl";
        for len in 0..=bytes.len() {
            let alone = Span::from(&bytes[..len]);
            let followed = Span::new(&bytes, len);
            let mut padded = [0; WORD];
            let n = len.min(WORD);
            padded[..n].copy_from_slice(&bytes[..n]);
            assert_eq!((alone.head(), followed.head()), (u64::from_le_bytes(padded), u64::from_le_bytes(padded)));
            assert!(alone.is(followed) && followed.bytes() == &bytes[..len]);
            for other in 0..len {
                assert!(!followed.is(Span::new(&bytes, other)));
                assert!(followed.first(other).is(Span::new(&bytes, other)));
                assert_eq!(followed.skip(other).bytes(), &bytes[other..len]);
            }
        }
        assert_eq!(Span::new(b"ab", 3).bytes(), b"ab");
        assert_eq!((Span::new(b"ab", 1).skip(2).bytes(), Span::new(b"ab", 1).skip(2).head()), (&b""[..], 0));
        assert!(!Span::from(&b"abcdefghi"[..]).is(Span::from(&b"abcdefghj"[..])));
        assert!(!Span::from(&b"a"[..]).is(Span::from(&b"a\0"[..])));
    }

    #[test]
    fn the_first_inner_space_is_found() {
        let mut state = 1u64;
        for round in 0..20_000 {
            let len = round % 27;
            let bytes: Vec<u8> = (0..len + 9)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Neighbours of the space in value, and bytes that differ from it in the top bit alone.
                    [b'!', b' ', 0x1F, 0xA0, 0, b'a', 0xFF, b'!'][(state >> 61) as usize]
                })
                .collect();
            let expected = bytes[..len].iter().skip(1).position(|&byte| byte == b' ').map(|at| at + 1);
            assert_eq!(Span::new(&bytes, len).inner_space(), expected, "{bytes:?}");
            assert_eq!(Span::from(&bytes[..len]).inner_space(), expected, "{bytes:?}");
        }
    }
}
