//! Conversions against the digests of gguf-py's files.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use laya::convert::{Options, Outtype, convert, vocabulary_gguf};
use sha2::{Digest, Sha256};

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no ../shared");
    None
}

#[test]
fn files_are_byte_identical_to_gguf_pys() {
    let Some(dir) = shared("conformance/engine/convert") else { return };
    let out = tempfile::tempdir().unwrap();
    let rows = std::fs::read_to_string(dir.join("golden.sha256")).unwrap();
    let mut checked = 0;
    for row in rows.lines().filter(|row| !row.starts_with('#')) {
        let [file, fixture, outtype, name, n_bytes, sha256] = row.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("a row of another shape: {row}");
        };
        let outtype = outtype.parse::<Outtype>().unwrap();
        let path = out.path().join(file);
        let options = Options { outtype, model_name: (name != "-").then(|| name.to_owned()), ..Options::default() };
        let report = convert(&dir.join(fixture), &path, &options).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(report.n_bytes, bytes.len() as u64, "{file}");
        assert_eq!(bytes.len().to_string(), n_bytes, "{file}");
        assert_eq!(format!("{:x}", Sha256::digest(&bytes)), sha256, "{file}");
        laya::gguf::File::open(&path).unwrap();
        checked += 1;
    }
    println!("{checked} files identical");
    assert!(checked >= 7);
}

#[test]
fn the_real_vocabularies_convert() {
    for (name, n_tokens, n_merges, mask) in [
        ("tokenizers/laya-english.tokenizer.json", 50_368, 50_009, 50_284),
        ("tokenizers/laya-multilingual.tokenizer.json", 256_000, 580_604, 4),
    ] {
        let Some(path) = shared(name) else { return };
        let start = std::time::Instant::now();
        let file = vocabulary_gguf(&path).unwrap();
        println!("{name}: {:?}", start.elapsed());
        assert_eq!(file.require_strings("tokenizer.ggml.tokens").unwrap().len(), n_tokens);
        assert_eq!(file.require_strings("tokenizer.ggml.merges").unwrap().len(), n_merges);
        assert_eq!(file.require_u32("tokenizer.ggml.mask_token_id").unwrap(), mask);
        assert_eq!(file.require_u32("laya.marker_token_id").unwrap(), mask);
    }
}
