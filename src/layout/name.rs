//! The names of keys and tensors in llama.cpp's layout and in the laya layout.

use std::borrow::Cow;

/// Keys that are more than another prefix: in the laya layout, in llama.cpp's.
const KEYS: [(&str, &str); 10] = [
    ("laya.head_layers", "modern-bert.decision.block_count"),
    ("laya.head_max_len", "modern-bert.decision.max_head_tokens"),
    ("laya.max_len", super::upstream::MAX_LEN),
    ("laya.n_qtype", "tokenizer.ggml.token_type_count"),
    ("laya.marker_token_id", "tokenizer.ggml.mask_token_id"),
    ("laya.temperature", "modern-bert.decision.temperature"),
    ("laya.temperature_by_options.buckets", "modern-bert.decision.temperature"),
    ("laya.temperature_by_options.values", "modern-bert.decision.temperature"),
    ("decision.laya.tokenizer", "tokenizer.ggml.pre"),
    ("laya.act_head", "modern-bert.decision.type"),
];

/// Tensors that belong to no block: the start of the name in the laya layout, in llama.cpp's. The longer of two starts
/// comes first.
const TENSORS: [(&str, &str); 7] = [
    ("token_embd.", "token_embd."),
    ("token_embd_norm.", "token_embd_norm."),
    ("output_norm.", "output_norm."),
    ("type_emb.", "token_types."),
    ("scorer.0.", "cls.norm."),
    ("scorer.3.", "cls.output."),
    ("scorer.1.", "cls."),
];

/// The parts of a block, in both layouts.
const PARTS: [&str; 6] = ["attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down"];

/// Translates names, for a model with some number of layers: the blocks of the decision head follow those of the encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Encoder layers.
    pub n_layer: u32,
    /// Layers of the decision head.
    pub n_head_layer: u32,
}

impl Names {
    /// What llama.cpp's layout calls the tensor `name` of the laya layout; `None` for a tensor that has no place there:
    /// those of the act head, and names no layout has.
    pub fn own_tensor(&self, name: &str) -> Option<String> {
        if let Some((i, part)) = block(name, "blk.") {
            return (i < self.n_layer).then(|| format!("blk.{i}.{part}"));
        }
        if let Some((i, part)) = block(name, "head.") {
            let place = self.n_layer.checked_add(i).filter(|_| i < self.n_head_layer)?;
            return Some(format!("blk.{place}.{part}"));
        }
        whole(name, |(laya, own)| (laya, own))
    }

    /// What the laya layout calls the tensor `name` of llama.cpp's layout, if it has it.
    pub(super) fn laya_tensor(&self, name: &str) -> Option<String> {
        let Some((i, part)) = block(name, "blk.") else {
            return whole(name, |(laya, own)| (own, laya));
        };
        if i < self.n_layer {
            return Some(format!("blk.{i}.{part}"));
        }
        let i = i - self.n_layer;
        (i < self.n_head_layer).then(|| format!("head.{i}.{part}"))
    }

    /// What llama.cpp's layout calls the key `key` of the laya layout.
    pub(super) fn own_key<'k>(&self, key: &'k str) -> Cow<'k, str> {
        if let Some((_, own)) = KEYS.iter().find(|(laya, _)| *laya == key) {
            return Cow::Borrowed(own);
        }
        match key.strip_prefix("laya.") {
            Some(rest) => Cow::Owned(format!("modern-bert.{rest}")),
            None => Cow::Borrowed(key),
        }
    }
}

/// Exchanges the start of a name that `side` finds on its left for the one on its right.
fn whole(name: &str, side: fn((&'static str, &'static str)) -> (&'static str, &'static str)) -> Option<String> {
    TENSORS.into_iter().map(side).find_map(|(from, to)| {
        let end = name.strip_prefix(from).filter(|end| matches!(*end, "weight" | "bias"))?;
        Some(format!("{to}{end}"))
    })
}

/// The number of a block and the rest of the name: `blk.3.attn_norm.weight` is 3 and `attn_norm.weight`.
fn block<'n>(name: &'n str, start: &str) -> Option<(u32, &'n str)> {
    let (number, rest) = name.strip_prefix(start)?.split_once('.')?;
    let (part, end) = rest.rsplit_once('.')?;
    let i: u32 = number.parse().ok()?;
    // Only the way the number is written: 03 and +3 are no names of block 3.
    let plain = i.to_string() == number && PARTS.contains(&part) && matches!(end, "weight" | "bias");
    plain.then_some((i, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names { n_layer: 22, n_head_layer: 2 };

    #[test]
    fn tensors_have_one_name_in_each_layout() {
        for (laya, own) in [
            ("token_embd.weight", "token_embd.weight"),
            ("token_embd_norm.weight", "token_embd_norm.weight"),
            ("output_norm.weight", "output_norm.weight"),
            ("blk.0.attn_qkv.weight", "blk.0.attn_qkv.weight"),
            ("blk.21.ffn_down.weight", "blk.21.ffn_down.weight"),
            ("head.0.attn_norm.bias", "blk.22.attn_norm.bias"),
            ("head.1.ffn_up.weight", "blk.23.ffn_up.weight"),
            ("type_emb.weight", "token_types.weight"),
            ("scorer.0.weight", "cls.norm.weight"),
            ("scorer.0.bias", "cls.norm.bias"),
            ("scorer.1.weight", "cls.weight"),
            ("scorer.1.bias", "cls.bias"),
            ("scorer.3.weight", "cls.output.weight"),
        ] {
            assert_eq!(NAMES.own_tensor(laya).as_deref(), Some(own));
            assert_eq!(NAMES.laya_tensor(own).as_deref(), Some(laya));
        }
    }

    #[test]
    fn names_without_a_place_have_none() {
        for laya in ["act_head.0.weight", "blk.22.attn_qkv.weight", "head.2.ffn_up.weight", "scorer.2.weight", "x"] {
            assert_eq!(NAMES.own_tensor(laya), None, "{laya}");
        }
        for own in [
            "blk.24.attn_qkv.weight",
            "blk.03.attn_qkv.weight",
            "blk.+3.attn_qkv.weight",
            "blk.4294967296.attn_qkv.weight",
            "blk.3.attn_q.weight",
            "blk.3.attn_norm.scale",
            "blk.3",
            "head.0.attn_norm.bias",
            "scorer.0.weight",
            "type_emb.weight",
            "cls.hidden.weight",
            "cls.norm.norm.weight",
            "",
        ] {
            assert_eq!(NAMES.laya_tensor(own), None, "{own}");
        }
    }

    #[test]
    fn keys_are_called_as_in_the_file() {
        for (laya, own) in [
            ("laya.embedding_length", "modern-bert.embedding_length"),
            ("laya.head_layers", "modern-bert.decision.block_count"),
            ("laya.marker_token_id", "tokenizer.ggml.mask_token_id"),
            ("tokenizer.ggml.tokens", "tokenizer.ggml.tokens"),
            ("decision.laya.added_tokens", "decision.laya.added_tokens"),
        ] {
            assert_eq!(NAMES.own_key(laya), own);
        }
    }
}
