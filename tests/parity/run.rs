//! Runs of the engine and of a server: the same records whatever computes them, and what becomes of faults.

use crate::{mock, tiny};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::mock::{Answer, Asked};
use laya::convert::Outtype;
use laya::engine::{Engine, Options, Plan};
use laya::error::{Error, ErrorKind};
use laya::gguf::File;
use laya::json::{self, Object, Value};
use laya::kernels::InstructionSet;
use laya::parity::{
    Build, Corpus, CorpusIdentity, Endpoint, Existing, Identity, Item, ItemRecord, Local, Model, Outcome, Run,
    RunWriter, Said, Server, generator, run,
};
use laya::request::{Limits, Request};

/// Every ninth item of the corpus, and the one that is refused.
fn items() -> Vec<Item> {
    let (refused, accepted): (Vec<_>, Vec<_>) = generator::items().into_iter().partition(Item::has_null_state);
    assert_eq!(refused.len(), 1);
    accepted.into_iter().step_by(9).chain(refused).collect()
}

fn options(n_threads: usize, isa: InstructionSet, plan: Plan) -> Options {
    Options { n_threads: Some(n_threads), isa: Some(isa), plan: Some(plan), ..Options::default() }
}

/// The lines of the records of a run.
fn lines(backend: &dyn laya::parity::Backend, items: &[Item], jobs: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let items: Vec<_> = items.iter().collect();
    run(backend, &items, jobs, |record| {
        lines.push(record.to_line());
        Ok(())
    })
    .unwrap();
    lines
}

/// What a server of this library answers: answers with what they were read off under `debug`.
fn respond(engine: &Engine, asked: &Asked) -> Answer {
    if asked.path == "/props" {
        let props = r#"{"build_info": "test 1", "decision": {"device": "cpu", "kernels": "default", "plan": {"name": "packed", "n_threads": 1}, "numeric_contract": 1, "activations": "f32"}}"#;
        return Answer::json(json::parse(props.as_bytes()).unwrap());
    }
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/systemone"));
    let response = Request::take(asked.json(), &Limits::default())
        .map_err(Error::from)
        .and_then(|request| engine.answer(&request));
    let response = match response {
        Ok(response) => response,
        Err(error) => {
            let mut fault = Object::new();
            let place = error.place().map_or_else(String::new, |place| format!("{place}: "));
            fault.insert("message", format!("{place}{}", error.message()));
            let mut body = Object::new();
            body.insert("error", fault);
            return Answer::status(400, body);
        }
    };
    let mut answers = Object::new();
    for result in response.questions {
        let numbers = |logits: &[f32]| logits.iter().copied().map(f64::from).collect::<Value>();
        let mut debug = Object::new();
        debug.insert("tokens", result.sequence.ids.into_iter().collect::<Value>());
        debug.insert("markers", result.sequence.markers.into_iter().collect::<Value>());
        debug.insert("logits", numbers(&result.logits.options));
        debug.insert("act_logits", numbers(&result.logits.act));
        let mut answer = result.answer.to_json().as_object().unwrap().clone();
        answer.insert("debug", debug);
        answers.insert(result.id, answer);
    }
    let mut body = Object::new();
    body.insert("answers", answers);
    Answer::json(body)
}

#[test]
fn records_have_the_same_bits_whatever_computes_them() {
    let folder = tempfile::tempdir().unwrap();
    let items = items();
    for family in tiny::FAMILIES {
        let model = tiny::gguf(family, Outtype::Q8_0Mixed, folder.path());
        let base = Local::new(Engine::open(&model, &options(1, InstructionSet::widest(), Plan::Packed)).unwrap());
        let expected = lines(&base, &items, 1);
        assert_eq!(expected.len(), items.len());
        assert_eq!(expected.iter().filter(|line| line.contains("\"refused\"")).count(), 1, "{family}");
        assert!(!expected.iter().any(|line| line.contains("\"failed\"")), "{family}");
        for isa in InstructionSet::available() {
            for (n_threads, plan, jobs) in [(2, Plan::Packed, 1), (1, Plan::Sequential, 3)] {
                // Software multiply-adds take their time; their bits are compared on fewer items.
                let n = if isa.is_emulated() { items.len().min(3) } else { items.len() };
                let backend = Local::new(Engine::open(&model, &options(n_threads, isa, plan)).unwrap());
                assert_eq!(lines(&backend, &items[..n], jobs), expected[..n], "{family}, {}", isa.name());
            }
        }
        let engine = Engine::open(&model, &options(1, InstructionSet::widest(), Plan::Packed)).unwrap();
        let server = mock::Server::start(move |asked| respond(&engine, asked));
        let backend = Server::new(Endpoint::new(&server.url()).unwrap()).unwrap();
        assert_eq!(lines(&backend, &items, 2), expected, "{family}, over HTTP");
    }
}

