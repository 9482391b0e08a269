//! Fits what turns raw logits into probabilities one can trust, on labelled data and the logits of this very engine.
//!
//! ```text
//! labelled line --Record::parse--> request and truths --measure--> raw logits --temperature::fit--> calibration
//! ```
//!
//! The logits carry the [`Identity`] of the run they come from: a temperature fitted on one file, kernels or plan means
//! nothing for another. With them goes the calibration in force, which a fit must be better than.

mod identity;
mod logits;
mod measure;
mod record;
mod split;
pub mod temperature;

pub use identity::{Data, Identity};
pub use logits::{Labelled, LogitFile, Measured};
pub use measure::{check, measure, unmeasured};
pub use record::Record;
pub use split::{Fraction, Leak, Split, leak};
