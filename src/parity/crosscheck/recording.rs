//! What a backend generated, on disk: a header, a line a prompt, a seal as that of every run.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::parity::identity::Fields;
use crate::parity::run_file::{seal_line, sealed, value};

/// Name of the format.
const FORMAT: &str = "laya-crosscheck-run/1";

/// Most bytes of a recorded run.
const MAX_BYTES: u64 = 1 << 30;

/// How tokens come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each is the most probable one after the baseline's own tokens before it: teacher forcing.
    Argmax,
    /// Each is the most probable one after the backend's own tokens before it.
    Greedy,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 2] = [Self::Argmax, Self::Greedy];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Argmax => "argmax",
            Self::Greedy => "greedy",
        }
    }
}

/// One token a backend chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The token.
    pub id: u32,
    /// The most probable tokens there with their log-probabilities in nats, most probable first; empty where the backend
    /// did not say.
    pub top: Vec<(u32, f64)>,
}

impl Step {
    /// How much more probable the first token is than `token`, in nats; none where `token` is not among the most probable
    /// ones.
    pub fn gap_to(&self, token: u32) -> Option<f64> {
        let (_, first) = self.top.first()?;
        let (_, own) = self.top.iter().find(|(id, _)| *id == token)?;
        Some(first - own)
    }
}

/// One prompt, continued.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The prompt.
    pub prompt: String,
    /// Its tokens.
    pub prompt_ids: Vec<u32>,
    /// The tokens that were replayed, of a run under [`Mode::Argmax`]; as many as there are steps.
    pub forced: Option<Vec<u32>>,
    /// The tokens chosen.
    pub steps: Vec<Step>,
}

impl Passage {
    /// The tokens chosen.
    pub fn ids(&self) -> Vec<u32> {
        self.steps.iter().map(|step| step.id).collect()
    }
}

/// What a backend generated for a set of prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// How.
    pub mode: Mode,
    /// URL of the backend.
    pub server: String,
    /// The model, as the backend calls it.
    pub model: Option<String>,
    /// Tokens asked for, a prompt.
    pub n_tokens: usize,
    /// In the order of the prompts; no prompt is there twice.
    pub passages: Vec<Passage>,
}

/// The bytes of the file at `path`, at most one more than `most`.
pub(super) fn read_within(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Recording {
    /// Reads a recorded run.
    ///
    /// # Errors
    /// It cannot be read, is unfinished, was changed after it was written or has another shape; the error names file,
    /// line and key.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read_within(path, MAX_BYTES).map_err(|error| Error::io("cannot read", path, &error))?;
        if bytes.len() as u64 > MAX_BYTES {
            let message = format!("is larger than {} MiB, the most a recorded run may be", MAX_BYTES >> 20);
            return Err(Error::new(ErrorKind::Json, message).in_file(path));
        }
        Self::parse(&bytes).map_err(|error| error.in_file(path))
    }

    /// Reads the bytes of a recorded run.
    ///
    /// # Errors
    /// As [`Recording::read`], without a file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let fault = |message: &str| Error::new(ErrorKind::Json, message);
        let (body, seal) = sealed(bytes)
            .ok_or_else(|| fault("is no recorded run: its last line is not the seal; record it again: --record"))?;
        if seal != seal_line(body).as_bytes() {
            return Err(fault("was changed after it was written: its seal does not fit; record it again: --record"));
        }
        let mut lines = body.split_inclusive(|byte| *byte == b'\n').zip(1_u64..);
        let first = lines.next().map_or(&[][..], |(line, _)| line);
        let mut recording = value(first).and_then(|line| header(&line)).map_err(|error| error.in_line(1))?;
        let mut seen = HashSet::new();
        for (line, number) in lines {
            let read = value(line).and_then(|line| passage(&line, recording.mode));
            let passage = read.map_err(|error| error.in_line(number))?;
            if !seen.insert(passage.prompt.clone()) {
                return Err(fault("has a prompt that was there before").in_line(number));
            }
            recording.passages.push(passage);
        }
        Ok(recording)
    }

    /// The bytes of its file.
    pub fn to_text(&self) -> String {
        let mut identity = Object::new();
        identity.insert("mode", self.mode.as_str());
        identity.insert("server", self.server.as_str());
        identity.insert("model", self.model.clone());
        identity.insert("n_tokens", self.n_tokens);
        let mut header = Object::new();
        header.insert("run", FORMAT);
        header.insert("identity", identity);
        let mut text = Value::Object(header).dumps_compact() + "\n";
        for passage in &self.passages {
            text += &line(passage).dumps_compact();
            text.push('\n');
        }
        let seal = seal_line(text.as_bytes());
        text + &seal
    }
}

