//! Thousands of damaged checkpoint files: each conversion succeeds or is an error in one line; never a panic, never memory
//! out of proportion. One test for each kind of file; `fuzz_gguf.rs` and `fuzz_model.rs` have the GGUF file.

#![allow(clippy::unwrap_used)]

mod checkpoint;
mod mutation;
mod random;

use checkpoint::{checkpoint, run, write};
use laya::engine::{self, Engine};
use mutation::{mutate, mutate_json, peak_kib};
use random::SplitMix64 as Random;

/// Damages one of `targets` in each of `rounds` rounds; counts the checkpoints that were converted and refused.
fn worker(seed: u64, rounds: usize, targets: &[&str], damage: fn(&mut Vec<u8>, &mut Random)) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("laya-fuzz-1K");
    let files = checkpoint(&dir);
    laya::gguf::File::from_bytes(run(&dir).unwrap()).unwrap();
    let options = engine::Options { n_threads: Some(1), ..engine::Options::default() };
    let mut random = Random(seed);
    let (mut converted, mut refused) = (0, 0);
    for round in 0..rounds {
        let target = targets[round % targets.len()];
        let (_, original) = files.iter().find(|(name, _)| *name == target).unwrap();
        let mut bytes = original.clone();
        damage(&mut bytes, &mut random);
        write(&dir, target, &bytes);
        match run(&dir) {
            Ok(bytes) => {
                let file = laya::gguf::File::from_bytes(bytes).unwrap();
                // What converts also loads: nothing is accepted here that the loader refuses.
                let loaded = Engine::from_gguf(&file, &options);
                assert!(loaded.is_ok(), "{target}: converted but does not load: {}", loaded.unwrap_err());
                converted += 1;
            }
            Err(message) => {
                assert!(message.len() < 20_000 && !message.contains('\n'), "{target}: {message}");
                assert!(message.contains("laya-fuzz-1K"), "{target}: names no file: {message}");
                refused += 1;
            }
        }
        write(&dir, target, original);
    }
    (converted, refused)
}

/// Two workers; at least a fifth of the checkpoints must be refused and `least` converted.
fn fuzz(seed: u64, rounds: usize, least: usize, targets: &'static [&str], damage: fn(&mut Vec<u8>, &mut Random)) {
    let before = peak_kib();
    let workers: Vec<_> =
        (0..2).map(|i| std::thread::spawn(move || worker(seed + i, rounds / 2, targets, damage))).collect();
    let (mut converted, mut refused) = (0, 0);
    for worker in workers {
        let (c, r) = worker.join().unwrap();
        (converted, refused) = (converted + c, refused + r);
    }
    println!("{rounds} damaged, {}: {refused} refused, {converted} converted", targets.join(" "));
    assert!(refused > rounds / 5 && converted >= least, "{refused} {converted}");
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        // The other tests of this file run at the same time.
        assert!(after - before < 64 * 1024, "memory grew by {} KiB", after - before);
    }
}

#[test]
fn safetensors_header() {
    fuzz(87, 7_000, 100, &["model.safetensors"], |bytes, random| {
        if random.below(2) == 0 {
            return mutate(bytes, random, 4000);
        }
        // A header of the right length with another value in it.
        let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header = bytes[8..8 + n].to_vec();
        mutate_json(&mut header, random);
        *bytes = [&(header.len() as u64).to_le_bytes()[..], &header, &bytes[8 + n..]].concat();
    });
}

#[test]
fn tokenizer_json() {
    let files = &["tokenizer/tokenizer.json", "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"];
    fuzz(187, 7_000, 60, files, bytes_or_values);
}

#[test]
fn settings_and_index() {
    let files =
        &["rl_agent_config.json", "encoder/config.json", "model.safetensors.index.json", "generation_config.json"];
    fuzz(287, 5_000, 300, files, bytes_or_values);
}

fn bytes_or_values(bytes: &mut Vec<u8>, random: &mut Random) {
    if random.below(2) == 0 { mutate(bytes, random, 4000) } else { mutate_json(bytes, random) }
}

#[test]
fn readme_front_matter() {
    fuzz(387, 5_000, 1_000, &["README.md"], |bytes, random| {
        if random.below(4) == 0 {
            return mutate(bytes, random, 4000);
        }
        // Pieces of YAML, put in and taken away.
        const PIECES: [&str; 24] = [
            "- ",
            "\n- ",
            ": ",
            "\"",
            "'",
            "[",
            "]",
            "{",
            "}",
            "|",
            ">",
            "#",
            " #",
            "\t",
            "&a ",
            "*a",
            "!b ",
            "? ",
            "\\",
            "- no\n",
            "---\n",
            "\u{2028}",
            "\n  ",
            "license: ",
        ];
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() + 1);
            let end = (at + random.below(3)).min(bytes.len());
            bytes.splice(at..end, PIECES[random.below(PIECES.len())].bytes());
        }
    });
}
