//! Input files of a tool: a path, or `-` for standard input.

use crate::error::{Error, ErrorKind, Result};
use crate::spec;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Longest request in bytes, as a file or as a line. Read as JSON it takes a few dozen times as much memory at worst,
/// and a model reads some thousand tokens of it.
pub(super) const MAX_REQUEST_BYTES: usize = 16 << 20;

const BUFFER_BYTES: usize = 1 << 16;

/// Where a tool reads from.
#[derive(Debug, Clone)]
pub(super) struct Input(PathBuf);

impl From<PathBuf> for Input {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl Input {
    /// What to call it in a message.
    pub(super) fn name(&self) -> &Path {
        if self.is_stdin() { Path::new("standard input") } else { &self.0 }
    }

    /// Whether it is standard input.
    pub(super) fn is_stdin(&self) -> bool {
        self.0.as_os_str() == "-"
    }

    /// Opens it for reading; with it comes its size in bytes, where it is a file.
    pub(super) fn open(&self) -> Result<(Box<dyn BufRead + Send>, Option<u64>)> {
        if self.is_stdin() {
            // Not its lock, which would keep to one thread.
            return Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())), None));
        }
        let file = File::open(&self.0).map_err(|error| self.error("cannot open", &error))?;
        let n_bytes = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
        Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, file)), n_bytes))
    }

    /// All of its bytes, which are a request.
    ///
    /// # Errors
    /// It cannot be read, or has more than [`MAX_REQUEST_BYTES`]; what is above that is not read.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        self.read_within(MAX_REQUEST_BYTES, "a request")
    }

    /// All of its bytes, which are a spec.
    ///
    /// # Errors
    /// It cannot be read, or is larger than any spec.
    pub(super) fn read_spec(&self) -> Result<Vec<u8>> {
        self.read_within(spec::MAX_BYTES, "a spec")
    }

    /// All of its bytes, which are `what`.
    ///
    /// # Errors
    /// It cannot be read, or has more than `most` bytes; what is above that is not read.
    fn read_within(&self, most: usize, what: &str) -> Result<Vec<u8>> {
        let (from, _) = self.open()?;
        let mut bytes = Vec::new();
        from.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|error| self.error("cannot read", &error))?;
        if bytes.len() > most {
            let message = format!("is larger than {} MiB, the most {what} may be", most >> 20);
            return Err(Error::new(ErrorKind::Request, message).in_file(self.name()));
        }
        Ok(bytes)
    }

    /// An operating-system error met while doing `what` to it.
    pub(super) fn error(&self, what: &str, source: &io::Error) -> Error {
        Error::io(what, self.name(), source)
    }
}
