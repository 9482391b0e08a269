//! `parity-gate compare`, `derive` and `tiers`: exit codes, results, refusals.

use crate::fixture::{parsed, run};
use crate::gate::{self, OTHER, RunText, engine, on_device, reference};
use laya::json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes the runs the tests and the transcripts are about into `folder`.
pub(crate) fn stage(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let write = |name: &str, run: &RunText| fs::write(folder.join(name), run.sealed()).unwrap();
    let cpu = engine(8);
    write("reference.jsonl", &reference(8));
    write("cpu.jsonl", &cpu);
    let mut scalar = cpu.clone();
    scalar.set("runtime", "isa", "scalar");
    write("scalar.jsonl", &scalar);
    let mut wrong = cpu.clone();
    *wrong.question(3, "c", &["answer", "probabilities", "b"]) = Value::from(0.5);
    write("far.jsonl", &wrong);
    wrong.question(5, "n", &["ids", "8"]).clone_from(&Value::from(7_i64));
    wrong.refuse(6, "the state is too long");
    write("wrong.jsonl", &wrong);
    let mut english = cpu.clone();
    english.set("corpus", "subset", "english");
    write("english.jsonl", &english);
    let [mut half, mut device] = on_device(8);
    // Another file than that of the F32 weights.
    [&mut half, &mut device].into_iter().for_each(|run| run.set("model", "sha256", OTHER));
    write("cpu-f16.jsonl", &half);
    device.add(2, "c", &["answer", "probabilities", "b"], 0.01);
    *device.question(2, "c", &["act_logits", "0"]) = Value::from(990.0);
    write("cuda-f16.jsonl", &device);
    let mut quantized = half.clone();
    quantized.set("model", "weights", "q8_0");
    quantized.set("runtime", "activations", "q8_0");
    write("cpu-q8_0.jsonl", &quantized);
    let mut changed = String::from_utf8(cpu.sealed()).unwrap();
    changed = changed.replacen("\"engine\"", "\"server\"", 1);
    fs::write(folder.join("changed.jsonl"), changed).unwrap();
}

fn parity_gate(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parity-gate"));
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    run(command, b"")
}

#[test]
fn the_exit_code_is_that_of_the_worst_verdict() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    for (candidates, gate, code) in [
        (&["cpu.jsonl"][..], "strict-f32", 0),
        (&["cpu.jsonl", "scalar.jsonl"], "strict-f32", 0),
        (&["cpu.jsonl", "wrong.jsonl"], "strict-f32", 1),
        (&["cpu.jsonl", "english.jsonl"], "strict-f32", 2),
        (&["english.jsonl", "wrong.jsonl", "cpu.jsonl"], "strict-f32", 1),
        (&["cpu.jsonl"], "f16-class", 2),
        (&["cpu.jsonl"], "bit-exact", 2),
        (&["changed.jsonl"], "strict-f32", 1),
        (&["missing.jsonl"], "strict-f32", 1),
        (&["reference.jsonl"], "strict-f32", 64),
        (&["cpu.jsonl"], "f32", 64),
        (&["cpu.jsonl", "--weights", "f32"], "strict-f32", 64),
        (&["cpu.jsonl", "--json", "cpu.jsonl"], "strict-f32", 64),
        (&["cpu.jsonl", "--json", "reference.jsonl"], "strict-f32", 64),
        (&["cpu.jsonl", "--json", "no/where.json"], "strict-f32", 1),
        (&["cpu.jsonl", "--tiers", "cpu.jsonl"], "strict-f32", 1),
        (&["cpu.jsonl", "--tiers", "scalar.jsonl", "--json", "scalar.jsonl"], "strict-f32", 64),
        (&["english.jsonl", "--allow-identity-mismatch"], "strict-f32", 0),
    ] {
        let arguments = [&["compare", "reference.jsonl"], candidates, &["--gate", gate]].concat();
        let (found, stdout, stderr) = parity_gate(folder.path(), &arguments);
        assert_eq!(found, Some(code), "{candidates:?}: {stdout}{stderr}");
    }
    let (code, stdout, _) =
        parity_gate(folder.path(), &["compare", "cpu.jsonl", "scalar.jsonl", "--gate", "bit-exact"]);
    assert!(code == Some(0) && stdout.contains("pass"), "{stdout}");
}

