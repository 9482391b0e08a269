//! What is not written, and why.

use crate::random::SplitMix64 as Random;
use crate::{model, names, stamp};
use laya::gguf::File;
use laya::kernels::NUMERIC_CONTRACT;
use laya::spec::{self, KEY, Spec, model_sha256};
use std::fs;

#[test]
fn what_is_refused_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (laya, other, none) = (dir.join("laya.gguf"), dir.join("other.gguf"), dir.join("none.gguf"));
    let bytes = [model::model(&mut Random(2), "laya"), model::model(&mut Random(3), "qwen3"), b"GGUF?".to_vec()];
    for (path, bytes) in [&laya, &other, &none].into_iter().zip(&bytes) {
        fs::write(path, bytes).unwrap();
    }
    let good = br#"{"spec_version": 1, "layout": "laya"}"#;
    let letters = br#"{"spec_version": 1, "layout": "semif-letters"}"#;
    for (path, out, text, says) in [
        (&laya, None, &b"{"[..], "expected a key"),
        (&laya, None, br#"{"layout": "laya"}"#, "spec_version: is missing"),
        (&laya, None, letters, "layout: is not the layout of this file, whose general.architecture is \"laya\""),
        (&other, None, good, "layout: is not the layout of this file, whose general.architecture is \"qwen3\""),
        (&laya, Some(&other), good, "other.gguf: is there already; --force replaces it"),
        (&laya, Some(&laya), good, "laya.gguf: is there already; --force replaces it"),
        (&none, None, good, "none.gguf: the file ends inside the GGUF header"),
        (&dir.join("absent.gguf"), None, good, "absent.gguf: cannot open"),
        (&dir.to_path_buf(), None, good, "is a directory"),
        (&laya, Some(&dir.join("no/out.gguf")), good, "no/out.gguf: cannot create"),
    ] {
        let error = stamp(path, out.map(|out| out.as_path()), text, false).unwrap_err().to_string();
        assert!(error.contains(says), "{error:?} does not say {says:?}");
        for (path, bytes) in [&laya, &other, &none].into_iter().zip(&bytes) {
            assert!(fs::read(path).unwrap() == *bytes, "{error}");
        }
        assert_eq!(names(dir), ["laya.gguf", "none.gguf", "other.gguf"], "{error}");
    }
    // No force makes a spec of another layout load.
    assert!(stamp(&other, None, good, true).unwrap_err().to_string().contains("layout"));
    let stamped = stamp(&laya, Some(&other), good, true).unwrap();
    assert_eq!((stamped.path, stamped.overridden), (other.clone(), Vec::new()));
    assert_eq!(File::open(&other).unwrap().string(KEY).unwrap(), Some(&good[..]));
}

#[test]
fn a_calibration_belongs_to_the_model_it_was_fitted_on() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.gguf"), folder.path().join("b.gguf"));
    let mut random = Random(4);
    for path in [&a, &b] {
        fs::write(path, model::model(&mut random, "laya")).unwrap();
    }
    let own = model_sha256(&File::open(&a).unwrap()).unwrap();
    let text = format!(
        r#"{{"spec_version": 1, "layout": "laya", "calibration": {{"method": "temperature",
            "temperature": {{"all": 1.5}}, "fitted": {{"model_sha256": "{own}"}}}}}}"#
    );
    let stamped = stamp(&a, None, text.as_bytes(), false).unwrap();
    assert!(stamped.overridden.is_empty());
    let file = File::open(&a).unwrap();
    assert_eq!(model_sha256(&file).unwrap(), own, "stamping makes no other model of it");
    assert!(spec::verify(&file, None, NUMERIC_CONTRACT).unwrap().problems.is_empty());

    let before = fs::read(&b).unwrap();
    let error = stamp(&b, None, text.as_bytes(), false).unwrap_err().to_string();
    assert!(error.contains("b.gguf: calibration.fitted.model_sha256: is "), "{error}");
    assert!(
        error.contains("fitted on another one. Fit it again on this one, or write it all the same with --force"),
        "{error}"
    );
    assert!(fs::read(&b).unwrap() == before);
    let stamped = stamp(&b, None, text.as_bytes(), true).unwrap();
    assert_eq!(stamped.overridden.len(), 1);
    let file = File::open(&b).unwrap();
    assert_eq!(Spec::embedded(&file).unwrap().unwrap().text(), text.as_bytes());
    assert_eq!(spec::verify(&file, None, NUMERIC_CONTRACT).unwrap().problems, stamped.overridden);
}

#[test]
fn verify_lists_every_problem() {
    use laya::gguf::{Value, Writer};
    let problems = |set: &[(&str, Value)], expected: Option<&[u8]>| {
        let mut writer = Writer::new();
        writer.set("general.architecture", "laya");
        set.iter().for_each(|(key, value)| writer.set(*key, value.clone()));
        let file = File::from_bytes(writer.to_bytes(|_, _| Ok(())).unwrap()).unwrap();
        let verdict = spec::verify(&file, expected, NUMERIC_CONTRACT).unwrap();
        let paths: Vec<_> = verdict.problems.iter().map(|problem| problem.path.clone()).collect();
        (verdict.stamped, verdict.sha256.is_some(), paths)
    };
    let text = |text: &str| (KEY, Value::from(text));
    let good = r#"{"spec_version": 1, "layout": "laya", "model_id": "m"}"#;
    let ok = (true, true, vec![]);
    assert_eq!(problems(&[], None), (false, false, vec![]));
    assert_eq!(problems(&[text(good)], None), ok);
    assert_eq!(problems(&[text(good)], Some(good.as_bytes())), ok);
    assert_eq!(problems(&[text(good)], Some(format!("{good}\n").as_bytes())), ok);
    let differs = (true, true, vec![KEY.to_owned()]);
    for other in [format!("{good} "), format!("{good}\n\n"), good.replace("\"m\"", "\"n\""), String::new()] {
        assert_eq!(problems(&[text(good)], Some(other.as_bytes())), differs, "{other:?}");
    }
    // A line break of the spec itself is not one that get adds.
    assert_eq!(problems(&[text(&format!("{good}\n"))], Some(good.as_bytes())), differs);

    assert_eq!(problems(&[(KEY, Value::U32(1))], None), (true, false, vec![KEY.to_owned()]));
    let stale = ("decision.layout", Value::from("laya"));
    assert_eq!(problems(&[stale], None), (false, false, vec!["decision.layout".to_owned()]));
    let all = [
        text(good),
        ("decision.spec_version", Value::U64(1)),
        ("decision.layout", Value::from("semif-letters")),
        ("decision.model_id", Value::from("n")),
        ("decision.model_version", Value::from("1")),
    ];
    let keys = all[1..].iter().map(|(key, _)| (*key).to_owned()).collect();
    assert_eq!(problems(&all, None), (true, true, keys));
    let bad = r#"{"spec_version": 2, "layout": "semif-letters", "plan": 1,
        "calibration": {"method": "none", "clamp": 1, "fitted": {"model_sha256": "x"}}}"#;
    let (_, _, paths) = problems(&[text(bad)], Some(b"{}"));
    for path in ["spec_version", "plan", "calibration.clamp", "layout", "calibration.fitted.model_sha256", KEY] {
        assert!(paths.iter().any(|found| found == path), "{path} is not in {paths:?}");
    }
}
