//! What a row needs from a tokenizer.

use crate::request::Request;
use crate::tokenizer::Tokenizer;
use std::borrow::Cow;

/// A tokenizer as far as rows are concerned.
pub trait Encode {
    /// The tokens of `text`, with no special tokens added around them.
    fn encode(&self, text: &str) -> Vec<u32>;
    /// The token a row starts with.
    fn cls(&self) -> u32;
    /// The token that ends the instructions, the options and the row.
    fn sep(&self) -> u32;
    /// The marker token in front of each option.
    fn mask(&self) -> u32;
    /// The text of the marker token, such as `[MASK]`.
    fn mask_text(&self) -> &str;
}

impl Encode for Tokenizer {
    fn encode(&self, text: &str) -> Vec<u32> {
        Self::encode(self, text)
    }
    fn cls(&self) -> u32 {
        self.special().cls
    }
    fn sep(&self) -> u32 {
        self.special().sep
    }
    fn mask(&self) -> u32 {
        self.special().mask
    }
    fn mask_text(&self) -> &str {
        Self::mask_text(self)
    }
}

/// `text` with every occurrence of the marker token's text replaced by one blank, from left to right: an input must
/// not be able to plant markers. The text of other special tokens is left as it is, as the published package does.
pub(super) fn without_mask_text<'a>(tokenizer: &(impl Encode + ?Sized), text: &'a str) -> Cow<'a, str> {
    let mask_text = tokenizer.mask_text();
    if mask_text.is_empty() || !text.contains(mask_text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(mask_text, " "))
}

/// The tokens of a state, computed once for all questions of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateTokens {
    /// The whole state, uncut. `[n_state_tokens]`
    pub ids: Vec<u32>,
    /// Whether the state is a list: a list loses its first tokens when it does not fit, anything else its last.
    pub is_list: bool,
}

impl StateTokens {
    /// Tokenizes the state of `request`.
    pub fn new(tokenizer: &(impl Encode + ?Sized), request: &Request) -> Self {
        let text = request.state_text();
        let ids = tokenizer.encode(&without_mask_text(tokenizer, &text));
        Self { ids, is_list: request.state_is_list() }
    }

    /// The part of the state that `room` tokens hold.
    pub(super) fn cut_to(&self, room: usize) -> &[u32] {
        let dropped = self.ids.len().saturating_sub(room);
        let (start, end) = if self.is_list { (dropped, self.ids.len()) } else { (0, self.ids.len() - dropped) };
        self.ids.get(start..end).unwrap_or_default()
    }
}

/// A tokenizer for tests: one token a character (its code point), except `[M]`, which is the marker text.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Letters(std::sync::atomic::AtomicUsize);

#[cfg(test)]
impl Letters {
    /// The number of texts since the last call.
    pub(super) fn n_texts(&self) -> usize {
        self.0.swap(0, std::sync::atomic::Ordering::Relaxed)
    }
}

#[cfg(test)]
impl Encode for Letters {
    fn encode(&self, text: &str) -> Vec<u32> {
        assert!(!text.contains("[M]"), "marker text reached the tokenizer: {text}");
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        text.chars().map(u32::from).collect()
    }
    fn cls(&self) -> u32 {
        1
    }
    fn sep(&self) -> u32 {
        2
    }
    fn mask(&self) -> u32 {
        3
    }
    fn mask_text(&self) -> &str {
        "[M]"
    }
}
