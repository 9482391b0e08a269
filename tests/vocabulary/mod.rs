//! The two real tokenizers, by way of the converter: `tokenizer.json`, GGUF keys, tokenizer.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::path::PathBuf;

use laya::convert::vocabulary_gguf;
use laya::json::Value;
use laya::tokenizer::Tokenizer;

/// The outside test data; a test that needs it prints that it was skipped when it is not there.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no ../shared");
    None
}

pub(crate) fn tokenizer_json(language: &str) -> Option<PathBuf> {
    shared(&format!("tokenizers/laya-{language}.tokenizer.json"))
}

/// `english` or `multilingual`.
pub(crate) fn tokenizer(language: &str) -> Option<Tokenizer> {
    Some(Tokenizer::from_gguf(&vocabulary_gguf(&tokenizer_json(language)?).unwrap()).unwrap())
}

pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap()
}

pub(crate) fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).unwrap()
}
