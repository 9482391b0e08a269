//! What identify says about the spec of a file, and whether this toolbox would run the file with it.

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::gguf::File;
use crate::json::{Object, Value};
use crate::kernels::NUMERIC_CONTRACT;
use crate::layout;
use crate::spec::{self, Calibration, Given, Problem, Spec};
use crate::tokenizer::Tokenizer;

/// Where a spec says which model its calibration was fitted on.
const FITTED_MODEL: &str = "calibration.fitted.model_sha256";

/// Whether a file says how it must be used.
pub(super) enum Stamp {
    /// It does not.
    Absent,
    /// It does. Where it says which model its calibration was fitted on: whether that is this one.
    Valid(Box<Spec>, Option<FittedOn>),
    /// It does, in a way that is refused.
    Invalid(Vec<String>),
}

/// Which model a calibration was fitted on that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FittedOn {
    This,
    Another,
    Unchecked,
}

impl FittedOn {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::This => "this model",
            Self::Another => "another model",
            Self::Unchecked => "not checked",
        }
    }
}

impl Stamp {
    /// The spec of `file`. If this toolbox otherwise `reads` the file, also what no inventory shows and keeps it from that:
    /// hyperparameters, vocabulary and spec. Tensor data is looked at only to `hash` it.
    pub(super) fn of(file: &File, reads: bool, hash: bool) -> (Self, Vec<Error>) {
        let mut stamp = Self::read(file);
        if !reads {
            return (stamp, Vec::new());
        }
        let vocabulary = check_vocabulary(file).err();
        let skips = !hash && stamp.only_the_model_is_open();
        let used = Engine::spec_of(file, &Given { allow_mismatch: skips, ..Given::default() }).err();
        if let Self::Valid(_, Some(fitted_on)) = &mut stamp
            && !skips
        {
            *fitted_on = match used.as_ref().map(Error::place) {
                None => FittedOn::This,
                Some(Some(Place::JsonPath(path))) if path == FITTED_MODEL => FittedOn::Another,
                // Something else came first.
                Some(_) => FittedOn::Unchecked,
            };
        }
        (stamp, used.map(in_key).into_iter().chain(vocabulary).collect())
    }

    fn read(file: &File) -> Self {
        let text = match file.string(spec::KEY) {
            Ok(None) => return Self::Absent,
            Ok(Some(text)) => text,
            Err(error) => return Self::Invalid(vec![error.placed_message()]),
        };
        let problems = spec::check(text);
        if !problems.is_empty() {
            return Self::Invalid(problems.iter().map(Problem::to_string).collect());
        }
        match Spec::embedded(file) {
            Ok(Some(spec)) => {
                let says = spec.fitted().is_some_and(|fitted| fitted.model_sha256.is_some());
                Self::Valid(Box::new(spec), says.then_some(FittedOn::Unchecked))
            }
            Ok(None) => Self::Absent,
            // Keys beside the spec that disagree with it.
            Err(error) => Self::Invalid(vec![error.placed_message()]),
        }
    }

    /// Whether nothing but the tensor data can tell if the calibration was fitted on what this build computes here.
    fn only_the_model_is_open(&self) -> bool {
        let Self::Valid(spec, Some(_)) = self else { return false };
        let contract = spec.fitted().and_then(|fitted| fitted.numeric_contract);
        contract.is_none_or(|contract| contract == NUMERIC_CONTRACT)
    }

    /// Whether the temperatures that the model itself stores are not those in use.
    pub(super) fn overrides(&self) -> bool {
        matches!(self, Self::Valid(spec, _) if spec.calibration().is_some())
    }

    pub(super) fn to_json(&self) -> Object {
        let mut out = Object::new();
        match self {
            Self::Absent => {
                out.insert("state", "unstamped");
            }
            Self::Invalid(problems) => {
                out.insert("state", "invalid");
                out.insert("problems", problems.iter().map(String::as_str).collect::<Value>());
            }
            Self::Valid(spec, fitted_on) => {
                let facts = SpecFacts::of(spec);
                out.insert("state", "stamped");
                out.insert("sha256", spec.sha256());
                out.insert("model_id", facts.model_id);
                out.insert("model_version", facts.version);
                out.insert("calibration", facts.calibration);
                out.insert("calibration_version", facts.calibration_version);
                out.insert("fitted_on", fitted_on.map(FittedOn::as_str));
            }
        }
        out
    }
}

/// What of a spec is told of a file.
pub(super) struct SpecFacts<'a> {
    pub(super) model_id: Option<&'a str>,
    pub(super) version: Option<&'a str>,
    /// The method, or that the spec has no calibration of its own.
    pub(super) calibration: &'static str,
    pub(super) calibration_version: Option<&'a str>,
}

impl<'a> SpecFacts<'a> {
    pub(super) fn of(spec: &'a Spec) -> Self {
        let calibration = spec.calibration();
        Self {
            model_id: spec.contract().model_id.as_deref(),
            version: spec.contract().model_version.as_deref(),
            calibration: match calibration {
                None => "the model's own",
                Some(calibration) if calibration.is_calibrated() => "temperature",
                Some(_) => "none",
            },
            calibration_version: calibration.and_then(Calibration::version),
        }
    }
}

/// The vocabulary, which the inventory does not see.
fn check_vocabulary(file: &File) -> Result<()> {
    let view = layout::read(file)?;
    Tokenizer::from_gguf(view.file()).map(|_| ()).map_err(|error| view.in_own_names(error))
}

/// An error about the spec with the key that holds it, among those about other keys.
fn in_key(error: Error) -> Error {
    match error.place() {
        Some(Place::Key(_)) => error,
        _ if error.kind() == ErrorKind::Spec => Error::new(error.kind(), error.placed_message()).at_key(spec::KEY),
        _ => error,
    }
}
