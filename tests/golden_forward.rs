//! The forward pass against the published package, step by step, and the mistakes that comparison must notice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod tiny;

use std::collections::HashMap;

use laya::convert::Outtype;
use laya::engine::Engine;
use laya::json::{self, Value};
use laya::model::{Control, Row, Stage};
use laya::request::{QuestionType, Request};

/// Bar for hidden states of the first stages, absolute.
const EARLY: f64 = 1e-4;
/// Bar for later hidden states, relative to the largest magnitude of the position.
const LATER: f64 = 2e-4;
/// Bar for raw logits, absolute.
const LOGIT: f64 = 1e-4;
/// One step of a public number's four digits.
const STEP: f64 = 1e-4;

/// Tensors of a safetensors file of F32, `name -> values`.
fn hidden_states(family: &str) -> HashMap<String, Vec<f32>> {
    let bytes = std::fs::read(tiny::root().join("golden").join(family).join("hidden.safetensors")).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header = json::parse(header).unwrap();
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    tensors
        .map(|(name, info)| {
            assert_eq!(info.get("dtype").unwrap().as_str(), Some("F32"));
            let at = |i: usize| info.get("data_offsets").unwrap().as_array().unwrap()[i].as_u64().unwrap() as usize;
            let (values, _) = data[at(0)..at(1)].as_chunks::<4>();
            (name.to_owned(), values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        })
        .collect()
}

/// The golden's name of a stage.
fn name(stage: Stage) -> String {
    match stage {
        Stage::Embedding => "embeddings".into(),
        Stage::EncoderLayer(i) => format!("layer_{i:02}"),
        Stage::FinalNorm => "final_norm".into(),
        Stage::TypeEmbedding => "type_emb".into(),
        Stage::HeadLayer(i) => format!("head_{i:02}"),
    }
}

/// Whether the absolute bar holds at a stage: what comes before activations grow massive.
fn is_early(stage: Stage) -> bool {
    matches!(stage, Stage::Embedding | Stage::EncoderLayer(0 | 1))
}

/// How far a run is from the golden, in units of the bar.
#[derive(Debug, Default)]
struct Distance {
    rows: usize,
    hidden: f64,
    hidden_at: String,
    logit: f64,
    act: f64,
}

impl Distance {
    fn worst(&self) -> f64 {
        self.hidden.max(self.logit)
    }
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Runs every golden row with hidden states, with `control`.
fn distance(engine: &Engine, items: &[Value], golden: &HashMap<String, Vec<f32>>, control: Control) -> Distance {
    let width = engine.config().n_embd;
    let mut distance = Distance::default();
    for item in items {
        let Some(question) = item.get("hidden").map(|hidden| hidden.get("question").unwrap().as_str().unwrap()) else {
            continue;
        };
        let id = item.get("id").unwrap().as_str().unwrap();
        // The golden's own row, so that a row is compared even where its request is refused here alone.
        let expected = item.get("expected").unwrap().get("per_question").unwrap().get(question).unwrap();
        let numbers = |key: &str| -> Vec<u32> {
            expected.get(key).unwrap().as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect()
        };
        let (ids, markers) = (numbers("input_ids"), numbers("marker_pos"));
        let definition = item.get("body").unwrap().get("questions").unwrap().get(question).unwrap();
        let kind = QuestionType::from_name(definition.get("type").unwrap().as_str().unwrap()).unwrap();
        let row = Row { ids: &ids, markers: &markers, kind: kind.index() };
        let mut stages = Vec::new();
        let logits = engine.model().forward_traced(&[row], control, &mut stages).unwrap().remove(0);
        distance.rows += 1;

        assert_eq!(stages.len(), engine.config().n_layer + engine.config().n_head_layer + 3);
        for (stage, ours) in stages {
            let golden = &golden[&format!("{id}/{}", name(stage))];
            assert_eq!(ours.len(), golden.len(), "{id} {stage:?}");
            assert!(ours.iter().all(|x| x.is_finite()), "{id} {stage:?}");
            for (ours, golden) in ours.chunks(width).zip(golden.chunks(width)) {
                let error = ours.iter().zip(golden).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
                let size = golden.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max);
                let units = if is_early(stage) { error / EARLY } else { error / (LATER * size) };
                if units > distance.hidden {
                    distance.hidden = units;
                    distance.hidden_at = format!("{id} {}", name(stage));
                }
            }
        }
        assert!(logits.options.iter().chain(&logits.act).all(|x| x.is_finite()), "{id}");
        for (ours, golden) in logits.options.iter().zip(floats(expected.get("raw_logits").unwrap())) {
            distance.logit = distance.logit.max((f64::from(*ours) - golden).abs() / LOGIT);
        }
        for (ours, golden) in logits.act.iter().zip(floats(expected.get("act_raw_logits").unwrap())) {
            let size = golden.abs().max(1.0);
            distance.act = distance.act.max((f64::from(*ours) - golden).abs() / size / LATER);
        }
    }
    distance
}

#[test]
fn hidden_states_and_logits_are_the_published_packages() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let (items, golden) = (tiny::items(family), hidden_states(family));
        // The F16 checkpoint keeps its values in an F16 file; the F32 one needs an F32 file.
        let outtype = if family == "tiny-mmbert" { Outtype::F32 } else { Outtype::F16 };
        let engine = tiny::engine(&tiny::gguf(family, outtype, dir.path()));
        let faithful = distance(&engine, &items, &golden, Control::default());
        println!("{family}: {faithful:?} (in units of the bars)");
        assert!(faithful.rows >= 60, "only {} rows", faithful.rows);
        assert!(faithful.worst() <= 1.0 && faithful.act <= 1.0, "{family}: {faithful:?}");

        let controls = std::fs::read(tiny::root().join("golden").join(family).join("controls.json")).unwrap();
        let controls = json::parse(&controls).unwrap().get("controls").unwrap().clone();
        for (_, control, mistake) in Control::ALL {
            let wrong = distance(&engine, &items, &golden, mistake);
            let (hidden, at, logit) = (wrong.hidden, &wrong.hidden_at, wrong.logit);
            println!("{family}: {control}: hidden {hidden:.0}x the bar ({at}), logits {logit:.0}x");
            assert!(hidden >= 10.0 || control == "head_output_projection_skipped", "{family}: {control}: {wrong:?}");
            assert!(logit >= 10.0, "{family}: the logits do not notice {control}: {wrong:?}");
            // The same mistake made in the published package moves the logits as far.
            let theirs = controls.get(control).unwrap().get("max_abs_dlogit").unwrap().as_f64().unwrap() / LOGIT;
            assert!(
                (logit / theirs - 1.0).abs() < 0.15,
                "{family}: {control} is another mistake: {logit} for {theirs}"
            );
        }
    }
}

