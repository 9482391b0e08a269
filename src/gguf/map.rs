//! Read-only bytes that outlive the reader: a memory mapping of a file, or an owned buffer.

#![allow(unsafe_code)]

use std::fmt;
use std::fs;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

/// Read-only bytes of a file (memory mapped) or of a buffer, shared by everything that was read from them.
pub struct Map {
    bytes: Bytes,
}

enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Map {
    /// Maps the regular file at `path`. Pages are read when they are first touched.
    ///
    /// The file must not be changed in place as long as this lives: a file that is cut short ends the process when a page
    /// that is gone is touched. Replacing it by rename, as [`write_atomic`](super::write_atomic) does, is safe.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be opened or mapped or is not a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let regular = |facts: &fs::Metadata| {
            let what = if facts.is_dir() { "is a directory, not a file" } else { "is not a regular file" };
            if facts.is_file() { Ok(()) } else { Err(Error::new(ErrorKind::Io, what).in_file(path)) }
        };
        // Before it is opened, because opening a pipe waits for a writer, and after, because it may have been replaced.
        regular(&fs::metadata(path).map_err(|e| Error::io("cannot open", path, &e))?)?;
        let file = fs::File::open(path).map_err(|e| Error::io("cannot open", path, &e))?;
        let facts = file.metadata().map_err(|e| Error::io("cannot read", path, &e))?;
        regular(&facts)?;
        if facts.len() == 0 {
            return Ok(Self::from_vec(Vec::new()));
        }
        // SAFETY: the mapping is read-only. The contract of `Mmap::map` is that the file is not truncated or rewritten
        // while it is mapped. Nothing can enforce that for a file others may write; it is a condition that the
        // documentation of this function passes on, and this crate itself only ever replaces files by rename.
        let mapping = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| Error::io("cannot map", path, &e))?;
        Ok(Self { bytes: Bytes::Mapped(mapping) })
    }

    /// Wraps an owned buffer.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self { bytes: Bytes::Owned(bytes) }
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(mapping) => mapping,
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// Whether the bytes are a memory mapping (so untouched pages cost nothing).
    pub fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(_))
    }

    /// Tells the system that bytes `start..start + len` will be read in no particular order, so it should not read
    /// ahead. Purely advice: it does nothing for owned buffers, on other systems, or when the system refuses.
    pub fn advise_random(&self, start: usize, len: usize) {
        #[cfg(unix)]
        if let Bytes::Mapped(mapping) = &self.bytes
            && start.checked_add(len).is_some_and(|end| end <= mapping.len())
        {
            // Advice that is refused changes nothing but speed.
            let _ = mapping.advise_range(memmap2::Advice::Random, start, len);
        }
        #[cfg(not(unix))]
        let _ = (start, len);
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_mapped() { "mapped" } else { "owned" };
        write!(f, "Map({kind}, {} bytes)", self.bytes().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Map::open(dir.path()).unwrap_err().to_string().contains("directory"));
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_and_a_device_are_refused_unopened() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [socket.as_path(), Path::new("/dev/null")] {
            // Opening a socket would fail with the system's words instead.
            let error = Map::open(path).unwrap_err().to_string();
            assert!(error.ends_with("is not a regular file"), "{error}");
        }
    }

    #[test]
    fn a_file_is_mapped_and_an_empty_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, b"abc").unwrap();
        let map = Map::open(&path).unwrap();
        assert!(map.is_mapped());
        assert_eq!(map.bytes(), b"abc");
        map.advise_random(0, 3);
        map.advise_random(2, usize::MAX);
        fs::write(&path, b"").unwrap();
        assert_eq!(Map::open(&path).unwrap().bytes(), b"");
    }
}
