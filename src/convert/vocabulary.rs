//! `tokenizer.json` and `tokenizer_config.json` to the `tokenizer.ggml.*` and `decision.laya.*` keys.
//!
//! Two tokenizers exist in this family: ModernBERT's byte-level BPE and mmBERT's Metaspace BPE. Settings that are known to
//! need another rule to tokenize as the published package does are refused here, with file and key. That the vocabulary
//! is complete (every byte, every character of a merge) is checked where a tokenizer is built from the GGUF file.

use std::borrow::Cow;
use std::path::Path;

use rayon::prelude::*;

use super::added::{self, Added};
use super::config::Config;
use super::hyper::MAX_VOCAB;
use super::special::{self, Special};
use super::template::check_byte_level;
use super::witness::Witness;
use crate::error::Result;
use crate::gguf::{self, Strings, Writer};
use crate::json::{Object, Value};
use crate::tokenizer::Family;

/// The special tokens the published checkpoints of a family name in `tokenizer_config.json`.
pub(super) fn token_names(family: Family) -> &'static [(&'static str, &'static str)] {
    match family {
        Family::MetaspaceBpe => &[
            ("bos_token", "<bos>"),
            ("cls_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("mask_token", "<mask>"),
            ("pad_token", "<pad>"),
            ("sep_token", "<eos>"),
            ("unk_token", "<unk>"),
        ],
        Family::ByteLevelBpe => &[
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
            ("pad_token", "[PAD]"),
            ("sep_token", "[SEP]"),
            ("unk_token", "[UNK]"),
        ],
    }
}

/// `(max_len, head_max_len)` of the published checkpoints of a family.
pub(super) fn budget(family: Family) -> (u32, u32) {
    match family {
        Family::MetaspaceBpe => (1024, 256),
        Family::ByteLevelBpe => (512, 192),
    }
}

/// ggml's token types.
pub(super) const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
pub(super) const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// A vocabulary as the GGUF file holds it.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    family: Family,
    /// Byte-level files state `nfc` or `none`.
    pub(super) nfc: bool,
    pub(super) tokens: Strings,
    pub(super) types: Vec<i32>,
    pub(super) merges: Strings,
    pub(super) special: Special,
    /// `(id, flags)` pairs of the added tokens, which byte-level files state.
    pub(super) added_flags: Vec<i32>,
    pub(super) chat_template: Option<String>,
    /// Whether the tokens `bos`, `eos` and `sep` frame a text of its own.
    pub(super) adds: [bool; 3],
    respelled: Vec<Respelled>,
}

/// An added token whose text a GGUF file of this layout cannot hold: texts with it are split otherwise than by the
/// published package.
#[derive(Debug, Clone)]
pub(super) struct Respelled {
    /// The text in `tokenizer.json`.
    pub(super) content: String,
    /// The text that the file's tokenizer looks for instead.
    pub(super) read: String,
}

impl Vocabulary {
    /// Reads a vocabulary of `n_vocab` ids from a checkpoint's `tokenizer` folder, and with `prove` asks another tokenizer
    /// about it at the same time.
    pub(super) fn read(folder: &Path, n_vocab: u32, prove: bool) -> Result<(Self, Option<Witness>)> {
        let tokenizer = Config::read(&folder.join("tokenizer.json"))?;
        let config = Config::read(&folder.join("tokenizer_config.json"))?;
        // The other tokenizer is the code of others: it sees only what is of a known kind.
        let kind = kind(&tokenizer)?;
        let build = || Self::build(&tokenizer, &config, kind, Some(n_vocab));
        let (built, witness) = rayon::join(build, || prove.then(|| Witness::new(&tokenizer)).transpose());
        let (mut vocabulary, added) = built?;
        special::check_beside(folder, &config, &added)?;
        vocabulary.chat_template = special::chat_template(folder, &config)?;
        if vocabulary.merges.is_empty() && folder.join("merges.txt").exists() {
            let message = "is empty, and there is a merges.txt beside it; put the merges here or remove that file";
            return Err(tokenizer.error("model.merges", message));
        }
        // A million small pieces of memory, which another thread can give back beside what follows.
        rayon::spawn(move || drop(tokenizer));
        Ok((vocabulary, witness?))
    }

