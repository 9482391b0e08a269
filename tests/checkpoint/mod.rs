//! The smallest checkpoint there can be, as text, so that a test can break it.

#![allow(dead_code, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use laya::convert::{Options, convert_to};
use laya::gguf::File;

pub(crate) const AGENT: &str = r#"{"encoder": "x", "head_layers": 1, "max_len": 64, "head_max_len": 32, "act_costs": {"escalate": 0.5},
    "temperature": [1.0, 1.5, 2], "temperature_by_options": {"choice:2": 1.25, "noul:2": "0.5"}}"#;

pub(crate) const ENCODER: &str = r#"{"model_type": "modernbert", "vocab_size": 14, "hidden_size": 4, "intermediate_size": 2,
    "num_hidden_layers": 1, "num_attention_heads": 2, "local_attention": 8, "global_attn_every_n_layers": 3,
    "hidden_activation": "gelu", "norm_eps": 1e-05, "layer_norm_eps": 1e-05, "max_position_embeddings": 128,
    "attention_bias": false, "layer_types": ["full_attention"],
    "rope_parameters": {"full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
                        "sliding_attention": {"rope_theta": 10000, "rope_type": "default"}}}"#;

pub(crate) const TOKENIZER: &str = r#"{"version": "1.0", "added_tokens": [
    {"id": 0, "content": "<pad>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 1, "content": "<eos>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 2, "content": "<bos>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 3, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 4, "content": "<mask>", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true}],
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<eos>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]},
            "<eos>": {"id": "<eos>", "ids": [1], "tokens": ["<eos>"]}}},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
        "ignore_merges": false, "vocab": {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "<mask>": 4, "▁": 5, "a": 6, "b": 7,
        "▁a": 8, "ab": 9, "▁ab": 10, "c": 11}, "merges": [["▁", "a"], ["a", "b"], ["▁a", "b"]]}}"#;

pub(crate) const TOKENIZER_CONFIG: &str = r#"{"bos_token": "<bos>", "cls_token": "<bos>", "eos_token": "<eos>", "sep_token": "<eos>",
    "mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": true}, "pad_token": "<pad>", "unk_token": "<unk>", "extra_special_tokens": ["<pad>"],
    "tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "{{ x }}"}"#;

const CARD: &str = "---\nlicense: [mit, 'x']\ntags:\n- a\n- no\ndescription: \"d \\u00e9\" # c\nbase_model: o/n-7B-v1\nx:\n  y: 1\n---\n# t\n";

const INDEX: &str = r#"{"metadata": {"total_size": 1}, "weight_map": "#;

/// Source tensor names and shapes of the smallest model.
pub(crate) fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut all: Vec<(String, Vec<usize>)> = Vec::new();
    let mut add = |name: &str, shape: &[usize]| all.push((name.to_owned(), shape.to_vec()));
    add("encoder.embeddings.tok_embeddings.weight", &[14, 4]);
    add("encoder.embeddings.norm.weight", &[4]);
    add("encoder.final_norm.weight", &[4]);
    add("encoder.layers.0.attn.Wqkv.weight", &[12, 4]);
    add("encoder.layers.0.attn.Wo.weight", &[4, 4]);
    add("encoder.layers.0.mlp_norm.weight", &[4]);
    add("encoder.layers.0.mlp.Wi.weight", &[4, 4]);
    add("encoder.layers.0.mlp.Wo.weight", &[4, 2]);
    for norm in ["norm1", "norm2"] {
        add(&format!("head.layers.0.{norm}.weight"), &[4]);
        add(&format!("head.layers.0.{norm}.bias"), &[4]);
    }
    add("head.layers.0.self_attn.in_proj_weight", &[12, 4]);
    add("head.layers.0.self_attn.in_proj_bias", &[12]);
    add("head.layers.0.self_attn.out_proj.weight", &[4, 4]);
    add("head.layers.0.self_attn.out_proj.bias", &[4]);
    add("head.layers.0.linear1.weight", &[16, 4]);
    add("head.layers.0.linear1.bias", &[16]);
    add("head.layers.0.linear2.weight", &[4, 16]);
    add("head.layers.0.linear2.bias", &[4]);
    add("type_emb.weight", &[3, 4]);
    add("scorer.0.weight", &[4]);
    add("scorer.0.bias", &[4]);
    add("scorer.1.weight", &[4, 4]);
    add("scorer.1.bias", &[4]);
    add("scorer.3.weight", &[1, 4]);
    add("scorer.3.bias", &[1]);
    add("act_head.0.weight", &[3, 8]);
    add("act_head.0.bias", &[3]);
    add("act_head.2.weight", &[2, 3]);
    add("act_head.2.bias", &[2]);
    add("temperature", &[3]);
    all
}

