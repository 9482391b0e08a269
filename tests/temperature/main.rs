//! Fits on synthetic logits: what is used, what is refused, and that every bit can be had again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod in_force;

use laya::calibrate::temperature::{
    self, Bucket, Clamp, Edge, Fit, Options, Refusal, Refused, Verdict, block, check_counts, report, stamped,
};
use laya::calibrate::{Data, Fraction, Identity, Labelled, LogitFile, Measured, Split, leak};
use laya::json::Value;
use laya::readout::softmax;
use laya::request::QuestionType::{self, Choice, Noul, Score};
use laya::spec::{self, Calibration, Spec};

/// A linear congruential generator; its high bits are the good ones.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }

    fn logits(&mut self, n_options: usize) -> Vec<f32> {
        (0..n_options).map(|_| (6.0 * (self.unit() + self.unit() + self.unit() - 1.5)) as f32).collect()
    }

    /// An option, drawn with its probability at `temperature`.
    fn truth(&mut self, logits: &[f32], temperature: f64) -> usize {
        let mut at = self.unit();
        let drawn = softmax(logits, temperature).iter().position(|p| {
            at -= p;
            at < 0.0
        });
        drawn.unwrap_or(logits.len() - 1)
    }
}

/// `n` records that each have a question of every `(type, options, temperature of the truths)`.
fn records(n: usize, seed: u64, questions: &[(QuestionType, usize, f64)]) -> Vec<Measured> {
    let mut random = Random(seed);
    (1..=n as u64)
        .map(|line| Measured {
            line,
            id: None,
            given_split: None,
            state_sha256: line.to_string(),
            questions: questions
                .iter()
                .enumerate()
                .map(|(i, (kind, n_options, temperature))| {
                    let logits = random.logits(*n_options);
                    let truth = random.truth(&logits, *temperature);
                    Labelled { id: i.to_string(), kind: *kind, truth, class: truth.to_string(), logits }
                })
                .collect(),
        })
        .collect()
}

/// A fit for a model that is not calibrated.
fn fit(records: &[Measured], options: &Options) -> Result<Fit, Refused> {
    temperature::fit(records, &Calibration::default(), options)
}

fn in_force(text: &str) -> Calibration {
    Calibration::from_json(&laya::json::parse(text.as_bytes()).unwrap()).unwrap()
}

fn refusals(records: &[Measured], options: &Options) -> Vec<Refusal> {
    fit(records, options).unwrap_err().refusals
}

fn logit_file(records: Vec<Measured>) -> LogitFile {
    let identity = Identity {
        model_sha256: "ab".repeat(32),
        kernels: "default".into(),
        numeric_contract: 1,
        plan: "packed".into(),
        recipe: "f16".into(),
    };
    let data = Data { sha256: "0123456789abcdef".repeat(4), n_records: records.len() as u64, ..Data::default() };
    LogitFile { identity, data, in_force: Calibration::default(), records }
}

#[test]
fn known_temperatures_are_found_and_used() {
    let records = records(2000, 1, &[(Choice, 4, 1.7), (Score, 5, 0.8), (Noul, 2, 2.5)]);
    let Fit { types, notes, n_single_option } = fit(&records, &Options::default()).unwrap();
    assert_eq!(n_single_option, 0);
    // Of choice and score, the counts there is no data of.
    assert_eq!(notes.len(), 6, "{notes:?}");
    for (note, of) in
        notes.iter().zip(["choice 1-2", "choice 6-10", "choice 11+", "score 1-2", "score 6-10", "score 11+"])
    {
        let start = format!("{of}: no labelled questions; it uses the temperature of the type, ");
        assert!(note.starts_with(&start) && note.ends_with(" instead of 1.0000"), "{note}");
    }
    for (of_type, (kind, known)) in types.iter().zip([(Choice, 1.7), (Score, 0.8), (Noul, 2.5)]) {
        let (whole, judged) = (&of_type.whole, &of_type.whole.judged.as_ref().unwrap().effect);
        assert_eq!((of_type.kind, whole.bucket, whole.verdict), (kind, None, Verdict::Better));
        let used = whole.uses.single().unwrap();
        assert!((used / known - 1.0).abs() < 0.08 && whole.own() == Some(used), "{used} for {known}");
        assert_eq!((whole.n_fit + whole.n_eval, whole.n_eval_states), (2000, whole.n_eval));
        assert!((500..700).contains(&whole.n_eval), "{}", whole.n_eval);
        // One bucket alone is the type.
        assert!(of_type.buckets.is_empty());
        let (gain, interval) = judged.gain;
        assert!(interval.low > 0.0 && interval.low < gain && gain < interval.high);
        assert!((judged.nll_before.0 - judged.nll_after.0 - gain).abs() < 1e-12);
        assert!(judged.ece_after < judged.ece_before && judged.accuracy_after == judged.accuracy_before);
        let in_use = whole.in_use.as_ref().unwrap();
        assert!((in_use.nll_after.0 - judged.nll_after.0).abs() < 1e-12);
        // What is above a confidence is right at least about that often.
        let row = &in_use.thresholds[2];
        assert!(row.confidence == 0.7 && row.accuracy.unwrap() > 0.7 && row.coverage < 1.0, "{row:?}");
    }
    assert_eq!(types.len(), 3);
}

