//! The front matter of a model card: the YAML subset that model cards use.
//!
//! Top-level keys with one-line scalars (plain, single or double quoted) and lists (flow or block) are read. What is
//! beyond that is an error for the keys the converter needs and skipped for all others; where something skipped ends is
//! found by [`Scan`].

use std::path::Path;

use super::config::side_text;
use super::yaml::{Yaml, flow_list, is_mapping, quoted, scalar, trim};
use crate::error::{Error, ErrorKind, Place, Result};

/// The front matter of a README: keys and values, and the line each key is on.
#[derive(Debug, Default)]
pub(super) struct Card {
    entries: Vec<(String, Yaml, u64)>,
}

impl Card {
    /// Reads the front matter of `path`; no file or no front matter is an empty card.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let Some(text) = side_text(path)? else { return Ok(Self::default()) };
        Self::parse(&text).map_err(|e| e.in_file(path))
    }

    /// The value of `key` and its line.
    pub(super) fn get(&self, key: &str) -> Option<(&Yaml, u64)> {
        self.entries.iter().rev().find(|(name, ..)| name == key).map(|(_, value, line)| (value, *line))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = lines(text);
        if lines.next() != Some("---") {
            return Ok(Self::default());
        }
        let mut entries: Vec<Entry> = Vec::new();
        let mut scan = Scan::Node;
        for (i, line) in lines.take_while(|line| *line != "---").enumerate() {
            let number = i as u64 + 2;
            if let Some(c) = line.chars().find(|&c| !printable(c)) {
                return Err(error(number, format!("the character U+{:04X} is not allowed in YAML", u32::from(c))));
            }
            // YAML skips a mark at its start.
            let line = if i == 0 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
            let line = prepared(line);
            let bare = line.trim_start_matches(' ');
            let open = scan.is_open();
            if !open && (bare.is_empty() || bare.starts_with('#')) {
                scan = scan.after_comment(bare.is_empty());
                continue;
            }
            let indented = bare.len() < line.len();
            let closes = open && bare.starts_with([']', '}']);
            if open && !indented && !bare.is_empty() && !closes {
                return Err(error(number, "goes on with a value of the lines before it; indent it"));
            }
            let continues = open || indented || bare == "-" || bare.starts_with("- ");
            match entries.last_mut() {
                Some(entry) if continues => {
                    entry.over_lines |= scan.is_quote() || bare.is_empty();
                    let end;
                    (scan, end) = scan.line(&line);
                    entry.more.push(line.get(..end).unwrap_or_default().to_owned());
                }
                None if continues => return Err(error(number, "the front matter must start with a key at the margin")),
                _ => {
                    let end;
                    (scan, end) = Scan::Node.line(&line);
                    entries.push(Entry::new(line.get(..end).unwrap_or_default(), number)?);
                }
            }
        }
        let entries = entries.into_iter().map(|entry| (entry.key.clone(), entry.value(), entry.line)).collect();
        Ok(Self { entries })
    }
}

/// A line as the field's reader hands it to YAML: the country code of Norway is kept from being a boolean at the end of a
/// line, and a tab is two spaces.
fn prepared(line: &str) -> String {
    let norway = line.strip_suffix("- no").map(|before| format!("{before}- \"no\""));
    norway.as_deref().unwrap_or(line).replace('\t', "  ")
}

/// A top-level key with the lines that belong to it.
struct Entry {
    key: String,
    rest: String,
    more: Vec<String>,
    /// A quoted text goes over a line's end, or a line is empty.
    over_lines: bool,
    line: u64,
}

impl Entry {
    /// Reads a line without its comment.
    fn new(line: &str, number: u64) -> Result<Self> {
        let line = line.trim_end_matches(' ');
        let unsupported =
            || error(number, "the front matter is beyond the YAML this converter reads: want `key: value`");
        let (key, rest) = if line.starts_with(['"', '\'']) {
            let (key, rest) = quoted(line).ok_or_else(unsupported)?;
            let rest = trim(rest).strip_prefix(':').ok_or_else(unsupported)?;
            if !(rest.is_empty() || rest.starts_with(' ')) {
                return Err(unsupported());
            }
            (key, rest)
        } else {
            let at = line.find(": ").or_else(|| line.ends_with(':').then(|| line.len() - 1)).ok_or_else(unsupported)?;
            if line.starts_with(['{', '}', '[', ']', ',', '#', '&', '*', '!', '|', '>', '%', '@', '`', '?', '-', ':']) {
                return Err(unsupported());
            }
            let (key, rest) = line.split_at(at);
            (trim(key).to_owned(), rest.get(1..).unwrap_or_default())
        };
        if key == "<<" {
            return Err(error(number, "the key << takes keys from elsewhere; write them out"));
        }
        Ok(Self { key, rest: trim(rest).to_owned(), more: Vec::new(), over_lines: false, line: number })
    }

