//! What goes wrong around the work: streams nobody reads, models and requests that are at fault.

use crate::fixture::{NOTE, laya_cli, model, parsed, request, root, run};
use laya::gguf;
use std::path::Path;
use std::process::{Command, Stdio};

const REQUEST: &str = r#"{"state": "s", "questions": {"paid": {"type": "noul", "instructions": "Paid?"}}}"#;

/// `laya-cli -m MODEL ARGUMENTS` with another model than the shared one.
fn laya_cli_with(model: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laya-cli"));
    command.arg("-m").arg(model).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The shared model with the bytes `old`, which it has once, replaced by `new`.
fn patched(folder: &Path, old: &[u8], new: &[u8]) -> std::path::PathBuf {
    assert_eq!(old.len(), new.len());
    let mut bytes = std::fs::read(model()).unwrap();
    let places: Vec<_> = (0..=bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    assert_eq!(places.len(), 1, "{places:?}");
    bytes[places[0]..places[0] + old.len()].copy_from_slice(new);
    let path = folder.join("patched.gguf");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A stderr whose reader has gone.
fn unread() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

/// Streams that cannot be written to, as far as this system has them.
fn unwritable() -> Vec<Stdio> {
    let mut streams = vec![unread()];
    if cfg!(target_os = "linux") {
        streams.push(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
    }
    streams
}

#[test]
fn an_unwritable_stderr_changes_no_result() {
    let folder = tempfile::tempdir().unwrap();
    for stderr in unwritable() {
        let mut command = laya_cli(&["--jsonl", "-"]);
        command.stderr(stderr);
        let (code, stdout, _) = run(command, request("1", "\"s\"").as_bytes());
        assert_eq!(code, Some(0));
        assert!(parsed(&stdout).get("answers").is_some(), "{stdout}");
    }
    for stderr in unwritable() {
        let mut command = laya_cli(&["--jsonl", "-"]);
        command.stderr(stderr);
        let (code, stdout, _) = run(command, b"nonsense");
        assert_eq!(code, Some(1));
        assert!(parsed(&stdout).get("error").is_some(), "{stdout}");
    }
    for (i, stderr) in unwritable().into_iter().enumerate() {
        let out = folder.path().join(format!("{i}.gguf"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_laya-convert"));
        command.arg(root().join("golden/tiny-mmbert/checkpoint")).arg("-o").arg(&out);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        assert_eq!(run(command, b"").0, Some(0));
        gguf::File::open(&out).unwrap();
    }
    for stderr in unwritable() {
        let mut command = laya_cli(&["--no-such-flag"]);
        command.stderr(stderr);
        assert_eq!(run(command, b"").0, Some(64));
    }
}

#[cfg(unix)]
#[test]
fn a_closed_stderr_changes_no_result() {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&-", env!("CARGO_BIN_EXE_laya-cli"), "-m"]).arg(model());
    command.args(["--jsonl", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (code, stdout, _) = run(command, request("1", "\"s\"").as_bytes());
    assert_eq!(code, Some(0));
    assert!(parsed(&stdout).get("answers").is_some(), "{stdout}");
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for arguments in [&["--help"][..], &["--version"]] {
        for tool in [env!("CARGO_BIN_EXE_laya-cli"), env!("CARGO_BIN_EXE_laya-convert")] {
            let mut command = Command::new(tool);
            command.args(arguments).stdin(Stdio::piped()).stdout(unread()).stderr(Stdio::piped());
            let (code, _, stderr) = run(command, b"");
            assert_eq!((code, stderr.as_str()), (Some(0), ""), "a reader that has gone");
            if cfg!(target_os = "linux") {
                let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
                let mut command = Command::new(tool);
                command.args(arguments).stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped());
                let (code, _, stderr) = run(command, b"");
                assert_eq!(code, Some(1));
                assert!(stderr.contains("error: standard output: cannot write: "), "{stderr}");
            }
        }
    }
}

#[test]
fn another_architecture_is_refused_with_and_without_its_weights() {
    let folder = tempfile::tempdir().unwrap();
    let key = |name: &[u8]| [b"general.architecture\x08\0\0\0\x04\0\0\0\0\0\0\0", name].concat();
    let path = patched(folder.path(), &key(b"laya"), &key(b"bert"));
    let (code, _, asked) = run(laya_cli_with(&path, &["-f", "-"]), REQUEST.as_bytes());
    assert_eq!(code, Some(1));
    assert!(asked.ends_with("patched.gguf: not a laya GGUF: the architecture is \"bert\"\n"), "{asked}");
    let (code, stdout, tokenized) = run(laya_cli_with(&path, &["--tokenize", "-"]), b"text");
    assert_eq!((code, stdout.as_str(), tokenized), (Some(1), "", asked));
}

#[test]
fn a_damaged_model_is_not_blamed_on_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = gguf::File::open(model()).unwrap();
    let name = file.tensors().iter().map(|tensor| tensor.name.as_str()).find(|name| *name == "token_embd_norm.weight");
    let tensor = file.tensor(name.expect("the norm of the embedding")).unwrap();
    let data = file.tensor_data(tensor);
    let damaged: Vec<u8> = f32::NAN.to_le_bytes().repeat(data.len() / 4);
    let mut bytes = std::fs::read(model()).unwrap();
    // The data of a tensor is part of the mapped file.
    let at = data.as_ptr() as usize - file.map().bytes().as_ptr() as usize;
    bytes[at..at + damaged.len()].copy_from_slice(&damaged);
    let path = folder.path().join("damaged.gguf");
    std::fs::write(&path, bytes).unwrap();
    let asked = folder.path().join("request.json");
    std::fs::write(&asked, REQUEST).unwrap();
    let (code, _, stderr) = run(laya_cli_with(&path, &["-f", asked.to_str().unwrap()]), b"");
    assert_eq!(code, Some(1));
    assert!(stderr.contains("damaged.gguf: ") && !stderr.contains("request.json"), "{stderr}");
}

#[test]
fn temperatures_that_are_not_used_as_written_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = root().join("golden/tiny-mmbert/checkpoint");
    let path = folder.path().join("adjusted.gguf");
    adjusted_checkpoint(&checkpoint, &folder.path().join("checkpoint"));
    let options = laya::convert::Options::default();
    laya::convert::convert(&folder.path().join("checkpoint"), &path, &options).unwrap();
    let notes = format!("{NOTE}laya-cli: note: temperature choice:11+ 0.1006 is used as 0.5\n");
    let (code, _, stderr) = run(laya_cli_with(&path, &["-f", "-"]), REQUEST.as_bytes());
    assert_eq!((code, stderr.as_str()), (Some(0), notes.as_str()));
    let (code, _, stderr) = run(laya_cli_with(&path, &["--jsonl", "-"]), REQUEST.as_bytes());
    assert_eq!(code, Some(0));
    assert!(stderr.starts_with(&format!("{notes}laya jsonl: ")), "{stderr}");
    let (code, _, stderr) = run(laya_cli_with(&path, &["--tokenize", "-"]), b"text");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

/// Copies a checkpoint, which has one temperature out of range, and gives it another.
fn adjusted_checkpoint(from: &Path, to: &Path) {
    crate::transcript::copy_folder(from, to);
    let config = to.join("rl_agent_config.json");
    let mut value = parsed(&std::fs::read_to_string(&config).unwrap());
    let laya::json::Value::Object(fields) = &mut value else { panic!("not an object") };
    fields.insert("temperature_by_options", parsed(r#"{"choice:11+": 0.1006}"#));
    std::fs::write(&config, value.dumps()).unwrap();
}

#[test]
fn an_instruction_set_of_the_environment_is_one_or_a_usage_error() {
    let asked = |isa: &str, arguments: &[&str]| {
        let mut command = laya_cli(&[&["-f", "-"], arguments].concat());
        command.env("LAYA_ISA", isa);
        run(command, REQUEST.as_bytes())
    };
    let expected = asked("", &[]);
    assert_eq!((expected.0, expected.2.as_str()), (Some(0), NOTE));
    assert_eq!(asked("scalar", &[]), expected);
    // The argument goes before it.
    assert_eq!(asked("sse9", &["--isa", "scalar"]), expected);
    let (code, stdout, stderr) = asked("sse9", &[]);
    assert_eq!((code, stdout.as_str()), (Some(64), ""));
    let why =
        "laya-cli: error: the environment variable LAYA_ISA: there is no instruction set \"sse9\"; this machine can";
    assert!(stderr.starts_with(why), "{stderr}");
}

#[test]
fn a_request_has_a_largest_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json");
    std::fs::File::create(&path).unwrap().set_len((16 << 20) + 1).unwrap();
    let mut paths = vec![path.to_str().unwrap()];
    if cfg!(unix) {
        // Without an end: what is too much is not read.
        paths.push("/dev/zero");
    }
    for path in paths {
        let (code, _, stderr) = run(laya_cli(&["-f", path]), b"");
        let error = format!("laya-cli: error: {path}: is larger than 16 MiB, the most a request may be\n");
        assert_eq!((code, stderr), (Some(1), error));
    }
    let mut line = vec![b'x'; (16 << 20) + 1];
    let (code, _, stderr) = run(laya_cli(&["--tokenize", "-"]), &line);
    let error = "laya-cli: error: standard input: line 1: the line is longer than 16 MiB\n";
    assert_eq!((code, stderr.as_str()), (Some(1), error));
    line.extend_from_slice(format!("\n{}", request("2", "\"s\"")).as_bytes());
    let (code, stdout, _) = run(laya_cli(&["--jsonl", "-"]), &line);
    assert_eq!(code, Some(1));
    let answers: Vec<_> = stdout.lines().collect();
    assert_eq!(answers[0], r#"{"error":"the line is longer than 16 MiB"}"#);
    assert!(answers.len() == 2 && answers[1].starts_with(r#"{"id":2,"model":"#), "{stdout}");
}

#[test]
fn an_empty_request_is_called_empty() {
    for input in [&b""[..], b"\n", b"  \r\n"] {
        let (code, stdout, stderr) = run(laya_cli(&["-f", "-"]), input);
        assert_eq!((code, stdout.as_str()), (Some(1), ""));
        assert!(
            stderr.starts_with("laya-cli: error: standard input: is empty; a request is a JSON object"),
            "{stderr}"
        );
    }
}
