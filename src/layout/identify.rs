//! What a GGUF file is: the layout, what runs it, what it holds.
//!
//! Only the header is read. Nothing here fails: a key of another type than its name promises is a finding, or is taken
//! to be absent where it only describes.

use std::borrow::Cow;

use super::inventory::{self, Inventory};
use super::kind::{ARCHITECTURE, Kind, Runner, decision_key};
use super::{LAYA, MODERN_BERT, Pretokenizer, RECIPE_KEY, View, upstream};
use crate::error::Error;
use crate::gguf::{Array, File, TensorType, Value};

/// What a file is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its layout.
    pub kind: Kind,
    /// `general.architecture`, whatever it is.
    pub architecture: Option<String>,
    /// The kind of decision model, where llama.cpp's layouts name one.
    pub decision: Option<String>,
    /// `general.name`.
    pub name: Option<String>,
    /// The vocabulary.
    pub vocabulary: Vocabulary,
    /// Counts and widths.
    pub sizes: Sizes,
    /// How tensors are stored, the type of most bytes first.
    pub types: Vec<TypeUse>,
    /// The recipe by which they were, where one protected some.
    pub recipe: Option<String>,
    /// The temperatures.
    pub calibration: Calibration,
    /// Whether every tensor a Laya model needs is there; `None` where that is not known of the layout or cannot be told.
    pub complete: Option<bool>,
    /// What keeps the file from being read as what it is, as far as its header shows; without the file's name.
    pub findings: Vec<Error>,
}

/// The vocabulary of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    /// How text becomes tokens.
    pub family: VocabularyFamily,
    /// Number of tokens, where there is a list of them.
    pub n_tokens: Option<usize>,
}

/// How text becomes tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VocabularyFamily {
    /// Byte-level byte-pair encoding.
    ByteLevelBpe,
    /// Byte-pair encoding of characters, spaces as U+2581.
    MetaspaceBpe,
    /// As the file calls it.
    Other(String),
    /// The file does not say.
    None,
}

impl VocabularyFamily {
    /// Its name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::ByteLevelBpe => "byte-level-bpe",
            Self::MetaspaceBpe => "metaspace-bpe",
            Self::Other(name) => name,
            Self::None => "none",
        }
    }
}

/// Counts and widths; `None` where the file does not state them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Bytes of the whole file.
    pub n_bytes: u64,
    /// Elements of all tensors.
    pub n_parameters: u64,
    /// Number of tensors.
    pub n_tensors: usize,
    /// Layers, without those of the decision head.
    pub n_layer: Option<u64>,
    /// Width of the hidden state.
    pub n_embd: Option<u64>,
    /// Layers of the decision head.
    pub n_head_layer: Option<u64>,
    /// Longest row, tokens.
    pub max_len: Option<u64>,
    /// Budget of question and options, tokens.
    pub head_max_len: Option<u64>,
}

/// How often a type of tensors is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeUse {
    /// The type.
    pub ty: TensorType,
    /// Tensors of it.
    pub n_tensors: usize,
    /// Bytes of their data.
    pub n_bytes: u64,
}

/// The temperatures a file states in its own keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calibration {
    /// By question type.
    pub by_type: Vec<(String, f32)>,
    /// By question type and number of options: `choice:3-5`.
    pub by_options: Vec<(String, f32)>,
}

impl Calibration {
    /// How fine the temperatures are, in a few words. A type at 1 is as good as one without a temperature.
    pub fn state(&self) -> &'static str {
        match (self.by_options.is_empty(), self.by_type.iter().all(|(_, degree)| *degree == 1.0)) {
            (false, _) => "per type and number of options",
            (true, false) => "per type",
            (true, true) => "none",
        }
    }
}

