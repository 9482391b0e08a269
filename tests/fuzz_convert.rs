//! Thousands of damaged checkpoint files: each conversion succeeds or is an error in one line; never a panic, never memory
//! out of proportion.

#![allow(clippy::unwrap_used)]

mod checkpoint;
mod mutation;
mod random;

use checkpoint::{checkpoint, run, write};
use laya::engine::{self, Engine};
use mutation::{mutate, mutate_json, peak_kib};
use random::SplitMix64 as Random;

/// Damages `rounds` checkpoints; counts those that were converted and those that were refused.
fn worker(seed: u64, rounds: usize) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("laya-fuzz-1K");
    let files = checkpoint(&dir);
    laya::gguf::File::from_bytes(run(&dir).unwrap()).unwrap();
    let options = engine::Options { n_threads: Some(1), ..engine::Options::default() };
    let mut random = Random(seed);
    let (mut converted, mut refused) = (0, 0);
    for round in 0..rounds {
        // Weights and tokenizer are damaged more often than the small files.
        let which = [0, 4, 0, 4, 1, 2, 3, 5, 6, 7][round % 10];
        let (file_name, original) = &files[which];
        let mut bytes = original.clone();
        match random.below(2) {
            0 => mutate(&mut bytes, &mut random, 4000),
            _ if which == 0 => {
                // A header of the right length with another value in it.
                let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
                let mut header = bytes[8..8 + n].to_vec();
                mutate_json(&mut header, &mut random);
                bytes = [&(header.len() as u64).to_le_bytes()[..], &header, &bytes[8 + n..]].concat();
            }
            _ => mutate_json(&mut bytes, &mut random),
        }
        write(&dir, file_name, &bytes);
        match run(&dir) {
            Ok(bytes) => {
                let file = laya::gguf::File::from_bytes(bytes).unwrap();
                // What converts also loads: nothing is accepted here that the loader refuses.
                let loaded = Engine::from_gguf(&file, &options);
                assert!(loaded.is_ok(), "{file_name}: converted but does not load: {}", loaded.unwrap_err());
                converted += 1;
            }
            Err(message) => {
                assert!(message.len() < 20_000 && !message.contains('\n'), "{file_name}: {message}");
                refused += 1;
            }
        }
        write(&dir, file_name, original);
    }
    (converted, refused)
}

#[test]
fn damaged_checkpoints_convert_or_are_refused() {
    let before = peak_kib();
    let workers: Vec<_> = (0..4).map(|i| std::thread::spawn(move || worker(87 + i, 7_500))).collect();
    let (mut converted, mut refused) = (0, 0);
    for worker in workers {
        let (c, r) = worker.join().unwrap();
        (converted, refused) = (converted + c, refused + r);
    }
    println!("30000 damaged checkpoints: {refused} refused, {converted} converted");
    assert!(refused > 15_000 && converted > 1_000, "{refused} {converted}");
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        println!("peak memory grew by {} KiB", after - before);
        assert!(after - before < 64 * 1024, "memory grew by {} KiB", after - before);
    }
}
