//! The `added_tokens` of a `tokenizer.json`.

use std::collections::HashSet;

use super::config::Config;
use super::hyper::MAX_VOCAB;
use super::template::check_byte_level;
use super::vocabulary;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::tokenizer::Family;

/// One added token.
#[derive(Debug, Clone)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: String,
    /// Swallows the white space before it.
    pub(super) lstrip: bool,
    /// Looked for in the normalized text, not in the raw one.
    pub(super) normalized: bool,
    pub(super) special: bool,
}

/// Reads and checks the list; in the order of the file.
pub(super) fn read(tokenizer: &Config, family: Family) -> Result<Vec<Added>> {
    let Some(list) = tokenizer.get("added_tokens") else { return Ok(Vec::new()) };
    let Some(list) = list.as_array() else {
        return Err(tokenizer.error("added_tokens", "is not an array"));
    };
    let mut tokens = Vec::with_capacity(list.len());
    let (mut ids, mut contents) = (HashSet::new(), HashSet::new());
    for (i, entry) in list.iter().enumerate() {
        let key = format!("added_tokens[{i}]");
        let flag = |name: &str| {
            let value = entry.get(name).and_then(Value::as_bool);
            value.ok_or_else(|| tokenizer.error(&format!("{key}.{name}"), "must be true or false"))
        };
        let id = entry.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let id = id.filter(|&id| id < MAX_VOCAB);
        let id = id.ok_or_else(|| tokenizer.error(&format!("{key}.id"), "must be a token id"))?;
        let content = entry.get("content").and_then(Value::as_str).filter(|text| !text.is_empty());
        let content = content.ok_or_else(|| tokenizer.error(&format!("{key}.content"), "must be text"))?.to_owned();
        for name in ["rstrip", "single_word"] {
            if flag(name)? {
                return Err(tokenizer.error(&format!("{key}.{name}"), "true is not supported"));
            }
        }
        let token =
            Added { id, content, lstrip: flag("lstrip")?, normalized: flag("normalized")?, special: flag("special")? };
        if family == Family::MetaspaceBpe && token.normalized {
            let message = "true is not supported for a metaspace-bpe tokenizer";
            return Err(tokenizer.error(&format!("{key}.normalized"), message));
        }
        if !ids.insert(id) || !contents.insert(token.content.clone()) {
            let message = format!("the id {id} or the text {:?} is already taken", token.content);
            return Err(tokenizer.error(&key, message));
        }
        tokens.push(token);
    }
    check_decoder(tokenizer, family)?;
    if family == Family::MetaspaceBpe
        && let Some(token) = tokens.iter().find(|token| is_byte(&token.content))
    {
        let message = format!("the byte token {:?} cannot be an added token", token.content);
        return Err(tokenizer.error("added_tokens", message));
    }
    Ok(tokens)
}

/// Checks the ids against those of `vocab`. The tokenizers library numbers the tokens that the vocabulary does not have by
/// itself, in the order of the file: the published package has other ids than the file where that gives others.
pub(super) fn check_ids(tokenizer: &Config, added: &[Added], vocab: &Object) -> Result<()> {
    let taken: HashSet<u32> = if added.iter().all(|token| vocab.contains_key(&token.content)) {
        HashSet::new()
    } else {
        vocab.values().filter_map(vocabulary::id).collect()
    };
    let mut next = u32::try_from(vocab.len()).unwrap_or(u32::MAX);
    for token in added {
        let Added { id, content, .. } = token;
        let message = match vocab.get(content).and_then(vocabulary::id) {
            Some(known) if known != *id => format!("{content:?} has the id {id} here and {known} in model.vocab"),
            None if taken.contains(id) => {
                format!("{content:?} has the id {id}, which another token has in model.vocab")
            }
            None if next != *id => {
                format!("{content:?} has the id {id}, but the tokenizers library would give it {next}; number it so")
            }
            Some(_) => continue,
            None => {
                next = next.saturating_add(1);
                continue;
            }
        };
        return Err(tokenizer.error("added_tokens", message));
    }
    Ok(())
}

