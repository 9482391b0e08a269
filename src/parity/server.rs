//! A server over HTTP as a backend: `POST /v1/systemone`, and `GET /props` for what it is.

use std::time::Duration;

use super::identity::{CorpusIdentity, Kind, Model, Runtime};
use super::run::Backend;
use super::{Build, Endpoint, Host, Identity, Item, ItemRecord, Outcome, QuestionRecord, Refusal};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::request::QuestionType;

/// How often a server that is busy, or not there behind its proxy, is asked until the run stops: it can go on later.
const BUSY_TRIES: u32 = 8;

/// The first pause when a server is busy; each is twice the one before.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// A server that answers items.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    props: Value,
}

/// What a server does not say about itself and its user knows.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// What computes.
    pub backend: Option<String>,
    /// The device.
    pub device: Option<String>,
    /// The kernels.
    pub kernels: Option<String>,
    /// Type of the activations in matrix products.
    pub activations: Option<String>,
}

impl Server {
    /// The server at `endpoint`, which is asked what it is.
    ///
    /// # Errors
    /// It cannot be reached. That it does not say what it is, is no error.
    pub fn new(endpoint: Endpoint) -> Result<Self> {
        // Any answer will do: some servers have no such route, and say so without JSON.
        let props = match endpoint.try_get("/props")? {
            (200, Ok(body)) => body,
            _ => Value::Null,
        };
        Ok(Self { endpoint, props })
    }

    /// The path of the model file it says it serves.
    pub fn model_path(&self) -> Option<&str> {
        self.props.get("model_path")?.as_str()
    }

    /// What it is: the run of `model` over `corpus`, with `said` where it does not say it itself.
    ///
    /// # Errors
    /// `said` contradicts it.
    pub fn identity(&self, model: Model, corpus: CorpusIdentity, said: &Said) -> Result<Identity> {
        let decision = self.props.get("decision");
        let plan = decision.and_then(|decision| decision.get("plan"));
        let text = |from: Option<&Value>, key: &str| from?.get(key)?.as_str().map(str::to_owned);
        let count = |from: Option<&Value>, key: &str| from?.get(key)?.as_u64();
        let backend = text(decision, "backend").or_else(|| backend_of(&text(decision, "device")?).map(str::to_owned));
        let backend = agreed("backend", backend, &said.backend)?.unwrap_or_else(|| "unknown".into());
        // Kernels, precision and threads are parts of the plan on some servers.
        let in_plan = |key: &str| text(decision, key).or_else(|| text(plan, key));
        // The processor ignores the precision that is asked for; on a device it is what chooses the kernels.
        let is_strict = backend != "cpu" && in_plan("precision").as_deref() == Some("strict");
        let kernels = if is_strict { Some("strict".to_owned()) } else { in_plan("kernels") };
        let runtime = Runtime {
            backend,
            device: agreed("device", text(decision, "device"), &said.device)?,
            kernels: agreed("server-kernels", kernels, &said.kernels)?,
            isa: text(decision, "isa"),
            plan: text(plan, "name").or_else(|| text(decision, "plan")),
            n_threads: count(plan, "n_threads").or_else(|| count(decision, "n_threads")),
            numeric_contract: count(decision, "numeric_contract"),
            activations: agreed("activations", text(decision, "activations"), &said.activations)?,
            calibration: text(decision.and_then(|decision| decision.get("calibration")), "version"),
            spec_sha256: text(decision, "spec_sha256").filter(|hash| crate::spec::is_sha256(hash)),
        };
        let version = match self.props.get("build_info") {
            Some(Value::String(info)) => info.clone(),
            Some(info) if !info.is_null() => info.dumps_compact(),
            _ => "unknown".into(),
        };
        let build = Build { version, sha256: None, source_sha256: None };
        // A server on this machine is what is meant to be asked; another is where its user says it is.
        Ok(Identity { kind: Kind::Server, host: Host::here(), build, model, corpus, runtime })
    }

