//! The parity gate: corpora and runs, every rule and every reason to refuse a comparison, runs that were changed, layers,
//! generative backends, servers, and the results in the repository.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod corpus;
mod crosscheck;
#[path = "../dump/mod.rs"]
mod dump;
mod endpoint;
#[path = "../gate/mod.rs"]
mod gate;
mod identity;
mod layers;
#[path = "../mock/mod.rs"]
mod mock;
mod mutation;
#[path = "../random/mod.rs"]
mod random;
mod report;
mod result;
mod rule;
mod run;
#[path = "../tiny/mod.rs"]
mod tiny;
#[path = "../vocabulary/mod.rs"]
mod vocabulary;

use gate::{RunText, engine, on_device, reference, set_logits};
use laya::parity::gate::{Judged, Options, judge};
use laya::parity::tier::{Tier, Tiers};

/// Enough that one flip of all questions is few.
const N_ITEMS: usize = 120;

/// A baseline and a candidate that pass.
fn pair(tier: Tier) -> [RunText; 2] {
    match tier {
        Tier::StrictF32 => [reference(N_ITEMS), engine(N_ITEMS)],
        Tier::F16Class => on_device(N_ITEMS),
        Tier::BitExact => [engine(N_ITEMS), engine(N_ITEMS)],
    }
}

fn judged_with(runs: &[RunText; 2], tier: Tier, weights: Option<&str>, allow_identity_mismatch: bool) -> Judged {
    let tiers = Tiers::registered().unwrap();
    let options = Options { tiers: &tiers, tier, weights, allow_identity_mismatch };
    judge(&runs[0].run(), &runs[1].run(), options).unwrap()
}

fn judged(runs: &[RunText; 2], tier: Tier) -> Judged {
    judged_with(runs, tier, None, false)
}

/// Changes the baseline and the candidate.
type Edit = fn(&mut RunText, &mut RunText);

fn flip(a: &mut RunText, b: &mut RunText, item: usize, logits: [f32; 2]) {
    set_logits(a, item, "n", &logits);
    set_logits(b, item, "n", &swap_two_first(&logits));
}

fn swap_two_first(logits: &[f32]) -> Vec<f32> {
    vec![logits[1], logits[0]]
}
