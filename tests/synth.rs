//! Synthetic checkpoints: the same bytes everywhere, loadable, and a GGUF file that is the conversion of the directory.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use laya::convert::synth::{Arch, Dtype, Options, write_checkpoint, write_gguf};
use laya::convert::{self, Outtype};
use laya::gguf::{File, TensorType};
use laya::tokenizer::Tokenizer;
use sha2::{Digest, Sha256};

const TEXTS: [&str; 12] = [
    "",
    " ",
    "  hello  world",
    "choice question: What does the customer want?",
    "false: no, the statement does not hold",
    "The parcel was damaged and the refund is late.\n\n\nPlease help!",
    "Où est ma commande ? Größe 42, señor",
    "привет, 你好, مرحبا, नमस्ते, 🙂👍🏽",
    "{\"amount\": 532.0, \"tags\": [\"a\", \"b\"], \"n\": null}",
    "tab\there\u{a0}nbsp \u{2581}\u{2581} x",
    "cafe\u{301} <b>bold</b> [MASK] <mask> [unused1] |||EMAIL_ADDRESS|||",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

fn digest(path: &Path) -> String {
    format!("{:x}", Sha256::digest(std::fs::read(path).unwrap()))
}

fn quiet(_: u64, _: u64) {}

#[test]
fn tiny_checkpoints_are_the_same_bytes_everywhere() {
    // No statement about what is right, only that no machine, thread count or later change moves a bit unnoticed.
    const MMBERT: &str = "8d476d475e4615bbf603fa020195824a341c6d02b655f20d4c7a49c9c46328de";
    const MODERNBERT: &str = "5738a313bf6f30d9cffba9f1f0ce7b441a7ef4e62a86306d26ad96eb18698afa";
    for (arch, outliers, weights, tokenizer) in [
        (Arch::TinyMmbert, false, "8d9f5b093b249b613dde3dcf38a33a7d8cf0811c42833a91a8b9931e800f14f3", MMBERT),
        (Arch::TinyMmbert, true, "cf0fe45c74fab75ea8a6220ce14fa3f35a5625e6dbc2360e01c03dafa806fa26", MMBERT),
        (Arch::TinyModernbert, false, "b42a38d35cd774e4f942437389b3da45d435cb4467ef28ea7f981cf85f25aed6", MODERNBERT),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { seed: 7, outliers, ..Options::new(arch) };
        write_checkpoint(dir.path(), &options, &mut quiet).unwrap();
        assert_eq!(digest(&dir.path().join("model.safetensors")), weights, "{arch:?} {outliers}");
        assert_eq!(digest(&dir.path().join("tokenizer/tokenizer.json")), tokenizer, "{arch:?}");
    }
}

#[test]
fn a_gguf_file_is_the_conversion_of_the_directory() {
    for arch in [Arch::TinyMmbert, Arch::TinyModernbert] {
        for (dtype, outtype) in [(Dtype::F16, Outtype::F16), (Dtype::F32, Outtype::F32), (Dtype::F16, Outtype::Q8_0)] {
            let folder = tempfile::tempdir().unwrap();
            let options = Options { seed: 3, dtype, outtype, ..Options::new(arch) };
            let dir = folder.path().join("some-directory-7B-v2");
            let (mut last, mut of) = (0, 1);
            write_checkpoint(&dir, &options, &mut |done, total| {
                assert!(done >= last && done <= total);
                (last, of) = (done, total);
            })
            .unwrap();
            assert_eq!(last, of);
            let (converted, direct) = (folder.path().join("a.gguf"), folder.path().join("b.gguf"));
            convert::convert(&dir, &converted, &convert::Options { outtype, ..convert::Options::default() }).unwrap();
            let report = write_gguf(&direct, &options, &mut quiet).unwrap();
            assert_eq!(std::fs::read(&converted).unwrap(), std::fs::read(&direct).unwrap(), "{arch:?}");
            assert_eq!(report.n_bytes, std::fs::metadata(&direct).unwrap().len());
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "temporary files are left");
            let file = File::open(&direct).unwrap();
            let want = match outtype {
                Outtype::F32 => TensorType::F32,
                Outtype::F16 | Outtype::Q8_0Mixed => TensorType::F16,
                Outtype::Q8_0 => TensorType::Q8_0,
            };
            assert_eq!(file.tensor("token_embd.weight").unwrap().ty, want);
        }
    }
}

#[test]
fn generated_vocabularies_tokenize_as_hf_tokenizers_does() {
    for arch in [Arch::TinyMmbert, Arch::TinyModernbert] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("c");
        write_checkpoint(&dir, &Options::new(arch), &mut quiet).unwrap();
        let oracle = tokenizers::Tokenizer::from_file(dir.join("tokenizer/tokenizer.json")).unwrap();
        let vocabulary = convert::vocabulary_gguf(&dir.join("tokenizer/tokenizer.json")).unwrap();
        let tokenizer = Tokenizer::from_gguf(&vocabulary).unwrap();
        for text in TEXTS {
            let want = oracle.encode(text, false).unwrap();
            assert_eq!(tokenizer.encode(text), want.get_ids(), "{arch:?} {text:?}");
        }
        assert_eq!(oracle.get_vocab_size(true), 1024);
    }
}

#[test]
fn what_is_not_empty_or_not_of_the_family_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    write_checkpoint(&first, &Options::new(Arch::TinyMmbert), &mut quiet).unwrap();
    let error = write_checkpoint(&first, &Options::new(Arch::TinyMmbert), &mut quiet).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
    let tokenizer = Some(first.join("tokenizer/tokenizer.json"));
    let options = Options { tokenizer: tokenizer.clone(), ..Options::new(Arch::TinyModernbert) };
    let error = write_checkpoint(&second, &options, &mut quiet).unwrap_err();
    assert!(error.to_string().contains("metaspace-bpe") && !second.exists(), "{error}");
    // The family's own vocabulary is taken over as it is.
    let options = Options { tokenizer, ..Options::new(Arch::TinyMmbert) };
    write_checkpoint(&second, &options, &mut quiet).unwrap();
    for file in ["tokenizer/tokenizer.json", "model.safetensors", "rl_agent_config.json", "encoder/config.json"] {
        assert_eq!(digest(&first.join(file)), digest(&second.join(file)), "{file}");
    }
}

#[test]
fn a_given_tokenizer_is_taken_over_without_its_mode_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    write_checkpoint(&first, &Options::new(Arch::TinyMmbert), &mut quiet).unwrap();
    let path = first.join("tokenizer/tokenizer.json");
    let before = digest(&path);
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    let options = Options { tokenizer: Some(path.clone()), ..Options::new(Arch::TinyMmbert) };
    write_checkpoint(&second, &options, &mut quiet).unwrap();
    assert!(!std::fs::metadata(second.join("tokenizer/tokenizer.json")).unwrap().permissions().readonly());
    let error = write_gguf(&path, &options, &mut quiet).unwrap_err();
    assert!(error.to_string().contains("is a file the conversion reads"), "{error}");
    assert_eq!(digest(&path), before);
}
