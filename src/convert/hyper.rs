//! `rl_agent_config.json` and `encoder/config.json` to the `laya.*` keys.

use super::config::{Config, number};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{Strings, Writer};
use crate::json::Value;

/// Most ids a vocabulary may have: the limit of the tokenizer that reads the GGUF file.
pub(super) const MAX_VOCAB: u32 = 1 << 21;
/// Longest row a model may state: the limit of the loader.
const LONGEST_ROW: u32 = 65_536;
/// The epsilon of the layer norms in the head and the scorer: what the published package computes with, whatever the
/// configuration says.
const HEAD_EPSILON: f32 = 1e-5;
/// More layers than any model has.
const MAX_LAYERS: u32 = 65_536;
/// Wider than any model.
const MAX_WIDTH: u32 = 1 << 20;
/// Question types: choice, score, noul.
pub(super) const N_QTYPE: u32 = 3;

/// Hyperparameters of a decision model, as its configuration files state them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hyper {
    pub(super) n_vocab: u32,
    pub(super) n_embd: u32,
    pub(super) n_layer: u32,
    pub(super) n_head: u32,
    pub(super) n_head_kv: Option<u32>,
    pub(super) head_dim: Option<u32>,
    pub(super) n_ff: u32,
    pub(super) context_length: Option<u32>,
    pub(super) norm_eps: Option<f32>,
    pub(super) layer_norm_eps: Option<f32>,
    /// A local layer sees `|i - j| <= window / 2`.
    pub(super) window: u32,
    /// Layer `i` is global when `i % pattern == 0`.
    pub(super) pattern: u32,
    pub(super) rope_global: f32,
    pub(super) rope_local: f32,
    /// The configuration says `is_causal: false`; the key about it then stands further up.
    pub(super) says_not_causal: bool,
    /// The configuration names its activation, gelu.
    pub(super) says_gelu: bool,
    pub(super) head_layers: u32,
    pub(super) max_len: u32,
    pub(super) head_max_len: u32,
    /// choice, score, noul.
    pub(super) temperature: Vec<f32>,
    /// Bucket and temperature, in the order of the file.
    pub(super) buckets: Vec<(String, f32)>,
    pub(super) act_classes: u32,
}

/// Names every missing key at once.
struct Missing(Vec<&'static str>);

impl Missing {
    fn take<T: Default>(&mut self, key: &'static str, value: Option<T>) -> T {
        if value.is_none() {
            self.0.push(key);
        }
        value.unwrap_or_default()
    }

    fn check(self, config: &Config) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let message = format!("missing {}: {}", if self.0.len() == 1 { "key" } else { "keys" }, self.0.join(", "));
        Err(Error::new(ErrorKind::Checkpoint, message).in_file(config.path()))
    }
}

