//! What is wrong with a spec, and the reading of its values that finds it.

use std::fmt;

use crate::error::{Error, ErrorKind};
use crate::json::{Number, Object, Value};

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The JSON path at fault, such as `calibration.temperature.choice.3-5`; empty for the text as a whole.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Problem {
    /// Keeps the ends of a path that is longer than anybody reads: keys are as long as a text makes them.
    pub(super) fn shorten(&mut self) {
        const ENDS: usize = 80;
        let n_chars = self.path.chars().count();
        if n_chars > 2 * ENDS + 1 {
            let (first, last) = (self.path.chars().take(ENDS), self.path.chars().skip(n_chars - ENDS));
            self.path = first.chain(['\u{2026}']).chain(last).collect();
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.escape_debug())?;
        }
        f.write_str(&self.message)
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let error = Self::new(ErrorKind::Spec, problem.message);
        if problem.path.is_empty() { error } else { error.at_path(problem.path) }
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(Problem { path: path.to_owned(), message: message.into() });
    }

    /// An object; `null` and absence are none.
    pub(super) fn object<'v>(&mut self, path: &str, value: Option<&'v Value>) -> Option<&'v Object> {
        let value = value.filter(|value| !value.is_null())?;
        if value.as_object().is_none() {
            self.add(path, format!("must be an object or null, not {}", shown(value)));
        }
        value.as_object()
    }

    /// Text; `null` and absence are none.
    pub(super) fn text<'v>(&mut self, path: &str, value: Option<&'v Value>) -> Option<&'v str> {
        let value = value.filter(|value| !value.is_null())?;
        if value.as_str().is_none() {
            self.add(path, format!("must be a text, not {}", shown(value)));
        }
        value.as_str()
    }

    /// One of several words, `default` when it is absent.
    pub(super) fn word<T: Copy>(&mut self, path: &str, value: Option<&Value>, default: T, words: &[(&str, T)]) -> T {
        let Some(value) = value else { return default };
        let known = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        known.map_or_else(
            || {
                let words: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                let words = match words.as_slice() {
                    [word] => word.clone(),
                    words => format!("one of {}", words.join(", ")),
                };
                self.add(path, format!("must be {words}, not {}", shown(value)));
                default
            },
            |(_, known)| *known,
        )
    }

    /// An integer that is not negative and fits 31 bits.
    pub(super) fn count(&mut self, path: &str, value: Option<&Value>) -> Option<u32> {
        let value = value?;
        let n = integer(value).and_then(|n| u32::try_from(n).ok()).filter(|&n| n <= i32::MAX as u32);
        if n.is_none() {
            self.add(path, format!("must be an integer from 0 to {}, not {}", i32::MAX, shown(value)));
        }
        n
    }

    /// A finite number.
    pub(super) fn number(&mut self, path: &str, value: Option<&Value>) -> Option<f64> {
        let found = match value {
            Some(Value::Number(n)) => Some(n.as_f64()),
            _ => None,
        };
        if found.is_none() {
            self.add(path, value.map_or("is missing; it must be a number".into(), |v| must("a number", v)));
        }
        found
    }
}

/// An integer that is written as one: `1.0` is none.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(Number::Int(n)) => Some(*n),
        _ => None,
    }
}

/// The path of `key` in the object at `path`.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

pub(super) fn must(be: &str, value: &Value) -> String {
    format!("must be {be}, not {}", shown(value))
}

/// A value as messages show it: JSON, cut short.
pub(super) fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.dumps();
    if text.chars().count() <= MOST {
        return text;
    }
    text.chars().take(MOST).chain(['\u{2026}']).collect()
}
