//! The small files of a synthetic checkpoint.

use super::arch::Arch;
use super::weight::Recipe;
use super::{Dtype, Options};
use crate::convert::hyper::Hyper;
use crate::convert::naming;
use crate::convert::vocabulary::{Vocabulary, token_names};
use crate::json::{Object, Value};
use crate::tokenizer::Family;

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().collect::<Object>())
}

/// The shortest decimal that reads back as `n`.
fn float(n: f32) -> Value {
    n.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

pub(super) fn tokenizer_config(family: Family) -> Value {
    let mut config = Object::new();
    for &(slot, name) in token_names(family) {
        config.insert(slot, name);
    }
    config.insert("clean_up_tokenization_spaces", false);
    config.insert("model_input_names", ["input_ids", "attention_mask"].into_iter().collect::<Value>());
    config.insert("model_max_length", 8192u32);
    config.insert("tokenizer_class", "PreTrainedTokenizerFast");
    Value::Object(config)
}

pub(super) fn encoder_config(hyper: &Hyper, vocabulary: &Vocabulary) -> Value {
    let rope = |theta: f32| object([("rope_theta", float(theta)), ("rope_type", "default".into())]);
    object([
        ("architectures", ["ModernBertForMaskedLM"].into_iter().collect()),
        ("attention_bias", false.into()),
        ("bos_token_id", vocabulary.special_id("bos").into()),
        ("cls_token_id", vocabulary.special_id("bos").into()),
        ("eos_token_id", vocabulary.special_id("eos").into()),
        ("global_attn_every_n_layers", hyper.pattern.into()),
        ("hidden_activation", "gelu".into()),
        ("hidden_size", hyper.n_embd.into()),
        ("intermediate_size", hyper.n_ff.into()),
        ("layer_norm_eps", 1e-5.into()),
        ("local_attention", hyper.window.into()),
        ("max_position_embeddings", hyper.context_length.into()),
        ("mlp_bias", false.into()),
        ("model_type", "modernbert".into()),
        ("norm_bias", false.into()),
        ("norm_eps", 1e-5.into()),
        ("num_attention_heads", hyper.n_head.into()),
        ("num_hidden_layers", hyper.n_layer.into()),
        ("pad_token_id", vocabulary.special_id("padding").into()),
        (
            "rope_parameters",
            object([("full_attention", rope(hyper.rope_global)), ("sliding_attention", rope(hyper.rope_local))]),
        ),
        ("sep_token_id", vocabulary.special_id("seperator").into()),
        ("tie_word_embeddings", true.into()),
        ("vocab_size", hyper.n_vocab.into()),
    ])
}

pub(super) fn agent_config(arch: Arch, hyper: &Hyper) -> Value {
    let buckets: Object = hyper.buckets.iter().map(|(bucket, degree)| (bucket.as_str(), float(*degree))).collect();
    object([
        ("encoder", arch.encoder().into()),
        ("head_layers", hyper.head_layers.into()),
        ("max_len", hyper.max_len.into()),
        ("head_max_len", hyper.head_max_len.into()),
        ("act_costs", object([("escalate", 0.5.into())])),
        ("temperature", hyper.temperature.iter().map(|&degree| float(degree)).collect()),
        ("temperature_by_options", Value::Object(buckets)),
    ])
}

/// A model card that states everything a converter would otherwise read from the directory's name.
pub(super) fn card(options: &Options, n_params: u64) -> String {
    let name = options.arch.as_str();
    let outliers = if options.outliers { "-outliers" } else { "" };
    format!(
        "---\n\
         model_name: Synthetic {name}{outliers}\n\
         model_basename: laya-synthetic-{name}\n\
         model_finetune: seed-{}{outliers}\n\
         model_version: v1\n\
         model_size_label: {}\n\
         pipeline_tag: text-classification\n\
         tags: [laya, synthetic]\n\
         ---\n\
         # Synthetic {name}\n\n\
         Random weights in the published layout, for tests and measurements. Its answers mean nothing.\n",
        options.seed,
        naming::rounded(n_params),
    )
}

/// The header of `model.safetensors`, padded so that the data is aligned to 8 bytes.
pub(super) fn safetensors_header(recipes: &[Recipe], dtype: Dtype) -> String {
    let (name, width) = match dtype {
        Dtype::F16 => ("F16", 2),
        Dtype::F32 => ("F32", 4),
    };
    let mut header = Object::new();
    header.insert("__metadata__", object([("format", "pt".into())]));
    let mut at = 0u64;
    for recipe in recipes {
        let end = at + recipe.n_elements() * width;
        let entry = object([
            ("dtype", name.into()),
            ("shape", recipe.shape.iter().copied().collect()),
            ("data_offsets", [at, end].into_iter().collect()),
        ]);
        header.insert(recipe.name.as_str(), entry);
        at = end;
    }
    let mut text = Value::Object(header).dumps_compact();
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    text
}