impl Hyper {
    /// Reads both files; what could be converted but not computed is refused. Notes go to `notes`.
    pub(super) fn read(agent: &Config, encoder: &Config, notes: &mut Vec<String>) -> Result<Self> {
        supported(agent, encoder)?;
        let mut missing = Missing(Vec::new());
        let head_layers = missing.take("head_layers", agent.integer("head_layers", MAX_LAYERS)?);
        if !agent.has("encoder") {
            missing.0.push("encoder");
        }
        missing.check(agent)?;

        let mut missing = Missing(Vec::new());
        let mut size = |key, max| Ok::<_, Error>(missing.take(key, encoder.integer(key, max)?));
        let n_vocab = size("vocab_size", MAX_VOCAB)?;
        let n_embd = size("hidden_size", MAX_WIDTH)?;
        let n_ff = size("intermediate_size", MAX_WIDTH)?;
        let n_layer = size("num_hidden_layers", MAX_LAYERS)?;
        let n_head = size("num_attention_heads", MAX_WIDTH)?;
        let window = size("local_attention", MAX_WIDTH)?;
        let pattern = size("global_attn_every_n_layers", MAX_LAYERS)?;
        let rope_global = missing.take("global_rope_theta", rope(encoder, "full_attention", "global_rope_theta")?);
        let rope_local = missing.take("local_rope_theta", rope(encoder, "sliding_attention", "local_rope_theta")?);
        missing.check(encoder)?;
        for (key, n) in [
            ("vocab_size", n_vocab),
            ("hidden_size", n_embd),
            ("intermediate_size", n_ff),
            ("num_hidden_layers", n_layer),
            ("num_attention_heads", n_head),
            ("global_attn_every_n_layers", pattern),
        ] {
            if n == 0 {
                return Err(encoder.error(key, "must not be 0"));
            }
        }
        if !n_embd.is_multiple_of(n_head) || !(n_embd / n_head).is_multiple_of(2) {
            let message = format!("{n_head} heads do not divide hidden_size {n_embd} into even widths");
            return Err(encoder.error("num_attention_heads", message));
        }
        // The head has one attention head for every 64 columns.
        let n_decision_head = (n_embd / 64).max(1);
        if !n_embd.is_multiple_of(n_decision_head) {
            let message = format!("{n_embd} is not a multiple of its {n_decision_head} decision heads");
            return Err(encoder.error("hidden_size", message));
        }
        let (norm_eps, layer_norm_eps) = epsilons(encoder)?;
        let n_head_kv = encoder.integer("num_key_value_heads", MAX_WIDTH)?;
        if n_head_kv.is_some_and(|n| n != n_head) {
            return Err(encoder.error("num_key_value_heads", "must equal num_attention_heads"));
        }
        let head_dim = encoder.integer("head_dim", MAX_WIDTH)?;
        if head_dim.is_some_and(|n| n != n_embd / n_head) {
            return Err(encoder.error("head_dim", "must be hidden_size / num_attention_heads"));
        }
        layer_types(encoder, n_layer, pattern)?;
        let is_causal = encoder.get("is_causal");
        if is_causal.is_some_and(|value| *value != Value::Bool(false)) {
            return Err(encoder.error("is_causal", "must be false; encoders of this family see both sides"));
        }
        for key in ["dtype", "torch_dtype"] {
            if let Some(ty) = encoder.get(key).and_then(Value::as_str).filter(|ty| *ty != "float32") {
                notes.push(format!("{key} {ty}: the published package would run this encoder in half precision"));
            }
        }
        let act_costs = match agent.given("act_costs")? {
            None => 0,
            Some(Value::Object(costs)) => costs.len(),
            Some(_) => return Err(agent.error("act_costs", "must be an object")),
        };
        Ok(Self {
            n_vocab,
            n_embd,
            n_layer,
            n_head,
            n_head_kv,
            head_dim,
            n_ff,
            context_length: encoder.integer("max_position_embeddings", u32::MAX)?,
            norm_eps,
            layer_norm_eps,
            window,
            pattern,
            rope_global,
            rope_local,
            says_not_causal: is_causal.is_some(),
            says_gelu: encoder.get("hidden_activation").is_some(),
            head_layers,
            max_len: budget(agent, "max_len", 512)?,
            head_max_len: budget(agent, "head_max_len", 192)?,
            temperature: temperature(agent, notes)?,
            buckets: buckets(agent, notes)?,
            act_classes: u32::try_from(act_costs).unwrap_or(u32::MAX).saturating_add(1),
        })
    }