/// Only the decoders of the two families are known, because some added tokens are stored as they decode.
fn check_decoder(tokenizer: &Config, family: Family) -> Result<()> {
    let Some(decoder) = tokenizer.get("decoder") else { return Ok(()) };
    let ty = |value: &Value| value.get("type").and_then(Value::as_str).map(str::to_owned);
    let known = match family {
        Family::ByteLevelBpe => {
            let known = ty(decoder).as_deref() == Some("ByteLevel");
            if known {
                check_byte_level(tokenizer, "decoder", decoder)?;
            }
            known
        }
        Family::MetaspaceBpe => {
            let steps = decoder.get("decoders").and_then(Value::as_array).unwrap_or_default();
            let types: Vec<_> = steps.iter().filter_map(ty).collect();
            let replace = steps.first().is_some_and(|step| {
                let from = step.get("pattern").and_then(|p| p.get("String")).and_then(Value::as_str);
                from == Some("\u{2581}") && step.get("content").and_then(Value::as_str) == Some(" ")
            });
            ty(decoder).as_deref() == Some("Sequence") && types == ["Replace", "ByteFallback", "Fuse"] && replace
        }
    };
    if known { Ok(()) } else { Err(tokenizer.error("decoder", format!("{} is not supported", decoder.dumps()))) }
}

/// Whether a token is a byte token such as `<0x41>`.
pub(super) fn is_byte(token: &str) -> bool {
    let hex = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    hex.is_some_and(|hex| hex.len() == 2 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl Added {
    /// The flags of the GGUF file: bit 0 `lstrip`, bit 1 `normalized`.
    pub(super) fn flags(&self) -> i32 {
        i32::from(self.lstrip) | i32::from(self.normalized) << 1
    }

    /// A flag by its name in `tokenizer.json`. `rstrip` and `single_word` are never set.
    pub(super) fn flag(&self, name: &str) -> bool {
        match name {
            "lstrip" => self.lstrip,
            "normalized" => self.normalized,
            "special" => self.special,
            _ => false,
        }
    }

    /// The text the GGUF file holds: a token that is not normalized is stored as it decodes, once. None when that is not
    /// text.
    pub(super) fn decoded(&self, decoder: Option<&Value>, family: Family) -> Option<String> {
        if self.normalized || decoder.is_none() {
            return Some(self.content.clone());
        }
        match family {
            Family::MetaspaceBpe => Some(self.content.replace('\u{2581}', " ")),
            Family::ByteLevelBpe => match bytes(&self.content) {
                Some(bytes) => String::from_utf8(bytes).ok(),
                None => Some(self.content.clone()),
            },
        }
    }
}

/// The bytes a byte-level token stands for, unless some character of it stands for none.
pub(super) fn bytes(token: &str) -> Option<Vec<u8>> {
    token.chars().map(alphabet_byte).collect()
}

/// The byte a character of GPT-2's byte alphabet stands for: printable Latin-1 stands for itself, and the 68 other bytes
/// follow in order from U+0100.
fn alphabet_byte(c: char) -> Option<u8> {
    let printable = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(c) {
        code @ 0..=0xff => printable(code).then_some(code as u8),
        code => (0u8..=0xff).filter(|&b| !printable(u32::from(b))).nth((code - 0x100) as usize),
    }
}

/// Texts that are control tokens whatever the file says, as in the converter of the field.
pub(super) fn looks_special(token: &str) -> bool {
    matches!(token, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || (token.starts_with("<|") && token.ends_with("|>"))
        || (token.starts_with("<\u{ff5c}") && token.ends_with("\u{ff5c}>"))
        || (token.starts_with("<unused") && token.ends_with('>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_gpt2s() {
        let bytes: Vec<u8> = "\u{120}x\u{10a}\u{c3}\u{a9}\u{143}".chars().filter_map(alphabet_byte).collect();
        assert_eq!(bytes, [b' ', b'x', b'\n', 0xc3, 0xa9, 0xad]);
        assert_eq!(alphabet_byte(' '), None);
        assert_eq!(alphabet_byte('\u{144}'), None);
        assert_eq!(alphabet_byte('\u{2581}'), None);
        let all: HashSet<u8> = (0..0x144).filter_map(char::from_u32).filter_map(alphabet_byte).collect();
        assert_eq!(all.len(), 256);
    }

    #[test]
    fn texts_that_look_special() {
        for token in ["<pad>", "<unused12>", "<|endoftext|>", "<2mass>"] {
            assert!(looks_special(token), "{token}");
        }
        for token in ["<eos>", "<unused", "|||IP_ADDRESS|||", "[unused1]"] {
            assert!(!looks_special(token), "{token}");
        }
    }
}