    /// Reads a bare `tokenizer.json`; special tokens are the ones its family publishes, and there are as many ids as the
    /// file names.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Checkpoint`] when the file needs a tokenizer of another kind, with file and key.
    pub fn from_tokenizer_json(path: &Path) -> Result<Self> {
        let tokenizer = Config::read(path)?;
        let mut names = Object::new();
        let kind = kind(&tokenizer)?;
        for &(slot, name) in token_names(kind.0) {
            names.insert(slot, name);
        }
        let config = Config::new(&path.with_file_name("tokenizer_config.json"), names);
        Ok(Self::build(&tokenizer, &config, kind, None)?.0)
    }

    fn build(
        tokenizer: &Config,
        config: &Config,
        (family, nfc, model, added): Kind<'_>,
        n_vocab: Option<u32>,
    ) -> Result<(Self, Vec<Added>)> {
        let vocab = vocab(tokenizer, model)?;
        added::check_ids(tokenizer, &added, vocab)?;
        let special = Special::read(tokenizer, config, &added)?;
        if family == Family::MetaspaceBpe {
            unknown(tokenizer, config, model, special.unk.as_deref())?;
        }

        // Marker text never reaches the tokenizer, so only its blanks may be swallowed without a flag in the file.
        let strips = added.iter().find(|token| token.lstrip && token.id != special.mask);
        if family == Family::MetaspaceBpe
            && let Some(token) = strips
        {
            let message = format!("lstrip of {:?} is not supported for a metaspace-bpe tokenizer", token.content);
            return Err(tokenizer.error("added_tokens", message));
        }

        let highest = vocab.values().filter_map(id).chain(added.iter().map(|a| a.id)).max().unwrap_or(0);
        let n_vocab = n_vocab.unwrap_or(highest.saturating_add(1));
        if highest >= n_vocab {
            let message = format!("the token id {highest} is not below vocab_size {n_vocab}");
            return Err(tokenizer.error("model.vocab", message));
        }
        let merges = merges(tokenizer, model, vocab)?;
        let mut slots = Slots::new(n_vocab);
        for (token, id) in vocab.iter().filter_map(|(token, value)| Some((token, id(value)?))) {
            if !slots.fill(id, Cow::Borrowed(token), NORMAL) {
                return Err(tokenizer.error("model.vocab", format!("two tokens have the id {id}")));
            }
        }
        let mut respelled = Vec::new();
        for token in &added {
            let text = token.decoded(tokenizer.get("decoder"), family).ok_or_else(|| {
                let message = format!("{:?} decodes to bytes that are not text; set normalized to true", token.content);
                tokenizer.error("added_tokens", message)
            })?;
            let (text, ty) = if special.is_control(token) || added::looks_special(&text) {
                (text, CONTROL)
            } else {
                (text.replace('\u{2581}', " "), USER_DEFINED)
            };
            // What a tokenizer makes of the stored text: only a metaspace one puts the U+2581 back.
            let metaspace = family == Family::MetaspaceBpe && ty == USER_DEFINED;
            let read = if metaspace { text.replace(' ', "\u{2581}") } else { text.clone() };
            if read != token.content {
                respelled.push(Respelled { content: token.content.clone(), read });
            }
            slots.replace(token.id, text.into(), ty);
        }
        let (tokens, types) = slots.finish();
        let added_flags = added.iter().flat_map(|a| [a.id as i32, a.flags()]).collect();
        let adds = super::upstream::adds(tokenizer, config)?;
        let chat_template = None;
        let vocabulary =
            Self { family, nfc, tokens, types, merges, special, added_flags, chat_template, adds, respelled };
        Ok((vocabulary, added))
    }

    /// The kind of tokenizer.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The added tokens that lose their text in a file.
    pub(super) fn respelled(&self) -> &[Respelled] {
        &self.respelled
    }

