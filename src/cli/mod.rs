//! Command-line front ends: one file a tool, shared argument groups, exit codes, progress.
//!
//! Standard output is data, stderr is for people. A tool does its work through [`crate::engine`] or
//! [`crate::convert`]; here are only arguments, files and the shape of what is printed.

pub mod answer;
pub mod bench;
mod cache;
pub mod cargo;
pub mod convert;
mod destination;
mod engine;
mod escape;
mod exit;
pub mod fit;
mod input;
mod line;
mod model;
mod output;
pub mod parity;
mod progress;
mod quantize;
mod queue;
#[cfg(test)]
mod sound;
pub mod spec;
mod stderr;
mod stdout;
mod stored;
mod stream;
mod synth;
mod table;
