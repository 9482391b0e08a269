//! What the tests of the tools share: the committed tiny checkpoints, a model made from one, a tool to run.

use laya::json::{self, Value};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A model file made from the committed tiny mmBERT checkpoint, once for all tests.
pub(crate) fn model() -> &'static Path {
    static MODEL: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    &MODEL
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let model = folder.path().join("tiny.gguf");
            let options =
                laya::convert::Options { outtype: laya::convert::Outtype::F32, ..laya::convert::Options::default() };
            laya::convert::convert(&root().join("golden/tiny-mmbert/checkpoint"), &model, &options).unwrap();
            (folder, model)
        })
        .1
}

/// What `laya-cli` remarks on stderr about that model, which has one temperature out of range.
pub(crate) const NOTE: &str = "laya-cli: note: temperature noul 7.5 is used as 5\n";

/// `laya-cli -m MODEL ARGUMENTS`, every stream piped.
pub(crate) fn laya_cli(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laya-cli"));
    command.arg("-m").arg(model()).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs `command` with `input` on its standard input: exit code, standard output, stderr.
pub(crate) fn run(mut command: Command, input: &[u8]) -> (Option<i32>, String, String) {
    use std::io::Write as _;
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // At the same time as the output is read, or a tool with much of both would wait for ever. A tool that needs no
        // input may be gone before it is written.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// One small request as a line of JSON Lines.
pub(crate) fn request(id: &str, state: &str) -> String {
    format!(r#"{{"id": {id}, "state": {state}, "questions": {{"paid": {{"type": "noul", "instructions": "Paid?"}}}}}}"#)
}

/// `text` as JSON.
pub(crate) fn parsed(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}
