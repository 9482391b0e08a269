//! Every way a GGUF file can be wrong: one small file, one change, one reason.

use super::*;
use crate::error::Result;
use std::io::Write;

/// A raw header under construction: what [`Writer`] would refuse to write.
#[derive(Clone)]
struct Raw {
    n_tensors: u64,
    n_keys: u64,
    keys: Vec<u8>,
    infos: Vec<u8>,
    data: Vec<u8>,
}

impl Raw {
    fn new() -> Self {
        Self { n_tensors: 0, n_keys: 0, keys: vec![], infos: vec![], data: vec![] }
    }

    fn key(mut self, name: &str, ty: u32, value: &[u8]) -> Self {
        self.n_keys += 1;
        self.keys.extend((name.len() as u64).to_le_bytes());
        self.keys.extend(name.as_bytes());
        self.keys.extend(ty.to_le_bytes());
        self.keys.extend(value);
        self
    }

    fn tensor(mut self, name: &str, shape: &[u64], ty: u32, offset: u64) -> Self {
        self.n_tensors += 1;
        self.infos.extend((name.len() as u64).to_le_bytes());
        self.infos.extend(name.as_bytes());
        self.infos.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|ne| self.infos.extend(ne.to_le_bytes()));
        self.infos.extend(ty.to_le_bytes());
        self.infos.extend(offset.to_le_bytes());
        self
    }

    fn data(mut self, n: usize) -> Self {
        self.data = vec![0; n];
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend(self.n_tensors.to_le_bytes());
        out.extend(self.n_keys.to_le_bytes());
        out.extend(&self.keys);
        out.extend(&self.infos);
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }

    fn error(&self) -> String {
        error(self.bytes())
    }
}

