//! The local toolbox for decision models.
//!
//! A *decision model* is a small encoder (ModernBERT or mmBERT) with a decision head. It answers typed questions
//! (`choice`, `score`, `noul`) about a text or a JSON state with calibrated probabilities, in one forward pass and
//! without generating text.
//!
//! ```text
//! checkpoint directory --convert--> GGUF file
//!                                     |
//! text/JSON -> request -> sequence -> model -> readout -> answer
//!                                              |
//! labelled data --calibrate--> decision.spec --+
//! ```
//!
//! [`engine`] is the only door to that path; the command-line tools in [`cli`] call nothing below it to get an answer.

pub mod bench;
pub mod calibrate;
pub mod cli;
pub mod convert;
pub mod engine;
pub mod error;
pub mod gguf;
pub mod json;
pub mod kernels;
pub mod layout;
pub mod model;
pub mod parity;
pub mod readout;
pub mod request;
mod safetensors;
pub mod schema;
pub mod sequence;
pub mod spec;
pub mod tokenizer;

pub use error::{Error, ErrorKind, Result};
