//! Where two computations part: the hidden states of a pass, node by node, and mistakes such a comparison must notice.
//!
//! ```text
//! rows of a corpus --trace--> states of the baseline (an engine, or a reference dump)   \
//!                  --trace--> states of the candidate (an engine, mistaken or not)       > distances --rule--> verdict
//! ```

mod compare;
mod distance;
mod dump;
mod mutation;
mod node;
mod plot;
mod report;
mod row;
mod rule;
mod trace;

pub use compare::{Baseline, Comparison, Outcome, Side, compare};
pub use distance::{Distance, Worst};
pub use dump::Dump;
pub use mutation::Mutation;
pub use node::Node;
pub use plot::plot;
pub use report::report;
pub use row::{TracedRow, pick, rows_of};
pub use rule::{Bar, Measure, Rule};
