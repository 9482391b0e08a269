//! A checkpoint directory, found complete and consistent.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::config::Config;
use super::hyper::Hyper;
use super::source::{self, Expected};
use super::vocabulary::Vocabulary;
use super::weight::Weight;
use super::witness::Witness;
use crate::error::{Error, ErrorKind, Result};
use crate::json::Value;
use crate::safetensors::{Float, SafeTensors, Tensor};

/// A validated checkpoint: its settings, its vocabulary, and where each tensor lies.
pub(super) struct Checkpoint {
    pub(super) dir: PathBuf,
    pub(super) hyper: Hyper,
    pub(super) vocabulary: Vocabulary,
    /// What another tokenizer says of the vocabulary, if it was asked.
    pub(super) witness: Option<Witness>,
    /// Remarks that do not stop a conversion.
    pub(super) notes: Vec<String>,
    shards: Vec<SafeTensors>,
    /// GGUF name by source name.
    names: HashMap<String, String>,
}

/// The files beside the weights that a conversion reads.
const SIDE_FILES: [&str; 11] = [
    "rl_agent_config.json",
    "encoder/config.json",
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
    "tokenizer/chat_template.jinja",
    "tokenizer/chat_template.json",
    "tokenizer/special_tokens_map.json",
    "tokenizer/config.json",
    "model.safetensors.index.json",
    "README.md",
    "generation_config.json",
];

impl Checkpoint {
    /// Opens and checks the checkpoint in `dir`; with `prove` another tokenizer reads its vocabulary too.
    pub(super) fn open(dir: &Path, prove: bool) -> Result<Self> {
        if !dir.is_dir() {
            return Err(refused("is not a directory; name the directory of a checkpoint", dir));
        }
        check_layout(dir)?;
        let agent = Config::read_if_there(&dir.join("rl_agent_config.json"))?;
        let Some(agent) = agent else {
            let message = "has no rl_agent_config.json; name the directory of a decision model as it is published";
            return Err(refused(message, dir));
        };
        let encoder = Config::read(&dir.join("encoder").join("config.json"))?;
        let mut notes = Vec::new();
        let hyper = Hyper::read(&agent, &encoder, &mut notes)?;
        let shards = shards(dir)?;
        let expected = source::expected(&hyper);
        let own = check_tensors(dir, &shards, &expected)?;
        if own.head.is_some_and(|n| n != 4 * u64::from(hyper.n_embd)) || own.act != Some(256) {
            notes.push(
                "the head or act head is not as wide as the published package builds it (4 x hidden_size, 256)".into(),
            );
        }
        let (vocabulary, witness) = Vocabulary::read(&dir.join("tokenizer"), hyper.n_vocab, prove)?;
        notes.extend(vocabulary.respelled().iter().map(|token| {
            format!(
                "the added token {:?} is stored as the format has it, {:?}: texts with either are split otherwise than by \
                 the published package",
                token.content, token.read
            )
        }));
        let names = expected.into_iter().map(|tensor| (tensor.source, tensor.name)).collect();
        Ok(Self { dir: dir.to_owned(), hyper, vocabulary, witness, notes, shards, names })
    }

    /// Refuses to write to `out` what the checkpoint has there, under whatever spelling, and what the next conversion
    /// would take for a part of it.
    pub(super) fn check_output(&self, out: &Path) -> Result<()> {
        if let Ok(path) = out.canonicalize() {
            let named = SIDE_FILES.iter().map(|name| self.dir.join(name));
            let mut inputs = named.chain(self.shards.iter().map(|shard| shard.path().to_owned()));
            if inputs.any(|input| input.canonicalize().is_ok_and(|input| input == path)) {
                return Err(super::overwrites(out));
            }
        }
        let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let inside = folder.canonicalize().is_ok_and(|folder| {
            let folders = [self.dir.clone(), self.dir.join("encoder"), self.dir.join("tokenizer")];
            folders.iter().any(|own| own.canonicalize().is_ok_and(|own| own == folder))
        });
        if inside && out.extension().is_none_or(|extension| extension != "gguf") {
            let message = "would be a file of the checkpoint; name an output elsewhere, or one that ends in .gguf";
            return Err(Error::new(ErrorKind::Usage, message).in_file(out));
        }
        Ok(())
    }

    /// Gives every tensor another name in the GGUF file; one that gets none is not written.
    pub(super) fn rename(&mut self, to: impl Fn(&str) -> Option<String>) {
        self.names = self.names.drain().filter_map(|(source, name)| Some((source, to(&name)?))).collect();
    }

    /// The tensors in the order they are written: files by name, tensors of a file by source name.
    pub(super) fn weights(&self) -> impl Iterator<Item = Weight<'_>> {
        self.shards.iter().flat_map(|shard| shard.tensors().iter().map(move |tensor| (shard, tensor))).filter_map(
            |(shard, tensor)| {
                let name = self.names.get(&tensor.name)?;
                // `check_tensors` has refused every other type.
                let float = Float::from_name(tensor.dtype)?;
                Some(Weight::new(
                    name,
                    (&tensor.name, shard.path()),
                    &tensor.shape,
                    float,
                    shard.map(),
                    shard.place(tensor),
                ))
            },
        )
    }
}

