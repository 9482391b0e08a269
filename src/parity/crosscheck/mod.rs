//! Generative backends against each other, by token ids.
//!
//! Two questions, two experiments. *Is the forward pass right?* The baseline's own tokens are replayed through the
//! candidate, and at every position its most probable token is compared with the baseline's ([`agreements`]): a near tie
//! that breaks the other way costs one position. *Does free generation match?* Both generate greedily, and the first
//! token that differs is judged by how much less probable the baseline finds it than its own ([`prefixes`]): after a near tie two correct programs
//! write different texts.
//!
//! Text is never compared: one token may be written in more than one way, and several tokens in the same way.

mod backend;
mod judge;
mod prompt;
mod recording;

pub use backend::Backend;
pub use judge::{Agreement, Disagreement, Prefix, agreements, check_baseline, check_candidate, prefixes, rate};
pub use prompt::{BUILT_IN, read_prompts};
pub use recording::{Mode, Passage, Recording, Step};
