//! Added tokens: strings found in the text before it is split into words.

use crate::error::Result;

use super::class::{Classes, IS_SPACE};
use super::vocabulary::{TOKENS, invalid};

/// One added token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) id: u32,
    /// What is searched for; not empty.
    pub(super) text: String,
    /// Also swallows the spaces before it.
    pub(super) lstrip: bool,
}

/// A stretch of text, or an added token in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Text(&'t str),
    Token(u32),
}

/// Finds added tokens: at the leftmost place where one starts the longest one, then on from its end.
pub(super) struct Finder {
    /// Sorted by text.
    tokens: Vec<Added>,
    /// Range of `tokens` whose text starts with this byte.
    first: Vec<(u32, u32)>,
}

impl Finder {
    pub(super) fn new(mut tokens: Vec<Added>) -> Result<Self> {
        tokens.sort_by(|a, b| a.text.cmp(&b.text));
        if let Some([a, b]) = tokens.array_windows().find(|[a, b]| a.text == b.text) {
            let (a, b, text) = (a.id.min(b.id), a.id.max(b.id), &a.text);
            return Err(invalid(TOKENS, format!("added tokens {a} and {b} are both {text:?}")));
        }
        let starts =
            |bound: usize| tokens.partition_point(|t| t.text.bytes().next().is_some_and(|b| (b as usize) < bound));
        let first = (0..256).map(|byte| (starts(byte) as u32, starts(byte + 1) as u32)).collect();
        Ok(Self { tokens, first })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// What is searched for, sorted.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().map(|token| &*token.text)
    }

    /// Cuts `text` at the added tokens in it; pieces of text are never empty.
    pub(super) fn pieces<'t>(&self, text: &'t str, mut emit: impl FnMut(Piece<'t>)) {
        let mut done = 0;
        let mut at = 0;
        while !self.is_empty()
            && let Some(rest) = text.as_bytes().get(at..)
            && let Some(skip) = rest.iter().position(|&byte| self.range(byte).is_some())
        {
            at += skip;
            let Some(token) = rest.get(skip..).and_then(|rest| self.longest(rest)) else {
                at += 1;
                continue;
            };
            let mut before = text.get(done..at).unwrap_or_default();
            if token.lstrip {
                let classes = Classes::new();
                before = before.trim_end_matches(|c| classes.of(c) & IS_SPACE != 0);
            }
            if !before.is_empty() {
                emit(Piece::Text(before));
            }
            emit(Piece::Token(token.id));
            at += token.text.len();
            done = at;
        }
        let rest = text.get(done..).unwrap_or_default();
        if !rest.is_empty() {
            emit(Piece::Text(rest));
        }
    }

    fn range(&self, byte: u8) -> Option<(usize, usize)> {
        let &(start, end) = self.first.get(byte as usize)?;
        (start < end).then_some((start as usize, end as usize))
    }

    /// The longest token that `text` starts with. Tokens are UTF-8, so it ends where a character does.
    fn longest(&self, text: &[u8]) -> Option<&Added> {
        let (start, end) = self.range(*text.first()?)?;
        let mut candidates = self.tokens.get(start..end).unwrap_or_default();
        let mut best = None;
        for (depth, &byte) in text.iter().enumerate() {
            let at = |token: &Added| token.text.as_bytes().get(depth).copied();
            let start = candidates.partition_point(|token| at(token).is_none_or(|b| b < byte));
            let end = candidates.partition_point(|token| at(token).is_none_or(|b| b <= byte));
            candidates = candidates.get(start..end).unwrap_or_default();
            // A token that ends here sorts before all that go on.
            match candidates.first() {
                None => break,
                Some(token) if token.text.len() == depth + 1 => best = Some(token),
                Some(_) => {}
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(tokens: &[(&str, bool)]) -> Finder {
        let tokens = (0..).zip(tokens).map(|(id, &(text, lstrip))| Added { id, text: text.into(), lstrip });
        Finder::new(tokens.collect()).unwrap()
    }

    fn pieces<'t>(finder: &Finder, text: &'t str) -> Vec<Piece<'t>> {
        let mut out = Vec::new();
        finder.pieces(text, |piece| out.push(piece));
        out
    }

    #[test]
    fn the_leftmost_longest_token_wins() {
        use Piece::{Text, Token};
        let finder =
            finder(&[("\n", false), ("\n\n\n", false), ("<a>", false), ("<a>b", false), ("a>", false), ("[M]", true)]);
        assert_eq!(pieces(&finder, ""), []);
        assert_eq!(pieces(&finder, "\n\n"), [Token(0), Token(0)]);
        assert_eq!(pieces(&finder, "\n\n\n\n"), [Token(1), Token(0)]);
        assert_eq!(pieces(&finder, "x<a>b<a>"), [Text("x"), Token(3), Token(2)]);
        assert_eq!(pieces(&finder, "<<a>a>y"), [Text("<"), Token(2), Token(4), Text("y")]);
        assert_eq!(pieces(&finder, "x \u{a0}[M] [M]\n [M]"), [Text("x"), Token(5), Token(5), Token(0), Token(5)]);
        assert_eq!(pieces(&finder, "  [M] z"), [Token(5), Text(" z")]);
        assert_eq!(pieces(&finder, "[M"), [Text("[M")]);
    }

    #[test]
    fn one_text_cannot_be_two_tokens() {
        let twice =
            vec![Added { id: 3, text: "x".into(), lstrip: false }, Added { id: 1, text: "x".into(), lstrip: true }];
        let error = Finder::new(twice).err().unwrap();
        assert_eq!(error.to_string(), "key tokenizer.ggml.tokens: added tokens 1 and 3 are both \"x\"");
    }
}