    fn ask(&self, item: &Item) -> Result<Outcome> {
        let mut pause = BUSY_PAUSE;
        let mut n_tries = 0;
        loop {
            let (status, body) = self.endpoint.try_post("/v1/systemone", &item.body)?;
            let said = match &body {
                Ok(body) => message(body),
                Err(error) => error.message().to_owned(),
            };
            n_tries += 1;
            match status {
                200 => {
                    return Ok(answered(&body?).map_or_else(Outcome::Failed, |questions| Outcome::of(item, questions)));
                }
                429 | 502..=504 if n_tries < BUSY_TRIES => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                429 | 502..=504 => {
                    let message = format!(
                        "{}: the server stays busy (status {status}: {said}); go on later by --resume, with fewer --jobs",
                        self.endpoint.url()
                    );
                    return Err(Error::new(ErrorKind::Endpoint, message));
                }
                401 | 403 | 404 | 405 => {
                    let message = format!("{}/v1/systemone: status {status}: {said}", self.endpoint.url());
                    return Err(Error::new(ErrorKind::Endpoint, message));
                }
                // Only these are about what was asked; others are about how, or about the server.
                400 | 422 => return Ok(Outcome::Refused(Refusal::of(item, said))),
                _ => return Ok(Outcome::Failed(format!("status {status}: {said}"))),
            }
        }
    }
}

/// What computes on a device of this name, such as `CUDA0`.
fn backend_of(device: &str) -> Option<&'static str> {
    match device.trim_end_matches(|c: char| c.is_ascii_digit()).to_ascii_lowercase().as_str() {
        "cpu" => Some("cpu"),
        "cuda" => Some("cuda"),
        "mtl" | "metal" => Some("metal"),
        "vulkan" => Some("vulkan"),
        _ => None,
    }
}

/// What the server and its user say of `what`, which must not contradict each other.
fn agreed(what: &str, server: Option<String>, user: &Option<String>) -> Result<Option<String>> {
    match (server, user) {
        (Some(server), Some(user)) if server != *user => {
            let message = format!("--{what} is {user:?}, but the server says {server:?}");
            Err(Error::new(ErrorKind::Usage, message))
        }
        (server, user) => Ok(server.or_else(|| user.clone())),
    }
}

/// What a failing server says.
fn message(body: &Value) -> String {
    let error = body.get("error");
    let text = error.and_then(|error| error.get("message")).or(error).or_else(|| body.get("detail"));
    match text {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.dumps(),
        None => body.dumps(),
    }
}

/// The answers in a response; an error says what is wrong with it.
fn answered(body: &Value) -> Result<Vec<QuestionRecord>, String> {
    let answers = body.get("answers").and_then(Value::as_object).ok_or("the response has no answers")?;
    answers.iter().map(|(id, answer)| question(id, answer)).collect()
}

/// The answer to question `id`. What a server tells beside it is under `debug`.
fn question(id: &str, answer: &Value) -> Result<QuestionRecord, String> {
    let fault = |what: &str| format!("answers.{id}{what}");
    let mut answer: Object = answer.as_object().cloned().ok_or_else(|| fault(": must be an object"))?;
    let kind = answer.get("type").and_then(Value::as_str).and_then(QuestionType::from_name);
    let kind = kind.ok_or_else(|| fault(".type: must be choice, score or noul"))?;
    let debug = answer.remove("debug");
    let list = |key: &str| debug.as_ref()?.get(key)?.as_array();
    let wrong = |key: &str, what: &str| fault(&format!(".debug.{key}: must be {what}"));
    let logit = |value: &Value| value.as_f64().map(|x| x as f32).filter(|x| x.is_finite());
    // A server with nothing to tell may say so by an empty list.
    let told = |key: &str| list(key).filter(|values| !values.is_empty());
    let logits = |key: &str| all(told(key), logit).map_err(|()| wrong(key, "finite numbers"));
    let count = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    let counts = |key: &str| all(list(key), count).map_err(|()| wrong(key, "counts"));
    Ok(QuestionRecord {
        id: id.to_owned(),
        kind,
        ids: counts("tokens")?,
        markers: counts("markers")?,
        logits: logits("logits")?,
        act_logits: logits("act_logits")?,
        answer: Some(answer),
    })
}

/// What `read` makes of every value of a list, which may be missing; an error when it makes nothing of one.
fn all<T>(list: Option<&[Value]>, read: impl Fn(&Value) -> Option<T>) -> Result<Option<Vec<T>>, ()> {
    list.map(|values| values.iter().map(read).collect::<Option<_>>().ok_or(())).transpose()
}

impl Backend for Server {
    fn batch_items(&self) -> usize {
        1
    }

    fn answer(&self, items: &[&Item]) -> Result<Vec<ItemRecord>> {
        items.iter().map(|item| Ok(ItemRecord { id: item.id.clone(), outcome: self.ask(item)? })).collect()
    }
}
