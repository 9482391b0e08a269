//! A model that is calibrated already: what a fit must better, and what stays as it is.

use super::{Random, in_force, logit_file, records};
use laya::calibrate::temperature::{self, Options, Verdict, block, stamped};
use laya::calibrate::{Labelled, Split};
use laya::json::Value;
use laya::readout::softmax;
use laya::request::QuestionType::{Choice, Noul, Score};
use laya::spec::{Calibration, Spec};

#[test]
fn what_is_in_force_is_what_must_be_bettered_and_what_stays() {
    let records = records(1500, 21, &[(Choice, 4, 1.7), (Noul, 2, 1.7)]);
    // What the truths were drawn with is in force for noul; of choice it is not.
    let before = in_force(
        r#"{"method": "temperature", "clamp": [0.5, 9], "temperature": {
            "choice": {"3-5": 3.0, "*": 1.25}, "score": {"2": 1.5, "7+": 8.0}, "noul": 1.7, "all": 1.1}}"#,
    );
    let mut logits = logit_file(records);
    logits.in_force = before.clone();
    let options = Options::default();
    let fitted = temperature::fit(&logits.records, &before, &options).unwrap();
    let (choice, noul) = (&fitted.types[0], &fitted.types[1]);
    assert_eq!((choice.whole.verdict, choice.whole.in_force.single()), (Verdict::Better, Some(3.0)));
    assert_eq!((noul.whole.verdict, noul.whole.uses.single()), (Verdict::NotBetter, Some(1.7)));
    // Before is the likelihood at the temperature in force, question by question, and the gain is over that.
    let eval = logits.records.iter().filter(|record| record.split(options.fraction) == Split::Eval);
    let nlls: Vec<f64> = eval
        .map(|record| {
            let question = &record.questions[0];
            -softmax(&question.logits, 3.0)[question.truth].ln()
        })
        .collect();
    let effect = &choice.whole.judged.as_ref().unwrap().effect;
    assert!((effect.nll_before.0 - nlls.iter().sum::<f64>() / nlls.len() as f64).abs() < 1e-9);
    assert!((effect.nll_before.0 - effect.nll_after.0 - effect.gain.0).abs() < 1e-12);
    let score = fitted.notes.iter().find(|note| note.starts_with("score: no labelled questions; it keeps")).unwrap();
    assert!(score.ends_with("what is in force, T = 1.0000 to 8.0000"), "{score}");

    // All that was not bettered is still there, and the clamp does not change it.
    let block = block(&fitted, &logits, &options);
    let temperatures = block.get("temperature").unwrap();
    let own = choice.whole.own().unwrap();
    assert_eq!(temperatures.get("choice").unwrap().dumps(), format!(r#"{{"*": {own}}}"#));
    assert_eq!(temperatures.get("score").unwrap().dumps(), r#"{"2": 1.5, "7+": 8.0}"#);
    assert_eq!(temperatures.get("noul").unwrap().dumps(), r#"{"*": 1.7}"#);
    assert!(temperatures.get("all").is_none(), "every type has an entry");
    assert_eq!(block.get("clamp").unwrap().dumps(), "[0.5, 8.0]");
    let after = Calibration::from_json(&Value::Object(block)).unwrap();
    assert!((1..40).all(|n| after.temperature(Score, n) == before.temperature(Score, n)));

    // Types left out are carried over too, and said.
    let options = Options { types: vec![Choice], ..options };
    let fitted = temperature::fit(&logits.records, &before, &options).unwrap();
    assert!(fitted.notes.iter().any(|note| note == "noul: not fitted; it keeps what is in force, T = 1.7000"));
    let block = temperature::block(&fitted, &logits, &options);
    assert_eq!(block.get("temperature").unwrap().get("noul").unwrap().dumps(), r#"{"*": 1.7}"#);
    // A fit of what is in force already changes nothing.
    logits.in_force = Calibration::from_json(&Value::Object(block.clone())).unwrap();
    let fitted = temperature::fit(&logits.records, &logits.in_force, &options).unwrap();
    assert_eq!(temperature::block(&fitted, &logits, &options), block);
}

#[test]
fn what_stays_beside_a_bucket_of_its_own_is_what_it_was() {
    // Calibrated but for the many options.
    let records = records(1500, 22, &[(Choice, 2, 1.0), (Choice, 4, 1.3), (Choice, 7, 1.6), (Choice, 12, 3.0)]);
    let before = in_force(
        r#"{"method": "temperature", "temperature": {"choice": {"2": 1.0, "3-6": 1.3, "7-30": 1.6, "31": 2.0, "*": 1.2}}}"#,
    );
    let mut logits = logit_file(records);
    logits.in_force = before.clone();
    let options = Options { types: vec![Choice], ..Options::default() };
    let fitted = temperature::fit(&logits.records, &before, &options).unwrap();
    let choice = &fitted.types[0];
    let verdicts: Vec<_> = choice.buckets.iter().map(|group| group.verdict).collect();
    assert_eq!(verdicts, [Verdict::NotBetter, Verdict::NotBetter, Verdict::NotBetter, Verdict::Better]);
    let rest = choice.rest.as_ref().unwrap();
    assert_eq!((rest.verdict, choice.general()), (Verdict::NotBetter, None));
    assert_eq!((choice.whole.uses.least, choice.whole.uses.most), (1.0, choice.buckets[3].own().unwrap()));
    let block = block(&fitted, &logits, &options);
    let after = Calibration::from_json(&Value::Object(block)).unwrap();
    for n in 1..300 {
        let expected = if n > 10 { choice.buckets[3].own().unwrap() } else { before.temperature(Choice, n) };
        assert_eq!(after.temperature(Choice, n), expected, "{n} options");
    }
}

#[test]
fn a_bucket_that_is_calibrated_keeps_what_is_in_force_beside_a_new_temperature_of_its_type() {
    let records = records(1500, 27, &[(Choice, 2, 1.0), (Choice, 4, 2.0), (Choice, 7, 2.0), (Choice, 12, 2.0)]);
    let before = in_force(
        r#"{"method": "temperature", "required": true, "temperature": {"choice": {"2": 1.0, "*": 1.25}, "all": 1.5}}"#,
    );
    let mut logits = logit_file(records);
    logits.in_force = before.clone();
    let options = Options { types: vec![Choice], ..Options::default() };
    let fitted = temperature::fit(&logits.records, &before, &options).unwrap();
    let choice = &fitted.types[0];
    assert_eq!((choice.whole.verdict, choice.buckets[0].verdict), (Verdict::Better, Verdict::Kept));
    assert_eq!(choice.buckets[0].uses.single(), Some(1.0));
    let block = block(&fitted, &logits, &options);
    let after = Calibration::from_json(&Value::Object(block.clone())).unwrap();
    assert_eq!((after.temperature(Choice, 2), after.temperature(Score, 9)), (1.0, 1.5));
    // It was required to be complete, and is.
    assert_eq!(block.get("required"), Some(&Value::from(true)));
    let base = Spec::parse(br#"{"spec_version": 1, "layout": "laya"}"#).unwrap();
    assert!(stamped(&base, block, &logits).unwrap().calibration().unwrap().is_required());
    for n in [3, 4, 7, 12, 30] {
        assert!((after.temperature(Choice, n) / 2.0 - 1.0).abs() < 0.12, "{n} options");
    }
}

#[test]
fn the_temperature_of_a_type_is_fitted_on_the_questions_that_use_it() {
    // Of most questions 1.0 is right, which have a bucket of their own; the type's is for those of 2.5.
    let questions = [(Choice, 4, 1.0), (Choice, 4, 1.0), (Choice, 4, 1.0), (Choice, 12, 2.5)];
    let mut records = records(1000, 23, &questions);
    // Too little in this bucket, so that the others are told apart from all.
    for record in &mut records[..50] {
        let logits = Random(record.line).logits(8);
        record.questions.push(Labelled {
            id: "8".into(),
            kind: Choice,
            truth: 0,
            class: record.line.to_string(),
            logits,
        });
    }
    let options = Options { min_examples: 150, ..Options::default() };
    let before = in_force(r#"{"method": "temperature", "clamp": [0.5, 9], "temperature": {"choice": 8.0}}"#);
    let fitted = temperature::fit(&records, &before, &options).unwrap();
    let choice = &fitted.types[0];
    let verdicts: Vec<_> = choice.buckets.iter().map(|group| group.verdict).collect();
    assert_eq!(verdicts, [Verdict::Better, Verdict::TooLittle, Verdict::Better]);
    let rest = choice.rest.as_ref().unwrap();
    assert_eq!((rest.n_fit + rest.n_eval, rest.verdict), (50, Verdict::TooLittle));
    // Fitted on questions none of which would use it, the type's is not used; what is in force stays.
    assert_eq!((choice.buckets[1].uses.single(), choice.general()), (Some(8.0), None));
    let mut logits = logit_file(records);
    logits.in_force = before;
    let block = block(&fitted, &logits, &options);
    let entry = block.get("temperature").unwrap().get("choice").unwrap();
    assert_eq!(entry.get("*").and_then(Value::as_f64), Some(8.0));
    assert_eq!(entry.as_object().unwrap().keys().collect::<Vec<_>>(), ["3-5", "11+", "*"]);
}