#[test]
fn a_bucket_is_used_where_held_out_data_says_that_it_helps() {
    let questions = [(Choice, 2, 1.0), (Choice, 4, 1.6), (Choice, 5, 1.6), (Choice, 8, 1.6), (Choice, 12, 3.5)];
    let records = records(1500, 2, &questions);
    let mut options = Options::default();
    let of_choice = fit(&records, &options).unwrap().types.remove(0);
    let verdicts: Vec<_> = of_choice.buckets.iter().map(|group| (group.bucket.unwrap(), group.verdict)).collect();
    assert_eq!(
        verdicts,
        [
            // What is in force is right for it, and the type's is not.
            (Bucket::UpTo2, Verdict::Kept),
            (Bucket::UpTo5, Verdict::Better),
            (Bucket::UpTo10, Verdict::Better),
            (Bucket::Above10, Verdict::Better)
        ]
    );
    for (group, known) in of_choice.buckets.iter().zip([1.0, 1.6, 1.6, 3.5]) {
        let used = group.uses.single().unwrap();
        assert!((used / known - 1.0).abs() < 0.1, "{used} for {known}");
        let (of_type, _) = group.judged.as_ref().unwrap().over_type.unwrap();
        assert_eq!(Some(of_type), of_choice.whole.own());
    }
    assert_eq!(of_choice.buckets[0].uses.single(), Some(1.0));
    // Of all choices, those in their buckets are judged at the temperatures of these.
    let (whole, in_use) = (of_choice.whole.judged.unwrap().effect, of_choice.whole.in_use.unwrap());
    assert!(in_use.nll_after.0 < whole.nll_after.0);
    let parts: f64 =
        of_choice.buckets.iter().map(|group| group.in_use.as_ref().unwrap().nll_after.0 * group.n_eval as f64).sum();
    assert!((parts / of_choice.whole.n_eval as f64 - in_use.nll_after.0).abs() < 1e-12);

    // The same temperature everywhere: no bucket helps, and each says so.
    let alike = self::records(1500, 3, &[(Choice, 2, 1.7), (Choice, 4, 1.7), (Choice, 12, 1.7)]);
    let fitted = fit(&alike, &options).unwrap();
    let of_choice = &fitted.types[0];
    assert!(
        of_choice
            .buckets
            .iter()
            .all(|group| group.verdict == Verdict::NotBetter && group.uses.single() == of_choice.whole.own())
    );
    assert_eq!(fitted.notes.iter().filter(|note| note.contains("not better than")).count(), 3);
    options.all_buckets = true;
    let fitted = fit(&alike, &options).unwrap();
    let of_choice = &fitted.types[0];
    assert_eq!(of_choice.buckets.len(), 3);
    assert!(of_choice.buckets.iter().all(|group| group.verdict == Verdict::AskedFor));
    assert!(of_choice.buckets.iter().all(|group| group.uses.single() == group.own() && group.own().is_some()));
}

#[test]
fn what_is_calibrated_already_keeps_one() {
    let fitted = fit(&records(1000, 4, &[(Noul, 2, 1.0)]), &Options::default()).unwrap();
    let whole = &fitted.types[0].whole;
    assert_eq!((whole.verdict, whole.uses.single(), whole.own()), (Verdict::NotBetter, Some(1.0), None));
    assert_ne!(whole.judged.as_ref().unwrap().temperature, 1.0);
    let note = fitted.notes.iter().find(|note| note.starts_with("noul: T = ")).unwrap();
    assert!(
        note.contains("is not better than 1.0000, which is in force, on held-out data")
            && note.ends_with("it uses 1.0000"),
        "{note}"
    );
}