    /// Number of ids.
    pub fn n_tokens(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// The id of the option marker.
    pub fn mask(&self) -> u32 {
        self.special.mask
    }

    /// The id that starts a row.
    pub fn cls(&self) -> u32 {
        self.special.cls
    }

    /// The id of `tokenizer.ggml.<kind>_token_id`, with the field's own spelling of the kind.
    pub(super) fn special_id(&self, kind: &str) -> Option<u32> {
        let key = format!("tokenizer.ggml.{kind}_token_id");
        self.special.ids.iter().find(|(known, _)| *known == key).map(|&(_, id)| id)
    }

    /// Sets `laya.marker_token_id` and the tokenizer keys, in their order.
    pub(super) fn set(&self, out: &mut Writer) {
        out.set("laya.marker_token_id", self.special.mask);
        out.set("tokenizer.ggml.model", "gpt2");
        out.set("tokenizer.ggml.pre", "modern-bert");
        out.set("tokenizer.ggml.tokens", self.tokens.clone());
        out.set("tokenizer.ggml.token_type", self.types.clone());
        if !self.merges.is_empty() {
            out.set("tokenizer.ggml.merges", self.merges.clone());
        }
        for &(key, id) in &self.special.ids {
            out.set(key, id);
        }
        for kind in self.special.adds {
            out.set(format!("tokenizer.ggml.add_{kind}_token"), true);
        }
        if let Some(template) = self.chat_template.as_deref().filter(|t| !t.is_empty()) {
            out.set("tokenizer.chat_template", template);
        }
        out.set("decision.laya.tokenizer", self.family.as_str());
        if self.family == Family::ByteLevelBpe {
            out.set("decision.laya.normalizer", if self.nfc { "nfc" } else { "none" });
            if !self.added_flags.is_empty() {
                out.set("decision.laya.added_tokens", self.added_flags.clone());
            }
        }
    }
}

/// A GGUF file, in memory, that holds the vocabulary of a bare `tokenizer.json` and nothing else: what a tokenizer needs.
///
/// # Errors
/// As [`Vocabulary::from_tokenizer_json`].
pub fn vocabulary_gguf(tokenizer_json: &Path) -> Result<gguf::File> {
    let vocabulary = Vocabulary::from_tokenizer_json(tokenizer_json)?;
    let (max_len, head_max_len) = budget(vocabulary.family);
    let mut out = Writer::new();
    out.set("general.architecture", "laya");
    out.set("laya.vocab_size", vocabulary.n_tokens());
    out.set("laya.max_len", max_len);
    out.set("laya.head_max_len", head_max_len);
    vocabulary.set(&mut out);
    gguf::File::from_bytes(out.to_bytes(|_, _| Ok(()))?)
}

/// Tokens by id while they are collected.
struct Slots<'a> {
    tokens: Vec<Option<Cow<'a, str>>>,
    types: Vec<i32>,
}

impl<'a> Slots<'a> {
    fn new(n: u32) -> Self {
        Self { tokens: vec![None; n as usize], types: vec![UNUSED; n as usize] }
    }

    /// Fills an empty slot; says whether it was empty.
    fn fill(&mut self, id: u32, token: Cow<'a, str>, ty: i32) -> bool {
        let empty = self.tokens.get(id as usize).is_some_and(Option::is_none);
        if empty {
            self.replace(id, token, ty);
        }
        empty
    }

    fn replace(&mut self, id: u32, token: Cow<'a, str>, ty: i32) {
        if let (Some(slot), Some(kind)) = (self.tokens.get_mut(id as usize), self.types.get_mut(id as usize)) {
            *slot = Some(token);
            *kind = ty;
        }
    }

    /// Ids without a token become `[PADi]`.
    fn finish(self) -> (Strings, Vec<i32>) {
        let tokens = self.tokens.iter().enumerate().map(|(i, token)| match token {
            Some(token) => Cow::Borrowed(token.as_bytes()),
            None => Cow::Owned(format!("[PAD{i}]").into_bytes()),
        });
        (tokens.collect(), self.types)
    }
}

fn type_of(value: Option<&Value>) -> Option<&str> {
    value?.get("type")?.as_str()
}

/// What kind of tokenizer it is: family, whether its normalizer is NFC, the model with known options, the added tokens.
type Kind<'a> = (Family, bool, &'a Value, Vec<Added>);

