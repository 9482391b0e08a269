//! Hyperparameters, read from the `laya.*` keys of a GGUF.

use crate::error::{Error, Result};
use crate::gguf::File;

/// Question types every model of the layout knows: choice, score, noul.
pub const N_QUESTION_TYPES: usize = 3;

/// Longest row a model may state: eight times the context of any encoder of this family. Bounds the memory of a pass.
pub const LONGEST_ROW: usize = 65_536;

/// Hyperparameters of a decision model.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Width of the hidden state.
    pub n_embd: usize,
    /// Encoder layers.
    pub n_layer: usize,
    /// Attention heads of an encoder layer.
    pub n_head: usize,
    /// Width of the gated feed-forward, `f`; `ffn_up` has `2 f` rows.
    pub n_ff: usize,
    /// Rows of the token embedding.
    pub n_vocab: usize,
    /// Local layers see keys up to `window / 2` positions away, inclusive.
    pub window: usize,
    /// Encoder layer `i` is global when `i % pattern == 0`, else local.
    pub window_pattern: usize,
    /// Rotary base of the global layers.
    pub rope_base_global: f32,
    /// Rotary base of the local layers.
    pub rope_base_local: f32,
    /// Epsilon of the encoder's layer norms.
    pub norm_epsilon: f32,
    /// Epsilon of the layer norms in the decision head and the scorer.
    pub head_norm_epsilon: f32,
    /// Layers of the decision head; zero is legal.
    pub n_head_layer: usize,
    /// Rows of the type embedding.
    pub n_question_type: usize,
    /// Outputs of the act head; 0 for a model without one.
    pub n_act: usize,
    /// Longest row, tokens.
    pub max_len: usize,
    /// Budget of question and options, tokens.
    pub head_max_len: usize,
    /// Id of the marker token.
    pub marker_token: u32,
    /// Temperatures of choice, score and noul, as stored.
    pub temperature: [f32; N_QUESTION_TYPES],
    /// Temperatures by `type:bucket` name, as stored.
    pub temperature_by_options: Vec<(String, f32)>,
}

impl Config {
    /// Reads the keys of `file`.
    ///
    /// # Errors
    /// The file is not of this layout, a key is missing or has the wrong type, or the values contradict each other; the
    /// error names the key.
    pub fn from_gguf(file: &File) -> Result<Self> {
        architecture(file)?;
        let reader = Reader(file);
        let config = Self {
            n_embd: reader.count("laya.embedding_length")?,
            n_layer: reader.count("laya.block_count")?,
            n_head: reader.count("laya.attention.head_count")?,
            n_ff: reader.count("laya.feed_forward_length")?,
            n_vocab: reader.count("laya.vocab_size")?,
            window: file.require_u32("laya.attention.sliding_window")? as usize,
            window_pattern: reader.count("laya.attention.sliding_window_pattern")?,
            rope_base_global: reader.positive("laya.rope.freq_base", None)?,
            rope_base_local: reader.positive("laya.rope.freq_base_swa", None)?,
            norm_epsilon: reader.positive("laya.attention.layer_norm_rms_epsilon", Some(1e-5))?,
            head_norm_epsilon: 0.0,
            n_head_layer: reader.optional("laya.head_layers", 2)? as usize,
            n_question_type: reader.optional("laya.n_qtype", 3)? as usize,
            n_act: act_classes(file)?,
            max_len: reader.optional("laya.max_len", 1024)? as usize,
            head_max_len: reader.optional("laya.head_max_len", 256)? as usize,
            marker_token: file.require_u32("laya.marker_token_id")?,
            temperature: temperatures(file)?,
            temperature_by_options: buckets(file)?,
        };
        let head_norm_epsilon = reader.positive("laya.attention.layer_norm_epsilon", Some(config.norm_epsilon))?;
        let config = Self { head_norm_epsilon, ..config };
        config.validate(file)?;
        Ok(config)
    }

    /// Heads of a decision-head layer: one for every 64 columns, at least one, whatever the encoder has.
    pub fn n_decision_head(&self) -> usize {
        (self.n_embd / 64).max(1)
    }

    /// Whether encoder layer `i` sees the whole row.
    pub fn is_global(&self, i: usize) -> bool {
        i.is_multiple_of(self.window_pattern)
    }

