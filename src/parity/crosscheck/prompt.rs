//! What the backends continue.

use std::path::Path;

use crate::error::{Error, ErrorKind, Place, Result};

/// Prompts for when none are given: prose, a list, code, arithmetic, a table, a letter, another language.
pub const BUILT_IN: [&str; 8] = [
    "The lighthouse keeper climbed the stairs because",
    "The four seasons are spring,",
    "def largest(numbers):",
    "17 + 25 =",
    "name,age\nMira,31\n",
    "Dear neighbours, the water will be turned off on",
    "Bread is made from flour, water, salt and",
    "Die Hauptstadt von Italien ist",
];

/// Most bytes of a file of prompts.
const MAX_BYTES: u64 = 16 << 20;

/// The prompts in a file, one a line; empty lines are none.
///
/// # Errors
/// It cannot be read, is too long, is not UTF-8 or has no prompt.
pub fn read_prompts(path: &Path) -> Result<Vec<String>> {
    let io = |error| Error::io("cannot read", path, &error);
    let bytes = super::recording::read_within(path, MAX_BYTES).map_err(io)?;
    let fault = |message: String| Error::new(ErrorKind::Request, message).in_file(path);
    if bytes.len() as u64 > MAX_BYTES {
        return Err(fault(format!("is larger than {} MiB, the most a file of prompts may be", MAX_BYTES >> 20)));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        fault("is not UTF-8".into()).at(Place::Line(line))
    })?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let prompts: Vec<_> = lines.map(str::to_owned).collect();
    if prompts.is_empty() {
        return Err(fault("has no prompt; write one a line".into()));
    }
    Ok(prompts)
}