impl Identity {
    /// What gives answers with this file: nothing where tensors are missing or there are none at all, and this toolbox
    /// only where nothing was found.
    pub fn runners(&self) -> impl Iterator<Item = Runner> + '_ {
        let runs = |runner: &Runner| match runner {
            Runner::ThisToolbox => self.findings.is_empty(),
            _ => self.complete != Some(false) && self.sizes.n_tensors > 0,
        };
        self.kind.runners().iter().copied().filter(runs)
    }

    /// Adds what was found elsewhere to keep the file from being read.
    pub fn add_finding(&mut self, error: Error) {
        let error = without_file(error);
        if !self.findings.contains(&error) {
            self.findings.push(error);
        }
    }
}

/// Says what `file` is.
pub fn identify(file: &File) -> Identity {
    let (kind, unclear) = match Kind::of(file) {
        Ok(kind) => (kind, None),
        Err(error) => (Kind::Unknown, Some(error)),
    };
    let architecture = text(file, ARCHITECTURE);
    let decision = architecture.as_deref().and_then(|architecture| text(file, &decision_key(architecture)));
    let mut identity = Identity {
        kind,
        decision,
        name: text(file, "general.name"),
        vocabulary: vocabulary(file, kind),
        sizes: sizes(file, architecture.as_deref()),
        types: types(file),
        recipe: text(file, RECIPE_KEY),
        calibration: calibration(file, architecture.as_deref()),
        complete: None,
        findings: Vec::new(),
        architecture,
    };
    match unclear {
        Some(error) => identity.add_finding(error),
        None => examine(file, &mut identity),
    }
    identity
}

/// Looks for what a Laya model needs, and for what only its view shows.
fn examine(file: &File, identity: &mut Identity) {
    match identity.kind {
        Kind::Laya => check(&View { file: Cow::Borrowed(file), names: None }, identity),
        Kind::ModernBert | Kind::ModernBertBare => match upstream::translated(file) {
            Ok((view, names)) => {
                identity.sizes.max_len = number(&view, "laya.max_len");
                check(&View { file: Cow::Owned(view), names: Some(names) }, identity);
                if identity.kind == Kind::ModernBert
                    && let Err(error) = upstream::template(file)
                {
                    identity.add_finding(error);
                }
            }
            Err(error) => identity.add_finding(error),
        },
        _ => {}
    }
}

/// Takes the inventory of a view, under the names of its file.
fn check(view: &View<'_>, identity: &mut Identity) {
    let Inventory { complete, findings } = inventory::take(view.file());
    identity.complete = complete;
    findings.into_iter().for_each(|finding| identity.add_finding(view.in_own_names(finding)));
}

/// `error` about the file that is spoken of anyway.
fn without_file(error: Error) -> Error {
    let bare = Error::new(error.kind(), error.message());
    error.place().cloned().into_iter().fold(bare, Error::at)
}

