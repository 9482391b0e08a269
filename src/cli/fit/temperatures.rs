//! `fit-router-calibration temperatures`.

use super::data::{LabelledData, OnError, read_all};
use super::{TOOL, in_force, table};
use crate::calibrate::temperature::{self, Clamp, Options};
use crate::calibrate::{Fraction, Identity, LogitFile, leak};
use crate::cli::destination;
use crate::cli::engine::EngineArguments;
use crate::cli::exit::{Exit, Stop};
use crate::cli::input::Input;
use crate::cli::model::{ModelArguments, ModelFile};
use crate::cli::stderr;
use crate::cli::stdout::Stdout;
use crate::convert::Outtype;
use crate::engine::{self, Engine};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{File, write_atomic};
use crate::json::Value;
use crate::kernels::NUMERIC_CONTRACT;
use crate::request::QuestionType;
use crate::spec::{Calibration, Given, Kernels, Spec, model_sha256};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use std::path::{Path, PathBuf};

const LONG_ABOUT: &str = "\
Fits temperatures on labelled data: one a question type, and one a bucket of option counts (1-2,
3-5, 6-10, 11+) where held-out data says that it helps.

Each line of DATA is a request with the true answers: \"labels\" maps a question to its truth, for
choice the label as the criteria have it, for score the level's index or text, for noul true or
false. A question without a label is not used. \"id\" and \"split\" are optional; without a split a
hash of the id, or of the state, decides.

  {\"id\": \"r1\", \"state\": \"I was charged twice.\",
   \"questions\": {\"refund\": {\"type\": \"noul\", \"instructions\": \"Asks for money back?\"}},
   \"labels\": {\"refund\": true}}

The raw logits are computed here, with this model file; T minimises the negative log-likelihood of
the truths to fit on. A temperature is used when the 95 % interval of its gain on the held-out
records over what is in force for this model is above zero; otherwise, and for types that are not
fitted, what is in force stays. The calibration is printed as JSON, bound to the model file and the
data it was fitted on; it is not one for another file or quantization.

Records of the split \"fit\" are fitted on. Those of \"eval\" are held out, decide which temperatures
are used, and are the ones reported on: that flatters what was chosen by them. Records of \"test\",
which no hash gives, are used for nothing but a last report before and after.";

const EXAMPLES: &str = "\
Examples:
  fit-router-calibration temperatures data.jsonl -m model.gguf
  fit-router-calibration temperatures data.jsonl -m model.gguf --logits-out logits.jsonl
  fit-router-calibration temperatures --logits logits.jsonl --all-buckets -o report.json
  fit-router-calibration temperatures data.jsonl -m model.gguf --spec-out spec.json
  gguf-spec set model.gguf spec.json
";

/// Arguments of `fit-router-calibration temperatures`.
#[derive(Debug, clap::Args)]
#[command(about = "Fits temperatures by type and option count", long_about = LONG_ABOUT)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(super) struct Arguments {
    /// Labelled data, one JSON object a line (- for standard input)
    #[arg(value_name = "DATA", required_unless_present = "logits", conflicts_with = "logits")]
    data: Option<PathBuf>,
    /// Fit from logits that --logits-out wrote, without running a model
    #[arg(long, value_name = "FILE", conflicts_with_all = ["logits_out", "on_error"])]
    logits: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArguments,
    /// What to do about a line that is wrong: fail, or skip it and use the others
    #[arg(long, value_name = "ACTION", default_value = "fail")]
    on_error: OnError,
    #[command(flatten)]
    how: HowArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Fit")]
struct HowArguments {
    /// Question types to fit; others keep the temperatures in force
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',', default_value = "choice,score,noul")]
    #[arg(value_parser = kind())]
    types: Vec<QuestionType>,
    /// Temperatures between which an optimum must lie, and which are used at all
    #[arg(long, value_name = "LO,HI", default_value = "0.5,5.0", value_parser = clamp)]
    clamp: Clamp,
    /// Share of the records without a split that is held out
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = fraction)]
    heldout_frac: Fraction,
    /// Least questions to fit a type, or a bucket of its own, on
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    min_examples: u32,
    /// Least held-out questions to judge it on
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    min_eval: u32,
    /// Use every temperature there is enough data for, whether it helps on held-out data or not
    #[arg(long)]
    all_buckets: bool,
    /// Resamples of the intervals
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    bootstrap: u32,
    /// Seed of the resamples
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
struct OutputArguments {
    /// Write everything about the fit as JSON
    #[arg(short = 'o', long, value_name = "REPORT.json")]
    report: Option<PathBuf>,
    /// Write the raw logits, one record a line, to fit from again with --logits
    #[arg(long, value_name = "FILE")]
    logits_out: Option<PathBuf>,
    /// Write a whole decision.spec with the calibration, ready for gguf-spec set
    #[arg(long, value_name = "OUT.json")]
    spec_out: Option<PathBuf>,
    /// The spec to put it in, under which the model runs. Without it: the model file's own, else the
    /// default one
    #[arg(long, value_name = "BASE.json", requires = "spec_out")]
    spec: Option<PathBuf>,
}

