//! The smallest checkpoint with a wide embedding: 30 MB of weights, so that its conversion can be met half-way.

#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;

use crate::checkpoint;

const N_VOCAB: usize = 60_000;
const N_EMBD: usize = 256;

/// Writes the checkpoint to the new directory `dir`.
pub(crate) fn write(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    checkpoint::checkpoint(dir);
    let tensors: Vec<_> = checkpoint::tensors().into_iter().map(|(name, shape)| widened(name, shape)).collect();
    checkpoint::write(dir, "model.safetensors", &checkpoint::safetensors(&tensors));
    let encoder = checkpoint::ENCODER
        .replace("\"vocab_size\": 14", &format!("\"vocab_size\": {N_VOCAB}"))
        .replace("\"hidden_size\": 4", &format!("\"hidden_size\": {N_EMBD}"))
        .replace("\"intermediate_size\": 2", &format!("\"intermediate_size\": {}", N_EMBD / 2));
    checkpoint::write(dir, "encoder/config.json", encoder.as_bytes());
}

fn widened(name: String, mut shape: Vec<usize>) -> (String, Vec<usize>) {
    // The few dimensions that are not multiples of the width are the act head's own.
    let is_own = name.starts_with("act_head.") && name != "act_head.0.weight";
    for n in shape.iter_mut().filter(|_| !is_own) {
        *n = match *n {
            14 => N_VOCAB,
            8 => N_EMBD + 4,
            n @ (2 | 4 | 12 | 16) => n * N_EMBD / 4,
            n => n,
        };
    }
    (name, shape)
}
