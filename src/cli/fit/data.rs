//! Labelled data, checked and run through the engine.

use super::TOOL;
use crate::calibrate::{Data, Measured, Record, check, measure, unmeasured};
use crate::cli::exit::Stop;
use crate::cli::input::Input;
use crate::cli::line::{self, Line, Lines};
use crate::cli::progress::Progress;
use crate::cli::stderr;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::spec;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::io::Read as _;

/// Most bytes of labelled data: it is kept in memory, to be checked as a whole before the model runs.
const MAX_BYTES: u64 = 4 << 30;

/// Wrong lines that are shown.
const SHOWN: usize = 20;

/// What to do about a line that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OnError {
    Skip,
    Fail,
}

/// Labelled data that was read and checked.
pub(super) struct LabelledData {
    input: Input,
    bytes: Vec<u8>,
    sha256: String,
    on_error: OnError,
    /// Lines that are left out.
    wrong: HashSet<u64>,
    n_records: u64,
}

impl LabelledData {
    /// Reads all of `input` and checks every line.
    ///
    /// # Errors
    /// It cannot be read, or lines are wrong and not to be left out: then they are shown.
    pub(super) fn read(input: Input, on_error: OnError) -> Result<Self> {
        let bytes = read_all(&input)?;
        let sha256 = spec::hex(&Sha256::digest(&bytes));
        let mut data = Self { input, bytes, sha256, on_error, wrong: HashSet::new(), n_records: 0 };
        let mut faults = Faults { on_error, n_shown: 0, n: 0 };
        let mut wrong = HashSet::new();
        let mut n_lines = 0_u64;
        for (number, record) in data.lines() {
            n_lines += 1;
            if let Err(error) = record {
                faults.show(&error.in_file(data.input.name()));
                wrong.insert(number);
            }
        }
        let refused = |message: String| Err(Error::new(ErrorKind::Request, message).in_file(data.input.name()));
        if !wrong.is_empty() && on_error == OnError::Fail {
            let n = wrong.len();
            return refused(format!(
                "{n} of {n_lines} lines are wrong; correct them, or leave them out: --on-error skip"
            ));
        }
        faults.end();
        data.n_records = n_lines - wrong.len() as u64;
        if data.n_records == 0 {
            return refused(if n_lines == 0 { "is empty".into() } else { "no line is left".into() });
        }
        data.wrong = wrong;
        Ok(data)
    }

    /// Every line with its number, read as a record.
    fn lines(&self) -> impl Iterator<Item = (u64, Result<Record>)> {
        let mut lines = Lines::new(self.bytes.as_slice(), line::MAX_LINE_BYTES);
        (1..).map_while(move |number| {
            // Bytes in memory can be read.
            let line = lines.read().ok().flatten()?;
            let wrong = |message: &str| Err(Error::new(ErrorKind::Request, message).at(Place::Line(number)));
            let record = match line {
                Line::TooLong => wrong(&line::too_long()),
                Line::Bytes(bytes) if line::is_blank(&bytes) => wrong("is empty"),
                Line::Bytes(bytes) => Record::parse(number, &bytes),
            };
            Some((number, record))
        })
    }

    /// The records that are not left out.
    fn records(&self) -> impl Iterator<Item = Record> {
        self.lines().filter(|(number, _)| !self.wrong.contains(number)).filter_map(|(_, record)| record.ok())
    }

    /// The records, without logits.
    pub(super) fn unmeasured(&self) -> Vec<Measured> {
        self.records().map(|record| unmeasured(&record)).collect()
    }

    /// Finds the records `engine` cannot run, before it runs any.
    ///
    /// # Errors
    /// There are some and they are not to be left out, or none is left: those that are wrong are shown.
    pub(super) fn check(&mut self, engine: &Engine) -> Result<()> {
        let mut faults = Faults { on_error: self.on_error, n_shown: 0, n: 0 };
        let mut wrong = HashSet::new();
        for record in self.records() {
            let number = record.line;
            if let Err(error) = check(engine, record) {
                faults.show(&error.in_file(self.input.name()));
                wrong.insert(number);
            }
        }
        let refused = |message: String| Err(Error::new(ErrorKind::Request, message).in_file(self.input.name()));
        if !wrong.is_empty() && self.on_error == OnError::Fail {
            return refused(format!(
                "{} of {} lines cannot be run; correct them, or leave them out: --on-error skip",
                wrong.len(),
                self.n_records
            ));
        }
        faults.end();
        if wrong.len() as u64 == self.n_records {
            return refused("no line is left".into());
        }
        self.n_records -= wrong.len() as u64;
        self.wrong.extend(wrong);
        Ok(())
    }

    /// Runs the labelled questions of checked records through `engine`.
    ///
    /// # Errors
    /// One cannot be run after all.
    pub(super) fn run(&self, engine: &Engine) -> Result<(Vec<Measured>, Data), Stop> {
        let progress = Progress::over_records(self.n_records);
        let mut measured = Vec::new();
        let mut n_unlabelled = 0;
        let records = self.records().inspect(|record| {
            n_unlabelled += (record.request.questions.len() - record.n_labelled()) as u64;
        });
        measure(engine, records, |_, outcome| {
            progress.done();
            measured.push(outcome.map_err(|error| Stop::from(error.in_file(self.input.name())))?);
            Ok::<_, Stop>(())
        })?;
        drop(progress);
        let (sha256, n_failed) = (self.sha256.clone(), self.wrong.len() as u64);
        let data = Data { sha256, n_records: measured.len() as u64, n_failed, n_unlabelled };
        Ok((measured, data))
    }
}

/// All of `input`.
///
/// # Errors
/// It cannot be read, or is larger than [`MAX_BYTES`]; what is above that is not read.
pub(super) fn read_all(input: &Input) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input.open()?.0.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| input.error("cannot read", &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("is larger than {} GiB; split it", MAX_BYTES >> 30);
        return Err(Error::new(ErrorKind::Request, message).in_file(input.name()));
    }
    Ok(bytes)
}

/// Shows the first few lines that are wrong.
struct Faults {
    on_error: OnError,
    n_shown: usize,
    n: usize,
}

impl Faults {
    fn show(&mut self, error: &Error) {
        self.n += 1;
        if self.n_shown < SHOWN {
            self.n_shown += 1;
            match self.on_error {
                OnError::Fail => stderr::error(TOOL, &error.to_string()),
                OnError::Skip => stderr::note(TOOL, &format!("left out: {error}")),
            }
        }
    }

    /// Says how many there were, if some were not shown.
    fn end(&self) {
        if self.n > self.n_shown {
            stderr::note(TOOL, &format!("left out: {} lines more", self.n - self.n_shown));
        }
    }
}
