//! The committed tiny checkpoints, converted.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};

use half::f16;
use laya::convert::{Options, Outtype, convert};
use laya::engine::{self, Engine};
use laya::gguf::{File, TensorInfo, TensorType, Writer};
use laya::json::{self, Value};
use laya::kernels::InstructionSet;

/// Both families.
pub const FAMILIES: [&str; 2] = ["tiny-mmbert", "tiny-modernbert"];

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Converts the checkpoint of `family` into `dir`.
pub fn gguf(family: &str, outtype: Outtype, dir: &Path) -> PathBuf {
    let out = dir.join(format!("{family}-{}.gguf", outtype.as_str()));
    let options = Options { outtype, ..Options::default() };
    convert(&root().join("golden").join(family).join("checkpoint"), &out, &options).unwrap();
    out
}

/// The engine of a file on one thread with the widest instruction set.
pub fn engine(path: &Path) -> Engine {
    Engine::open(path, &engine::Options { n_threads: Some(1), ..engine::Options::default() }).unwrap()
}

/// The engine of a file with given threads and instruction set.
pub fn engine_with(path: &Path, n_threads: usize, isa: InstructionSet) -> Engine {
    Engine::open(path, &engine::Options { n_threads: Some(n_threads), isa: Some(isa), ..engine::Options::default() })
        .unwrap()
}

/// The golden items of `family`.
pub fn items(family: &str) -> Vec<Value> {
    let path = root().join("golden").join(family).join("items.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.split('\n').filter(|line| !line.is_empty()).map(|line| json::parse(line.as_bytes()).unwrap()).collect()
}

/// A copy of `file` with the tensors `change` keeps, its bytes changed in place.
pub fn rewritten(file: &File, mut change: impl FnMut(&TensorInfo, &mut Vec<u8>) -> bool) -> File {
    copy(file, |tensor| {
        let mut bytes = file.tensor_data(tensor).to_vec();
        change(tensor, &mut bytes).then_some((tensor.ty, bytes))
    })
}

/// A copy of `file` with every tensor in F32.
pub fn widened(file: &File) -> File {
    copy(file, |tensor| {
        let values: Vec<u8> = values(file, tensor).into_iter().flat_map(f32::to_le_bytes).collect();
        Some((TensorType::F32, values))
    })
}

/// What the bytes of an F32, F16 or Q8_0 tensor stand for.
pub fn values(file: &File, tensor: &TensorInfo) -> Vec<f32> {
    let bytes = file.tensor_data(tensor);
    match tensor.ty {
        TensorType::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        TensorType::F16 => bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
        TensorType::Q8_0 => bytes
            .as_chunks::<34>()
            .0
            .iter()
            .flat_map(|block| {
                let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
                block[2..].iter().map(move |quant| scale * f32::from(quant.cast_signed()))
            })
            .collect(),
        other => panic!("{}: {other}", tensor.name),
    }
}

/// A copy of `file` with the tensors for which `change` has a type and bytes.
pub fn copy(file: &File, mut change: impl FnMut(&TensorInfo) -> Option<(TensorType, Vec<u8>)>) -> File {
    let mut writer = Writer::new();
    for (key, value) in file.keys() {
        writer.set(key, value.clone());
    }
    let mut kept = Vec::new();
    for tensor in file.tensors() {
        if let Some((ty, bytes)) = change(tensor) {
            writer.add_tensor(tensor.name.clone(), &tensor.shape, ty).unwrap();
            kept.push((tensor.name.clone(), bytes));
        }
    }
    let mut kept = kept.into_iter();
    let bytes = writer
        .to_bytes(|tensor, out| {
            let (name, bytes) = kept.next().unwrap();
            assert_eq!(name, tensor.name);
            out.write_all(&bytes).unwrap();
            Ok(())
        })
        .unwrap();
    File::from_bytes(bytes).unwrap()
}
