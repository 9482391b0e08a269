//! What a model is calibrated by before a fit.

use crate::calibrate::Identity;
use crate::cli::stderr;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::File;
use crate::json::{Object, Value};
use crate::request::QuestionType;
use crate::spec::{Calibration, Given, Layout, Spec};

use super::TOOL;

/// A spec without a calibration: under it a model has the temperatures it stores.
const SILENT: &[u8] = br#"{"spec_version": 1, "layout": "laya"}"#;

/// The calibration in force for the model in `file`: that of the spec `given`, else of the spec in the file, else the
/// temperatures the file stores; the first that is not bound to another model, numeric contract or kernels. What is passed
/// over is said.
///
/// # Errors
/// None can be read.
pub(super) fn calibration(file: &File, given: &Given) -> Result<Calibration> {
    // Without a text it is the file's own.
    let own = given.text.is_some().then_some(None);
    for text in [given.text.clone()].into_iter().chain(own).chain([Some(SILENT.to_vec())]) {
        let strict = Given { text, allow_mismatch: false, kernels: None, ..given.clone() };
        let error = match Engine::spec_of(file, &strict) {
            Ok(applied) => return Ok(applied.calibration().clone()),
            Err(error) if error.kind() == ErrorKind::Spec => error,
            Err(error) => return Err(error),
        };
        // One that does not load for another reason is an error of its own.
        let lenient = Given { allow_mismatch: true, kernels: given.kernels, ..strict };
        say_dropped(Engine::spec_of(file, &lenient)?.calibration(), error.message());
    }
    Ok(Calibration::default())
}

/// The calibration of `base`, if it has one that holds for the model of `identity`; else `of_logits`.
pub(super) fn of_logits(base: Option<&Spec>, identity: &Identity, of_logits: &Calibration) -> Calibration {
    let Some((base, calibration)) = base.and_then(|base| Some((base, base.calibration()?))) else {
        return of_logits.clone();
    };
    let fitted = base.fitted();
    let other = fitted.and_then(|fitted| {
        let model = fitted.model_sha256.as_ref().filter(|bound| **bound != identity.model_sha256);
        let contract = fitted.numeric_contract.filter(|bound| *bound != identity.numeric_contract);
        model.cloned().or(contract.map(|bound| format!("numeric contract {bound}")))
    });
    match other {
        None => calibration.clone(),
        Some(other) => {
            say_dropped(calibration, &format!("it was fitted on another model, {other}"));
            of_logits.clone()
        }
    }
}

/// Says of every entry of `calibration` that it is not carried over.
fn say_dropped(calibration: &Calibration, why: &str) {
    for kind in QuestionType::ALL.into_iter().map(Some).chain([None]) {
        if let Some(entry) = calibration.entry(kind) {
            let name = kind.map_or("all", QuestionType::as_str);
            stderr::note(TOOL, &format!("{name}: the temperatures {} are not carried over: {why}", shown(entry)));
        }
    }
}

fn shown(entry: Object) -> String {
    Value::Object(entry).dumps()
}

/// `base` for models of the laya layout, which are all this tool runs.
///
/// # Errors
/// It is for another one.
pub(super) fn check_layout(base: &Spec) -> Result<()> {
    let layout = base.contract().layout;
    if layout == Layout::Laya {
        return Ok(());
    }
    let message = format!("is {:?}; logits come from models of the layout \"laya\"", layout.as_str());
    Err(Error::new(ErrorKind::Spec, message).at_path("layout"))
}
