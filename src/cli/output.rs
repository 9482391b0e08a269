//! What `laya-cli` prints about an answered request.

use super::escape;
use crate::engine::{Engine, QuestionResult, Response};
use crate::json::{Object, Value};
use crate::kernels::NUMERIC_CONTRACT;
use crate::readout::softmax;
use crate::request::Request;
use crate::spec::{InputContract, Kernels};

/// What is the same in every output of a run.
#[derive(Debug)]
pub(super) struct Report {
    /// The model as it was named.
    model: String,
    /// Numbers of answers as they are, not with the published package's four digits.
    unrounded: bool,
    runtime: Value,
}

impl Report {
    pub(super) fn new(engine: &Engine, model: &str, unrounded: bool) -> Self {
        Self { model: model.to_owned(), unrounded, runtime: Value::Object(runtime(engine)) }
    }
}

/// What the answers were computed with.
fn runtime(engine: &Engine) -> Object {
    let spec = engine.spec();
    let contract = spec.contract();
    let mut runtime = Object::new();
    runtime.insert("layout", contract.layout.as_str());
    // The rows of requests are these whatever the spec says: laya-router-v1 adds states of executor cards.
    runtime.insert("format", InputContract::LayaV1.as_str());
    runtime.insert("plan", engine.plan().as_str());
    runtime.insert("kernels", Kernels::Default.as_str());
    runtime.insert("numeric_contract", i64::from(NUMERIC_CONTRACT));
    runtime.insert("spec_sha256", spec.spec().sha256());
    runtime.insert("spec_source", spec.source().as_str());
    runtime.insert("calibration", engine.calibration().version());
    runtime
}

/// An object that is printed. It quotes the model file, which may come from anybody, so that what would act on a terminal
/// is escaped; it is the same value.
#[derive(Debug)]
pub(super) struct Output(Value);

impl From<Value> for Output {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl Output {
    /// On one line.
    pub(super) fn dumps_compact(&self) -> String {
        escape::json(self.0.dumps_compact())
    }

    /// On many, `n` spaces a level.
    pub(super) fn dumps_indent(&self, n: usize) -> String {
        escape::json(self.0.dumps_indent(n))
    }
}

/// The output object: `[id,] model, state, questions, per_question, answers, usage, runtime`.
///
/// Numbers of the model are float32, widened to double and printed in the shortest form that reads back as that double.
pub(super) fn answered(report: &Report, request: Request, response: Response) -> Output {
    let mut output = Object::new();
    if let Some(id) = request.id {
        output.insert("id", id);
    }
    output.insert("model", report.model.as_str());
    output.insert("state", request.state);
    output.insert("questions", request.given_questions);
    let (mut per_question, mut answers) = (Object::new(), Object::new());
    for result in response.questions {
        let answer = if report.unrounded { result.answer.to_json() } else { result.answer.to_json_rounded() };
        answers.insert(result.id.clone(), answer);
        per_question.insert(result.id.clone(), evidence(result));
    }
    output.insert("per_question", per_question);
    output.insert("answers", answers);
    output.insert("usage", response.usage.to_json());
    output.insert("runtime", report.runtime.clone());
    Output(Value::Object(output))
}

/// What the model read and computed for one question.
fn evidence(result: QuestionResult) -> Object {
    let mut evidence = Object::new();
    evidence.insert("qtype", result.kind.as_str());
    evidence.insert("options", result.options.into_iter().collect::<Value>());
    evidence.insert("input_ids", result.sequence.ids.into_iter().collect::<Value>());
    evidence.insert("marker_pos", result.sequence.markers.into_iter().collect::<Value>());
    evidence.insert("raw_logits", doubles(&result.logits.options));
    let act: Vec<f32> = softmax(&result.logits.act, 1.0).into_iter().map(|p| p as f32).collect();
    // None from a model without an act head.
    if let Some(act_probability) = act.first().copied().map(f64::from) {
        // A softmax in spite of its name: it is the name readers of this format know.
        evidence.insert("act_logits", doubles(&act));
        evidence.insert("act_raw_logits", doubles(&result.logits.act));
        evidence.insert("act_probability", act_probability);
    }
    evidence
}

fn doubles(numbers: &[f32]) -> Value {
    numbers.iter().copied().map(f64::from).collect()
}
