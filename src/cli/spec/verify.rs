//! `gguf-spec verify`: everything that is wrong with the spec of a model file.

use super::{EXIT_HELP, unstamped};
use crate::cli::exit::{Exit, Stop};
use crate::cli::input::Input;
use crate::cli::stdout::Stdout;
use crate::cli::{escape, stderr};
use crate::gguf::File;
use crate::json::{Object, Value};
use crate::kernels::NUMERIC_CONTRACT;
use crate::spec::{self, KEY, Verdict};
use std::path::{Path, PathBuf};

const LONG_ABOUT: &str = "\
Lists everything that is wrong with the spec of a model file: rules it breaks, keys that repeat it
and say something else (decision.spec_version, .layout, .model_id, .model_version), a layout that
is not the file's, and a calibration that was fitted on another model, under another numeric
contract or with kernels that this build does not have. With SPEC, also whether it
is this one, byte for byte; SPEC may end in the line break that get adds.";

/// Arguments of `gguf-spec verify`.
#[derive(Debug, clap::Args)]
#[command(about = "Lists everything that is wrong with the spec of a model file", long_about = LONG_ABOUT)]
#[command(after_help = EXIT_HELP, arg_required_else_help = true)]
pub(super) struct VerifyArguments {
    /// Model file
    #[arg(value_name = "MODEL.gguf")]
    model: PathBuf,
    /// The spec it should have, a file (- for standard input)
    #[arg(value_name = "SPEC")]
    spec: Option<PathBuf>,
    /// Print the verdict and its reasons as JSON
    #[arg(long)]
    json: bool,
}

/// Verifies the spec.
pub(super) fn verify(arguments: &VerifyArguments) -> Result<Exit, Stop> {
    let VerifyArguments { model, spec, json } = arguments;
    let file = File::open(model)?;
    let expected = spec.clone().map(|spec| Input::from(spec).read_spec()).transpose()?;
    let verdict = spec::verify(&file, expected.as_deref(), NUMERIC_CONTRACT)?;
    let is_ok = verdict.stamped && verdict.problems.is_empty();
    if *json {
        // Problems quote the file.
        Stdout::open().line(escape::json(to_json(model, &verdict, is_ok).dumps_indent(2)))?;
    } else {
        for problem in &verdict.problems {
            stderr::line(&format!("FAIL {problem}"));
        }
        if verdict.stamped {
            let path = stderr::printable(&model.display().to_string());
            let sha256 = verdict.sha256.as_ref().map_or(String::new(), |sha256| format!(" sha256 {sha256}"));
            Stdout::open().line(format!("{path}: {KEY}{sha256} {}", if is_ok { "OK" } else { "FAIL" }))?;
        } else {
            stderr::line(&unstamped(model));
        }
    }
    Ok(if is_ok { Exit::Done } else { Exit::Failed })
}

fn to_json(model: &Path, verdict: &Verdict, is_ok: bool) -> Value {
    let problems = verdict.problems.iter().map(|problem| {
        let mut object = Object::new();
        object.insert("path", problem.path.as_str());
        object.insert("message", problem.message.as_str());
        object
    });
    let mut object = Object::new();
    object.insert("model", &*model.to_string_lossy());
    object.insert("ok", is_ok);
    object.insert("stamped", verdict.stamped);
    object.insert("sha256", verdict.sha256.clone());
    object.insert("problems", problems.collect::<Value>());
    Value::Object(object)
}
