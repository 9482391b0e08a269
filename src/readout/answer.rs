//! The answer to one question.

use super::{confidence, round_to_4_digits, softmax};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::request::{Question, QuestionType};
use crate::spec::{Calibration, Confidence};

/// A typed answer with unrounded numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The type of the question.
    pub kind: QuestionType,
    /// Probability of each option. `[n_options]`, sum 1; for noul false, then true.
    pub probabilities: Vec<f64>,
    /// The first option with the largest probability.
    pub top: usize,
    /// Expected level of a score, `sum(i * p_i)`; `None` for other types.
    pub score: Option<f64>,
    /// How sure the model is, by the formula of its spec; see [`confidence`].
    pub confidence: f64,
    /// The probability of the answer given, the quantity temperatures are fitted on.
    pub answer_confidence: f64,
    /// Probability of acting, first of the softmax of the act logits; `None` from a model without an act head. The
    /// published checkpoints saturate it at 1, so it is there for the shape of the answer and says little.
    pub act_probability: Option<f64>,
    /// What each option stands for. `[n_options]`
    pub labels: Vec<Value>,
    /// Key of each option. `[n_options]`
    pub answer_keys: Vec<String>,
}

impl Answer {
    /// Reads out `logits` (`[n_options]`, raw) and `act_logits` (`[n_act]`, raw; none from a model without an act head) of
    /// `question`, with these temperatures and this formula of confidence.
    ///
    /// # Errors
    /// Of kind `Model` when a logit is not finite, or their number is not that of the options.
    pub fn new(
        question: &Question,
        logits: &[f32],
        act_logits: &[f32],
        calibration: &Calibration,
        formula: Confidence,
    ) -> Result<Self> {
        let fault = |what: &str| {
            let message = format!("question {}: {what}", question.shown_id());
            Err(Error::new(ErrorKind::Model, message).at_path(question.path("")))
        };
        if logits.len() != question.options.len() || logits.is_empty() {
            return fault(&format!("the model gave {} logits for {} options", logits.len(), question.options.len()));
        }
        if !logits.iter().chain(act_logits).all(|logit| logit.is_finite()) {
            return fault("the model gave a logit that is not finite; its file may be damaged");
        }
        let act_probability = softmax(act_logits, 1.0).first().copied();
        let probabilities = softmax(logits, calibration.temperature(question.kind, logits.len()));
        let (top, answer_confidence) = first_largest(&probabilities);
        let confidence = confidence(formula, question.kind, &probabilities);
        let expected_level = || probabilities.iter().zip(0_u32..).map(|(p, level)| f64::from(level) * p).sum();
        let score = (question.kind == QuestionType::Score).then(expected_level);
        let (labels, answer_keys) = (question.labels.clone(), question.answer_keys.clone());
        let kind = question.kind;
        Ok(Self {
            kind,
            probabilities,
            top,
            score,
            confidence,
            answer_confidence,
            act_probability,
            labels,
            answer_keys,
        })
    }

    /// Probability that the statement of a noul question holds; `None` for other types.
    pub fn noul(&self) -> Option<f64> {
        self.probabilities.get(1).copied().filter(|_| self.kind == QuestionType::Noul)
    }

    /// The label chosen, as given in the request; `None` for other types than choice.
    pub fn choice(&self) -> Option<&Value> {
        self.labels.get(self.top).filter(|_| self.kind == QuestionType::Choice)
    }

    /// The published package's answer: its keys in its order, every number rounded to four digits.
    pub fn to_json_rounded(&self) -> Value {
        self.shaped(round_to_4_digits)
    }

    /// The same keys with unrounded numbers.
    pub fn to_json(&self) -> Value {
        self.shaped(|number| number)
    }

    fn shaped(&self, number: fn(f64) -> f64) -> Value {
        let by_option = || -> Object {
            let numbers = self.probabilities.iter().map(|p| number(*p));
            self.answer_keys.iter().map(String::as_str).zip(numbers).collect()
        };
        let mut answer = Object::new();
        answer.insert("type", self.kind.as_str());
        match self.kind {
            QuestionType::Choice => {
                answer.insert("choice", self.choice().cloned());
                answer.insert("probabilities", by_option());
            }
            QuestionType::Score => {
                let legend = self.answer_keys.iter().map(String::as_str).zip(self.labels.iter().cloned());
                answer.insert("score", self.score.map(number));
                answer.insert("legend", legend.collect::<Object>());
                answer.insert("probabilities", by_option());
            }
            QuestionType::Noul => {
                answer.insert("noul", self.noul().map(number));
            }
        }
        answer.insert("confidence", number(self.confidence));
        answer.insert("answer_confidence", number(self.answer_confidence));
        if let Some(act_probability) = self.act_probability {
            let action: Object = [("act_probability", number(act_probability))].into_iter().collect();
            answer.insert("action", action);
        }
        Value::from(answer)
    }
}

