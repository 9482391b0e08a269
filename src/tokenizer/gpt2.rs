//! The GPT-2 word split of byte-level BPE.
//!
//! Written by hand from `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`: alternatives are
//! tried in this order at every position, and every character belongs to some match.

use super::class::{Classes, IS_LETTER, IS_NUMBER, IS_SPACE};

/// The words of `text`, which together are `text`.
pub(super) struct Words<'t> {
    rest: &'t str,
    classes: Classes,
}

impl<'t> Words<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { rest: text, classes: Classes::new() }
    }

    /// Class bits that tell the kinds of word apart.
    fn kind(&self, c: char) -> u8 {
        self.classes.of(c) & (IS_LETTER | IS_NUMBER | IS_SPACE)
    }

    /// Bytes of the longest run of `kind` at the start of `text`.
    fn run(&self, text: &str, kind: u8) -> usize {
        text.find(|c| self.kind(c) != kind).unwrap_or(text.len())
    }

    /// Bytes of the word at the start of `rest`, which is not empty.
    fn next_len(&self) -> usize {
        let contraction = contraction(self.rest);
        if contraction > 0 {
            return contraction;
        }
        let mut chars = self.rest.chars();
        let Some(first) = chars.next() else { return 0 };
        let kind = self.kind(first);
        if kind != IS_SPACE {
            return self.run(self.rest, kind);
        }
        let after = chars.as_str();
        if first == ' '
            && let Some(second) = after.chars().next()
            && self.kind(second) != IS_SPACE
        {
            return 1 + self.run(after, self.kind(second));
        }
        // Spaces up to the end, or all but the last one, which may lead the next word.
        let len = self.run(self.rest, IS_SPACE);
        if len == self.rest.len() {
            return len;
        }
        let spaces = self.rest.get(..len).unwrap_or_default();
        let last = spaces.chars().next_back().map_or(0, char::len_utf8);
        if last < len { len - last } else { len }
    }
}

/// Bytes of the English contraction at the start of `text`, 0 for none.
fn contraction(text: &str) -> usize {
    match text.as_bytes() {
        [b'\'', b's' | b't' | b'm' | b'd', ..] => 2,
        [b'\'', b'r' | b'v', b'e', ..] | [b'\'', b'l', b'l', ..] => 3,
        _ => 0,
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let (word, rest) = self.rest.split_at_checked(self.next_len())?;
        self.rest = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_as_the_expression_says() {
        for (text, expected) in [
            ("", &[][..]),
            ("Hello  world", &["Hello", " ", " world"]),
            ("a \n b", &["a", " \n", " b"]),
            ("a\n\nb", &["a", "\n", "\n", "b"]),
            ("a   ", &["a", "   "]),
            ("I'm we're 'd x's 's", &["I", "'m", " we", "'re", " '", "d", " x", "'s", " '", "s"]),
            ("'ll''s 'x", &["'ll", "''", "s", " '", "x"]),
            ("x2½ 3rd!?", &["x", "2½", " 3", "rd", "!?"]),
            ("\u{a0}\u{a0}x", &["\u{a0}", "\u{a0}", "x"]),
            ("\u{3000}x", &["\u{3000}", "x"]),
            ("\t\tx", &["\t", "\t", "x"]),
            ("\u{301}a\u{301}", &["\u{301}", "a", "\u{301}"]),
        ] {
            assert_eq!(Words::new(text).collect::<Vec<_>>(), expected, "{text:?}");
        }
    }
}
