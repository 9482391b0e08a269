//! A loaded model and its spec: which one holds, what it does to answers, and which it refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod tiny;

use laya::convert::Outtype;
use laya::engine::{Engine, Options, Plan};
use laya::error::{Error, ErrorKind, Place};
use laya::gguf::{File, Strings, Value as Meta, Writer};
use laya::json::{self, Value};
use laya::request::{QuestionType, Request};
use laya::spec::{self, Given, Kernels, Source, Spec, Stored, model_sha256};

/// A model whose keys `change` has seen to.
fn model(change: impl FnOnce(&mut Writer)) -> File {
    let dir = tempfile::tempdir().unwrap();
    let file = File::open(&tiny::gguf("tiny-mmbert", Outtype::F16, dir.path())).unwrap();
    let mut writer = Writer::new();
    for (key, value) in file.keys() {
        writer.set(key, value.clone());
    }
    change(&mut writer);
    for tensor in file.tensors() {
        writer.add_tensor(&*tensor.name, &tensor.shape, tensor.ty).unwrap();
    }
    let data = |name: &str| file.tensor_data(file.tensor(name).unwrap());
    let bytes = writer.to_bytes(|tensor, out| {
        out.write_all(data(&tensor.name)).unwrap();
        Ok(())
    });
    File::from_bytes(bytes.unwrap()).unwrap()
}

/// A model stamped with `text`.
fn stamped(text: &str) -> File {
    model(|writer| {
        writer.set(spec::KEY, Meta::String(text.as_bytes().to_vec()));
        for (key, value) in Spec::parse(text.as_bytes()).unwrap().mirrors() {
            writer.set(key, value);
        }
    })
}

fn open(file: &File, given: Given) -> Result<Engine, Error> {
    Engine::from_gguf(file, &Options { n_threads: Some(1), spec: given, ..Options::default() })
}

fn text(text: &str) -> Given {
    Given { text: Some(text.as_bytes().to_vec()), ..Given::default() }
}

const REQUEST: &[u8] = br#"{"state": "The parcel came late and one cup is broken.", "questions": {
    "a": {"type": "noul", "instructions": "Is it late?"},
    "b": {"type": "choice", "instructions": "What about?", "criteria": ["delivery", "billing", "other"]},
    "c": {"type": "score", "instructions": "How urgent?", "criteria": ["low", "mid", "high", "now"]},
    "d": {"type": "choice", "instructions": "Only one?", "criteria": ["yes"]}}}"#;

/// Per question: type, raw logits, temperature in use, probabilities, confidence, score.
type Read = (QuestionType, Vec<f32>, f64, Vec<f64>, f64, Option<f64>);

fn answers(engine: &Engine) -> Vec<Read> {
    let request = Request::from_bytes(REQUEST, &Default::default()).unwrap();
    let response = engine.answer(&request).unwrap();
    let questions = response.questions.into_iter();
    questions
        .map(|question| {
            let n = question.logits.options.len();
            let temperature = engine.calibration().temperature(question.kind, n);
            let answer = question.answer;
            let score = answer.score;
            (question.kind, question.logits.options, temperature, answer.probabilities, answer.confidence, score)
        })
        .collect()
}

/// Softmax by its definition, in another order and with another library's exponential than the code under test.
fn probabilities(logits: &[f32], temperature: f64) -> Vec<f64> {
    let z: Vec<f64> = logits.iter().map(|logit| f64::from(*logit) / temperature).collect();
    z.iter().map(|zi| 1.0 / z.iter().rev().map(|zj| (zj - zi).exp()).sum::<f64>()).collect()
}

/// One minus the entropy in units of the largest there is, from its definition in bits.
fn certainty(p: &[f64]) -> f64 {
    let bits: f64 = p.iter().rev().filter(|p| **p > 0.0).map(|p| p * p.recip().log2()).sum();
    if p.len() == 1 { 1.0 } else { 1.0 - bits / (p.len() as f64).log2() }
}

