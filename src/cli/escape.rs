//! Text of a file as it may be shown: nothing in it drives a terminal, breaks a line or turns its direction.

/// Whether `c` would act on what shows it instead of being shown: control characters, and those that end lines or turn
/// the direction of the text after them.
pub(super) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with such characters spelled out as `\u{1b}`, for one line.
pub(super) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if acts(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

/// Bytes of a string as text: everything that is not shown as itself is escaped, the backslash too, so that different
/// bytes never look alike.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            // Nothing here stands in single quotation marks.
            if c == '\'' { text.push(c) } else { text.extend(c.escape_debug()) }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// JSON with such characters spelled out as `\u001b`: the same value. Line breaks stay, which JSON has between its parts
/// only.
pub(super) fn json(json: String) -> String {
    let is_spelled = |c: char| acts(c) && c != '\n';
    // Nearly always there is nothing to do, and a stream of answers has many.
    if !json.contains(is_spelled) {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_spelled(c) {
            // All of them have one unit.
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clears the screen; a C1 control; turns the direction; ends a line.
    const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{202e}b\u{2066}\r\n\u{2028}\u{7f}\u{0}я\u{1f642}";

    #[test]
    fn nothing_that_acts_is_left() {
        for shown in [printable(HOSTILE), text(HOSTILE.as_bytes()), json(crate::json::Value::from(HOSTILE).dumps())] {
            assert!(!shown.contains(acts), "{shown:?}");
            assert!(shown.contains("я\u{1f642}"), "{shown:?}");
        }
        assert_eq!(printable("a\nb\u{1b}[31mя"), "a\\nb\\u{1b}[31mя");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = crate::json::Value::from(HOSTILE);
        assert_eq!(crate::json::parse(json(value.dumps()).as_bytes()).unwrap(), value);
        assert_eq!(json("[\n1\n]".into()), "[\n1\n]");
    }

    #[test]
    fn bytes_that_differ_look_different() {
        let texts = [&b"\xff"[..], b"\\xff", b"a\xe2\x96b", "\u{2581}".as_bytes(), b"\\", b"\"", b"\n"].map(text);
        assert_eq!(texts, ["\\xff", "\\\\xff", "a\\xe2\\x96b", "\u{2581}", "\\\\", "\\\"", "\\n"]);
    }
}