fn corpus_identity(items: &[Item]) -> CorpusIdentity {
    CorpusIdentity {
        sha256: "0".repeat(64),
        subset: "all".into(),
        n_items: items.len() as u64,
        n_questions: items.iter().map(|item| item.n_questions() as u64).sum(),
    }
}

fn build() -> Build {
    Build { version: "1".into(), sha256: None, source_sha256: None }
}

#[test]
fn an_interrupted_run_ends_as_it_would_have() {
    let folder = tempfile::tempdir().unwrap();
    let items = &items()[..20];
    let model = tiny::gguf("tiny-mmbert", Outtype::F32, folder.path());
    let backend = Local::new(tiny::engine(&model));
    let file = File::open(&model).unwrap();
    let identity = backend.identity(&file, "f32", build(), corpus_identity(items)).unwrap();
    assert_eq!(identity.model.sha256.as_ref().map(String::len), Some(64));
    let record = |path: &Path, existing: Existing, most: usize| {
        let mut writer = RunWriter::open(path, &identity, existing).unwrap();
        let rest: Vec<_> = items[writer.n_items()..].iter().collect();
        let outcome = run(&backend, &rest, 1, |record: ItemRecord| {
            if writer.n_items() == most {
                return Err(Error::new(ErrorKind::Io, "pulled the plug"));
            }
            writer.put(&record)
        });
        outcome.and_then(|()| writer.finish())
    };
    let (whole, parts) = (folder.path().join("whole.jsonl"), folder.path().join("parts.jsonl"));
    record(&whole, Existing::Keep, usize::MAX).unwrap();
    for most in [0, 7, 13] {
        let existing = if most == 0 { Existing::Keep } else { Existing::Resume };
        assert_eq!(record(&parts, existing, most).unwrap_err().message(), "pulled the plug");
        assert!(Run::read(&parts).unwrap_err().to_string().contains("is no finished run"));
    }
    record(&parts, Existing::Resume, usize::MAX).unwrap();
    assert_eq!(std::fs::read(&whole).unwrap(), std::fs::read(&parts).unwrap());
    let read = Run::read(&whole).unwrap();
    assert_eq!((read.items.len(), &read.identity), (20, &identity));
}

#[test]
fn weights_are_known_by_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let values = |outtype: Outtype| {
        let model = tiny::gguf("tiny-mmbert", outtype, folder.path());
        Model::of(&File::open(&model).unwrap(), outtype.as_str()).unwrap()
    };
    let (f32, q8_0) = (values(Outtype::F32), values(Outtype::Q8_0));
    // By scripts/parity_reference.py, of the checkpoint.
    let checkpoint = "f40611e2088868dc316619991c95a72bec7d6e6945f8b1f1ca471d80a7bc6b0b";
    assert_eq!(f32.values_sha256.as_deref(), Some(checkpoint));
    assert_ne!(q8_0.values_sha256, f32.values_sha256);
    assert_ne!(q8_0.sha256, f32.sha256);
}

fn noul_item() -> Item {
    let line = br#"{"id": "a", "state": "s", "questions": {"q": {"type": "noul", "instructions": "?"}}}"#;
    Corpus::parse(line).unwrap().items.remove(0)
}

fn ask(server: &mock::Server) -> Result<ItemRecord, Error> {
    let mut records = Vec::new();
    let backend = Server::new(Endpoint::new(&server.url())?)?;
    run(&backend, &[&noul_item()], 1, |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records.remove(0))
}

