//! `gguf-spec identify` and `dump` on sound files.

use std::fs;
use std::path::{Path, PathBuf};

use laya::convert::{Layout, Outtype};
use laya::engine::{self, Engine};
use laya::gguf::{File, Value, Writer};
use laya::json;
use laya::kernels::NUMERIC_CONTRACT;
use laya::spec;
use sha2::{Digest as _, Sha256};

use crate::{converted, edited, file, gguf_spec, same, text};

/// Writes `file` into `dir`.
fn stored(dir: &Path, name: &str, file: &File) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, file.map().bytes()).unwrap();
    path
}

fn identified(path: &Path) -> json::Value {
    let output = gguf_spec(&["identify", "--json"], &[path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    json::parse(&output.stdout).unwrap()
}

#[test]
fn the_command_line_tells_the_stamp_and_the_hash() {
    const SPEC: &str = r#"{"spec_version": 1, "model_id": "atomic/router-laya", "model_version": "1.0.0", "layout": "laya",
        "calibration": {"method": "temperature", "version": "fit-7", "clamp": [0.5, 5.0], "temperature": {"noul": {"2": 1.37}}}}"#;
    let dir = tempfile::tempdir().unwrap();
    let plain = converted("tiny-mmbert", Outtype::F16, Layout::Laya);
    let stamped = |spec: &[u8], id: &str| {
        let keys = |keys: &mut Writer| {
            keys.set("decision.spec", Value::String(spec.to_vec()));
            keys.set("decision.spec_version", 1u32);
            keys.set("decision.layout", "laya");
            keys.set("decision.model_id", id);
            keys.set("decision.model_version", "1.0.0");
        };
        edited(&plain, keys, same)
    };
    let state = |value: &json::Value, key: &str| {
        value.get("spec").unwrap().get(key).and_then(json::Value::as_str).map(str::to_owned)
    };
    let path = stored(dir.path(), "plain.gguf", &plain);
    let value = identified(&path);
    assert_eq!(state(&value, "state").as_deref(), Some("unstamped"));
    let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(value.get("sha256").unwrap().as_str(), Some(hex(plain.map().bytes()).as_str()));
    let unhashed = gguf_spec(&["identify", "--no-hash"], &[&path]);
    let unhashed = text(&unhashed.stdout);
    assert!(!unhashed.contains("sha256") && unhashed.contains("  decision.spec unstamped\n"), "{unhashed}");

    let path = stored(dir.path(), "stamped.gguf", &stamped(SPEC.as_bytes(), "atomic/router-laya"));
    let value = identified(&path);
    assert_eq!(value.get("problems").unwrap().dumps(), "[]");
    for (key, expected) in [
        ("state", "stamped"),
        ("model_id", "atomic/router-laya"),
        ("model_version", "1.0.0"),
        ("sha256", hex(SPEC.as_bytes()).as_str()),
        ("calibration", "temperature"),
        ("calibration_version", "fit-7"),
    ] {
        assert_eq!(state(&value, key).as_deref(), Some(expected), "{key}");
    }
    let told = gguf_spec(&["identify"], &[&path]);
    for line in ["  decision.spec stamped, atomic/router-laya 1.0.0\n", "  calibration   temperature (version fit-7)\n"]
    {
        assert!(text(&told.stdout).contains(line), "{}", text(&told.stdout));
    }

    for (spec, id, says) in [
        (&b"{"[..], "x", ""),
        (br#"{"spec_version": 2}"#, "x", "spec_version"),
        (SPEC.as_bytes(), "another", "decision.model_id"),
        (b"\xff", "x", ""),
    ] {
        let value = identified(&stored(dir.path(), "invalid.gguf", &stamped(spec, id)));
        assert_eq!(state(&value, "state").as_deref(), Some("invalid"), "{}", spec.escape_ascii());
        let problems = value.get("spec").unwrap().get("problems").unwrap().dumps();
        assert!(problems.contains(says) && problems != "[]", "{problems}");
        // It is the same model all the same.
        assert_eq!(value.get("layout").unwrap().as_str(), Some("laya"));
        let told = gguf_spec(&["identify"], &[&dir.path().join("invalid.gguf")]);
        assert!(
            text(&told.stdout).contains("  decision.spec stamped, but invalid\n  problem       "),
            "{}",
            text(&told.stdout)
        );
    }
}

/// `file` with a spec in it.
fn with_spec(file: &File, spec: &str) -> File {
    let mut copy = Writer::new();
    file.keys().for_each(|(key, value)| copy.set(key, value.clone()));
    copy.set(spec::KEY, spec);
    for tensor in file.tensors() {
        copy.add_tensor(&*tensor.name, &tensor.shape, tensor.ty).unwrap();
    }
    let mut data = file.tensors().iter().map(|tensor| file.tensor_data(tensor));
    let bytes = copy.to_bytes(|_, out| {
        out.write_all(data.next().unwrap()).unwrap();
        Ok(())
    });
    File::from_bytes(bytes.unwrap()).unwrap()
}

fn calibrated(fields: &str) -> String {
    format!(
        r#"{{"spec_version": 1, "layout": "laya", "calibration": {{"method": "temperature", "temperature": {{"all": 2}},
            {fields}}}}}"#
    )
}