#[test]
fn every_formula_and_bucket_is_its_definition() {
    const BUCKETS: &str = r#"{"noul": 0.8, "choice": {"1": 3.0, "2-3": 1.3, "*": 2.0}, "all": {"3+": 1.75}}"#;
    for formula in ["laya", "typesafe", "max_p"] {
        let spec = format!(
            r#"{{"spec_version": 1, "layout": "laya", "confidence": "{formula}",
                 "calibration": {{"method": "temperature", "temperature": {BUCKETS}}}}}"#
        );
        let engine = open(&stamped(&spec), Given::default()).unwrap();
        let found = answers(&engine);
        let temperatures: Vec<_> = found.iter().map(|read| read.2).collect();
        assert_eq!(temperatures, [0.8, 1.3, 1.75, 3.0]);
        for (kind, logits, temperature, p, confidence, score) in found {
            let want = probabilities(&logits, temperature);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-12;
            assert!(p.iter().zip(&want).all(|(a, b)| near(*a, *b)), "{p:?} {want:?}");
            let most = want.iter().copied().fold(0.0, f64::max);
            let want_confidence = match (formula, kind) {
                ("laya", QuestionType::Noul) | ("max_p", _) => most,
                _ => certainty(&want),
            };
            assert!(near(confidence, want_confidence), "{formula} {kind:?}: {confidence} {want_confidence}");
            // The score is that of the probabilities that are printed.
            let want_score = p.iter().zip(0u32..).map(|(p, level)| p * f64::from(level)).sum::<f64>();
            assert!(score.is_none_or(|score| near(score, want_score)));
        }
    }
}

#[test]
fn every_option_count_falls_in_its_bucket() {
    let spec = r#"{"spec_version": 1, "layout": "laya", "calibration": {"method": "temperature", "temperature": {
        "choice": {"1-2": 1.5, "3-5": 2.0, "6-10": 2.5, "11+": 3.0}, "score": {"7": 1.25, "4-9": 1.75, "*": 4.5}}}}"#;
    let engine = open(&stamped(spec), Given::default()).unwrap();
    for n in 1..=20 {
        let choice = match n {
            1..=2 => 1.5,
            3..=5 => 2.0,
            6..=10 => 2.5,
            _ => 3.0,
        };
        let score = match n {
            7 => 1.25,
            4..=9 => 1.75,
            _ => 4.5,
        };
        assert_eq!(engine.calibration().temperature(QuestionType::Choice, n), choice);
        assert_eq!(engine.calibration().temperature(QuestionType::Score, n), score);
        assert_eq!(engine.calibration().temperature(QuestionType::Noul, n), 1.0);
    }
}

