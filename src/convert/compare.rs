//! Where two GGUF files differ first: keys, tensor infos, tensor data, raw bytes, in this order.

use std::fmt;
use std::path::Path;

use half::f16;

use crate::error::{Error, ErrorKind, Result};
use crate::gguf::{Array, File, TensorInfo, TensorType, Value};

/// Longest piece of a value that is quoted, in characters.
const QUOTE: usize = 80;

/// The first difference of two files, called A and B in the order they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference(String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first difference of the files at `a` and `b`, or `None` when they are the same to the byte.
///
/// # Errors
/// A file cannot be read or is not a well-formed GGUF file.
pub fn compare(a: &Path, b: &Path) -> Result<Option<Difference>> {
    let (a, b) = (File::open(a)?, File::open(b)?);
    let found = keys(&a, &b).or_else(|| infos(&a, &b)).or_else(|| data(&a, &b)).or_else(|| raw(&a, &b));
    Ok(found.map(Difference))
}

/// Refuses a `reference` that a conversion to `out` could not be compared with afterwards: one that is no GGUF file, or
/// that is the output itself.
///
/// # Errors
/// As [`compare`]; [`ErrorKind::Usage`] when both are one file.
pub fn check_reference(reference: &Path, out: &Path) -> Result<()> {
    File::open(reference)?;
    match (reference.canonicalize(), out.canonicalize()) {
        (Ok(a), Ok(b)) if a == b => {
            let message = "is the output itself, which the conversion replaces; name another file to compare with";
            Err(Error::new(ErrorKind::Usage, message).in_file(reference))
        }
        _ => Ok(()),
    }
}

fn keys(a: &File, b: &File) -> Option<String> {
    for (i, ((key_a, value_a), (key_b, value_b))) in a.keys().zip(b.keys()).enumerate() {
        if key_a != key_b {
            return Some(match (a.get(key_b), b.get(key_a)) {
                (None, _) => format!("key {} is in B alone", quoted(key_b)),
                (_, None) => format!("key {} is in A alone", quoted(key_a)),
                _ => format!("key number {i} is {} in A and {} in B", quoted(key_a), quoted(key_b)),
            });
        }
        if !same(value_a, value_b) {
            return Some(format!("key {}: {}", quoted(key_a), values(value_a, value_b)));
        }
    }
    let n = a.keys().len().min(b.keys().len());
    let alone = |file: &File, name: &str| Some(format!("key {} is in {name} alone", quoted(file.keys().nth(n)?.0)));
    alone(a, "A").or_else(|| alone(b, "B"))
}

/// Whether two values have the same bytes in a file: a not-a-number equals itself, and the zeros differ.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    fn arrays(a: &Array, b: &Array) -> bool {
        match (a, b) {
            (Array::F32(a), Array::F32(b)) => a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits())),
            (Array::F64(a), Array::F64(b)) => a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits())),
            (Array::Array(a), Array::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| arrays(a, b)),
            _ => a == b,
        }
    }
    match (a, b) {
        (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Value::Array(b)) => arrays(a, b),
        _ => a == b,
    }
}

/// Two values that are not the same.
fn values(a: &Value, b: &Value) -> String {
    let (Value::Array(array_a), Value::Array(array_b)) = (a, b) else {
        if a.type_id() != b.type_id() {
            return format!("{} in A, {} in B", a.type_name(), b.type_name());
        }
        return format!("{} in A, {} in B", shown(a), shown(b));
    };
    if array_a.element_id() != array_b.element_id() {
        return format!("{} in A, {} in B", a.type_name(), b.type_name());
    }
    let n = array_a.len().min(array_b.len());
    let at = (0..n).map(|i| (i, element(array_a, i), element(array_b, i))).find(|(_, a, b)| match (a, b) {
        (Some(a), Some(b)) => !same(a, b),
        _ => false,
    });
    match at {
        Some((i, Some(a), Some(b))) => format!("element {i} is {} in A, {} in B", shown(&a), shown(&b)),
        _ => format!("{} elements in A, {} in B", array_a.len(), array_b.len()),
    }
}

