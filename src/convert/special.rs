//! Special tokens: the slots of `tokenizer_config.json`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::added::Added;
use super::config::{Config, side_text};
use crate::error::{Error, Result};
use crate::json::Value;

/// Slots of `tokenizer_config.json` and their GGUF keys, in the order they are written (`seperator` is the field's own
/// spelling). The `cls` slot has no key of its own: its token is the one written as `bos`.
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
    /// Texts that become control tokens because the configuration names them.
    named: HashSet<String>,
}

impl Special {
    /// Resolves the slots against the added tokens.
    pub(super) fn read(tokenizer: &Config, config: &Config, added: &[Added]) -> Result<Self> {
        check_class(config)?;
        check_decoder_table(config, added)?;
        let by_text: ByText<'_> = added.iter().map(|token| (token.content.as_str(), token)).collect();
        let id = |slot: &str| -> Result<Option<(String, u32)>> {
            let Some(text) = slot_text(config, slot)? else { return Ok(None) };
            let token = by_text.get(text.as_str()).ok_or_else(|| not_added(config, slot, &text))?;
            Ok(Some((text, token.id)))
        };
        let required = |slot: &str| -> Result<(String, u32)> {
            let why = "is missing; the published package cannot build a row without it";
            id(slot)?.ok_or_else(|| config.error(slot, why))
        };
        let (cls_text, cls) = required("cls_token")?;
        let (sep_text, sep) = required("sep_token")?;
        let (_, mask) = required("mask_token")?;

        let mut ids = Vec::new();
        for (slot, key) in SLOTS {
            // A missing bos or eos is the token that starts or ends a row.
            let fallback = match slot {
                "bos_token" => Some((cls_text.clone(), cls)),
                "eos_token" => Some((sep_text.clone(), sep)),
                _ => None,
            };
            if let Some((_, id)) = id(slot)?.or(fallback) {
                ids.push((key, id));
            }
        }
        let bos = ids.iter().find(|(key, _)| *key == SLOTS[0].1).map(|&(_, id)| id);
        if bos != Some(cls) {
            let message = format!("{cls_text:?} is not the bos_token; a GGUF file has one id for both");
            return Err(config.error("cls_token", message));
        }
        let eos = id("eos_token")?.map_or(sep_text, |(text, _)| text);
        check_template(tokenizer, &eos)?;
        let unk = id("unk_token")?.map(|(text, _)| text);
        let named = named(config, &by_text)?;
        Ok(Self { cls, mask, unk, ids, named })
    }

    /// Whether an added token becomes a control token.
    pub(super) fn is_control(&self, token: &Added) -> bool {
        token.special || self.named.contains(&token.content)
    }
}

/// The token text of a slot: text, or an object with `content`.
pub(super) fn slot_text(config: &Config, slot: &str) -> Result<Option<String>> {
    let Some(value) = config.get(slot) else { return Ok(None) };
    let text = content(value);
    text.map(Some).ok_or_else(|| config.error(slot, format!("must name a token, not {}", value.dumps())))
}

fn content(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
}

fn not_added(config: &Config, slot: &str, text: &str) -> Error {
    config.error(slot, format!("names {text:?}, which is not among the added_tokens of tokenizer.json"))
}

/// Every token the configuration names, in slots and in the lists of extra special tokens.
fn named(config: &Config, added: &ByText<'_>) -> Result<HashSet<String>> {
    let mut named = HashSet::new();
    for slot in SLOTS.iter().map(|(slot, _)| *slot).chain(["cls_token"]) {
        named.extend(slot_text(config, slot)?);
    }
    for key in ["extra_special_tokens", "additional_special_tokens"] {
        let values: Vec<&Value> = match config.get(key) {
            None => continue,
            Some(Value::Array(list)) => list.iter().collect(),
            Some(Value::Object(object)) => object.values().collect(),
            Some(other) => return Err(config.error(key, format!("must be a list or an object, not {}", other.dumps()))),
        };
        for value in values {
            let text = content(value).ok_or_else(|| config.error(key, "must name tokens"))?;
            if !added.contains_key(text.as_str()) {
                return Err(not_added(config, key, &text));
            }
            named.insert(text);
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
    config.refuse("auto_map", None, "it names code of the checkpoint's own")
}

/// `added_tokens_decoder` may repeat what `tokenizer.json` says, not contradict it.
fn check_decoder_table(config: &Config, added: &[Added]) -> Result<()> {
    const KEY: &str = "added_tokens_decoder";
    let Some(table) = config.get(KEY) else { return Ok(()) };
    let Some(table) = table.as_object() else {
        return Err(config.error(KEY, "must be an object"));
    };
    for (id, entry) in table.iter() {
        // The added tokens are sorted by id.
        let place = id.parse().ok().and_then(|id: u32| added.binary_search_by_key(&id, |token| token.id).ok());
        let token = place.and_then(|place| added.get(place));
        let flag = |name: &str| entry.get(name).and_then(Value::as_bool).unwrap_or(false);
        let same = token.is_some_and(|token| {
            content(entry).as_ref() == Some(&token.content)
                && flag("special") == token.special
                && flag("lstrip") == token.lstrip
                && flag("normalized") == token.normalized
        });
        if !same {
            return Err(config.error(KEY, format!("the token {id} differs from added_tokens of tokenizer.json")));
        }
    }
    Ok(())
}

/// A row template must end with the eos token; no template at all is fine, because rows are built without it.
fn check_template(tokenizer: &Config, eos: &str) -> Result<()> {
    let Some(processor) = tokenizer.get("post_processor") else { return Ok(()) };
    let whole = std::slice::from_ref(processor);
    let processors = processor.get("processors").and_then(Value::as_array).unwrap_or(whole);
    for processor in processors {
        match processor.get("type").and_then(Value::as_str) {
            Some("ByteLevel") => {}
            Some("TemplateProcessing") => {
                let pieces = processor.get("single").and_then(Value::as_array).unwrap_or_default();
                let last = pieces.last().and_then(|p| p.get("SpecialToken")?.get("id")?.as_str());
                if last.is_some_and(|last| last != eos) {
                    let message = format!("the template ends with {last:?}, the eos token is {eos:?}");
                    return Err(tokenizer.error("post_processor.single", message));
                }
            }
            other => {
                let message = format!("unsupported post-processor {}", other.unwrap_or("without a type"));
                return Err(tokenizer.error("post_processor", message));
            }
        }
    }
    Ok(())
}

/// The chat template, from the configuration or from the files beside it.
pub(super) fn chat_template(folder: &Path, config: &Config) -> Result<Option<String>> {
    let only_text = |value: &Value, config: &Config| match value.as_str() {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(config.error("chat_template", "must be text; lists of templates are not supported")),
    };
    if config.has("chat_template") {
        return config.get("chat_template").map_or(Ok(None), |value| only_text(value, config));
    }
    if let Some(text) = side_text(&folder.join("chat_template.jinja"))? {
        return Ok(Some(text));
    }
    match Config::read_if_there(&folder.join("chat_template.json"))? {
        Some(file) => file.get("chat_template").map_or(Ok(None), |value| only_text(value, &file)),
        None => Ok(None),
    }
}
