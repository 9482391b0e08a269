//! The tools as their users meet them: command transcripts, streams, exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod cache;
#[path = "../checkpoint/mod.rs"]
mod checkpoint;
#[path = "../dump/mod.rs"]
mod dump;
mod family;
mod fault;
mod fit;
mod fixture;
#[path = "../gate/mod.rs"]
mod gate;
#[path = "../large/mod.rs"]
mod large;
mod layers;
mod output;
mod parity_gate;
mod spec;
mod stream;
mod transcript;
