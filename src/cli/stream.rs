//! JSON Lines in, JSON Lines out: one thread reads ahead while the other answers.

use super::exit::{Exit, Stop};
use super::input::Input;
use super::line::{self, Line, Lines};
use super::output::{self, Output, Report};
use super::progress::Progress;
use super::queue::{Feed, queue};
use super::stderr;
use super::stdout::Stdout;
use crate::engine::{Answered, Engine, PASS_TOKENS, Plan, Prepared};
use crate::json::{self, Object, Value};
use crate::request::{Limits, Request, RequestError};
use std::io::{self, BufRead};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Bytes of the lines and rows that are read ahead or being answered, unless one line alone has more. Several full passes
/// of lines of any usual length, and read as JSON they take a few dozen times as much memory at worst.
const AHEAD_BYTES: usize = 1 << 20;

/// What a line takes beside its bytes, about.
const LINE_BYTES: usize = 256;

/// A line on its way to its answer.
struct Read {
    /// Bytes of the input up to its end.
    position: u64,
    outcome: Result<Prepared, FailedLine>,
}

/// A line that could not be answered.
struct FailedLine {
    /// The `id` of the line, when it could be read that far.
    id: Option<Value>,
    message: String,
}

impl From<FailedLine> for Output {
    fn from(failed: FailedLine) -> Self {
        let mut line = Object::new();
        if let Some(id) = failed.id {
            line.insert("id", id);
        }
        line.insert("error", failed.message);
        Value::Object(line).into()
    }
}

/// Answers one request a line, in order. What waits while a pass computes shares the next one; a line never waits for
/// lines that are still to come, unless the input is a file, which does not pause.
pub(super) fn answer(tool: &str, engine: Engine, report: &Report, input: &Input) -> Result<Exit, Stop> {
    let start = Instant::now();
    let (from, n_bytes) = input.open()?;
    super::answer::note_adjustments(tool, &engine);
    let progress = Progress::over_lines(n_bytes);
    let mut stdout = Stdout::open();
    let engine = Arc::new(engine);
    let (feed, take) = queue(AHEAD_BYTES);
    // Not a scoped thread: when standard output is closed, the tool must end although this one may be waiting for a line
    // that never comes.
    let reader = thread::Builder::new().name("laya-reader".into()).spawn({
        let engine = Arc::clone(&engine);
        move || read_ahead(&engine, from, &feed)
    });
    let reader = reader.map_err(|error| input.error("cannot start a thread to read", &error))?;
    let n_tokens = match engine.plan() {
        Plan::Packed => PASS_TOKENS,
        // One request at a time.
        Plan::Sequential => 0,
    };
    let (mut n_lines, mut n_failed) = (0_u64, 0_u64);
    loop {
        let read = take.take(n_tokens, n_bytes.is_some());
        if read.is_empty() {
            break;
        }
        for (position, answer) in answers(&engine, report, read) {
            n_lines += 1;
            n_failed += u64::from(answer.is_err());
            stdout.line(answer.unwrap_or_else(Output::from).dumps_compact())?;
            progress.at(position, n_lines, n_failed);
        }
    }
    reader.join().unwrap_or_else(|panic| resume_unwind(panic)).map_err(|error| input.error("cannot read", &error))?;
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    stderr::line(&format!("laya jsonl: {n_lines} lines, {n_failed} errors, {seconds:.3} s"));
    if n_failed == 0 {
        return Ok(Exit::Done);
    }
    stderr::error(tool, &format!("{}: {n_failed} of {n_lines} failed", input.name().display()));
    Ok(Exit::Failed)
}

/// Reads lines and makes their rows until the input ends or nobody wants more.
fn read_ahead(engine: &Engine, from: impl BufRead, feed: &Feed<Read>) -> io::Result<()> {
    let mut lines = Lines::new(from, line::MAX_LINE_BYTES);
    while let Some(line) = lines.read()? {
        let n_bytes = LINE_BYTES + if let Line::Bytes(bytes) = &line { bytes.len() } else { 0 };
        // Before it is read as JSON, which takes much more.
        let Some(room) = feed.room(n_bytes) else { break };
        let outcome = prepare(engine, line);
        let n_tokens = outcome.as_ref().map_or(0, Prepared::n_tokens);
        feed.put(Read { position: lines.position(), outcome }, room, size_of::<u32>() * n_tokens, n_tokens);
    }
    Ok(())
}

