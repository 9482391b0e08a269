//! What the proof finds in a file that is not what it should be.

use std::path::{Path, PathBuf};

use super::synth::{self, Arch, Dtype};
use super::{Job, Options, Outtype, stream};
use crate::error::{Error, Place};
use crate::gguf::{File, Strings};

/// A tiny checkpoint of either family in `dir`.
fn checkpoint(dir: &Path, arch: Arch) -> PathBuf {
    let path = dir.join(arch.as_str());
    let options = synth::Options { dtype: Dtype::F32, ..synth::Options::new(arch) };
    synth::write_checkpoint(&path, &options, &mut |_, _| {}).unwrap();
    path
}

/// Writes the file of `job`, changes it and reads it back.
fn after(job: &Job, dir: &Path, change: impl FnOnce(&mut Vec<u8>, &File)) -> Option<Error> {
    let path = dir.join("written.gguf");
    let mut bytes = Vec::new();
    stream::write(&job.layout, job.checkpoint.weights(), &mut bytes, &mut |_, _| {}).unwrap();
    let file = File::from_bytes(bytes.clone()).unwrap();
    change(&mut bytes, &file);
    std::fs::write(&path, &bytes).unwrap();
    let mut stored = stream::stored(&job.layout, job.checkpoint.weights()).unwrap();
    let proven = job.prove_tokenizer().and_then(|n_probes| job.prove(&path, &mut stored, n_probes.unwrap()));
    proven.err()
}

#[test]
fn one_changed_byte_anywhere_is_found() {
    let dir = tempfile::tempdir().unwrap();
    for (arch, outtype) in [(Arch::TinyMmbert, Outtype::Q8_0Mixed), (Arch::TinyModernbert, Outtype::F16)] {
        let options = Options { outtype, ..Options::default() };
        let job = Job::new(&checkpoint(dir.path(), arch), &options).unwrap();
        assert!(after(&job, dir.path(), |_, _| {}).is_none());
        let file = job.layout.clone();
        let n_tensors = file.tensors().unwrap().len();
        for i in 0..n_tensors {
            let mut changed = String::new();
            let error = after(&job, dir.path(), |bytes, file| {
                let tensor = &file.tensors()[i];
                // The last byte of a tensor: sign and exponent, or an element of the last block.
                let at = file.tensor_start(tensor).unwrap() + tensor.n_bytes as usize - 1;
                bytes[at] ^= 0x44;
                changed.clone_from(&tensor.name);
            });
            let error = error.unwrap_or_else(|| panic!("{changed} passed"));
            assert_eq!(error.place(), Some(&Place::Tensor(changed)));
            assert!(error.message().contains("the value written at row "), "{error}");
        }
        // A key, and a token of the vocabulary.
        for (text, key) in
            [("laya.head_layers", "laya.head_layers"), ("tokenizer.ggml.tokens", "tokenizer.ggml.tokens")]
        {
            let error = after(&job, dir.path(), |bytes, _| {
                let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
                // Behind the key: type, then a u32, or element type, length, and the first string's length and bytes.
                let value = at + text.len() + if key.ends_with("tokens") { 4 + 4 + 8 + 8 } else { 4 };
                bytes[value] ^= 1;
            });
            assert_eq!(error.unwrap().place(), Some(&Place::Key(key.into())));
        }
        let error = after(&job, dir.path(), |bytes, _| bytes.truncate(bytes.len() / 2)).unwrap();
        assert!(error.message().starts_with("cannot be read back: "), "{error}");
    }
}

#[test]
fn a_tokenizer_that_splits_otherwise_is_found() {
    let dir = tempfile::tempdir().unwrap();
    for arch in [Arch::TinyMmbert, Arch::TinyModernbert] {
        let mut job = Job::new(&checkpoint(dir.path(), arch), &Options::default()).unwrap();
        let merges = job.layout.get("tokenizer.ggml.merges").unwrap().clone();
        let crate::gguf::Value::Array(crate::gguf::Array::String(merges)) = merges else { panic!("no strings") };
        // The file is what was laid out, and the layout is wrong: every other merge is missing.
        let fewer: Strings = merges.iter().step_by(2).collect();
        job.layout.set("tokenizer.ggml.merges", fewer);
        let error = after(&job, dir.path(), |_, _| {}).unwrap();
        assert!(error.message().contains("the tokenizers library split"), "{error}");
    }
}
