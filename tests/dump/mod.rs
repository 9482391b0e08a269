//! Reference dumps for tests, made of the goldens' hidden states: what scripts/parity_layers.py writes for those rows.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::path::Path;

use laya::json::{self, Object, Value};

/// Tensors of a dump: name -> dtype, shape, bytes.
pub type Tensors = BTreeMap<String, (&'static str, Vec<usize>, Vec<u8>)>;

/// A golden item with hidden states.
#[derive(Debug, Clone)]
pub struct Item {
    pub id: String,
    /// The question whose states are there.
    pub question: String,
    pub body: Value,
}

/// The bytes of F32 values.
pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The bytes of I64 values.
pub fn integers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|x| i64::from(*x).to_le_bytes()).collect()
}

/// Writes a dump.
pub fn write(tensors: &Tensors, path: &Path) {
    let (mut header, mut data) = (Object::new(), Vec::new());
    for (name, (dtype, shape, bytes)) in tensors {
        let mut entry = Object::new();
        entry.insert("dtype", *dtype);
        entry.insert("shape", shape.iter().copied().collect::<Value>());
        entry.insert("data_offsets", [data.len(), data.len() + bytes.len()].into_iter().collect::<Value>());
        header.insert(name.as_str(), entry);
        data.extend_from_slice(bytes);
    }
    let header = Value::Object(header).dumps();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(path, bytes).unwrap();
}

/// The hidden states, logits, ids and markers of a family's goldens, and the items they are of.
pub fn golden(family: &str) -> (Tensors, Vec<Item>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(family);
    let bytes = std::fs::read(folder.join("hidden.safetensors")).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header = json::parse(header).unwrap();
    let (mut tensors, mut items) = (Tensors::new(), Vec::new());
    for line in std::fs::read_to_string(folder.join("items.jsonl")).unwrap().lines() {
        let item = json::parse(line.as_bytes()).unwrap();
        let Some(question) = item.get("hidden").map(|hidden| hidden.get("question").unwrap().as_str().unwrap()) else {
            continue;
        };
        let id = item.get("id").unwrap().as_str().unwrap();
        let expected = item.get("expected").unwrap().get("per_question").unwrap().get(question).unwrap();
        let numbers = |key: &str| -> Vec<f64> {
            expected.get(key).unwrap().as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
        };
        let name = |part: &str| format!("{id}/{question}/{part}");
        for (part, key) in [("ids", "input_ids"), ("markers", "marker_pos")] {
            let values: Vec<u32> = numbers(key).into_iter().map(|x| x as u32).collect();
            tensors.insert(name(part), ("I64", vec![values.len()], integers(&values)));
        }
        for (part, key) in [("logits", "raw_logits"), ("act_logits", "act_raw_logits")] {
            let values: Vec<f32> = numbers(key).into_iter().map(|x| x as f32).collect();
            tensors.insert(name(part), ("F32", vec![values.len()], floats(&values)));
        }
        for (stage, entry) in header.as_object().unwrap().iter() {
            let Some(stage) = stage.strip_prefix(&format!("{id}/")) else { continue };
            let list = |key: &str| -> Vec<usize> {
                entry.get(key).unwrap().as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize).collect()
            };
            let (shape, at) = (list("shape"), list("data_offsets"));
            tensors.insert(name(stage), ("F32", shape, data[at[0]..at[1]].to_vec()));
        }
        items.push(Item { id: id.into(), question: question.into(), body: item.get("body").unwrap().clone() });
    }
    (tensors, items)
}
