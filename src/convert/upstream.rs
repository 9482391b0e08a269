//! Writing llama.cpp's layout, the one [`crate::layout::upstream`] reads.
//!
//! Known, from files that llama.cpp's own converter (build b11434) wrote for the checkpoints of `golden/`: every key with
//! its type, value and place, every tensor with its name, type, bytes and place. `golden/upstream` holds them, and
//! `tests/layout.rs` compares. Not taken from it is the chat template, which is ours: it renders the rows of the published
//! package, which are those of llama.cpp's own template but for descriptions such as `0`, `false` or an empty list, which
//! that one leaves out. `scripts/check_upstream.py` asks llama.cpp's server and compares rows and answers.
//!
//! Differences, where following it would lose something:
//! - a model whose longest row, normalizer or added tokens are not those of the published models says so in three more
//!   keys (`decision.laya.*`), which llama.cpp passes over;
//! - `attention.layer_norm_epsilon` is always there: llama.cpp's converter leaves it out when `encoder/config.json` does,
//!   and llama.cpp then refuses the file;
//! - the pre-tokenizer has the name of its family. llama.cpp's converter knows the published vocabularies by a hash and
//!   stops at any other;
//! - a temperature that llama.cpp would refuse to load, or names no question, is refused or left out here.

use std::borrow::Cow;

use super::checkpoint::Checkpoint;
use super::config::Config;
use super::hyper::{Hyper, N_QTYPE};
use super::metadata::Metadata;
use super::special::slot_text;
use super::vocabulary::{NORMAL, USER_DEFINED, Vocabulary};
use super::{Layout, Outtype};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{Strings, TensorType, Writer};
use crate::json::Value;
use crate::layout::{Names, Pretokenizer, added_flags, is_run_of_spaces, upstream};
use crate::tokenizer::Family;

/// The temperatures the published package uses; it moves others to the nearer end.
const DEGREES: std::ops::RangeInclusive<f32> = 0.5..=5.0;
/// What an encoder's configuration means where it does not say: the defaults of transformers.
const CONTEXT_LENGTH: u32 = 8192;
const EPSILON: f32 = 1e-5;

fn names(hyper: &Hyper) -> Names {
    Names { n_layer: hyper.n_layer, n_head_layer: hyper.head_layers }
}

/// Gives the tensors of `checkpoint` their names in this layout; those of the act head have none and are not written.
/// Refuses what the layout cannot hold.
pub(super) fn adopt(checkpoint: &mut Checkpoint) -> Result<()> {
    let Checkpoint { dir, hyper, .. } = &*checkpoint;
    let agent = dir.join("rl_agent_config.json");
    let refused =
        |message: String, key: &str| Err(Error::new(ErrorKind::Checkpoint, message).at_key(key).in_file(&agent));
    if hyper.head_layers == 0 {
        let message = "is 0; llama.cpp takes a model without layers of the head for an encoder; write the layout laya";
        return refused(message.into(), "head_layers");
    }
    let head_width = checkpoint.weights().find(|weight| weight.name == "head.0.ffn_up.weight");
    let head_width = head_width.and_then(|weight| weight.shape.first().copied());
    if head_width != Some(4 * u64::from(hyper.n_embd)) {
        let message = "is not four times hidden_size wide, the only width of llama.cpp's layout";
        let error = Error::new(ErrorKind::Checkpoint, message).at_tensor("head.layers.0.linear1.weight");
        return Err(error.in_file(dir));
    }
    let mut notes =
        vec!["llama.cpp's layout has no place for the act head: this file answers everything but action".to_owned()];
    if hyper.n_head != (hyper.n_embd / 64).max(1) {
        notes.push(format!(
            "the published package gives the layers of the head {} attention heads, llama.cpp the encoder's {}: its \
             answers will be others",
            (hyper.n_embd / 64).max(1),
            hyper.n_head
        ));
    }
    for (name, degree) in temperatures(hyper) {
        if degree <= 0.0 {
            let message = format!(
                "of {name} is {degree}, with which llama.cpp refuses to load a file; the published \
                                   package uses {} instead: write that",
                DEGREES.start()
            );
            return refused(message, "temperature");
        }
        if !DEGREES.contains(&degree) {
            let used = degree.clamp(*DEGREES.start(), *DEGREES.end());
            notes
                .push(format!("llama.cpp uses the temperature {name} {degree} as it is, the published package {used}"));
        }
    }
    for (bucket, _) in hyper.buckets.iter().filter(|(bucket, _)| upstream::temperature_name(bucket).is_none()) {
        notes.push(format!("the temperature {bucket} is of no question and is left out"));
    }
    let names = names(hyper);
    checkpoint.rename(|name| names.own_tensor(name));
    checkpoint.notes.append(&mut notes);
    Ok(())
}