fn prepare(engine: &Engine, line: Line) -> Result<Prepared, FailedLine> {
    let body = body(line).map_err(|message| FailedLine { id: None, message })?;
    let id = body.get("id").cloned();
    let request = match Request::take(body, &Limits::default()) {
        Ok(request) => request,
        Err(RequestError { message, .. }) => return Err(FailedLine { id, message }),
    };
    engine.prepare(request).map_err(|error| FailedLine { id, message: error.message().to_owned() })
}

/// The JSON value of a line.
fn body(line: Line) -> Result<Value, String> {
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

/// The answers to some lines, in order, with the position of each.
fn answers(
    engine: &Engine,
    report: &Report,
    read: Vec<Read>,
) -> impl Iterator<Item = (u64, Result<Output, FailedLine>)> {
    let mut prepared = Vec::new();
    let mut lines = Vec::with_capacity(read.len());
    for Read { position, outcome } in read {
        lines.push((position, outcome.map(|request| prepared.push(request))));
    }
    let mut answered = engine.answer_prepared(prepared).into_iter();
    lines.into_iter().filter_map(move |(position, outcome)| {
        let answer = match outcome {
            Err(failed) => Err(failed),
            // There is one for each request.
            Ok(()) => match answered.next()? {
                Answered { request, response: Ok(response) } => Ok(output::answered(report, request, response)),
                Answered { request, response: Err(error) } => {
                    Err(FailedLine { id: request.id, message: error.message().to_owned() })
                }
            },
        };
        Some((position, answer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_hold_no_value() {
        for (bytes, message) in [
            (&b""[..], "empty line"),
            (b" \t", "empty line"),
            (b"{\"state\":\"x\"", "failed to parse JSON: "),
            (b"\xFF", "failed to parse JSON: "),
            (b"\xEF\xBB\xBF{}", "byte order mark"),
        ] {
            let error = body(Line::Bytes(bytes.to_vec())).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        assert!(body(Line::Bytes(vec![b'['; 100_000])).is_err());
        assert!(body(Line::TooLong).unwrap_err().contains("16 MiB"));
        assert_eq!(body(Line::Bytes(b"{}".to_vec())).unwrap().dumps(), "{}");
    }

    #[test]
    fn a_failed_line_echoes_its_id_first() {
        let failed = FailedLine { id: Some(Value::from(7_i64)), message: "no \"state\"".into() };
        assert_eq!(Output::from(failed).dumps_compact(), r#"{"id":7,"error":"no \"state\""}"#);
    }

    #[test]
    fn what_was_read_before_an_error_is_kept() {
        struct Broken(&'static [u8]);
        impl io::Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.0.is_empty() { Err(io::ErrorKind::ConnectionReset.into()) } else { self.0.read(buffer) }
            }
        }
        let checkpoint = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tiny-mmbert/checkpoint");
        let mut bytes = Vec::new();
        crate::convert::convert_to(&checkpoint, &mut bytes, &Default::default(), &mut |_, _| {}).unwrap();
        let file = crate::gguf::File::from_bytes(bytes).unwrap();
        let engine = Engine::from_gguf(&file, &Default::default()).unwrap();
        let (feed, take) = queue(AHEAD_BYTES);
        let lines = b"{\"state\": 1, \"questions\": {\"q\": {\"type\": \"noul\", \"instructions\": \"?\"}}}\nx\n{\"sta";
        let error = read_ahead(&engine, io::BufReader::new(Broken(lines)), &feed).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        drop(feed);
        let read = take.take(PASS_TOKENS, true);
        let positions: Vec<_> = read.iter().map(|read| read.position).collect();
        let end = lines.len() as u64 - 5;
        assert_eq!(positions, [end - 2, end]);
        assert!(read[0].outcome.is_ok() && read[1].outcome.is_err());
        let answers: Vec<_> =
            answers(&engine, &Report::new(&engine, "m", false), read).map(|(_, answer)| answer.is_ok()).collect();
        assert_eq!(answers, [true, false]);
        assert!(take.take(PASS_TOKENS, true).is_empty());
    }
}
