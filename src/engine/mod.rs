//! Load once, answer requests: the only door to request, sequence, model and readout.
//!
//! ```text
//! request --prepare--> rows of tokens --answer_prepared, with the rows of other requests--> response
//! ```
//!
//! [`Engine::answer`] does both for one request. Both halves may run at the same time on different threads.

mod answer;
mod plan;

pub use answer::{Answered, Prepared, QuestionResult, Response};
pub use plan::{PASS_TOKENS, Plan};

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::File;
use crate::kernels::topology::default_threads;
use crate::kernels::{InstructionSet, NUMERIC_CONTRACT, Threads};
use crate::layout;
use crate::model::{Config, Model};
use crate::request::{Question, QuestionType, Reason, Request, RequestError, Truncation};
use crate::sequence::{self, Budget, QuestionCache, Sequence, StateTokens};
use crate::spec::{Applied, Calibration, Given, Source, Stored};
use crate::tokenizer::Tokenizer;

/// Longest row a request may ask for, unless the model itself has longer ones: bounds the memory of a pass.
pub const LONGEST_ROW: usize = 8192;

/// How an engine computes, none of which changes a bit of a logit, and the spec it reads answers off them by.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Threads; when not given, one for each performance core, see [`default_threads`].
    pub n_threads: Option<usize>,
    /// Instruction set; the widest of the processor when not given.
    pub isa: Option<InstructionSet>,
    /// Which rows share a pass; when not given, what the spec says, and [`Plan::default`] if nobody wrote it one.
    pub plan: Option<Plan>,
    /// What is said about the model's spec. Without a model id there the default spec calls the model as its file is
    /// called.
    pub spec: Given,
}

/// Memory for the tokens of questions that may come again.
const QUESTION_CACHE_BYTES: usize = 2 << 20;

/// The spec of the model in `file`, whose hyperparameters are `config`.
fn applied(file: &File, config: &Config, given: &Given) -> Result<Applied> {
    let by_options = config.temperature_by_options.iter();
    let by_options: Vec<_> = by_options.map(|(name, temperature)| (name.clone(), f64::from(*temperature))).collect();
    let stored = Stored { temperature: config.temperature.map(f64::from), by_options: &by_options };
    let mut given = given.clone();
    if given.model_id.is_empty() {
        given.model_id = file.path().map_or_else(|| "model".into(), name_of);
    }
    Applied::find(file, &stored, &given, NUMERIC_CONTRACT)
}

/// What a model is called whose spec has no name for it: its file's name, without the folder and a trailing `.gguf`.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".gguf").unwrap_or(&name).to_owned()
}

/// Reads the GGUF at `path`, and says what to do with a checkpoint directory.
fn open_file(path: &Path) -> Result<File> {
    if path.is_dir() {
        let message =
            "is a directory; convert the checkpoint first: laya-convert DIR -o model.gguf, then -m model.gguf";
        return Err(Error::new(ErrorKind::Unsupported, message).in_file(path));
    }
    File::open(path)
}

/// A loaded model with its tokenizer and its spec.
#[derive(Debug)]
pub struct Engine {
    tokenizer: Tokenizer,
    questions: QuestionCache,
    model: Model,
    spec: Applied,
    plan: Plan,
}

