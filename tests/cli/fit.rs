//! `fit-router-calibration temperatures`: labelled data in, a calibration out.

use crate::fixture::{model, parsed, run};
use laya::calibrate::LogitFile;
use laya::engine::{Engine, Options, Prepared};
use laya::gguf::File;
use laya::json::Value;
use laya::readout::softmax;
use laya::request::{Limits, QuestionType, Request};
use laya::spec;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The temperature the truths are drawn with.
const KNOWN: f64 = 1.7;
const N_RECORDS: usize = 500;

fn fit(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fit-router-calibration"));
    command.arg("temperatures").args(arguments).env("LAYA_MODEL", "").env("LAYA_ISA", "");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A linear congruential generator; its high bits are the good ones.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }

    fn words(&mut self, n: usize) -> Vec<&'static str> {
        const WORDS: [&str; 16] = [
            "billing", "refund", "parcel", "late", "broken", "thanks", "password", "locked", "invoice", "charge",
            "cancel", "order", "address", "urgent", "email", "phone",
        ];
        (0..n).map(|_| WORDS[(self.unit() * 16.0) as usize]).collect()
    }
}

/// Requests, and how many options their questions have.
fn bodies() -> Vec<Value> {
    let mut random = Random(20_240_717);
    (0..N_RECORDS)
        .map(|i| {
            let mut questions = Vec::new();
            for n_options in [3, 4, 7, 12] {
                let labels: Vec<_> =
                    random.words(n_options).iter().enumerate().map(|(i, w)| format!("{w} {i}")).collect();
                let (labels, words) = (labels.iter().map(String::as_str).collect::<Value>(), random.words(2).join(" "));
                questions.push(format!(
                    r#""c{n_options}": {{"type": "choice", "instructions": "{words}", "criteria": {}}}"#,
                    labels.dumps()
                ));
            }
            questions.push(format!(r#""n": {{"type": "noul", "instructions": "{}"}}"#, random.words(2).join(" ")));
            let (state, questions) = (random.words(6).join(" "), questions.join(", "));
            parsed(&format!(r#"{{"id": "r{i}", "state": "{state}", "questions": {{{questions}}}}}"#))
        })
        .collect()
}

/// Data whose truths are drawn from the softmax of the model's own logits over [`KNOWN`].
fn labelled() -> &'static Path {
    static DATA: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    &DATA
        .get_or_init(|| {
            let engine = Engine::open(model(), &Options { n_threads: Some(1), ..Options::default() }).unwrap();
            let bodies = bodies();
            let prepare = |body: &Value| -> Prepared {
                engine.prepare(Request::parse_within(body, &Limits::default()).unwrap()).unwrap()
            };
            let answered = engine.answer_prepared(bodies.iter().map(prepare).collect());
            let mut random = Random(1);
            let mut text = String::new();
            for (body, answered) in bodies.iter().zip(answered) {
                let mut labels = laya::json::Object::new();
                for result in answered.response.unwrap().questions {
                    let mut at = random.unit();
                    let p = softmax(&result.logits.options, KNOWN);
                    let drawn = p.iter().position(|p| {
                        at -= p;
                        at < 0.0
                    });
                    labels.insert(result.id, result.answer.labels[drawn.unwrap_or(p.len() - 1)].clone());
                }
                let mut line = body.as_object().unwrap().clone();
                line.insert("labels", labels);
                text.push_str(&Value::Object(line).dumps());
                text.push('\n');
            }
            let folder = tempfile::tempdir().unwrap();
            let data = folder.path().join("data.jsonl");
            fs::write(&data, text).unwrap();
            (folder, data)
        })
        .1
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_temperature_the_truths_were_drawn_with_is_found_and_bound_to_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let shown = |name: &str| path(name).to_str().unwrap().to_owned();
    let (data, model_path) = (labelled().to_str().unwrap(), model().to_str().unwrap());
    let (report, spec_out, logits) = (shown("report.json"), shown("spec.json"), shown("logits.jsonl"));
    let (code, stdout, stderr) = run(
        fit(&[data, "-m", model_path, "-t", "1", "-o", &report, "--spec-out", &spec_out, "--logits-out", &logits]),
        b"",
    );
    assert_eq!(code, Some(0), "{stderr}");
    let block = parsed(&stdout);
    let temperature = |kind: &str| {
        let entry = block.get("temperature").and_then(|types| types.get(kind)).unwrap();
        entry.get("*").and_then(Value::as_f64).unwrap()
    };
    let fitted_of = |kind: &str| {
        let group =
            parsed(&text(&path("report.json"))).get("types").unwrap().get(kind).unwrap().get("*").unwrap().clone();
        group.get("fitted").unwrap().get("temperature").and_then(Value::as_f64).unwrap()
    };
    let (choice, noul) = (fitted_of("choice"), fitted_of("noul"));
    println!("T of choice {choice}, of noul {noul}, known {KNOWN}");
    assert!((noul / KNOWN - 1.0).abs() < 0.2 && temperature("noul") == noul, "{noul} {stderr}");
    // The model's own 5 is far off for noul; its 1.25 for choice is not, so only that of many options is bettered.
    assert!((choice / KNOWN - 1.0).abs() < 0.1 && temperature("choice") == 1.25, "{choice} {stderr}");
    assert!(stderr.contains("note: choice *: T = 1.79") && stderr.contains("it uses 1.2500\n"), "{stderr}");
    let many = block.get("temperature").and_then(|types| types.get("choice")?.get("11+")?.as_f64()).unwrap();
    assert!((many / KNOWN - 1.0).abs() < 0.1, "{many}");
    // There is no data of score, so the model's own stays.
    assert_eq!(temperature("score"), 0.90625);
    assert!(stderr.contains("note: score: no labelled questions; it keeps what is in force, T = 0.9062"), "{stderr}");
    let report_json = parsed(&text(&path("report.json")));
    let before = report_json.get("in_force").and_then(|own| own.get("temperature")).unwrap();
    assert_eq!(before.dumps(), r#"{"choice": {"*": 1.25}, "score": {"*": 0.90625}, "noul": {"*": 5.0}}"#);

    // Bound to the data, the model file and the engine.
    let data_sha256: String = Sha256::digest(fs::read(data).unwrap()).iter().map(|b| format!("{b:02x}")).collect();
    let fitted = block.get("fitted").unwrap();
    let bound = |key: &str| fitted.get(key).unwrap().dumps().replace('"', "");
    assert_eq!(bound("data_sha256"), data_sha256);
    assert_eq!(bound("model_sha256"), spec::model_sha256(&File::open(model()).unwrap()).unwrap());
    assert_eq!(
        [bound("kernels"), bound("numeric_contract"), bound("plan"), bound("recipe")],
        ["default", "1", "packed", "f32"]
    );
    let n: usize = bound("n_fit").parse::<usize>().unwrap() + bound("n_eval").parse::<usize>().unwrap();
    assert_eq!(n, N_RECORDS * 5);
    assert!(block.get("version").and_then(Value::as_str).unwrap().starts_with("fit-"));
    assert_eq!(fitted.get("options").and_then(|o| o.get("heldout_frac")).and_then(Value::as_f64), Some(0.3));

    // The spec loads, and is the calibration and the pin more than the default one.
    assert_eq!(spec::check(text(&path("spec.json")).as_bytes()), []);
    let written = parsed(&text(&path("spec.json")));
    assert_eq!(written.get("calibration"), Some(&block));
    assert_eq!(written.get("plan").and_then(|plan| plan.get("kernels")).and_then(Value::as_str), Some("default"));
    let command = format!("gguf-spec set {model_path} {spec_out}");
    assert!(stderr.trim_end().ends_with(&command), "{stderr}");
    for header in
        ["verdict", "NLL in force", "gain over T in force", "ECE in force", ">= 0.95", "also decided what is used"]
    {
        assert!(stderr.contains(header), "{header}: {stderr}");
    }

    // Eight threads, and the logits without the model, give the same bytes.
    let (again, from_logits) = (shown("again.json"), shown("from-logits.json"));
    let (code, second, _) = run(fit(&[data, "-m", model_path, "-t", "8", "-o", &again]), b"");
    assert_eq!((code, second.as_str()), (Some(0), stdout.as_str()));
    let (code, third, stderr) = run(fit(&["--logits", &logits, "-t", "8", "-o", &from_logits]), b"");
    assert_eq!((code, third.as_str()), (Some(0), stdout.as_str()), "{stderr}");
    let first = text(&path("report.json"));
    assert_eq!((text(&path("again.json")), text(&path("from-logits.json"))), (first.clone(), first.clone()));
    assert_eq!(parsed(&first).get("calibration"), Some(&block));
    let file = LogitFile::parse(&fs::read(path("logits.jsonl")).unwrap()).unwrap();
    assert!(file.records.len() == N_RECORDS && file.records.iter().all(|record| record.questions.len() == 5));
    assert_eq!(file.records[0].questions[4].kind, QuestionType::Noul);

    // Logits of two runs are none of one.
    let lines = text(&path("logits.jsonl")).replacen("\"packed\"", "\"sequential\"", 1);
    fs::write(path("mixed.jsonl"), lines).unwrap();
    let (code, stdout, stderr) = run(fit(&["--logits", &shown("mixed.jsonl")]), b"");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("mixed.jsonl: line 2: engine {") && stderr.contains("the logits of one run"), "{stderr}");
    // A spec of another model is not made.
    let other = shown("other.gguf");
    fs::copy(model(), &other).unwrap();
    let mut bytes = fs::read(&other).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&other, bytes).unwrap();
    let (code, _, stderr) = run(fit(&["--logits", &logits, "-m", &other, "--spec-out", &shown("no.json")]), b"");
    assert!(code == Some(1) && stderr.contains("other.gguf: is not the model of the logits"), "{stderr}");
    assert!(!path("no.json").exists());
}

/// Lines with a noul question each, whose truths are those of `truth`.
fn lines(n: usize, truth: impl Fn(usize) -> bool) -> String {
    let line = |i: usize| {
        let question = r#"{"type": "noul", "instructions": "Paid?"}"#;
        let (truth, split) = (truth(i), if i.is_multiple_of(2) { "fit" } else { "eval" });
        format!(
            r#"{{"id": {i}, "state": "number {i}", "questions": {{"paid": {question}}}, "labels": {{"paid": {truth}}}, "split": "{split}"}}"#
        )
    };
    (0..n).map(|i| line(i) + "\n").collect()
}

#[test]
fn a_wrong_line_is_named_and_may_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.jsonl");
    // The second cannot be run: its options do not fit.
    let wrong = "{\"state\": 1\n{\"state\": \"s\", \"questions\": {\"q\": {\"type\": \"noul\", \"instructions\": \"?\"}}, \"labels\": {\"q\": true}, \"max_len\": 3}\n";
    fs::write(&data, format!("{}{wrong}", lines(40, |i| i % 3 == 0))).unwrap();
    let data = data.to_str().unwrap();
    let logits = folder.path().join("logits.jsonl");
    let keep = ["--logits-out", logits.to_str().unwrap(), "--min-examples", "10", "--min-eval", "10"];
    let model = ["-m", model().to_str().unwrap(), "-t", "1"];
    let (code, stdout, stderr) = run(fit(&[&[data], &model[..], &keep].concat()), b"");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("data.jsonl: line 41: column ") && !stderr.contains("line 42"), "{stderr}");
    assert!(stderr.contains("1 of 42 lines are wrong; correct them, or leave them out: --on-error skip"), "{stderr}");
    assert!(!logits.exists());

    let (_, _, stderr) = run(fit(&[&[data, "--on-error", "skip"], &model[..], &keep].concat()), b"");
    for line in [41, 42] {
        assert!(stderr.contains(&format!("note: left out: {data}: line {line}: ")), "{stderr}");
    }
    let file = LogitFile::parse(&fs::read(&logits).unwrap()).unwrap();
    assert_eq!((file.data.n_records, file.data.n_failed, file.records.len()), (40, 2, 40));
    // Alone the last one is met only when it is run.
    let (_, second) = wrong.split_once('\n').unwrap();
    // And so are all others of its kind, before any is.
    let text = format!("{}{second}{second}", lines(40, |i| i % 3 == 0));
    let (code, _, stderr) = run(fit(&[&["-"], &model[..], &keep[2..]].concat()), text.as_bytes());
    assert_eq!(code, Some(1));
    for says in ["line 41: questions.q", "line 42: questions.q", "2 of 42 lines cannot be run; correct them, or"] {
        assert!(stderr.contains(&format!("standard input: {says}")), "{stderr}");
    }
}

