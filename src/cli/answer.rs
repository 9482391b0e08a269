//! `laya-cli`: answers requests.

use super::engine::EngineArguments;
use super::exit::{self, EXIT_HELP, Exit, Stop};
use super::input::Input;
use super::line::{self, Line, Lines};
use super::model::ModelArguments;
use super::output;
use super::progress::Progress;
use super::stderr;
use super::stdout::Stdout;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Place};
use crate::json::{self, Object, Value};
use crate::readout::Adjustment;
use crate::request::{Limits, Request, RequestError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const TOOL: &str = "laya-cli";

const ABOUT: &str = "Answers typed questions about a text or a JSON state with a decision model";

const LONG_ABOUT: &str = "\
Answers typed questions about a text or a JSON state with a decision model.

A request is a JSON object with a state (a text, an object, or a list such as chat turns) and
questions of three types: choice picks one label, score places on an ordered scale, noul says
whether a statement holds. Every answer comes with its probabilities.

  {\"state\": \"I was charged twice, please refund one.\",
   \"questions\": {\"refund\": {\"type\": \"noul\", \"instructions\": \"Asks for money back?\"},
                 \"topic\": {\"type\": \"choice\", \"instructions\": \"What is it about?\",
                           \"criteria\": [\"billing\", \"delivery\", \"other\"]}}}";

const EXAMPLES: &str = "\
Examples:
  laya-cli -m model.gguf -f request.json               answer one request
  laya-cli -m model.gguf -f - < request.json           the same, from standard input
  laya-cli -m model.gguf --jsonl requests.jsonl        one request a line, one answer a line
  laya-cli -m model.gguf --tokenize texts.txt          token ids of each line

A model is made from a checkpoint directory with laya-convert. A line of --jsonl that cannot be
answered gives {\"error\": ...}, the other lines are answered, and the exit code is 1. Interrupting
keeps the answers printed so far, each a whole line.
";

#[derive(Debug, clap::Parser)]
#[command(name = TOOL, version, about = ABOUT, long_about = LONG_ABOUT, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    input: InputArguments,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct InputArguments {
    /// Answer the request in FILE (- for standard input) and print one indented JSON object
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Answer one request a line, in order, as each arrives (- for standard input)
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// Print the token ids of each non-empty line of FILE (- for standard input), such as [17,4]
    #[arg(long, value_name = "FILE")]
    tokenize: Option<PathBuf>,
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    exit::main(TOOL, |arguments: Arguments| {
        let Arguments { model, input, engine } = arguments;
        let model = model.path()?;
        if let Some(file) = input.tokenize {
            return tokenize(&Engine::open_tokenizer(&model)?, &file.into());
        }
        let engine = engine.open(&model)?;
        match (input.file, input.jsonl) {
            (Some(file), _) => one(&engine, &model, &file.into()),
            (_, Some(file)) => lines(&engine, &model.to_string_lossy(), &file.into()),
            // clap requires one of the three.
            (None, None) => {
                Err(Error::new(ErrorKind::Usage, "nothing to answer: give -f, --jsonl or --tokenize").into())
            }
        }
    })
}

/// Answers the one request of `input`.
fn one(engine: &Engine, model: &Path, input: &Input) -> Result<Exit, Stop> {
    let bytes = input.read()?;
    if line::is_blank(&bytes) {
        let message = "is empty; a request is a JSON object with \"state\" and \"questions\"";
        return Err(Error::new(ErrorKind::Json, message).in_file(input.name()).into());
    }
    let body = json::parse(&bytes).map_err(|fault| {
        let message = format!("column {}: {}", fault.column, fault.message);
        Error::new(ErrorKind::Json, message).at(Place::Line(fault.line as u64)).in_file(input.name())
    })?;
    drop(bytes);
    let in_file = |error: Error| {
        let model_at_fault = error.kind() == ErrorKind::Model;
        error.in_file(if model_at_fault { model } else { input.name() })
    };
    let request = Request::take(body, &Limits::default()).map_err(|error| in_file(error.into()))?;
    let response = engine.answer(&request).map_err(in_file)?;
    note_adjustments(engine);
    Stdout::open().line(output::answered(&model.to_string_lossy(), request, response).dumps_indent(2))?;
    Ok(Exit::Done)
}

/// Says which temperatures of the model are not used as they are written.
fn note_adjustments(engine: &Engine) {
    for Adjustment { name, given, used } in engine.calibration().adjustments() {
        // A model stores float32; as such a temperature reads as it was written.
        stderr::note(TOOL, &format!("temperature {name} {} is used as {}", *given as f32, *used as f32));
    }
}

/// Answers one request a line, each before the next is read.
fn lines(engine: &Engine, model: &str, input: &Input) -> Result<Exit, Stop> {
    let start = Instant::now();
    let (from, n_bytes) = input.open()?;
    note_adjustments(engine);
    let progress = Progress::over_lines(n_bytes);
    let mut lines = Lines::new(from, line::MAX_LINE_BYTES);
    let mut stdout = Stdout::open();
    let (mut n_lines, mut n_failed) = (0_u64, 0_u64);
    while let Some(line) = lines.read().map_err(|error| input.error("cannot read", &error))? {
        n_lines += 1;
        let answer = answer_line(engine, model, line).unwrap_or_else(|failed| {
            n_failed += 1;
            failed.into()
        });
        stdout.line(answer.dumps_compact())?;
        progress.at(lines.position(), n_lines, n_failed);
    }
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    stderr::line(&format!("laya jsonl: {n_lines} lines, {n_failed} errors, {seconds:.3} s"));
    if n_failed == 0 {
        return Ok(Exit::Done);
    }
    stderr::error(TOOL, &format!("{}: {n_failed} of {n_lines} failed", input.name().display()));
    Ok(Exit::Failed)
}

/// A line that could not be answered.
struct FailedLine {
    /// The `id` of the line, when it could be read that far.
    id: Option<Value>,
    message: String,
}

impl From<FailedLine> for Value {
    fn from(failed: FailedLine) -> Self {
        let mut line = Object::new();
        if let Some(id) = failed.id {
            line.insert("id", id);
        }
        line.insert("error", failed.message);
        Self::Object(line)
    }
}

fn answer_line(engine: &Engine, model: &str, line: Line) -> Result<Value, FailedLine> {
    let body = read_line(line).map_err(|message| FailedLine { id: None, message })?;
    let id = body.get("id").cloned();
    let request = match Request::take(body, &Limits::default()) {
        Ok(request) => request,
        Err(RequestError { message, .. }) => return Err(FailedLine { id, message }),
    };
    match engine.answer(&request) {
        Ok(response) => Ok(output::answered(model, request, response)),
        Err(error) => Err(FailedLine { id, message: error.message().to_owned() }),
    }
}

/// The JSON value of a line of JSON Lines.
fn read_line(line: Line) -> Result<Value, String> {
    let bytes = match line {
        Line::TooLong => return Err(line::too_long()),
        Line::Bytes(bytes) if line::is_blank(&bytes) => return Err("empty line".into()),
        Line::Bytes(bytes) => bytes,
    };
    if line::has_byte_order_mark(&bytes) {
        return Err("failed to parse JSON: a byte order mark inside the input; only its first line may have one".into());
    }
    json::parse(&bytes).map_err(|fault| format!("failed to parse JSON: column {}: {}", fault.column, fault.message))
}

/// Prints the token ids of each non-empty line.
fn tokenize(tokenizer: &crate::tokenizer::Tokenizer, input: &Input) -> Result<Exit, Stop> {
    let (from, _) = input.open()?;
    let mut lines = Lines::new(from, line::MAX_LINE_BYTES);
    let mut stdout = Stdout::open();
    let mut n_lines = 0_u64;
    while let Some(line) = lines.read().map_err(|error| input.error("cannot read", &error))? {
        n_lines += 1;
        let refuse = |message: &str| Error::new(ErrorKind::Io, message).at(Place::Line(n_lines)).in_file(input.name());
        let Line::Bytes(bytes) = line else {
            return Err(refuse(&line::too_long()).into());
        };
        let text = String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8 text"))?;
        if !text.is_empty() {
            let ids: Vec<_> = tokenizer.encode(&text).iter().map(u32::to_string).collect();
            stdout.line(format!("[{}]", ids.join(",")))?;
        }
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_fits_a_hundred_columns() {
        let help = Arguments::command().render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn lines_that_hold_no_value() {
        for (bytes, message) in [
            (&b""[..], "empty line"),
            (b" \t", "empty line"),
            (b"{\"state\":\"x\"", "failed to parse JSON: "),
            (b"\xFF", "failed to parse JSON: "),
            (b"\xEF\xBB\xBF{}", "byte order mark"),
        ] {
            let error = read_line(Line::Bytes(bytes.to_vec())).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        assert!(read_line(Line::Bytes(vec![b'['; 100_000])).is_err());
        assert!(read_line(Line::TooLong).unwrap_err().contains("16 MiB"));
        assert_eq!(read_line(Line::Bytes(b"{}".to_vec())).unwrap().dumps(), "{}");
    }

    #[test]
    fn a_failed_line_echoes_its_id_first() {
        let failed = FailedLine { id: Some(Value::from(7_i64)), message: "no \"state\"".into() };
        assert_eq!(Value::from(failed).dumps_compact(), r#"{"id":7,"error":"no \"state\""}"#);
    }
}
