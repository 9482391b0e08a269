//! Synthetic checkpoints: random weights of a real shape, in the published layout, the same bytes on every machine.
//!
//! They answer nothing sensible, but everything about them is real: sizes, names, tokenizer family, budgets, the spread of
//! logits, and with [`Options::outliers`] the massive activations of the trained models. What is measured on them (speed,
//! memory, agreement of two programs) carries over.

mod arch;
mod files;
mod outlier;
mod random;
mod tokenizer;
mod weight;
mod word;

use std::io::Write;
use std::path::{Path, PathBuf};

pub use arch::Arch;

use super::hyper::Hyper;
use super::source::{self, Width};
use super::{Outtype, Progress, Report, Vocabulary};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::write_atomic;
use weight::Recipe;

/// Elements generated at a time.
const BLOCK: usize = 1 << 21;

/// How the weights are stored in the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dtype {
    /// As the published checkpoints are.
    #[default]
    F16,
    /// Twice the size; the same values as [`Dtype::F16`] before they are rounded.
    F32,
}

/// What to make.
#[derive(Debug, Clone)]
pub struct Options {
    /// The shape.
    pub arch: Arch,
    /// Another seed, other weights.
    pub seed: u64,
    /// Plant massive activations on the `[CLS]` row.
    pub outliers: bool,
    /// A real `tokenizer.json` to build around, instead of a generated vocabulary of the real size.
    pub tokenizer: Option<PathBuf>,
    /// Storage of a checkpoint's weights.
    pub dtype: Dtype,
    /// Storage of a GGUF file's matrices.
    pub outtype: Outtype,
}

impl Options {
    /// `arch` with seed 0, a generated vocabulary, no outliers, in F16.
    pub fn new(arch: Arch) -> Self {
        Self { arch, seed: 0, outliers: false, tokenizer: None, dtype: Dtype::F16, outtype: Outtype::F16 }
    }
}

/// Writes a checkpoint directory: `rl_agent_config.json`, `encoder/config.json`, `tokenizer/`, `model.safetensors` and a
/// README. The directory must be new or empty.
///
/// # Errors
/// [`ErrorKind::Io`] when it cannot be written or is not empty; [`ErrorKind::Checkpoint`] when the given tokenizer is not
/// one of the architecture's family.
pub fn write_checkpoint(dir: &Path, options: &Options, progress: &mut Progress<'_>) -> Result<Report> {
    let family = options.arch.family();
    if let Some(path) = &options.tokenizer {
        let found = Vocabulary::from_tokenizer_json(path)?.family();
        if found != family {
            let name = options.arch.as_str();
            let message = format!("is a {} tokenizer; {name} needs {}", found.as_str(), family.as_str());
            return Err(Error::new(ErrorKind::Checkpoint, message).in_file(path));
        }
    }
    empty_directory(dir)?;
    for folder in [dir.join("encoder"), dir.join("tokenizer")] {
        std::fs::create_dir_all(&folder).map_err(|e| Error::io("cannot create", &folder, &e))?;
    }
    let tokenizer_json = dir.join("tokenizer").join("tokenizer.json");
    match &options.tokenizer {
        Some(path) => {
            // Not a copy of the file: its mode may be read-only, and the checkpoint is the user's own.
            let bytes = std::fs::read(path).map_err(|e| Error::io("cannot read", path, &e))?;
            std::fs::write(&tokenizer_json, bytes).map_err(|e| Error::io("cannot write", &tokenizer_json, &e))?;
        }
        None => text(&tokenizer_json, &tokenizer::generate(family, options.arch.n_vocab()).dumps_indent(2))?,
    }
    let vocabulary = Vocabulary::from_tokenizer_json(&tokenizer_json)?;
    let hyper = options.arch.hyper(vocabulary.n_tokens());
    text(&dir.join("tokenizer").join("tokenizer_config.json"), &files::tokenizer_config(family).dumps_indent(2))?;
    text(&dir.join("encoder").join("config.json"), &files::encoder_config(&hyper, &vocabulary).dumps_indent(2))?;
    text(&dir.join("rl_agent_config.json"), &files::agent_config(options.arch, &hyper).dumps_indent(2))?;
    let recipes = recipes(&hyper, options.outliers.then_some(vocabulary.cls()));
    let n_params = recipes.iter().filter(|recipe| recipe.name != source::DROPPED).map(Recipe::n_elements).sum();
    text(&dir.join("README.md"), &files::card(options, n_params))?;

    let path = dir.join("model.safetensors");
    let n_bytes = write_atomic(&path, |out| weights(out, &recipes, options, progress))?;
    Ok(Report { n_bytes, n_tensors: recipes.len(), n_params, tensors: Vec::new(), proof: None, notes: Vec::new() })
}

