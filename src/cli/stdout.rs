//! Standard output: data only, whole lines, flushed as they are done.

use super::exit::Stop;
use std::io::{self, StdoutLock, Write as _};

/// Standard output, locked for the life of the tool.
pub(super) struct Stdout(StdoutLock<'static>);

impl Stdout {
    pub(super) fn open() -> Self {
        Self(io::stdout().lock())
    }

    /// Writes `text` and a line break and passes them on at once: a reader may be waiting for this very line.
    pub(super) fn line(&mut self, mut text: String) -> Result<(), Stop> {
        // One write for the line, so that a closed pipe never cuts it short of its line break.
        text.push('\n');
        self.bytes(text.as_bytes())
    }

    /// Writes `bytes` as they are and passes them on at once.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.0.write_all(bytes).and_then(|()| self.0.flush()).map_err(|error| Stop::writing(&error))
    }
}
