//! `cargo laya <tool>`: arguments and exit codes go through as they are.

use crate::fixture::{model, request, run};
use std::process::{Command, Stdio};

fn cargo_laya(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-laya"));
    command.arg("laya").args(arguments).env_remove("LAYA_MODEL");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_tool_is_the_same_through_cargo() {
    let line = request("1", "\"s\"");
    let model = model().to_str().unwrap();
    for tool in ["laya-cli", "cli"] {
        let (code, through_cargo, _) = run(cargo_laya(&[tool, "-m", model, "--jsonl", "-"]), line.as_bytes());
        let (_, direct, _) = run(crate::fixture::laya_cli(&["--jsonl", "-"]), line.as_bytes());
        assert_eq!((code, through_cargo), (Some(0), direct));
    }
    // The tool's own failure, usage error and help, not those of cargo-laya.
    let (code, _, _) = run(cargo_laya(&["laya-cli", "-m", model, "--jsonl", "-"]), b"nonsense");
    assert_eq!(code, Some(1));
    let (code, _, stderr) = run(cargo_laya(&["convert", "--no-such-flag"]), b"");
    assert_eq!(code, Some(64), "{stderr}");
    let (code, stdout, _) = run(cargo_laya(&["convert", "--help"]), b"");
    assert_eq!(code, Some(0));
    assert!(stdout.contains("Usage: laya-convert"), "{stdout}");
}

#[test]
fn a_tool_that_is_not_there_is_a_usage_error() {
    let (code, stdout, stderr) = run(cargo_laya(&["rm", "-rf"]), b"");
    assert_eq!((code, stdout.as_str()), (Some(64), ""));
    assert!(stderr.contains("there is no tool \"rm\"") && stderr.contains("laya-cli"), "{stderr}");
}