/// A spec; what is found wrong with it with and without a look at the tensors; which model it was fitted on.
type SpecCase = (String, &'static str, &'static str, [&'static str; 2]);

#[test]
fn a_spec_that_is_refused_keeps_a_file_from_being_run() {
    const ANOTHER_MODEL: &str = "key decision.spec: calibration.fitted.model_sha256: is 00";
    const ANOTHER_CONTRACT: &str = "key decision.spec: calibration.fitted.numeric_contract: is 2,";
    let dir = tempfile::tempdir().unwrap();
    for layout in [Layout::Laya, Layout::ModernBert] {
        let plain = converted("tiny-mmbert", Outtype::F16, layout);
        let own = spec::model_sha256(&plain).unwrap();
        let other = "0".repeat(64);
        let fitted = |hash: &str, contract: u32| {
            calibrated(&format!(r#""fitted": {{"model_sha256": "{hash}", "numeric_contract": {contract}}}"#))
        };
        let whole = |fields: &str| format!(r#"{{"spec_version": 1, "layout": "laya", {fields}}}"#);
        let cases: [SpecCase; 10] = [
            (whole(r#""x": 1"#), "", "", ["null"; 2]),
            (whole(r#""plan": {"kernels": "default"}"#), "", "", ["null"; 2]),
            (whole(r#""confidence": "low""#), "key decision.spec: confidence: ", "key decision.spec: ", ["absent"; 2]),
            (whole(r#""plan": {"kernels": "blas"}"#), "plan.kernels: is \"blas\"", "plan.kernels: ", ["null"; 2]),
            (r#"{"spec_version": 1, "layout": "semif-letters"}"#.into(), "layout: is", "layout: is", ["null"; 2]),
            (fitted(&own, NUMERIC_CONTRACT), "", "", ["\"this model\"", "\"not checked\""]),
            (fitted(&other, NUMERIC_CONTRACT), ANOTHER_MODEL, "", ["\"another model\"", "\"not checked\""]),
            (fitted(&own, 2), ANOTHER_CONTRACT, ANOTHER_CONTRACT, ["\"not checked\""; 2]),
            (fitted(&other, 2), ANOTHER_CONTRACT, ANOTHER_CONTRACT, ["\"not checked\""; 2]),
            (calibrated(r#""fitted": {"numeric_contract": 2}"#), ANOTHER_CONTRACT, ANOTHER_CONTRACT, ["null"; 2]),
        ];
        for (text_of_spec, found, found_unhashed, fitted_on) in &cases {
            let file = with_spec(&plain, text_of_spec);
            let path = stored(dir.path(), "m.gguf", &file);
            let loads = Engine::from_gguf(&file, &engine::Options::default()).is_ok();
            assert_eq!(loads, found.is_empty(), "{text_of_spec}");
            for (arguments, found, fitted_on) in
                [(&["identify"][..], found, fitted_on[0]), (&["identify", "--no-hash"], found_unhashed, fitted_on[1])]
            {
                let json = gguf_spec(&[arguments, &["--json"]].concat(), &[&path]);
                let value = json::parse(&json.stdout).unwrap();
                let runs = value.get("runs").unwrap().dumps().contains("this toolbox");
                assert_eq!(runs, found.is_empty(), "{arguments:?} {text_of_spec}");
                let problems = value.get("problems").unwrap().as_array().unwrap();
                assert_eq!(problems.len(), usize::from(!found.is_empty()), "{problems:?}");
                assert!(problems.iter().all(|problem| problem.as_str().unwrap().contains(found)), "{problems:?}");
                let told = value.get("spec").unwrap().get("fitted_on").map_or("absent".into(), json::Value::dumps);
                assert_eq!(told, fitted_on, "{arguments:?} {text_of_spec}");
                let told = gguf_spec(arguments, &[&path]);
                let told = text(&told.stdout);
                assert_eq!(told.contains("\n  runs with     this toolbox"), runs, "{told}");
                let row = format!("\n  fitted on     {}\n", fitted_on.trim_matches('"'));
                assert_eq!(told.contains(&row), fitted_on.starts_with('"'), "{told}");
            }
        }
    }
}

#[test]
fn it_is_told_which_temperatures_hold() {
    let dir = tempfile::tempdir().unwrap();
    let plain = converted("tiny-mmbert", Outtype::F16, Layout::Laya);
    let calibration = |value: &str| format!(r#"{{"spec_version": 1, "layout": "laya", "calibration": {value}}}"#);
    for (spec, method, version, overridden) in [
        (r#"{"spec_version": 1, "layout": "laya"}"#.into(), "the model's own", None, false),
        (calibration("null"), "none", None, true),
        (calibration(r#"{"method": "none"}"#), "none", None, true),
        (calibrated(r#""version": "fit-7""#), "temperature", Some("fit-7"), true),
        (calibrated(r#""required": false"#), "temperature", None, true),
    ] {
        let file = with_spec(&plain, &spec);
        // What is told is what holds: the tiny model has a temperature of its own for every type.
        let [holds, own] = [&file, &plain].map(|file| Engine::from_gguf(file, &engine::Options::default()).unwrap());
        assert_eq!(holds.calibration() != own.calibration(), overridden, "{spec}");
        let path = stored(dir.path(), "m.gguf", &file);
        let value = identified(&path);
        let told = |key: &str| value.get("spec").unwrap().get(key).and_then(json::Value::as_str);
        assert_eq!((told("calibration"), told("calibration_version")), (Some(method), version), "{spec}");
        let stored = value.get("calibration").unwrap();
        assert_eq!(stored.get("overridden").unwrap().as_bool(), Some(overridden), "{spec}");
        assert_eq!(stored.get("temperatures").unwrap().as_str(), Some("per type"));
        let told = gguf_spec(&["identify", "--no-hash"], &[&path]);
        let told = text(&told.stdout);
        let version = version.map_or_else(String::new, |version| format!(" (version {version})"));
        assert!(told.contains(&format!("\n  calibration   {method}{version}\n")), "{told}");
        let end = if overridden { "noul 7.5; overridden by decision.spec\n" } else { "noul 7.5\n" };
        assert!(told.contains(end), "{told}");
    }
}

#[test]
fn what_no_inventory_shows_is_found_too() {
    let dir = tempfile::tempdir().unwrap();
    let plain = converted("tiny-mmbert", Outtype::F16, Layout::ModernBert);
    for (key, value, says) in [
        ("modern-bert.rope.freq_base", Value::F32(-1.0), "key modern-bert.rope.freq_base: is -1"),
        ("tokenizer.ggml.bos_token_id", Value::U32(90_000), "token 90000"),
        ("tokenizer.ggml.token_type", vec![1i32; 3].into(), "key tokenizer.ggml.token_type: "),
    ] {
        let path = stored(dir.path(), "m.gguf", &edited(&plain, |keys| keys.set(key, value), same));
        let value = identified(&path);
        let problems = value.get("problems").unwrap().dumps();
        assert!(problems.contains(says), "{problems}");
        assert_eq!(value.get("runs").unwrap().dumps(), r#"["llama-server of current llama.cpp"]"#, "{key}");
    }
}

#[test]
fn of_several_files_all_are_told_that_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let good = stored(dir.path(), "good.gguf", &file(&[("general.architecture", "ggmlc".into())]));
    let zip = dir.path().join("zip.gguf");
    fs::write(&zip, b"PK\x03\x04xxxxxxxxxxxx").unwrap();
    let missing = dir.path().join("missing.gguf");
    let output = gguf_spec(&["identify", "--no-hash"], &[&zip, &good, &missing, &good]);
    assert_eq!(output.status.code(), Some(1));
    let err = text(&output.stderr);
    assert!(err.contains("zip archive") && err.contains("missing.gguf") && err.lines().count() == 2, "{err}");
    let out = text(&output.stdout);
    assert_eq!(out.matches("good.gguf: a compiled graph").count(), 2, "{out}");
    assert_eq!(out.matches("\n\n").count(), 1, "{out}");
    assert!(!out.starts_with('\n'));
    let output = gguf_spec(&["identify", "--no-hash", "--json"], &[&zip, &good, &missing]);
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<_> = text(&output.stdout).lines().map(|line| json::parse(line.as_bytes()).unwrap()).collect();
    let errors: Vec<_> = lines.iter().map(|line| line.get("error").is_some()).collect();
    assert_eq!(errors, [true, false, true]);
    assert_eq!(gguf_spec(&["identify", "--no-hash"], &[&good, &good]).status.code(), Some(0));
    for arguments in [&["identify"][..], &["dump"], &["dump", "--keys-only", "--tensors-only", "x"]] {
        assert_eq!(gguf_spec(arguments, &[]).status.code(), Some(64), "{arguments:?}");
    }
    assert_eq!(gguf_spec(&["dump"], &[&zip]).status.code(), Some(1));
}

#[test]
fn a_dump_has_every_key_and_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let plain = converted("tiny-mmbert", Outtype::F16, Layout::Laya);
    let path = stored(dir.path(), "m.gguf", &plain);
    let dump = |arguments: &[&str]| {
        let arguments: Vec<_> = std::iter::once("dump").chain(arguments.iter().copied()).collect();
        let output = gguf_spec(&arguments, &[&path]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let full = json::parse(dump(&["--json", "--full"]).as_bytes()).unwrap();
    let keys = full.get("keys").unwrap().as_array().unwrap();
    assert_eq!(keys.len(), plain.keys().len());
    for (shown, (key, value)) in keys.iter().zip(plain.keys()) {
        assert_eq!(shown.get("name").unwrap().as_str(), Some(key));
        assert_eq!(shown.get("type").unwrap().as_str(), Some(value.type_name().as_str()));
        assert_eq!(shown.get("left_out"), None);
        let shown = shown.get("value").unwrap();
        match value {
            Value::U32(n) => assert_eq!(shown.as_u64(), Some(u64::from(*n))),
            Value::F32(x) => assert_eq!(shown.as_f64(), Some(f64::from(*x))),
            Value::Bool(truth) => assert_eq!(shown.as_bool(), Some(*truth)),
            Value::String(bytes) => assert_eq!(shown.as_str().map(str::as_bytes), Some(&bytes[..])),
            Value::Array(array) => assert_eq!(shown.as_array().unwrap().len(), array.len()),
            other => panic!("{key}: {other:?}"),
        }
    }
    let tokens = keys.iter().find(|key| key.get("name").unwrap().as_str() == Some("tokenizer.ggml.tokens")).unwrap();
    let shown = tokens.get("value").unwrap().as_array().unwrap();
    for (shown, token) in shown.iter().zip(plain.require_strings("tokenizer.ggml.tokens").unwrap().iter()) {
        match std::str::from_utf8(token) {
            Ok(token) => assert_eq!(shown.as_str(), Some(token)),
            Err(_) => assert!(shown.get("hex").is_some()),
        }
    }
    let tensors = full.get("tensors").unwrap().as_array().unwrap();
    assert_eq!(tensors.len(), plain.tensors().len());
    for (shown, tensor) in tensors.iter().zip(plain.tensors()) {
        assert_eq!(shown.get("name").unwrap().as_str(), Some(tensor.name.as_str()));
        assert_eq!(shown.get("type").unwrap().as_str(), Some(tensor.ty.name()));
        assert_eq!(shown.get("offset").unwrap().as_u64(), Some(tensor.offset));
        assert_eq!(shown.get("n_bytes").unwrap().as_u64(), Some(tensor.n_bytes));
        let shape: json::Value = tensor.shape.iter().copied().collect();
        assert_eq!(shown.get("shape"), Some(&shape));
    }
    let short = json::parse(dump(&["--json"]).as_bytes()).unwrap();
    let tokens =
        short.get("keys").unwrap().as_array().unwrap().iter().find(|key| key.get("left_out").is_some()).unwrap();
    let n = tokens.get("n").unwrap().as_u64().unwrap();
    assert_eq!(tokens.get("left_out").unwrap().as_u64(), Some(n - 6));

    for (arguments, keys, tensors) in [
        (&["--keys-only"][..], true, false),
        (&["--tensors-only"], false, true),
        (&[], true, true),
        (&["--keys-only", "--full"], true, false),
    ] {
        let shown = dump(arguments);
        assert_eq!(shown.contains("\n laya.block_count "), keys, "{arguments:?}");
        assert_eq!(shown.contains("\n token_embd.weight "), tensors, "{arguments:?}");
        let json = json::parse(dump(&[arguments, &["--json"]].concat()).as_bytes()).unwrap();
        assert_eq!((json.get("keys").is_some(), json.get("tensors").is_some()), (keys, tensors));
        assert!(shown.lines().all(|line| line.chars().count() < 200) || arguments.contains(&"--full"), "{shown}");
    }
}