fn kind() -> impl clap::builder::TypedValueParser<Value = QuestionType> {
    PossibleValuesParser::new(QuestionType::ALL.map(QuestionType::as_str))
        .try_map(|name| QuestionType::from_name(&name).ok_or("no such type"))
}

fn clamp(text: &str) -> Result<Clamp, String> {
    let ends = text.split_once(',').and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
    ends.and_then(|(low, high)| Clamp::new(low, high)).ok_or_else(|| {
        "it is two temperatures such as 0.5,5.0, the first from 0.001 to 1, the second from 1 to 1000".into()
    })
}

fn fraction(text: &str) -> Result<Fraction, String> {
    text.parse().ok().and_then(Fraction::new).ok_or_else(|| "it is a share above 0 and below 1, such as 0.3".into())
}

/// Fits, and says what came of it.
pub(super) fn fit(arguments: Arguments) -> Result<Exit, Stop> {
    let Arguments { data, logits, model, on_error, how, output, engine } = arguments;
    // No model may be found, and none may be needed.
    let named = model.name().ok();
    output.check([data.as_deref(), logits.as_deref(), named.as_deref()])?;
    let engine_options = engine.options()?;
    let options = Options {
        types: how.types,
        clamp: how.clamp,
        fraction: how.heldout_frac,
        min_examples: how.min_examples as usize,
        min_eval: how.min_eval as usize,
        n_resamples: how.bootstrap as usize,
        seed: how.seed,
        all_buckets: how.all_buckets,
        n_threads: engine_options.n_threads.unwrap_or(1),
    };
    let base = output.spec.as_deref().map(read_spec).transpose()?;
    let (logits, base, model) = match (data, logits) {
        (Some(data), _) => {
            let mut data = LabelledData::read(data.into(), on_error)?;
            // Before the model runs for long; but logits that are kept may be for another fit.
            if output.logits_out.is_none()
                && let Err(refused) = temperature::check_counts(&data.unmeasured(), &options)
            {
                return Ok(say_refused(&refused));
            }
            let opened = Opened::open(model, base.as_ref(), &output, &engine_options)?;
            let Opened { file, model, given, base, in_force } = opened;
            let engine_options = engine::Options { spec: given, ..engine_options };
            let engine = Engine::from_gguf(&file, &engine_options).map_err(|error| error.in_file(&model.path))?;
            data.check(&engine)?;
            let identity = identity(&file, &engine)?;
            let (records, data) = data.run(&engine)?;
            (LogitFile { identity, data, in_force, records }, Some(base), Some(model.name))
        }
        (None, Some(logits)) => {
            let bytes = read_all(&Input::from(logits.clone()))?;
            let mut logits = LogitFile::parse(&bytes).map_err(|error| error.in_file(logits))?;
            // A model is needed for its spec alone.
            let (base, model) = match (base, &output.spec_out) {
                (None, Some(_)) => {
                    let Opened { file, model, base, in_force, .. } =
                        Opened::open(model, None, &output, &engine_options)?;
                    let found = model_sha256(&file)?;
                    if found != logits.identity.model_sha256 {
                        let of_logits = &logits.identity.model_sha256;
                        let message = format!("is not the model of the logits: it is {found}, theirs is {of_logits}");
                        return Err(Error::new(ErrorKind::Model, message).in_file(model.path).into());
                    }
                    logits.in_force = in_force;
                    (Some(base), Some(model.name))
                }
                (base, _) => {
                    logits.in_force = in_force::of_logits(base.as_ref(), &logits.identity, &logits.in_force);
                    (base, None)
                }
            };
            (logits, base, model)
        }
        // clap requires one of the two.
        (None, None) => return Err(Error::new(ErrorKind::Usage, "nothing to fit on: give DATA or --logits").into()),
    };
    if let Some(path) = &output.logits_out {
        destination::write(path, &logits.to_text())?;
    }
    finish(&logits, &options, base, model.as_deref(), &output)
}

