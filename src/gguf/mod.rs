//! GGUF files: the container the engine loads and the converter writes.
//!
//! ```text
//! magic "GGUF" | version u32 | n_tensors u64 | n_keys u64
//! keys:    name, value type, value        (in order)
//! tensors: name, n_dims, ne[n_dims], type, offset from the data start
//! padding to the alignment | tensor data, each padded to the alignment
//! ```
//!
//! [`File`] validates everything once (counts, lengths, types, alignment, extents, overlaps, duplicates) with checked
//! arithmetic; what it hands out afterwards cannot point outside the file. [`Writer`] lays a file out byte for byte as
//! gguf-py does, [`Edit`] changes keys of a file and leaves every other byte as it is, and [`write_atomic`] makes the
//! result appear whole or not at all.
//!
//! Only version 3, little endian, is read and written.

mod atomic;
mod edit;
mod file;
mod map;
mod read;
mod snapshot;
mod strings;
mod tensor;
mod value;
mod write;

#[cfg(test)]
mod broken;

pub use atomic::{Output, Replace, check_destination, sync_directory, write_atomic, write_atomic_checked};
pub use edit::{Change, Edit};
pub use file::File;
pub use map::Map;
pub use snapshot::{Owner, Ownership, Snapshot};
pub use strings::Strings;
pub use tensor::{TensorInfo, TensorType};
pub use value::{Array, Value};
pub use write::{DEFAULT_ALIGNMENT, Writer};

/// The first four bytes of every GGUF file.
const MAGIC: &[u8; 4] = b"GGUF";
/// The one version this module reads and writes.
const VERSION: u32 = 3;
/// The key that changes the alignment of tensor data.
const ALIGNMENT_KEY: &str = "general.alignment";
