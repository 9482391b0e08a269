//! The spec of a loaded model: which one holds, and whether it may.

use sha2::{Digest, Sha256};

use super::calibration::{LAYA_CLAMP, spelled};
use super::problem::must;
use super::{Calibration, Contract, Kernels, Layout, Problem, Spec, binding, hex};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::gguf::File;
use crate::json::{self, Object, Value};

/// The calibration version of temperatures that a model stores in keys of its own.
const STORED_VERSION: &str = "gguf:laya.temperature";

/// Where a spec came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A file given for the model.
    File,
    /// The model file.
    Gguf,
    /// The model was never stamped.
    Default,
}

impl Source {
    /// The name in the output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Gguf => "gguf",
            Self::Default => "default",
        }
    }
}

/// What whoever opens a model says about its spec.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// A spec to use instead of the one in the model, or a bare `calibration.json`.
    pub text: Option<Vec<u8>>,
    /// What the default spec calls the model.
    pub model_id: String,
    /// Kernels to use whatever the spec pins.
    pub kernels: Option<Kernels>,
    /// Use a calibration that was fitted on another model or under another numeric contract.
    pub allow_mismatch: bool,
    /// Threads to hash a model with that a calibration is bound to; those of the process when not given.
    pub n_threads: Option<usize>,
}

/// The numbers of a model file that its default spec is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored<'a> {
    /// Temperatures of choice, score and noul.
    pub temperature: [f64; 3],
    /// Temperatures by the published package's bucket names.
    pub by_options: &'a [(String, f64)],
}

/// The spec in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    spec: Spec,
    source: Source,
    calibration: Calibration,
}

impl Applied {
    /// Finds the spec of the model in `file`, whose own temperatures are `stored`, and checks that this build, under
    /// `numeric_contract`, may run the model with it.
    ///
    /// # Errors
    /// The spec breaks a rule; it is for models of another layout; its calibration was fitted on another model or under
    /// another numeric contract, or with kernels this build does not have. Each says what to do.
    pub fn find(file: &File, stored: &Stored<'_>, given: &Given, numeric_contract: u32) -> Result<Self> {
        let (spec, source) = match &given.text {
            Some(text) => (spec_or_sidecar(text, &given.model_id)?, Source::File),
            None => match Spec::embedded(file)? {
                Some(spec) => (spec, Source::Gguf),
                None => (Spec::default_for(stored, &given.model_id)?, Source::Default),
            },
        };
        check_binding(&spec, file, given, numeric_contract)?;
        // The default's is read as the published package reads it: with its filter, whose changes can be shown.
        let own = spec.calibration().filter(|_| source != Source::Default);
        let calibration = own.map_or_else(|| stored.calibration(), Calibration::clone);
        Ok(Self { spec, source, calibration })
    }

    /// The spec.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Where it came from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The temperatures in use.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Layout, contracts, limits and pins.
    pub fn contract(&self) -> &Contract {
        self.spec.contract()
    }
}

impl Stored<'_> {
    /// The temperatures as the published package uses them.
    fn calibration(&self) -> Calibration {
        match spelled(self.temperature, self.by_options) {
            None => Calibration::default(),
            Some(_) => Calibration::new(self.temperature, self.by_options.iter().cloned()).versioned(STORED_VERSION),
        }
    }
}

impl Spec {
    /// The spec of a model that was never stamped.
    ///
    /// # Errors
    /// `model_id` is too long for a spec.
    pub fn default_for(stored: &Stored<'_>, model_id: &str) -> Result<Self> {
        let calibration = match spelled(stored.temperature, stored.by_options) {
            None => calibration("none", false),
            Some(temperature) => temperatures(temperature, false, STORED_VERSION),
        };
        Self::parse(&default_text(calibration, model_id))
    }
}