#[test]
fn types_and_buckets_without_data_are_named() {
    let mut records = records(600, 5, &[(Choice, 4, 1.7)]);
    // Half of the questions have 12 options in twenty records alone.
    for record in &mut records[..20] {
        let logits = Random(record.line).logits(12);
        record.questions.push(Labelled {
            id: "many".into(),
            kind: Choice,
            truth: record.line as usize % 12,
            class: String::new(),
            logits,
        });
        record.questions.push(Labelled {
            id: "one".into(),
            kind: Choice,
            truth: 0,
            class: String::new(),
            logits: vec![3.0],
        });
    }
    let fitted = fit(&records, &Options::default()).unwrap();
    assert_eq!(fitted.n_single_option, 20);
    let (above_10, up_to_5) = (&fitted.types[0].buckets[1], &fitted.types[0].buckets[0]);
    assert_eq!((above_10.bucket, above_10.verdict), (Some(Bucket::Above10), Verdict::TooLittle));
    // It is alone in having no temperature of its own, and for it nothing better is known than what is in force.
    assert_eq!((above_10.n_fit + above_10.n_eval, above_10.uses.single()), (20, Some(1.0)));
    assert_eq!(up_to_5.bucket, Some(Bucket::UpTo5));
    for start in [
        "20 labelled questions with one option",
        "choice 11+: has no temperature of its own: ",
        "score: no labelled questions; it gets no entry, and T = 1",
        "noul: no labelled",
    ] {
        assert!(fitted.notes.iter().any(|note| note.starts_with(start)), "{start}: {:?}", fitted.notes);
    }
    let options = Options { types: vec![Choice], ..Options::default() };
    assert!(!fit(&records, &options).unwrap().notes.iter().any(|note| note.starts_with("noul")));
}

#[test]
fn too_little_data_is_refused() {
    let records = records(250, 6, &[(Choice, 4, 1.7), (Noul, 2, 1.7)]);
    let n_fit = records.iter().filter(|record| record.split(Fraction::default()) == Split::Fit).count();
    let expected: Vec<_> = [Choice, Noul]
        .into_iter()
        .flat_map(|kind| {
            [
                Refusal::TooFewToFit { kind, found: n_fit, needed: 200 },
                Refusal::TooFewToJudge { kind, found: 250 - n_fit, needed: 100 },
            ]
        })
        .collect();
    assert_eq!(refusals(&records, &Options::default()), expected);
    assert_eq!(check_counts(&records, &Options::default()).unwrap_err().refusals, expected);
    let options = Options { min_examples: n_fit, min_eval: 250 - n_fit, ..Options::default() };
    assert!(fit(&records, &options).is_ok() && check_counts(&records, &options).is_ok());
    let options = Options { min_examples: n_fit + 1, ..options };
    assert_eq!(refusals(&records, &options).len(), 2);
    let text = expected[0].to_string();
    assert!(
        text.starts_with(&format!("choice: {n_fit} labelled questions to fit on, 200 are needed; label more")),
        "{text}"
    );
    assert!(expected[3].to_string().contains("noul: ") && expected[3].to_string().contains("--min-eval"));
}

#[test]
fn many_questions_of_a_few_records_judge_nothing() {
    let noul = (Noul, 2, 1.7);
    let mut records = records(300, 13, &[noul, (Choice, 4, 1.7)]);
    records.iter_mut().for_each(|record| record.given_split = Some(Split::Fit));
    // 400 questions of 10 records.
    for mut record in self::records(10, 14, &[noul; 40]) {
        record.given_split = Some(Split::Eval);
        record.line += 300;
        record.state_sha256 = record.line.to_string();
        records.push(record);
    }
    let options = Options { types: vec![Noul], ..Options::default() };
    let refusal = Refusal::TooFewStates { kind: Noul, found: 10, needed: 20 };
    assert_eq!(refusals(&records, &options).as_slice(), std::slice::from_ref(&refusal));
    assert!(refusal.to_string().starts_with("noul: the labelled questions held out are of 10 states, 20 are needed"));
    // Fewer questions than that were asked for, so fewer records are enough.
    assert!(fit(&records, &Options { min_eval: 10, ..options }).is_ok());
}

#[test]
fn no_labels_are_refused() {
    for records in [Vec::new(), records(500, 7, &[]), records(500, 7, &[(Choice, 1, 1.0)])] {
        assert_eq!(refusals(&records, &Options::default()), [Refusal::NoLabels]);
        assert_eq!(check_counts(&records, &Options::default()).unwrap_err().refusals, [Refusal::NoLabels]);
    }
    let options = Options { types: vec![Score], ..Options::default() };
    assert_eq!(refusals(&records(500, 7, &[(Choice, 4, 1.0)]), &options), [Refusal::NoLabels]);
}

