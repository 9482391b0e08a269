//! Every reason to refuse a comparison.

use crate::gate::OTHER;
use crate::{Edit, flip, judged, judged_with, pair};
use laya::json::Value;
use laya::parity::gate::Verdict;
use laya::parity::tier::Tier;

/// A tier, an edit, the key at fault and a part of the reason.
const REFUSALS: &[(Tier, Edit, &str, &str)] = &[
    (Tier::StrictF32, |_, b| b.set("corpus", "sha256", OTHER), "corpus.sha256", "different corpora"),
    (Tier::F16Class, |_, b| b.set("corpus", "subset", "english"), "corpus.subset", "\"all\" and \"english\""),
    (Tier::BitExact, |a, _| a.set("corpus", "subset", "english"), "corpus.subset", "\"english\" and \"all\""),
    (
        Tier::StrictF32,
        |a, _| a.set("", "kind", "engine"),
        "kind",
        "the baseline must be a run of the published package",
    ),
    (Tier::StrictF32, |_, b| b.set("", "kind", "reference"), "kind", "the reference itself"),
    (Tier::StrictF32, |a, _| a.set("runtime", "backend", "jax"), "runtime.backend", "the baseline ran on \"jax\""),
    (Tier::StrictF32, |a, _| a.set("runtime", "device", "cuda:0"), "runtime.device", "\"cuda:0\", this tier needs cpu"),
    (Tier::StrictF32, |a, _| a.set("model", "weights", "bf16"), "model.weights", "the baseline has weights \"bf16\""),
    (
        Tier::StrictF32,
        |_, b| b.set("model", "weights", "f16"),
        "model.weights",
        "\"f16\" weights, this tier is for f32",
    ),
    (Tier::StrictF32, |_, b| b.set("runtime", "backend", "metal"), "runtime.backend", "this tier is for cpu, cuda"),
    (Tier::StrictF32, |_, b| b.set("runtime", "backend", "cuda"), "runtime.kernels", "this tier needs strict"),
    (Tier::StrictF32, |_, b| b.set("runtime", "activations", "q8_0"), "runtime.activations", "this tier is for f32"),
    (Tier::StrictF32, |_, b| b.set("model", "values_sha256", OTHER), "model.values_sha256", "different values"),
    (
        Tier::StrictF32,
        |a, b| {
            a.set("model", "values_sha256", Value::Null);
            b.set("model", "revision", "r2");
        },
        "model.revision",
        "different checkpoints: \"r1\" and \"r2\"",
    ),
    (
        Tier::StrictF32,
        |a, b| {
            a.set("model", "values_sha256", Value::Null);
            b.set("model", "revision", Value::Null);
        },
        "model.values_sha256",
        "nothing shows that the weights are the same",
    ),
    (Tier::F16Class, |_, b| b.set("model", "sha256", OTHER), "model.sha256", "different model files"),
    (Tier::F16Class, |a, _| a.set("model", "sha256", Value::Null), "model.sha256", "the baseline does not say which"),
    (Tier::F16Class, |a, _| a.set("runtime", "backend", "cuda"), "runtime.backend", "needs a run on the cpu"),
    (
        Tier::F16Class,
        |a, _| a.set("runtime", "activations", "q8_0"),
        "runtime.activations",
        "the baseline has \"q8_0\" activations; a candidate that does not quantize them needs f32",
    ),
    (
        Tier::F16Class,
        |_, b| {
            b.set("model", "weights", "q8_0");
            b.set("runtime", "activations", "q8_0");
        },
        "runtime.activations",
        "quantizes activations to \"q8_0\", the baseline has \"f32\"",
    ),
    (
        Tier::F16Class,
        |_, b| b.set("runtime", "activations", Value::Null),
        "runtime.activations",
        "the candidate does not say the type of its activations",
    ),
    (
        // No word that nobody knows has any numbers.
        Tier::F16Class,
        |_, b| b.set("runtime", "activations", "q4_0"),
        "runtime.activations",
        "the candidate has \"q4_0\" activations; what can be judged has f32, f16, bf16, q8_0",
    ),
    (
        Tier::F16Class,
        |a, b| [a, b].into_iter().for_each(|run| run.set("runtime", "activations", "int8")),
        "runtime.activations",
        "the baseline has \"int8\" activations; what can be judged",
    ),
    (
        Tier::F16Class,
        |a, _| {
            a.set("runtime", "numeric_contract", Value::Null);
            a.set("runtime", "kernels", "cpu+repack");
        },
        "runtime.kernels",
        "the baseline ran \"cpu+repack\" kernels on \"f16\" weights, which need blas",
    ),
    (
        Tier::F16Class,
        |a, _| {
            a.set("runtime", "numeric_contract", Value::Null);
            a.set("runtime", "kernels", Value::Null);
        },
        "runtime.kernels",
        "the baseline ran unknown kernels",
    ),
    (Tier::F16Class, |_, b| b.set("model", "weights", "q3_k"), "model.weights", "no numbers for \"q3_k\" weights"),
    (Tier::BitExact, |_, b| b.set("model", "sha256", OTHER), "model.sha256", "different model files"),
    (Tier::BitExact, |_, b| b.set("runtime", "numeric_contract", 2_i64), "runtime.numeric_contract", "1 and 2"),
    (
        Tier::BitExact,
        |_, b| b.set("runtime", "numeric_contract", Value::Null),
        "runtime.numeric_contract",
        "the candidate is under no numeric contract",
    ),
    (Tier::BitExact, |a, _| a.set("", "kind", "reference"), "kind", "which has no numeric contract"),
];