#[test]
fn a_given_spec_goes_before_the_stamped_one_and_that_before_the_default() {
    let plain = r#"{"spec_version": 1, "layout": "laya", "model_id": "stamped"}"#;
    let file = stamped(plain);
    let found = |engine: &Engine| {
        let spec = engine.spec();
        (spec.source(), spec.contract().model_id.clone().unwrap_or_default())
    };
    assert_eq!(found(&open(&file, Given::default()).unwrap()), (Source::Gguf, "stamped".into()));
    let other = text(r#"{"spec_version": 1, "layout": "laya", "model_id": "given"}"#);
    assert_eq!(found(&open(&file, other.clone()).unwrap()), (Source::File, "given".into()));
    let file = model(|_| {});
    let default = open(&file, Given { model_id: "called so".into(), ..Given::default() }).unwrap();
    assert_eq!(found(&default), (Source::Default, "called so".into()));
    // As Python's json.dumps writes it; the hash is of this text.
    let of = |calibration: &str| {
        format!(
            r#"{{"spec_version": 1, "model_id": "called so", "layout": "laya", "input_contract": "laya-v1", "special_tokens": "mask-to-space", "calibration": {calibration}, "confidence": "laya", "plan": {{"name": "sequential"}}, "router": null}}"#
        )
    };
    let temperatures = r#"{"method": "temperature", "required": false, "clamp": [0.5, 5.0], "temperature": {"choice": {"*": 1.25}, "score": {"*": 0.90625}, "noul": {"*": 7.5}}, "version": "gguf:laya.temperature"}"#;
    assert_eq!(String::from_utf8_lossy(default.spec().spec().text()), of(temperatures));
    let ones = model(|writer| writer.set("laya.temperature", vec![1f32; 3]));
    let uncalibrated = open(&ones, Given { model_id: "called so".into(), ..Given::default() }).unwrap();
    let none = r#"{"method": "none", "required": false, "clamp": [0.5, 5.0]}"#;
    assert_eq!(String::from_utf8_lossy(uncalibrated.spec().spec().text()), of(none));
    assert_eq!(found(&open(&file, other).unwrap()).0, Source::File);
}

/// A model with temperatures of its own, by type and by bucket.
fn with_temperatures() -> File {
    model(|writer| {
        writer.set("laya.temperature", vec![1.5f32, 0.25, 1.0]);
        writer.set("laya.temperature_by_options.buckets", ["choice:11+", "score:2"].iter().collect::<Strings>());
        writer.set("laya.temperature_by_options.values", vec![0.1006f32, 2.5]);
    })
}

#[test]
fn a_models_own_temperatures_are_its_default_calibration() {
    let file = with_temperatures();
    let engine = open(&file, Given::default()).unwrap();
    let own = engine.calibration().clone();
    assert_eq!(own.version(), Some("gguf:laya.temperature"));
    assert_eq!(own.temperature(QuestionType::Choice, 12), 0.5);
    let adjusted: Vec<_> = own.adjustments().iter().map(|a| a.name.as_str()).collect();
    assert_eq!(adjusted, ["score", "choice:11+"]);
    // The text of the default spec says the same: given as a file, it gives the same temperatures.
    let default = String::from_utf8_lossy(engine.spec().spec().text()).into_owned();
    let again = open(&file, text(&default)).unwrap();
    // A spec that does not mention calibration keeps them, and one that switches it off does not.
    let silent = open(&file, text(r#"{"spec_version": 1, "layout": "laya"}"#)).unwrap();
    let off = open(&file, text(r#"{"spec_version": 1, "layout": "laya", "calibration": null}"#)).unwrap();
    let none =
        open(&file, text(r#"{"spec_version": 1, "layout": "laya", "calibration": {"method": "none"}}"#)).unwrap();
    for kind in QuestionType::ALL {
        for n in 1..30 {
            let temperature = own.temperature(kind, n);
            assert_eq!(again.calibration().temperature(kind, n), temperature, "{kind:?} {n}");
            assert_eq!(silent.calibration().temperature(kind, n), temperature);
            assert_eq!(off.calibration().temperature(kind, n), 1.0);
            assert_eq!(none.calibration().temperature(kind, n), 1.0);
        }
    }
    assert_eq!(again.calibration().version(), Some("gguf:laya.temperature"));
    assert_eq!(silent.calibration().version(), Some("gguf:laya.temperature"));
    assert!(!off.calibration().is_calibrated());
    let stored = Stored { temperature: [1.0; 3], by_options: &[] };
    assert!(!Spec::default_for(&stored, "m").unwrap().calibration().unwrap().is_calibrated());
}

#[test]
fn a_bare_calibration_is_a_required_one() {
    let file = with_temperatures();
    let engine = open(&file, text(r#"{"temperature": 1.75, "version": "2026-11"}"#)).unwrap();
    for kind in QuestionType::ALL {
        assert_eq!(engine.calibration().temperature(kind, 12), 1.75);
    }
    assert_eq!(engine.calibration().version(), Some("2026-11"));
    let bare = r#"{"temperature": {"choice": {"2-5": 9, "6+": 1.1}, "all": 2}}"#;
    let engine = open(&file, text(bare)).unwrap();
    // Clamped as the layout has it, and named by the hash of the file.
    assert_eq!(engine.calibration().temperature(QuestionType::Choice, 3), 5.0);
    assert!(engine.calibration().version().unwrap().starts_with("cal-"), "{:?}", engine.calibration().version());
    assert_eq!(engine.spec().source(), Source::File);
    for (bare, path, message) in [
        (r#"{"temperature": {"choice": {"2": 1}, "all": 2}}"#, "temperature", "has none for choice with 3 options"),
        (r#"{"temperature": 0}"#, "temperature", "a temperature is a number"),
        (r#"{"temperature": {"all": 0}}"#, "temperature.all", "a temperature is a number"),
        (r#"{"temperature": "x"}"#, "temperature", "must be a temperature, or an object"),
        (r#"{"temperature": 1, "version": 7}"#, "version", "must be a text"),
        (r#"{"temperature": [1]}"#, "temperature", "must be a temperature, or an object"),
    ] {
        let error = open(&file, text(bare)).unwrap_err();
        assert_eq!(error.place(), Some(&Place::JsonPath(path.into())), "{error}");
        assert!(error.message().contains(message), "{error}");
    }
}

#[test]
fn a_required_calibration_answers_nothing_it_has_no_temperature_for() {
    let spec = |required: bool| {
        text(&format!(
            r#"{{"spec_version": 1, "layout": "laya", "calibration": {{"method": "temperature", "required": {required},
                 "temperature": {{"noul": 1, "choice": {{"2-20": 4}}, "score": {{"2+": 3}}}}}}}}"#
        ))
    };
    let ask = |kind: &str, n: usize, required: bool| {
        let options: Vec<_> = (0..n).map(|i| format!("\"o{i}\"")).collect();
        let body = format!(
            r#"{{"state": "s", "questions": {{"q": {{"type": "{kind}", "instructions": "?", "criteria": [{}]}}}}}}"#,
            options.join(", ")
        );
        let request = Request::from_bytes(body.as_bytes(), &Default::default()).unwrap();
        open(&model(|_| {}), spec(required)).unwrap().answer(&request)
    };
    for (kind, n) in [("choice", 1), ("choice", 20), ("score", 1), ("score", 21)] {
        assert!(ask(kind, n, true).is_ok(), "{kind} {n}");
    }
    assert!(ask("choice", 21, false).is_ok());
    let error = ask("choice", 21, true).unwrap_err();
    assert_eq!((error.kind(), error.place()), (ErrorKind::Request, Some(&Place::JsonPath("questions.q".into()))));
    assert!(error.message().contains("has no temperature for choice with 21 options"), "{error}");
}

#[test]
fn a_spec_for_something_else_is_refused_unless_it_is_overridden() {
    let file = model(|_| {});
    let own = model_sha256(&file).unwrap();
    let fitted = |fields: &str| {
        format!(
            r#"{{"spec_version": 1, "layout": "laya", "calibration": {{"method": "temperature",
                 "temperature": {{"all": 2}}, "fitted": {{{fields}}}}}}}"#
        )
    };
    let kernels = |name: &str| format!(r#"{{"spec_version": 1, "layout": "laya", "plan": {{"kernels": "{name}"}}}}"#);
    let refused = |spec: &str, path: &str, says: &str| {
        for (file, given) in [(&file, text(spec)), (&stamped(spec), Given::default())] {
            let error = open(file, given).unwrap_err();
            assert_eq!(
                (error.kind(), error.place()),
                (ErrorKind::Spec, Some(&Place::JsonPath(path.into()))),
                "{error}"
            );
            assert!(error.message().contains(says), "{error}");
        }
    };
    refused(&kernels("repack+blas"), "plan.kernels", "use it all the same with --kernels default");
    let asked = |kernels| Given { kernels: Some(kernels), ..text(&self::kernels_text("blas")) };
    for kernels in Kernels::HERE {
        assert!(open(&file, asked(kernels)).is_ok());
    }
    assert_eq!(open(&file, asked(Kernels::Repack)).unwrap_err().kind(), ErrorKind::Unsupported);
    for name in ["auto", "default"] {
        assert!(open(&file, text(&kernels(name))).is_ok());
    }

    let other = fitted(&format!(r#""model_sha256": "{}""#, "0".repeat(64)));
    refused(&other, "calibration.fitted.model_sha256", "fitted on another one");
    let later = fitted(r#""numeric_contract": 2"#);
    refused(&later, "calibration.fitted.numeric_contract", "under numeric contract 1");
    for spec in [&other, &later] {
        assert!(open(&file, Given { allow_mismatch: true, ..text(spec) }).is_ok());
    }
    let same = fitted(&format!(r#""model_sha256": "{own}", "numeric_contract": 1"#));
    assert_eq!(open(&file, text(&same)).unwrap().calibration().temperature(QuestionType::Noul, 2), 2.0);
    // Stamping does not change what a model is.
    assert!(open(&stamped(&same), Given::default()).is_ok());
    assert_eq!(model_sha256(&stamped(&same)).unwrap(), own);
    // Anything else does.
    assert_ne!(model_sha256(&model(|writer| writer.set("general.name", "x"))).unwrap(), own);
    let mut first = true;
    let changed = tiny::rewritten(&file, |_, bytes| {
        bytes[0] ^= u8::from(std::mem::take(&mut first));
        true
    });
    assert_ne!(model_sha256(&changed).unwrap(), own);

    let semif = r#"{"spec_version": 1, "layout": "semif-letters"}"#;
    refused(semif, "layout", "is not the layout of this file, whose general.architecture is \"laya\"");
    // Temperatures that are not used are bound to nothing.
    let off = later.replace(r#""method": "temperature""#, r#""method": "none""#);
    assert!(off != later && open(&file, text(&off)).is_ok(), "{off}");
    let error = open(&file, text("{")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Spec);
}

fn kernels_text(name: &str) -> String {
    format!(r#"{{"spec_version": 1, "layout": "laya", "plan": {{"kernels": "{name}"}}}}"#)
}

#[test]
fn mirrors_that_say_otherwise_are_refused() {
    let spec = r#"{"spec_version": 1, "layout": "laya", "model_id": "a"}"#;
    let mirrored = |key: &str, value: Meta| {
        model(|writer| {
            writer.set(spec::KEY, Meta::String(spec.as_bytes().to_vec()));
            writer.set(key, value);
        })
    };
    let text = |text: &str| Meta::String(text.as_bytes().to_vec());
    for (key, value, says) in [
        ("decision.spec_version", Meta::U32(2), "is 2, but decision.spec says 1"),
        ("decision.spec_version", Meta::U64(1), "is of type u64, but decision.spec says 1"),
        ("decision.layout", text("semif-letters"), "is \"semif-letters\", but decision.spec says \"laya\""),
        ("decision.model_id", text("b"), "is \"b\", but decision.spec says \"a\""),
        ("decision.model_version", text("1"), "is \"1\", but decision.spec says nothing of it"),
    ] {
        let error = open(&mirrored(key, value), Given::default()).unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Spec, Some(&Place::Key(key.into()))));
        assert!(error.message().contains(says), "{error}");
        // Another spec in its place needs no mirrors.
        assert!(open(&mirrored(key, Meta::U32(9)), self::text(spec)).is_ok());
    }
    assert!(open(&mirrored("decision.model_id", text("a")), Given::default()).is_ok());
    let file = model(|writer| writer.set(spec::KEY, 3u32));
    let error = open(&file, Given::default()).unwrap_err();
    assert_eq!(error.place(), Some(&Place::Key("decision.spec".into())), "{error}");
}

#[test]
fn limits_and_plan_of_the_spec_hold() {
    let spec = |fields: &str| format!(r#"{{"spec_version": 1, "layout": "laya", {fields}}}"#);
    let request = Request::from_bytes(REQUEST, &Default::default()).unwrap();
    let refused = |fields: &str| open(&model(|_| {}), text(&spec(fields))).unwrap().answer(&request).unwrap_err();
    let error = refused(r#""limits": {"max_options": 3}"#);
    assert_eq!((error.kind(), error.place()), (ErrorKind::Request, Some(&Place::JsonPath("questions.c".into()))));
    assert!(error.message().contains("4 options are more than the 3"), "{error}");
    let error = refused(r#""limits": {"max_prompt_tokens": 5}"#);
    assert!(error.message().contains("tokens is longer than the 5"), "{error}");
    let engine = open(&model(|_| {}), text(&spec(r#""limits": {"max_options": 4, "max_prompt_tokens": 0}"#))).unwrap();
    assert!(engine.answer(&request).is_ok());

    // The two options of a noul question are not the request's choice.
    let engine = open(&model(|_| {}), text(&spec(r#""limits": {"max_options": 1}"#))).unwrap();
    let noul = br#"{"state": "s", "questions": {"a": {"type": "noul", "instructions": "?"},
        "d": {"type": "choice", "instructions": "?", "criteria": ["yes"]}}}"#;
    assert!(engine.answer(&Request::from_bytes(noul, &Default::default()).unwrap()).is_ok());

    let plan = |given: Option<Plan>, spec: Given| {
        Engine::from_gguf(&model(|_| {}), &Options { n_threads: Some(1), plan: given, spec, ..Options::default() })
            .unwrap()
            .plan()
    };
    let sequential = || text(&spec(r#""plan": {"name": "sequential"}"#));
    assert_eq!(plan(None, sequential()), Plan::Sequential);
    assert_eq!(plan(Some(Plan::Packed), sequential()), Plan::Packed);
    // The default spec names the plan of other engines; nobody chose it for this model.
    assert_eq!(plan(None, Given::default()), Plan::Packed);
}

#[test]
fn the_other_layout_is_stamped_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let options = laya::convert::Options { layout: laya::convert::Layout::ModernBert, ..Default::default() };
    let path = dir.path().join("upstream.gguf");
    laya::convert::convert(&tiny::root().join("golden/tiny-mmbert/checkpoint"), &path, &options).unwrap();
    let file = File::open(&path).unwrap();
    let fitted = format!(
        r#"{{"spec_version": 1, "layout": "laya", "calibration": {{"method": "temperature",
             "temperature": {{"all": 2}}, "fitted": {{"model_sha256": "{}"}}}}}}"#,
        model_sha256(&file).unwrap()
    );
    let engine = open(&file, text(&fitted)).unwrap();
    assert_eq!(engine.calibration().temperature(QuestionType::Score, 9), 2.0);
    assert_eq!(engine.spec().contract().model_id, None);
    let default = open(&file, Given::default()).unwrap();
    let value = json::parse(default.spec().spec().text()).unwrap();
    assert_eq!(value.get("model_id").and_then(Value::as_str), Some("upstream"));
}