#[test]
fn the_result_is_written_with_both_identities() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    let arguments =
        ["compare", "reference.jsonl", "cpu.jsonl", "wrong.jsonl", "--gate", "strict-f32", "--json", "gate.json"];
    let (code, _, stderr) = parity_gate(folder.path(), &arguments);
    assert_eq!(code, Some(1), "{stderr}");
    let result = parsed(&fs::read_to_string(folder.path().join("gate.json")).unwrap());
    let candidates = result.get("candidates").and_then(Value::as_array).unwrap();
    let verdict = |candidate: &Value| candidate.get("gate").unwrap().get("verdict").unwrap().dumps();
    assert_eq!(candidates.iter().map(verdict).collect::<Vec<_>>(), ["\"pass\"", "\"fail\""]);
    let gate = candidates[1].get("gate").unwrap();
    assert_eq!(gate.get("input_mismatches").unwrap().dumps(), r#"{"refused": 1, "input_state": 1}"#);
    assert_eq!(gate.get("n_failures").unwrap().dumps(), "3");
    let failure = &gate.get("failures").and_then(Value::as_array).unwrap()[0];
    let fact = |key: &str| failure.get(key).and_then(Value::as_str).unwrap();
    assert_eq!([fact("rule"), fact("item"), fact("question")], ["public_error", "i3", "c"]);
    for candidate in candidates {
        for side in ["baseline", "candidate"] {
            assert!(candidate.get("identity").unwrap().get(side).unwrap().get("corpus").is_some());
        }
    }
}