/// A model file, and how it is calibrated.
struct Opened {
    file: File,
    model: ModelFile,
    /// How it is to be used for the fit.
    given: Given,
    /// The spec to put the calibration in.
    base: Spec,
    /// The calibration in force.
    in_force: Calibration,
}

impl Opened {
    /// Opens the model under the spec `base`, or its own.
    ///
    /// # Errors
    /// It cannot be read, an output is the file, or the spec is none for it.
    fn open(
        model: ModelArguments,
        base: Option<&Spec>,
        output: &OutputArguments,
        options: &engine::Options,
    ) -> Result<Self> {
        let model = model.file(TOOL)?;
        let file = File::open(&model.path)?;
        output.check([Some(model.path.as_path())])?;
        // An old calibration is no reason not to fit a new one.
        let given = Given {
            text: base.map(|base| base.text().to_vec()),
            model_id: model.id().unwrap_or_default(),
            kernels: Some(Kernels::Default),
            allow_mismatch: true,
            n_threads: options.n_threads,
        };
        let at_fault = |error: Error| match &output.spec {
            Some(path) if error.kind() == ErrorKind::Spec => error.of_file(Input::from(path.clone()).name()),
            _ => error.in_file(&model.path),
        };
        let base = Engine::spec_of(&file, &given).map_err(at_fault)?.spec().clone();
        let in_force = in_force::calibration(&file, &given).map_err(|error| error.in_file(&model.path))?;
        Ok(Self { file, model, given, base, in_force })
    }
}

/// Fits `logits` and writes what was asked for.
fn finish(
    logits: &LogitFile,
    options: &Options,
    base: Option<Spec>,
    model: Option<&Path>,
    output: &OutputArguments,
) -> Result<Exit, Stop> {
    let leak = leak(&logits.records, options.fraction);
    for note in leak.notes() {
        stderr::note(TOOL, &note);
    }
    let fit = match temperature::fit(&logits.records, &logits.in_force, options) {
        Ok(fit) => fit,
        Err(refused) => return Ok(say_refused(&refused)),
    };
    for note in &fit.notes {
        stderr::note(TOOL, note);
    }
    if logits.data.n_unlabelled > 0 {
        stderr::note(TOOL, &format!("{} questions have no label and are not used", logits.data.n_unlabelled));
    }
    stderr::line(
        "Mean negative log-likelihood (NLL) with 95 % intervals and calibration error (ECE) on the held-out records, which \
         also decided what is used:",
    );
    stderr::lines(&table::temperatures(&fit));
    stderr::line("");
    stderr::line(
        "Held-out answers as calibrated: share (number) that reaches an answer_confidence / share of these that is right:",
    );
    stderr::lines(&table::thresholds(&fit));
    if let Some(table) = table::test(&fit) {
        stderr::line("");
        stderr::line("The records of the split \"test\", which decided nothing:");
        stderr::lines(&table);
    }
    let block = temperature::block(&fit, logits, options);
    let spec = match (&output.spec_out, base) {
        (Some(path), Some(base)) => Some((path, temperature::stamped(&base, block.clone(), logits)?)),
        _ => None,
    };
    if let Some(path) = &output.report {
        let report = Value::Object(temperature::report(&fit, logits, options, &leak));
        destination::write(path, &(report.dumps_indent(2) + "\n"))?;
    }
    if let Some((path, spec)) = spec {
        write_atomic(path, |out| out.write_all(spec.text()).map_err(|error| Error::io("cannot write", path, &error)))?;
        stderr::line(&advice(path, model));
    }
    Stdout::open().line(Value::Object(block).dumps_indent(2))?;
    Ok(Exit::Done)
}