#[test]
fn a_refusal_and_a_bad_output_touch_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    fs::write(&report, "mine").unwrap();
    let data = folder.path().join("data.jsonl");
    fs::write(&data, lines(60, |_| true)).unwrap();
    let (shown, model) = (|path: &Path| path.to_str().unwrap().to_owned(), model().to_str().unwrap());
    let (report_path, data_path) = (shown(&report), shown(&data));
    let few = ["--min-examples", "10", "--min-eval", "10", "-t", "1"];
    let (code, stdout, stderr) = run(fit(&[&[&*data_path, "-m", model, "-o", &report_path], &few[..]].concat()), b"");
    assert_eq!((code, stdout.as_str(), text(&report).as_str()), (Some(1), "", "mine"));
    assert!(stderr.contains("error: noul: the truth of all 30 questions to fit on is \"true\";"), "{stderr}");
    // Too little is said before the model is even looked for.
    let (code, _, stderr) = run(fit(&[&data_path, "-m", "missing.gguf", "--min-eval", "31"]), b"");
    assert!(code == Some(1) && stderr.contains("noul: 30 labelled questions held out, 31 are needed"), "{stderr}");
    for arguments in [
        vec![&*data_path, "-m", model, "-o", &data_path],
        vec![&*data_path, "-m", model, "-o", model],
        vec![&*data_path, "-m", model, "-o", &report_path, "--spec-out", &report_path],
    ] {
        let (code, _, stderr) = run(fit(&[&arguments[..], &few].concat()), b"");
        assert_eq!(code, Some(64), "{stderr}");
    }
    assert_eq!((text(&report).as_str(), text(&data)), ("mine", lines(60, |_| true)));
}

