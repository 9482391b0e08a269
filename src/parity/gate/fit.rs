//! Whether two runs belong together, by what they say of themselves.

use super::Mismatch;
use crate::parity::tier::{Strict, Tier, Tiers};
use crate::parity::{ACTIVATIONS, Identity, Kind};

/// What `model.weights`, `runtime.activations` and the like are called when they are plain F32.
const F32: &str = "f32";

/// The type a run quantizes its activations to; `None` when it has floats of some width, or does not say what it has.
pub(in crate::parity) fn quantized(run: &Identity) -> Option<&str> {
    Some(activations(run)).filter(|activations| *activations == "q8_0")
}

/// The type of the activations; empty when it is unknown.
fn activations(run: &Identity) -> &str {
    run.runtime.activations.as_deref().unwrap_or_default()
}

/// A reason not to judge a run by its activations: nobody knows what numbers others have.
pub(in crate::parity) fn unknown_activations(side: &str, run: &Identity) -> Option<Mismatch> {
    let reason = match activations(run) {
        "" => format!("the {side} does not say the type of its activations; say it when it is run, with --activations"),
        known if ACTIVATIONS.contains(&known) => return None,
        other => {
            format!("the {side} has {} activations; what can be judged has {}", shown(other), ACTIVATIONS.join(", "))
        }
    };
    Some(Mismatch { key: "runtime.activations", reason })
}

/// Every reason not to compare `candidate` with `baseline` by `tier`.
pub(super) fn mismatches(baseline: &Identity, candidate: &Identity, tier: Tier, tiers: &Tiers) -> Vec<Mismatch> {
    let mut found = Found(Vec::new());
    corpus(baseline, candidate, &mut found);
    match tier {
        Tier::StrictF32 => strict(baseline, candidate, &tiers.strict, &mut found),
        Tier::F16Class => class(baseline, candidate, &mut found),
        Tier::BitExact => exact(baseline, candidate, &mut found),
    }
    found.0
}

/// Whether the runs are of one corpus, which any comparison needs.
pub(in crate::parity) fn corpus_mismatches(baseline: &Identity, candidate: &Identity) -> Vec<Mismatch> {
    let mut found = Found(Vec::new());
    corpus(baseline, candidate, &mut found);
    found.0
}

struct Found(Vec<Mismatch>);

impl Found {
    fn add(&mut self, key: &'static str, reason: impl Into<String>) {
        self.0.push(Mismatch { key, reason: reason.into() });
    }

    /// Both sides must have the same.
    fn equal(&mut self, key: &'static str, baseline: &str, candidate: &str, what: &str) {
        if baseline != candidate {
            self.add(key, format!("{what}: {} and {}", shown(baseline), shown(candidate)));
        }
    }
}

/// A fact of an identity, quoted; hashes in full, so that they can be looked for.
fn shown(fact: &str) -> String {
    if fact.is_empty() { "unknown".to_owned() } else { format!("\"{}\"", fact.escape_debug()) }
}

fn corpus(baseline: &Identity, candidate: &Identity, found: &mut Found) {
    let (a, b) = (&baseline.corpus, &candidate.corpus);
    found.equal("corpus.sha256", &a.sha256, &b.sha256, "the runs are of different corpora");
    found.equal("corpus.subset", &a.subset, &b.subset, "the runs are of different subsets");
    let counts = |n: u64, m: u64| [n.to_string(), m.to_string()];
    let [x, y] = counts(a.n_items, b.n_items);
    found.equal("corpus.n_items", &x, &y, "the runs have different numbers of items");
    let [x, y] = counts(a.n_questions, b.n_questions);
    found.equal("corpus.n_questions", &x, &y, "the runs have different numbers of questions");
}

fn strict(baseline: &Identity, candidate: &Identity, tier: &Strict, found: &mut Found) {
    if baseline.kind != Kind::Reference {
        found.add("kind", "the baseline must be a run of the published package, the reference");
    }
    if candidate.kind == Kind::Reference {
        found.add("kind", "the candidate is a run of the published package, which is the reference itself");
    }
    reference(baseline, found);
    let weights = candidate.model.weights.as_str();
    if !tier.candidate_weights.iter().any(|allowed| allowed == weights) {
        let allowed = tier.candidate_weights.join(", ");
        found.add("model.weights", format!("the candidate has {} weights, this tier is for {allowed}", shown(weights)));
    }
    let (backend, kernels) =
        (candidate.runtime.backend.as_str(), candidate.runtime.kernels.as_deref().unwrap_or_default());
    match tier.candidate_backends.iter().find(|(allowed, _)| allowed == backend) {
        None => {
            let allowed: Vec<_> = tier.candidate_backends.iter().map(|(name, _)| name.as_str()).collect();
            let allowed = allowed.join(", ");
            found
                .add("runtime.backend", format!("the candidate ran on {}, this tier is for {allowed}", shown(backend)));
        }
        Some((_, Some(needed))) if needed != kernels => {
            let reason = format!("the candidate ran {} on {backend}, this tier needs {needed}", shown(kernels));
            found.add("runtime.kernels", reason);
        }
        Some(_) => {}
    }
    if activations(candidate) != F32 {
        let reason = format!("the candidate has {} activations, this tier is for f32", shown(activations(candidate)));
        found.add("runtime.activations", reason);
    }
    same_values(baseline, candidate, found);
}

