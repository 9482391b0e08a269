//! A corpus: the requests that backends are compared on.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::run_file::value;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::spec::hex;

/// A request of a corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its name, which no other has.
    pub id: String,
    /// What it is there for; empty when the corpus does not say.
    pub category: String,
    /// The request: `state`, `questions` and whatever else it has.
    pub body: Value,
}

impl Item {
    /// Number of its questions.
    pub fn n_questions(&self) -> usize {
        self.questions().count()
    }

    /// The names of its questions.
    pub(super) fn questions(&self) -> impl Iterator<Item = &str> {
        self.body.get("questions").and_then(Value::as_object).into_iter().flat_map(Object::keys)
    }

    /// Whether its state is null, which no backend needs to accept.
    pub fn has_null_state(&self) -> bool {
        self.body.get("state").is_none_or(Value::is_null)
    }

    /// Whether every letter of its state and questions is ASCII.
    pub fn is_english(&self) -> bool {
        let texts = ["state", "questions"].into_iter().filter_map(|key| self.body.get(key));
        texts.into_iter().all(|value| value.dumps().chars().all(|c| c.is_ascii() || !c.is_alphabetic()))
    }

    /// The item as a line of a corpus, without a line break.
    pub fn to_line(&self) -> String {
        let mut line = Object::new();
        line.insert("id", self.id.as_str());
        line.insert("cat", self.category.as_str());
        for (key, value) in self.body.as_object().into_iter().flat_map(Object::iter) {
            line.insert(key, value.clone());
        }
        Value::Object(line).dumps()
    }

    fn parse(line: &[u8]) -> Result<Self> {
        let Value::Object(mut body) = value(line)? else {
            return Err(Error::new(ErrorKind::Json, "must be an object with id, state and questions"));
        };
        let fault = |path: &str, message: &str| Err(Error::new(ErrorKind::Json, message).at_path(path));
        let Some(Value::String(id)) = body.remove("id") else {
            return fault("id", "must be the item's name, a text");
        };
        let category = match body.remove("cat") {
            None => String::new(),
            Some(Value::String(category)) => category,
            Some(_) => return fault("cat", "must be a text"),
        };
        if body.get("questions").and_then(Value::as_object).is_none() {
            return fault("questions", "must be an object of questions");
        }
        Ok(Self { id, category, body: Value::Object(body) })
    }
}

/// Items in order.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// The items.
    pub items: Vec<Item>,
    /// SHA-256 of the file they come from, in lower-case hex; of the whole file, whatever subset of it is run.
    pub sha256: String,
}

impl Corpus {
    /// Reads a corpus file: one item a line, `{"id", "cat", "state", "questions"}`; lines of blanks are passed over.
    ///
    /// # Errors
    /// The file cannot be read or a line is no item; the error names file, line and key.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::io("cannot read", path, &error))?;
        Self::parse(&bytes).map_err(|error| error.in_file(path))
    }

    /// Reads the bytes of a corpus file.
    ///
    /// # Errors
    /// As [`Corpus::read`], without a file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut items: Vec<Item> = Vec::new();
        let mut seen = HashSet::new();
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1_u64..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let item = Item::parse(line).map_err(|error| error.in_line(number))?;
            if !seen.insert(item.id.clone()) {
                let message = format!("the id {:?} is there twice", item.id);
                return Err(Error::new(ErrorKind::Json, message).in_line(number));
            }
            items.push(item);
        }
        if items.is_empty() {
            return Err(Error::new(ErrorKind::Json, "has no items; a corpus has one JSON object a line"));
        }
        Ok(Self { items, sha256: hex(&Sha256::digest(bytes)) })
    }

    /// The items of `subset`, in order.
    pub fn subset(&self, subset: Subset) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| subset == Subset::All || item.is_english())
    }
}

/// Which items of a corpus a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Subset {
    /// All.
    #[default]
    All,
    /// Those whose every letter is ASCII, for models of English.
    English,
}

impl Subset {
    /// Every subset.
    pub const ALL: [Self; 2] = [Self::All, Self::English];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::English => "english",
        }
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Subset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|subset| subset.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Usage, format!("unknown subset {text:?}; one of {all}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_what_a_request_has() {
        let text = "{\"id\": \"a\", \"cat\": \"c\", \"state\": 1.0, \"questions\": {\"q\": {}}, \"max_len\": 9}\n\n";
        let corpus = Corpus::parse(text.as_bytes()).unwrap();
        assert_eq!(corpus.items.len(), 1);
        let item = &corpus.items[0];
        assert_eq!((item.id.as_str(), item.category.as_str(), item.n_questions()), ("a", "c", 1));
        assert_eq!(item.to_line() + "\n\n", text);
        assert!(!item.has_null_state() && item.is_english());
    }

    #[test]
    fn letters_decide_what_is_english() {
        let item =
            |state: &str| Item::parse(format!(r#"{{"id": "a", "state": {state}, "questions": {{}}}}"#).as_bytes());
        assert!(item(r#""caf\u00e9""#).unwrap().body.get("state").is_some());
        assert!(!item(r#""caf\u00e9""#).unwrap().is_english());
        assert!(!item(r#"{"ключ": 1}"#).unwrap().is_english(), "keys count");
        assert!(item(r#""5 € — 👍🏽 …""#).unwrap().is_english(), "signs are no letters");
        assert!(item("null").unwrap().has_null_state());
    }

    #[test]
    fn a_broken_line_is_named() {
        let item = r#"{"id": "a", "state": 1, "questions": {}}"#;
        for (text, says) in [
            ("", "has no items"),
            ("{\"id\": \"a\", \"state\": 1}", "line 1: questions: must be"),
            (&format!("{item}\n\n{item}"), "line 3: the id \"a\" is there twice"),
            (&format!("{item}\n[]"), "line 2: must be an object"),
            (&format!("{item}\n{{\"id\": 3}}"), "line 2: id: must be"),
            (&format!("{item}\n{{\"id\""), "line 2: column 6:"),
        ] {
            let error = Corpus::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }
}