#[test]
fn no_output_is_the_model_whatever_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.jsonl");
    fs::write(&data, lines(60, |i| i % 3 == 0)).unwrap();
    let (own, logits) = (folder.path().join("own.gguf"), folder.path().join("logits.jsonl"));
    fs::copy(model(), &own).unwrap();
    let few = ["--min-examples", "10", "--min-eval", "10", "-t", "1"];
    let (own_path, logits_path) = (own.to_str().unwrap(), logits.to_str().unwrap());
    let arguments = [data.to_str().unwrap(), "-m", own_path, "--logits-out", logits_path];
    let (_, _, stderr) = run(fit(&[&arguments[..], &few].concat()), b"");
    assert!(logits.exists(), "{stderr}");
    let before = fs::read(&own).unwrap();
    for output in [&["--spec-out"][..], &["-o"], &["-o", logits_path, "--spec-out"]] {
        let arguments = ["--logits", logits_path, "-m", own_path];
        let (code, _, stderr) = run(fit(&[&arguments[..], output, &[own_path], &few].concat()), b"");
        assert_eq!(code, Some(64), "{stderr}");
        assert!(stderr.contains("is to be read and written; name another output"), "{stderr}");
    }
    let (code, _, stderr) =
        run(fit(&[&[arguments[0], "-m", own_path, "--logits-out", own_path], &few[..]].concat()), b"");
    assert_eq!(code, Some(64), "{stderr}");
    assert_eq!(fs::read(&own).unwrap(), before);
    // What is named by the environment is read too.
    let mut command = fit(&["--logits", logits_path, "-o", own_path]);
    command.env("LAYA_MODEL", &own);
    assert_eq!(run(command, b"").0, Some(64));
    // A checkpoint's own files are no outputs either.
    fs::write(folder.path().join("config.json"), "{}").unwrap();
    let (checkpoint, config) = (folder.path().to_str().unwrap(), folder.path().join("config.json"));
    let arguments = ["--logits", logits_path, "-m", checkpoint, "-o", config.to_str().unwrap()];
    assert_eq!(run(fit(&arguments), b"").0, Some(64));
    assert_eq!(text(&config), "{}");
}

