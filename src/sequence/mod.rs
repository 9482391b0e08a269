//! From a question and a state to the row of tokens a model reads.
//!
//! ```text
//! [CLS] <type> question: <instructions> [SEP] [MASK] <option 0> [MASK] <option 1> … [SEP] <state> [SEP]
//! ```
//!
//! The model scores each option at its `[MASK]`, the *marker*. A row is at most [`Budget::max_len`] tokens long;
//! instructions and options share [`Budget::head_max_len`] of them and the state gets what is left.

mod budget;
mod cache;
mod cut;
mod encode;
mod question;
mod row;

pub use budget::Budget;
pub use cache::QuestionCache;
pub use encode::{Encode, StateTokens};
pub use question::QuestionTokens;
pub use row::{Facts, Sequence, assemble, build};
