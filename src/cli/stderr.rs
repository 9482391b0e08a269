//! stderr: one line at a time, for people. That it cannot be written to never changes what a tool does.

pub(super) use super::escape::printable;
use std::io::Write as _;

/// Prints `tool: error: message`.
pub(super) fn error(tool: &str, message: &str) {
    line(&format!("{tool}: error: {message}"));
}

/// Prints `tool: note: message`.
pub(super) fn note(tool: &str, message: &str) {
    line(&format!("{tool}: note: {message}"));
}

/// Prints `text` as one line.
pub(super) fn line(text: &str) {
    // The result of the work is in its file or on standard output; a full disk under the log must not lose it.
    let _ = std::io::stderr().lock().write_all((printable(text) + "\n").as_bytes());
}

/// Prints `text`, made by the tool itself, as the lines it has.
pub(super) fn lines(text: &str) {
    text.lines().for_each(line);
}