#[test]
fn a_stamped_model_answers_with_the_fitted_temperatures_and_a_fit_of_it_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let shown = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (own, spec_out, again) = (shown("own.gguf"), shown("spec.json"), shown("again.json"));
    fs::copy(model(), &own).unwrap();
    let data = labelled().to_str().unwrap();
    let (code, stdout, stderr) = run(fit(&[data, "-m", &own, "-t", "1", "--spec-out", &spec_out]), b"");
    assert_eq!(code, Some(0), "{stderr}");
    let calibration = spec::Calibration::from_json(&parsed(&stdout)).unwrap();
    let mut set = Command::new(env!("CARGO_BIN_EXE_gguf-spec"));
    set.args(["set", &own, &spec_out]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    assert_eq!(run(set, b"").0, Some(0));

    let mut ask = Command::new(env!("CARGO_BIN_EXE_laya-cli"));
    ask.args(["-m", &own, "--unrounded", "-f", "-"]).env("LAYA_ISA", "");
    ask.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (code, answered, stderr) = run(ask, bodies()[0].dumps().as_bytes());
    assert_eq!(code, Some(0), "{stderr}");
    let answered = parsed(&answered);
    let runtime = answered.get("runtime").unwrap();
    // The plan of the fit, and not that of the default spec.
    assert_eq!(runtime.get("plan").and_then(Value::as_str), Some("packed"));
    assert_eq!(runtime.get("calibration").and_then(Value::as_str), calibration.version());
    let questions = answered.get("per_question").and_then(Value::as_object).unwrap();
    assert_eq!(questions.len(), 5);
    for (id, question) in questions.iter() {
        let logits = question.get("raw_logits").and_then(Value::as_array).unwrap();
        let logits: Vec<f32> = logits.iter().map(|z| z.as_f64().unwrap() as f32).collect();
        let kind = if id == "n" { QuestionType::Noul } else { QuestionType::Choice };
        let p = softmax(&logits, calibration.temperature(kind, logits.len()));
        let answer = answered.get("answers").and_then(|all| all.get(id)).unwrap();
        if kind == QuestionType::Noul {
            assert_eq!(answer.get("noul").and_then(Value::as_f64), Some(p[1]));
        } else {
            let printed = answer.get("probabilities").and_then(Value::as_object).unwrap();
            assert_eq!(printed.values().map(|p| p.as_f64().unwrap()).collect::<Vec<_>>(), p, "{id}");
        }
    }

    let (code, _, stderr) = run(fit(&[data, "-m", &own, "-t", "1", "--spec-out", &again]), b"");
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(text(Path::new(&again)), text(Path::new(&spec_out)));
}

