//! The engine of this library as a backend.

use super::identity::{CorpusIdentity, Kind, Model, Runtime};
use super::run::Backend;
use super::values::values_sha256;
use super::{Build, Host, Identity, Item, ItemRecord, Outcome, QuestionRecord, Refusal};
use crate::engine::{Engine, Plan, QuestionResult};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::File;
use crate::json::Value;
use crate::kernels::NUMERIC_CONTRACT;
use crate::request::{Limits, Request};
use crate::spec::{Kernels, file_sha256};

/// Items whose rows may share passes; the model bounds the tokens of a pass.
const PACKED_ITEMS: usize = 8;

/// An engine that answers items in this process.
#[derive(Debug)]
pub struct Local {
    engine: Engine,
}

impl Local {
    /// The backend that `engine` is.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// What it is: the run of `build` with the model in `file`, whose matrices are stored as `weights` says, over `corpus`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn identity(&self, file: &File, weights: &str, build: Build, corpus: CorpusIdentity) -> Result<Identity> {
        let Self { engine } = self;
        let runtime = Runtime {
            backend: "cpu".into(),
            device: Some("cpu".into()),
            kernels: Some(Kernels::Default.as_str().into()),
            isa: Some(engine.instruction_set().name().into()),
            plan: Some(engine.plan().as_str().into()),
            n_threads: Some(engine.n_threads() as u64),
            numeric_contract: Some(NUMERIC_CONTRACT.into()),
            // Whatever a matrix is stored as, products are of float32 with float32.
            activations: Some("f32".into()),
            calibration: engine.calibration().version().map(str::to_owned),
            spec_sha256: Some(engine.spec().spec().sha256()),
        };
        let model = Model::of(file, weights)?;
        Ok(Identity { kind: Kind::Engine, host: Host::here(), build, model, corpus, runtime })
    }
}

impl Model {
    /// The model in `file`, whose matrices are stored as `weights` says.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(file: &File, weights: &str) -> Result<Self> {
        let text = |key: &str| file.str(key).ok().flatten().map(str::to_owned);
        // A converter puts the name of a snapshot's folder, which is its commit, into one of these.
        let names = ["general.name", "general.basename", "general.finetune"].into_iter().filter_map(text);
        let revision = names.map(|name| name.to_ascii_lowercase()).find(|name| is_commit(name));
        let in_file = file.path().and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            name: text("general.name").or(in_file).unwrap_or_else(|| "model".into()),
            sha256: Some(file_sha256(file, &mut |_, _| {})?),
            values_sha256: values_sha256(file)?,
            architecture: text("general.architecture"),
            weights: weights.to_owned(),
            revision,
        })
    }
}

/// Whether `text` is a commit as the published checkpoints are named by.
fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Backend for Local {
    fn batch_items(&self) -> usize {
        match self.engine.plan() {
            Plan::Packed => PACKED_ITEMS,
            Plan::Sequential => 1,
        }
    }

    fn answer(&self, items: &[&Item]) -> Result<Vec<ItemRecord>> {
        let prepare = |item: &&Item| -> Result<_> {
            let request = Request::take(item.body.clone(), &Limits::default())?;
            self.engine.prepare(request)
        };
        let (mut prepared, mut refused) = (Vec::new(), Vec::new());
        for item in items {
            match prepare(item) {
                Ok(request) => {
                    prepared.push(request);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(error)),
            }
        }
        let mut answered = self.engine.answer_prepared(prepared).into_iter();
        let record = |(item, refused): (&&Item, Option<Error>)| {
            let outcome = match refused {
                Some(error) => Err(error),
                // There is one for each request that was not refused.
                None => answered.next().map_or(Ok(Vec::new()), |answered| Ok(answered.response?.questions)),
            };
            let outcome = match outcome {
                Ok(questions) => Outcome::of(item, questions.into_iter().map(QuestionRecord::from).collect()),
                Err(error) if error.kind() == ErrorKind::Request => {
                    Outcome::Refused(Refusal::of(item, error.placed_message()))
                }
                Err(error) => Outcome::Failed(error.placed_message()),
            };
            ItemRecord { id: item.id.clone(), outcome }
        };
        Ok(items.iter().zip(refused).map(record).collect())
    }
}

impl From<QuestionResult> for QuestionRecord {
    fn from(result: QuestionResult) -> Self {
        let answer = match result.answer.to_json() {
            Value::Object(answer) => Some(answer),
            _ => None,
        };
        let act_logits = result.logits.act;
        Self {
            id: result.id,
            kind: result.kind,
            ids: Some(result.sequence.ids),
            markers: Some(result.sequence.markers),
            logits: Some(result.logits.options),
            // A model without an act head gives none.
            act_logits: (!act_logits.is_empty()).then_some(act_logits),
            answer,
        }
    }
}
