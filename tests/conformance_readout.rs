//! Answers against the published package's, and what must hold for every answer.
//!
//! The published files are read from `../shared/conformance` when it is there.

#![allow(clippy::expect_used, reason = "a test stops at the first surprise")]

mod random;

use laya::json::{self, Object, Value};
use laya::readout::{Answer, round_to_4_digits, softmax};
use laya::request::{Question, Request};
use laya::spec::{Calibration, Confidence};
use std::fs;
use std::path::{Path, PathBuf};

use random::SplitMix64 as Random;

fn read(path: &Path) -> Value {
    json::parse(&fs::read(path).expect("a readable file")).expect("JSON")
}

fn published(folder: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance/laya-published").join(folder);
    if !path.exists() {
        eprintln!("skipped: no ../shared");
        return None;
    }
    Some(path)
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).expect("a list")
}

/// The request of a case. A shortlist asks about fewer labels than it was given.
fn asked(case: &Value) -> Value {
    let questions = case.get("reduced_questions").or_else(|| case.get("questions"));
    let request: Object = [("state", case.get("state")), ("questions", questions)]
        .into_iter()
        .map(|(key, value)| (key, value.cloned()))
        .collect();
    Value::from(request)
}

fn floats(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().expect("a list").iter();
    // Printed with F32 digits widened to a double, so this gives the F32 back.
    numbers.map(|number| number.as_f64().expect("a number") as f32).collect()
}

fn calibration(meta: &Value) -> Calibration {
    let temperature: Vec<f64> = items(meta, "temperature").iter().map(|t| t.as_f64().expect("a number")).collect();
    let buckets = meta.get("temperature_by_options").and_then(Value::as_object).expect("buckets");
    let buckets = buckets.iter().map(|(name, t)| (name.to_owned(), t.as_f64().expect("a number")));
    Calibration::new(temperature.try_into().expect("three temperatures"), buckets)
}

/// Compares two answers: numbers within the last of four digits, everything else exactly. Returns the largest gap.
fn gap(ours: &Value, theirs: &Value, place: &str) -> f64 {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            assert!(ours.keys().eq(theirs.keys()), "{place}: keys or their order");
            ours.iter()
                .zip(theirs.values())
                .map(|((key, a), b)| gap(a, b, &format!("{place}.{key}")))
                .fold(0.0, f64::max)
        }
        (Value::Number(a), Value::Number(b)) => {
            let gap = (a.as_f64() - b.as_f64()).abs();
            assert!(gap <= 5.1e-5, "{place}: {} against {}", a.as_f64(), b.as_f64());
            gap
        }
        _ => {
            assert_eq!(ours, theirs, "{place}");
            0.0
        }
    }
}

fn check(folder: &str, n_expected: usize) {
    let Some(folder) = published(folder) else { return };
    let calibration = calibration(&read(&folder.join("meta.json")));
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let (mut n_answers, mut n_digits, mut worst) = (0, 0, 0.0_f64);
    for path in paths.iter().filter(|path| path.file_name().is_some_and(|name| name != "meta.json")) {
        let case = read(path);
        let request = Request::parse(&asked(&case)).expect("a request");
        let published =
            case.get("result").and_then(|result| result.get("answers")).and_then(Value::as_object).expect("answers");
        let rows = items(&case, "logits").iter().zip(items(&case, "act_logits"));
        assert_eq!(request.questions.len(), published.len());
        for ((question, (logits, act_logits)), (id, theirs)) in request.questions.iter().zip(rows).zip(published.iter())
        {
            assert_eq!(question.id, id);
            let place = format!("{} {id}", path.display());
            let n_options = question.options.len();
            let logits = floats(logits);
            assert!(logits[n_options..].iter().all(|padding| *padding == -10000.0), "{place}: padding");
            let answer =
                Answer::new(question, &logits[..n_options], &floats(act_logits), &calibration, Confidence::Laya)
                    .expect("an answer");
            // The unrounded numbers against the four digits, then the rounded shape; its legend holds the levels as
            // given, while the newer package that wrote these files has their texts.
            let theirs = with_legend_of(&answer, question, theirs);
            worst = worst.max(gap(&answer.to_json(), &theirs, &place));
            n_digits += usize::from(answer.to_json_rounded() == theirs);
            n_answers += 1;
        }
    }
    eprintln!("{n_answers} answers, largest gap {worst:.2e}, {n_digits} with every digit equal");
    assert_eq!(n_answers, n_expected);
    assert_eq!(n_digits, n_answers);
}

/// `theirs` with the legend's texts checked against the option texts, then replaced by our levels.
fn with_legend_of(answer: &Answer, question: &Question, theirs: &Value) -> Value {
    let mut theirs = theirs.as_object().expect("an answer").clone();
    if let Some(legend) = theirs.get("legend").and_then(Value::as_object) {
        for ((level, text), option) in legend.iter().zip(&question.options) {
            assert_eq!(*option, format!("level {level}: {}", text.as_str().expect("a text")));
        }
        theirs.insert("legend", answer.to_json().get("legend").cloned());
    }
    Value::from(theirs)
}

