//! Measuring: what the machine can do, what a pass needs, and how near it comes.

pub mod roofline;
pub mod work;

pub use roofline::{Machine, Measured, measure};
pub use work::Work;