/// Compares a public answer: structure and text exactly, numbers within one step of four digits.
fn same(ours: &Value, golden: &Value, path: &str, worst: &mut f64) {
    match (ours, golden) {
        (Value::Object(ours), Value::Object(golden)) => {
            assert_eq!(ours.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>(), "{path}");
            for ((key, ours), (_, golden)) in ours.iter().zip(golden.iter()) {
                same(ours, golden, &format!("{path}.{key}"), worst);
            }
        }
        (Value::Array(ours), Value::Array(golden)) => {
            assert_eq!(ours.len(), golden.len(), "{path}");
            for (i, (ours, golden)) in ours.iter().zip(golden).enumerate() {
                same(ours, golden, &format!("{path}[{i}]"), worst);
            }
        }
        (Value::Number(_), Value::Number(_)) if !path.contains(".legend") && !path.ends_with(".choice") => {
            let error = (ours.as_f64().unwrap() - golden.as_f64().unwrap()).abs();
            *worst = worst.max(error);
            assert!(error <= STEP * (1.0 + 1e-9), "{path}: {} is not {}", ours.dumps(), golden.dumps());
        }
        _ => assert_eq!(ours.dumps(), golden.dumps(), "{path}"),
    }
}

#[test]
fn answers_are_the_published_packages() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let outtype = if family == "tiny-mmbert" { Outtype::F32 } else { Outtype::F16 };
        let engine = tiny::engine(&tiny::gguf(family, outtype, dir.path()));
        let (mut answered, mut refused, mut questions, mut stricter) = (0, 0, 0, Vec::new());
        let (mut worst, mut worst_logit) = (0.0, 0.0_f64);
        for item in tiny::items(family) {
            let id = item.get("id").unwrap().as_str().unwrap();
            let covers = item.get("covers").unwrap().as_str().unwrap();
            let expected = item.get("expected").unwrap();
            let result = Request::parse(item.get("body").unwrap())
                .map_err(laya::Error::from)
                .and_then(|request| engine.answer(&request));
            if expected.get("error").is_some() {
                let error = result.expect_err(&format!("{id} ({covers}) must be refused"));
                assert!(!error.message().is_empty());
                refused += 1;
                continue;
            }
            let response = match result {
                Ok(response) => response,
                // Two labels with one answer key: the published package writes the key twice, which no JSON object
                // can hold, so such a question is refused here.
                Err(error) if covers == "scalar labels" => {
                    assert!(error.to_string().contains("label"), "{error}");
                    stricter.push(covers.to_owned());
                    continue;
                }
                Err(error) => panic!("{id} ({covers}): {error}"),
            };
            answered += 1;
            for result in &response.questions {
                questions += 1;
                let golden = expected.get("per_question").unwrap().get(&result.id).unwrap();
                let options: Vec<_> =
                    golden.get("options").unwrap().as_array().unwrap().iter().map(|o| o.as_str().unwrap()).collect();
                assert_eq!(result.options, options, "{id} {}", result.id);
                let ids = |key: &str| -> Vec<u32> {
                    golden.get(key).unwrap().as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect()
                };
                assert_eq!(result.sequence.ids, ids("input_ids"), "{id} ({covers}) {}", result.id);
                assert_eq!(result.sequence.markers, ids("marker_pos"), "{id} {}", result.id);
                let logits = floats(golden.get("raw_logits").unwrap());
                assert_eq!(result.logits.options.len(), logits.len());
                for (ours, golden) in result.logits.options.iter().zip(&logits) {
                    assert!(ours.is_finite());
                    worst_logit = worst_logit.max((f64::from(*ours) - golden).abs());
                }
                let first = |values: &[f64]| {
                    let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    values.iter().position(|x| *x == top)
                };
                let ours: Vec<f64> = result.logits.options.iter().map(|x| f64::from(*x)).collect();
                assert_eq!(first(&ours), first(&logits), "{id} {}: argmax", result.id);
                let public = expected.get("answers").unwrap().get(&result.id).unwrap();
                same(&result.answer.to_json_rounded(), public, &format!("{id}.{}", result.id), &mut worst);
            }
            same(&response.usage.to_json(), expected.get("usage").unwrap(), &format!("{id}.usage"), &mut 0.0);
        }
        println!(
            "{family}: {answered} items answered ({questions} questions), {refused} refused by both, refused here alone: \
             {stricter:?}; largest error: logit {worst_logit:.2e}, public number {worst:.2e}"
        );
        assert!(answered >= 60 && refused > 0 && worst_logit <= LOGIT && stricter.len() <= 1);
    }
}