#[test]
fn a_single_class_is_refused_and_in_a_bucket_it_only_has_no_temperature() {
    let mut records = records(500, 8, &[(Choice, 4, 1.7), (Noul, 2, 1.7), (Choice, 8, 1.7), (Score, 3, 1.7)]);
    for record in &mut records {
        let is_eval = record.split(Fraction::default()) == Split::Eval;
        record.questions[1].class = "true".into();
        // Wherever the option is.
        record.questions[2].class = "billing".into();
        if is_eval {
            record.questions[3].class = "2".into();
        }
    }
    let found = refusals(&records, &Options::default());
    let [
        Refusal::SingleClass { kind: Score, bucket: None, split: Split::Eval, .. },
        Refusal::SingleClass { kind: Noul, bucket: None, split: Split::Fit, .. },
    ] = found.as_slice()
    else {
        panic!("{found:?}")
    };
    assert!(found[0].to_string().starts_with("score: the truth of all "), "{}", found[0]);
    assert!(found[0].to_string().contains(" questions held out is \"2\"; data with"), "{}", found[0]);
    assert!(found[1].to_string().contains(" questions to fit on is \"true\"; data with"), "{}", found[1]);

    let options = Options { types: vec![Choice], ..Options::default() };
    let fitted = fit(&records, &options).unwrap();
    let up_to_10 = &fitted.types[0].buckets[1];
    assert_eq!((up_to_10.bucket, up_to_10.verdict), (Some(Bucket::UpTo10), Verdict::Unfit));
    assert_eq!((up_to_10.uses.single(), up_to_10.own()), (fitted.types[0].whole.own(), None));
    let note = fitted.notes.iter().find(|note| note.starts_with("choice 6-10: the truth of all ")).unwrap();
    assert!(note.contains("is \"billing\"; data with") && note.contains("; it uses 1."), "{note}");
    let found = refusals(&records, &Options { all_buckets: true, ..options.clone() });
    assert!(matches!(found.as_slice(), [Refusal::SingleClass { bucket: Some(Bucket::UpTo10), .. }]), "{found:?}");

    // Options that differ from question to question have positions and no classes.
    for record in &mut records {
        let many = &mut record.questions[2];
        many.logits.swap(many.truth, 3);
        many.truth = 3;
        many.class = format!("option {}", record.line);
    }
    assert_ne!(fit(&records, &options).unwrap().types[0].buckets[1].verdict, Verdict::Unfit);
}

