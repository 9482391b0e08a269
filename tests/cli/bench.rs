//! `decision-bench`: what it prints is whole and consistent; how fast the machine is, no test says.

use crate::fixture::{model, run};
use laya::json::{self, Value};
use std::process::{Command, Stdio};

fn decision_bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_decision-bench"));
    command.args(arguments).env_remove("LAYA_MODEL").env_remove("LAYA_ISA");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_roofline_names_every_phase_and_counts_its_work() {
    let model = model().to_str().unwrap();
    let arguments = ["roofline", "-m", model, "-t", "2", "--tokens", "9,40", "--rows", "2", "--repeats", "3"];
    let (code, stdout, stderr) = run(decision_bench(&[&arguments[..], &["--json"]].concat()), b"");
    assert_eq!(code, Some(0), "{stderr}");
    let out = json::parse(stdout.as_bytes()).unwrap();
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_f64).unwrap();
    let machines = out.get("machine").and_then(Value::as_array).unwrap();
    assert_eq!(machines.iter().map(|m| number(m, "threads")).collect::<Vec<_>>(), [1.0, 2.0]);
    assert!(machines.iter().all(|m| number(m, "f32_flops") > 0.0 && number(m.get("read_bytes").unwrap(), "L2") > 0.0));
    let passes = out.get("passes").and_then(Value::as_array).unwrap();
    assert_eq!(passes.len(), 2);
    for (pass, tokens) in passes.iter().zip([9.0, 40.0]) {
        assert_eq!((number(pass, "tokens"), number(pass, "rows")), (tokens, 2.0));
        let whole = pass.get("whole_pass").unwrap();
        assert_eq!(whole.get("samples").and_then(Value::as_array).unwrap().len(), 3);
        let phases = pass.get("phases").and_then(Value::as_object).unwrap();
        let names: Vec<_> = phases.iter().map(|(name, _)| name).collect();
        for name in ["embedding", "qkv", "local attention", "global attention", "feed-forward", "head", "readout"] {
            assert!(names.contains(&name), "no {name} among {names:?}");
        }
        // The work of the pass is that of its phases, and so is its time but for what lies between them.
        let sum: f64 = phases.iter().map(|(_, phase)| number(phase, "flops")).sum();
        assert!((sum - number(whole, "flops")).abs() <= 1e-6 * sum);
        assert!(phases.iter().all(|(_, phase)| number(phase, "seconds") >= 0.0));
    }
    let (code, table, stderr) = run(decision_bench(&arguments), b"");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(table.contains("2 rows of 40 tokens") && table.contains("whole pass"), "{table}");
}

#[test]
fn a_model_that_is_not_there_is_an_error() {
    let (code, stdout, stderr) = run(decision_bench(&["roofline", "-m", "nowhere.gguf"]), b"");
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("nowhere.gguf"), "{stderr}");
}
