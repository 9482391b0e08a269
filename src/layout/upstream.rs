//! llama.cpp's layout of these models: `general.architecture = modern-bert` with `modern-bert.decision.*`.
//!
//! Known from the files its converter writes for Laya checkpoints (build b11434) and from its documentation:
//!
//! | there | here |
//! |---|---|
//! | `block_count` counts the blocks of the head too, which follow the encoder's; `decision.block_count` of them | `block_count`, `head_layers` |
//! | `feed_forward_length` is an array, one width a block (or one number for all) | one number; the head's is four times the embedding |
//! | `attention.layer_norm_epsilon` is used everywhere, `layer_norm_rms_epsilon` is written beside it | encoder and head have one each |
//! | `decision.max_head_tokens` | `head_max_len` |
//! | `decision.temperature.choice`, and by number of options `decision.temperature.choice.3_5` | `temperature`, buckets such as `choice:3-5` |
//! | `tokenizer.ggml.token_type_count` rows of `token_types.weight` | `n_qtype` rows of `type_emb.weight` |
//! | `tokenizer.ggml.pre`: `mmbert`, `modern-bert` | `decision.laya.tokenizer` |
//!
//! Not there at all: the act head, so that such a model answers everything but `action`; the longest row, which is taken
//! to be that of the published models (llama.cpp takes rows of any length its batch holds); what a tokenizer needs to
//! know of added tokens beyond their type, see [`super::Pretokenizer`]. Where a model differs from the published ones,
//! `laya-convert` says so in the keys `decision.laya.max_len`, `.normalizer` and `.added_tokens`, which llama.cpp passes
//! over.
//!
//! The row of tokens is a chat template there, `tokenizer.chat_template.systemone`. Rows are not made from it here, but it
//! must be one of Laya's: Julia-1 has the same keys and another text for its options.

use super::inventory::MAX_BLOCKS;
use super::name::Names;
use super::vocabulary;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{Array, File, Value};

/// The key that names the kind of decision model.
pub const TYPE: &str = "modern-bert.decision.type";
/// Its value for Laya models.
pub const LAYA_TYPE: &str = "laya";
/// The row of tokens.
pub const TEMPLATE: &str = "tokenizer.chat_template.systemone";
/// The longest row, where it is not that of the published models.
pub const MAX_LEN: &str = "decision.laya.max_len";
/// The start of the keys of temperatures.
pub const TEMPERATURE: &str = "modern-bert.decision.temperature.";

/// Question types: choice, score, noul.
pub(super) const KINDS: [&str; 3] = ["choice", "score", "noul"];

/// Keys in order, each once.
#[derive(Default)]
pub(super) struct Keys(Vec<(String, Value)>);

impl Keys {
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }
}

/// The laya view of a file of this layout.
pub(super) fn view(file: &File) -> Result<(File, Names)> {
    template(file)?;
    translated(file)
}

/// The same whatever the row of tokens is.
pub(super) fn translated(file: &File) -> Result<(File, Names)> {
    let mut keys = Keys::default();
    for (key, value) in file.keys() {
        // Keys of the laya layout mean nothing in this one.
        if !key.starts_with("modern-bert.") && !key.starts_with("laya.") {
            keys.0.push((key.to_owned(), value.clone()));
        }
    }
    keys.set("general.architecture", super::LAYA);
    let names = sizes(&mut keys, file)?;
    attention(&mut keys, file)?;
    decision(&mut keys, file)?;
    let pre = vocabulary::set(&mut keys, file)?;
    keys.set("laya.max_len", file.u32(MAX_LEN)?.unwrap_or(pre.max_len()));
    let tensors = file.tensors().iter().map(|tensor| {
        names.laya_tensor(&tensor.name).ok_or_else(|| {
            let message =
                "is not part of llama.cpp's layout of Laya models with these block counts: nothing would read it";
            file.error(message).at_tensor(&tensor.name)
        })
    });
    Ok((file.renamed(keys.0, tensors.collect::<Result<_>>()?)?, names))
}