/// Refuses directories that hold another kind of model. A `config.json` at the top says nothing beside the encoder's own.
fn check_layout(dir: &Path) -> Result<()> {
    let config = dir.join("config.json");
    if config.exists() && !dir.join("encoder").join("config.json").exists() {
        let message = "is the configuration of another kind of model: a decision model has encoder/config.json, which is \
                       missing here";
        return Err(refused(message, &config));
    }
    for (name, why) in [
        ("hf_quant_config.json", "says that the weights are quantized; convert the unquantized checkpoint"),
        ("modules.json", "belongs to sentence-transformers, whose pooling a decision model does not have; remove it"),
    ] {
        let path = dir.join(name);
        if path.exists() {
            return Err(refused(why, &path));
        }
    }
    Ok(())
}

fn refused(message: impl Into<String>, path: &Path) -> Error {
    Error::new(ErrorKind::Checkpoint, message).in_file(path)
}

/// The weight files of a checkpoint, sorted by name.
fn shards(dir: &Path) -> Result<Vec<SafeTensors>> {
    let mut names = BTreeSet::new();
    let mut pickle = None;
    for entry in std::fs::read_dir(dir).map_err(|e| Error::io("cannot list", dir, &e))? {
        let name = entry.map_err(|e| Error::io("cannot list", dir, &e))?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with("model") && name.ends_with(".safetensors") {
            names.insert(name.to_owned());
        } else if name.starts_with("pytorch_model") && name.ends_with(".bin") {
            pickle = Some(name.to_owned());
        }
    }
    let index = index(dir)?;
    if names.is_empty() {
        let message = match (pickle, index) {
            (Some(name), _) => {
                format!(
                    "has only {name}; safetensors weights are required, pickle files are never loaded: save the model \
                         as model.safetensors"
                )
            }
            (None, Some(_)) => "has a model.safetensors.index.json and none of the files it names".into(),
            (None, None) => "has no model.safetensors".into(),
        };
        return Err(refused(message, dir));
    }
    let shards = names.iter().map(|name| SafeTensors::open(&dir.join(name))).collect::<Result<Vec<_>>>()?;
    if let Some(index) = index {
        check_index(dir, &index, &shards)?;
    }
    Ok(shards)
}

/// The index of a sharded checkpoint: tensor to file name.
fn index(dir: &Path) -> Result<Option<HashMap<String, String>>> {
    const NAME: &str = "model.safetensors.index.json";
    let Some(config) = Config::read_if_there(&dir.join(NAME))? else { return Ok(None) };
    let Some(map) = config.get("weight_map").and_then(Value::as_object) else {
        return Err(config.error("weight_map", "is missing or not an object"));
    };
    let mut index = HashMap::new();
    for (tensor, file) in map.iter() {
        let plain = file.as_str().filter(|file| {
            let plain = !file.contains(['/', '\\', '\0', ':']) && file.starts_with("model");
            plain && file.ends_with(".safetensors")
        });
        let file = plain.ok_or_else(|| {
            let message = format!("{} is not the name of a model*.safetensors file of this directory", file.dumps());
            config.error("weight_map", message)
        })?;
        index.insert(tensor.to_owned(), file.to_owned());
    }
    Ok(Some(index))
}

/// The index and the files must agree on where every tensor is.
fn check_index(dir: &Path, index: &HashMap<String, String>, shards: &[SafeTensors]) -> Result<()> {
    let mut found = 0;
    for shard in shards {
        for tensor in shard.tensors() {
            let named = index.get(&tensor.name).map(|file| dir.join(file));
            if named.as_deref() != Some(shard.path()) {
                let message = "is not in the file that model.safetensors.index.json names for it";
                return Err(refused(message, shard.path()).at_tensor(&tensor.name));
            }
            found += 1;
        }
    }
    if found != index.len() {
        let found: HashSet<&str> = shards.iter().flat_map(SafeTensors::tensors).map(|t| t.name.as_str()).collect();
        let mut missing: Vec<&String> = index.keys().filter(|name| !found.contains(name.as_str())).collect();
        missing.sort_unstable();
        let name = missing.first().map_or("", |name| name.as_str());
        let file = index.get(name).map_or("", String::as_str);
        return Err(refused(format!("is missing from {file}, where the index says it is"), dir).at_tensor(name));
    }
    Ok(())
}

/// Names, shapes and types of all files together.
fn check_tensors(dir: &Path, shards: &[SafeTensors], expected: &[Expected]) -> Result<source::Own> {
    let mut found = source::Found::new();
    for shard in shards {
        for Tensor { name, dtype, shape, .. } in shard.tensors() {
            if found.insert(name, shape).is_some() {
                return Err(refused("is in two files", shard.path()).at_tensor(name));
            }
            if Float::from_name(dtype).is_none() {
                let message = format!("has the type {dtype}; F16, BF16, F32 and F64 are supported");
                return Err(refused(message, shard.path()).at_tensor(name));
            }
        }
    }
    source::check(expected, &found).map_err(|e| e.in_file(dir))
}