/// Says why nothing is fitted, a line each.
fn say_refused(refused: &temperature::Refused) -> Exit {
    for refusal in &refused.refusals {
        stderr::error(TOOL, &refusal.to_string());
    }
    Exit::Failed
}

/// What to do with the spec written to `path`, for the model called `model`.
fn advice(path: &Path, model: Option<&Path>) -> String {
    let (spec, shown) = (quoted(path), path.display());
    match model {
        Some(folder) if folder.is_dir() => format!(
            "wrote {shown}; to use it with this checkpoint directory: laya-cli -m {} --spec {spec}; to have it in a file, \
             convert the directory with laya-convert and put it there with gguf-spec set",
            quoted(folder)
        ),
        _ => {
            let model = model.map_or("MODEL.gguf".into(), quoted);
            format!("wrote {shown}; to put it into the model file: gguf-spec set {model} {spec}")
        }
    }
}

/// `path` as an argument of a command line.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/\\.:_-+=,@%".contains(c);
    match (text.chars().all(is_plain) && !text.is_empty(), cfg!(windows)) {
        (true, _) => text.into_owned(),
        (false, true) => format!("\"{text}\""),
        (false, false) => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// What logits of `file` are bound to.
fn identity(file: &File, engine: &Engine) -> Result<Identity> {
    let recipe = Outtype::of(file)?.map_or("unknown", Outtype::as_str);
    Ok(Identity {
        model_sha256: model_sha256(file)?,
        kernels: Kernels::Default.as_str().into(),
        numeric_contract: NUMERIC_CONTRACT,
        plan: engine.plan().as_str().into(),
        recipe: recipe.into(),
    })
}

/// The spec in `path`.
fn read_spec(path: &Path) -> Result<Spec> {
    let input = Input::from(path.to_owned());
    let spec = Spec::parse(&input.read_spec()?).and_then(|spec| in_force::check_layout(&spec).map(|()| spec));
    spec.map_err(|error| error.in_file(input.name()))
}

impl OutputArguments {
    /// Refuses outputs that cannot be written, that are the same, or that are one of `inputs`.
    ///
    /// # Errors
    /// As said, before any work is done.
    fn check<const N: usize>(&self, inputs: [Option<&Path>; N]) -> Result<()> {
        let outputs: Vec<_> =
            [&self.report, &self.logits_out, &self.spec_out].into_iter().flatten().map(PathBuf::as_path).collect();
        let inputs: Vec<_> = inputs.into_iter().flatten().collect();
        destination::check(&outputs, &inputs)?;
        // A spec may be replaced by the one made of it.
        let others: Vec<_> = outputs.into_iter().filter(|path| self.spec_out.as_deref() != Some(*path)).collect();
        destination::check(&others, self.spec.as_deref().as_slice())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_can_be_pasted() {
        let folder = tempfile::tempdir().unwrap();
        let spec = Path::new("my spec.json");
        let text = advice(spec, Some(Path::new("model.gguf")));
        let quote = if cfg!(windows) { '"' } else { '\'' };
        assert!(text.ends_with(&format!("gguf-spec set model.gguf {quote}my spec.json{quote}")), "{text}");
        let text = advice(Path::new("spec.json"), Some(folder.path()));
        assert!(text.contains("laya-cli -m ") && text.contains(" --spec spec.json;"), "{text}");
        if !cfg!(windows) {
            assert_eq!(quoted(Path::new("it's")), r"'it'\''s'");
        }
    }
}
