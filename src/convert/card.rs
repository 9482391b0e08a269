//! The front matter of a model card: the YAML subset that model cards use.
//!
//! Top-level keys with one-line scalars (plain, single or double quoted) and lists (flow or block) are read. What is
//! beyond that is an error for the keys the converter needs and skipped for all others.

use std::path::Path;

use super::config::side_text;
use crate::error::{Error, ErrorKind, Place, Result};

/// A value of the front matter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Yaml {
    Null,
    Text(String),
    /// A plain scalar that YAML reads as a boolean, a number or a date, as it is spelled.
    Plain(String),
    List(Vec<Yaml>),
    /// Something the subset does not cover.
    Beyond,
}

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
        let mut entries: Vec<Entry<'_>> = Vec::new();
        for (i, line) in lines.take_while(|line| *line != "---").enumerate() {
            let number = i as u64 + 2;
            if let Some(c) = line.chars().find(|&c| !printable(c)) {
                return Err(error(number, format!("the character U+{:04X} is not allowed in YAML", u32::from(c))));
            }
            let bare = line.trim_start_matches([' ', '\t']);
            if bare.is_empty() || bare.starts_with('#') {
                continue;
            }
            let continues = bare.len() < line.len() || bare == "-" || bare.starts_with("- ") || bare.starts_with(']');
            match entries.last_mut() {
                Some(entry) if continues => entry.more.push(line),
                _ => entries.push(Entry::new(line, number)?),
            }
        }
        let entries = entries.into_iter().map(|entry| (entry.key.clone(), entry.value(), entry.line)).collect();
        Ok(Self { entries })
    }
}

/// A top-level key with the lines that belong to it.
struct Entry<'a> {
    key: String,
    rest: &'a str,
    more: Vec<&'a str>,
    line: u64,
}

impl<'a> Entry<'a> {
    fn new(line: &'a str, number: u64) -> Result<Self> {
        let unsupported =
            || error(number, "the front matter is beyond the YAML this converter reads: want `key: value`");
        let (key, rest) = if line.starts_with(['"', '\'']) {
            let (key, rest) = quoted(line).ok_or_else(unsupported)?;
            (key, rest.trim_start().strip_prefix(':').ok_or_else(unsupported)?)
        } else {
            let at = line.find(": ").or_else(|| line.ends_with(':').then(|| line.len() - 1)).ok_or_else(unsupported)?;
            if line.starts_with(['{', '[', '&', '*', '!', '|', '>', '%', '@', '`', '?', '-']) {
                return Err(unsupported());
            }
            let (key, rest) = line.split_at(at);
            (key.trim_end().to_owned(), rest.get(1..).unwrap_or_default())
        };
        Ok(Self { key, rest: rest.trim(), more: Vec::new(), line: number })
    }

    fn value(&self) -> Yaml {
        let rest = no_comment(self.rest);
        if rest.starts_with('[') {
            let joined = self.more.iter().fold(rest.to_owned(), |text, line| text + " " + no_comment(line.trim()));
            return flow_list(&joined).unwrap_or(Yaml::Beyond);
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
            let item = no_comment(item.trim());
            // The field's reader rescues the country code of Norway from being a boolean here, and only here.
            if item == "no" && line.ends_with("- no") {
                return Some(Yaml::Text(item.to_owned()));
            }
            // A mapping or a list inside the list.
            let nested = item.starts_with(['{', '[']) || item.starts_with("- ") || is_mapping(item);
            Some(if nested { Yaml::Beyond } else { scalar(item) })
        });
        items.collect::<Option<Vec<_>>>().map(Yaml::List)
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

/// Cuts a comment off: ` #` outside quotes.
fn no_comment(text: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open && !(open == '"' && before == '\\') => quote = None,
            Some(_) => {}
            None if c == '#' && before.is_whitespace() => return text.get(..at).unwrap_or(text).trim_end(),
            // A quote opens only at the start of a scalar.
            None if matches!(c, '"' | '\'') && matches!(before, ' ' | '[' | ',') => quote = Some(c),
            None => {}
        }
        before = c;
    }
    text.trim_end()
}

/// Whether a plain text is `key: value`.
fn is_mapping(text: &str) -> bool {
    !text.starts_with(['"', '\'']) && (text.contains(": ") || text.ends_with(':'))
}

fn scalar(text: &str) -> Yaml {
    if text.starts_with(['"', '\'']) {
        return match quoted(text) {
            Some((text, rest)) if rest.trim().is_empty() => Yaml::Text(text),
            _ => Yaml::Beyond,
        };
    }
    let indicator = text.starts_with(['{', '[', ']', '}', ',', '#', '&', '*', '!', '|', '>', '%', '@', '`']);
    if indicator || is_mapping(text) || text.starts_with("? ") || text.starts_with("- ") {
        return Yaml::Beyond;
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Yaml::Null,
        _ if is_not_text(text) => Yaml::Plain(text.to_owned()),
        _ => Yaml::Text(text.to_owned()),
    }
}

