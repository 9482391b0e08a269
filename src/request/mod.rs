//! From a request body to typed questions, read exactly as the published package reads them.
//!
//! ```json
//! {"state": "Billed twice, please refund",
//!  "questions": {"refund": {"type": "noul", "instructions": "Asks for money back?"}}}
//! ```
//!
//! * `state`: any JSON value but `null`. A string is read as it is, everything else as its `json.dumps` text.
//! * `questions`: an object of question id -> `{"type", "instructions", "criteria", "labels"}`; see [`Question`].
//! * `truncation`: `"allow"` (the default) or `"error"`; see [`Truncation`].
//! * `max_len`, `head_max_len`: positive integers that replace the model's own budgets for this request.
//! * `id`: any value, given back with the answer. Every other key is ignored.
//!
//! The rules and the order they are checked in are those of the published package; the first broken rule is reported
//! as a [`RequestError`] with a [`Reason`] to match on, the JSON path at fault and a message.

mod body;
mod choice;
mod noul;
mod question;
mod reason;
mod score;

pub use body::{BudgetOverride, Limits, Request, Truncation};
pub use noul::is_blank;
pub use question::{Question, QuestionType};
pub use reason::{Reason, RequestError};
