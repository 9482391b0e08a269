//! Small runs made for tests of the gate: a text that can be changed before it is sealed.

#![allow(dead_code, reason = "each test binary uses its own part")]

use laya::json::{Object, Value};
use laya::parity::Run;
use laya::readout::Answer;
use laya::request::{Question, QuestionType};
use laya::spec::{Calibration, Confidence};
use sha2::{Digest as _, Sha256};

/// A run as it is written, before its seal.
#[derive(Clone)]
pub(crate) struct RunText {
    pub(crate) identity: Value,
    pub(crate) items: Vec<Value>,
}

/// A model file, a corpus, the values of weights.
pub(crate) const FILE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
pub(crate) const CORPUS: &str = "2222222222222222222222222222222222222222222222222222222222222222";
pub(crate) const VALUES: &str = "3333333333333333333333333333333333333333333333333333333333333333";
pub(crate) const OTHER: &str = "4444444444444444444444444444444444444444444444444444444444444444";

/// Questions of an item: `c`, `s` and `n`.
pub(crate) const N_QUESTIONS: usize = 3;

pub(crate) fn parsed(text: &str) -> Value {
    laya::json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// The member of `value` at `path`, names and positions.
pub(crate) fn at<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match value {
        Value::Object(object) => object.get_mut(step).unwrap_or_else(|| panic!("no {step} of {path:?}")),
        Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
        other => panic!("no {step} of {path:?} in {}", other.dumps()),
    })
}

pub(crate) fn object_at<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Object {
    match at(value, path) {
        Value::Object(object) => object,
        other => panic!("{path:?} is {}", other.dumps()),
    }
}

impl RunText {
    /// The member at `path` of question `question` of item `item`.
    pub(crate) fn question(&mut self, item: usize, question: &str, path: &[&str]) -> &mut Value {
        at(&mut self.items[item], &[&["questions", question], path].concat())
    }

    /// The fields of question `question` of item `item`.
    pub(crate) fn fields(&mut self, item: usize, question: &str) -> &mut Object {
        object_at(&mut self.items[item], &["questions", question])
    }

    /// Sets the member `key` of the object at `path` of the identity.
    pub(crate) fn set(&mut self, path: &str, key: &str, value: impl Into<Value>) {
        let path: Vec<_> = path.split('.').filter(|step| !step.is_empty()).collect();
        object_at(&mut self.identity, &path).insert(key, value);
    }

    /// Adds `by` to a number of a question.
    pub(crate) fn add(&mut self, item: usize, question: &str, path: &[&str], by: f64) {
        let number = self.question(item, question, path);
        *number = Value::from(number.as_f64().unwrap() + by);
    }

    /// Every question of every item, by item and name.
    pub(crate) fn each(&mut self, mut work: impl FnMut(&mut Object)) {
        for item in 0..self.items.len() {
            for question in ["c", "s", "n"] {
                work(self.fields(item, question));
            }
        }
    }