/// Name and value of every temperature a question can have.
fn temperatures(hyper: &Hyper) -> impl Iterator<Item = (String, f32)> {
    let kinds = ["choice", "score", "noul"].into_iter().map(str::to_owned).zip(hyper.temperature.iter().copied());
    let buckets = hyper.buckets.iter().filter_map(|(bucket, t)| Some((upstream::temperature_name(bucket)?, *t)));
    kinds.chain(buckets)
}

/// The type of the tensor `name` of this layout: that of the same tensor in the laya layout, but the type embedding stays
/// in F32.
pub(super) fn tensor_type(outtype: Outtype, name: &str, shape: &[u64]) -> TensorType {
    let protected = name == "token_embd.weight" || name.starts_with("cls.");
    match outtype.tensor_type(name, shape) {
        _ if name == "token_types.weight" => TensorType::F32,
        TensorType::Q8_0 if protected && outtype.recipe().is_some() => TensorType::F16,
        ty => ty,
    }
}

/// Sets every key, in order.
pub(super) fn keys(out: &mut Writer, metadata: &Metadata, checkpoint: &Checkpoint, outtype: Outtype) -> Result<()> {
    let (hyper, vocabulary) = (&checkpoint.hyper, &checkpoint.vocabulary);
    let encoder = Config::read(&checkpoint.dir.join("encoder").join("config.json"))?;
    out.set("general.architecture", Layout::ModernBert.as_str());
    out.set("general.type", "model");
    metadata.set(out);
    sizes(out, hyper);
    out.set("general.file_type", outtype.file_type());
    out.set("modern-bert.attention.causal", false);
    out.set("modern-bert.classifier.pooling_type", pooling(&encoder)?);
    out.set("modern-bert.attention.sliding_window", hyper.window);
    out.set("modern-bert.attention.sliding_window_pattern", hyper.pattern);
    out.set("modern-bert.rope.scaling.type", "none");
    out.set("modern-bert.vocab_size", hyper.n_vocab);
    out.set("modern-bert.hidden_activation", "gelu");
    out.set(upstream::TYPE, upstream::LAYA_TYPE);
    out.set("modern-bert.decision.block_count", hyper.head_layers);
    out.set("modern-bert.decision.max_head_tokens", hyper.head_max_len);
    for (name, degree) in temperatures(hyper) {
        out.set(format!("{}{name}", upstream::TEMPERATURE), degree);
    }
    out.set("general.quantization_version", 2u32);
    tokenizer(out, vocabulary)?;
    beyond(out, hyper, vocabulary);
    Ok(())
}

/// The keys from block count to norms.
fn sizes(out: &mut Writer, hyper: &Hyper) {
    let signed = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let width = |i: u32| signed(if i < hyper.n_layer { hyper.n_ff } else { 4 * hyper.n_embd });
    let n_block = hyper.n_layer + hyper.head_layers;
    out.set("modern-bert.block_count", n_block);
    out.set("modern-bert.context_length", hyper.context_length.unwrap_or(CONTEXT_LENGTH));
    out.set("modern-bert.embedding_length", hyper.n_embd);
    out.set("modern-bert.feed_forward_length", (0..n_block).map(width).collect::<Vec<i32>>());
    out.set("modern-bert.attention.head_count", hyper.n_head);
    if let Some(n) = hyper.n_head_kv {
        out.set("modern-bert.attention.head_count_kv", n);
    }
    out.set("modern-bert.rope.freq_base", hyper.rope_global);
    out.set("modern-bert.rope.freq_base_swa", hyper.rope_local);
    out.set("modern-bert.attention.layer_norm_rms_epsilon", hyper.norm_eps.unwrap_or(EPSILON));
    out.set("modern-bert.attention.layer_norm_epsilon", hyper.layer_norm_eps.unwrap_or(EPSILON));
    if let Some(n) = hyper.head_dim {
        out.set("modern-bert.attention.key_length", n);
        out.set("modern-bert.attention.value_length", n);
    }
}

