//! Configuration, weights and the forward pass.
//!
//! `[CLS] question [SEP] [MASK] option ... [SEP] state [SEP]` goes through the encoder, a type embedding is added, the
//! decision head mixes once more, and every option is scored at its marker.

pub mod config;
pub mod control;
pub mod decision;
mod encoder;
pub mod forward;
mod scratch;
pub mod trace;
pub mod weight;

pub use config::Config;
pub use control::Control;
pub use forward::{BATCH_TOKENS, Logits, Model, Row};
pub use trace::{Phase, Stage, Trace};
