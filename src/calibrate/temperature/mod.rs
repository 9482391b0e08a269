//! Fits temperatures: one a question type, and one a bucket of option counts where held-out data says it helps.
//!
//! A temperature `T` divides the logits before the softmax (temperature scaling: Guo, Pleiss, Sun and Weinberger, "On
//! Calibration of Modern Neural Networks", ICML 2017). The `T` of a group of questions minimises the mean negative
//! log-likelihood of their truths, see [`objective`]; whether it is used instead of what is in force is decided on held-out records,
//! see [`fit()`].

mod block;
mod bootstrap;
mod bucket;
mod effect;
mod fit;
mod metric;
mod note;
pub mod objective;
mod refusal;
mod report;
mod solve;

pub use block::{block, stamped};
pub use bootstrap::Interval;
pub use bucket::Bucket;
pub use effect::{Effect, Mean, Range};
pub use fit::{Fit, Group, Judged, Options, TypeFit, Verdict, check_counts, fit};
pub use metric::{N_BINS, THRESHOLDS, Threshold};
pub use refusal::{Refusal, Refused};
pub use report::report;
pub use solve::{Clamp, Edge, solve};