/// llama.cpp's number of a pooling type. It pools nothing here, the key comes with every encoder of the family.
fn pooling(encoder: &Config) -> Result<u32> {
    const KEY: &str = "classifier_pooling";
    match encoder.get(KEY) {
        None => Ok(2),
        Some(value) => match value.as_str() {
            Some("cls") => Ok(2),
            Some("mean") => Ok(1),
            _ => Err(encoder.error(KEY, format!("must be \"cls\" or \"mean\", not {}", value.dumps()))),
        },
    }
}

/// The `tokenizer.*` keys.
fn tokenizer(out: &mut Writer, vocabulary: &Vocabulary) -> Result<()> {
    let [bos, eos, sep] = vocabulary.adds;
    out.set("tokenizer.ggml.add_bos_token", bos);
    out.set("tokenizer.ggml.add_eos_token", eos);
    out.set("tokenizer.ggml.add_sep_token", sep);
    out.set("tokenizer.ggml.model", "gpt2");
    out.set("tokenizer.ggml.pre", pretokenizer(vocabulary).as_str());
    let metaspace = vocabulary.family() == Family::MetaspaceBpe;
    let mut types = vocabulary.types.clone();
    let tokens = vocabulary.tokens.iter().zip(&mut types).map(|(token, ty)| {
        if metaspace && *ty == USER_DEFINED && !token.is_empty() && token.iter().all(|&byte| byte == b' ') {
            *ty = NORMAL;
            return Cow::Owned("\u{2581}".repeat(token.len()).into_bytes());
        }
        Cow::Borrowed(token)
    });
    out.set("tokenizer.ggml.tokens", tokens.collect::<Strings>());
    out.set("tokenizer.ggml.token_type", types);
    if !vocabulary.merges.is_empty() {
        out.set("tokenizer.ggml.merges", vocabulary.merges.clone());
    }
    for &(key, id) in &vocabulary.special.ids {
        out.set(key, id);
    }
    if let Some(template) = vocabulary.chat_template.as_deref().filter(|template| !template.is_empty()) {
        out.set("tokenizer.chat_template", template);
    }
    out.set("tokenizer.ggml.token_type_count", N_QTYPE);
    out.set(upstream::TEMPLATE, row(vocabulary)?);
    out.set("tokenizer.chat_templates", ["systemone"].iter().collect::<Strings>());
    Ok(())
}

fn pretokenizer(vocabulary: &Vocabulary) -> Pretokenizer {
    match vocabulary.family() {
        Family::MetaspaceBpe => Pretokenizer::Mmbert,
        Family::ByteLevelBpe => Pretokenizer::ModernBert,
    }
}

/// A chat template that renders the row of a question. llama-server gives it `type`, `instructions`, `state` and
/// `options`, each with `key` and `description`, as JSON values.
fn row(vocabulary: &Vocabulary) -> Result<String> {
    let special = |id: Option<u32>| {
        let text = id.and_then(|id| vocabulary.tokens.get(id as usize)).unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        if text.contains(['{', '}']) {
            let message = format!("the special token {text:?} cannot be part of a chat template");
            return Err(Error::new(ErrorKind::Checkpoint, message).at_key(upstream::TEMPLATE));
        }
        Ok(text)
    };
    let cls = special(Some(vocabulary.cls()))?;
    let sep = special(vocabulary.special_id("seperator"))?;
    let mask = special(Some(vocabulary.mask()))?;
    // Text as it is, anything else as JSON.
    let put = |value: &str| {
        format!("{{% if {value} is string %}}{{{{ {value} }}}}{{% else %}}{{{{ {value} | tojson }}}}{{% endif %}}")
    };
    let described = put("option.description");
    let option = format!(
        "{{% if type == 'score' %}}level {{{{ option.key }}}}: {described}\
         {{% elif option.description is not none and option.description != '' %}}{{{{ option.key }}}}: {described}\
         {{% elif type == 'choice' %}}{{{{ option.key }}}}\
         {{% elif option.key == 'false' %}}false: no, the statement does not hold\
         {{% else %}}true: yes, the statement holds{{% endif %}}"
    );
    Ok(format!(
        "{cls}{{{{ type }}}} question: {}{sep}{{% for option in options %}}{mask} {option}{{% endfor %}}{sep}{}{sep}",
        put("instructions"),
        put("state")
    ))
}

