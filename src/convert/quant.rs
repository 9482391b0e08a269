//! Q8_0: blocks of 32 elements, each a signed byte, under one F16 scale.

use super::element::narrow;

/// Elements of a block.
pub(super) const BLOCK: usize = 32;
/// Bytes of a block: the scale, then the elements.
pub(super) const BYTES: usize = 2 + BLOCK;
/// The byte of a block's largest magnitude.
pub(super) const MOST: f32 = 127.0;

/// Stores `values`, finite and whole blocks, in `out`, which has room for exactly them.
pub(super) fn store(values: &[f32], out: &mut [u8]) {
    let (values, _) = values.as_chunks();
    let (out, _) = out.as_chunks_mut();
    values.iter().zip(out).for_each(|(values, out)| *out = block(values));
}

/// One block, to the bit what gguf-py and ggml's reference write: the bytes come from the scale before it is rounded to F16,
/// and from a product with its inverse, which is not always the quotient.
fn block(values: &[f32; BLOCK]) -> [u8; BYTES] {
    let most = values.iter().fold(0f32, |most, value| most.max(value.abs()));
    let scale = most / MOST;
    let inverse = 1.0 / scale;
    // A scale below 2^-128 has no finite inverse; as F16 it is zero whatever the bytes are.
    let inverse = if inverse.is_finite() { inverse } else { 0.0 };
    let mut bytes = [0; BYTES];
    let [low, high, quants @ ..] = &mut bytes;
    [*low, *high] = narrow(scale).to_le_bytes();
    for (value, quant) in values.iter().zip(quants) {
        *quant = round(value * inverse).cast_unsigned();
    }
    bytes
}

/// The nearest integer, halves away from zero, of a value within ±127.5. What `f32::round` gives, without a call for every
/// element on processors that have no instruction for it.
fn round(value: f32) -> i8 {
    let whole = value as i32;
    let up = i32::from((value - whole as f32).abs() >= 0.5);
    (whole + if value < 0.0 { -up } else { up }) as i8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{self, Value};
    use std::path::Path;

    fn bytes(case: &Value, key: &str) -> Vec<u8> {
        let hex = case.get(key).and_then(Value::as_str).unwrap();
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn blocks_are_gguf_pys() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/q8_0/cases.jsonl");
        let text = std::fs::read_to_string(path).unwrap();
        let mut n_blocks = 0;
        for line in text.lines() {
            let case = json::parse(line.as_bytes()).unwrap();
            let name = case.get("name").and_then(Value::as_str).unwrap();
            let values: Vec<f32> =
                bytes(&case, "values").as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let want = bytes(&case, "blocks");
            assert!(!values.is_empty() && values.len() / BLOCK * BYTES == want.len(), "{name}");
            let mut found = vec![0xee; want.len()];
            store(&values, &mut found);
            for (at, (found, want)) in found.chunks(BYTES).zip(want.chunks(BYTES)).enumerate() {
                assert_eq!(found, want, "{name}, block {at} of {:?}", &values[at * BLOCK..][..BLOCK]);
                n_blocks += 1;
            }
        }
        assert!(n_blocks >= 300, "{n_blocks}");
    }

    #[test]
    fn rounding_is_away_from_zero() {
        // Every float in ±127.5 that has at most 16 bits after the point, and the neighbours of the ties.
        let fine = (-127 * 0x1_0000 - 0x7fff..=127 * 0x1_0000 + 0x7fff).map(|i| i as f32 / 65536.0);
        let ties = (-127..127).map(|i| i as f32 + 0.5).flat_map(|tie| [tie.next_down(), tie, tie.next_up()]);
        let small = [0.0, -0.0, f32::MIN_POSITIVE, 1e-40, -1e-40, 0.5f32.next_down(), (-0.5f32).next_up()];
        for value in fine.chain(ties).chain(small) {
            assert_eq!(f32::from(round(value)), value.round(), "{value}");
        }
    }
}
