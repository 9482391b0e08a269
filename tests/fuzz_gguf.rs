//! Tens of thousands of damaged GGUF files: each is an error or a file that stays inside its bytes; never a panic, never
//! memory out of proportion.

#![allow(clippy::unwrap_used)]

mod mutation;
mod random;

use laya::gguf::{Array, File, Strings, TensorType, Value, Writer};
use mutation::{mutate, peak_kib};
use random::SplitMix64 as Random;

fn sample() -> Vec<u8> {
    let mut w = Writer::new();
    w.set("general.architecture", "laya");
    w.set("general.alignment", 32u32);
    w.set("laya.block_count", 2u32);
    w.set("laya.temperature", vec![1f32, 1.5, 2.0]);
    w.set("flag", true);
    w.set("big", u64::MAX);
    w.set("tokenizer.ggml.tokens", (0..40).map(|i| format!("t{i}")).collect::<Strings>());
    w.set("tokenizer.ggml.token_type", vec![1i32; 40]);
    w.set("nested", Value::Array(Array::Array(vec![Array::U16(vec![1, 2]), Array::Bool(vec![true])])));
    w.add_tensor("token_embd.weight", &[64, 3], TensorType::F16).unwrap();
    w.add_tensor("blk.0.attn_qkv.weight", &[32, 2], TensorType::Q8_0).unwrap();
    w.add_tensor("scorer.0.bias", &[5], TensorType::F32).unwrap();
    w.to_bytes(|t, out| {
        out.write_all(&vec![1; t.n_bytes as usize]).unwrap();
        Ok(())
    })
    .unwrap()
}

/// Touches everything a reader hands out.
fn walk(file: &File) -> usize {
    let mut sum = 0;
    for (key, value) in file.keys() {
        sum += key.len() + value.type_name().len();
        if let Value::Array(Array::String(strings)) = value {
            sum += strings.iter().map(<[u8]>::len).sum::<usize>();
        }
        let _ = (file.u32(key), file.str(key), file.f32s(key), file.require_strings(key), file.i32s(key));
    }
    for tensor in file.tensors() {
        let data = file.tensor_data(tensor);
        assert_eq!(data.len() as u64, tensor.n_bytes, "{}", tensor.name);
        sum += data.iter().map(|&b| b as usize).sum::<usize>();
    }
    sum
}

#[test]
fn damaged_files_are_errors_or_stay_inside_their_bytes() {
    let sample = sample();
    assert!(walk(&File::from_bytes(sample.clone()).unwrap()) > 0);
    let before = peak_kib();
    let mut random = Random(66);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..60_000 {
        let mut bytes = sample.clone();
        mutate(&mut bytes, &mut random, 1200);
        match File::from_bytes(bytes) {
            Ok(file) => {
                walk(&file);
                read += 1;
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.len() < 100_000 && !message.contains('\n'), "{message}");
                refused += 1;
            }
        }
    }
    println!("60000 damaged GGUF files: {refused} refused, {read} read");
    assert!(refused > 30_000 && read > 1_000, "the mutations are too weak or too strong: {refused} {read}");
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        println!("peak memory grew by {} KiB", after - before);
        assert!(after - before < 32 * 1024, "a {} byte file made memory grow by {} KiB", sample.len(), after - before);
    }
}
