//! `laya-cli`: answers requests.

use super::engine::{EngineArguments, SpecArguments};
use super::exit::{self, EXIT_HELP, Exit, Stop};
use super::input::Input;
use super::line::{self, Line, Lines};
use super::model::{ModelArguments, ModelFile};
use super::output::Report;
use super::stdout::Stdout;
use super::{output, stderr, stream};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Place};
use crate::json;
use crate::request::{Limits, Request};
use crate::spec::Adjustment;
use std::path::PathBuf;
use std::process::ExitCode;

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
  laya-cli -m checkpoint/ -f request.json              converts it the first time

A model file is made from a checkpoint directory with laya-convert, or on the way with -m DIR. A
line of --jsonl that cannot be answered gives {\"error\": ...}, the other lines are answered, and the
exit code is 1. Interrupting keeps the answers printed so far, each a whole line.
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
    #[command(flatten)]
    spec: SpecArguments,
    /// Print the numbers of answers as they are, not rounded to four digits
    #[arg(long, help_heading = "Calibration (the model's decision.spec)")]
    unrounded: bool,
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["spec", "kernels", "allow_spec_mismatch", "unrounded"])]
    tokenize: Option<PathBuf>,
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    exit::main(TOOL, |arguments: Arguments| {
        let Arguments { model, input, engine, spec, unrounded } = arguments;
        let model = model.file(TOOL)?;
        if let Some(file) = input.tokenize {
            return tokenize(&Engine::open_tokenizer(&model.path)?, &file.into());
        }
        let (is_stream, requests) = match (input.file, input.jsonl) {
            (Some(file), _) => (false, Input::from(file)),
            (_, Some(file)) => (true, Input::from(file)),
            // clap requires one of the three.
            (None, None) => {
                let message = "nothing to answer: give -f, --jsonl or --tokenize";
                return Err(Error::new(ErrorKind::Usage, message).into());
            }
        };
        spec.check_beside(&requests)?;
        let engine = spec.open(&engine, &model)?;
        let report = Report::new(&engine, &model.name.to_string_lossy(), unrounded);
        if is_stream {
            stream::answer(TOOL, engine, &report, &requests)
        } else {
            one(&engine, &model, &report, &requests)
        }
    })
}

/// Answers the one request of `input`.
fn one(engine: &Engine, model: &ModelFile, report: &Report, input: &Input) -> Result<Exit, Stop> {
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
        error.in_file(if model_at_fault { model.path.as_path() } else { input.name() })
    };
    let request = Request::take(body, &Limits::default()).map_err(|error| in_file(error.into()))?;
    let response = engine.answer(&request).map_err(in_file)?;
    note_adjustments(TOOL, engine);
    Stdout::open().line(output::answered(report, request, response).dumps_indent(2))?;
    Ok(Exit::Done)
}

/// Says which temperatures of the model are not used as they are written.
pub(super) fn note_adjustments(tool: &str, engine: &Engine) {
    for Adjustment { name, given, used } in engine.calibration().adjustments() {
        // A model stores float32; as such a temperature reads as it was written.
        stderr::note(tool, &format!("temperature {name} {} is used as {}", *given as f32, *used as f32));
    }
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
    fn the_command_line_is_sound_and_its_help_fits() {
        crate::cli::sound::check(Arguments::command());
    }
}