/// Element `i` of an array as a value of its own.
fn element(array: &Array, i: usize) -> Option<Value> {
    Some(match array {
        Array::U8(v) => Value::U8(*v.get(i)?),
        Array::I8(v) => Value::I8(*v.get(i)?),
        Array::U16(v) => Value::U16(*v.get(i)?),
        Array::I16(v) => Value::I16(*v.get(i)?),
        Array::U32(v) => Value::U32(*v.get(i)?),
        Array::I32(v) => Value::I32(*v.get(i)?),
        Array::F32(v) => Value::F32(*v.get(i)?),
        Array::Bool(v) => Value::Bool(*v.get(i)?),
        Array::U64(v) => Value::U64(*v.get(i)?),
        Array::I64(v) => Value::I64(*v.get(i)?),
        Array::F64(v) => Value::F64(*v.get(i)?),
        Array::String(v) => Value::String(v.get(i)?.to_vec()),
        Array::Array(v) => Value::Array(v.get(i)?.clone()),
    })
}

fn shown(value: &Value) -> String {
    match value {
        Value::U8(v) => v.to_string(),
        Value::I8(v) => v.to_string(),
        Value::U16(v) => v.to_string(),
        Value::I16(v) => v.to_string(),
        Value::U32(v) => v.to_string(),
        Value::I32(v) => v.to_string(),
        Value::F32(v) => format!("{v:?}"),
        Value::Bool(v) => v.to_string(),
        Value::U64(v) => v.to_string(),
        Value::I64(v) => v.to_string(),
        Value::F64(v) => format!("{v:?}"),
        Value::String(text) => quoted(&String::from_utf8_lossy(text)),
        Value::Array(array) => format!("an array of {} {}", array.len(), array.element_name()),
    }
}

/// `text` in quotes, its start when it is long.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTE) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
    }
}

fn infos(a: &File, b: &File) -> Option<String> {
    let facts = |tensor: &TensorInfo| format!("{} {:?} at {}", tensor.ty, tensor.shape, tensor.offset);
    for (i, (tensor_a, tensor_b)) in a.tensors().iter().zip(b.tensors()).enumerate() {
        let (name_a, name_b) = (quoted(&tensor_a.name), quoted(&tensor_b.name));
        if tensor_a.name != tensor_b.name {
            return Some(match (a.tensor(&tensor_b.name), b.tensor(&tensor_a.name)) {
                (None, _) => format!("tensor {name_b} is in B alone"),
                (_, None) => format!("tensor {name_a} is in A alone"),
                _ => format!("tensor number {i} is {name_a} in A and {name_b} in B"),
            });
        }
        if tensor_a != tensor_b {
            return Some(format!("tensor {name_a}: {} in A, {} in B", facts(tensor_a), facts(tensor_b)));
        }
    }
    let n = a.tensors().len().min(b.tensors().len());
    let alone =
        |file: &File, name: &str| Some(format!("tensor {} is in {name} alone", quoted(&file.tensors().get(n)?.name)));
    alone(a, "A").or_else(|| alone(b, "B"))
}

fn data(a: &File, b: &File) -> Option<String> {
    // The infos are the same, so each tensor has as many bytes in both.
    a.tensors().iter().zip(b.tensors()).find_map(|(tensor, other)| {
        let (bytes_a, bytes_b) = (a.tensor_data(tensor), b.tensor_data(other));
        let found = (bytes_a != bytes_b).then(|| values_at(tensor, bytes_a, bytes_b));
        // Two large files are looked at tensor by tensor, not kept.
        a.release_tensor(tensor);
        b.release_tensor(other);
        found
    })
}