/// The text of the default spec with this calibration, as Python's `json.dumps` writes it.
fn default_text(calibration: Object, model_id: &str) -> Vec<u8> {
    let mut fields = Object::new();
    fields.insert("spec_version", i64::from(super::VERSION));
    fields.insert("model_id", model_id);
    fields.insert("layout", Layout::Laya.as_str());
    fields.insert("input_contract", "laya-v1");
    fields.insert("special_tokens", "mask-to-space");
    fields.insert("calibration", calibration);
    fields.insert("confidence", "laya");
    fields.insert("plan", [("name", "sequential")].into_iter().collect::<Object>());
    fields.insert("router", Value::Null);
    Value::Object(fields).dumps().into_bytes()
}

fn calibration(method: &str, required: bool) -> Object {
    let (least, most) = LAYA_CLAMP;
    let mut calibration = Object::new();
    calibration.insert("method", method);
    calibration.insert("required", required);
    calibration.insert("clamp", [least, most].into_iter().collect::<Value>());
    calibration
}

fn temperatures(temperature: impl Into<Value>, required: bool, version: &str) -> Object {
    let mut calibration = calibration("temperature", required);
    calibration.insert("temperature", temperature.into());
    calibration.insert("version", version);
    calibration
}

/// A file given as a spec: one, or the bare `calibration.json` other tools write, which is `{"temperature": 1.3}` or
/// `{"temperature": {"choice": ..., ...}}` with perhaps a `version`. That stands for the default spec with these
/// temperatures, which are required to be complete.
fn spec_or_sidecar(text: &[u8], model_id: &str) -> Result<Spec> {
    let Ok(Value::Object(fields)) = json::parse(text) else { return Spec::parse(text) };
    let is_bare = !fields.contains_key("spec_version") && !fields.contains_key("layout");
    let Some(temperature) = fields.get("temperature").filter(|_| is_bare) else { return Spec::parse(text) };
    let one = matches!(temperature, Value::Number(_));
    let temperature = match temperature {
        Value::Number(_) => Value::Object([("all", temperature.clone())].into_iter().collect()),
        Value::Object(_) => temperature.clone(),
        other => {
            let message = must("a temperature, or an object of them by question type", other);
            return Err(Error::new(ErrorKind::Spec, message).at_path("temperature"));
        }
    };
    let version = match fields.get("version") {
        Some(Value::String(version)) => version.clone(),
        None | Some(Value::Null) => format!("cal-{}", hex(&Sha256::digest(text)).get(..12).unwrap_or_default()),
        Some(other) => {
            return Err(Error::new(ErrorKind::Spec, must("a text", other)).at_path("version"));
        }
    };
    let text = default_text(temperatures(temperature, true, &version), model_id);
    Spec::parse(&text).map_err(|error| match error.place() {
        // As the file has it.
        Some(Place::JsonPath(path)) => {
            let path = path.strip_prefix("calibration.").unwrap_or(path);
            let path = if one { "temperature" } else { path };
            Error::new(error.kind(), error.message()).at_path(path)
        }
        _ => error,
    })
}

/// Refuses a spec this build may not use for the model in `file`, as far as nobody overrides it.
fn check_binding(spec: &Spec, file: &File, given: &Given, numeric_contract: u32) -> Result<()> {
    if let Some(asked) = given.kernels.filter(|asked| !Kernels::HERE.contains(asked)) {
        let message = format!("this build has no kernels {:?}; it has \"default\"", asked.as_str());
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let refused = |problem: Problem, otherwise: &str| {
        let message = format!("{}. {otherwise}", problem.message);
        Err(Error::from(Problem { message, ..problem }))
    };
    let fields = spec.value();
    if let Some(problem) = binding::layout(fields, file) {
        return refused(problem, "Give it a spec of its own");
    }
    if let Some(problem) = binding::kernels(fields).filter(|_| given.kernels.is_none()) {
        return refused(problem, "Fit it again, or use it all the same with --kernels default");
    }
    if given.allow_mismatch {
        return Ok(());
    }
    let problem = match binding::contract(fields, numeric_contract) {
        None => binding::model(fields, file, given.n_threads)?,
        problem => problem,
    };
    match problem {
        None => Ok(()),
        Some(problem) => refused(problem, "Fit it again, or use it all the same with --allow-spec-mismatch"),
    }
}
