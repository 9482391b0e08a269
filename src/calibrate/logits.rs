//! Raw logits of labelled questions, and the file that keeps them.

use super::{Data, Fraction, Identity, Split};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::json::{self, Object, Value};
use crate::request::QuestionType;
use crate::spec::Calibration;

/// The raw logits of one labelled question.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// Id of the question.
    pub id: String,
    /// Its type.
    pub kind: QuestionType,
    /// Its raw logits, finite. `[n_options]`
    pub logits: Vec<f32>,
    /// The position of the true option.
    pub truth: usize,
    /// What the true option is called: a choice's label, a score's index, a noul's `true` or `false`.
    pub class: String,
}

/// The labelled questions of one record, run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Line of the record in the data, from 1.
    pub line: u64,
    /// Its id.
    pub id: Option<String>,
    /// The split it asks for.
    pub given_split: Option<Split>,
    /// SHA-256 of its state as the model reads it, in lower-case hex.
    pub state_sha256: String,
    /// Its labelled questions.
    pub questions: Vec<Labelled>,
}

impl Measured {
    /// The split it asks for, else that of its id, else that of its state: records without an id that share a state share a
    /// split.
    pub fn split(&self, fraction: Fraction) -> Split {
        self.given_split.unwrap_or_else(|| fraction.split(self.id.as_deref().unwrap_or(&self.state_sha256)))
    }

    fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("line", self.line);
        if let Some(id) = &self.id {
            object.insert("id", id.as_str());
        }
        if let Some(split) = self.given_split {
            object.insert("split", split.as_str());
        }
        object.insert("state_sha256", self.state_sha256.as_str());
        let mut questions = Object::new();
        for question in &self.questions {
            let mut entry = Object::new();
            entry.insert("type", question.kind.as_str());
            entry.insert("truth", question.truth);
            entry.insert("class", question.class.as_str());
            entry.insert("logits", question.logits.iter().copied().map(f64::from).collect::<Value>());
            questions.insert(question.id.as_str(), entry);
        }
        object.insert("questions", questions);
        object
    }

    fn from_json(line: &Value) -> Result<Self, String> {
        let id = match line.get("id") {
            None => None,
            Some(id) => Some(id.as_str().ok_or("id: must be text")?.to_owned()),
        };
        let given_split = match line.get("split") {
            None => None,
            Some(split) => {
                Some(split.as_str().and_then(Split::from_name).ok_or("split: must be \"fit\", \"eval\" or \"test\"")?)
            }
        };
        let questions = line.get("questions").and_then(Value::as_object).ok_or("questions: must be an object")?;
        Ok(Self {
            line: line.get("line").and_then(Value::as_u64).ok_or("line: must be a number from 1")?,
            id,
            given_split,
            state_sha256: line.get("state_sha256").and_then(Value::as_str).ok_or("state_sha256: must be text")?.into(),
            questions: questions
                .iter()
                .map(|(id, entry)| labelled(id, entry).map_err(|(key, what)| format!("questions.{id}.{key}: {what}")))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn labelled(id: &str, entry: &Value) -> Result<Labelled, (&'static str, &'static str)> {
    let kind = entry.get("type").and_then(Value::as_str).and_then(QuestionType::from_name);
    let kind = kind.ok_or(("type", "must be \"choice\", \"score\" or \"noul\""))?;
    let numbers = entry.get("logits").and_then(Value::as_array).ok_or(("logits", "must be a list of numbers"))?;
    let logits: Option<Vec<f32>> = numbers
        .iter()
        .map(|number| number.as_f64().filter(|x| f64::from(*x as f32) == *x && x.is_finite()).map(|x| x as f32))
        .collect();
    let logits = logits.ok_or(("logits", "must be 32-bit floats, as the engine gives them"))?;
    if kind == QuestionType::Noul && logits.len() != 2 {
        return Err(("logits", "must be two for a noul question"));
    }
    let class = entry.get("class").and_then(Value::as_str).ok_or(("class", "must be text"))?.to_owned();
    let truth = entry.get("truth").and_then(Value::as_u64).and_then(|truth| usize::try_from(truth).ok());
    match truth.filter(|truth| *truth < logits.len()) {
        Some(truth) => Ok(Labelled { id: id.to_owned(), kind, logits, truth, class }),
        None => Err(("truth", "must be the position of one of the logits")),
    }
}

/// Raw logits and where they come from: what a fit needs, without the model.
#[derive(Debug, Clone, PartialEq)]
pub struct LogitFile {
    /// The engine that computed them.
    pub identity: Identity,
    /// The data they come from.
    pub data: Data,
    /// The calibration in force when they were computed: what a fit must be better than.
    pub in_force: Calibration,
    /// The records, in the order of the data.
    pub records: Vec<Measured>,
}

impl LogitFile {
    /// JSON Lines, one record each, every line with the identity, the data and the calibration in force.
    pub fn to_text(&self) -> String {
        let (engine, data, in_force) = (self.identity.to_json(), self.data.to_json(), self.in_force.to_json());
        let mut text = String::new();
        for record in &self.records {
            let mut line = record.to_json();
            line.insert("engine", engine.clone());
            line.insert("data", data.clone());
            line.insert("in_force", in_force.clone());
            text.push_str(&Value::Object(line).dumps_compact());
            text.push('\n');
        }
        text
    }

    /// Reads [`LogitFile::to_text`] back.
    ///
    /// # Errors
    /// A line is none of them; lines have more than one identity or data, which means they are of several runs; or lines
    /// are missing. The error names the line.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let mut file: Option<Self> = None;
        for (number, bytes) in (1..).zip(text.split_inclusive(|b| *b == b'\n')) {
            let at_line = |message: String| Error::new(ErrorKind::Request, message).at(Place::Line(number));
            let line = json::parse(bytes).map_err(|e| at_line(format!("column {}: {}", e.column, e.message)))?;
            let part = |key: &str| match line.get(key) {
                Some(Value::Object(_)) => Ok(line.get(key).unwrap_or(&Value::Null)),
                _ => Err(at_line(format!(
                    "{key}: is missing; logits come from --logits-out, every line with the engine, the data and the \
                     calibration in force"
                ))),
            };
            let identity = Identity::from_json(part("engine")?).map_err(at_line)?;
            let data = Data::from_json(part("data")?).map_err(at_line)?;
            let given = part("in_force")?;
            let in_force = Calibration::from_json(given).map_err(|what| at_line(format!("in_force.{what}")))?;
            let record = Measured::from_json(&line).map_err(at_line)?;
            let file = file.get_or_insert_with(|| Self {
                identity: identity.clone(),
                data: data.clone(),
                in_force: in_force.clone(),
                records: vec![],
            });
            let is = |what: &str, this: Object, first: Object| {
                let (this, first) = (Value::Object(this).dumps(), Value::Object(first).dumps());
                Err(at_line(format!(
                    "{what} {this} is not that of the first line, {first}; a fit takes the logits of one run"
                )))
            };
            if file.identity != identity {
                return is("engine", identity.to_json(), file.identity.to_json());
            }
            if file.data != data {
                return is("data", data.to_json(), file.data.to_json());
            }
            if file.in_force != in_force {
                return is("in_force", in_force.to_json(), file.in_force.to_json());
            }
            file.records.push(record);
        }
        let file = file.ok_or_else(|| Error::new(ErrorKind::Request, "is empty; no record was run"))?;
        if file.data.n_records != file.records.len() as u64 {
            let (n, of) = (file.records.len(), file.data.n_records);
            let message = format!("has {n} lines of a run of {of} records; take the file as --logits-out wrote it");
            return Err(Error::new(ErrorKind::Request, message));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> LogitFile {
        let identity = Identity {
            model_sha256: "a".repeat(64),
            kernels: "default".into(),
            numeric_contract: 1,
            plan: "packed".into(),
            recipe: "f16".into(),
        };
        let data = Data { sha256: "0".repeat(64), n_records: 2, n_failed: 3, n_unlabelled: 4 };
        let question = |id: &str, kind, logits: &[f32], truth| Labelled {
            id: id.into(),
            kind,
            logits: logits.into(),
            truth,
            class: "ü".into(),
        };
        let records = vec![
            Measured {
                line: 1,
                id: Some("é \"1\"".into()),
                given_split: Some(Split::Eval),
                state_sha256: "b".repeat(64),
                questions: vec![
                    question("q", QuestionType::Choice, &[0.1, -3.5e-30, 1e30], 2),
                    question("n", QuestionType::Noul, &[-0.0, 7.0], 0),
                ],
            },
            Measured { line: 5, id: None, given_split: None, state_sha256: "c".repeat(64), questions: Vec::new() },
        ];
        let in_force = Calibration::from_json(
            &json::parse(br#"{"method": "temperature", "temperature": {"noul": {"2": 1.5, "*": 4.5}, "all": 1.25}}"#)
                .unwrap(),
        );
        LogitFile { identity, data, in_force: in_force.unwrap(), records }
    }

    #[test]
    fn logits_are_read_back_to_the_last_bit() {
        let file = file();
        let text = file.to_text();
        assert_eq!(LogitFile::parse(text.as_bytes()).unwrap(), file);
        assert_eq!(text.lines().count(), 2);
        let first = file.records[0].questions[1].logits[0];
        assert!(
            first.is_sign_negative()
                && LogitFile::parse(text.as_bytes()).unwrap().records[0].questions[1].logits[0].is_sign_negative()
        );
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let text = file().to_text();
        let (first, second) = text.split_once('\n').unwrap();
        for (text, message) in [
            (String::new(), "is empty"),
            (format!("{first}\n"), "has 1 lines of a run of 2 records"),
            (text.replacen("packed", "sequential", 1), "line 2: engine {"),
            (text.replacen(&"0".repeat(64), &"1".repeat(64), 1), "line 2: data {"),
            (format!("{first}\n{}\n", second.replace("\"engine\"", "\"motor\"")), "line 2: engine: is missing"),
            (text.replacen("\"truth\":2", "\"truth\":3", 1), "line 1: questions.q.truth: must be the position"),
            (
                text.replacen("1e+30", "1e30", 1).replacen("0.10000000149011612", "0.1", 1),
                "line 1: questions.q.logits: must be 32-bit floats",
            ),
            (text.replacen("[-0.0,7.0]", "[7.0]", 1), "line 1: questions.n.logits: must be two"),
            (text.replacen("choice", "pick", 1), "line 1: questions.q.type: must be"),
            (text.replacen("\"eval\"", "\"train\"", 1), "line 1: split: must be"),
            (text.replacen("4.5", "4.25", 1), "line 2: in_force {"),
            (text.replacen("1.25", "1e-30", 1), "line 1: in_force.temperature.all.*: a temperature is"),
            (text.replacen("\"in_force\"", "\"was\"", 1), "line 1: in_force: is missing"),
            (text.replacen("\"class\":\"ü\"", "\"class\":3", 1), "line 1: questions.q.class: must be text"),
            (text.replacen(&"a".repeat(64), "aa", 1), "line 1: engine.model_sha256: must be 64"),
            (text.replacen("\"n_failed\":3", "\"n_failed\":-3", 1), "line 1: data.n_failed: must be a count"),
            (text.replacen("\"line\":1", "\"line\":null", 1), "line 1: line: must be"),
            (format!("{text}\n"), "line 3: column 1: "),
        ] {
            let error = LogitFile::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{message}: {error}");
        }
    }

    #[test]
    fn the_split_asked_for_goes_before_that_of_the_id_and_that_of_the_state() {
        let fraction = Fraction::new(0.5).unwrap();
        let mut record = file().records.remove(1);
        assert_eq!(record.split(fraction), fraction.split(&"c".repeat(64)));
        assert_eq!(Measured { line: 6, ..record.clone() }.split(fraction), record.split(fraction));
        record.id = Some("a".into());
        assert_eq!(record.split(fraction), fraction.split("a"));
        for split in [Split::Fit, Split::Eval, Split::Test] {
            record.given_split = Some(split);
            assert_eq!(record.split(fraction), split);
        }
    }
}
