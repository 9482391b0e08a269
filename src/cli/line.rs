//! Lines of an input, one at a time and of bounded length.

use std::io::{self, BufRead};

/// Longest line in bytes, without its line break.
pub(super) const MAX_LINE_BYTES: usize = super::input::MAX_REQUEST_BYTES;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Its bytes, without the line break and, at the start of the input, without one byte order mark.
    Bytes(Vec<u8>),
    /// It has more bytes than allowed; they were read past, not kept.
    TooLong,
}

/// Reads lines; `\n` and `\r\n` end one, and the last one may lack its end.
pub(super) struct Lines<R> {
    from: R,
    max_bytes: usize,
    position: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R, max_bytes: usize) -> Self {
        Self { from, max_bytes, position: 0 }
    }

    /// Bytes of the input read so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The next line, `None` at the end of the input. It waits for the end of a line and for nothing after it.
    pub(super) fn read(&mut self) -> io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        let start = self.position;
        let mut too_long = false;
        loop {
            let chunk = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if chunk.is_empty() {
                break;
            }
            let end = chunk.iter().position(|b| *b == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            // One byte more than allowed may be the `\r` of the line break, three the byte order mark.
            if bytes.len() + part.len() > self.max_bytes.saturating_add(1 + BYTE_ORDER_MARK.len()) {
                too_long = true;
                bytes = Vec::new();
            }
            if !too_long {
                bytes.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.from.consume(used);
            self.position += used as u64;
            if end.is_some() {
                break;
            }
        }
        if self.position == start {
            return Ok(None);
        }
        if start == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
        Ok(Some(if too_long || bytes.len() > self.max_bytes { Line::TooLong } else { Line::Bytes(bytes) }))
    }
}

/// What is wrong with a line that is too long.
pub(super) fn too_long() -> String {
    format!("the line is longer than {} MiB", MAX_LINE_BYTES >> 20)
}

/// Whether a line holds nothing but white space.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Whether a line starts with a byte order mark, which belongs at the start of an input only.
pub(super) fn has_byte_order_mark(line: &[u8]) -> bool {
    line.starts_with(BYTE_ORDER_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor, Read};

    fn lines_of(input: &[u8], max_bytes: usize, buffer: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, Cursor::new(input)), max_bytes);
        std::iter::from_fn(|| lines.read().unwrap()).collect()
    }

    fn bytes(text: &str) -> Line {
        Line::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn line_ends_and_the_mark_at_the_start() {
        for buffer in [1, 2, 3, 64] {
            assert_eq!(lines_of(b"", 9, buffer), []);
            assert_eq!(lines_of(b"a\n\nb\r\nc", 9, buffer), [bytes("a"), bytes(""), bytes("b"), bytes("c")]);
            assert_eq!(lines_of(b"a\n", 9, buffer), [bytes("a")]);
            let marked = b"\xEF\xBB\xBFa\n\xEF\xBB\xBFb\n";
            assert_eq!(lines_of(marked, 9, buffer), [bytes("a"), bytes("\u{feff}b")]);
            assert_eq!(lines_of(b"\xEF\xBB\xBF\xEF\xBB\xBFa", 9, buffer), [bytes("\u{feff}a")]);
        }
    }

    #[test]
    fn a_line_too_long_is_read_past() {
        for buffer in [1, 3, 64] {
            assert_eq!(
                lines_of(b"12345\n1234\r\n123456789\nx\n", 4, buffer),
                [Line::TooLong, bytes("1234"), Line::TooLong, bytes("x"),]
            );
            assert_eq!(lines_of(b"\xEF\xBB\xBF1234\r\n", 4, buffer), [bytes("1234")]);
        }
    }

    #[test]
    fn a_line_too_long_is_not_kept_in_memory() {
        let endless = io::repeat(b'x').take(1 << 20).chain(Cursor::new(b"\nlast"));
        let mut lines = Lines::new(BufReader::new(endless), 16);
        assert_eq!(lines.read().unwrap(), Some(Line::TooLong));
        assert_eq!(lines.read().unwrap(), Some(bytes("last")));
        assert_eq!(lines.read().unwrap(), None);
    }

    #[test]
    fn blank_is_white_space_only() {
        assert!(is_blank(b"") && is_blank(b" \t") && !is_blank(b" x"));
    }
}