/// A safetensors file of F16 (and one BF16) tensors.
pub(crate) fn safetensors(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let (mut header, mut at) = (String::from("{"), 0);
    for (name, shape) in tensors {
        let end = at + 2 * shape.iter().product::<usize>();
        let dtype = if *name == "type_emb.weight" { "BF16" } else { "F16" };
        header += &format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{at},{end}]}},");
        at = end;
    }
    header.pop();
    header += "}";
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0x3c; at]].concat()
}

pub(crate) fn index() -> String {
    let entries: Vec<String> = tensors().iter().map(|(name, _)| format!("\"{name}\": \"model.safetensors\"")).collect();
    format!("{INDEX}{{{}}}}}", entries.join(", "))
}

/// Replaces one file.
pub(crate) fn write(dir: &Path, file: &str, bytes: &[u8]) {
    fs::write(dir.join(file), bytes).unwrap();
}

/// Writes the smallest checkpoint; returns its files.
pub(crate) fn checkpoint(dir: &Path) -> Vec<(&'static str, Vec<u8>)> {
    fs::create_dir_all(dir.join("encoder")).unwrap();
    fs::create_dir_all(dir.join("tokenizer")).unwrap();
    let files = vec![
        ("model.safetensors", safetensors(&tensors())),
        ("model.safetensors.index.json", index().into_bytes()),
        ("rl_agent_config.json", AGENT.into()),
        ("encoder/config.json", ENCODER.into()),
        ("tokenizer/tokenizer.json", TOKENIZER.into()),
        ("tokenizer/tokenizer_config.json", TOKENIZER_CONFIG.into()),
        ("README.md", CARD.into()),
        ("generation_config.json", br#"{"temperature": 0.7, "top_k": 40, "top_p": 0.9}"#.to_vec()),
    ];
    for (file, bytes) in &files {
        write(dir, file, bytes);
    }
    files
}

/// Converts into memory: the file's bytes, or the message.
pub(crate) fn run(dir: &Path) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    match convert_to(dir, &mut out, &Options::default(), &mut |_, _| {}) {
        Ok(_) => Ok(out),
        Err(error) => Err(error.to_string()),
    }
}

/// A checkpoint that a test changes.
pub(crate) struct Case {
    folder: tempfile::TempDir,
    pub(crate) dir: PathBuf,
}

impl Case {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("a-checkpoint-1K");
        checkpoint(&dir);
        Self { folder, dir }
    }

    /// A place for files that are not the checkpoint's.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The checkpoint converted.
    #[track_caller]
    pub(crate) fn file(&self) -> File {
        File::from_bytes(self.bytes()).unwrap()
    }

    #[track_caller]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        run(&self.dir).unwrap()
    }

    /// The message of the refusal says all `parts`.
    #[track_caller]
    pub(crate) fn refused(&self, parts: &[&str]) {
        let message = run(&self.dir).map(|_| ()).unwrap_err();
        for part in parts {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
    }

    /// Adds or replaces a file.
    pub(crate) fn write(&self, file: &str, text: &str) -> &Self {
        write(&self.dir, file, text.as_bytes());
        self
    }

    /// The file with one text replaced by another.
    #[track_caller]
    pub(crate) fn with(&self, file: &str, from: &str, to: &str) -> &Self {
        let text = fs::read_to_string(self.dir.join(file)).unwrap();
        assert!(text.contains(from), "{file} has no {from:?}");
        self.write(file, &text.replace(from, to))
    }
}

/// One change of encoder/config.json, refused with file and `parts`.
#[track_caller]
pub(crate) fn encoder(from: &str, to: &str, parts: &[&str]) {
    changed("encoder/config.json", from, to, parts);
}

/// One change of rl_agent_config.json.
#[track_caller]
pub(crate) fn agent(from: &str, to: &str, parts: &[&str]) {
    changed("rl_agent_config.json", from, to, parts);
}

/// One change of tokenizer.json.
#[track_caller]
pub(crate) fn tokenizer(from: &str, to: &str, parts: &[&str]) {
    changed("tokenizer/tokenizer.json", from, to, parts);
}

/// One change of tokenizer_config.json.
#[track_caller]
pub(crate) fn tokenizer_config(from: &str, to: &str, parts: &[&str]) {
    changed("tokenizer/tokenizer_config.json", from, to, parts);
}

#[track_caller]
fn changed(file: &str, from: &str, to: &str, parts: &[&str]) {
    Case::new().with(file, from, to).refused(&[&[file], parts].concat());
}