fn kind(tokenizer: &Config) -> Result<Kind<'_>> {
    let family = family(tokenizer)?;
    let nfc = normalizer(tokenizer, family)?;
    let model = model(tokenizer, family)?;
    Ok((family, nfc, model, added::read(tokenizer, family)?))
}

/// Which family the pre-tokenizer belongs to.
fn family(tokenizer: &Config) -> Result<Family> {
    let pre = tokenizer.get("pre_tokenizer");
    let flag = |name: &str, default: bool| match pre.and_then(|pre| pre.get(name)) {
        None => default,
        Some(value) => value.as_bool().unwrap_or(!default),
    };
    let text = |name: &str| pre.and_then(|pre| pre.get(name)).and_then(Value::as_str);
    let family = match type_of(pre) {
        Some("ByteLevel") if !flag("add_prefix_space", true) && flag("use_regex", true) => Some(Family::ByteLevelBpe),
        Some("Metaspace")
            if text("replacement") == Some("\u{2581}")
                && text("prepend_scheme") == Some("always")
                && flag("split", true) =>
        {
            Some(Family::MetaspaceBpe)
        }
        _ => None,
    };
    if let (Some(Family::ByteLevelBpe), Some(pre)) = (family, pre) {
        check_byte_level(tokenizer, "pre_tokenizer", pre)?;
    }
    family.ok_or_else(|| {
        let found = pre.map_or_else(|| "none".into(), Value::dumps);
        tokenizer.error("pre_tokenizer", format!(
            "{found} is not one of this family's: ByteLevel (ModernBERT) or Metaspace with U+2581, always, split (mmBERT)"
        ))
    })
}

/// Checks the normalizer; says whether it is NFC.
fn normalizer(tokenizer: &Config, family: Family) -> Result<bool> {
    let normalizer = tokenizer.get("normalizer");
    let nfc = match (family, type_of(normalizer)) {
        (Family::ByteLevelBpe, None) if normalizer.is_none() => Some(false),
        (Family::ByteLevelBpe, Some("NFC")) => Some(true),
        (Family::MetaspaceBpe, Some("Replace")) => normalizer
            .filter(|n| {
                let from = n.get("pattern").and_then(|p| p.get("String")).and_then(Value::as_str);
                from == Some(" ") && n.get("content").and_then(Value::as_str) == Some("\u{2581}")
            })
            .map(|_| false),
        _ => None,
    };
    nfc.ok_or_else(|| {
        let found = normalizer.map_or_else(|| "none".into(), Value::dumps);
        tokenizer.error("normalizer", format!("{found} is not supported for a {} tokenizer", family.as_str()))
    })
}

/// Checks the BPE model's options.
fn model(tokenizer: &Config, family: Family) -> Result<&Value> {
    let Some(model) = tokenizer.get("model") else {
        return Err(tokenizer.error("model", "is missing"));
    };
    match model.get("type").and_then(Value::as_str) {
        Some("BPE") => {}
        Some(other) => return Err(tokenizer.error("model.type", format!("unsupported tokenizer model {other}"))),
        None => return Err(tokenizer.error("model.type", "is missing; only BPE is supported")),
    }
    let metaspace = family == Family::MetaspaceBpe;
    for (key, want) in [("byte_fallback", metaspace), ("ignore_merges", false)] {
        let found = model.get(key).is_some_and(|v| *v != Value::Bool(false) && !v.is_null());
        if found != want {
            let message = format!("must be {want} for a {} tokenizer", family.as_str());
            return Err(tokenizer.error(&format!("model.{key}"), message));
        }
    }
    if model.get("fuse_unk").is_some_and(|value| value.as_bool().is_none() && !value.is_null()) {
        return Err(tokenizer.error("model.fuse_unk", "must be true or false"));
    }
    for key in ["dropout", "continuing_subword_prefix", "end_of_word_suffix"] {
        let used = model.get(key).filter(|v| !v.is_null() && v.as_str() != Some("") && v.as_f64() != Some(0.0));
        if let Some(value) = used {
            return Err(tokenizer.error(&format!("model.{key}"), format!("{} is not supported", value.dumps())));
        }
    }
    Ok(model)
}

