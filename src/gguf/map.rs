//! Read-only bytes that outlive the reader: a memory mapping of a file, or an owned buffer.

#![allow(unsafe_code)]

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

/// Read-only bytes of a file (memory mapped) or of a buffer, shared by everything that was read from them.
pub struct Map {
    bytes: Bytes,
}

enum Bytes {
    Mapped(memmap2::Mmap, fs::File),
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
        Ok(Self { bytes: Bytes::Mapped(mapping, file) })
    }

    /// Wraps an owned buffer.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self { bytes: Bytes::Owned(bytes) }
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(mapping, _) => mapping,
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// Whether the bytes are a memory mapping (so untouched pages cost nothing).
    pub fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(..))
    }

    /// Tells the system that bytes `start..start + len` will be read in no particular order, so it should not read
    /// ahead. Purely advice: it does nothing for owned buffers, on other systems, or when the system refuses.
    pub fn advise_random(&self, start: usize, len: usize) {
        #[cfg(unix)]
        if let Some(mapping) = self.mapped(start, len) {
            // Advice that is refused changes nothing but speed.
            let _ = mapping.advise_range(memmap2::Advice::Random, start, len);
        }
        #[cfg(not(unix))]
        let _ = (start, len);
    }

    /// Copies bytes `start..start + len` into `out`, which has that length afterwards.
    ///
    /// Whoever looks at every byte once does better with this than with [`Map::bytes`]: the pages stay out of the resident
    /// set, none has to be looked up, and a file that was cut short is an error.
    ///
    /// # Errors
    /// The bytes cannot be read, or there are not as many.
    pub fn read(&self, start: usize, len: usize, out: &mut Vec<u8>) -> io::Result<()> {
        match &self.bytes {
            #[cfg(unix)]
            Bytes::Mapped(mapping, file) if start.checked_add(len).is_some_and(|end| end <= mapping.len()) => {
                use std::os::unix::fs::FileExt;
                out.resize(len, 0);
                file.read_exact_at(out, start as u64)
            }
            _ => {
                out.clear();
                let bytes = self.bytes().get(start..).and_then(|rest| rest.get(..len));
                out.extend_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// Gives back the memory of the pages that hold bytes `start..start + len`: they leave the resident set of the
    /// process. The bytes stay what they are; a page that is touched again is read again, mostly from the system's cache
    /// of the file, and the system may map up to some 64 KiB around it along with it. So a range costs least when it is
    /// released after everything near it was read.
    ///
    /// Whole pages are given back, neighbours of the range in the first and last page included. Does nothing for owned
    /// buffers, for a range outside the file, on systems other than Unix, or when the system refuses.
    pub fn release(&self, start: usize, len: usize) {
        #[cfg(unix)]
        if let Some(mapping) = self.mapped(start, len) {
            // SAFETY: dropping pages would lose what was written to a private mapping. This one is a shared mapping of a
            // file, never written to through it: a dropped page is read from the same file again, with the same bytes as
            // long as the file is not changed in place, which `open` requires anyway. References into the mapping stay
            // valid, because its addresses stay mapped.
            let _ = unsafe { mapping.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, len) };
        }
        #[cfg(not(unix))]
        let _ = (start, len);
    }

    /// The mapping, if these are bytes of one.
    #[cfg(unix)]
    fn mapped(&self, start: usize, len: usize) -> Option<&memmap2::Mmap> {
        match &self.bytes {
            Bytes::Mapped(mapping, _) if start.checked_add(len)? <= mapping.len() => Some(mapping),
            Bytes::Mapped(..) | Bytes::Owned(_) => None,
        }
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
        let mut out = Vec::new();
        for map in [&map, &Map::from_vec(b"abc".to_vec())] {
            map.read(1, 2, &mut out).unwrap();
            assert_eq!(out, b"bc");
            map.read(3, 0, &mut out).unwrap();
            assert_eq!(out, b"");
            assert!(map.read(2, 2, &mut out).is_err() && map.read(1, usize::MAX, &mut out).is_err());
        }
        fs::write(&path, b"").unwrap();
        assert_eq!(Map::open(&path).unwrap().bytes(), b"");
    }

    /// What the system says is resident of the mapping that starts with `bytes`, in KiB.
    #[cfg(target_os = "linux")]
    fn resident_kib(bytes: &[u8]) -> u64 {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", bytes.as_ptr().addr());
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
        let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.trim().trim_end_matches("kB").trim().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn released_pages_leave_the_resident_set_and_keep_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 5) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let map = Map::open(&path).unwrap();
        let inside = map.bytes();
        assert_eq!(inside, bytes);
        assert_eq!(resident_kib(inside), 1024);
        // None of these is a range of the file.
        for (start, len) in [(1, 1 << 20), (usize::MAX, 2), ((1 << 20) + 1, 0)] {
            map.release(start, len);
        }
        assert_eq!(resident_kib(inside), 1024);
        map.release((1 << 19) + 1, 1 << 18);
        assert!((640..768).contains(&resident_kib(inside)), "{}", resident_kib(inside));
        map.release(0, 1 << 20);
        assert_eq!(resident_kib(inside), 0);
        assert_eq!(inside, bytes);
        Map::from_vec(bytes.clone()).release(0, 1 << 20);
    }
}