/// Block counts and widths.
fn sizes(keys: &mut Keys, file: &File) -> Result<Names> {
    const BLOCKS: &str = "modern-bert.block_count";
    const HEAD_BLOCKS: &str = "modern-bert.decision.block_count";
    let (n_block, n_head_layer) = (file.require_u32(BLOCKS)?, file.require_u32(HEAD_BLOCKS)?);
    if n_block > MAX_BLOCKS {
        return Err(file.error(format!("is {n_block}; no model has that many blocks")).at_key(BLOCKS));
    }
    let n_layer = n_block.checked_sub(n_head_layer).filter(|n| *n > 0 && n_head_layer > 0).ok_or_else(|| {
        let message =
            format!("is {n_head_layer} of {n_block} blocks; a model has blocks of the encoder and of the head");
        file.error(message).at_key(HEAD_BLOCKS)
    })?;
    let n_embd = file.require_u32("modern-bert.embedding_length")?;
    keys.set("laya.block_count", n_layer);
    keys.set("laya.head_layers", n_head_layer);
    keys.set("laya.embedding_length", n_embd);
    keys.set("laya.feed_forward_length", feed_forward(file, n_layer, n_head_layer, n_embd)?);
    let n_vocab = match file.u32("modern-bert.vocab_size")? {
        Some(n) => n,
        None => u32::try_from(file.require_strings("tokenizer.ggml.tokens")?.len()).unwrap_or(u32::MAX),
    };
    keys.set("laya.vocab_size", n_vocab);
    Ok(Names { n_layer, n_head_layer })
}

/// The feed-forward width of the encoder; that of the head is checked.
fn feed_forward(file: &File, n_layer: u32, n_head_layer: u32, n_embd: u32) -> Result<u32> {
    const KEY: &str = "modern-bert.feed_forward_length";
    let wrong = |message: String| Err(file.error(message).at_key(KEY));
    let widths: Vec<u32> = match file.get(KEY) {
        Some(Value::Array(Array::U32(widths))) => widths.clone(),
        // A width below 0 is no width; 0 is refused where it is read.
        Some(Value::Array(Array::I32(widths))) => widths.iter().map(|n| u32::try_from(*n).unwrap_or(0)).collect(),
        _ => vec![file.require_u32(KEY)?; (n_layer + n_head_layer) as usize],
    };
    if widths.len() != (n_layer + n_head_layer) as usize {
        return wrong(format!("holds {} widths for {} blocks", widths.len(), n_layer + n_head_layer));
    }
    let (encoder, head) = widths.split_at(n_layer as usize);
    let Some((first, rest)) = encoder.split_first() else { return wrong("is empty".into()) };
    if let Some(other) = rest.iter().find(|n| *n != first) {
        return wrong(format!(
            "gives blocks of the encoder the widths {first} and {other}; only one width is supported"
        ));
    }
    if let Some(other) = head.iter().find(|n| Some(**n) != n_embd.checked_mul(4)) {
        return wrong(format!("gives a block of the head the width {other}; it must be four times {n_embd}"));
    }
    Ok(*first)
}

/// Attention, positions and norms.
fn attention(keys: &mut Keys, file: &File) -> Result<()> {
    const HEADS_KV: &str = "modern-bert.attention.head_count_kv";
    const WINDOW: &str = "modern-bert.attention.sliding_window";
    let n_head = file.require_u32("modern-bert.attention.head_count")?;
    if let Some(n) = file.u32(HEADS_KV)?.filter(|n| *n != n_head) {
        return Err(file.error(format!("is {n}, but there are {n_head} heads; they must be as many")).at_key(HEADS_KV));
    }
    keys.set("laya.attention.head_count", n_head);
    // llama.cpp takes a window of 0 for none at all, the laya layout for one that sees nothing else.
    let window = file.require_u32(WINDOW)?;
    if window == 0 {
        return Err(file.error("is 0; a model without local layers is not supported").at_key(WINDOW));
    }
    keys.set("laya.attention.sliding_window", window);
    keys.set(
        "laya.attention.sliding_window_pattern",
        file.u32("modern-bert.attention.sliding_window_pattern")?.unwrap_or(3),
    );
    let base = file.require_f32("modern-bert.rope.freq_base")?;
    keys.set("laya.rope.freq_base", base);
    keys.set("laya.rope.freq_base_swa", file.f32("modern-bert.rope.freq_base_swa")?.unwrap_or(base));
    let epsilon = file.require_f32("modern-bert.attention.layer_norm_epsilon")?;
    keys.set("laya.attention.layer_norm_epsilon", epsilon);
    let encoder = file.f32("modern-bert.attention.layer_norm_rms_epsilon")?.unwrap_or(epsilon);
    keys.set("laya.attention.layer_norm_rms_epsilon", encoder);
    // What the loader checks only when it is there.
    for key in ["attention.causal", "rope.scaling.type", "hidden_activation"] {
        if let Some(value) = file.get(&format!("modern-bert.{key}")) {
            keys.set(&format!("laya.{key}"), value.clone());
        }
    }
    Ok(())
}

