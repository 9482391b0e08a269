//! Whether a run of one backend may stand for another.
//!
//! ```text
//! corpus --run--> run file (records and an identity, sealed) --compare by a tier--> verdict
//! ```
