//! From logits to answers.
//!
//! A logit is an F32 of the model; everything from there on is F64 with exponentials and logarithms of one pure-Rust
//! implementation, so an answer has the same bits on every machine.
//!
//! * [`crate::spec::Calibration`] has the temperature of a question, [`confidence`] the formulas a spec can choose.
//! * [`Answer`] holds unrounded numbers; [`Answer::to_json_rounded`] is the published package's shape with its four
//!   digits and [`Answer::to_json`] the same keys unrounded.
//! * [`Usage`] counts tokens and names the questions whose options read the same to the model.

mod answer;
mod probability;
mod round;
mod usage;

pub use answer::{Answer, first_largest};
pub use probability::{concentration, confidence, softmax};
pub use round::round_to_4_digits;
pub use usage::{CollapsedOptions, Usage};