/// A string, with what is not UTF-8 in it replaced.
fn text(file: &File, key: &str) -> Option<String> {
    match file.get(key) {
        Some(Value::String(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// A whole number of whichever type.
fn number(file: &File, key: &str) -> Option<u64> {
    match *file.get(key)? {
        Value::U8(n) => Some(n.into()),
        Value::U16(n) => Some(n.into()),
        Value::U32(n) => Some(n.into()),
        Value::U64(n) => Some(n),
        Value::I8(n) => n.try_into().ok(),
        Value::I16(n) => n.try_into().ok(),
        Value::I32(n) => n.try_into().ok(),
        Value::I64(n) => n.try_into().ok(),
        _ => None,
    }
}

fn vocabulary(file: &File, kind: Kind) -> Vocabulary {
    let n_tokens = match file.get("tokenizer.ggml.tokens") {
        Some(Value::Array(Array::String(tokens))) => Some(tokens.len()),
        _ => None,
    };
    let pre = text(file, "tokenizer.ggml.pre");
    let family = match (kind, text(file, "decision.laya.tokenizer")) {
        (Kind::Laya, Some(name)) => match name.as_str() {
            "metaspace-bpe" => VocabularyFamily::MetaspaceBpe,
            "bytelevel-bpe" => VocabularyFamily::ByteLevelBpe,
            _ => VocabularyFamily::Other(name),
        },
        (Kind::Laya, None) if n_tokens.is_some() => VocabularyFamily::MetaspaceBpe,
        _ => match (pre.as_deref().and_then(Pretokenizer::named), text(file, "tokenizer.ggml.model")) {
            (Some(Pretokenizer::Mmbert), _) => VocabularyFamily::MetaspaceBpe,
            (Some(Pretokenizer::ModernBert), _) => VocabularyFamily::ByteLevelBpe,
            // llama.cpp's name of every byte-level BPE; what splits the text before it has a name of its own.
            (None, Some(model)) if model == "gpt2" => VocabularyFamily::ByteLevelBpe,
            (None, Some(model)) => VocabularyFamily::Other(model),
            (None, None) => VocabularyFamily::None,
        },
    };
    Vocabulary { family, n_tokens }
}

fn sizes(file: &File, architecture: Option<&str>) -> Sizes {
    let key = |end: &str| number(file, &format!("{}.{end}", architecture.unwrap_or_default()));
    let (n_block, n_decision_block) = (key("block_count"), key("decision.block_count"));
    let is_laya = architecture == Some(LAYA);
    Sizes {
        n_bytes: file.map().bytes().len() as u64,
        n_parameters: file.tensors().iter().fold(0, |sum, tensor| sum.saturating_add(tensor.n_elements())),
        n_tensors: file.tensors().len(),
        // llama.cpp counts the blocks of the head too.
        n_layer: n_block.map(|n| n.saturating_sub(n_decision_block.unwrap_or(0))),
        n_embd: key("embedding_length"),
        n_head_layer: if is_laya { key("head_layers") } else { n_decision_block },
        max_len: if is_laya {
            key("max_len")
        } else {
            number(file, upstream::MAX_LEN).or_else(|| key("context_length"))
        },
        head_max_len: if is_laya { key("head_max_len") } else { key("decision.max_head_tokens") },
    }
}

fn types(file: &File) -> Vec<TypeUse> {
    let mut types: Vec<TypeUse> = Vec::new();
    for tensor in file.tensors() {
        match types.iter_mut().find(|known| known.ty == tensor.ty) {
            Some(known) => {
                known.n_tensors += 1;
                known.n_bytes = known.n_bytes.saturating_add(tensor.n_bytes);
            }
            None => types.push(TypeUse { ty: tensor.ty, n_tensors: 1, n_bytes: tensor.n_bytes }),
        }
    }
    types.sort_by_key(|ty| std::cmp::Reverse(ty.n_bytes));
    types
}

fn calibration(file: &File, architecture: Option<&str>) -> Calibration {
    match architecture {
        Some(LAYA) => Calibration {
            by_type: match file.f32s("laya.temperature") {
                // The loader pads a shorter list with its last value.
                Ok(Some([first @ .., last])) => {
                    let degrees = first.iter().chain(std::iter::repeat(last));
                    upstream::KINDS.iter().zip(degrees).map(|(kind, degree)| ((*kind).to_owned(), *degree)).collect()
                }
                _ => Vec::new(),
            },
            by_options: match (
                file.strings("laya.temperature_by_options.buckets"),
                file.f32s("laya.temperature_by_options.values"),
            ) {
                (Ok(Some(names)), Ok(Some(degrees))) => {
                    let names = names.iter().map(|name| String::from_utf8_lossy(name).into_owned());
                    names.zip(degrees.iter().copied()).collect()
                }
                _ => Vec::new(),
            },
        },
        Some(architecture) => {
            let start = upstream::TEMPERATURE.replacen(MODERN_BERT, architecture, 1);
            let mut calibration = Calibration::default();
            for (key, value) in file.keys() {
                if let (Some(name), Value::F32(degree)) = (key.strip_prefix(&start), value) {
                    match upstream::bucket(name) {
                        Some(bucket) => calibration.by_options.push((bucket, *degree)),
                        None => calibration.by_type.push((name.to_owned(), *degree)),
                    }
                }
            }
            calibration
        }
        None => Calibration::default(),
    }
}
