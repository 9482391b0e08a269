//! The published schemas, read by somebody else's validator: they accept what the tools accept, and refuse what they
//! refuse, but for the rules JSON Schema has no words for, which are named here.
//!
//! Published files are read from `../shared/conformance` when it is there.

#![allow(clippy::unwrap_used, clippy::panic)]

mod mutation;
mod random;
mod tiny;

use jsonschema::Validator;
use laya::json;
use laya::request::{Limits, Request, RequestError};
use laya::schema::Schema;
use laya::spec::{self, Problem};
use mutation::mutate_json;
use random::SplitMix64 as Random;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn schema(name: &str) -> Value {
    parsed(Schema::named(name).unwrap().text)
}

fn validator(name: &str) -> Validator {
    jsonschema::draft202012::new(&schema(name)).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn published(name: &str) -> Option<String> {
    let path = root().join("../shared/conformance/engine").join(name);
    let text = fs::read_to_string(path);
    if text.is_err() {
        eprintln!("skipped: no ../shared/conformance/engine/{name}");
    }
    text.ok()
}

#[track_caller]
fn assert_accepts(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{what}: {errors:#?} in {value}");
}

#[test]
fn every_schema_is_one_and_describes_itself() {
    for published in Schema::ALL {
        let schema = parsed(published.text);
        jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|error| panic!("{}: {error}", published.name));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let id = schema["$id"].as_str().unwrap();
        assert!(id.starts_with("urn:laya:schema:") && id.ends_with(":1"), "{id}");
        assert!(schema["title"].is_string() && schema["description"].is_string(), "{}", published.name);
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["title"].is_string(), "{}: {name} has no title", published.name);
        }
        assert!(published.text.ends_with("}\n") && !published.text.contains('\t'));
    }
    let names = Schema::ALL.map(|schema| schema.name);
    assert_eq!(names, ["spec", "request", "answer", "response"]);
    assert_eq!(Schema::named("answers"), None);
    // The one a response is made of comes with it, so that each stands alone.
    assert_eq!(schema("response")["$defs"]["answer"], schema("answer"));
}

/// Published cases that break a rule JSON Schema has no words for, with the rule.
const BEYOND_SCHEMA: [(&str, &str); 7] = [
    ("spec_version as float", "integers are written without a point"),
    ("router max_card_tokens float", "integers are written without a point"),
    ("clamp reversed", "one number is not above another"),
    ("required choice gap at 6", "every number of options has a bucket"),
    ("required empty type entry", "every number of options has a bucket"),
    ("required not covered above limits.max_options", "every number of options has a bucket"),
    ("router question labels same after strip", "texts differ after white space is stripped"),
];

#[test]
fn the_published_spec_cases() {
    let Some(text) = published("spec_cases.json") else { return };
    let validator = validator("spec");
    let cases = parsed(&text);
    let cases = cases.as_array().unwrap();
    let mut n_beyond = 0;
    for case in cases {
        let (name, ok) = (case["name"].as_str().unwrap(), case["ok"].as_bool().unwrap());
        if ok {
            assert_accepts(&validator, &case["spec"], name);
        } else if let Some((_, rule)) = BEYOND_SCHEMA.iter().find(|(beyond, _)| *beyond == name) {
            assert!(validator.is_valid(&case["spec"]), "{name}: the schema can say it after all: {rule}");
            n_beyond += 1;
        } else {
            assert!(!validator.is_valid(&case["spec"]), "{name}: {}", case["spec"]);
        }
    }
    assert_eq!((cases.len(), n_beyond), (98, BEYOND_SCHEMA.len()));
}

