//! Cuts as errors, for requests that ask for that.

use super::Sequence;
use crate::request::{Question, Reason, RequestError};

impl Sequence {
    /// Refuses a row that lost tokens of its options, its instructions or its state.
    ///
    /// # Errors
    /// [`Reason::OptionsTruncated`], [`Reason::PromptTooLong`] or [`Reason::StateTruncated`], in that order.
    pub fn require_whole(&self, question: &Question) -> Result<(), RequestError> {
        let facts = &self.facts;
        let id = question.shown_id();
        if facts.options_cut {
            let message = match facts.tokens_per_option {
                Some(cap) => format!("question {id}: its {} options only fit cut to {cap} tokens each", facts.options),
                None => format!("question {id}: an option is longer than the 48 tokens it may have"),
            };
            return Err(RequestError::new(Reason::OptionsTruncated, question.path(".criteria"), message));
        }
        if facts.head_cut {
            let message = format!("question {id}: the instructions do not fit beside the options; shorten them");
            return Err(RequestError::new(Reason::PromptTooLong, question.path(".instructions"), message));
        }
        if facts.state_cut {
            let message = format!(
                "question {id}: {} of the {} tokens of the state do not fit; shorten the state",
                facts.state_tokens_dropped(),
                facts.state_tokens
            );
            return Err(RequestError::new(Reason::StateTruncated, "state", message));
        }
        Ok(())
    }
}
