//! Where in a document a byte lies.

/// The path of the value that the byte at `offset` of `text` belongs to, such as `calibration.clamp[1]`; empty for the
/// document itself.
///
/// The text need not be JSON after that byte, and should be before it: this is for saying where a reader stopped.
pub fn path_at(text: &[u8], offset: usize) -> String {
    let mut steps: Vec<Step> = Vec::new();
    let mut at = 0;
    while at < offset {
        match text.get(at) {
            Some(b'"') => {
                let end = string_end(text, at);
                // A key until a colon or a comma follows: a string value is never looked at as one.
                if let Some(Step::Key { name, in_value: false }) = steps.last_mut() {
                    *name = text.get(at + 1..end.saturating_sub(1)).unwrap_or_default().to_vec();
                }
                if end > offset {
                    break;
                }
                at = end;
                continue;
            }
            Some(b'{') => steps.push(Step::Key { name: Vec::new(), in_value: false }),
            Some(b'[') => steps.push(Step::Item(0)),
            Some(b'}' | b']') => {
                steps.pop();
            }
            Some(b':') => {
                if let Some(Step::Key { in_value, .. }) = steps.last_mut() {
                    *in_value = true;
                }
            }
            Some(b',') => match steps.last_mut() {
                Some(Step::Key { name, in_value }) => {
                    name.clear();
                    *in_value = false;
                }
                Some(Step::Item(i)) => *i += 1,
                None => {}
            },
            None => break,
            Some(_) => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for step in &steps {
        match step {
            Step::Key { name, .. } if name.is_empty() => {}
            Step::Key { name, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&String::from_utf8_lossy(name));
            }
            Step::Item(i) => path.push_str(&format!("[{i}]")),
        }
    }
    path
}

enum Step {
    /// A member of an object: its key as written, and whether its colon was passed.
    Key { name: Vec<u8>, in_value: bool },
    /// An item of an array.
    Item(usize),
}

/// One past the closing quote of the string that starts at `start`, or the end of the text.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match text.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            Some(_) => at += 1,
            None => return text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_marked_value_has_its_path() {
        let text = r#"{"a": @, "b": {"c\"}": [1, [@], "x, [y", {"d": "@"}], "e:": @}, "f": [@, @], "": @}"#;
        let marks: Vec<_> = text.bytes().enumerate().filter(|(_, b)| *b == b'@').map(|(i, _)| i).collect();
        let paths: Vec<_> = marks.iter().map(|&at| path_at(text.as_bytes(), at)).collect();
        assert_eq!(paths, ["a", r#"b.c\"}[1][0]"#, r#"b.c\"}[3].d"#, "b.e:", "f[0]", "f[1]", ""]);
        assert_eq!(path_at(text.as_bytes(), 0), "");
        assert_eq!(path_at(b"[1, 2", 100), "[1]");
    }

    #[test]
    fn no_text_is_too_broken() {
        let text = b"{\"a\": [}]],:{\"\\\" \xff{[";
        for end in 0..=text.len() {
            for offset in 0..=end + 1 {
                path_at(&text[..end], offset);
            }
        }
    }

    #[test]
    fn a_number_that_is_none_is_found() {
        for number in ["NaN", "Infinity", "-Infinity", "1e400", "123456789012345678901234567890"] {
            let text = format!(r#"{{"t": {{"all": [1, {number}]}}}}"#);
            let error = crate::json::parse(text.as_bytes()).unwrap_err();
            assert_eq!(path_at(text.as_bytes(), error.offset), "t.all[1]");
        }
    }
}
