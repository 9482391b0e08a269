//! The one error type of the library: what is wrong, where it is, and what to do about it.
//!
//! There are no exit codes and no HTTP statuses here: [`crate::cli`] maps outcomes to exit codes.

use std::fmt;
use std::path::{Path, PathBuf};

/// What kind of thing went wrong. Callers match on this; people read the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused: missing file, permission, full disk.
    Io,
    /// Text that is not the JSON this project reads (see [`crate::json`]).
    Json,
    /// A file that is not a well-formed GGUF.
    Gguf,
    /// A checkpoint directory that cannot be converted.
    Checkpoint,
    /// A vocabulary that no tokenizer of this family can be built from.
    Tokenizer,
    /// A request the model cannot be asked (missing state, bad question, ...).
    Request,
    /// A well-formed GGUF that is not a usable decision model.
    Model,
    /// A `decision.spec` that breaks a rule, or that was made for something else.
    Spec,
    /// A server that cannot be reached, or that does not answer as it must.
    Endpoint,
    /// Two things that do not belong together: comparing them would say nothing.
    Mismatch,
    /// A valid input of a kind this build does not implement.
    Unsupported,
    /// A command line that makes no sense.
    Usage,
}

/// Where the problem is, when it is narrower than a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// A metadata or configuration key.
    Key(String),
    /// A tensor.
    Tensor(String),
    /// A JSON path such as `questions.refund.criteria[2]`.
    JsonPath(String),
    /// A byte offset from the start of the input.
    Offset(u64),
    /// A line, counted from 1.
    Line(u64),
}

/// An error of this library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    file: Option<PathBuf>,
    place: Option<Place>,
}

/// Result of a library call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), file: None, place: None }
    }

    /// An operating-system error met while doing `what` (for example `cannot read`) to `file`.
    pub fn io(what: &str, file: impl Into<PathBuf>, source: &std::io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("{what}: {source}")).in_file(file)
    }

    /// Names the file at fault; an inner, more precise file is kept.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file.get_or_insert_with(|| file.into());
        self
    }

    /// Names another file at fault, whichever was named before.
    #[must_use]
    pub fn of_file(self, file: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// Names the place at fault; an inner, more precise place is kept.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place.get_or_insert(place);
        self
    }

    /// As an error of line `number`, counted from 1; a narrower place goes into the message.
    #[must_use]
    pub fn in_line(mut self, number: u64) -> Self {
        self.message = self.placed_message();
        self.place = Some(Place::Line(number));
        self
    }

    /// The message after the place at fault, without the file, which may be called otherwise elsewhere.
    pub fn placed_message(&self) -> String {
        match &self.place {
            Some(place) => format!("{place}: {}", self.message),
            None => self.message.clone(),
        }
    }

    /// Names the metadata or configuration key at fault.
    #[must_use]
    pub fn at_key(self, key: impl Into<String>) -> Self {
        self.at(Place::Key(key.into()))
    }

    /// Names the tensor at fault.
    #[must_use]
    pub fn at_tensor(self, name: impl Into<String>) -> Self {
        self.at(Place::Tensor(name.into()))
    }

    /// Names the JSON path at fault.
    #[must_use]
    pub fn at_path(self, path: impl Into<String>) -> Self {
        self.at(Place::JsonPath(path.into()))
    }

    /// What kind of problem this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The file at fault, when there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The place at fault, when it is known.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "key {}", key.escape_debug()),
            Self::Tensor(name) => write!(f, "tensor {}", name.escape_debug()),
            Self::JsonPath(path) => write!(f, "{}", path.escape_debug()),
            Self::Offset(offset) => write!(f, "byte {offset}"),
            Self::Line(line) => write!(f, "line {line}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_where_then_what() {
        let error =
            Error::new(ErrorKind::Gguf, "is missing; convert again").at_key("laya.block_count").in_file("m.gguf");
        assert_eq!(error.to_string(), "m.gguf: key laya.block_count: is missing; convert again");
    }

    #[test]
    fn the_inner_place_wins() {
        let error = Error::new(ErrorKind::Model, "bad").at_tensor("inner").at_tensor("outer");
        assert_eq!(error.place(), Some(&Place::Tensor("inner".into())));
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        let error = Error::new(ErrorKind::Gguf, "bad").at_key("a\u{1b}[31m");
        assert!(!error.to_string().contains('\u{1b}'));
    }
}