#[test]
fn an_optimum_at_the_clamp_is_refused_and_in_a_bucket_it_only_has_no_temperature() {
    // Sharper is always better: the truth is always the largest logit. Flatter is: it is always the smallest.
    let best = |logits: &[f32]| (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    let worst = |logits: &[f32]| (0..logits.len()).min_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    let mut records = records(500, 9, &[(Choice, 4, 1.7), (Score, 3, 1.0), (Noul, 2, 1.0), (Choice, 8, 1.7)]);
    for record in &mut records {
        let of_line = record.line as usize;
        record.questions[1].truth = worst(&record.questions[1].logits);
        record.questions[2] = Labelled { logits: vec![0.5; 2], truth: of_line % 2, ..record.questions[2].clone() };
        record.questions[3].truth = best(&record.questions[3].logits);
    }
    let edges = |found: &[Refusal]| -> Vec<_> {
        let edge = |refusal: &Refusal| match refusal {
            Refusal::AtClamp { kind, bucket, edge, accuracy, .. } => (*kind, *bucket, *edge, *accuracy),
            other => panic!("{other}"),
        };
        found.iter().map(edge).collect()
    };
    let found = refusals(&records, &Options::default());
    let half = edges(&found)[1].3;
    assert_eq!(edges(&found), [(Score, None, Edge::High, 0.0), (Noul, None, Edge::Flat, half)]);
    assert!((0.4..0.6).contains(&half));
    let options = Options { types: vec![Choice], ..Options::default() };
    let of_bucket = refusals(&records, &Options { all_buckets: true, ..options.clone() });
    assert_eq!(edges(&of_bucket), [(Choice, Some(Bucket::UpTo10), Edge::Low, 1.0)]);
    for (refusal, text) in found.iter().chain(&of_bucket).zip([
        "score: the optimum is at the clamp: the likelihood still rises at the upper end, 5; 0.0 % of the",
        "noul: no temperature changes the likelihood of the",
        "choice 6-10: the optimum is at the clamp: the likelihood still rises at the lower end, 0.5; 100.0 % of the",
    ]) {
        assert!(refusal.to_string().starts_with(text), "{refusal}");
    }
    let fitted = fit(&records, &options).unwrap();
    let of_choice = &fitted.types[0];
    assert_eq!(of_choice.buckets[1].verdict, Verdict::Unfit);
    // What is left for the type's temperature is fitted again, without the bucket that has its own.
    assert_eq!(
        (of_choice.buckets[0].verdict, of_choice.rest.as_ref().unwrap().verdict),
        (Verdict::Better, Verdict::Unfit)
    );
    assert!(fitted.notes.iter().any(|note| note.starts_with("choice 6-10: the optimum is at the clamp")));
    assert_eq!(of_choice.buckets[1].uses.single(), Some(1.0), "what is in force stays");

    // An optimum outside of a clamp that holds others.
    let options = Options { clamp: Clamp::new(0.9, 1.2).unwrap(), ..Options::default() };
    let found = refusals(&self::records(800, 10, &[(Noul, 2, 1.7)]), &options);
    assert!(matches!(found.as_slice(), [Refusal::AtClamp { edge: Edge::High, .. }]), "{found:?}");
}

#[test]
fn records_of_one_state_count_as_one() {
    let noul = (Noul, 2, 1.7);
    let alone = records(600, 24, &[noul]);
    // Every record twice.
    let mut twice = alone.clone();
    twice.extend(alone.iter().cloned().map(|record| Measured { line: record.line + 600, ..record }));
    let of = |records: &[Measured]| fit(records, &Options::default()).unwrap().types.remove(0).whole;
    let (alone, twice) = (of(&alone), of(&twice));
    assert_eq!((twice.n_eval, twice.n_eval_states), (2 * alone.n_eval, alone.n_eval));
    let gain = |group: &temperature::Group| group.judged.as_ref().unwrap().effect.gain;
    let ((of_alone, alone), (of_twice, twice)) = (gain(&alone), gain(&twice));
    assert!((of_alone - of_twice).abs() < 1e-9);
    // As wide as without the copies: they are no more evidence.
    assert!((alone.low - twice.low).abs() < 1e-9 && (alone.high - twice.high).abs() < 1e-9);
}

#[test]
fn records_kept_for_a_test_decide_nothing() {
    let questions = [(Choice, 4, 1.7), (Noul, 2, 3.0)];
    let without = records(1000, 25, &questions);
    let mut with = without.clone();
    for mut record in records(300, 26, &questions) {
        record.given_split = Some(Split::Test);
        record.line += 1000;
        record.state_sha256 = format!("test {}", record.line);
        with.push(record);
    }
    let (a, b) = (fit(&without, &Options::default()).unwrap(), fit(&with, &Options::default()).unwrap());
    for (a, b) in a.types.iter().zip(&b.types) {
        assert_eq!((&a.whole, &a.buckets, &a.test), (&b.whole, &b.buckets, &None));
        let test = b.test.as_ref().unwrap();
        assert_eq!((test.n, test.n_states), (300, 300));
        assert!(test.gain.0 > 0.0 && (test.nll_before.0 - test.nll_after.0 - test.gain.0).abs() < 1e-12);
    }
    let logits = logit_file(with);
    let text = Value::Object(report(&b, &logits, &Options::default(), &leak(&logits.records, Fraction::default())));
    assert_eq!(text.get("selected_on").and_then(Value::as_str), Some("eval"));
    let test = text.get("types").unwrap().get("noul").unwrap().get("test").unwrap();
    assert_eq!(test.get("n").and_then(Value::as_u64), Some(300));
}

#[test]
fn every_bit_can_be_had_again() {
    let records = records(900, 11, &[(Choice, 2, 1.2), (Choice, 4, 1.7), (Noul, 2, 1.7)]);
    let logits = logit_file(records);
    let text = |options: &Options| {
        let fitted = fit(&logits.records, options).unwrap();
        let leak = leak(&logits.records, options.fraction);
        Value::Object(report(&fitted, &logits, options, &leak)).dumps()
    };
    let first = text(&Options::default());
    for n_threads in [1, 8, 2, 8] {
        assert_eq!(text(&Options { n_threads, ..Options::default() }), first, "{n_threads} threads");
    }
    assert_ne!(text(&Options { seed: 1, ..Options::default() }), first);
    assert_ne!(text(&Options { n_resamples: 999, ..Options::default() }), first);
}

#[test]
fn the_calibration_goes_into_a_spec_and_keeps_the_rest_of_it() {
    let records = records(1200, 12, &[(Choice, 2, 1.0), (Choice, 4, 1.7), (Choice, 12, 3.0), (Noul, 2, 1.7)]);
    let logits = logit_file(records);
    let options = Options { clamp: Clamp::new(0.4, 6.0).unwrap(), ..Options::default() };
    let fitted = fit(&logits.records, &options).unwrap();
    let block = block(&fitted, &logits, &options);
    let temperatures = block.get("temperature").and_then(Value::as_object).unwrap();
    assert_eq!(temperatures.keys().collect::<Vec<_>>(), ["choice", "noul"]);
    let keys: Vec<_> = temperatures.get("choice").and_then(Value::as_object).unwrap().keys().collect();
    // That of two options is not better than the type's.
    assert_eq!(keys, ["3-5", "11+", "*"]);
    assert_eq!((fitted.types[0].buckets.len(), fitted.types[0].buckets[0].verdict), (3, Verdict::NotBetter));
    let used = temperatures.get("choice").and_then(|entry| entry.get("11+")).and_then(Value::as_f64);
    assert_eq!(used, fitted.types[0].buckets[2].own());
    assert!(used.is_some());
    let text = Value::Object(block.clone()).dumps();
    assert!(
        text.starts_with(r#"{"method": "temperature", "required": false, "clamp": [0.4, 6.0], "temperature": {"#),
        "{text}"
    );
    assert!(text.contains(r#", "fitted": {"model_sha256": "abab"#), "{text}");
    assert!(text.contains(
        r#""kernels": "default", "numeric_contract": 1, "plan": "packed", "recipe": "f16", "data_sha256": "0123"#
    ));
    let totals = |of: fn(&laya::calibrate::temperature::Group) -> usize| -> usize {
        fitted.types.iter().map(|of_type| of(&of_type.whole)).sum()
    };
    let (n_fit, n_eval) = (totals(|g| g.n_fit), totals(|g| g.n_eval));
    assert!(
        text.contains(&format!(r#""n_fit": {n_fit}, "n_eval": {n_eval}, "n_failed": 0, "options": {{"types""#)),
        "{text}"
    );
    assert!(text.contains(r#""heldout_frac": 0.3"#), "{text}");

    // The version is that of this data, model, options and temperatures.
    let version = |fitted: &Fit, logits: &LogitFile, options: &Options| {
        let block = temperature::block(fitted, logits, options);
        block.get("version").and_then(Value::as_str).unwrap().to_owned()
    };
    let own = version(&fitted, &logits, &options);
    assert!(own.starts_with("fit-") && own.len() == 16, "{own}");
    assert_eq!(version(&fitted, &logits, &Options { n_threads: 3, ..options.clone() }), own);
    let mut others = [logits.clone(), logits.clone(), logits.clone()];
    others[0].data.sha256 = "0123456789abcdee".repeat(4);
    others[1].identity.model_sha256 = "cd".repeat(32);
    others[2].in_force = in_force(r#"{"method": "temperature", "temperature": {"score": 2.0}}"#);
    assert!(others.iter().all(|other| version(&fitted, other, &options) != own));
    assert_ne!(version(&fitted, &logits, &Options { seed: 1, ..options.clone() }), own);

    let base = br#"{"spec_version": 1, "layout": "laya", "calibration": {"method": "none"}, "x": [1.0],
        "plan": {"name": "sequential", "kernels": "blas"}, "confidence": "max_p"}"#;
    let spec = stamped(&Spec::parse(base).unwrap(), block.clone(), &logits).unwrap();
    assert_eq!(spec::check(spec.text()), []);
    let keys: Vec<_> = spec.value().keys().collect();
    assert_eq!(keys, ["spec_version", "layout", "calibration", "x", "plan", "confidence"]);
    assert_eq!(spec.value().get("plan").unwrap().dumps(), r#"{"name": "packed", "kernels": "default"}"#);
    assert_eq!(spec.value().get("calibration"), Some(&Value::Object(block.clone())));
    assert!(spec.text().ends_with(b"\n}\n"));
    let spec = stamped(&Spec::parse(br#"{"spec_version": 1, "layout": "laya"}"#).unwrap(), block, &logits).unwrap();
    let keys: Vec<_> = spec.value().keys().collect();
    assert_eq!(keys, ["spec_version", "layout", "calibration", "plan"]);
}
