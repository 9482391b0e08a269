//! The tokens of a question.

use super::Encode;
use super::encode::without_mask_text;
use crate::request::Question;

/// Most tokens of an option, its marker not counted.
const OPTION_TOKENS: usize = 48;

/// The tokens of a question's texts, before any budget cuts them: the same whatever the state and the budget are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionTokens {
    /// The type and the instructions, uncut. `[n_head_tokens]`
    pub(super) head: Vec<u32>,
    /// Each option: its marker and at most 48 tokens. `[n_options]`
    pub(super) options: Vec<Vec<u32>>,
    /// Whether an option lost tokens to that limit.
    pub(super) options_cut: bool,
}

impl QuestionTokens {
    /// Tokenizes `question`.
    pub fn new(tokenizer: &(impl Encode + ?Sized), question: &Question) -> Self {
        let instructions = without_mask_text(tokenizer, &question.instructions);
        let head = tokenizer.encode(&format!("{} question: {instructions}", question.kind.as_str()));
        let mut options_cut = false;
        let mut options = Vec::with_capacity(question.options.len());
        for text in &question.options {
            // The leading blank is part of the row's format: the option is read as the continuation of a text.
            let tokens = tokenizer.encode(&format!(" {}", without_mask_text(tokenizer, text)));
            options_cut |= tokens.len() > OPTION_TOKENS;
            options.push(std::iter::once(tokenizer.mask()).chain(tokens.into_iter().take(OPTION_TOKENS)).collect());
        }
        Self { head, options, options_cut }
    }

    /// Memory it takes, about.
    pub(super) fn n_bytes(&self) -> usize {
        let list = |ids: &Vec<u32>| size_of::<Vec<u32>>() + size_of_val(ids.as_slice());
        list(&self.head) + self.options.iter().map(list).sum::<usize>()
    }
}