/// A metaspace vocabulary gives one unknown token, the one of the `unk_token` slot, for a run of unknown text: what the
/// model does in the published package only when both files say so.
fn unknown(tokenizer: &Config, config: &Config, model: &Value, unk: Option<&str>) -> Result<()> {
    let Some(unk) = unk else {
        return Err(config.error("unk_token", "is missing; a metaspace-bpe tokenizer needs it for unknown text"));
    };
    if model.get("unk_token").and_then(Value::as_str) != Some(unk) {
        let found = model.get("unk_token").map_or_else(|| "missing".into(), Value::dumps);
        let message = format!("is {found}, but unk_token of tokenizer_config.json is {unk:?}; they must be the same");
        return Err(tokenizer.error("model.unk_token", message));
    }
    if model.get("fuse_unk") != Some(&Value::Bool(true)) {
        return Err(tokenizer.error("model.fuse_unk", "must be true for a metaspace-bpe tokenizer"));
    }
    Ok(())
}

/// `model.vocab`: token to id, every one of which is [`id`].
fn vocab<'a>(tokenizer: &Config, model: &'a Value) -> Result<&'a Object> {
    let Some(vocab) = model.get("vocab").and_then(Value::as_object) else {
        return Err(tokenizer.error("model.vocab", "is missing or not an object"));
    };
    match vocab.iter().find(|(_, value)| id(value).is_none()) {
        None => Ok(vocab),
        Some((token, value)) => {
            let message = format!("the id of {token:?} is {}, not a token id", value.dumps());
            Err(tokenizer.error("model.vocab", message))
        }
    }
}

/// A token id of `model.vocab`.
pub(super) fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| id < MAX_VOCAB)
}

/// `model.merges` as `left right`; a space inside a half is written as U+0120, as gguf-py does.
fn merges(tokenizer: &Config, model: &Value, vocab: &Object) -> Result<Strings> {
    let Some(list) = model.get("merges").and_then(Value::as_array) else {
        return Err(tokenizer.error("model.merges", "is missing or not an array"));
    };
    let texts = list.first().is_some_and(|first| first.as_str().is_some());
    if let Some(i) = list.iter().position(|merge| merge.as_str().is_some() != texts) {
        let message = "is written in another form than the first; all must be texts, or all pairs";
        return Err(tokenizer.error(&format!("model.merges[{i}]"), message));
    }
    let check = |joined: &mut String, (i, merge): (usize, &Value)| -> Result<()> {
        let error = |message: String| tokenizer.error(&format!("model.merges[{i}]"), message);
        let Some((left, right)) = halves(merge) else {
            let message =
                merge.as_str().map_or("is not a pair of tokens".into(), |t| format!("{t:?} is not two tokens"));
            return Err(error(message));
        };
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        match [left, right, joined].into_iter().find(|token| !vocab.contains_key(token)) {
            Some(missing) => Err(error(format!("the token {missing:?} is not in model.vocab"))),
            None => Ok(()),
        }
    };
    if !list.par_iter().enumerate().map_init(String::new, |joined, merge| check(joined, merge)).all(|ok| ok.is_ok()) {
        // The first that is wrong, whichever was seen first.
        list.iter().enumerate().try_for_each(|merge| check(&mut String::new(), merge))?;
    }
    let pairs = list.iter().filter_map(halves);
    Ok(Strings::joined(pairs.map(|(left, right)| [no_space(left), Cow::Borrowed(&b" "[..]), no_space(right)])))
}

/// The two tokens of a merge.
fn halves(merge: &Value) -> Option<(&str, &str)> {
    match merge {
        // The text of both, which holds no other space.
        Value::String(text) => text.split_once(' ').filter(|(left, right)| !left.is_empty() && !right.contains(' ')),
        Value::Array(pair) => match pair.as_slice() {
            [Value::String(left), Value::String(right)] => Some((left, right)),
            _ => None,
        },
        _ => None,
    }
}

fn no_space(half: &str) -> Cow<'_, [u8]> {
    if half.contains(' ') { half.replace(' ', "\u{120}").into_bytes().into() } else { half.as_bytes().into() }
}