/// The first of the largest values and its position. Values that are the same `f32` are a tie, as in the published
/// package, which chooses among `f32` probabilities.
pub fn first_largest(values: &[f64]) -> (usize, f64) {
    let largest = |best: (usize, f64), (i, p): (usize, &f64)| if *p as f32 > best.1 as f32 { (i, *p) } else { best };
    values.iter().enumerate().fold((0, f64::NEG_INFINITY), largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    const LAYA: Confidence = Confidence::Laya;

    fn question(definition: &str) -> Question {
        Question::parse("q", &json::parse(definition.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_tie_of_f32_probabilities_goes_to_the_first_option() {
        let logits = [0.1_f32, 0.1_f32.next_up()];
        let question = question(r#"{"type": "choice", "instructions": "?", "criteria": ["a", "b"]}"#);
        let answer = Answer::new(&question, &logits, &[0.0, 0.0], &Calibration::default(), LAYA).unwrap();
        assert_eq!(answer.top, 0);
    }

    fn rounded(definition: &str, logits: &[f32]) -> String {
        let answer = Answer::new(&question(definition), logits, &[2.0, 2.0], &Calibration::default(), LAYA).unwrap();
        answer.to_json_rounded().dumps()
    }

    const CHOICE: &str = r#"{"type": "choice", "instructions": "i", "criteria": ["a", 3, true]}"#;

    #[test]
    fn the_shapes_of_the_published_package() {
        assert_eq!(
            rounded(CHOICE, &[0.0, 2.0, 2.0]),
            r#"{"type": "choice", "choice": 3, "probabilities": {"a": 0.0634, "3": 0.4683, "true": 0.4683}, "confidence": 0.1941, "answer_confidence": 0.4683, "action": {"act_probability": 0.5}}"#
        );
        assert_eq!(
            rounded(r#"{"type": "score", "instructions": "i", "criteria": ["low", {"x": 1}]}"#, &[1.0, 0.0]),
            r#"{"type": "score", "score": 0.2689, "legend": {"0": "low", "1": {"x": 1}}, "probabilities": {"0": 0.7311, "1": 0.2689}, "confidence": 0.1601, "answer_confidence": 0.7311, "action": {"act_probability": 0.5}}"#
        );
        assert_eq!(
            rounded(r#"{"type": "noul", "instructions": "i"}"#, &[1.0, 0.0]),
            r#"{"type": "noul", "noul": 0.2689, "confidence": 0.7311, "answer_confidence": 0.7311, "action": {"act_probability": 0.5}}"#
        );
    }

    #[test]
    fn one_option_is_certain_and_finite() {
        for definition in [
            r#"{"type": "choice", "instructions": "i", "criteria": {"a": null}}"#,
            r#"{"type": "score", "instructions": "i", "criteria": ["a"]}"#,
        ] {
            let answer = Answer::new(&question(definition), &[-7.5], &[0.0], &Calibration::default(), LAYA).unwrap();
            assert_eq!((answer.probabilities.as_slice(), answer.confidence), ([1.0].as_slice(), 1.0));
            assert_eq!((answer.answer_confidence, answer.act_probability), (1.0, Some(1.0)));
        }
    }

    #[test]
    fn a_model_without_an_act_head_answers_all_but_the_action() {
        let answer =
            |act: &[f32]| Answer::new(&question(CHOICE), &[0.0, 2.0, 1.0], act, &Calibration::default(), LAYA).unwrap();
        let (with, without) = (answer(&[2.0, 2.0]), answer(&[]));
        assert_eq!(without.act_probability, None);
        let cut = with.to_json().dumps().replace(r#", "action": {"act_probability": 0.5}"#, "");
        assert_eq!(without.to_json().dumps(), cut);
        assert_eq!(Answer { act_probability: None, ..with }, without);
    }

    #[test]
    fn logits_that_make_no_answer_are_errors() {
        let question = question(CHOICE);
        for (logits, act) in [
            (vec![0.0, 1.0], vec![0.0]),
            (vec![], vec![0.0]),
            (vec![0.0, 1.0, f32::NAN], vec![0.0]),
            (vec![0.0, 1.0, f32::INFINITY], vec![0.0]),
            (vec![0.0, 1.0, 2.0], vec![f32::NEG_INFINITY, 0.0]),
        ] {
            let error = Answer::new(&question, &logits, &act, &Calibration::default(), LAYA).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Model);
            assert!(error.to_string().starts_with("questions.q: question 'q': the model gave"), "{error}");
        }
    }

    #[test]
    fn the_temperature_is_that_of_the_bucket() {
        let calibration = Calibration::new([1.0; 3], [("score:3-5".to_owned(), 2.0)]);
        let question = question(r#"{"type": "score", "instructions": "i", "criteria": ["a", "b", "c"]}"#);
        let answer = Answer::new(&question, &[0.0, 1.0, 4.0], &[0.0], &calibration, LAYA).unwrap();
        assert_eq!(answer.probabilities, softmax(&[0.0, 0.5, 2.0], 1.0));
        // The score is that of the tempered probabilities that are printed.
        let json = answer.to_json();
        let printed = json.get("probabilities").and_then(Value::as_object).unwrap();
        let expected: f64 = printed.iter().map(|(key, p)| key.parse::<f64>().unwrap() * p.as_f64().unwrap()).sum();
        assert!((json.get("score").and_then(Value::as_f64).unwrap() - expected).abs() < 1e-12);
    }
}
