//! Thousands of damaged model files through the whole loading path: each is an error in one line or a model that answers
//! requests (or says in one line why it cannot); never a panic, never memory out of proportion.

#![allow(clippy::unwrap_used)]

mod mutation;
mod random;

use std::ops::Range;
use std::path::Path;

use laya::convert::{Options, convert_to};
use laya::engine::{self, Engine};
use laya::gguf::File;
use laya::json;
use laya::request::Request;
use mutation::{mutate, peak_kib};
use random::SplitMix64 as Random;

/// Threads that damage files; each loads and answers on one thread.
const WORKERS: u64 = 4;
/// Files each of them damages.
const ROUNDS: usize = 2_500;

/// A model file and where its parts lie.
struct Sample {
    bytes: Vec<u8>,
    /// Numbers of four bytes: hyperparameters, budgets, special ids, temperatures.
    scalars: Vec<usize>,
    /// The names and value types of those keys.
    names: Vec<Range<usize>>,
    tensor_infos: Range<usize>,
    tokens: Range<usize>,
    token_types: Range<usize>,
    merges: Range<usize>,
    data: Range<usize>,
}

fn find(bytes: &[u8], text: &str) -> usize {
    let needle = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    bytes.windows(needle.len()).position(|window| window == needle).unwrap()
}

impl Sample {
    fn new() -> Self {
        let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tiny-mmbert/checkpoint");
        let mut bytes = Vec::new();
        convert_to(&checkpoint, &mut bytes, &Options::default(), &mut |_, _| {}).unwrap();
        let file = File::from_bytes(bytes.clone()).unwrap();
        let key = |name: &str| find(&bytes, name);
        let after = |name: &str| key(name) + 8 + name.len();
        let (mut scalars, mut names) = (Vec::new(), Vec::new());
        for (name, value) in file.keys() {
            let own = name.starts_with("laya.") || name.ends_with("_token_id") || name.starts_with("decision.");
            if own && matches!(value.type_name().as_str(), "u32" | "f32") {
                scalars.push(after(name) + 4);
            }
            if own {
                names.push(key(name)..after(name) + 4);
            }
        }
        // The elements of `laya.temperature`, after type, element type and count.
        scalars.extend((0..3).map(|i| after("laya.temperature") + 16 + 4 * i));
        assert!(scalars.len() > 20, "{}", scalars.len());
        let next = |name: &str| {
            let place = file.keys().position(|(key, _)| key == name).unwrap();
            file.keys().nth(place + 1).map_or(bytes.len(), |(name, _)| key(name))
        };
        let span = |name: &str| after(name)..next(name);
        let first = &file.tensors()[0];
        let data_start = file.tensor_data(first).as_ptr() as usize - file.map().bytes().as_ptr() as usize;
        Self {
            scalars,
            names,
            tensor_infos: key(&first.name)..data_start,
            tokens: span("tokenizer.ggml.tokens"),
            token_types: span("tokenizer.ggml.token_type"),
            merges: span("tokenizer.ggml.merges"),
            data: data_start..bytes.len(),
            bytes,
        }
    }

    /// A copy with one or two kinds of damage.
    fn damaged(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let n = if random.below(4) == 0 { 2 } else { 1 };
        for _ in 0..n {
            match random.below(10) {
                0..=3 => overwrite(&mut bytes, self.scalars[random.below(self.scalars.len())], random),
                4 => {
                    let name = self.names[random.below(self.names.len())].clone();
                    flip(&mut bytes, name, random);
                }
                5 => {
                    let at = self.tensor_infos.start + random.below(self.tensor_infos.len());
                    overwrite(&mut bytes, at, random);
                }
                6 => flip(&mut bytes, self.tokens.clone(), random),
                7 => {
                    let span = if random.below(2) == 0 { &self.merges } else { &self.token_types };
                    flip(&mut bytes, span.clone(), random);
                }
                8 => flip(&mut bytes, self.data.clone(), random),
                _ => {
                    // Lengths change, so nothing after this finds its place.
                    mutate(&mut bytes, random, self.data.start);
                    return bytes;
                }
            }
        }
        bytes
    }
}