#[test]
fn runs_that_do_not_belong_together_are_refused_with_the_reason() {
    for (i, (tier, edit, key, says)) in REFUSALS.iter().enumerate() {
        let mut runs = pair(*tier);
        let [a, b] = &mut runs;
        edit(a, b);
        let refused = judged(&runs, *tier);
        assert_eq!(refused.verdict, Verdict::Refused, "case {i}, {key}");
        assert!(refused.comparison.is_none() && !refused.is_diagnostic());
        let reason = refused.mismatches.iter().find(|mismatch| mismatch.key == *key && mismatch.reason.contains(says));
        assert!(reason.is_some(), "case {i}: {:?}", refused.mismatches);
        let again = judged_with(&runs, *tier, None, true);
        // Nothing but numbers can be missing.
        let has_numbers = !says.starts_with("no numbers");
        assert_eq!((again.comparison.is_some(), again.is_diagnostic()), (has_numbers, has_numbers), "case {i}");
        let verdict = if has_numbers { Verdict::Pass } else { Verdict::Refused };
        assert_eq!((again.verdict, &again.mismatches), (verdict, &refused.mismatches), "case {i}");
    }
}

#[test]
fn runs_that_belong_together_in_another_way_are_compared() {
    let cases: &[(Tier, Edit)] = &[
        // The revision stands in for values nobody hashed.
        (Tier::StrictF32, |a, _| a.set("model", "values_sha256", Value::Null)),
        (Tier::StrictF32, |_, b| {
            b.set("runtime", "backend", "cuda");
            b.set("runtime", "kernels", "strict");
        }),
        // The kind of the file, its name and its file hash say nothing about the values.
        (Tier::StrictF32, |_, b| b.set("model", "sha256", OTHER)),
        (Tier::F16Class, |_, b| b.set("runtime", "activations", "f16")),
        (Tier::F16Class, |_, b| b.set("runtime", "activations", "bf16")),
        // Programs without a numeric contract: BLAS, or weights that are F32 already.
        (Tier::F16Class, |a, _| {
            a.set("runtime", "numeric_contract", Value::Null);
            a.set("runtime", "kernels", "cpu+repack+blas");
        }),
        (Tier::F16Class, |a, b| {
            a.set("runtime", "numeric_contract", Value::Null);
            [a, b].into_iter().for_each(|run| run.set("model", "weights", "f32"));
        }),
        (Tier::F16Class, |a, b| [a, b].into_iter().for_each(|run| run.set("model", "weights", "q8_0-mixed"))),
        (Tier::BitExact, |_, b| {
            b.set("runtime", "n_threads", 8_i64);
            b.set("runtime", "plan", "sequential");
            b.set("", "kind", "server");
        }),
    ];
    for (i, (tier, edit)) in cases.iter().enumerate() {
        let mut runs = pair(*tier);
        let [a, b] = &mut runs;
        edit(a, b);
        let judged = judged(&runs, *tier);
        assert_eq!(judged.verdict, Verdict::Pass, "case {i}: {:?}", judged.mismatches);
    }
}

#[test]
fn quantized_activations_have_their_own_numbers() {
    let mut runs = pair(Tier::F16Class);
    for run in &mut runs {
        run.set("model", "weights", "q8_0");
        run.set("runtime", "activations", "q8_0");
    }
    let [a, b] = &mut runs;
    flip(a, b, 5, [0.0, 0.5]);
    let quantized = judged(&runs, Tier::F16Class);
    assert_eq!(quantized.verdict, Verdict::Pass, "{:?}", quantized.mismatches);
    assert_eq!(quantized.row, Some(("q8_0".to_owned(), true)));
    assert!(quantized.thresholds.contains(&("flip_max_gap", 0.4)));
    for run in &mut runs {
        run.set("runtime", "activations", "f32");
    }
    let plain = judged(&runs, Tier::F16Class);
    assert_eq!((plain.verdict, plain.row), (Verdict::Fail, Some(("q8_0".to_owned(), false))));
    // What the activations are quantized to has numbers, whatever the weights are stored as.
    for run in &mut runs {
        run.set("runtime", "activations", "q8_0");
        run.set("model", "weights", "q8_0-mixed");
    }
    let mixed = judged(&runs, Tier::F16Class);
    assert_eq!((mixed.verdict, mixed.row), (Verdict::Pass, Some(("q8_0".to_owned(), true))));
    let other = judged_with(&runs, Tier::F16Class, Some("f16"), false);
    assert_eq!(other.verdict, Verdict::Refused);
    assert!(other.mismatches[0].reason.contains("no numbers for \"f16\" activations"), "{:?}", other.mismatches);
    for run in &mut runs {
        run.set("runtime", "activations", "f16");
    }
    assert_eq!(judged(&runs, Tier::F16Class).row, Some(("q8_0-mixed".to_owned(), false)));
}