fn line(passage: &Passage) -> Value {
    let mut line = Object::new();
    line.insert("prompt", passage.prompt.as_str());
    line.insert("prompt_ids", passage.prompt_ids.iter().copied().collect::<Value>());
    if let Some(forced) = &passage.forced {
        line.insert("forced", forced.iter().copied().collect::<Value>());
    }
    line.insert("ids", passage.ids().into_iter().collect::<Value>());
    let pair = |(id, logprob): &(u32, f64)| [Value::from(*id), Value::from(*logprob)].into_iter().collect::<Value>();
    let top = |step: &Step| step.top.iter().map(pair).collect::<Value>();
    line.insert("top", passage.steps.iter().map(top).collect::<Value>());
    Value::Object(line)
}

fn header(line: &Value) -> Result<Recording> {
    let fields = Fields::new("header", Some(line), &["run", "identity"])?;
    let format = fields.text("run")?;
    if format != FORMAT {
        return Err(fields.fault("run", &format!("is {format:?}; this build reads {FORMAT:?}")));
    }
    let keys = ["mode", "server", "model", "n_tokens"];
    let identity = Fields::new("header.identity", fields.get("identity"), &keys)?;
    let name = identity.text("mode")?;
    let mode = Mode::ALL.into_iter().find(|mode| mode.as_str() == name);
    Ok(Recording {
        mode: mode.ok_or_else(|| identity.fault("mode", "must be argmax or greedy"))?,
        server: identity.text("server")?,
        model: identity.option("model")?,
        n_tokens: usize::try_from(identity.require_count("n_tokens")?).unwrap_or(usize::MAX),
        passages: Vec::new(),
    })
}

/// The token ids in `value`.
pub(super) fn ids(value: Option<&Value>) -> Option<Vec<u32>> {
    let number = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    value?.as_array()?.iter().map(number).collect()
}

