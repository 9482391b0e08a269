//! Numeric operations under one contract: the same bits on every instruction set and any number of threads.
//!
//! - Every operation is written once, over [`lane::Isa`]: sixteen `f32` lanes with IEEE add, multiply, divide, square
//!   root and fused multiply-add. [`scalar::Scalar`] is the meaning; [`portable::Portable`] and the SIMD sets in
//!   [`arch`] give its bits.
//! - A matrix product is one fused multiply-add per `k`, in ascending `k`, into one accumulator that starts at zero.
//! - A reduction keeps lane `i` for the elements `i, i + 16, ...` and combines the lanes in one fixed tree.
//!
//! No operation of a platform's mathematical library is involved.

pub mod arch;
pub mod attention;
pub mod elementary;
pub mod interleave;
pub mod isa;
pub mod lane;
pub mod norm;
pub mod pack;
pub mod peak;
pub mod portable;
pub mod product;
pub mod rotary;
pub mod scalar;
mod softmax;
pub mod thread;
pub mod topology;

pub use interleave::Interleaved;
pub use isa::InstructionSet;
pub use pack::PackedMatrix;
pub use product::Product;
pub use thread::Threads;

/// Number of the numeric contract; it changes with any rule above.
pub const NUMERIC_CONTRACT: u32 = 1;