/// Where the data of a tensor differs first, and in how many places.
fn values_at(tensor: &TensorInfo, a: &[u8], b: &[u8]) -> String {
    let unit = usize::try_from(tensor.ty.block_bytes()).unwrap_or(1).max(1);
    let mut differing = a.chunks(unit).zip(b.chunks(unit)).enumerate().filter(|(_, (a, b))| a != b);
    let Some((at, (first_a, first_b))) = differing.next() else { return "its data differs".into() };
    let n = 1 + differing.count();
    let blocks = if tensor.ty.block_len() == 1 { "elements" } else { "blocks" };
    let row_blocks = (tensor.shape.first().copied().unwrap_or(1) / tensor.ty.block_len()).max(1);
    let (row, column) = (at as u64 / row_blocks, at as u64 % row_blocks * tensor.ty.block_len());
    let numbers = match (number(tensor.ty, first_a), number(tensor.ty, first_b)) {
        (Some(a), Some(b)) => format!("{a:?} in A, {b:?} in B"),
        _ => format!("{} in A, {} in B", hex(first_a), hex(first_b)),
    };
    let name = quoted(&tensor.name);
    format!("tensor {name}: {n} of {} {blocks} differ, first at row {row}, column {column}: {numbers}", a.len() / unit)
}

/// An element as a number, where two that differ in their bytes also read differently.
fn number(ty: TensorType, bytes: &[u8]) -> Option<f32> {
    let value = match ty {
        TensorType::F32 => f32::from_le_bytes(bytes.try_into().ok()?),
        TensorType::F16 => f16::from_le_bytes(bytes.try_into().ok()?).to_f32(),
        _ => return None,
    };
    (!value.is_nan()).then_some(value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that belong to no tensor's data: the header once more, as it is spelled, the padding, and what follows the last
/// tensor.
fn raw(a: &File, b: &File) -> Option<String> {
    let (bytes_a, bytes_b) = (a.map().bytes(), b.map().bytes());
    if bytes_a.len() != bytes_b.len() {
        return Some(format!("{} bytes in A, {} in B", bytes_a.len(), bytes_b.len()));
    }
    // The infos are the same, so the gaps are.
    let mut data: Vec<(usize, usize)> =
        a.tensors().iter().filter_map(|tensor| Some((a.tensor_start(tensor)?, tensor.n_bytes as usize))).collect();
    data.sort_unstable();
    data.push((bytes_a.len(), 0));
    let mut start = 0;
    for (end, n_bytes) in data {
        let gap = start..end.max(start);
        let (gap_a, gap_b) = (bytes_a.get(gap.clone())?, bytes_b.get(gap)?);
        if let Some(at) = gap_a.iter().zip(gap_b).position(|(a, b)| a != b) {
            let (a, b) = (gap_a.get(at)?, gap_b.get(at)?);
            let at = start + at;
            return Some(format!("byte {at}, outside keys and tensors, is {a:02x} in A, {b:02x} in B"));
        }
        start = end.saturating_add(n_bytes);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::{Strings, Writer};

    /// Keys and tensors of one more file; `change` edits it before it is written.
    fn file(dir: &Path, name: &str, change: impl FnOnce(&mut Writer), data: &[f32]) -> std::path::PathBuf {
        let mut out = Writer::new();
        out.set("general.architecture", "laya");
        out.set("numbers", vec![1.0f32, f32::NAN, 3.0]);
        out.set("texts", ["a", "b"].iter().collect::<Strings>());
        out.set("n", 7u32);
        change(&mut out);
        out.add_tensor("t", &[2, 3], TensorType::F32).unwrap();
        let bytes = data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let bytes = out.to_bytes(|_, out| out.write_all(&bytes).map_err(|e| crate::Error::io("x", "x", &e))).unwrap();
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    const DATA: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

    #[test]
    fn the_first_difference_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let a = file(dir.path(), "a", |_| {}, &DATA);
        assert_eq!(compare(&a, &a).unwrap(), None);
        let differs = |change: fn(&mut Writer), data: &[f32], want: &str| {
            let b = file(dir.path(), "b", change, data);
            assert_eq!(compare(&a, &b).unwrap().unwrap().to_string(), want);
        };
        differs(|out| out.set("n", 8u32), &DATA, "key \"n\": 7 in A, 8 in B");
        differs(|out| out.set("n", 8i32), &DATA, "key \"n\": u32 in A, i32 in B");
        differs(|out| out.set("m", true), &DATA, "key \"m\" is in B alone");
        differs(|out| assert!(out.remove("texts")), &DATA, "key \"texts\" is in A alone");
        differs(|out| assert!(out.remove("n")), &DATA, "key \"n\" is in A alone");
        let swap = |out: &mut Writer| {
            out.remove("texts");
            out.set("texts", ["a", "b"].iter().collect::<Strings>());
        };
        differs(swap, &DATA, "key number 2 is \"texts\" in A and \"n\" in B");
        let text = |out: &mut Writer| out.set("texts", ["a", "c\u{1b}"].iter().collect::<Strings>());
        differs(text, &DATA, "key \"texts\": element 1 is \"b\" in A, \"c\\u{1b}\" in B");
        let number = |out: &mut Writer| out.set("numbers", vec![1.0f32, f32::NAN, 3.5]);
        differs(number, &DATA, "key \"numbers\": element 2 is 3.0 in A, 3.5 in B");
        let short = |out: &mut Writer| out.set("numbers", vec![1.0f32]);
        differs(short, &DATA, "key \"numbers\": 3 elements in A, 1 in B");
        differs(|out| out.set("n", "x".repeat(200)), &DATA, "key \"n\": u32 in A, string in B");
        let mut changed = DATA;
        changed[4] = -0.0;
        differs(
            |_| {},
            &changed,
            "tensor \"t\": 1 of 6 elements differ, first at row 2, column 0: 4.0 in A, -0.0 in B",
        );
        changed[3] = f32::NAN;
        let want = "tensor \"t\": 2 of 6 elements differ, first at row 1, column 1: 00004040 in A, 0000c07f in B";
        differs(|_| {}, &changed, want);
    }

    #[test]
    fn tensor_infos_come_before_data_and_bytes_last() {
        let dir = tempfile::tempdir().unwrap();
        let written = |name: &str, tensors: &[(&str, &[u64], TensorType)], fill: u8| {
            let mut out = Writer::new();
            tensors.iter().for_each(|(name, shape, ty)| out.add_tensor(*name, shape, *ty).unwrap());
            let bytes = out.to_bytes(|tensor, out| {
                let data = vec![fill; tensor.n_bytes as usize];
                out.write_all(&data).map_err(|e| crate::Error::io("x", "x", &e))
            });
            let path = dir.path().join(name);
            std::fs::write(&path, bytes.unwrap()).unwrap();
            path
        };
        let message = |a: &Path, b: &Path| compare(a, b).unwrap().unwrap().to_string();
        let a = written("a", &[("x", &[32], TensorType::F32), ("y", &[64, 2], TensorType::Q8_0)], 1);
        let b = written("b", &[("x", &[32], TensorType::F16), ("y", &[64, 2], TensorType::Q8_0)], 2);
        assert_eq!(message(&a, &b), "tensor \"x\": F32 [32] at 0 in A, F16 [32] at 0 in B");
        let b = written("b", &[("x", &[32], TensorType::F32)], 1);
        assert_eq!(message(&a, &b), "tensor \"y\" is in A alone");
        assert_eq!(message(&b, &a), "tensor \"y\" is in B alone");
        let b = written("b", &[("y", &[64, 2], TensorType::Q8_0), ("x", &[32], TensorType::F32)], 1);
        assert_eq!(message(&a, &b), "tensor number 0 is \"x\" in A and \"y\" in B");
        let b = written("b", &[("x", &[32], TensorType::F32), ("y", &[64, 2], TensorType::Q8_0)], 1);
        let mut bytes = std::fs::read(&b).unwrap();
        let n = bytes.len();
        // Four blocks of 34 bytes, then padding: the third block, then the padding alone.
        let start = n - 160;
        bytes[start + 2 * 34 + 5] = 9;
        std::fs::write(&b, &bytes).unwrap();
        let found = message(&a, &b);
        let block = "01".repeat(34);
        let want = format!("tensor \"y\": 1 of 4 blocks differ, first at row 1, column 0: {block} in A, ");
        assert!(found.starts_with(&want), "{found}");
        bytes[start + 2 * 34 + 5] = 1;
        bytes[n - 1] = 3;
        std::fs::write(&b, &bytes).unwrap();
        assert_eq!(message(&a, &b), format!("byte {}, outside keys and tensors, is 00 in A, 03 in B", n - 1));
        bytes.push(0);
        std::fs::write(&b, &bytes).unwrap();
        assert_eq!(message(&a, &b), format!("{n} bytes in A, {} in B", n + 1));
    }
}