fn passage(line: &Value, mode: Mode) -> Result<Passage> {
    let fields = Fields::new("passage", Some(line), &["prompt", "prompt_ids", "forced", "ids", "top"])?;
    let list = |key: &str| ids(fields.get(key)).ok_or_else(|| fields.fault(key, "must be a list of token ids"));
    let (prompt, prompt_ids, ids) = (fields.text("prompt")?, list("prompt_ids")?, list("ids")?);
    if prompt_ids.is_empty() {
        return Err(fields.fault("prompt_ids", "is empty"));
    }
    let forced = match (mode, fields.get("forced")) {
        (Mode::Argmax, Some(_)) => Some(list("forced")?),
        (Mode::Argmax, None) => return Err(fields.fault("forced", "is missing; a run of argmax has it")),
        (Mode::Greedy, Some(_)) => return Err(fields.fault("forced", "is there; a greedy run has none")),
        (Mode::Greedy, None) => None,
    };
    if forced.as_ref().is_some_and(|forced| forced.len() != ids.len()) {
        return Err(fields.fault("forced", "must have as many tokens as ids"));
    }
    let tops = fields.get("top").and_then(Value::as_array).filter(|tops| tops.len() == ids.len());
    let tops = tops.ok_or_else(|| fields.fault("top", "must be a list with an entry for every id"))?;
    let steps = ids.into_iter().zip(tops).map(|(id, entry)| {
        let wrong = || fields.fault("top", "must hold pairs of token id and log-probability, most probable first");
        let pair = |pair: &Value| match pair.as_array()? {
            [id, logprob] => Some((u32::try_from(id.as_u64()?).ok()?, logprob.as_f64()?)),
            _ => None,
        };
        let top: Option<Vec<_>> = entry.as_array().and_then(|list| list.iter().map(pair).collect());
        let top = top.filter(|top| top.is_sorted_by(|a, b| a.1 >= b.1)).ok_or_else(wrong)?;
        Ok(Step { id, top })
    });
    Ok(Passage { prompt, prompt_ids, forced, steps: steps.collect::<Result<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(mode: Mode) -> Recording {
        let forced = (mode == Mode::Argmax).then(|| vec![7, 9]);
        let steps = vec![Step { id: 7, top: vec![(7, -0.1), (9, -2.5)] }, Step { id: 8, top: Vec::new() }];
        let passage = |prompt: &str| Passage {
            prompt: prompt.into(),
            prompt_ids: vec![1, 2],
            forced: forced.clone(),
            steps: steps.clone(),
        };
        Recording {
            mode,
            server: "http://localhost:1".into(),
            model: Some("m".into()),
            n_tokens: 2,
            passages: vec![passage("a\nb"), passage("c")],
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for mode in Mode::ALL {
            let recording = recording(mode);
            let text = recording.to_text();
            assert_eq!(Recording::parse(text.as_bytes()).unwrap(), recording);
            for at in 0..text.len() {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1;
                assert!(Recording::parse(&bytes).is_err(), "byte {at}");
                assert!(Recording::parse(&bytes[..at]).is_err(), "up to byte {at}");
            }
        }
        let steps = &recording(Mode::Greedy).passages[0].steps;
        assert_eq!([7, 9, 8].map(|token| steps[0].gap_to(token)), [Some(0.0), Some(2.4), None]);
        assert_eq!(steps[1].gap_to(8), None);
    }

    #[test]
    fn every_way_a_line_can_be_wrong() {
        let text = recording(Mode::Argmax).to_text();
        for (from, to, says) in [
            ("laya-crosscheck-run/1", "laya-parity-run/1", "line 1: header.run: is \"laya-parity-run/1\""),
            ("\"mode\":\"argmax\"", "\"mode\":\"sampled\"", "header.identity.mode: must be argmax or greedy"),
            ("\"mode\":\"argmax\"", "\"mode\":\"greedy\"", "passage.forced: is there"),
            ("\"n_tokens\":2", "\"n_tokens\":-2", "header.identity.n_tokens: must be a count"),
            ("\"model\":\"m\"", "\"model\":1", "header.identity.model: must be text or null"),
            ("\"forced\":[7,9],", "", "line 2: passage.forced: is missing"),
            ("\"forced\":[7,9]", "\"forced\":[7]", "as many tokens as ids"),
            ("\"prompt_ids\":[1,2]", "\"prompt_ids\":[]", "passage.prompt_ids: is empty"),
            ("\"ids\":[7,8]", "\"ids\":[7,-8]", "passage.ids: must be a list of token ids"),
            ("\"ids\":[7,8]", "\"ids\":[7,4294967296]", "passage.ids: must be a list of token ids"),
            ("[9,-2.5]", "[9,2.5]", "most probable first"),
            ("[9,-2.5]", "[9]", "must hold pairs"),
            (",[]]", "]", "an entry for every id"),
            ("\"prompt\":\"c\"", "\"prompt\":\"a\\nb\"", "line 3: has a prompt that was there before"),
            ("\"prompt\":\"c\"", "\"prompt\":\"c\",\"x\":1", "unknown key \"x\""),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            // Sealed again, so that it is the line that is refused.
            let (body, _) = sealed(changed.as_bytes()).unwrap();
            let sealed = [body, seal_line(body).as_bytes()].concat();
            let error = Recording::parse(&sealed).unwrap_err().to_string();
            assert!(error.contains(says), "{error:?} does not say {says:?}");
        }
        assert!(Recording::parse(b"").unwrap_err().to_string().contains("not the seal"));
    }
}
