//! Specs written into model files: what they are afterwards, and that nothing else in the file is ever touched.

#![allow(clippy::unwrap_used, clippy::panic)]

mod damage;
mod interrupt;
mod meanwhile;
mod model;
#[path = "../mutation/mod.rs"]
mod mutation;
#[path = "../random/mod.rs"]
mod random;
mod refusal;
mod round;

use laya::spec::{self, Stamped};
use std::fs;
use std::path::Path;

/// Stamps without anybody watching.
fn stamp(path: &Path, out: Option<&Path>, text: &[u8], force: bool) -> laya::Result<Stamped> {
    spec::stamp(path, out, text, laya::kernels::NUMERIC_CONTRACT, force, &mut |_, _| {})
}

/// The names in a folder.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