    fn value(&self) -> Yaml {
        let rest = self.rest.as_str();
        if rest.starts_with('[') {
            let joined = self.more.iter().fold(rest.to_owned(), |text, line| text + " " + trim(line));
            return flow_list(&joined).filter(|_| !self.over_lines).unwrap_or(Yaml::Beyond);
        }
        match (rest.is_empty(), self.more.is_empty()) {
            (_, true) => scalar(rest),
            (false, false) => Yaml::Beyond,
            (true, false) => self.block_list().unwrap_or(Yaml::Beyond),
        }
    }

    /// `- item` lines, all indented alike.
    fn block_list(&self) -> Option<Yaml> {
        let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let first = indent(self.more.first()?);
        let items = self.more.iter().map(|line| {
            let item = line.trim_start_matches(' ').strip_prefix('-').filter(|_| indent(line) == first)?;
            (item.is_empty() || item.starts_with(' ')).then(|| scalar(trim(item)))
        });
        items.collect::<Option<Vec<_>>>().map(Yaml::List)
    }
}

/// What the end of a line leaves open, so that it is known where the next key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    /// A node of the block structure starts.
    Node,
    /// A plain text, which goes on in lines indented beyond this column.
    Plain(usize),
    /// A `|` or `>` text, whose lines are indented beyond this column.
    Literal(usize),
    /// Inside brackets: how deep, whether a plain text may go on.
    Flow(usize, bool),
    /// Inside a quoted text, and how deep in brackets.
    Quote(char, usize),
}

impl Scan {
    fn is_open(self) -> bool {
        matches!(self, Self::Flow(..) | Self::Quote(..))
    }

    fn is_quote(self) -> bool {
        matches!(self, Self::Quote(..))
    }

    /// Nothing goes on after a comment but the lines of a `|` text, and those and a plain text go on after an empty line.
    fn after_comment(self, is_empty: bool) -> Self {
        match self {
            Self::Plain(_) if !is_empty => Self::Node,
            other => other,
        }
    }

    /// What is open after `line`, and where its comment starts, if not at its end.
    fn line(self, line: &str) -> (Self, usize) {
        let indent = line.len() - line.trim_start_matches(' ').len();
        match self {
            Self::Plain(column) | Self::Literal(column) if indent > column => return (self, line.len()),
            _ => {}
        }
        let (mut depth, mut quote, mut in_text) = match self {
            Self::Flow(depth, in_text) => (depth, None, in_text),
            Self::Quote(quote, depth) => (depth, Some(quote), false),
            _ => (0, None, false),
        };
        // Column of the innermost key or dash of the block structure, and of a quoted text.
        let (mut column, mut quote_column) = (indent, indent);
        // A text can go on in the next line only if it is plain.
        let mut plain = false;
        let mut end = line.len();
        let mut chars = line.char_indices().peekable();
        let mut before = ' ';
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map_or(' ', |&(_, next)| next);
            let in_flow = depth > 0;
            match (quote, c) {
                (Some('"'), '\\') => drop(chars.next()),
                (Some('\''), '\'') if next == '\'' => drop(chars.next()),
                (Some(open), _) if c == open => {
                    (quote, in_text, plain) = (None, true, false);
                    if !in_flow && next == ':' {
                        column = quote_column;
                    }
                }
                (Some(_), _) | (None, ' ') => {}
                (None, '#') if before == ' ' => {
                    (end, plain) = (at, false);
                    break;
                }
                (None, ':') if next == ' ' || in_flow && (matches!(before, '"' | '\'') || ",[]{}".contains(next)) => {
                    (in_text, plain) = (false, false);
                }
                (None, '[' | '{') if !in_text || in_flow => (depth, in_text) = (depth + 1, false),
                (None, ']' | '}') if in_flow => (depth, in_text, plain) = (depth - 1, true, false),
                (None, ',') if in_flow => in_text = false,
                _ if in_text => {}
                (None, '"' | '\'') => (quote, quote_column) = (Some(c), at),
                (None, '-' | '?') if next == ' ' && !in_flow => column = at,
                // A property of the node that follows, or a name for another: its word is skipped.
                (None, '&' | '!' | '*') => {
                    while chars.next_if(|(_, c)| *c != ' ' && !(in_flow && ",[]{}".contains(*c))).is_some() {}
                    in_text = c == '*';
                }
                (None, '|' | '>') if !in_flow => return (Self::Literal(column), end),
                _ => {
                    (in_text, plain) = (true, true);
                    if !in_flow && is_mapping(line.get(at..).unwrap_or_default()) {
                        column = at;
                    }
                }
            }
            before = c;
        }
        let open = match (quote, depth) {
            (Some(quote), depth) => Self::Quote(quote, depth),
            (None, 0) if plain => Self::Plain(column),
            (None, 0) => Self::Node,
            (None, depth) => Self::Flow(depth, in_text),
        };
        (open, end)
    }
}

fn error(line: u64, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Checkpoint, message).at(Place::Line(line))
}

/// Lines as Python's `splitlines` cuts them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.filter(|text| !text.is_empty())?;
        let end =
            text.find(['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}']);
        let Some(end) = end else {
            rest = None;
            return Some(text);
        };
        let (line, after) = text.split_at(end);
        let newline = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        rest = after.get(newline..);
        Some(line)
    })
}

