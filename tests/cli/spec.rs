//! What a spec does to answers on the command line.

use super::fixture::{NOTE, laya_cli, model, parsed, run};
use laya::gguf::File;
use laya::json::Value;
use laya::readout::round_to_4_digits;
use laya::spec::model_sha256;
use std::path::{Path, PathBuf};

const REQUEST: &[u8] = br#"{"state": "One cup is broken.", "questions": {
    "a": {"type": "noul", "instructions": "Is it late?"},
    "b": {"type": "choice", "instructions": "What about?", "criteria": ["delivery", "billing", "other"]},
    "c": {"type": "score", "instructions": "How urgent?", "criteria": ["low", "mid", "high", "now"]}}}"#;

fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("spec.json");
    std::fs::write(&path, text).unwrap();
    path
}

fn number(value: &Value, path: &[&str]) -> f64 {
    path.iter().fold(value, |value, key| value.get(key).unwrap()).as_f64().unwrap()
}

/// All numbers of a value, in order.
fn numbers(value: &Value, out: &mut Vec<f64>) {
    match value {
        Value::Number(n) => out.push(n.as_f64()),
        Value::Array(items) => items.iter().for_each(|item| numbers(item, out)),
        Value::Object(fields) => fields.values().for_each(|value| numbers(value, out)),
        _ => {}
    }
}

#[test]
fn unrounded_numbers_round_to_the_ones_that_are_printed_without_it() {
    let (code, rounded, _) = run(laya_cli(&["-f", "-"]), REQUEST);
    assert_eq!(code, Some(0));
    let (_, unrounded, stderr) = run(laya_cli(&["-f", "-", "--unrounded"]), REQUEST);
    assert_eq!(stderr, NOTE);
    let (rounded, unrounded) = (parsed(&rounded), parsed(&unrounded));
    let (mut short, mut long) = (Vec::new(), Vec::new());
    numbers(rounded.get("answers").unwrap(), &mut short);
    numbers(unrounded.get("answers").unwrap(), &mut long);
    assert!(short.len() > 15 && short.len() == long.len() && short != long);
    assert!(short.iter().zip(&long).all(|(short, long)| round_to_4_digits(*long) == *short));
    for key in ["per_question", "usage", "runtime"] {
        assert_eq!(rounded.get(key), unrounded.get(key));
    }
    // The doubles are those of the formula: noul is the second of two, at the temperature the note tells.
    let answer = unrounded.get("per_question").unwrap().get("a").unwrap();
    let logits = answer.get("raw_logits").and_then(Value::as_array).unwrap();
    let z: Vec<f64> = logits.iter().map(|z| z.as_f64().unwrap() / 5.0).collect();
    let p = 1.0 / (1.0 + (z[0] - z[1]).exp());
    assert!((number(&unrounded, &["answers", "a", "noul"]) - p).abs() < 1e-12);
}

#[test]
fn a_spec_file_changes_temperatures_confidence_and_what_is_said_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"{"spec_version": 1, "layout": "laya", "confidence": "max_p", "plan": {"name": "sequential"},
        "calibration": {"method": "temperature", "version": "v3", "temperature": {"all": 2.0, "score": {"9+": 1.5}}}}"#;
    let path = file(folder.path(), text);
    let arguments = ["--spec", path.to_str().unwrap(), "--unrounded", "-f", "-"];
    let (code, stdout, stderr) = run(laya_cli(&arguments), REQUEST);
    // Nothing is clamped any more.
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let output = parsed(&stdout);
    let runtime = output.get("runtime").unwrap();
    let said = |key: &str| runtime.get(key).unwrap().dumps();
    assert_eq!(
        [said("plan"), said("spec_source"), said("calibration"), said("kernels"), said("numeric_contract")],
        ["\"sequential\"", "\"file\"", "\"v3\"", "\"default\"", "1"]
    );
    let hash = laya::spec::Spec::parse(text.as_bytes()).unwrap().sha256();
    assert_eq!(said("spec_sha256"), format!("\"{hash}\""));
    for (id, temperature) in [("b", 2.0), ("c", 1.0)] {
        let per_question = output.get("per_question").and_then(|all| all.get(id)).unwrap();
        let logits = per_question.get("raw_logits").and_then(Value::as_array).unwrap();
        let weights: Vec<f64> = logits.iter().map(|z| (z.as_f64().unwrap() / temperature).exp()).collect();
        let p: Vec<f64> = weights.iter().map(|w| w / weights.iter().sum::<f64>()).collect();
        let answer = output.get("answers").and_then(|all| all.get(id)).unwrap();
        let printed = answer.get("probabilities").and_then(Value::as_object).unwrap();
        assert!(printed.values().zip(&p).all(|(printed, p)| (printed.as_f64().unwrap() - p).abs() < 1e-12), "{id}");
        let most = printed.values().map(|p| p.as_f64().unwrap()).fold(0.0, f64::max);
        assert_eq!(number(answer, &["confidence"]), most);
    }
}

