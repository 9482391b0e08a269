//! What `laya-cli` prints about an answered request.

use crate::engine::{QuestionResult, Response};
use crate::json::{Object, Value};
use crate::readout::softmax;
use crate::request::Request;

/// The output object: `[id,] model, state, questions, per_question, answers, usage`.
///
/// Numbers of the model are float32, widened to double and printed in the shortest form that reads back as that double.
pub(super) fn answered(model: &str, request: Request, response: Response) -> Value {
    let mut output = Object::new();
    if let Some(id) = request.id {
        output.insert("id", id);
    }
    output.insert("model", model);
    output.insert("state", request.state);
    output.insert("questions", request.given_questions);
    let (mut per_question, mut answers) = (Object::new(), Object::new());
    for result in response.questions {
        answers.insert(result.id.clone(), result.answer.to_json_rounded());
        per_question.insert(result.id.clone(), evidence(result));
    }
    output.insert("per_question", per_question);
    output.insert("answers", answers);
    output.insert("usage", response.usage.to_json());
    Value::Object(output)
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