/// What makes it a decision model.
fn decision(keys: &mut Keys, file: &File) -> Result<()> {
    const TYPES: &str = "tokenizer.ggml.token_type_count";
    let n = file.require_u32(TYPES)?;
    if n as usize != KINDS.len() {
        return Err(file.error(format!("is {n}; a Laya model has three, one for each type of question")).at_key(TYPES));
    }
    keys.set("laya.n_qtype", n);
    keys.set("laya.head_max_len", file.require_u32("modern-bert.decision.max_head_tokens")?);
    keys.set("laya.marker_token_id", file.require_u32("tokenizer.ggml.mask_token_id")?);
    keys.set("laya.act_head", false);
    let mut temperature = [1.0; KINDS.len()];
    let (mut buckets, mut degrees) = (Vec::new(), Vec::new());
    for (key, _) in file.keys() {
        let Some(name) = key.strip_prefix(TEMPERATURE) else { continue };
        let degree = file.require_f32(key)?;
        match KINDS.iter().zip(&mut temperature).find(|(kind, _)| **kind == name) {
            Some((_, place)) => *place = degree,
            None => {
                buckets.push(bucket(name).ok_or_else(|| {
                    let message = "is of a question this build does not know; a name is choice, score or noul, alone or \
                                   with the number of options: 2, 3_5, 6_10 or 11";
                    file.error(message).at_key(key)
                })?);
                degrees.push(degree);
            }
        }
    }
    keys.set("laya.temperature", temperature.to_vec());
    if !buckets.is_empty() {
        keys.set("laya.temperature_by_options.buckets", buckets.as_slice());
        keys.set("laya.temperature_by_options.values", degrees);
    }
    Ok(())
}

/// Numbers of options, here and in the laya layout.
const SIZES: [(&str, &str); 4] = [("2", "2"), ("3_5", "3-5"), ("6_10", "6-10"), ("11", "11+")];

/// The laya layout's name of the temperature `name`: `choice:3-5` for `choice.3_5`.
pub(super) fn bucket(name: &str) -> Option<String> {
    let (kind, size) = name.split_once('.')?;
    let (_, size) = SIZES.into_iter().find(|(here, _)| *here == size)?;
    KINDS.contains(&kind).then(|| format!("{kind}:{size}"))
}

/// The name here of the laya layout's temperature `bucket`: `choice.3_5` for `choice:3-5`.
pub fn temperature_name(bucket: &str) -> Option<String> {
    let (kind, size) = bucket.split_once(':')?;
    let (size, _) = SIZES.into_iter().find(|(_, there)| *there == size)?;
    KINDS.contains(&kind).then(|| format!("{kind}.{size}"))
}

/// Whether a row of tokens writes options as only Laya does.
pub(super) fn is_row_of_laya(template: &str) -> bool {
    ["level ", "yes, the statement holds", "no, the statement does not hold"].iter().all(|text| template.contains(text))
}

/// Refuses a file without a row of tokens, or with one that starts with another token than the keys say. That it is one of
/// Laya's is what tells this layout from others.
pub(super) fn template(file: &File) -> Result<()> {
    let template = file.require_str(TEMPLATE)?;
    const CLS: &str = "tokenizer.ggml.bos_token_id";
    let cls = file.require_u32(CLS)?;
    let text = file.require_strings("tokenizer.ggml.tokens")?.get(cls as usize).unwrap_or_default();
    if text.is_empty() || !template.as_bytes().starts_with(text) {
        let message = format!("does not start with token {cls}, which {CLS} says a row starts with");
        return Err(file.locate(Error::new(ErrorKind::Unsupported, message).at_key(TEMPLATE)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_have_one_name_in_each_layout() {
        for (here, there) in [
            ("choice.2", "choice:2"),
            ("score.3_5", "score:3-5"),
            ("noul.6_10", "noul:6-10"),
            ("choice.11", "choice:11+"),
        ] {
            assert_eq!(bucket(here).as_deref(), Some(there));
            assert_eq!(temperature_name(there).as_deref(), Some(here));
        }
        for name in ["choice", "choice.small", "choice.3-5", "letter.2", "choice.2.2", ""] {
            assert_eq!(bucket(name), None, "{name}");
        }
        for name in ["choice", "choice:3_5", "choice:12", "letter:2", ""] {
            assert_eq!(temperature_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_key_set_again_keeps_its_place() {
        let mut keys = Keys::default();
        for (key, value) in [("a", 1u32), ("b", 2), ("a", 3)] {
            keys.set(key, value);
        }
        assert_eq!(keys.0, [("a".to_owned(), Value::U32(3)), ("b".to_owned(), Value::U32(2))]);
    }
}