fn reference(baseline: &Identity, found: &mut Found) {
    for (key, what, fact, needed) in [
        ("runtime.backend", "ran on", baseline.runtime.backend.as_str(), "pytorch"),
        ("runtime.device", "ran on", baseline.runtime.device.as_deref().unwrap_or_default(), "cpu"),
        ("model.weights", "has weights", baseline.model.weights.as_str(), F32),
        ("runtime.activations", "has activations", activations(baseline), F32),
    ] {
        if fact != needed {
            found.add(key, format!("the baseline {what} {}, this tier needs {needed}", shown(fact)));
        }
    }
}

/// The same weights: by their values, else by the revision of the checkpoint.
fn same_values(baseline: &Identity, candidate: &Identity, found: &mut Found) {
    let [a, b] = [&baseline.model, &candidate.model];
    match [&a.values_sha256, &b.values_sha256].map(|hash| hash.as_deref().unwrap_or_default()) {
        ["", _] | [_, ""] => {
            let [x, y] = [&a.revision, &b.revision].map(|revision| revision.as_deref().unwrap_or_default());
            if x.is_empty() || y.is_empty() {
                let reason = "nothing shows that the weights are the same: a side has no SHA-256 of their values, and not \
                              both name the revision of the checkpoint";
                found.add("model.values_sha256", reason);
            } else {
                found.equal("model.revision", x, y, "the runs are of different checkpoints");
            }
        }
        [x, y] => found.equal("model.values_sha256", x, y, "the weights have different values"),
    }
}

/// The same model file, named by both.
fn same_file(baseline: &Identity, candidate: &Identity, found: &mut Found) {
    let [a, b] = [baseline, candidate].map(|identity| identity.model.sha256.as_deref().unwrap_or_default());
    if a.is_empty() || b.is_empty() {
        let side = if a.is_empty() { "baseline" } else { "candidate" };
        found.add("model.sha256", format!("the {side} does not say which model file it ran"));
    } else {
        found.equal("model.sha256", a, b, "the runs are of different model files");
    }
}

fn class(baseline: &Identity, candidate: &Identity, found: &mut Found) {
    same_file(baseline, candidate, found);
    if baseline.runtime.backend != "cpu" {
        let reason =
            format!("the baseline ran on {}, this tier needs a run on the cpu", shown(&baseline.runtime.backend));
        found.add("runtime.backend", reason);
    }
    for (side, run) in [("baseline", baseline), ("candidate", candidate)] {
        found.0.extend(unknown_activations(side, run));
    }
    kernels(baseline, found);
    let [a, b] = [baseline, candidate].map(activations);
    if quantized(candidate).is_some() {
        if a != b {
            let reason = format!(
                "the candidate quantizes activations to {}, the baseline has {}; they must be quantized the same way",
                shown(b),
                shown(a)
            );
            found.add("runtime.activations", reason);
        }
    } else if a != F32 && ACTIVATIONS.contains(&a) {
        let reason =
            format!("the baseline has {} activations; a candidate that does not quantize them needs f32", shown(a));
        found.add("runtime.activations", reason);
    }
}

/// That a baseline has the F32 activations it claims. Programs without a numeric contract multiply in the type of the
/// weights unless BLAS does: only F32 weights need nothing else.
fn kernels(baseline: &Identity, found: &mut Found) {
    let claims = activations(baseline) == F32 && baseline.model.weights != F32;
    let kernels = baseline.runtime.kernels.as_deref().unwrap_or_default();
    if claims && baseline.runtime.numeric_contract.is_none() && !kernels.contains("blas") {
        let reason = format!(
            "the baseline ran {} kernels on {} weights, which need blas for the f32 activations it claims",
            shown(kernels),
            shown(&baseline.model.weights)
        );
        found.add("runtime.kernels", reason);
    }
}

fn exact(baseline: &Identity, candidate: &Identity, found: &mut Found) {
    same_file(baseline, candidate, found);
    for (side, identity) in [("baseline", baseline), ("candidate", candidate)] {
        if identity.kind == Kind::Reference {
            found.add("kind", format!("the {side} is a run of the published package, which has no numeric contract"));
        }
    }
    match [baseline, candidate].map(|identity| identity.runtime.numeric_contract) {
        [Some(a), Some(b)] if a == b => {}
        [Some(a), Some(b)] => {
            found.add(
                "runtime.numeric_contract",
                format!("the runs are under different numeric contracts: {a} and {b}"),
            );
        }
        [a, _] => {
            let side = if a.is_none() { "baseline" } else { "candidate" };
            found.add("runtime.numeric_contract", format!("the {side} is under no numeric contract"));
        }
    }
}