    /// Sets the keys from `laya.block_count` to the temperature buckets. `file_type` is the number of the output type.
    pub(super) fn set(&self, out: &mut Writer, file_type: u32) {
        out.set("laya.block_count", self.n_layer);
        if let Some(n) = self.context_length {
            out.set("laya.context_length", n);
        }
        out.set("laya.embedding_length", self.n_embd);
        out.set("laya.feed_forward_length", self.n_ff);
        out.set("laya.attention.head_count", self.n_head);
        if let Some(n) = self.n_head_kv {
            out.set("laya.attention.head_count_kv", n);
        }
        if self.says_not_causal {
            out.set("laya.attention.causal", false);
        }
        out.set("laya.rope.freq_base", self.rope_global);
        out.set("laya.rope.freq_base_swa", self.rope_local);
        if let Some(eps) = self.norm_eps {
            out.set("laya.attention.layer_norm_rms_epsilon", eps);
        }
        if let Some(eps) = self.layer_norm_eps {
            out.set("laya.attention.layer_norm_epsilon", eps);
        }
        if let Some(n) = self.head_dim {
            out.set("laya.attention.key_length", n);
            out.set("laya.attention.value_length", n);
        }
        out.set("general.file_type", file_type);
        out.set("laya.attention.causal", false);
        out.set("laya.attention.sliding_window", self.window);
        out.set("laya.attention.sliding_window_pattern", self.pattern);
        out.set("laya.rope.scaling.type", "none");
        out.set("laya.vocab_size", self.n_vocab);
        if self.says_gelu {
            out.set("laya.hidden_activation", "gelu");
        }
        out.set("laya.head_layers", self.head_layers);
        out.set("laya.n_qtype", N_QTYPE);
        out.set("laya.max_len", self.max_len);
        out.set("laya.head_max_len", self.head_max_len);
        out.set("laya.temperature", self.temperature.clone());
        out.set("laya.act_classes", self.act_classes);
        if !self.buckets.is_empty() {
            let names: Strings = self.buckets.iter().map(|(name, _)| name).collect();
            let values: Vec<f32> = self.buckets.iter().map(|&(_, value)| value).collect();
            out.set("laya.temperature_by_options.buckets", names);
            out.set("laya.temperature_by_options.values", values);
        }
    }
}

/// Settings of a mixture of experts.
const EXPERTS: [&str; 14] = [
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "n_group",
    "topk_group",
    "score_function",
    "scoring_func",
    "score_func",
    "moe_router_activation",
    "moe_router_activation_func",
    "expert_selection_fn",
];

/// Parts of configurations that hold another model's settings inside.
const NESTED: [&str; 6] = ["text_config", "llm_config", "lm_config", "thinker_config", "language_config", "lfm"];

/// The key that is read, other keys that the field's converter prefers to it, and others that it reads in its absence.
const SPELLINGS: [(&str, &[&str], &[&str]); 6] = [
    ("num_hidden_layers", &["n_layers"], &[]),
    ("intermediate_size", &["prefix_dense_intermediate_size", "dense_intermediate_size"], &[]),
    (
        "max_position_embeddings",
        &[],
        &["n_ctx", "n_positions", "max_length", "max_sequence_length", "model_max_length"],
    ),
    ("num_key_value_heads", &[], &["n_kv_heads"]),
    ("norm_eps", &["rms_norm_eps"], &[]),
    ("layer_norm_eps", &[], &["layer_norm_epsilon", "norm_epsilon"]),
];

/// Refuses what no part of this project computes.
fn supported(agent: &Config, encoder: &Config) -> Result<()> {
    if let Some(value) = encoder.get("model_type").filter(|value| value.as_str() != Some("modernbert")) {
        return Err(encoder.error("model_type", format!("{} is not modernbert", value.dumps())));
    }
    for key in ["attention_bias", "mlp_bias", "norm_bias"] {
        encoder.refuse(key, None, "encoders of this family have no biases")?;
    }
    if let Some(value) = encoder.get("hidden_activation").filter(|value| value.as_str() != Some("gelu")) {
        let message = format!("{} is not supported: only the exact (erf) gelu is", value.dumps());
        return Err(encoder.error("hidden_activation", message));
    }
    encoder.refuse("rope_scaling", None, "positions are not scaled")?;
    encoder.refuse("quantization_config", None, "convert the unquantized checkpoint")?;
    encoder.refuse("id2label", None, "a decision model has no class labels; remove the key")?;
    for key in EXPERTS {
        if encoder.get(key).is_some() {
            return Err(encoder.error(key, "is not supported: encoders of this family have no experts"));
        }
    }
    for key in NESTED {
        if encoder.has(key) {
            return Err(encoder.error(key, "is not supported: the settings of the encoder must stand at the top"));
        }
    }
    for (key, preferred, instead) in SPELLINGS {
        let instead = if encoder.has(key) { &[] } else { instead };
        if let Some(other) = preferred.iter().chain(instead).find(|other| encoder.has(other)) {
            return Err(encoder.error(other, format!("is another spelling of {key}; keep only {key}")));
        }
    }
    agent.refuse("option_layout", Some(&"sequential".into()), "only the sequential layout is")
}

