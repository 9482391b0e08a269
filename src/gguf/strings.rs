//! An array of byte strings that stays where it was read.

use std::fmt;
use std::sync::Arc;

use super::map::Map;

/// The length prefix of a string, in bytes.
pub(super) const PREFIX: usize = 8;

/// An array of byte strings. Read from a file it holds one 4-byte position per string into the shared bytes and copies
/// nothing, so a vocabulary of 256,000 tokens and 580,000 merges is cheap to open. Clones share both.
#[derive(Clone)]
pub struct Strings {
    /// The bytes the array lies in, laid out as in a file: each string is a u64 length and then its bytes.
    map: Arc<Map>,
    /// Position of the first length prefix in `map`.
    base: usize,
    /// Start of each string's bytes from `base`, and as the last entry where the next string would start: `[len + 1]`.
    starts: Arc<Vec<u32>>,
}

impl Strings {
    /// `starts` must have one more entry than there are strings, all inside `map` (the reader checks this).
    pub(super) fn from_parts(map: Arc<Map>, base: usize, starts: Vec<u32>) -> Self {
        Self { map, base, starts: Arc::new(starts) }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of string `i`.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let (start, end) = self.range(i)?;
        self.map.bytes().get(start..end)
    }

    /// The bytes from string `i` on, past its end, and its length. Reading eight bytes at a time needs no care at the
    /// end of a string that has others behind it.
    #[inline]
    pub(crate) fn get_with_rest(&self, i: usize) -> Option<(&[u8], usize)> {
        let (start, end) = self.range(i)?;
        Some((self.map.bytes().get(start..)?, end - start))
    }

    /// All strings in order, as [`Strings::get_with_rest`] gives them.
    #[inline]
    pub(crate) fn iter_with_rest(&self) -> impl Iterator<Item = (&[u8], usize)> + '_ {
        let bytes = self.map.bytes().get(self.base..).unwrap_or_default();
        self.starts.array_windows().map(|&[start, next]| {
            // Neither can fail: the reader found every string inside the file.
            let bytes = bytes.get(start as usize..).unwrap_or_default();
            (bytes, (next as usize).saturating_sub(start as usize + PREFIX))
        })
    }

    /// The lengths of all strings in order, in bytes.
    #[inline]
    pub(crate) fn lens(&self) -> impl Iterator<Item = usize> + '_ {
        self.starts
            .array_windows()
            .map(|&[start, next]| next.saturating_sub(start).saturating_sub(PREFIX as u32) as usize)
    }

    /// Where string `i` lies in `map`.
    #[inline]
    fn range(&self, i: usize) -> Option<(usize, usize)> {
        let start = *self.starts.get(i)? as usize;
        let end = (*self.starts.get(i + 1)? as usize).checked_sub(PREFIX)?;
        Some((self.base + start, self.base + end))
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        // `get` cannot fail below `len`; the empty slice only keeps this free of a panic.
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }

    /// The array as it lies in a file: length-prefixed strings without the count.
    pub(super) fn raw(&self) -> &[u8] {
        let end = self.starts.last().map_or(0, |&next| (next as usize).saturating_sub(PREFIX));
        self.map.bytes().get(self.base..self.base + end).unwrap_or_default()
    }
}

impl Strings {
    /// Collects strings, each given in parts.
    ///
    /// # Panics
    /// When all strings together exceed 4 GiB, which no vocabulary does.
    pub fn joined<S: AsRef<[u8]>, const N: usize>(strings: impl Iterator<Item = [S; N]>) -> Self {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for parts in strings {
            let n_bytes: usize = parts.iter().map(|part| part.as_ref().len()).sum();
            bytes.extend_from_slice(&(n_bytes as u64).to_le_bytes());
            starts.push(position(bytes.len()));
            parts.iter().for_each(|part| bytes.extend_from_slice(part.as_ref()));
        }
        starts.push(position(bytes.len() + PREFIX));
        Self { map: Arc::new(Map::from_vec(bytes)), base: 0, starts: Arc::new(starts) }
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    /// Collects strings.
    ///
    /// # Panics
    /// As [`Strings::joined`].
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        Self::joined(strings.into_iter().map(|string| [string]))
    }
}

#[allow(clippy::panic)]
fn position(at: usize) -> u32 {
    match u32::try_from(at) {
        Ok(at) => at,
        Err(_) => panic!("a string array larger than 4 GiB was built in memory"),
    }
}

impl From<Vec<Vec<u8>>> for Strings {
    fn from(strings: Vec<Vec<u8>>) -> Self {
        strings.iter().collect()
    }
}

impl PartialEq for Strings {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.raw() == other.raw()
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|s| String::from_utf8_lossy(s).into_owned())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in() {
        let strings: Strings = ["", "a", "bc", "", "\u{e5}"].iter().collect();
        assert_eq!(strings.len(), 5);
        assert_eq!(strings.iter().collect::<Vec<_>>(), [&b""[..], b"a", b"bc", b"", "\u{e5}".as_bytes()]);
        assert_eq!(strings.get(5), None);
        assert_eq!(strings.raw().len(), 5 * 8 + 5);
        assert_eq!(Strings::joined([["a", " ", "b"], ["", "c", ""]].into_iter()), ["a b", "c"].iter().collect());
        let none: Strings = Vec::<Vec<u8>>::new().into();
        assert!(none.is_empty());
        assert_eq!(none.get(0), None);
        assert_eq!(none.raw(), b"");
        assert_ne!(strings, none);
        assert_eq!(strings, strings.clone());
    }
}