    fn validate(&self, file: &File) -> Result<()> {
        let bad = |key: &str, message: String| Err(wrong(file, key, message));
        if !self.n_embd.is_multiple_of(self.n_head) || !(self.n_embd / self.n_head).is_multiple_of(2) {
            let message = format!("{} heads do not divide {} into even widths", self.n_head, self.n_embd);
            return bad("laya.attention.head_count", message);
        }
        if !self.n_embd.is_multiple_of(self.n_decision_head()) {
            let message = format!("{} is not a multiple of its {} decision heads", self.n_embd, self.n_decision_head());
            return bad("laya.embedding_length", message);
        }
        if self.n_question_type < N_QUESTION_TYPES {
            return bad("laya.n_qtype", format!("is {}; the layout has three question types", self.n_question_type));
        }
        for (key, n) in [("laya.max_len", self.max_len), ("laya.head_max_len", self.head_max_len)] {
            if n == 0 {
                return bad(key, "is 0; a row needs room for at least one token".into());
            }
        }
        // Keys that would change the meaning of the others.
        if file.bool("laya.attention.causal")? == Some(true) {
            return bad("laya.attention.causal", "is true; a decision model sees the whole row".into());
        }
        if let Some(scaling) = file.str("laya.rope.scaling.type")?.filter(|scaling| *scaling != "none") {
            return bad("laya.rope.scaling.type", format!("is {scaling:?}; only \"none\" is implemented"));
        }
        if self.max_len > LONGEST_ROW {
            return bad(
                "laya.max_len",
                format!("is {}; rows of more than {LONGEST_ROW} tokens are not supported", self.max_len),
            );
        }
        match file.str("laya.hidden_activation")? {
            None | Some("gelu") => {}
            Some(other) => return bad("laya.hidden_activation", format!("is {other:?}; only \"gelu\" is implemented")),
        }
        match file.u32("tokenizer.ggml.mask_token_id")? {
            Some(mask) if mask != self.marker_token => bad(
                "laya.marker_token_id",
                format!("is {}, but tokenizer.ggml.mask_token_id is {mask}", self.marker_token),
            ),
            _ => Ok(()),
        }
    }
}

/// Refuses other layouts. Which of them this build reads is for `layout` to know, which comes first.
fn architecture(file: &File) -> Result<()> {
    match file.str("general.architecture")? {
        Some("laya") => Ok(()),
        None => Err(file.error("not a laya GGUF: general.architecture is missing")),
        Some(other) => Err(file.error(format!("not a laya GGUF: the architecture is {other:?}"))),
    }
}

/// Outputs of the act head. A model without one says so: a file that merely lacks the tensors is damaged.
fn act_classes(file: &File) -> Result<usize> {
    const KEY: &str = "laya.act_classes";
    if file.bool("laya.act_head")? == Some(false) {
        return Ok(0);
    }
    match file.u32(KEY)?.unwrap_or(2) {
        0 => Err(wrong(file, KEY, "is 0; the act head needs an output".into())),
        n => Ok(n as usize),
    }
}

fn wrong(file: &File, key: &str, message: String) -> Error {
    file.error(message).at_key(key)
}

/// Scalar keys with their defaults.
struct Reader<'a>(&'a File);

impl Reader<'_> {
    fn optional(&self, key: &str, default: u32) -> Result<u32> {
        Ok(self.0.u32(key)?.unwrap_or(default))
    }

    /// A required number that may not be zero.
    fn count(&self, key: &str) -> Result<usize> {
        match self.0.require_u32(key)? {
            0 => Err(wrong(self.0, key, "is 0".into())),
            n => Ok(n as usize),
        }
    }

    /// A positive, finite float.
    fn positive(&self, key: &str, default: Option<f32>) -> Result<f32> {
        let x = match default {
            Some(default) => self.0.f32(key)?.unwrap_or(default),
            None => self.0.require_f32(key)?,
        };
        if x.is_finite() && x > 0.0 {
            return Ok(x);
        }
        Err(wrong(self.0, key, format!("is {x}; it must be positive and finite")))
    }
}

/// `laya.temperature`, a shorter list padded with its last value.
fn temperatures(file: &File) -> Result<[f32; N_QUESTION_TYPES]> {
    const KEY: &str = "laya.temperature";
    let stored = file.f32s(KEY)?.unwrap_or(&[]);
    if stored.len() > N_QUESTION_TYPES {
        return Err(wrong(file, KEY, format!("holds {} values for {N_QUESTION_TYPES} question types", stored.len())));
    }
    let last = stored.last().copied().unwrap_or(1.0);
    Ok(std::array::from_fn(|i| stored.get(i).copied().unwrap_or(last)))
}

/// `laya.temperature_by_options`.
fn buckets(file: &File) -> Result<Vec<(String, f32)>> {
    const NAMES: &str = "laya.temperature_by_options.buckets";
    let values = file.f32s("laya.temperature_by_options.values")?;
    let (names, values) = match (file.strings(NAMES)?, values) {
        (None, None) => return Ok(Vec::new()),
        (Some(names), Some(values)) if names.len() == values.len() => (names, values),
        (names, values) => {
            let (n, m) = (names.map_or(0, crate::gguf::Strings::len), values.map_or(0, <[f32]>::len));
            return Err(wrong(file, NAMES, format!("{n} buckets do not match {m} values")));
        }
    };
    names
        .iter()
        .zip(values)
        .map(|(name, value)| match std::str::from_utf8(name) {
            Ok(name) => Ok((name.to_owned(), *value)),
            Err(_) => Err(wrong(file, NAMES, "a bucket name is not UTF-8".into())),
        })
        .collect()
}