#[test]
fn other_tiers_change_the_verdict_and_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    let registered = include_str!("../../src/parity/tiers.json");
    let strict = |from: &str, to: &str| {
        assert!(registered.contains(from));
        fs::write(folder.path().join("tiers.json"), registered.replacen(from, to, 1)).unwrap();
        let arguments = ["compare", "cpu-f16.jsonl", "cuda-f16.jsonl", "--gate", "f16-class", "--tiers", "tiers.json"];
        parity_gate(folder.path(), &arguments)
    };
    let (code, stdout, _) = strict("\"f32\": {", "\"f32\": {");
    assert!(code == Some(0) && stdout.contains(" pass  ") && !stdout.contains("tiers"), "the same bytes: {stdout}");
    // Whoever reads a verdict sees by which numbers it is one.
    let (code, stdout, _) = strict("\"max_abs_dp\": 0.5", "\"max_abs_dp\": 0.6");
    assert!(code == Some(0) && stdout.contains(" pass (tiers of tiers.json) "), "{stdout}");
    let arguments = ["compare", "cpu-f16.jsonl", "cuda-f16.jsonl", "--gate", "f16-class", "--tiers", "tiers.json"];
    let (code, _, stderr) = parity_gate(folder.path(), &[&arguments[..], &["--json", "gate.json"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let (_, stdout, _) = parity_gate(folder.path(), &["report", "gate.json"]);
    assert!(stdout.contains("pass (tiers "), "{stdout}");
    let (code, stdout, _) = strict("\"max_abs_dp\": 0.5", "\"max_abs_dp\": 0.009");
    assert!(code == Some(1) && stdout.contains("max_abs_dp: item i2, question c: probabilities.b is "), "{stdout}");
    let (code, stdout, stderr) = strict("\"max_abs_dp\": 0.5", "\"max_abs_dp\": -0.5");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let says = "tiers.json: tiers.f16-class.weights.f16.max_abs_dp: must be a number from 0 to 1, not -0.5";
    assert!(stderr.contains(says), "{stderr}");
}

#[test]
fn numbers_are_derived_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    let pairs = ["cpu-f16.jsonl=cuda-f16.jsonl", "reference.jsonl=cpu.jsonl"];
    let arguments = [&["derive"], &pairs[..], &["--check", "--json", "out.json"]].concat();
    let (code, _, stderr) = parity_gate(folder.path(), &arguments);
    assert_eq!(code, Some(0), "{stderr}");
    let result = parsed(&fs::read_to_string(folder.path().join("out.json")).unwrap());
    let numbers = result.get("numbers").and_then(Value::as_array).unwrap();
    let number = |tier: &str, name: &str| {
        let is_it = |number: &&Value| {
            number.get("tier").and_then(Value::as_str) == Some(tier)
                && number.get("number").and_then(Value::as_str) == Some(name)
        };
        numbers.iter().find(is_it).unwrap()
    };
    let of = |number: &Value, key: &str| number.get(key).and_then(Value::as_f64).unwrap();
    let dp = number("f16-class", "max_abs_dp");
    assert!((of(dp, "observed") - 0.01).abs() < 1e-12 && of(dp, "derived") == 0.02 && of(dp, "registered") == 0.5);
    let act = number("f16-class", "act_max_rel_dlogit");
    assert!(of(act, "observed") == 0.01 && of(act, "derived") == 0.02, "{}", act.dumps());
    let public = number("strict-f32", "public_atol");
    assert!(of(public, "observed") < 1e-12 && of(public, "registered") == 1e-4);

    let (code, stdout, stderr) = parity_gate(folder.path(), &["derive", "reference.jsonl=far.jsonl", "--check"]);
    assert!(code == Some(1) && stdout.contains("ABOVE"), "{stdout}");
    assert!(stderr.contains("parity-gate: error: 1 value is above what is registered"), "{stderr}");
    assert_eq!(parity_gate(folder.path(), &["derive", "reference.jsonl=far.jsonl"]).0, Some(0));
    let mut odd = engine(8);
    odd.set("model", "weights", "q3_k");
    fs::write(folder.path().join("odd.jsonl"), odd.sealed()).unwrap();
    let (code, _, stderr) = parity_gate(folder.path(), &["derive", "cpu.jsonl=odd.jsonl", "--check"]);
    assert!(code == Some(1) && stderr.contains("5 values are of a row that is not registered"), "{stderr}");
    let mut silent = engine(8);
    silent.each(|question| drop(question.remove("logits")));
    silent.fields(3, "n").insert("logits", parsed("[0.125, 1.0234375]"));
    fs::write(folder.path().join("silent.jsonl"), silent.sealed()).unwrap();
    let mut failed = engine(8);
    failed.fail(2);
    fs::write(folder.path().join("failed.jsonl"), failed.sealed()).unwrap();
    let mut unknown = engine(8);
    unknown.set("runtime", "activations", "int8");
    fs::write(folder.path().join("unknown.jsonl"), unknown.sealed()).unwrap();
    for (pair, says) in [
        ("cpu.jsonl=english.jsonl", "corpus.subset"),
        ("cpu-f16.jsonl=cpu-q8_0.jsonl", "runtime.activations: one side quantizes activations"),
        ("reference.jsonl=wrong.jsonl", "items: input_state: 1"),
        ("reference.jsonl=wrong.jsonl", "items: refused: 1"),
        ("cpu.jsonl=silent.jsonl", "questions: 1 questions were compared of 24 that both sides should answer"),
        ("cpu.jsonl=failed.jsonl", "items: failed: 1"),
        ("cpu.jsonl=unknown.jsonl", "runtime.activations: the candidate has \"int8\" activations"),
    ] {
        let (code, _, stderr) = parity_gate(folder.path(), &["derive", pair]);
        assert!(code == Some(2) && stderr.contains(says), "{stderr}");
    }
    for pair in ["cpu.jsonl", "=cpu.jsonl", "a=b=c"] {
        assert_eq!(parity_gate(folder.path(), &["derive", pair]).0, Some(64), "{pair}");
    }
}

#[test]
fn text_of_a_run_never_drives_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    let hostile = "\u{1b}[2J";
    let mut run = engine(8);
    *gate::at(&mut run.items[3], &["id"]) = Value::from(hostile);
    run.set("model", "weights", hostile);
    fs::write(folder.path().join("hostile.jsonl"), run.sealed()).unwrap();
    let arguments =
        ["compare", "reference.jsonl", "hostile.jsonl", "--gate", "strict-f32", "--allow-identity-mismatch"];
    let (code, stdout, stderr) = parity_gate(folder.path(), &arguments);
    assert_eq!(code, Some(1));
    assert!(!stdout.contains('\u{1b}') && !stderr.contains('\u{1b}'), "{stdout}{stderr}");
    assert!(stdout.contains("item \\u{1b}[2J: the baseline does not have it"), "{stdout}");
}

