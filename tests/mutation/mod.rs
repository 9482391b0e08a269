//! Damaging inputs the same way every time, and watching memory while they are read.

#![allow(dead_code)]

use crate::random::SplitMix64 as Random;

/// Changes `bytes` in one to three ways, mostly in its first `head` bytes.
pub(crate) fn mutate(bytes: &mut Vec<u8>, random: &mut Random, head: usize) {
    // Sizes at and around every limit a reader could trip over.
    const LENGTHS: [u64; 16] = [
        0,
        1,
        2,
        7,
        31,
        0x7f,
        0xff,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        1 << 32,
        1 << 61,
        i64::MAX as u64,
        1 << 63,
        u64::MAX,
    ];
    for _ in 0..1 + random.below(3) {
        if bytes.is_empty() {
            return;
        }
        let span = if random.below(4) == 0 { bytes.len() } else { bytes.len().min(head) };
        let at = random.below(span);
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let n = LENGTHS[random.below(LENGTHS.len())].wrapping_sub(random.below(2) as u64).to_le_bytes();
                let width = if random.below(2) == 0 { 4 } else { 8 };
                for (byte, value) in bytes[at..].iter_mut().zip(&n[..width]) {
                    *byte = *value;
                }
            }
            4 => {
                let from = random.below(bytes.len());
                let piece = bytes[from..(from + random.below(64)).min(bytes.len())].to_vec();
                let end = (at + random.below(64)).min(bytes.len());
                bytes.splice(at..end, piece);
            }
            _ => {
                let end = (at + 1 + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
}

/// Puts something else where a JSON value is.
pub(crate) fn mutate_json(text: &mut Vec<u8>, random: &mut Random) {
    const VALUES: [&str; 22] = [
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1",
        "3",
        "255",
        "4294967296",
        "18446744073709551615",
        "1e308",
        "0.5",
        "[]",
        "{}",
        "\"\"",
        "\"x\"",
        "\"../x\"",
        "[[]]",
        "[1,2,3]",
        "{\"content\":\"<mask>\"}",
        "\"\\u0000\"",
        "1e400",
    ];
    let starts: Vec<usize> = (0..text.len()).filter(|&i| matches!(text[i], b':' | b'[' | b',')).collect();
    if starts.is_empty() {
        return;
    }
    for _ in 0..1 + random.below(2) {
        let start = (starts[random.below(starts.len())] + 1).min(text.len());
        let end = text[start..]
            .iter()
            .position(|b| matches!(b, b',' | b'}' | b']' | b'\n'))
            .map_or(text.len(), |n| start + n);
        let value = if random.below(40) == 0 { "[".repeat(100_000) } else { VALUES[random.below(VALUES.len())].into() };
        text.splice(start..end, value.into_bytes());
        if text.len() > start + 1000 {
            return;
        }
    }
}

/// Peak resident memory in KiB, where the system tells.
pub(crate) fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