#[test]
fn a_base_spec_holds_for_the_run_and_is_checked_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.json");
    let out = folder.path().join("out.json");
    let run_with = |text: &str, rest: &[&str]| {
        fs::write(&base, text).unwrap();
        let arguments = [labelled().to_str().unwrap(), "-m", model().to_str().unwrap(), "--types", "noul"];
        let spec = ["-t", "1", "--spec", base.to_str().unwrap(), "--spec-out", out.to_str().unwrap()];
        run(fit(&[&arguments[..], &spec, rest].concat()), b"")
    };
    let (code, stdout, stderr) = run_with(r#"{"spec_version": 1, "layout": "semif-letters"}"#, &[]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("base.json: layout: ") && !out.exists(), "{stderr}");

    // A base that holds for this model: its entries stay, and its plan is the one the logits are of.
    let of = |hash: &str| {
        format!(
            r#"{{"spec_version": 1, "layout": "laya", "plan": {{"name": "sequential"}}, "calibration": {{
            "method": "temperature", "temperature": {{"choice": {{"3-5": 1.5}}, "score": 1.25, "all": 3.0}},
            "fitted": {{"model_sha256": "{hash}"}}}}}}"#
        )
    };
    let own = spec::model_sha256(&File::open(model()).unwrap()).unwrap();
    let (code, stdout, stderr) = run_with(&of(&own), &[]);
    assert_eq!(code, Some(0), "{stderr}");
    let block = parsed(&stdout);
    let temperatures = block.get("temperature").unwrap();
    assert_eq!(temperatures.get("choice").unwrap().dumps(), r#"{"3-5": 1.5}"#);
    assert_eq!(temperatures.get("score").unwrap().dumps(), r#"{"*": 1.25}"#);
    assert_eq!(block.get("fitted").and_then(|f| f.get("plan")).and_then(Value::as_str), Some("sequential"));
    for note in ["score: not fitted; it keeps what is in force, T = 1.2500", "choice: not fitted; it keeps"] {
        assert!(stderr.contains(note), "{stderr}");
    }

    // One that was fitted on another model: the model's own temperatures are in force, and what is dropped is said.
    let (code, stdout, stderr) = run_with(&of(&"0".repeat(64)), &[]);
    assert_eq!(code, Some(0), "{stderr}");
    let block = parsed(&stdout);
    assert_eq!(block.get("temperature").and_then(|t| t.get("score")).unwrap().dumps(), r#"{"*": 0.90625}"#);
    for name in ["choice", "score", "all"] {
        assert!(stderr.contains(&format!("note: {name}: the temperatures {{")), "{name}: {stderr}");
    }
    assert!(stderr.contains("are not carried over: is 000"), "{stderr}");
}

#[test]
fn leaks_between_the_splits_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.jsonl");
    let text = lines(60, |i| i % 3 == 0).replace("number 7\"", "number 8\"").replace("\"id\": 20,", "\"id\": 10,");
    fs::write(&data, text).unwrap();
    let arguments = ["-m", model().to_str().unwrap(), "--min-examples", "10", "--min-eval", "10", "-t", "1"];
    let (_, _, stderr) = run(fit(&[&[data.to_str().unwrap()], &arguments[..]].concat()), b"");
    assert!(stderr.contains("note: leakage: 1 states are in several splits, such as that of lines 8, 9;"), "{stderr}");
    assert!(
        stderr.contains("note: 1 ids are those of more than one record, such as \"10\" (lines 11 and 21)"),
        "{stderr}"
    );
}

#[test]
fn a_base_spec_keeps_its_keys_and_may_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("spec.json");
    fs::write(
        &base,
        r#"{"model_id": "m", "spec_version": 1, "layout": "laya", "calibration": null, "confidence": "max_p"}"#,
    )
    .unwrap();
    let base_path = base.to_str().unwrap();
    let arguments = ["--types", "choice", "--all-buckets", "-m", model().to_str().unwrap(), "-t", "1"];
    let outputs = ["--spec", base_path, "--spec-out", base_path];
    let (code, stdout, stderr) = run(fit(&[&[labelled().to_str().unwrap()], &arguments[..], &outputs].concat()), b"");
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(spec::check(text(&base).as_bytes()), []);
    let spec = parsed(&text(&base));
    let keys: Vec<_> = spec.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model_id", "spec_version", "layout", "calibration", "confidence", "plan"]);
    let block = parsed(&stdout);
    assert_eq!(spec.get("calibration"), Some(&block));
    let types = block.get("temperature").and_then(Value::as_object).unwrap();
    assert_eq!(types.keys().collect::<Vec<_>>(), ["choice"]);
    let buckets: Vec<_> = types.get("choice").and_then(Value::as_object).unwrap().keys().collect();
    // Every bucket there is enough data for was asked for.
    assert_eq!(buckets, ["3-5", "6-10", "11+", "*"]);
}