fn error(bytes: Vec<u8>) -> String {
    let message = File::from_bytes(bytes).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    message
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn array(ty: u32, n: u64, elements: &[u8]) -> Vec<u8> {
    [&ty.to_le_bytes()[..], &n.to_le_bytes(), elements].concat()
}

fn sample() -> Writer {
    let mut w = Writer::new();
    w.set("general.architecture", "laya");
    w.set("u8", 1u8);
    w.set("i8", -1i8);
    w.set("u16", 300u16);
    w.set("i16", -300i16);
    w.set("u32", 70_000u32);
    w.set("i32", -70_000i32);
    w.set("f32", 0.5f32);
    w.set("bool", true);
    w.set("u64", u64::MAX);
    w.set("i64", i64::MIN);
    w.set("f64", -0.25f64);
    w.set("empty", "");
    w.set("bytes", Value::String(vec![0xff, 0]));
    w.set("strings", vec![b"a".to_vec(), vec![], b"\xff".to_vec()].into_iter().collect::<Strings>());
    w.set("i32s", vec![1i32, -2]);
    w.set("f32s", vec![1f32, f32::NAN]);
    w.set("bools", vec![true, false]);
    w.set("none", Vec::<u64>::new());
    w.set("nested", Value::Array(Array::Array(vec![Array::U8(vec![1]), Array::String(Strings::from(vec![]))])));
    w.add_tensor("a.weight", &[3, 2], TensorType::F32).unwrap();
    w.add_tensor("b.weight", &[32], TensorType::Q8_0).unwrap();
    w.add_tensor("c.weight", &[1], TensorType::F16).unwrap();
    w
}

fn fill(tensor: &TensorInfo, out: &mut dyn Write) -> Result<()> {
    let byte = tensor.name.as_bytes()[0];
    out.write_all(&vec![byte; tensor.n_bytes as usize]).unwrap();
    Ok(())
}

#[test]
fn what_is_written_is_read() {
    let writer = sample();
    let bytes = writer.to_bytes(fill).unwrap();
    let file = File::from_bytes(bytes.clone()).unwrap();
    for ((key, value), (written, expected)) in file.keys().zip(writer_keys(&writer)) {
        assert_eq!(key, written);
        // NaN is not equal to itself; its bits are.
        assert_eq!(format!("{value:?}"), format!("{expected:?}"));
    }
    assert_eq!(file.keys().len(), 20);
    assert_eq!(file.tensors(), writer.tensors().unwrap());
    for tensor in file.tensors() {
        let data = file.tensor_data(tensor);
        assert_eq!(data.len() as u64, tensor.n_bytes);
        assert!(data.iter().all(|&b| b == tensor.name.as_bytes()[0]));
    }
    // Writing what was read gives the same bytes.
    let mut again = Writer::new();
    file.keys().for_each(|(key, value)| again.set(key, value.clone()));
    for tensor in file.tensors() {
        again.add_tensor(&tensor.name, &tensor.shape, tensor.ty).unwrap();
    }
    let copy = again.to_bytes(|t, out| {
        out.write_all(file.tensor_data(t)).unwrap();
        Ok(())
    });
    assert_eq!(copy.unwrap(), bytes);
    // Every tensor is padded, the last one too.
    assert_eq!(bytes.len() % 32, 0);
}

fn writer_keys(writer: &Writer) -> Vec<(String, Value)> {
    let names = "general.architecture u8 i8 u16 i16 u32 i32 f32 bool u64 i64 f64 empty bytes strings i32s f32s bools none \
                 nested";
    names.split_whitespace().map(|key| (key.to_owned(), writer.get(key).unwrap().clone())).collect()
}

#[test]
fn a_key_set_twice_keeps_its_place_and_takes_the_last_value() {
    let mut w = Writer::new();
    w.set("a", 1u32);
    w.set("b", 2u32);
    w.set("a", 3u32);
    let file = File::from_bytes(w.to_bytes(fill).unwrap()).unwrap();
    assert_eq!(file.keys().collect::<Vec<_>>(), [("a", &Value::U32(3)), ("b", &Value::U32(2))]);
    assert!(w.remove("a") && !w.remove("a"));
    assert_eq!(w.get("b"), Some(&Value::U32(2)));
}

#[test]
fn the_alignment_key_is_obeyed() {
    let mut w = sample();
    w.set("general.alignment", 128u32);
    let file = File::from_bytes(w.to_bytes(fill).unwrap()).unwrap();
    assert_eq!(file.alignment(), 128);
    assert!(file.tensors().iter().all(|t| t.offset % 128 == 0));
    assert!(file.data_start().is_multiple_of(128));
    w.set("general.alignment", 3u32);
    assert!(w.to_bytes(fill).is_err());
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut w = Writer::new();
    w.add_tensor("a", &[32], TensorType::Q8_0).unwrap();
    assert!(w.add_tensor("a", &[32], TensorType::Q8_0).is_err());
    assert!(w.add_tensor("b", &[33], TensorType::Q8_0).is_err());
    assert!(w.add_tensor("c", &[], TensorType::F32).is_err());
    assert!(w.add_tensor("c", &[0], TensorType::F32).is_err());
    assert!(w.add_tensor("c", &[1, 1, 1, 1, 1], TensorType::F32).is_err());
    assert!(w.add_tensor("c", &[1 << 40, 1 << 40], TensorType::F32).is_err());
    let short = w.to_bytes(|_, out| {
        out.write_all(&[0; 33]).unwrap();
        Ok(())
    });
    says(&short.unwrap_err().to_string(), &["tensor a", "33 bytes", "34"]);
}

#[test]
fn files_that_are_something_else_are_named() {
    says(&error(vec![]), &["empty"]);
    says(&error(b"GG".to_vec()), &["not a GGUF", "shorter"]);
    says(&error(b"PK\x03\x04\x14\0\0\0".to_vec()), &["not a GGUF", "zip"]);
    says(&error(b"\n <!DOCTYPE html><html>".to_vec()), &["not a GGUF", "HTML"]);
    says(&error(b"\x10\0\0\0\0\0\0\0{\"a\":{}}".to_vec()), &["not a GGUF", "safetensors"]);
    says(&error(b"version https://git-lfs.github.com/spec/v1".to_vec()), &["Git LFS"]);
    says(&error(b"lmgg\x01\0\0\0".to_vec()), &["before GGUF"]);
    says(&error(b"FUGG\0\0\0\x03".to_vec()), &["byte-swapped"]);
    says(&error(vec![7; 64]), &["not a GGUF"]);
    says(&error(b"GGUF\x01\0\0\0".to_vec()), &["version 1"]);
    says(&error(b"GGUF\x02\0\0\0".to_vec()), &["version 2"]);
    says(&error(b"GGUF\x04\0\0\0".to_vec()), &["version 4"]);
    says(&error(b"GGUF\0\0\0\x03".to_vec()), &["big-endian"]);
    says(&error(b"GGUF\x03\0".to_vec()), &["truncated"]);
    says(&error(b"GGUF\x03\0\0\0\0\0".to_vec()), &["number of tensors"]);
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = sample().to_bytes(fill).unwrap();
    // The last tensor is two bytes and 30 bytes of padding, which nothing needs.
    for n in 0..bytes.len() - 30 {
        assert!(File::from_bytes(bytes[..n].to_vec()).is_err(), "{n}");
    }
    assert!(File::from_bytes(bytes[..bytes.len() - 30].to_vec()).is_ok());
    says(&error(bytes[..bytes.len() - 31].to_vec()), &["tensor c.weight", "past the end"]);
}

#[test]
fn counts_are_bounded_by_the_file() {
    for n in [1, 1 << 20, 1 << 61, u64::MAX] {
        let raw = Raw { n_tensors: n, ..Raw::new() };
        says(&raw.error(), &["tensors", "bytes left"]);
        let raw = Raw { n_keys: n, ..Raw::new() };
        says(&raw.error(), &["metadata keys", "bytes left"]);
        let raw = Raw::new().key("a", 8, &n.to_le_bytes());
        if n > 1 {
            says(&raw.error(), &["key a", "the string"]);
        }
        let raw = Raw::new().key("a", 9, &array(4, n.max(9), &[]));
        says(&raw.error(), &["key a", "array elements"]);
        let raw = Raw::new().key("a", 9, &array(8, n.max(9), &[]));
        says(&raw.error(), &["key a", "strings"]);
        let raw = Raw::new().key("a", 9, &array(9, n.max(9), &[]));
        says(&raw.error(), &["key a", "nested arrays"]);
    }
    let raw = Raw::new().key("a", 9, &array(8, 1, &u64::MAX.to_le_bytes()));
    says(&raw.error(), &["key a", "string 0 of 1"]);
}

#[test]
fn keys() {
    says(&Raw::new().key("a", 4, &[0; 4]).key("a", 4, &[0; 4]).error(), &["key a", "twice"]);
    says(&Raw::new().key("", 4, &[0; 4]).error(), &["metadata key 0", "0 bytes"]);
    says(&Raw::new().key(&"k".repeat(65_536), 4, &[0; 4]).error(), &["65536 bytes"]);
    says(&Raw::new().key("a", 13, &[0; 4]).error(), &["key a", "unknown value type 13"]);
    says(&Raw::new().key("a", u32::MAX, &[0; 4]).error(), &["key a", "unknown value type"]);
    says(&Raw::new().key("a", 9, &array(99, 1, &[0; 8])).error(), &["key a", "unknown array element type 99"]);
    says(&Raw::new().key("a", 7, &[2]).error(), &["key a", "bool"]);
    says(&Raw::new().key("a", 9, &array(7, 2, &[1, 3])).error(), &["key a", "bool"]);
    let mut raw = Raw::new().key("ab", 4, &[0; 4]);
    raw.keys[8] = 0xff;
    says(&raw.error(), &["metadata key 0", "UTF-8"]);
}

#[test]
fn nesting_is_bounded() {
    let mut nested = array(0, 1, &[1]);
    for _ in 0..3 {
        nested = array(9, 1, &nested);
    }
    File::from_bytes(Raw::new().key("a", 9, &nested).bytes()).unwrap();
    for _ in 0..1000 {
        nested = array(9, 1, &nested);
    }
    says(&Raw::new().key("a", 9, &nested).error(), &["key a", "nested"]);
}

#[test]
fn alignments() {
    for bad in [0u32, 3, 48, 1 << 31, u32::MAX] {
        let raw = Raw::new().key("general.alignment", 4, &bad.to_le_bytes());
        says(&raw.error(), &["key general.alignment", &bad.to_string()]);
    }
    says(&Raw::new().key("general.alignment", 8, &string("32")).error(), &["general.alignment", "not string"]);
    says(&Raw::new().key("general.alignment", 10, &[32, 0, 0, 0, 0, 0, 0, 0]).error(), &["not u64"]);
}

#[test]
fn tensors() {
    let one = |shape: &[u64], ty, offset| Raw::new().tensor("t", shape, ty, offset).data(64).error();
    says(&one(&[], 0, 0), &["tensor t", "0 dimensions"]);
    says(&one(&[1; 5], 0, 0), &["tensor t", "5 dimensions"]);
    says(&one(&[1; 9], 0, 0), &["tensor t", "9 dimensions"]);
    says(&one(&[0, 2], 0, 0), &["tensor t", "empty dimension"]);
    says(&one(&[1 << 32, 1 << 32], 0, 0), &["tensor t", "overflows"]);
    says(&one(&[1 << 62, 1], 0, 0), &["tensor t"]);
    says(&one(&[u64::MAX], 0, 0), &["tensor t", "overflows"]);
    says(&one(&[31], 8, 0), &["tensor t", "whole blocks of 32 Q8_0"]);
    says(&one(&[4], 4, 0), &["tensor t", "unknown tensor type 4"]);
    says(&one(&[4], 0, 8), &["tensor t", "multiple of 32"]);
    says(&one(&[4], 0, 64), &["tensor t", "past the end"]);
    says(&one(&[17], 0, 0), &["tensor t", "past the end"]);
    says(&one(&[4], 0, u64::MAX - 31), &["tensor t", "past the end"]);
    File::from_bytes(Raw::new().tensor("t", &[16], 0, 0).data(64).bytes()).unwrap();
    let two = |a: &str, offset| Raw::new().tensor("t", &[12], 0, 0).tensor(a, &[4], 0, offset).data(128).error();
    says(&two("t", 64), &["tensor t", "twice"]);
    says(&two("u", 0), &["overlaps"]);
    says(&two("u", 32), &["tensor u", "overlaps", "tensor t"]);
    says(&two("", 64), &["without a name"]);
    let mut raw = Raw::new().tensor("t", &[1], 0, 0).data(32);
    raw.infos[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    says(&raw.error(), &["tensor t", "4294967295 dimensions"]);
    raw.infos[8] = 0x80;
    says(&raw.error(), &["tensor 0", "UTF-8"]);
}

#[test]
fn getters_name_the_key() {
    let file = File::from_bytes(sample().to_bytes(fill).unwrap()).unwrap();
    assert_eq!(file.u32("u32").unwrap(), Some(70_000));
    assert_eq!(file.u32("absent").unwrap(), None);
    assert_eq!(file.require_f32("f32").unwrap(), 0.5);
    assert_eq!(file.str("general.architecture").unwrap(), Some("laya"));
    assert_eq!(file.require_strings("strings").unwrap().len(), 3);
    assert_eq!(file.require_i32s("i32s").unwrap(), [1, -2]);
    assert!(file.bool("bool").unwrap().unwrap());
    says(&file.u32("i32").unwrap_err().to_string(), &["key i32", "must be u32, not i32"]);
    says(&file.f32s("strings").unwrap_err().to_string(), &["key strings", "array of f32", "array of string"]);
    says(&file.str("bytes").unwrap_err().to_string(), &["key bytes", "UTF-8"]);
    says(&file.require_u32("absent").unwrap_err().to_string(), &["key absent", "missing"]);
}

#[test]
fn a_wide_vocabulary_opens_in_milliseconds() {
    let tokens: Strings = (0..256_000u32).map(|i| format!("token {i}")).collect();
    let merges: Strings = (0..580_000u32).map(|i| format!("a{i} b{i}")).collect();
    let mut w = Writer::new();
    w.set("tokens", tokens.clone());
    w.set("merges", merges);
    let bytes = w.to_bytes(fill).unwrap();
    let file_bytes = bytes.len();
    let start = std::time::Instant::now();
    let file = File::from_bytes(bytes).unwrap();
    println!("read {file_bytes} bytes of header in {:?}", start.elapsed());
    assert_eq!(file.require_strings("tokens").unwrap(), &tokens);
    assert_eq!(file.require_strings("merges").unwrap().get(579_999), Some(&b"a579999 b579999"[..]));
}
