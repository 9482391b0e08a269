//! The start of a text, on one line.

/// At most `n` characters of `text`, with runs of blanks and line ends as one blank; `...` at the end when there is more.
pub(super) fn excerpt(text: &str, n: usize) -> String {
    let mut shown = String::new();
    let mut left = n;
    let mut waits = false;
    for c in text.trim().chars() {
        if c.is_whitespace() {
            waits = true;
            continue;
        }
        let needed = 1 + usize::from(waits);
        if left < needed {
            return shown + "...";
        }
        if waits {
            shown.push(' ');
        }
        shown.push(c);
        left -= needed;
        waits = false;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(excerpt("  a \n\t b  ", 3), "a b");
        assert_eq!(excerpt("a b", 2), "a...");
        assert_eq!(excerpt("Größe", 3), "Grö...");
        assert_eq!(excerpt("", 3), "");
        assert_eq!(excerpt("abc", 3), "abc");
        assert_eq!(excerpt("abc", 0), "...");
    }
}
