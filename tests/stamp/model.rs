//! Random model files and random specs.

use crate::random::SplitMix64 as Random;
use laya::gguf::{Array, Strings, TensorType, Value, Writer};
use laya::json::{self, Object};
use laya::spec::{KEY, MIRROR_KEYS};

/// Text of up to `n` characters from all over Unicode.
pub(crate) fn text(random: &mut Random, n: usize) -> String {
    let n = random.below(n + 1);
    (0..n)
        .map(|_| {
            let most = [0x7f, 0x7ff, 0xffff, 0x10_ffff][random.below(4)];
            char::from_u32(random.below(most + 1) as u32).unwrap_or('\u{fffd}')
        })
        .collect()
}

fn value(random: &mut Random) -> Value {
    match random.below(10) {
        0 => Value::U8(random.next() as u8),
        1 => Value::I16(random.next() as i16),
        2 => Value::U32(random.next() as u32),
        // Any bits, those of no number too.
        3 => Value::F32(f32::from_bits(random.next() as u32)),
        4 => Value::Bool(random.below(2) == 0),
        5 => Value::F64(f64::from_bits(random.next())),
        6 => Value::String((0..random.below(40)).map(|_| random.next() as u8).collect()),
        7 => Value::Array(Array::String((0..random.below(50)).map(|_| text(random, 12)).collect::<Strings>())),
        8 => {
            Value::Array(Array::Array(vec![Array::U64(vec![random.next(); random.below(4)]), Array::Bool(vec![true])]))
        }
        _ => Value::Array(Array::F32((0..random.below(30)).map(|_| f32::from_bits(random.next() as u32)).collect())),
    }
}

/// A model file of `architecture` with some keys and tensors, perhaps stamped already, somewhere among its keys; its data
/// section, the gaps between tensors included, is noise, and may be longer or shorter than their padding.
pub(crate) fn model(random: &mut Random, architecture: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut keys: Vec<(String, Value)> =
        (0..random.below(12)).map(|i| (format!("{}.{i}", text(random, 10)), value(random))).collect();
    keys.push(("general.architecture".into(), architecture.into()));
    match random.below(8) {
        0 => {}
        n => keys.push(("general.alignment".into(), Value::U32([1, 8, 16, 32, 64, 128, 4096][n - 1]))),
    }
    if random.below(2) == 0 {
        keys.push((KEY.into(), Value::String(text(random, 300).into_bytes())));
        for key in MIRROR_KEYS {
            let old = [Value::U32(7), Value::from("old"), Value::Bool(true)][random.below(3)].clone();
            keys.push((key.into(), old));
        }
    }
    while !keys.is_empty() {
        let (key, value) = keys.swap_remove(random.below(keys.len()));
        writer.set(key, value);
    }
    for i in 0..random.below(6) {
        let (ty, first) = [(TensorType::F32, 1), (TensorType::F16, 1), (TensorType::Q8_0, 32), (TensorType::Q6_K, 256)]
            [random.below(4)];
        let rows = [&[][..], &[3], &[2, 5], &[1, 7, 2]][random.below(4)];
        let shape = [&[first * (1 + random.below(3) as u64)], rows].concat();
        writer.add_tensor(format!("t{i}.{}", text(random, 8)), &shape, ty).unwrap();
    }
    let mut bytes = writer
        .to_bytes(|tensor, out| {
            out.write_all(&vec![0; tensor.n_bytes as usize]).unwrap();
            Ok(())
        })
        .unwrap();
    let file = laya::gguf::File::from_bytes(bytes.clone()).unwrap();
    let needed = file.tensors().iter().map(|tensor| tensor.offset + tensor.n_bytes).max();
    match (needed, random.below(3)) {
        (Some(needed), 0) => bytes.truncate((file.data_start() + needed) as usize),
        (_, 1) => bytes.resize(bytes.len() + random.below(100), 0),
        _ => {}
    }
    for byte in bytes.iter_mut().skip(file.data_start() as usize) {
        *byte = random.next() as u8;
    }
    bytes
}

/// JSON of any kind, not deep.
fn json(random: &mut Random, depth: usize) -> json::Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => json::Value::Null,
        1 => json::Value::from(random.below(2) == 0),
        2 => json::Value::from(random.next() as i64),
        3 => json::Value::from((random.next() as i32 as f64) / 1024.0),
        4 => json::Value::from(text(random, 20)),
        5 => (0..random.below(4)).map(|_| json(random, depth - 1)).collect(),
        _ => json::Value::Object((0..random.below(4)).map(|_| (text(random, 8), json(random, depth - 1))).collect()),
    }
}

/// The text of a valid spec, up to some 4 KiB, in one of the many ways to write it down.
pub(crate) fn spec(random: &mut Random, layout: &str) -> Vec<u8> {
    let mut spec = Object::new();
    for _ in 0..random.below(4) {
        spec.insert(format!("x-{}", text(random, 10)), json(random, 3));
    }
    spec.insert("spec_version", 1_i64);
    if random.below(2) == 0 {
        spec.insert("model_id", text(random, 40));
    }
    spec.insert("layout", layout);
    if random.below(2) == 0 {
        spec.insert("model_version", [json::Value::Null, json::Value::from("1.0.0")][random.below(2)].clone());
    }
    if random.below(2) == 0 {
        let temperature = || json::Value::from(1.5);
        let buckets: Object = [("2", 1.25), ("3-5", 2.0), ("6+", 0.75)]
            .into_iter()
            .map(|(name, t)| (name, json::Value::from(t)))
            .collect();
        let temperatures: Object =
            [("choice", json::Value::Object(buckets)), ("all", temperature())].into_iter().collect();
        let method = json::Value::from("temperature");
        let calibration: Object =
            [("method", method), ("temperature", json::Value::Object(temperatures))].into_iter().collect();
        spec.insert("calibration", calibration);
    }
    // From no character to some 4 KiB of them.
    let most = [0, 10, 100, 1350][random.below(4)];
    spec.insert("x-note", text(random, most));
    let spec = json::Value::Object(spec);
    let text = match random.below(3) {
        0 => spec.dumps(),
        1 => spec.dumps_compact(),
        _ => spec.dumps_indent(1 + random.below(4)),
    };
    let blank = ["", " ", "\n", "\r\n\t", "\n\n"];
    let (before, after) = (blank[random.below(blank.len())], blank[random.below(blank.len())]);
    format!("{before}{text}{after}").into_bytes()
}
