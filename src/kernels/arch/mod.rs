//! The instruction sets of particular processors, and memory views the compiler cannot check.
//!
//! Together with the file mapping this is the only place with `unsafe`; each block states why it is sound.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod int8;
pub mod memory;
pub mod square;
pub mod tile;