impl Engine {
    /// Loads the GGUF at `path`.
    ///
    /// # Errors
    /// The file cannot be read or is not a usable decision model, or may not be used with its spec; the error names file
    /// and key, tensor or JSON path.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        Self::from_gguf(&open_file(path)?, options).map_err(|error| error.in_file(path))
    }

    /// The tokenizer of the decision model at `path`, without its weights.
    ///
    /// # Errors
    /// As [`Engine::open`], as far as the hyperparameters and the vocabulary go.
    pub fn open_tokenizer(path: &Path) -> Result<Tokenizer> {
        let file = open_file(path)?;
        let view = layout::read(&file)?;
        // Another model's file may hold a vocabulary too; only that of a decision model is one a row is made with.
        let tokenizer = Config::from_gguf(view.file()).and_then(|_| Tokenizer::from_gguf(view.file()));
        tokenizer.map_err(|error| view.in_own_names(error).in_file(path))
    }

    /// The spec by which the decision model in `file` would be used, without its weights.
    ///
    /// # Errors
    /// As [`Engine::open`], as far as the hyperparameters and the spec go.
    pub fn spec_of(file: &File, given: &Given) -> Result<Applied> {
        let view = layout::read(file)?;
        let config = Config::from_gguf(view.file()).map_err(|error| view.in_own_names(error))?;
        applied(file, &config, given)
    }

    /// Loads a GGUF that was read already.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn from_gguf(file: &File, options: &Options) -> Result<Self> {
        let view = layout::read(file)?;
        Self::load(view.file(), file, options).map_err(|error| view.in_own_names(error))
    }

    /// Loads `file`, a view in the laya layout of the file `original`.
    fn load(file: &File, original: &File, options: &Options) -> Result<Self> {
        // The model first: its errors say most about a file of another kind.
        let threads = Threads::new(options.n_threads.unwrap_or_else(default_threads))?;
        let parallel = threads.count() > 1;
        let load = move || Model::load(file, options.isa.unwrap_or_else(InstructionSet::widest), threads);
        let (model, tokenizer) = if parallel {
            std::thread::scope(|scope| {
                // The vocabulary takes one thread about as long as the weights take all of them.
                let tokenizer = scope.spawn(|| Tokenizer::from_gguf(file));
                (load(), tokenizer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            })
        } else {
            (load(), Tokenizer::from_gguf(file))
        };
        let (model, tokenizer) = (model?, tokenizer?);
        let config = model.config();
        if tokenizer.special().mask != config.marker_token {
            let message =
                format!("is {}, but the vocabulary's mask token is {}", config.marker_token, tokenizer.special().mask);
            return Err(Error::new(ErrorKind::Model, message).at_key("laya.marker_token_id"));
        }
        if tokenizer.n_tokens() as usize > config.n_vocab {
            let message =
                format!("has {} tokens, more than the {} embedding rows", tokenizer.n_tokens(), config.n_vocab);
            return Err(Error::new(ErrorKind::Model, message).at_key("tokenizer.ggml.tokens"));
        }
        let given = Given { n_threads: options.n_threads, ..options.spec.clone() };
        let spec = applied(original, config, &given)?;
        let pinned = spec.contract().plan.as_deref().filter(|_| spec.source() != Source::Default);
        let plan = match (options.plan, pinned) {
            (Some(plan), _) => plan,
            (None, Some(name)) => name.parse()?,
            (None, None) => Plan::default(),
        };
        let questions = QuestionCache::new(QUESTION_CACHE_BYTES);
        Ok(Self { tokenizer, questions, model, spec, plan })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        self.model.config()
    }

    /// The model under the tokens.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The temperatures in use.
    pub fn calibration(&self) -> &Calibration {
        self.spec.calibration()
    }

    /// The spec in force.
    pub fn spec(&self) -> &Applied {
        &self.spec
    }

    /// The model's own token budget.
    pub fn budget(&self) -> Budget {
        Budget { max_len: self.config().max_len, head_max_len: self.config().head_max_len }
    }

    /// The instruction set in use.
    pub fn instruction_set(&self) -> InstructionSet {
        self.model.instruction_set()
    }

    /// The threads in use.
    pub fn n_threads(&self) -> usize {
        self.model.n_threads()
    }

    /// The plan in use.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// The rows of a request, one a question.
    ///
    /// # Errors
    /// A question's options do not fit the budget, the budget is out of range, something was cut in a request that
    /// forbids it, or a question has more options or a row more tokens than the spec allows.
    pub fn rows(&self, request: &Request) -> Result<Vec<Sequence>> {
        if request.questions.is_empty() {
            return Ok(Vec::new());
        }
        let budget = self.budget().overridden_by(request.budget);
        let longest = LONGEST_ROW.max(self.config().max_len);
        if budget.max_len > longest {
            let message = format!("max_len {} is more than the {longest} tokens a row may have", budget.max_len);
            return Err(RequestError::new(Reason::InvalidRequest, "max_len", message).into());
        }
        let state = StateTokens::new(&self.tokenizer, request);
        let mut rows = Vec::with_capacity(request.questions.len());
        for question in &request.questions {
            self.check_options(question)?;
            let tokens = self.questions.tokens(&self.tokenizer, question);
            let row = sequence::assemble(&self.tokenizer, question, &tokens, &state, budget)?;
            if request.truncation == Truncation::Error {
                row.require_whole(question)?;
            }
            self.check_tokens(question, row.ids.len())?;
            rows.push(row);
        }
        Ok(rows)
    }

    /// Refuses more options than the spec allows, or than it has temperatures for.
    fn check_options(&self, question: &Question) -> Result<(), RequestError> {
        let (n, kind) = (question.options.len(), question.kind);
        // The two options of a noul question are not the request's choice.
        let most = self.spec.contract().max_options.filter(|_| kind != QuestionType::Noul).map(|most| most as usize);
        let why = match most {
            Some(most) if n > most => format!("{n} options are more than the {most} this model's spec allows"),
            _ if self.calibration().lacks(kind, n) => format!(
                "this model's spec requires a calibration and has no temperature for {} with {n} options",
                kind.as_str()
            ),
            _ => return Ok(()),
        };
        let message = format!("question {}: {why}", question.shown_id());
        Err(RequestError::new(Reason::TooManyOptions, question.path(""), message))
    }

    /// Refuses a row of more tokens than the spec allows.
    fn check_tokens(&self, question: &Question, n_tokens: usize) -> Result<(), RequestError> {
        match self.spec.contract().max_prompt_tokens.map(|most| most as usize) {
            Some(most) if most > 0 && n_tokens > most => {
                let id = question.shown_id();
                let message = format!(
                    "question {id}: its row of {n_tokens} tokens is longer than the {most} this model's spec allows"
                );
                Err(RequestError::new(Reason::PromptTooLong, question.path(""), message))
            }
            _ => Ok(()),
        }
    }
}