/// A rotary base: `rope_parameters.<kind>.rope_theta`, or the older flat key when there is no `rope_parameters`.
fn rope(encoder: &Config, kind: &str, legacy: &str) -> Result<Option<f32>> {
    const KEY: &str = "rope_parameters";
    let positive = |value: Option<f32>, key: &str| match value {
        Some(theta) if theta > 0.0 => Ok(Some(theta)),
        Some(_) => Err(encoder.error(key, "must be positive")),
        None => Ok(None),
    };
    let Some(parameters) = encoder.get(KEY) else {
        return positive(encoder.float(legacy)?, legacy);
    };
    let kinds = ["full_attention", "sliding_attention"];
    let both = parameters.as_object().filter(|object| {
        let others = object.iter().any(|(name, value)| !kinds.contains(&name) && !value.is_null());
        !others && kinds.iter().all(|kind| object.get(kind).is_some_and(|v| v.as_object().is_some()))
    });
    if both.is_none() {
        let message = "must have one entry for full_attention and one for sliding_attention, and nothing else";
        return Err(encoder.error(KEY, message));
    }
    let entry = parameters.get(kind).and_then(Value::as_object);
    for (name, value) in entry.iter().flat_map(|entry| entry.iter()) {
        match name {
            _ if name == "rope_theta" || value.is_null() => {}
            "rope_type" if value.as_str() == Some("default") => {}
            "rope_type" => return Err(encoder.error(&format!("{KEY}.{kind}.{name}"), "only default is supported")),
            _ => {
                let message = "is not supported: positions are neither scaled nor partial";
                return Err(encoder.error(&format!("{KEY}.{kind}.{name}"), message));
            }
        }
    }
    let key = format!("{KEY}.{kind}.rope_theta");
    let theta = entry.and_then(|entry| entry.get("rope_theta")).and_then(number);
    positive(Some(theta.ok_or_else(|| encoder.error(&key, "must be a number"))?), &key)
}

/// `norm_eps` of the encoder and `layer_norm_eps` of the head, as the file states them.
///
/// The GGUF file's head epsilon is `layer_norm_eps`, else `norm_eps`, else 1e-5. The published package never reads
/// `layer_norm_eps`, so any other result than 1e-5 would compute another model.
fn epsilons(encoder: &Config) -> Result<(Option<f32>, Option<f32>)> {
    let (norm, head) = (encoder.float("norm_eps")?, encoder.float("layer_norm_eps")?);
    for (key, eps) in [("norm_eps", norm), ("layer_norm_eps", head)] {
        if let Some(eps) = eps.filter(|&eps| eps <= 0.0) {
            return Err(encoder.error(key, format!("is {eps} as a 32-bit float; it must be positive")));
        }
    }
    match (head, norm) {
        (Some(eps), _) if eps != HEAD_EPSILON => {
            let message = format!("is {eps}, but the published package computes the head with 1e-5; set it to 1e-5");
            Err(encoder.error("layer_norm_eps", message))
        }
        (None, Some(eps)) if eps != HEAD_EPSILON => {
            let message = format!(
                "is missing, so a GGUF file's head would use norm_eps {eps}; the published package computes the head with \
                 1e-5: add \"layer_norm_eps\": 1e-05"
            );
            Err(encoder.error("layer_norm_eps", message))
        }
        _ => Ok((norm, head)),
    }
}

