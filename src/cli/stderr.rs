//! stderr: one line at a time, for people. That it cannot be written to never changes what a tool does.

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

/// `text` with its control characters spelled out, for one line here or on standard output. It may quote a file or its
/// name: it must neither break the line nor drive the terminal.
pub(super) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_one_line() {
        assert_eq!(printable("a\nb\u{1b}[31mя"), "a\\nb\\u{1b}[31mя");
    }
}