#[test]
fn a_spec_that_cannot_be_used_says_where_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let other = "0".repeat(64);
    let fitted = |hash: &str| {
        format!(
            r#"{{"spec_version": 1, "layout": "laya", "calibration": {{"method": "temperature",
                "temperature": {{"all": 2}}, "fitted": {{"model_sha256": "{hash}"}}}}}}"#
        )
    };
    let own = model_sha256(&File::open(model()).unwrap()).unwrap();
    let blas = r#"{"spec_version": 1, "layout": "laya", "plan": {"kernels": "blas"}}"#;
    for (text, arguments, says) in [
        (r#"{"temperature": {"all": 1e-300}}"#, &[][..], "temperature.all: a temperature is a number from 1e-6"),
        (r#"{"spec_version": 1, "layout": "laya", "confidence": "x"}"#, &[], "confidence: must be one of"),
        (&fitted(&other), &[], "calibration.fitted.model_sha256: is 000"),
        (&fitted(&other), &["--kernels", "default"], "use it all the same with --allow-spec-mismatch"),
        (blas, &[], "plan.kernels: is \"blas\": the calibration was fitted with kernels this build does not have"),
        (blas, &["--allow-spec-mismatch"], "use it all the same with --kernels default"),
    ] {
        let path = file(folder.path(), text);
        let all = [&["--spec", path.to_str().unwrap(), "-f", "-"], arguments].concat();
        let (code, stdout, stderr) = run(laya_cli(&all), REQUEST);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        assert!(stderr.starts_with(&format!("laya-cli: error: {}: ", path.display())), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
    for (text, arguments) in [
        (fitted(&own), &[][..]),
        (fitted(&other), &["--allow-spec-mismatch"]),
        (blas.to_owned(), &["--kernels", "default"]),
        (blas.to_owned(), &["--kernels", "auto"]),
    ] {
        let path = file(folder.path(), &text);
        let all = [&["--spec", path.to_str().unwrap(), "-f", "-"], arguments].concat();
        let (code, _, stderr) = run(laya_cli(&all), REQUEST);
        assert_eq!(code, Some(0), "{stderr}");
    }
    let (code, _, stderr) = run(laya_cli(&["-f", "-", "--kernels", "blas"]), REQUEST);
    assert_eq!(code, Some(64), "{stderr}");
    let (code, _, stderr) = run(laya_cli(&["-f", "-", "--spec", "nowhere.json"]), REQUEST);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("nowhere.json: cannot open"), "{stderr}");
}

#[test]
fn a_spec_comes_from_standard_input_when_the_requests_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let request = folder.path().join("request.json");
    std::fs::write(&request, REQUEST).unwrap();
    let spec = br#"{"spec_version": 1, "layout": "laya", "calibration": {"method": "none", "version": "off"}}"#;
    let (code, stdout, stderr) = run(laya_cli(&["--spec", "-", "-f", request.to_str().unwrap()]), spec);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(parsed(&stdout).get("runtime").unwrap().get("calibration").and_then(Value::as_str), Some("off"));
    let (code, _, stderr) = run(laya_cli(&["--spec", "-", "-f", request.to_str().unwrap()]), b"{}");
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("laya-cli: error: standard input: spec_version: is missing"), "{stderr}");
    for (arguments, says) in [
        (&["--spec", "-", "--jsonl", "-"][..], "cannot both come from standard input"),
        (&["--spec", "x.json", "--tokenize", "-"], "cannot be used with"),
        (&["--unrounded", "--tokenize", "-"], "cannot be used with"),
    ] {
        let (code, _, stderr) = run(laya_cli(arguments), b"");
        assert_eq!(code, Some(64), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
}
