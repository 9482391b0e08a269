//! What a result holds, and the tiers.

use crate::gate::{FILE, RunText};
use crate::{judged, pair};
use laya::json::Value;
use laya::parity::gate::{Options, judge};
use laya::parity::tier::{Tier, Tiers};

#[test]
fn a_tier_that_the_file_lacks_is_an_error() {
    let tiers = Tiers { has_bit_exact: false, ..Tiers::registered().unwrap() };
    let options = Options { tiers: &tiers, tier: Tier::BitExact, weights: None, allow_identity_mismatch: false };
    let [a, b] = pair(Tier::BitExact);
    let error = judge(&a.run(), &b.run(), options).unwrap_err().to_string();
    assert_eq!(error, "tiers.bit-exact: the tiers have no bit-exact; use others");
}

#[test]
fn a_verdict_knows_whether_its_tiers_are_the_registered_ones() {
    let registered = Tiers::registered().unwrap();
    let text = include_str!("../../src/parity/tiers.json").replacen("0.0001", "0.9", 1);
    let other = Tiers::parse(text.as_bytes()).unwrap();
    let [a, b] = pair(Tier::StrictF32).map(|run| run.run());
    for (tiers, is_registered) in [(&registered, true), (&other, false)] {
        let options = Options { tiers, tier: Tier::StrictF32, weights: None, allow_identity_mismatch: false };
        let judged = judge(&a, &b, options).unwrap();
        assert_eq!(judged.tiers_registered, is_registered);
        let json = judged.to_json(&a.identity, &b.identity);
        let said = json.get("gate").unwrap().get("tiers_registered").and_then(Value::as_bool);
        assert_eq!(said, Some(is_registered));
    }
}

#[test]
fn the_result_has_the_keys_readers_know() {
    let runs = pair(Tier::F16Class);
    let judged = judged(&runs, Tier::F16Class);
    let [a, b] = [&runs[0], &runs[1]].map(RunText::run);
    let json = Value::Object(judged.to_json(&a.identity, &b.identity));
    let gate = json.get("gate").and_then(Value::as_object).unwrap();
    for key in [
        "tier",
        "thresholds",
        "items",
        "questions",
        "compared",
        "public_checked",
        "public_missing",
        "both_refused",
        "argmax_agree",
        "flips",
        "allowed_flips",
        "input_mismatches",
        "known_differences",
        "failures",
        "n_failures",
        "max_abs_error",
        "mean_abs_dp",
        "act_checked",
        "act_max_rel_dlogit",
        "act_missing",
        "tiers_version",
        "diagnostic",
        "flip_fraction",
        "verdict",
    ] {
        assert!(gate.contains_key(key), "{key}");
    }
    assert_eq!(gate.get("verdict").and_then(Value::as_str), Some("pass"));
    let sha256 = |side: &str| json.get("identity").unwrap().get(side)?.get("model")?.get("sha256")?.as_str();
    assert_eq!((sha256("baseline"), sha256("candidate")), (Some(FILE), Some(FILE)));
    assert_eq!(json.get("identity_problems").map(Value::dumps).as_deref(), Some("[]"));
    // What is written can be read back.
    assert_eq!(laya::json::parse(json.dumps().as_bytes()).unwrap(), json);
}

#[test]
fn the_described_tiers_are_read_and_have_the_registered_numbers() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance/engine/tiers.json");
    if !path.exists() {
        println!("skipped: no ../shared");
        return;
    }
    let (theirs, ours) = (Tiers::read(&path).unwrap(), Tiers::registered().unwrap());
    assert_eq!(theirs.strict, ours.strict);
    assert_eq!(theirs.class.activation_quantized, ours.class.activation_quantized);
    assert_eq!(theirs.class.known_differences, ours.class.known_differences);
    for (weights, bounds) in &theirs.class.weights {
        assert_eq!(ours.class.bounds(weights, false), Some(bounds), "{weights}");
    }
    assert!(!theirs.has_bit_exact && theirs.version < ours.version);
}
