//! The tools as their users meet them: command transcripts, streams, exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod family;
mod fault;
mod fixture;
mod output;
mod stream;
mod transcript;
