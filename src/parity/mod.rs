//! Whether a run of one backend may stand for another.
//!
//! ```text
//! corpus --run--> run file (records and an identity, sealed) --compare by a tier--> verdict
//! ```

mod corpus;
pub mod crosscheck;
pub mod derive;
mod description;
mod endpoint;
mod flips;
pub mod gate;
pub mod generator;
mod identity;
pub mod layers;
mod local;
mod machine;
mod record;
mod run;
mod run_file;
mod server;
mod summary;
pub mod tier;
mod values;

pub use corpus::{Corpus, Item, Subset};
pub use description::Description;
pub use endpoint::{Endpoint, MAX_REPLY_BYTES, Reply};
pub use flips::{Agreement, Asked, Flip, Flips, LeftOut, Side, Source, refusal};
pub use identity::{ACTIVATIONS, Build, CorpusIdentity, Host, Identity, Kind, Model, Runtime};
pub use local::Local;
pub use record::{ItemRecord, Outcome, QuestionRecord, Refusal};
pub use run::{Backend, run};
pub use run_file::{Existing, Run, RunWriter};
pub use server::{Said, Server};
pub use summary::{COLUMNS, GATES, Line};
pub use values::values_sha256;