/// An explicit list of layer kinds must be the one the pattern gives: the GGUF file holds only the pattern.
fn layer_types(encoder: &Config, n_layer: u32, pattern: u32) -> Result<()> {
    const KEY: &str = "layer_types";
    let Some(types) = encoder.get(KEY) else { return Ok(()) };
    let types = types.as_array().ok_or_else(|| encoder.error(KEY, "must be an array"))?;
    let expected = |i: usize| {
        if i.is_multiple_of(pattern as usize) { "full_attention" } else { "sliding_attention" }
    };
    if types.len() != n_layer as usize || types.iter().enumerate().any(|(i, ty)| ty.as_str() != Some(expected(i))) {
        let message = format!(
            "is not full attention on every {pattern}th of {n_layer} layers; other orders have no place \
                               in the GGUF layout"
        );
        return Err(encoder.error(KEY, message));
    }
    Ok(())
}

/// A token budget; 0 leaves no room for anything.
fn budget(agent: &Config, key: &str, default: u32) -> Result<u32> {
    if agent.given(key)?.is_none() {
        return Ok(default);
    }
    match agent.integer(key, LONGEST_ROW)? {
        None => Ok(default),
        Some(0) => Err(agent.error(key, "must not be 0")),
        Some(n) => Ok(n),
    }
}

/// The three temperatures.
fn temperature(agent: &Config, notes: &mut Vec<String>) -> Result<Vec<f32>> {
    const KEY: &str = "temperature";
    if !agent.has(KEY) {
        return Ok(vec![1.0; 3]);
    }
    match agent.get(KEY).and_then(Value::as_array) {
        Some(list) if list.len() == 3 => Ok(list.iter().map(|value| degree(value, KEY, notes)).collect()),
        _ => Err(agent.error(KEY, "must be a list of three numbers: choice, score, noul")),
    }
}

/// The temperatures by number of options.
fn buckets(agent: &Config, notes: &mut Vec<String>) -> Result<Vec<(String, f32)>> {
    const KEY: &str = "temperature_by_options";
    if !agent.has(KEY) {
        return Ok(Vec::new());
    }
    let Some(table) = agent.get(KEY).and_then(Value::as_object) else {
        return Err(agent.error(KEY, "must be an object of bucket and temperature"));
    };
    Ok(table.iter().map(|(bucket, value)| (bucket.to_owned(), degree(value, bucket, notes))).collect())
}

/// A text as Python's `float()` reads it: one underscore is allowed between digits.
fn python_float(text: &str) -> Option<f64> {
    let text = text.trim();
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut parts = text.split('_').peekable();
    while let Some(part) = parts.next() {
        let next = parts.peek();
        if next.is_some_and(|next| !digit(part.chars().next_back()) || !digit(next.chars().next())) {
            return None;
        }
    }
    text.replace('_', "").parse().ok()
}

/// One temperature as the published package reads it: Python's `float()`, and 1 for what is no finite number. The clamp
/// to 0.5-5 happens when it is used, so a number beyond 32-bit floats is as good as the largest of them.
fn degree(value: &Value, what: &str, notes: &mut Vec<String>) -> f32 {
    let float = match value {
        Value::Number(n) => Some(n.as_f64()),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::String(text) => python_float(text),
        _ => None,
    };
    let Some(degree) = float.filter(|degree: &f64| degree.is_finite()) else {
        notes.push(format!(
            "the {what} {} is not a finite number; 1 is used, as in the published package",
            value.dumps()
        ));
        return 1.0;
    };
    let stored = degree.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    if degree.abs() > f64::from(f32::MAX) {
        notes.push(format!(
            "the {what} {} is beyond 32-bit floats; {stored:e} is stored, which answers the same",
            value.dumps()
        ));
    }
    stored
}