/// The rule of a spec that JSON Schema has no words for and that this is a problem of, as the schema's description names
/// it; `None` for a problem a schema can see.
fn beyond_schema(problem: &Problem) -> Option<&'static str> {
    let Problem { path, message } = problem;
    let reversed = |bucket: &str| {
        let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() <= 9);
        bucket.split_once('-').is_some_and(|(a, b)| number(a).zip(number(b)).is_some_and(|(a, b)| a > b))
    };
    let integer = message == "must be the integer 1, not 1.0"
        || message.starts_with("must be an integer from 0 to 2147483647, not ") && message.ends_with(".0");
    // A schema sees how many there are and each alone.
    let two_numbers = message.starts_with("must be two numbers, lowest and highest, ")
        && matches!(message.split_once(", not [").map(|(_, given)| given.split(',').count()), Some(2));
    [
        (integer, "integers are written without a point"),
        (message.starts_with("an integer outside 64 bits"), "everywhere fit 64 bits"),
        (message.starts_with("a number too large for a double"), "other numbers a double"),
        (message.starts_with("arrays and objects are nested too deeply"), "arrays and objects lie at most 128 deep"),
        (message.starts_with("half of a surrogate pair"), "text has no lone surrogates"),
        (two_numbers, "the lower end of a clamp or bucket is not above its upper end"),
        (
            message.starts_with("is no number of options") && path.rsplit('.').next().is_some_and(reversed),
            "the lower end of a clamp or bucket is not above its upper end",
        ),
        (
            message.ends_with(", and the calibration is required"),
            "a required calibration has a temperature for every question type and number of options",
        ),
        (
            message.starts_with("noul labels must map exactly"),
            "the labels of a router question differ after white space is stripped",
        ),
        (message.ends_with(" bytes; a spec has at most 1048576"), "the text has at most 1048576 bytes"),
    ]
    .into_iter()
    .find_map(|(is, rule)| is.then_some(rule))
}

#[track_caller]
fn assert_beyond_spec_schema(text: &[u8]) {
    for problem in spec::check(text) {
        let named = beyond_schema(&problem);
        assert!(named.is_some(), "the schema accepts what is refused: {problem} in {}", String::from_utf8_lossy(text));
    }
}