/// Writes a GGUF file: the one that converting the directory of [`write_checkpoint`] gives.
///
/// The directory is made in a temporary place beside the file, so twice the space is needed for a moment.
///
/// # Errors
/// As [`write_checkpoint`].
pub fn write_gguf(file: &Path, options: &Options, progress: &mut Progress<'_>) -> Result<Report> {
    if let Some(tokenizer) = &options.tokenizer
        && let (Ok(a), Ok(b)) = (tokenizer.canonicalize(), file.canonicalize())
        && a == b
    {
        return Err(super::overwrites(file));
    }
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".laya-synth-").tempdir_in(parent);
    let temporary = temporary.map_err(|e| Error::io("cannot write in", parent, &e))?;
    let dir = temporary.path().join("checkpoint");
    // Both halves move about the same number of bytes.
    write_checkpoint(&dir, options, &mut |done, total| progress(done, total.saturating_mul(2)))?;
    let convert = super::Options { outtype: options.outtype, ..super::Options::default() };
    super::convert_with_progress(&dir, file, &convert, &mut |done, total| {
        progress(total.saturating_add(done), total.saturating_mul(2));
    })
}

fn empty_directory(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|e| Error::io("cannot create", dir, &e))?;
    let mut entries = std::fs::read_dir(dir).map_err(|e| Error::io("cannot list", dir, &e))?;
    if entries.next().is_some() {
        return Err(Error::new(ErrorKind::Io, "is not empty; name a new directory").in_file(dir));
    }
    Ok(())
}

/// Writes a text file with a final newline.
fn text(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, format!("{}\n", text.trim_end())).map_err(|e| Error::io("cannot write", path, &e))
}

/// All tensors of a checkpoint, sorted by name.
fn recipes(hyper: &Hyper, outliers_on: Option<u32>) -> Vec<Recipe> {
    let width = |width: &Width| match *width {
        Width::Is(n) => n,
        Width::Head => 4 * u64::from(hyper.n_embd),
        Width::Act => 256,
    };
    let mut recipes: Vec<Recipe> = source::expected(hyper)
        .iter()
        .map(|tensor| Recipe::new(&tensor.source, tensor.shape.iter().map(width).collect(), hyper))
        .collect();
    recipes.push(Recipe::new(source::DROPPED, vec![3], hyper));
    if let Some(cls) = outliers_on {
        outlier::plant(&mut recipes, hyper, cls);
    }
    recipes.sort_by(|a, b| a.name.cmp(&b.name));
    recipes
}

/// Writes `model.safetensors`; returns its size.
fn weights(out: &mut dyn Write, recipes: &[Recipe], options: &Options, progress: &mut Progress<'_>) -> Result<u64> {
    let width: u64 = match options.dtype {
        Dtype::F16 => 2,
        Dtype::F32 => 4,
    };
    let put = |out: &mut dyn Write, bytes: &[u8]| {
        out.write_all(bytes).map_err(|e| Error::new(ErrorKind::Io, format!("cannot write: {e}")))
    };
    let header = files::safetensors_header(recipes, options.dtype);
    put(out, &(header.len() as u64).to_le_bytes())?;
    put(out, header.as_bytes())?;
    let total = width * recipes.iter().map(Recipe::n_elements).sum::<u64>();
    let mut done = 0;
    let (mut values, mut narrow) = (vec![0f32; BLOCK], Vec::new());
    for recipe in recipes {
        let n = recipe.n_elements();
        let mut first = 0;
        while first < n {
            let len = (n - first).min(BLOCK as u64);
            let values = values.get_mut(..len as usize).unwrap_or_default();
            recipe.fill(options.seed, first, values);
            super::element::from_f32(values, options.dtype == Dtype::F16, &mut narrow);
            put(out, &narrow)?;
            first += len;
            done += len * width;
            progress(done, total);
        }
    }
    Ok(8 + header.len() as u64 + total)
}
