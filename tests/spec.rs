//! The rules of `decision.spec`: every rule has a text that keeps it and one that breaks it, at the path it breaks it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use laya::error::Place;
use laya::spec::{self, Confidence, Kernels, Layout, Spec, SpecialTokens};

/// A laya spec with these further fields.
fn laya(fields: &str) -> String {
    format!(r#"{{"spec_version": 1, "layout": "laya"{}{fields}}}"#, if fields.is_empty() { "" } else { ", " })
}

fn calibration(fields: &str) -> String {
    laya(&format!(r#""calibration": {{"method": "temperature", {fields}}}"#))
}

fn temperature(value: &str) -> String {
    calibration(&format!(r#""temperature": {value}"#))
}

fn question(fields: &str) -> String {
    laya(&format!(r#""router": {{"question": {{"type": "noul", "instructions": "Will it work?", {fields}}}}}"#))
}

/// Kept by the first text, broken by the second: path and a part of the message.
fn rules() -> Vec<(String, String, &'static str, &'static str)> {
    let hash = "0123456789abcdef".repeat(4);
    let long = "x".repeat(1 << 20);
    vec![
        // The text as a whole.
        (laya(""), "[1]".into(), "", "must be a JSON object, not [1]"),
        (laya(r#""extra": [1]"#), laya(r#""extra": [1"#), "extra[0]", "expected ',' or ']' after an item of an array"),
        (format!("\u{feff}{}", laya("")), format!("{} {{}}", laya("")), "", "text after the end of the value"),
        (laya(""), laya(&format!(r#""x": "{long}""#)), "", "a spec has at most 1048576"),
        // Version, layout and names.
        (laya(""), r#"{"layout": "laya"}"#.into(), "spec_version", "is missing; it must be 1"),
        (laya(""), r#"{"spec_version": 1.0, "layout": "laya"}"#.into(), "spec_version", "the integer 1, not 1.0"),
        (laya(""), r#"{"spec_version": 2, "layout": "laya"}"#.into(), "spec_version", "the integer 1, not 2"),
        (laya(""), r#"{"spec_version": 1}"#.into(), "layout", "is missing"),
        (
            r#"{"spec_version": 1, "layout": "semif-letters"}"#.into(),
            r#"{"spec_version": 1, "layout": null}"#.into(),
            "layout",
            "must be one of \"laya\", \"semif-letters\", not null",
        ),
        (laya(r#""model_id": "a/b""#), laya(r#""model_id": 3"#), "model_id", "must be a text, not 3"),
        (laya(r#""model_version": null"#), laya(r#""model_version": ["1"]"#), "model_version", "must be a text"),
        // Contracts.
        (
            laya(r#""input_contract": "laya-v1""#),
            laya(r#""input_contract": "semif-v1""#),
            "input_contract",
            "must be one of \"laya-v1\", \"laya-router-v1\"",
        ),
        (
            laya(r#""special_tokens": "mask-to-space""#),
            laya(r#""special_tokens": "escape""#),
            "special_tokens",
            "must be one of \"mask-to-space\", \"escape-control\"",
        ),
        (
            laya(r#""input_contract": "laya-router-v1", "special_tokens": "escape-control""#),
            laya(r#""input_contract": "laya-router-v1""#),
            "special_tokens",
            "must be \"escape-control\" with the input contract laya-router-v1",
        ),
        (
            r#"{"spec_version": 1, "layout": "semif-letters", "input_contract": "semif-v1", "special_tokens": "escape"}"#.into(),
            r#"{"spec_version": 1, "layout": "semif-letters", "special_tokens": "escape-control"}"#.into(),
            "special_tokens",
            "must be \"escape\"",
        ),
        (laya(r#""confidence": "typesafe""#), laya(r#""confidence": null"#), "confidence", "\"max_p\", not null"),
        // Limits.
        (laya(r#""limits": null"#), laya(r#""limits": [20]"#), "limits", "must be an object or null"),
        (
            laya(r#""limits": {"max_options": 2147483647}"#),
            laya(r#""limits": {"max_options": 2147483648}"#),
            "limits.max_options",
            "an integer from 0 to 2147483647",
        ),
        (laya(r#""limits": {"max_candidates": 0}"#), laya(r#""limits": {"max_candidates": -1}"#), "limits.max_candidates", "not -1"),
        (laya(r#""limits": {"max_prompt_tokens": 7}"#), laya(r#""limits": {"max_prompt_tokens": 7.0}"#), "limits.max_prompt_tokens", "not 7.0"),
        // Calibration.
        (laya(r#""calibration": null"#), laya(r#""calibration": 1.2"#), "calibration", "must be an object or null"),
        (laya(r#""calibration": {"method": "none"}"#), laya(r#""calibration": {}"#), "calibration.method", "is missing"),
        (temperature("{}"), laya(r#""calibration": {"method": "platt"}"#), "calibration.method", "\"temperature\", \"none\""),
        (calibration(r#""required": false"#), calibration(r#""required": 0"#), "calibration.required", "must be true or false"),
        (calibration(r#""version": "v""#), calibration(r#""version": null"#), "calibration.version", "must be a text"),
        (calibration(r#""clamp": [2, 2]"#), calibration(r#""clamp": [2, 1.9]"#), "calibration.clamp", "lowest and highest"),
        (calibration(r#""clamp": [1e-6, 1e6]"#), calibration(r#""clamp": [1e-7, 5]"#), "calibration.clamp", "from 1e-6 to 1e6"),
        (calibration(r#""clamp": [1, 2]"#), calibration(r#""clamp": [1, 2, 3]"#), "calibration.clamp", "two numbers"),
        (temperature("null"), temperature("1.2"), "calibration.temperature", "must be an object or null"),
        (temperature(r#"{"all": 1}"#), temperature(r#"{"any": 1}"#), "calibration.temperature.any", "choice, score, noul or all"),
        (temperature(r#"{"score": {"3-5": 2}}"#), temperature(r#"{"score": {"5-3": 2}}"#), "calibration.temperature.score.5-3", "is no number of options"),
        // What no temperature can be.
        (temperature(r#"{"all": 1e-6}"#), temperature(r#"{"all": 1e-300}"#), "calibration.temperature.all", "from 1e-6 to 1e6, not 1e-300"),
        (temperature(r#"{"noul": 1e6}"#), temperature(r#"{"noul": 1e300}"#), "calibration.temperature.noul", "not 1e+300"),
        (temperature(r#"{"choice": {"2": 0.5}}"#), temperature(r#"{"choice": {"2": 0}}"#), "calibration.temperature.choice.2", "not 0"),
        (temperature(r#"{"choice": {"*": 1}}"#), temperature(r#"{"choice": {"*": -1.5}}"#), "calibration.temperature.choice.*", "not -1.5"),
        (temperature(r#"{"all": 2}"#), temperature(r#"{"all": "2"}"#), "calibration.temperature.all", "not \"2\""),
        (temperature(r#"{"all": 2}"#), temperature(r#"{"all": true}"#), "calibration.temperature.all", "not true"),
        (temperature(r#"{"all": 2}"#), temperature(r#"{"all": null}"#), "calibration.temperature.all", "not null"),
        (temperature(r#"{"all": 2}"#), temperature(r#"{"all": NaN}"#), "calibration.temperature.all", "NaN"),
        (temperature(r#"{"all": 2}"#), temperature(r#"{"all": {"2": Infinity}}"#), "calibration.temperature.all.2", "Infinity"),
        (temperature(r#"{"all": 2}"#), temperature(r#"{"all": -Infinity}"#), "calibration.temperature.all", "Infinity"),
        (temperature(r#"{"all": 2}"#), temperature(r#"{"all": 1e999}"#), "calibration.temperature.all", "too large"),
        // Required temperatures.
        (
            calibration(r#""required": true, "temperature": {"noul": {"2": 1}, "choice": {"2-20": 1}, "all": 1}"#),
            calibration(r#""required": true, "temperature": {"noul": {"3": 1}, "choice": {"2-20": 1}, "all": 1}"#),
            "calibration.temperature",
            "has none for noul with 2 options",
        ),
        (
            calibration(r#""required": true, "temperature": {"all": {"2+": 1}}"#),
            calibration(r#""required": true, "temperature": {"all": 1, "choice": {"2-5": 1, "7+": 1}}"#),
            "calibration.temperature",
            "has none for choice with 6 options",
        ),
        (
            calibration(r#""required": true, "temperature": {"all": 1}"#),
            laya(r#""calibration": {"method": "none", "required": true, "temperature": {"all": 1}}"#),
            "calibration.required",
            "the method is none",
        ),
        (
            format!(r#"{{"spec_version": 1, "layout": "laya", "limits": {{"max_options": 3}}, {}}}"#, r#""calibration": {"method": "temperature", "required": true, "temperature": {"all": {"2-3": 1}}}"#),
            format!(r#"{{"spec_version": 1, "layout": "laya", "limits": {{"max_options": 4}}, {}}}"#, r#""calibration": {"method": "temperature", "required": true, "temperature": {"all": {"2-3": 1}}}"#),
            "calibration.temperature",
            "has none for choice with 4 options",
        ),
        // What it was fitted on.
        (calibration(r#""fitted": null"#), calibration(r#""fitted": []"#), "calibration.fitted", "must be an object or null"),
        (
            calibration(&format!(r#""fitted": {{"model_sha256": "{hash}", "n_fit": 7}}"#)),
            calibration(&format!(r#""fitted": {{"model_sha256": "{}"}}"#, hash.to_uppercase())),
            "calibration.fitted.model_sha256",
            "64 lower-case hexadecimal digits",
        ),
        (
            calibration(r#""fitted": {"numeric_contract": 1}"#),
            calibration(r#""fitted": {"numeric_contract": "1"}"#),
            "calibration.fitted.numeric_contract",
            "an integer",
        ),
        // Plan.
        (laya(r#""plan": null"#), laya(r#""plan": ["sequential"]"#), "plan", "must be an object or null"),
        (laya(r#""plan": {"name": "packed"}"#), laya(r#""plan": {"name": "joint"}"#), "plan.name", "one of \"sequential\", \"packed\""),
        (
            r#"{"spec_version": 1, "layout": "semif-letters", "plan": {"name": "joint"}}"#.into(),
            r#"{"spec_version": 1, "layout": "semif-letters", "plan": {"name": null}}"#.into(),
            "plan.name",
            "must be a text, not null",
        ),
        (laya(r#""plan": {"kernels": "repack+blas"}"#), laya(r#""plan": {"kernels": "cuda"}"#), "plan.kernels", "\"repack+blas\", not \"cuda\""),
        (laya(r#""plan": {"recipe": 3}"#), laya(r#""plan": {"kernels": null}"#), "plan.kernels", "not null"),
        // Router.
        (laya(r#""router": {}"#), laya(r#""router": []"#), "router", "must be an object or null"),
        (laya(r#""router": {"card_schema": "atomic.executor-card/1"}"#), laya(r#""router": {"card_schema": "other/1"}"#), "router.card_schema", "must be \"atomic.executor-card/1\""),
        (laya(r#""router": {"card_renderer": "card-v1"}"#), laya(r#""router": {"card_renderer": null}"#), "router.card_renderer", "must be \"card-v1\""),
        (laya(r#""router": {"max_card_tokens": 0}"#), laya(r#""router": {"max_card_tokens": 384.0}"#), "router.max_card_tokens", "not 384.0"),
        (laya(r#""router": {"question": null}"#), laya(r#""router": {"question": "x"}"#), "router.question", "must be an object or null"),
        (question(r#""x": 1"#), laya(r#""router": {"question": {"type": "choice", "instructions": "x"}}"#), "router.question.type", "must be \"noul\""),
        (question(r#""x": 1"#), laya(r#""router": {"question": {"instructions": "x"}}"#), "router.question.type", "is missing"),
        (question(r#""x": 1"#), laya(r#""router": {"question": {"type": "noul"}}"#), "router.question.instructions", "is missing"),
        (question(r#""x": 1"#), laya("\"router\": {\"question\": {\"type\": \"noul\", \"instructions\": \" \\u2028\\u001c\"}}"), "router.question.instructions", "a text that is not blank"),
        (question(r#""criteria": {"TRUE": "a", "False": null}"#), question(r#""criteria": {"true": "a", "maybe": "b"}"#), "router.question.criteria", "keyed only 'true'/'false'"),
        (question(r#""labels": {"false": "no", "true": " yes "}"#), question(r#""labels": {"false": "yes", "true": "yes\u0085"}"#), "router.question.labels", "distinct non-empty"),
        (laya(r#""router": {"calibration": null}"#), laya(r#""router": {"calibration": 1}"#), "router.calibration", "must be an object or null"),
        (
            laya(r#""router": {"calibration": {"method": "platt", "a": 1, "b": -0.5}}"#),
            laya(r#""router": {"calibration": {"method": "isotonic", "a": 1, "b": 0}}"#),
            "router.calibration.method",
            "must be \"platt\"",
        ),
        (laya(r#""router": {"calibration": {"method": "platt", "a": 2, "b": 0}}"#), laya(r#""router": {"calibration": {"a": 1, "b": 0}}"#), "router.calibration.method", "is missing"),
        (laya(r#""router": {"calibration": {"method": "platt", "a": 2, "b": 0}}"#), laya(r#""router": {"calibration": {"method": "platt", "a": 1}}"#), "router.calibration.b", "is missing; it must be a number"),
        (laya(r#""router": {"calibration": {"method": "platt", "a": 2, "b": 0}}"#), laya(r#""router": {"calibration": {"method": "platt", "a": "1", "b": 0}}"#), "router.calibration.a", "must be a number, not \"1\""),
    ]
}

#[test]
fn every_rule_is_kept_and_broken() {
    for (kept, broken, path, message) in rules() {
        let problems = spec::check(kept.as_bytes());
        assert!(problems.is_empty(), "{kept}: {problems:?}");
        Spec::parse(kept.as_bytes()).unwrap();

        let problems = spec::check(broken.as_bytes());
        assert!(problems.iter().all(|problem| problem.path == path), "{broken}: {problems:?}");
        let first = problems.first().unwrap_or_else(|| panic!("{broken} passed"));
        assert!(first.message.contains(message), "{broken}: {first}");
        let error = Spec::parse(broken.as_bytes()).unwrap_err();
        let place = (!path.is_empty()).then(|| Place::JsonPath(path.to_owned()));
        assert_eq!(error.place(), place.as_ref());
        assert!(error.message().starts_with(&first.message), "{error}");
    }
}

#[test]
fn all_problems_are_listed_and_the_first_is_the_error() {
    let text = r#"{"spec_version": 2, "layout": "laya", "confidence": "x", "limits": {"max_options": -1},
        "calibration": {"method": "temperature", "clamp": 1, "temperature": {"a": 1, "choice": {"2": 0, "x": 0}}},
        "plan": [], "router": {"question": {"type": "noul"}, "calibration": {}}}"#;
    let paths: Vec<_> = spec::check(text.as_bytes()).into_iter().map(|problem| problem.path).collect();
    let want = [
        "spec_version",
        "confidence",
        "limits.max_options",
        "plan",
        "calibration.clamp",
        "calibration.temperature.a",
        "calibration.temperature.choice.2",
        "calibration.temperature.choice.x",
        "calibration.temperature.choice.x",
        "router.question.instructions",
        "router.calibration.method",
    ];
    assert_eq!(paths, want);
    let error = Spec::parse(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        error,
        "spec_version: must be the integer 1, not 2 (wrong too: confidence, limits.max_options, plan, calibration.clamp, \
         calibration.temperature.a, calibration.temperature.choice.2, calibration.temperature.choice.x, \
         calibration.temperature.choice.x, router.question.instructions, router.calibration.method)"
    );
}

#[test]
fn a_long_path_keeps_its_ends() {
    let key = "k".repeat(10_000);
    let text = temperature(&format!(r#"{{"choice": {{"{key}": 1}}}}"#));
    let path = spec::check(text.as_bytes()).remove(0).path;
    assert!(path.starts_with("calibration.temperature.choice.kkk") && path.chars().count() == 161, "{path}");
    assert!(path.contains("k\u{2026}k"));
}

#[test]
fn fields_are_read() {
    let text = r#"{"spec_version": 1, "model_id": "a/b", "model_version": "1.0", "layout": "laya",
        "input_contract": "laya-router-v1", "special_tokens": "escape-control",
        "limits": {"max_options": 50, "max_candidates": 16, "max_prompt_tokens": 900},
        "calibration": {"method": "temperature", "version": "v7", "temperature": {"all": 1.25}},
        "confidence": "max_p", "plan": {"name": "packed", "kernels": "default"},
        "router": {"max_card_tokens": 384, "calibration": {"method": "platt", "a": 1.5, "b": -1}}}"#;
    let spec = Spec::parse(text.as_bytes()).unwrap();
    let contract = spec.contract();
    assert_eq!(
        (contract.layout, contract.confidence, contract.kernels),
        (Layout::Laya, Confidence::MaxP, Kernels::Default)
    );
    assert_eq!((contract.input.as_str(), contract.special_tokens), ("laya-router-v1", SpecialTokens::EscapeControl));
    assert_eq!(
        (contract.max_options, contract.max_candidates, contract.max_prompt_tokens),
        (Some(50), Some(16), Some(900))
    );
    assert_eq!(contract.plan.as_deref(), Some("packed"));
    assert_eq!(spec.calibration().unwrap().version(), Some("v7"));
    let router = spec.router().unwrap();
    let platt = router.calibration.unwrap();
    assert_eq!((router.max_card_tokens, platt.a, platt.b), (Some(384), 1.5, -1.0));
    assert_eq!(spec.text(), text.as_bytes());
    let mirrors: Vec<_> = spec.mirrors().into_iter().map(|(key, _)| key).collect();
    assert_eq!(mirrors, spec::MIRROR_KEYS);
    // As `printf '%s' '{"spec_version": 1, "layout": "laya"}' | sha256sum` has it.
    let hash = "6094ac81538c589f7184cc3ce96aadb59cc9db91dac49a5556e3668a80c48326";
    assert_eq!(Spec::parse(laya("").as_bytes()).unwrap().sha256(), hash);
}

#[test]
fn no_text_panics() {
    let text = rules().into_iter().map(|(kept, ..)| kept).max_by_key(String::len).unwrap();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for (kept, broken, ..) in rules() {
        for text in [&kept, &broken, &text] {
            for _ in 0..20 {
                let mut bytes = text.as_bytes().to_vec();
                bytes.truncate(4096);
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bytes.len();
                bytes[at] = (seed >> 20) as u8;
                let problems = spec::check(&bytes);
                assert_eq!(problems.is_empty(), Spec::parse(&bytes).is_ok());
            }
        }
    }
}