    /// Refuses an item.
    pub(crate) fn refuse(&mut self, item: usize, message: &str) {
        let refused = format!(r#"{{"message": "{message}", "null_state": false, "n_questions": {N_QUESTIONS}}}"#);
        self.replace(item, "refused", parsed(&refused));
    }

    /// Refuses an item for its state of null.
    pub(crate) fn refuse_null(&mut self, item: usize) {
        let refused =
            format!(r#"{{"message": "state must not be None", "null_state": true, "n_questions": {N_QUESTIONS}}}"#);
        self.replace(item, "refused", parsed(&refused));
    }

    /// Fails at an item.
    pub(crate) fn fail(&mut self, item: usize) {
        self.replace(item, "failed", parsed(r#"{"message": "status 500"}"#));
    }

    fn replace(&mut self, item: usize, key: &str, value: Value) {
        let item = object_at(&mut self.items[item], &[]);
        item.remove("questions");
        item.insert(key, value);
    }

    /// The lines of the run with their seal.
    pub(crate) fn sealed(&self) -> Vec<u8> {
        let mut head = Object::new();
        head.insert("run", "laya-parity-run/1");
        head.insert("identity", self.identity.clone());
        let mut text = Value::Object(head).dumps_compact() + "\n";
        for item in &self.items {
            text.push_str(&item.dumps_compact());
            text.push('\n');
        }
        let sha256 = laya::spec::hex(&Sha256::digest(&text));
        let n_items = self.items.len();
        (text + &format!("{{\"seal\":{{\"n_items\":{n_items},\"sha256\":\"{sha256}\"}}}}\n")).into_bytes()
    }

    pub(crate) fn run(&self) -> Run {
        Run::parse(&self.sealed()).unwrap_or_else(|error| panic!("{error}"))
    }
}

fn identity(n_items: usize) -> Value {
    let n_questions = n_items * N_QUESTIONS;
    parsed(&format!(
        r#"{{"schema": "laya-parity-identity/1", "kind": "engine",
            "host": {{"os": "linux", "machine": "x86_64", "cpu": "any"}},
            "build": {{"version": "0.1.0", "sha256": "{OTHER}", "source_sha256": "{OTHER}"}},
            "model": {{"name": "m", "sha256": "{FILE}", "values_sha256": "{VALUES}", "architecture": "laya", "weights": "f32",
                       "revision": "r1"}},
            "corpus": {{"sha256": "{CORPUS}", "subset": "all", "n_items": {n_items}, "n_questions": {n_questions}}},
            "runtime": {{"backend": "cpu", "device": "cpu", "kernels": "default", "isa": "avx2", "plan": "packed", "n_threads": 1,
                         "numeric_contract": 1, "activations": "f32", "calibration": "none", "spec_sha256": "{OTHER}"}}}}"#
    ))
}

fn doubles(numbers: &[f32]) -> Value {
    numbers.iter().copied().map(f64::from).collect()
}

/// A question of an item: its tokens, raw logits and answer.
fn record(item: usize, definition: &str, kind: QuestionType, logits: &[f32], rounded: bool) -> Object {
    let question = Question::parse("q", &parsed(definition)).unwrap();
    let act = [1000.0, -1000.0];
    let answer = Answer::new(&question, logits, &act, &Calibration::default(), Confidence::Laya).unwrap();
    // [CLS] question [SEP] ([MASK] option)… [SEP] state [SEP]
    let item = u32::try_from(item).unwrap();
    let mut ids = vec![1, 10 + kind.index() as u32, 2];
    let mut markers = Vec::new();
    for (i, _) in (0_u32..).zip(logits) {
        markers.push(ids.len());
        ids.extend([4, 20 + i]);
    }
    ids.extend([2, 100 + item, 101 + item, 102 + item, 2]);
    let mut record = Object::new();
    record.insert("type", kind.as_str());
    record.insert("ids", ids.into_iter().collect::<Value>());
    record.insert("markers", markers.into_iter().collect::<Value>());
    record.insert("logits", doubles(logits));
    record.insert("act_logits", doubles(&act));
    record.insert("answer", if rounded { answer.to_json_rounded() } else { answer.to_json() });
    record
}

/// An engine run of `n_items` items of three questions.
pub(crate) fn engine(n_items: usize) -> RunText {
    run(n_items, false)
}

fn run(n_items: usize, rounded: bool) -> RunText {
    let items = (0..n_items).map(|i| {
        let shift = i as f32 / 128.0;
        let mut questions = Object::new();
        let choice = r#"{"type": "choice", "instructions": "i", "criteria": ["a", "b", "c"]}"#;
        questions.insert("c", record(i, choice, QuestionType::Choice, &[0.25, 1.5 + shift, -0.5], rounded));
        let score = r#"{"type": "score", "instructions": "i", "criteria": ["none", "some", "much", 4]}"#;
        questions.insert("s", record(i, score, QuestionType::Score, &[0.5, 0.75, 1.75 + shift, -1.0], rounded));
        let noul = r#"{"type": "noul", "instructions": "i"}"#;
        questions.insert("n", record(i, noul, QuestionType::Noul, &[0.125, 1.0 + shift], rounded));
        let mut item = Object::new();
        item.insert("id", format!("i{i}"));
        item.insert("questions", questions);
        Value::Object(item)
    });
    RunText { identity: identity(n_items), items: items.collect() }
}

/// The published package's run of the same.
pub(crate) fn reference(n_items: usize) -> RunText {
    let mut run = run(n_items, true);
    run.set("", "kind", "reference");
    run.set("model", "sha256", Value::Null);
    run.set("runtime", "backend", "pytorch");
    run.set("runtime", "kernels", "cpu");
    run.set("runtime", "numeric_contract", Value::Null);
    run
}

/// A run of F16 weights on the CPU and one of the same model file on another device.
pub(crate) fn on_device(n_items: usize) -> [RunText; 2] {
    let mut cpu = engine(n_items);
    cpu.set("model", "weights", "f16");
    let mut device = cpu.clone();
    device.set("runtime", "backend", "cuda");
    device.set("runtime", "numeric_contract", Value::Null);
    [cpu, device]
}

/// Sets the raw logits of a question and answers it with them.
pub(crate) fn set_logits(run: &mut RunText, item: usize, question: &str, logits: &[f32]) {
    let (definition, kind) = match question {
        "c" => (r#"{"type": "choice", "instructions": "i", "criteria": ["a", "b", "c"]}"#, QuestionType::Choice),
        "n" => (r#"{"type": "noul", "instructions": "i"}"#, QuestionType::Noul),
        other => panic!("{other}"),
    };
    let record = record(item, definition, kind, logits, false);
    *run.fields(item, question) = record;
}