#[test]
fn an_output_is_never_an_input() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    let path = |name: &str| folder.path().join(name);
    for name in ["corpus.jsonl", "model.gguf", "spec.json", "tiers.json"] {
        fs::write(path(name), name).unwrap();
    }
    fs::create_dir(path("checkpoint")).unwrap();
    fs::write(path("checkpoint/config.json"), "{}").unwrap();
    let run = ["run", "corpus.jsonl", "-m", "model.gguf", "--spec", "spec.json", "--force", "-o"];
    let cases = [
        [&run[..], &["corpus.jsonl"]].concat(),
        [&run[..], &["model.gguf"]].concat(),
        [&run[..], &["./model.gguf"]].concat(),
        [&run[..], &["spec.json"]].concat(),
        ["run", "corpus.jsonl", "-m", "checkpoint", "--force", "-o", "checkpoint/config.json"].to_vec(),
        ["run", "corpus.jsonl", "-m", "model.gguf", "--resume", "-o", "model.gguf"].to_vec(),
        ["derive", "cpu.jsonl=scalar.jsonl", "--json", "scalar.jsonl"].to_vec(),
        ["derive", "cpu.jsonl=scalar.jsonl", "--tiers", "tiers.json", "--json", "tiers.json"].to_vec(),
    ];
    for arguments in cases {
        let output = path(arguments[arguments.len() - 1]);
        let before = fs::read(&output).unwrap();
        let (code, _, stderr) = parity_gate(folder.path(), &arguments);
        assert_eq!(code, Some(64), "{arguments:?}: {stderr}");
        assert!(stderr.contains("is to be read and written; name another output"), "{stderr}");
        assert_eq!(fs::read(&output).unwrap(), before, "{arguments:?}");
    }
    let (code, _, stderr) =
        parity_gate(folder.path(), &["run", "c", "-o", "r", "--server", "u", "--activations", "q4_0"]);
    assert!(code == Some(64) && stderr.contains("f32, f16, bf16, q8_0"), "{stderr}");
}

#[test]
fn markdown_of_a_result_stays_in_its_cell() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    let mut hostile = engine(8);
    hostile.set("model", "name", "a|b\n\u{1b}[2J");
    fs::write(folder.path().join("hostile.jsonl"), hostile.sealed()).unwrap();
    let arguments = ["compare", "reference.jsonl", "hostile.jsonl", "--gate", "strict-f32", "--json", "gate.json"];
    assert_eq!(parity_gate(folder.path(), &arguments).0, Some(0));
    let (code, stdout, _) = parity_gate(folder.path(), &["report", "--markdown", "gate.json"]);
    assert_eq!(code, Some(0));
    assert!(stdout.lines().count() == 3 && stdout.contains(r"| a\|b\n\u{1b}[2J |"), "{stdout}");
}