/// The characters YAML allows.
fn printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Yaml {
        Yaml::Text(text.into())
    }

    fn list(items: &[&str]) -> Yaml {
        Yaml::List(items.iter().map(|item| text(item)).collect())
    }

    #[test]
    fn what_model_cards_hold() {
        let card = Card::parse(concat!(
            "---\r\n",
            "license: apache-2.0   # a comment\n",
            "tags: [laya, 'quoted tag', \"a, b\"] # more\n",
            "language:\n- en\n- no\n- 'it''s'\n",
            "datasets:\n  - a/b\n  # comment\n  - https://x.y/z#frag\n",
            "description: \"a \\u00e9 \\\"q\\\" \\x41\"\n",
            "\"model_name\": The Name\n",
            "version: 1.0\n",
            "empty:\nnothing: ~\n",
            "nested:\n  - name: x\n    results: []\n",
            "map: {a: b}\n",
            "block: |\n  text\n",
            "multi: [a,\n  b,\n]\n",
            "url: http://a.b/c:d\n",
            "author: it 's # quoted\n",
            "dash:\n  -a\n",
            "license: mit\n",
            "---\n# title\nnot: read\n"
        ))
        .unwrap();
        let get = |key| card.get(key).map(|(value, _)| value.clone());
        assert_eq!(get("license"), Some(text("mit")));
        assert_eq!(get("tags"), Some(list(&["laya", "quoted tag", "a, b"])));
        assert_eq!(get("language"), Some(list(&["en", "no", "it's"])));
        assert_eq!(get("datasets"), Some(list(&["a/b", "https://x.y/z#frag"])));
        assert_eq!(get("description"), Some(text("a \u{e9} \"q\" A")));
        assert_eq!(get("model_name"), Some(text("The Name")));
        assert_eq!(get("version"), Some(Yaml::Plain("1.0".into())));
        assert_eq!(get("empty"), Some(Yaml::Null));
        assert_eq!(get("nothing"), Some(Yaml::Null));
        for beyond in ["nested", "map", "block", "dash"] {
            let value = get(beyond).unwrap();
            let nested = matches!(&value, Yaml::List(items) if items.contains(&Yaml::Beyond));
            assert!(value == Yaml::Beyond || nested, "{beyond}: {value:?}");
        }
        assert_eq!(get("multi"), Some(list(&["a", "b"])));
        assert_eq!(get("url"), Some(text("http://a.b/c:d")));
        assert_eq!(get("author"), Some(text("it 's")));
        assert_eq!(get("not"), None);
    }

    #[test]
    fn no_front_matter() {
        for readme in ["", "# title", "\u{feff}---\na: b\n---", " ---\na: b\n---"] {
            assert!(Card::parse(readme).unwrap().entries.is_empty(), "{readme:?}");
        }
    }

    #[test]
    fn what_a_line_leaves_open() {
        let scan = |lines: &[&str]| lines.iter().fold(Scan::Node, |scan, line| scan.line(line).0);
        for (lines, want) in [
            (&["a: b"][..], Scan::Plain(0)),
            (&["a: b # c"], Scan::Node),
            (&["a: 'b'"], Scan::Node),
            (&["a: 'b''"], Scan::Quote('\'', 0)),
            (&["a: \"b\\\""], Scan::Quote('"', 0)),
            (&["a: b 'c"], Scan::Plain(0)),
            (&["- a: |"], Scan::Literal(2)),
            (&["- 'a': >-"], Scan::Literal(2)),
            (&["- |"], Scan::Literal(0)),
            (&["- a: |", "    'x", "  b: 'y"], Scan::Quote('\'', 0)),
            (&["a: b", "  'c"], Scan::Plain(0)),
            (&["a:", "  'c"], Scan::Quote('\'', 0)),
            (&["a: [b, {c: 'd"], Scan::Quote('\'', 2)),
            (&["a: [b, {c: 'd'}"], Scan::Flow(1, true)),
            (&["a: [b", "  'c', d]"], Scan::Node),
            (&["a: {\"b\":'c"], Scan::Quote('\'', 1)),
            (&["a: &x !y 'c"], Scan::Quote('\'', 0)),
        ] {
            assert_eq!(scan(lines), want, "{lines:?}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (card, line) in [
            ("---\na: b\njust text\n---", 3),
            ("---\na: \u{1}\n---", 2),
            ("---\n  a: b\n---", 2),
            ("---\na: \"b\nlicense: c\n\"\n---", 3),
            ("---\na: {b: c,\nlicense: d}\n---", 3),
            ("---\na:\n  - 'b\nlicense: d\n---", 4),
            ("---\n<<: {license: b}\n---", 2),
            ("---\n\"license\":mit\n---", 2),
            ("---\n...\n---", 2),
        ] {
            let error = Card::parse(card).map(|_| ()).unwrap_err();
            assert_eq!(error.place(), Some(&Place::Line(line)), "{card:?}");
        }
    }
}