#[test]
fn what_a_server_gets_wrong_is_in_the_record() {
    for (status, body, says) in [
        (500, r#"{"detail": "inference failed"}"#, "status 500: inference failed"),
        (500, "<html>no</html>", "status 500"),
        (408, r#"{"error": "too slow"}"#, "status 408: too slow"),
        (413, r#"{"error": "too large"}"#, "status 413: too large"),
        (200, "[]", "the response has no answers"),
        (200, r#"{"answers": {}}"#, "it does not answer \"q\""),
        (200, r#"{"answers": {"p": {"type": "noul", "noul": 0.5}}}"#, "it answers \"p\", which was not asked"),
        (
            200,
            r#"{"answers": {"q": {"type": "noul", "debug": {"markers": [1, 1]}}}}"#,
            "markers two options have the same",
        ),
        (
            200,
            r#"{"answers": {"q": {"type": "noul", "debug": {"markers": [1, 2], "logits": [0.5]}}}}"#,
            "logits are 1 for 2 markers",
        ),
        (200, r#"{"answers": {"q": 3}}"#, "answers.q: must be an object"),
        (200, r#"{"answers": {"q": {"type": "maybe"}}}"#, "answers.q.type: must be choice"),
        (200, r#"{"answers": {"q": {"type": "noul", "debug": {"logits": [1e999]}}}}"#, "is not JSON"),
        (200, r#"{"answers": {"q": {"type": "noul", "debug": {"logits": [1e300]}}}}"#, "answers.q.debug.logits: must"),
        (200, r#"{"answers": {"q": {"type": "noul", "debug": {"tokens": [-1]}}}}"#, "answers.q.debug.tokens: must"),
    ] {
        let server = mock::Server::start(move |_| Answer::Body(status, body.into()));
        let said = match ask(&server) {
            Ok(ItemRecord { outcome: Outcome::Failed(message), .. }) => message,
            Ok(record) => panic!("{record:?}"),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(says), "{said}");
    }
    let server = mock::Server::start(|_| Answer::Body(422, br#"{"error": {"message": "too long"}}"#.to_vec()));
    let Outcome::Refused(refusal) = ask(&server).unwrap().outcome else { panic!("not refused") };
    assert_eq!((refusal.message.as_str(), refusal.null_state), ("too long", false));
    assert_eq!(refusal.n_questions, Some(1));
    let nothing = r#"{"answers": {"q": {"type": "noul", "noul": 0.5, "debug": {"logits": [], "act_logits": []}}}}"#;
    let server = mock::Server::start(|_| Answer::Body(200, nothing.into()));
    let Outcome::Answered(questions) = ask(&server).unwrap().outcome else { panic!("not answered") };
    assert_eq!((&questions[0].logits, &questions[0].act_logits), (&None, &None));
}

#[test]
fn a_busy_server_is_asked_again_and_a_wrong_one_stops_the_run() {
    let n = Arc::new(AtomicUsize::new(0));
    let server = mock::Server::start({
        let n = Arc::clone(&n);
        move |asked| match asked.path.as_str() {
            // Neither this nor what a proxy says is JSON.
            "/props" => Answer::Body(404, b"no such route".to_vec()),
            _ => match n.fetch_add(1, Ordering::SeqCst) {
                0 => Answer::status(503, "busy"),
                1 => Answer::Body(502, b"<html>bad gateway</html>".to_vec()),
                _ => Answer::json(json::parse(br#"{"answers": {"q": {"type": "noul", "noul": 0.5}}}"#).unwrap()),
            },
        }
    });
    let Outcome::Answered(questions) = ask(&server).unwrap().outcome else { panic!("not answered") };
    assert_eq!((questions.len(), n.load(Ordering::SeqCst)), (1, 3));
    assert!(questions[0].logits.is_none() && questions[0].ids.is_none(), "it did not tell");

    // Asked as often as it may be busy, and not once less.
    let server = mock::Server::start(|_| Answer::status(504, "no upstream"));
    let error = ask(&server).unwrap_err().to_string();
    assert!(error.contains("the server stays busy (status 504: \"no upstream\")"), "{error}");
    assert_eq!(server.asked().iter().filter(|asked| asked.method == "POST").count(), 8);

    let server = mock::Server::start(|_| Answer::status(404, "no such route"));
    let error = ask(&server).unwrap_err().to_string();
    assert!(error.contains("/v1/systemone: status 404"), "{error}");
    let error = Server::new(Endpoint::new(&mock::Server::nobody()).unwrap()).unwrap_err().to_string();
    assert!(error.contains("connection refused"), "{error}");
}

#[test]
fn a_server_says_what_it_is_and_is_not_contradicted() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny::gguf("tiny-mmbert", Outtype::F16, folder.path());
    let engine = tiny::engine(&model);
    let server = mock::Server::start(move |asked| respond(&engine, asked));
    let backend = Server::new(Endpoint::new(&server.url()).unwrap()).unwrap();
    let identity = |said: &Said| -> Result<Identity, Error> {
        let model = Model::of(&File::open(&model).unwrap(), "f16").unwrap();
        backend.identity(model, corpus_identity(&[noul_item()]), said)
    };
    let told = identity(&Said::default()).unwrap();
    assert_eq!((told.build.version.as_str(), told.runtime.backend.as_str()), ("test 1", "cpu"));
    assert_eq!((told.runtime.numeric_contract, told.runtime.n_threads), (Some(1), Some(1)));
    assert_eq!(told.runtime.activations.as_deref(), Some("f32"));
    let agreeing = Said { activations: Some("f32".into()), ..Said::default() };
    assert_eq!(identity(&agreeing).unwrap(), told);
    let lying = Said { activations: Some("q8_0".into()), ..Said::default() };
    let error = identity(&lying).unwrap_err().to_string();
    assert!(error.contains("--activations is \"q8_0\", but the server says \"f32\""), "{error}");
}

#[test]
fn the_device_and_the_precision_say_what_computed() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny::gguf("tiny-mmbert", Outtype::F32, folder.path());
    let model = Model::of(&File::open(&model).unwrap(), "f32").unwrap();
    let told = |decision: &str, said: &Said| {
        let props = format!("{{\"decision\": {decision}}}");
        let server = mock::Server::start(move |_| Answer::Body(200, props.clone().into_bytes()));
        let backend = Server::new(Endpoint::new(&server.url()).unwrap()).unwrap();
        let identity = backend.identity(model.clone(), corpus_identity(&[noul_item()]), said)?;
        Ok::<_, Error>((identity.runtime.backend, identity.runtime.kernels.unwrap_or_default()))
    };
    for (decision, backend, kernels) in [
        (r#"{"device": "CUDA0", "plan": {"kernels": "cuda", "precision": "strict"}}"#, "cuda", "strict"),
        (r#"{"device": "CUDA1", "plan": {"kernels": "cuda", "precision": "default"}}"#, "cuda", "cuda"),
        (r#"{"device": "MTL0", "kernels": "metal"}"#, "metal", "metal"),
        (r#"{"device": "Vulkan0", "precision": "strict"}"#, "vulkan", "strict"),
        (r#"{"device": "cpu", "plan": {"kernels": "cpu+blas", "precision": "strict"}}"#, "cpu", "cpu+blas"),
        (r#"{"device": "NPU0"}"#, "unknown", ""),
    ] {
        let found = told(decision, &Said::default()).unwrap();
        assert_eq!((found.0.as_str(), found.1.as_str()), (backend, kernels), "{decision}");
    }
    let said = Said { kernels: Some("strict".into()), ..Said::default() };
    let error = told(r#"{"device": "CUDA0", "plan": {"kernels": "cuda"}}"#, &said).unwrap_err().to_string();
    assert!(error.contains("--server-kernels is \"strict\", but the server says \"cuda\""), "{error}");
}

#[test]
fn a_run_with_a_failed_item_is_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny::gguf("tiny-mmbert", Outtype::F32, folder.path());
    let corpus = folder.path().join("corpus.jsonl");
    let item = |id: &str| {
        format!(r#"{{"id": "{id}", "state": "{id}", "questions": {{"q": {{"type": "noul", "instructions": "?"}}}}}}"#)
    };
    std::fs::write(&corpus, [item("a"), item("b"), item("c")].join("\n")).unwrap();
    let is_broken = Arc::new(AtomicUsize::new(1));
    let server = mock::Server::start({
        let is_broken = Arc::clone(&is_broken);
        move |asked| match asked.path.as_str() {
            "/props" => Answer::status(404, "no"),
            _ if asked.json().get("state").and_then(Value::as_str) == Some("b")
                && is_broken.load(Ordering::SeqCst) == 1 =>
            {
                Answer::status(500, "out of memory")
            }
            _ => Answer::json(json::parse(br#"{"answers": {"q": {"type": "noul", "noul": 0.5}}}"#).unwrap()),
        }
    });
    let output = folder.path().join("run.jsonl");
    let parity_gate = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_parity-gate"));
        command.arg("run").arg(&corpus).arg("-m").arg(&model).arg("-o").arg(&output);
        let output = command.args(["--server", &server.url()]).args(more).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, stderr) = parity_gate(&[]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("the backend failed at 1 item; --resume goes on from the first of them"), "{stderr}");
    assert!(Run::read(&output).unwrap_err().to_string().contains("is no finished run"));
    is_broken.store(0, Ordering::SeqCst);
    let (code, stderr) = parity_gate(&["--resume"]);
    assert_eq!(code, Some(0), "{stderr}");
    let run = Run::read(&output).unwrap();
    assert!(run.items.iter().all(|item| matches!(item.outcome, Outcome::Answered(_))), "{stderr}");
    // Of three items, then of the failed one and what follows.
    assert_eq!(server.asked().iter().filter(|asked| asked.method == "POST").count(), 5);
}
