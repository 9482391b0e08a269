//! Special tokens: the slots of `tokenizer_config.json`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::added::Added;
use super::config::{Config, side_text};
use super::template;
use crate::error::{Error, ErrorKind, Result};
use crate::json::Value;

/// Slots of `tokenizer_config.json` and their GGUF keys, in the order they are written (`seperator` is the field's own
/// spelling). Rows are built with the tokens of `cls_token` and `sep_token`, so these are what the first two keys hold,
/// whatever `bos_token` and `eos_token` name.
const SLOTS: [(&str, &str); 6] = [
    ("bos_token", "tokenizer.ggml.bos_token_id"),
    ("eos_token", "tokenizer.ggml.eos_token_id"),
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ("sep_token", "tokenizer.ggml.seperator_token_id"),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
    ("mask_token", "tokenizer.ggml.mask_token_id"),
];

/// Added tokens by their text.
type ByText<'a> = HashMap<&'a str, &'a Added>;

/// Ids of the special tokens.
#[derive(Debug, Clone)]
pub(super) struct Special {
    pub(super) cls: u32,
    pub(super) mask: u32,
    /// The token text of the `unk_token` slot.
    pub(super) unk: Option<String>,
    /// GGUF key and id, in file order.
    pub(super) ids: Vec<(&'static str, u32)>,
    /// The kinds of `add_<kind>_token`, in file order.
    pub(super) adds: [&'static str; 3],
    /// Texts that become control tokens because the configuration names them.
    named: HashSet<String>,
}

impl Special {
    /// Resolves the slots against the added tokens.
    pub(super) fn read(tokenizer: &Config, config: &Config, added: &[Added]) -> Result<Self> {
        check_class(config)?;
        check_decoder_table(config, added)?;
        let by_text: ByText<'_> = added.iter().map(|token| (token.content.as_str(), token)).collect();
        check_more_tokens(config, &by_text)?;
        let id = |slot: &str| -> Result<Option<(String, u32)>> {
            let Some(text) = slot_text(config, slot)? else { return Ok(None) };
            let token = by_text.get(text.as_str()).ok_or_else(|| not_added(config, slot, &text))?;
            Ok(Some((text, token.id)))
        };
        let required = |slot: &str| -> Result<(String, u32)> {
            let why = "is missing; the published package cannot build a row without it";
            id(slot)?.ok_or_else(|| config.error(slot, why))
        };
        let (_, cls) = required("cls_token")?;
        let (sep_text, sep) = required("sep_token")?;
        let (_, mask) = required("mask_token")?;

        let mut ids = Vec::new();
        for (slot, key) in SLOTS {
            let own = id(slot)?.map(|(_, id)| id);
            let written = match slot {
                "bos_token" => Some(cls),
                "eos_token" => Some(sep),
                "unk_token" | "pad_token" => config.given(slot)?.and(own),
                _ => own,
            };
            ids.extend(written.map(|id| (key, id)));
        }
        let eos = id("eos_token")?.map_or(sep_text, |(text, _)| text);
        let adds = template::order(tokenizer, config, &eos)?;
        let unk = id("unk_token")?.map(|(text, _)| text);
        let named = named(config, &by_text)?;
        Ok(Self { cls, mask, unk, ids, adds, named })
    }

    /// Whether an added token becomes a control token.
    pub(super) fn is_control(&self, token: &Added) -> bool {
        token.special || self.named.contains(&token.content)
    }
}

/// The token text of a slot: text, or an object with `content`.
pub(super) fn slot_text(config: &Config, slot: &str) -> Result<Option<String>> {
    config.get(slot).map(|value| token_text(config, slot, value)).transpose()
}

/// A token as text, or as an object in the form that transformers writes. It reads one only with its `__type`; without it
/// there is no doubt what is meant either.
fn token_text(config: &Config, key: &str, value: &Value) -> Result<String> {
    let text = match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(object) => {
            let good = object.iter().all(|(name, value)| match name {
                "content" => value.as_str().is_some(),
                "__type" => value.as_str() == Some("AddedToken"),
                _ => FLAGS.contains(&name) && value.as_bool().is_some(),
            });
            good.then(|| content(value)).flatten()
        }
        _ => None,
    };
    text.ok_or_else(|| {
        let message =
            format!("must name a token, as text or as an object with content and flags, not {}", value.dumps());
        config.error(key, message)
    })
}

/// What an added token can be.
const FLAGS: [&str; 5] = ["lstrip", "normalized", "rstrip", "single_word", "special"];

fn content(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
}

fn not_added(config: &Config, slot: &str, text: &str) -> Error {
    let message = format!(
        "names {text:?}, which is not among the added_tokens of tokenizer.json; the published package would add it"
    );
    config.error(slot, message)
}

/// Every token the configuration makes special: those in slots, and the extra ones of an object. Lists of more tokens
/// change nothing; they too may name only what is there.
fn named(config: &Config, added: &ByText<'_>) -> Result<HashSet<String>> {
    let mut named = HashSet::new();
    for slot in SLOTS.iter().map(|(slot, _)| *slot).chain(["cls_token"]) {
        named.extend(slot_text(config, slot)?);
    }
    for key in ["extra_special_tokens", "additional_special_tokens"] {
        let values: Vec<&Value> = match config.get(key) {
            None => continue,
            Some(Value::Array(list)) => list.iter().collect(),
            Some(Value::Object(object)) if key == "extra_special_tokens" => object.values().collect(),
            Some(other) => return Err(config.error(key, format!("must be a list of tokens, not {}", other.dumps()))),
        };
        let is_list = config.get(key).is_some_and(|value| value.as_array().is_some());
        for value in values {
            let text = token_text(config, key, value)?;
            if !added.contains_key(text.as_str()) {
                return Err(not_added(config, key, &text));
            }
            if !is_list {
                named.insert(text);
            }
        }
    }
    Ok(named)
}

/// Another tokenizer class could tokenize differently.
fn check_class(config: &Config) -> Result<()> {
    match config.get("tokenizer_class").map(Value::as_str) {
        None | Some(Some("PreTrainedTokenizerFast" | "TokenizersBackend")) => {}
        _ => {
            let message =
                "must be PreTrainedTokenizerFast or TokenizersBackend; another class may tokenize differently";
            return Err(config.error("tokenizer_class", message));
        }
    }
    config.refuse("auto_map", None, "it names code of the checkpoint's own")?;
    config.refuse("split_special_tokens", None, "special tokens are never split")?;
    let why = "spaces that it removes are text of the model";
    config.refuse("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", None, why)
}

/// Transformers makes a special token of what any key that ends in `_token` names. Where the token is special already,
/// that changes nothing.
fn check_more_tokens(config: &Config, added: &ByText<'_>) -> Result<()> {
    for (key, value) in config.entries() {
        let slot = key == "cls_token" || SLOTS.iter().any(|(slot, _)| *slot == key);
        if slot || !key.ends_with("_token") || !matches!(value, Value::String(_) | Value::Object(_)) {
            continue;
        }
        let text = token_text(config, key, value)?;
        let token = added.get(text.as_str()).ok_or_else(|| not_added(config, key, &text))?;
        if !token.special {
            let message = format!("makes {text:?} a special token; set special to true in tokenizer.json instead");
            return Err(config.error(key, message));
        }
    }
    config.refuse("model_specific_special_tokens", None, "name the tokens in extra_special_tokens")
}

/// `added_tokens_decoder` may repeat what `tokenizer.json` says, not contradict it.
fn check_decoder_table(config: &Config, added: &[Added]) -> Result<()> {
    const KEY: &str = "added_tokens_decoder";
    let Some(table) = config.get(KEY) else { return Ok(()) };
    let Some(table) = table.as_object() else {
        return Err(config.error(KEY, "must be an object"));
    };
    let by_id: HashMap<u32, &Added> = added.iter().map(|token| (token.id, token)).collect();
    for (id, entry) in table.iter() {
        let token = id.parse().ok().and_then(|id: u32| by_id.get(&id));
        let same = token.is_some_and(|token| {
            let flags = FLAGS.iter().all(|flag| match entry.get(flag) {
                None => !token.flag(flag),
                Some(value) => value.as_bool() == Some(token.flag(flag)),
            });
            entry.get("content").and_then(Value::as_str) == Some(&token.content) && flags
        });
        if !same {
            return Err(config.error(KEY, format!("the token {id} differs from added_tokens of tokenizer.json")));
        }
    }
    Ok(())
}

/// The chat template, from the configuration or from the files beside it.
pub(super) fn chat_template(folder: &Path, config: &Config) -> Result<Option<String>> {
    const KEY: &str = "chat_template";
    let text = |value: &Value, config: &Config| match value.as_str() {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(config.error(KEY, "must be text; lists of templates are not supported")),
    };
    if config.has(KEY) {
        return config.get(KEY).map_or(Ok(None), |value| text(value, config));
    }
    if let Some(template) = side_text(&folder.join("chat_template.jinja"))? {
        let more = folder.join("additional_chat_templates");
        if more.is_dir() {
            let message = "holds more chat templates; only one is supported, remove the directory";
            return Err(Error::new(ErrorKind::Checkpoint, message).in_file(&more));
        }
        // As a text file is read where line ends are one character.
        return Ok(Some(template.replace("\r\n", "\n").replace('\r', "\n")));
    }
    match Config::read_if_there(&folder.join("chat_template.json"))? {
        Some(file) => file.get(KEY).map_or(Ok(None), |value| text(value, &file)),
        None => Ok(None),
    }
}

/// Files beside the tokenizer that the published package reads as well: they may repeat what `tokenizer.json` and
/// `tokenizer_config.json` say, or say nothing about tokens.
pub(super) fn check_beside(folder: &Path, config: &Config, added: &[Added]) -> Result<()> {
    let path = folder.join("added_tokens.json");
    if path.exists() {
        let message = "is not supported: put its tokens into added_tokens of tokenizer.json and remove it";
        return Err(Error::new(ErrorKind::Checkpoint, message).in_file(&path));
    }
    if let Some(map) = Config::read_if_there(&folder.join("special_tokens_map.json"))? {
        check_map(&map, config, added)?;
    }
    let Some(model) = Config::read_if_there(&folder.join("config.json"))? else { return Ok(()) };
    if config.get("tokenizer_class").is_none()
        && let Some(key) = ["model_type", "tokenizer_class"].into_iter().find(|key| model.get(key).is_some())
    {
        let message = "picks a tokenizer class of its own; add \"tokenizer_class\": \"PreTrainedTokenizerFast\" to \
                       tokenizer_config.json or remove the file";
        return Err(model.error(key, message));
    }
    for (slot, key) in [("unk_token", "unk_token_id"), ("pad_token", "pad_token_id")] {
        let nested = model.get("text_config").and_then(|nested| nested.get(key));
        if !config.has(slot) && (model.get(key).is_some() || nested.is_some()) {
            let message = format!("is given, but tokenizer_config.json names no {slot}; name it there");
            return Err(model.error(key, message));
        }
    }
    Ok(())
}

/// `special_tokens_map.json` may only say again what the slots of `tokenizer_config.json` say.
fn check_map(map: &Config, config: &Config, added: &[Added]) -> Result<()> {
    for (slot, value) in map.entries() {
        let known = slot == "cls_token" || SLOTS.iter().any(|(known, _)| *known == slot);
        let text = if known { slot_text(config, slot)? } else { None };
        let Some(text) = text else {
            let message = "is not a token that tokenizer_config.json sets; set it there or remove the file";
            return Err(map.error(slot, message));
        };
        let token = added.iter().find(|token| token.content == text);
        let same = match value {
            Value::String(value) => *value == text,
            Value::Object(object) => token.is_some_and(|token| {
                // The form in which transformers writes this file: the text and four flags.
                object.len() == FLAGS.len()
                    && object.iter().all(|(name, value)| match name {
                        "content" => value.as_str() == Some(&text),
                        "special" => false,
                        _ => FLAGS.contains(&name) && value.as_bool() == Some(token.flag(name)),
                    })
            }),
            _ => false,
        };
        if !same {
            let message = format!(
                "{} is not the {text:?} of tokenizer_config.json with the flags of tokenizer.json; make them agree or \
                 remove the file",
                value.dumps()
            );
            return Err(map.error(slot, message));
        }
    }
    Ok(())
}