#[test]
fn multilingual_answers_are_the_published_ones() {
    check("multilingual", 30);
}

#[test]
fn typed_decision_answers_are_the_published_ones() {
    check("typed-decisions", 28);
}

impl Random {
    /// A logit of a size models give, mostly small and sometimes in the thousands.
    fn logit(&mut self) -> f32 {
        let scale = [1.0, 8.0, 100.0, 4000.0][(self.next() % 4) as usize];
        ((self.next() >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0) as f32 * scale
    }

    fn logits(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.logit()).collect()
    }
}

fn question(kind: &str, n_options: usize) -> Question {
    let criteria = match kind {
        "noul" => "null".to_owned(),
        _ => (0..n_options).map(|i| format!("option {i}")).collect::<Value>().dumps(),
    };
    let definition = format!(r#"{{"type": "{kind}", "instructions": "i", "criteria": {criteria}}}"#);
    Question::parse("q", &json::parse(definition.as_bytes()).expect("JSON")).expect("a question")
}

#[test]
fn probabilities_sum_to_one_and_every_number_is_in_range() {
    let mut random = Random(1);
    for round in 0..3000 {
        let kind = ["choice", "score", "noul"][round % 3];
        let n_options = if kind == "noul" { 2 } else { 1 + round % 40 };
        let question = question(kind, n_options);
        let calibration = Calibration::new([(random.next() % 60) as f64 / 10.0; 3], []);
        let answer =
            Answer::new(&question, &random.logits(n_options), &random.logits(2), &calibration, Confidence::Laya)
                .expect("an answer");
        let sum: f64 = answer.probabilities.iter().sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        for p in [answer.confidence, answer.answer_confidence, answer.act_probability.expect("an act head")] {
            assert!((0.0..=1.0).contains(&p), "{p}");
        }
        let largest = answer.probabilities.iter().copied().fold(0.0, f64::max);
        assert_eq!(answer.answer_confidence, largest);
        assert_eq!(answer.probabilities[answer.top], largest);
        if let Some(score) = answer.score {
            let expected: f64 = answer.probabilities.iter().enumerate().map(|(i, p)| i as f64 * p).sum();
            assert!((score - expected).abs() < 1e-12 && (0.0..=n_options as f64 - 1.0 + 1e-9).contains(&score));
        }
        if let Some(noul) = answer.noul() {
            assert_eq!(answer.confidence, noul.max(1.0 - noul));
        }
    }
}

#[test]
fn options_in_another_order_keep_their_probabilities() {
    let mut random = Random(2);
    for n_options in 2..60 {
        let logits = random.logits(n_options);
        let question = question("choice", n_options);
        let calibration = Calibration::default();
        let answer = Answer::new(&question, &logits, &[0.0], &calibration, Confidence::Laya).expect("an answer");
        let turn = 1 + (random.next() as usize % (n_options - 1));
        let turned: Vec<f32> = (0..n_options).map(|i| logits[(i + turn) % n_options]).collect();
        let other = Answer::new(&question, &turned, &[0.0], &calibration, Confidence::Laya).expect("an answer");
        for i in 0..n_options {
            let (a, b) = (answer.probabilities[(i + turn) % n_options], other.probabilities[i]);
            assert!((a - b).abs() <= 1e-15, "{a} {b}");
        }
        assert_eq!(logits[answer.top], turned[other.top]);
        assert!((answer.confidence - other.confidence).abs() < 1e-12);
    }
}

#[test]
fn the_rounded_numbers_are_the_unrounded_ones_rounded() {
    let mut random = Random(3);
    for n_options in 2..30 {
        let question = question("score", n_options);
        let answer = Answer::new(
            &question,
            &random.logits(n_options),
            &random.logits(2),
            &Calibration::default(),
            Confidence::Laya,
        )
        .expect("an answer");
        let (rounded, whole) = (answer.to_json_rounded(), answer.to_json());
        let probabilities = |value: &Value| -> Vec<f64> {
            let object = value.get("probabilities").and_then(Value::as_object).expect("probabilities");
            object.values().map(|p| p.as_f64().expect("a number")).collect()
        };
        let expected: Vec<f64> = probabilities(&whole).into_iter().map(round_to_4_digits).collect();
        assert_eq!(probabilities(&rounded), expected);
        assert_eq!(probabilities(&whole), answer.probabilities);
        for p in probabilities(&rounded) {
            assert!(json::python_float_repr(p).len() <= 6, "{p}");
        }
    }
}

#[test]
fn a_constant_added_to_every_logit_changes_nothing() {
    // Halves and small integers add exactly in F32.
    let logits = [0.5_f32, -3.0, 7.5, 2.0];
    let moved: Vec<f32> = logits.iter().map(|z| z + 1024.0).collect();
    for temperature in [0.5, 1.0, 2.0] {
        assert_eq!(softmax(&logits, temperature), softmax(&moved, temperature));
    }
}