/// `[a, 'b', "c"]` without nesting.
fn flow_list(text: &str) -> Option<Yaml> {
    let mut rest = text.strip_prefix('[')?.trim_start();
    let mut items = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            return after.trim().is_empty().then_some(Yaml::List(items));
        }
        let item;
        if rest.starts_with(['"', '\'']) {
            let (text, after) = quoted(rest)?;
            item = Yaml::Text(text);
            rest = after.trim_start();
        } else {
            let end = rest.find([',', ']', '[', '{', '}'])?;
            let (text, after) = rest.split_at(end);
            if after.starts_with(['[', '{', '}']) || text.trim().is_empty() {
                return None;
            }
            item = scalar(text.trim());
            rest = after;
        }
        items.push(item);
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.starts_with(']') => {}
            None => return None,
        }
    }
}

/// A quoted scalar at the start of `text`, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let open = text.chars().next()?;
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if open == '\'' && chars.next_if(|(_, next)| *next == '\'').is_some() => out.push('\''),
            _ if c == open => return Some((out, text.get(at + 1..)?)),
            '\\' if open == '"' => {
                let (_, escape) = chars.next()?;
                let digits = match escape {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => 0,
                };
                if digits == 0 {
                    out.push(escaped(escape)?);
                    continue;
                }
                let mut code = 0u32;
                for _ in 0..digits {
                    code = code.checked_mul(16)?.checked_add(chars.next()?.1.to_digit(16)?)?;
                }
                out.push(char::from_u32(code)?);
            }
            _ => out.push(c),
        }
    }
    None
}

fn escaped(c: char) -> Option<char> {
    Some(match c {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        ' ' | '"' | '/' | '\\' => c,
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        _ => return None,
    })
}

/// Whether YAML 1.1 reads a plain scalar as a boolean, a number or a date.
fn is_not_text(text: &str) -> bool {
    let words = ["yes", "no", "true", "false", "on", "off"];
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        text == word || text == word.to_uppercase() || text.strip_prefix(&first.to_uppercase()) == Some(rest)
    };
    if words.iter().any(|word| capital(word)) || matches!(text, "=" | "<<") {
        return true;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    // Numbers, sexagesimal numbers and dates start with a digit (or a point) and hold nothing else.
    let numeric = unsigned.starts_with(|c: char| c.is_ascii_digit())
        || unsigned.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let based = |prefix: &str, digits: &str| {
        unsigned.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| digits.contains(c)))
    };
    let date = || {
        let digits: Vec<usize> = text.split(['T', 't', ' ']).next().unwrap_or("").split('-').map(str::len).collect();
        let shape = matches!(digits.as_slice(), [4, 1..=2, 1..=2]);
        shape && text.chars().all(|c| c.is_ascii_digit() || "-:.TtZ+ ".contains(c))
    };
    let decimal = || {
        let exponent = unsigned.split_once(['e', 'E']).map(|(mantissa, exponent)| {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or("");
            mantissa.contains('.') && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
        });
        let mantissa = unsigned.split(['e', 'E']).next().unwrap_or("");
        let points = mantissa.matches('.').count();
        mantissa.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_' | ':'))
            && points <= 1
            && exponent != Some(false)
    };
    numeric && (based("0x", "0123456789abcdefABCDEF_") || based("0b", "01_") || date() || decimal())
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
        assert_eq!(get("nested"), Some(Yaml::Beyond));
        assert_eq!(get("map"), Some(Yaml::Beyond));
        assert_eq!(get("block"), Some(Yaml::Beyond));
        assert_eq!(get("multi"), Some(list(&["a", "b"])));
        assert_eq!(get("url"), Some(text("http://a.b/c:d")));
        assert_eq!(get("not"), None);
    }

    #[test]
    fn no_front_matter() {
        for readme in ["", "# title", "\u{feff}---\na: b\n---", " ---\na: b\n---"] {
            assert!(Card::parse(readme).unwrap().entries.is_empty(), "{readme:?}");
        }
    }

    #[test]
    fn plain_scalars() {
        for plain in ["no", "Yes", "OFF", "12", "-1.5", "1_000", "0x1F", "1.0e+5", "2024-01-02", "12:30", ".5", ".inf"]
        {
            assert_eq!(scalar(plain), Yaml::Plain(plain.into()));
        }
        for plain in ["nO", "v1.0", "1.2.3", "1e5", "a-b", "-", "0xZ", "3B", "2024-x-02", "apache-2.0"] {
            assert_eq!(scalar(plain), text(plain));
        }
    }

    #[test]
    fn errors_name_the_line() {
        let broken = Card::parse("---\na: b\njust text\n---").unwrap_err();
        assert_eq!(broken.place(), Some(&Place::Line(3)));
        let control = Card::parse("---\na: \u{1}\n---").unwrap_err();
        assert_eq!(control.place(), Some(&Place::Line(2)));
    }
}