/// What this layout does not say and a reader would take to be otherwise.
fn beyond(out: &mut Writer, hyper: &Hyper, vocabulary: &Vocabulary) {
    if hyper.max_len != pretokenizer(vocabulary).max_len() {
        out.set(upstream::MAX_LEN, hyper.max_len);
    }
    let same = match vocabulary.family() {
        // A reader takes every run of two or more spaces for an added token, and no other normal token.
        Family::MetaspaceBpe => !vocabulary.tokens.iter().zip(&vocabulary.types).any(|(token, ty)| match *ty {
            NORMAL => is_run_of_spaces(token),
            USER_DEFINED => token == b" ",
            _ => false,
        }),
        Family::ByteLevelBpe => {
            if !vocabulary.nfc {
                out.set("decision.laya.normalizer", "none");
            }
            added_flags(&vocabulary.types, vocabulary.mask()) == vocabulary.added_flags
        }
    };
    if !same {
        out.set("decision.laya.added_tokens", vocabulary.added_flags.clone());
    }
}

/// Whether the tokens `bos`, `eos` and `sep` frame a text of its own, as gguf-py reads it off the template of
/// `tokenizer.json`. llama-server adds none to a row, which its template spells out.
pub(super) fn adds(tokenizer: &Config, config: &Config) -> Result<[bool; 3]> {
    let (cls, sep) = (slot_text(config, "cls_token")?, slot_text(config, "sep_token")?);
    let bos = slot_text(config, "bos_token")?.or_else(|| cls.clone());
    let eos = slot_text(config, "eos_token")?.or_else(|| sep.clone());
    let (starts, ends) = ([bos.as_deref(), cls.as_deref()], [sep.as_deref(), eos.as_deref()]);
    let mut adds = [None; 3];
    let Some(processor) = tokenizer.get("post_processor") else { return Ok([true; 3]) };
    let whole = std::slice::from_ref(processor);
    for processor in processor.get("processors").and_then(Value::as_array).unwrap_or(whole) {
        match processor.get("type").and_then(Value::as_str) {
            Some("ByteLevel") => adds[..2].iter_mut().for_each(|add| *add = add.or(Some(false))),
            Some("TemplateProcessing") => {
                let pieces = |name: &str| processor.get(name).and_then(Value::as_array).unwrap_or_default();
                frame(&mut adds, pieces("single"), pieces("pair"), starts, ends);
            }
            _ => {}
        }
    }
    Ok(adds.map(|add| add.unwrap_or(true)))
}

/// Reads one template, whose pieces are special tokens and sequences.
fn frame(
    adds: &mut [Option<bool>; 3],
    single: &[Value],
    pair: &[Value],
    starts: [Option<&str>; 2],
    ends: [Option<&str>; 2],
) {
    fn id<'v>(piece: &'v Value, kind: &str) -> Option<&'v str> {
        piece.get(kind)?.get("id")?.as_str()
    }
    let special = |piece: Option<&'_ Value>| piece.and_then(|piece| id(piece, "SpecialToken").map(str::to_owned));
    let framed = single.len() > 1;
    let first = special(single.first()).filter(|_| framed);
    let last = special(single.last()).filter(|_| framed);
    if let Some(first) = &first {
        adds[0] = Some(starts.contains(&Some(first)));
    }
    if last.is_some() {
        // Another last token than the end was refused before.
        adds[1] = Some(true);
    }
    let pair = match pair.split_first() {
        Some((piece, rest)) if first.is_some() && special(Some(piece)) == first => rest,
        _ => pair,
    };
    let pair = match pair.split_last() {
        Some((piece, rest)) if last.is_some() && special(Some(piece)) == last => rest,
        _ => pair,
    };
    let [a, between @ .., b] = pair else { return };
    if id(a, "Sequence") == Some("A") && id(b, "Sequence") == Some("B") && !between.is_empty() {
        let ends_part =
            |piece: &Value| ends.contains(&id(piece, "SpecialToken")) && id(piece, "SpecialToken").is_some();
        let at_first = between.first().is_some_and(ends_part) && last.is_none();
        let at_second = matches!(between, [_, second] if ends_part(second));
        adds[2] = Some(at_first || at_second);
    }
}