/// Puts another number of four bytes at `at`.
fn overwrite(bytes: &mut [u8], at: usize, random: &mut Random) {
    let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>) else { return };
    let old = u32::from_le_bytes(*place);
    let new = match random.below(16) {
        0 => 0,
        1 => 1,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old.wrapping_mul(2),
        5 => old / 2,
        6 => random.below(600) as u32,
        7 => 65_536,
        8 => i32::MAX as u32,
        9 => u32::MAX,
        10 => f32::NAN.to_bits(),
        11 => f32::INFINITY.to_bits(),
        12 => f32::MIN_POSITIVE.to_bits(),
        13 => (-1f32).to_bits(),
        14 => 1e30f32.to_bits(),
        _ => old ^ (1 << random.below(32)),
    };
    *place = new.to_le_bytes();
}

/// Changes one to four bytes of `span`.
fn flip(bytes: &mut [u8], span: Range<usize>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = span.start + random.below(span.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = if random.below(2) == 0 { *byte ^ (1 << random.below(8)) } else { random.next() as u8 };
        }
    }
}

fn requests() -> [Request; 2] {
    let long = "my order arrived late and the box was broken, where is the refund? ".repeat(8);
    let long = format!(
        r#"{{"state": [{{"role": "user", "content": "{long}"}}, 1.5, null], "questions": {{
            "a": {{"type": "choice", "instructions": "Topic?", "criteria": ["billing", "delivery", "привет 🙂", "other"]}},
            "b": {{"type": "noul", "instructions": "Refund?", "criteria": {{"true": "the customer wants money back"}}}}}}}}"#
    );
    let short = r#"{"state": "charged twice", "questions": {"q": {"type": "choice", "instructions": "Topic?", "criteria": ["x", "y"]}}}"#;
    [short, &long].map(|text| Request::parse(&json::parse(text.as_bytes()).unwrap()).unwrap())
}

#[track_caller]
fn one_line(message: &str) {
    assert!(message.len() < 100_000 && !message.contains('\n'), "{message}");
}

#[derive(Default)]
struct Counts {
    refused: usize,
    loaded: usize,
    answered: usize,
}

fn worker(sample: &Sample, seed: u64) -> Counts {
    let options = engine::Options { n_threads: Some(1), ..engine::Options::default() };
    let requests = requests();
    let mut random = Random(seed);
    let mut counts = Counts::default();
    for _ in 0..ROUNDS {
        let loaded = File::from_bytes(sample.damaged(&mut random)).and_then(|file| Engine::from_gguf(&file, &options));
        let engine = match loaded {
            Ok(engine) => engine,
            Err(error) => {
                one_line(&error.to_string());
                counts.refused += 1;
                continue;
            }
        };
        counts.loaded += 1;
        for request in &requests {
            match engine.answer(request) {
                Ok(response) => {
                    assert_eq!(response.questions.len(), request.questions.len());
                    counts.answered += 1;
                }
                Err(error) => one_line(&error.to_string()),
            }
        }
    }
    counts
}

#[test]
fn damaged_models_are_refused_or_answer() {
    let start = std::time::Instant::now();
    let sample = Sample::new();
    let whole =
        Engine::from_gguf(&File::from_bytes(sample.bytes.clone()).unwrap(), &engine::Options::default()).unwrap();
    for request in requests() {
        assert_eq!(whole.answer(&request).unwrap().questions.len(), request.questions.len());
    }
    let before = peak_kib();
    let mut sum = Counts::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|i| {
                scope.spawn({
                    let sample = &sample;
                    move || worker(sample, 41 + i)
                })
            })
            .collect();
        for worker in workers {
            let counts = worker.join().unwrap();
            sum.refused += counts.refused;
            sum.loaded += counts.loaded;
            sum.answered += counts.answered;
        }
    });
    let Counts { refused, loaded, answered } = sum;
    println!(
        "{} damaged models: {refused} refused, {loaded} loaded, {answered} requests answered in {:?}",
        refused + loaded,
        start.elapsed()
    );
    assert!(refused + loaded >= 10_000 && refused > 3_000, "{refused} {loaded}");
    assert!(loaded > 1_500 && answered > 2_000, "the damage is too strong: {loaded} {answered}");
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        println!("peak memory grew by {} KiB", after - before);
        assert!(
            after - before < 512 * 1024,
            "a {} byte file made memory grow by {} KiB",
            sample.bytes.len(),
            after - before
        );
    }
}
