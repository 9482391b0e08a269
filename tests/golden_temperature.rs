//! Temperatures against those of another method in decimal arithmetic (`scripts/gen_temperature_golden.py`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use laya::calibrate::temperature::objective::{Example, mean_nll, slope};
use laya::calibrate::temperature::{Clamp, solve};
use laya::json::{self, Value};

struct Case {
    name: String,
    known: Option<f64>,
    questions: Vec<(Vec<f32>, usize)>,
    temperature: f64,
    nll: f64,
    nll_at_1: f64,
}

impl Case {
    fn examples(&self) -> Vec<Example<'_>> {
        self.questions.iter().map(|(logits, truth)| Example { logits, truth: *truth }).collect()
    }
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/temperature/cases.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let question = |question: &Value| {
        let [logits, truth] = question.as_array().unwrap() else { panic!("{question:?}") };
        let logits = logits.as_array().unwrap().iter().map(|z| z.as_f64().unwrap());
        let as_f32 = |z: f64| {
            assert_eq!(f64::from(z as f32), z, "a logit is a 32-bit float");
            z as f32
        };
        (logits.map(as_f32).collect(), truth.as_u64().unwrap() as usize)
    };
    text.lines()
        .map(|line| {
            let case = json::parse(line.as_bytes()).unwrap();
            let number = |key: &str| case.get(key).and_then(Value::as_f64);
            Case {
                name: case.get("name").and_then(Value::as_str).unwrap().to_owned(),
                known: number("known"),
                questions: case.get("questions").and_then(Value::as_array).unwrap().iter().map(question).collect(),
                temperature: number("temperature").unwrap(),
                nll: number("nll").unwrap(),
                nll_at_1: number("nll_at_1").unwrap(),
            }
        })
        .collect()
}

#[test]
fn the_optimum_and_its_likelihood_are_those_of_the_other_method() {
    let (mut furthest, mut furthest_nll) = (0.0_f64, 0.0_f64);
    let cases = cases();
    for case in &cases {
        let examples = case.examples();
        let found = solve(&examples, Clamp::new(0.05, 20.0).unwrap()).unwrap();
        furthest = furthest.max((found - case.temperature).abs());
        for (temperature, nll) in [(found, case.nll), (case.temperature, case.nll), (1.0, case.nll_at_1)] {
            furthest_nll = furthest_nll.max((mean_nll(&examples, 1.0 / temperature) - nll).abs());
        }
        assert!((found - case.temperature).abs() < 1e-6, "{}: {found} is not {}", case.name, case.temperature);
        assert!(furthest_nll < 1e-12, "{}: {furthest_nll:e}", case.name);
    }
    println!("{} cases: T within {furthest:.1e}, likelihood within {furthest_nll:.1e}", cases.len());
    assert!(cases.len() >= 10);
    // Far better than asked: the method converges to the last digits.
    assert!(furthest < 1e-11, "{furthest:e}");
}

#[test]
fn a_known_temperature_is_within_the_error_of_its_estimate() {
    let mut n_known = 0;
    for case in cases() {
        let Some(known) = case.known else { continue };
        let examples = case.examples();
        let found = solve(&examples, Clamp::new(0.05, 20.0).unwrap()).unwrap();
        // The error of a maximum-likelihood estimate of beta is 1 / sqrt(n I), with the curvature at the truth for I.
        let error = 1.0 / (examples.len() as f64 * slope(&examples, 1.0 / known).curvature).sqrt();
        let distance = (1.0 / found - 1.0 / known).abs() / error;
        assert!(distance < 2.5, "{}: {found} is {distance:.1} standard errors from {known}", case.name);
        n_known += 1;
    }
    assert_eq!(n_known, 8);
}