#[test]
fn the_schema_names_the_rules_it_has_no_words_for() {
    let (validator, description) = (validator("spec"), schema("spec")["description"].as_str().unwrap().to_owned());
    let whole = |fields: &str| format!(r#"{{"spec_version": 1, "layout": "laya", {fields}}}"#);
    let calibrated = |fields: &str| whole(&format!(r#""calibration": {{"method": "temperature", {fields}}}"#));
    let temperature = |given: &str| calibrated(&format!(r#""temperature": {{"choice": {given}}}"#));
    let labels = r#"{"type": "noul", "instructions": "i", "labels": {"true": "a", "false": " a"}}"#;
    let deep = format!(r#""x": {}1{}"#, "[".repeat(128), "]".repeat(128));
    // What the reader of the validator does not read is for readers that do.
    for (text, rule, is_read) in [
        (r#"{"spec_version": 1.0, "layout": "laya"}"#.into(), "integers are written without a point", true),
        (whole(r#""limits": {"max_options": 4.0}"#), "integers are written without a point", true),
        (whole(r#""x": 18446744073709551616"#), "everywhere fit 64 bits", true),
        (whole(r#""x": [-9223372036854775809]"#), "everywhere fit 64 bits", true),
        (whole(r#""x": 1e400"#), "other numbers a double", false),
        (whole(&deep), "arrays and objects lie at most 128 deep", false),
        (whole(r#""x": "\ud800""#), "text has no lone surrogates", false),
        (calibrated(r#""clamp": [2, 1]"#), "the lower end of a clamp or bucket is not above its upper end", true),
        (temperature(r#"{"5-3": 1}"#), "the lower end of a clamp or bucket is not above its upper end", true),
        (
            calibrated(r#""required": true, "temperature": {"all": {"2": 1}}"#),
            "a required calibration has a temperature for every question type and number of options",
            true,
        ),
        (
            whole(&format!(r#""router": {{"question": {labels}}}"#)),
            "the labels of a router question differ after white space is stripped",
            true,
        ),
        (whole(&format!(r#""x": "{}""#, "x".repeat(1 << 20))), "the text has at most 1048576 bytes", true),
    ] {
        let problems = spec::check(text.as_bytes());
        let shown = &text[..text.len().min(200)];
        assert!(!problems.is_empty(), "{shown}");
        assert!(problems.iter().all(|problem| beyond_schema(problem) == Some(rule)), "{problems:?} in {shown}");
        assert!(description.contains(rule), "{rule:?} is not named");
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => assert!(is_read && validator.is_valid(&value), "the schema can say it after all: {shown}"),
            Err(error) => assert!(!is_read, "{error} in {shown}"),
        }
    }
}

#[test]
fn buckets_are_judged_as_the_tools_judge_them() {
    let (validator, mut random) = (validator("spec"), Random(97));
    let mut names: Vec<String> =
        ["4294967296", "5-4294967296", "0000000004", "999999999", "1000000000+", "*", "", "4\n"]
            .map(str::to_owned)
            .to_vec();
    names.extend((0..4000).map(|_| {
        let pieces = ["*", "+", "-", "7", "42", "999999999", "1234567890", "\u{663}", " "];
        (0..random.below(5)).map(|_| pieces[random.below(pieces.len())]).collect()
    }));
    let (mut accepted, mut refused) = (0, 0);
    for name in names {
        let spec = json!({"spec_version": 1, "layout": "laya",
            "calibration": {"method": "temperature", "temperature": {"choice": {&name: 1}}}});
        let text = spec.to_string();
        match (spec::check(text.as_bytes()).is_empty(), validator.is_valid(&spec)) {
            (true, true) => accepted += 1,
            (false, false) => refused += 1,
            (false, true) => assert_beyond_spec_schema(text.as_bytes()),
            (true, false) => panic!("the schema refuses what loads: {name:?}"),
        }
    }
    assert!(accepted > 300 && refused > 500, "{accepted} {refused}");
}

/// Specs with everything in them.
const SPECS: [&str; 3] = [
    r#"{"spec_version": 1, "model_id": "a/b", "model_version": "1.0.0", "layout": "laya",
        "input_contract": "laya-router-v1", "special_tokens": "escape-control",
        "limits": {"max_options": 20, "max_candidates": 16, "max_prompt_tokens": 0},
        "calibration": {"method": "temperature", "required": true, "clamp": [0.5, 5.0], "version": "v",
          "temperature": {"noul": {"2": 1.37}, "choice": {"2": 1.2, "3-5": 1.45, "6-10": 1.6, "11+": 1.8}, "score": {"*": 1.3}},
          "fitted": {"model_sha256": "0000000000000000000000000000000000000000000000000000000000000000",
                     "numeric_contract": 1, "kernels": "default", "plan": "packed", "n_fit": 3}},
        "confidence": "laya", "plan": {"name": "sequential", "recipe": "Q8_0-mixed", "n_threads": 4, "kernels": "default"},
        "router": {"card_schema": "atomic.executor-card/1", "card_renderer": "card-v1", "max_card_tokens": 384,
          "question": {"type": "noul", "instructions": "Will it?", "criteria": {"true": "yes", "FALSE": null},
                       "labels": {"false": " no", "true": "yes"}},
          "calibration": {"method": "platt", "a": 1.0, "b": 0.0}}}"#,
    r#"{"spec_version": 1, "layout": "semif-letters", "input_contract": "semif-v1", "special_tokens": "escape",
        "confidence": "max_p", "plan": {"name": "any", "kernels": "repack+blas"}, "limits": null, "router": null,
        "calibration": {"method": "none", "fitted": null, "temperature": null}}"#,
    r#"{"spec_version": 1, "layout": "laya", "limits": {"max_options": 1},
        "calibration": {"method": "temperature", "required": true, "temperature": {"noul": 1e-6}}}"#,
];

#[test]
fn the_schema_refuses_no_spec_that_loads() {
    let validator = validator("spec");
    let mut random = Random(98);
    let (mut loads, mut refused, mut beyond) = (0, 0, 0);
    for text in SPECS {
        assert_eq!(spec::check(text.as_bytes()), []);
        assert_accepts(&validator, &parsed(text), "a whole spec");
    }
    for i in 0..30_000 {
        let mut text = SPECS[i % SPECS.len()].as_bytes().to_vec();
        mutate_json(&mut text, &mut random);
        // What is no JSON to one reader or the other is not for a schema.
        let Ok(value) = serde_json::from_slice::<Value>(&text) else { continue };
        if spec::check(&text).is_empty() {
            assert_accepts(&validator, &value, &String::from_utf8_lossy(&text));
            loads += 1;
        } else if validator.is_valid(&value) {
            assert_beyond_spec_schema(&text);
            beyond += 1;
        } else {
            refused += 1;
        }
    }
    println!("{loads} changed specs load, {refused} are refused by both, {beyond} by the tools alone");
    assert!(loads > 500 && refused > 5_000 && beyond < loads, "{loads} {refused} {beyond}");
}

/// The requests of the repository.
fn requests() -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => texts.push(text),
            Some("jsonl") => texts.extend(text.lines().map(str::to_owned)),
            _ => {}
        }
    }
    let golden = fs::read_to_string(root().join("golden/request/cases.jsonl")).unwrap();
    texts.extend(golden.lines().map(|line| parsed(line)["body"].as_str().unwrap().to_owned()));
    texts.extend(
        tiny::FAMILIES.iter().flat_map(|family| tiny::items(family)).map(|item| item.get("body").unwrap().dumps()),
    );
    texts
}

/// Rules of a request that JSON Schema has no words for, as the messages about them say it.
const REQUEST_BEYOND_SCHEMA: [&str; 5] = [
    " repeats label ",
    " has the answer key ",
    "noul labels must map exactly",
    "must be a positive whole number of tokens, got ",
    "is not a number a request can hold",
];

fn assert_beyond_schema(error: &RequestError, text: &str) {
    let named = REQUEST_BEYOND_SCHEMA.iter().any(|rule| error.message.contains(rule));
    assert!(named, "the schema accepts what is refused: {error} in {text}");
}

#[test]
fn requests_are_judged_as_the_tools_judge_them() {
    let validator = validator("request");
    let mut texts = requests();
    let n_own = texts.len();
    texts.extend(published("parity_corpus_items.jsonl").iter().flat_map(|text| text.lines()).map(str::to_owned));
    let (mut accepted, mut refused, mut beyond) = (0, 0, 0);
    for text in &texts {
        let request = Request::from_bytes(text.as_bytes(), &Limits::default());
        let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
        match request {
            Ok(_) => {
                assert_accepts(&validator, &value, text);
                accepted += 1;
            }
            Err(error) if validator.is_valid(&value) => {
                assert_beyond_schema(&error, text);
                beyond += 1;
            }
            Err(_) => refused += 1,
        }
    }
    println!(
        "{n_own} own requests of {}: {accepted} accepted, {refused} refused, {beyond} beyond the schema",
        texts.len()
    );
    assert!(accepted > 100 && refused > 10, "{accepted} {refused}");
}

#[test]
fn the_schema_refuses_no_request_that_is_answered() {
    let validator = validator("request");
    let texts = requests();
    let mut random = Random(99);
    let (mut accepted, mut refused, mut beyond) = (0, 0, 0);
    for _ in 0..20_000 {
        let mut text = texts[random.below(texts.len())].as_bytes().to_vec();
        mutate_json(&mut text, &mut random);
        let Ok(value) = serde_json::from_slice::<Value>(&text) else { continue };
        let shown = String::from_utf8_lossy(&text);
        match Request::from_bytes(&text, &Limits::default()) {
            Ok(_) => {
                assert_accepts(&validator, &value, &shown);
                accepted += 1;
            }
            Err(error) if validator.is_valid(&value) => {
                assert_beyond_schema(&error, &shown);
                beyond += 1;
            }
            Err(_) => refused += 1,
        }
    }
    println!("{accepted} changed requests are answered, {refused} refused by both, {beyond} by the tools alone");
    assert!(accepted > 1_000 && refused > 1_000 && beyond < accepted, "{accepted} {refused} {beyond}");
}

#[test]
fn malformed_requests_are_refused() {
    let validator = validator("request");
    let question = |question: Value| json!({"state": "s", "questions": {"q": question}});
    let with = |key: &str, value: Value| {
        let mut body = json!({"state": "s", "questions": {}});
        body[key] = value;
        body
    };
    let malformed = [
        json!([]),
        json!("text"),
        json!({"state": "s"}),
        json!({"questions": {}}),
        json!({"state": null, "questions": {}}),
        json!({"state": "s", "questions": []}),
        with("truncation", json!("no")),
        with("max_len", json!(0)),
        with("max_len", json!(1.5)),
        with("head_max_len", json!("4")),
        with("head_max_len", json!(true)),
        question(json!(1)),
        question(json!({"instructions": "i"})),
        question(json!({"type": "vote", "instructions": "i"})),
        question(json!({"type": "noul"})),
        question(json!({"type": "choice", "instructions": "i"})),
        question(json!({"type": "choice", "instructions": "i", "criteria": {}})),
        question(json!({"type": "choice", "instructions": "i", "criteria": []})),
        question(json!({"type": "choice", "instructions": "i", "criteria": "a"})),
        question(json!({"type": "choice", "instructions": "i", "criteria": ["a", null]})),
        question(json!({"type": "choice", "instructions": "i", "criteria": ["a", ["b"]]})),
        question(json!({"type": "choice", "instructions": "i", "criteria": ["a", "a"]})),
        question(json!({"type": "choice", "instructions": "i", "criteria": null, "options": ["a"]})),
        question(json!({"type": "choice", "instructions": "i", "criteria": ["a"], "labels": null})),
        question(json!({"type": "score", "instructions": "i"})),
        question(json!({"type": "score", "instructions": "i", "criteria": []})),
        question(json!({"type": "score", "instructions": "i", "criteria": {"a": "b"}})),
        question(json!({"type": "score", "instructions": "i", "criteria": ["a", null]})),
        question(json!({"type": "noul", "instructions": "i", "criteria": ["a", "b"]})),
        question(json!({"type": "noul", "instructions": "i", "criteria": {"yes": "a"}})),
        question(json!({"type": "noul", "instructions": "i", "labels": {"false": "a"}})),
        question(json!({"type": "noul", "instructions": "i", "labels": {"false": "a", "true": " \u{1c}\u{3000}"}})),
        question(json!({"type": "noul", "instructions": "i", "labels": {"false": "a", "true": "b", "x": "c"}})),
        question(json!({"type": "noul", "instructions": "i", "labels": {"false": "a", "true": 1}})),
    ];
    for body in malformed {
        assert!(!validator.is_valid(&body), "{body}");
        assert!(Request::from_bytes(body.to_string().as_bytes(), &Limits::default()).is_err(), "{body}");
    }
}

#[test]
fn answers_of_a_model() {
    let (validator, folder) = (validator("answer"), tempfile::tempdir().unwrap());
    let mut n_answers = 0;
    for family in tiny::FAMILIES {
        let engine = tiny::engine(&tiny::gguf(family, laya::convert::Outtype::F32, folder.path()));
        for item in tiny::items(family) {
            // Some hold what is refused.
            let Ok(request) = Request::parse(item.get("body").unwrap()) else { continue };
            let Ok(response) = engine.answer(&request) else { continue };
            for result in response.questions {
                for answer in [result.answer.to_json(), result.answer.to_json_rounded()] {
                    assert_accepts(&validator, &parsed(&answer.dumps()), &result.id);
                    n_answers += 1;
                }
                // A model without an act head.
                let mut answer = result.answer.clone();
                answer.act_probability = None;
                assert_accepts(&validator, &parsed(&answer.to_json().dumps()), &result.id);
            }
        }
    }
    println!("{n_answers} answers");
    assert!(n_answers > 20);
}

#[test]
fn what_is_no_answer_is_refused() {
    let validator = validator("answer");
    let choice = json!({"type": "choice", "choice": 3, "probabilities": {"3": 0.7, "x": 0.3}, "confidence": 0.1,
        "answer_confidence": 0.7, "action": {"act_probability": 1.0}});
    let score = json!({"type": "score", "score": 0.25, "legend": {"0": "low", "1": {"a": 1}},
        "probabilities": {"0": 0.75, "1": 0.25}, "confidence": 0.1, "answer_confidence": 0.75});
    let noul = json!({"type": "noul", "noul": 0.2, "confidence": 0.8, "answer_confidence": 0.8});
    for answer in [&choice, &score, &noul] {
        assert_accepts(&validator, answer, "an answer");
        for key in answer.as_object().unwrap().keys().filter(|key| *key != "action") {
            let mut without = answer.clone();
            without.as_object_mut().unwrap().remove(key);
            assert!(!validator.is_valid(&without), "without {key}: {answer}");
        }
        let changed = |key: &str, value: Value| {
            let mut answer = answer.clone();
            answer[key] = value;
            answer
        };
        for other in [
            changed("more", json!(1)),
            changed("confidence", json!(1.5)),
            changed("answer_confidence", json!(-0.1)),
            changed("confidence", json!("high")),
            changed("type", json!("vote")),
            changed("action", json!({})),
            changed("action", json!({"act_probability": 0.5, "x": 1})),
        ] {
            assert!(!validator.is_valid(&other), "{other}");
        }
    }
    // The fields of one type do not do for another, nor beside its own.
    for (answer, ty) in [(&choice, "score"), (&choice, "noul"), (&score, "choice"), (&noul, "choice")] {
        let mut other = answer.clone();
        other["type"] = json!(ty);
        assert!(!validator.is_valid(&other), "{other}");
    }
    for (answer, key, value) in [
        (&noul, "choice", json!("x")),
        (&choice, "choice", json!(null)),
        (&choice, "probabilities", json!({})),
        (&choice, "probabilities", json!({"x": 1.5})),
        (&score, "score", json!(-0.5)),
        (&score, "probabilities", json!({"low": 1.0})),
        (&score, "legend", json!({"0": null})),
    ] {
        let mut other = answer.clone();
        other[key] = value;
        assert!(!validator.is_valid(&other), "{other}");
    }
}

#[test]
fn responses_of_the_tool() {
    let (validator, folder) = (validator("response"), tempfile::tempdir().unwrap());
    let model = tiny::gguf(tiny::FAMILIES[0], laya::convert::Outtype::F32, folder.path());
    let tool = |arguments: &[&str], file: PathBuf| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laya-cli"));
        command.arg("-m").arg(&model).args(arguments).arg(file).env_remove("LAYA_ISA");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let response = parsed(&tool(&["-f"], root().join("examples/support-ticket.json")));
    assert_accepts(&validator, &response, "-f");
    for key in ["model", "state", "questions", "per_question", "answers", "usage"] {
        let mut without = response.clone();
        without.as_object_mut().unwrap().remove(key);
        assert!(!validator.is_valid(&without), "without {key}");
    }
    let mut other = response.clone();
    other["answers"]["topic"]["confidence"] = json!(2);
    assert!(!validator.is_valid(&other), "an answer inside is not looked at");
    let lines = tool(&["--jsonl"], root().join("examples/requests.jsonl"));
    assert!(lines.lines().count() > 1);
    for line in lines.lines() {
        assert_accepts(&validator, &parsed(line), "a line of --jsonl");
    }
    // Questions whose options read the same once they are cut.
    let many = folder.path().join("many.json");
    let labels: json::Value = (0..20).map(|i| format!("{}{i}", "the same long label ".repeat(3))).collect();
    let question = format!(r#"{{"type": "choice", "instructions": "?", "criteria": {}}}"#, labels.dumps());
    fs::write(&many, format!(r#"{{"id": 7, "state": "s", "questions": {{"q": {question}}}}}"#)).unwrap();
    let response = parsed(&tool(&["-f"], many));
    assert!(response["usage"]["options"]["q"].is_object(), "{}", response["usage"]);
    assert_accepts(&validator, &response, "collapsed options");
}
