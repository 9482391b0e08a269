//! The JSON reader and writer against CPython's output, random values and damaged texts.
//!
//! The published files are read from `../shared/conformance` when it is there.

#![allow(clippy::expect_used, reason = "a test stops at the first surprise")]

mod random;

use laya::json::{self, Number, Object, Reason, Value};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

use random::SplitMix64;

/// The text of a published file, or `None` (said on stderr) where the files are absent.
fn published(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance").join(name);
    if !path.exists() {
        eprintln!("skipped: no ../shared");
        return None;
    }
    Some(fs::read_to_string(path).expect("a readable conformance file"))
}

impl SplitMix64 {
    fn double(&mut self) -> f64 {
        loop {
            let value = if self.below(2) == 0 {
                f64::from_bits(self.next())
            } else {
                let n_digits = 1 + self.below(17);
                let mantissa = self.next() % 10_u64.pow(n_digits as u32);
                let exponent = self.below(660) as i64 - 340;
                let sign = if self.below(2) == 1 { "-" } else { "" };
                format!("{sign}{mantissa}e{exponent}").parse().expect("a decimal number")
            };
            if value.is_finite() {
                return value;
            }
        }
    }

    fn string(&mut self) -> String {
        let alphabet: Vec<char> =
            "abcXYZ 019_-\"\\/\n\t\r\u{8}\u{c}\u{0}\u{1}\u{1f}\u{7f}\u{e9}\u{4e2d}\u{6587}\u{438}\
                                   \u{2028}\u{2029}\u{1f600}\u{301}\u{feff}\u{ffff}\u{10ffff}"
                .chars()
                .collect();
        assert_eq!(alphabet.len(), 35);
        (0..self.below(13)).map(|_| alphabet[self.below(35)]).collect()
    }

    fn scalar(&mut self) -> Value {
        match self.below(10) {
            0 => Value::Null,
            1 => Value::from(self.below(2) == 1),
            2 => match self.below(8) {
                0 => Value::from(0_i64),
                1 => Value::from(-1_i64),
                2 => Value::from(1_i64 << 53),
                3 => Value::from(i64::MAX),
                4 => Value::from(i64::MIN),
                5 => Value::from(1_u64 << 63),
                6 => Value::from(u64::MAX),
                _ => Value::from(self.below(2_000_001) as i64 - 1_000_000),
            },
            3 | 4 => Value::from(self.double()),
            _ => Value::from(self.string()),
        }
    }

    fn value(&mut self, depth: usize) -> Value {
        if depth >= 4 || self.below(10) < 4 {
            self.scalar()
        } else if self.below(2) == 0 {
            (0..self.below(5)).map(|_| self.value(depth + 1)).collect()
        } else {
            let n = self.below(5);
            Value::from(self.object(n, depth + 1))
        }
    }

    fn object(&mut self, n_members: usize, depth: usize) -> Object {
        (0..n_members).map(|_| (self.string(), self.value(depth))).collect()
    }
}

fn sha256_hex(lines: impl Iterator<Item = String>) -> String {
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line);
        hash.update("\n");
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn floats_print_as_cpython_prints_them() {
    let Some(text) = published("engine/py_float.txt") else { return };
    for line in text.lines() {
        let value: f64 = line.parse().expect("a float");
        assert_eq!(json::python_float_repr(value), line);
        assert_eq!(json::parse(line.as_bytes()).expect("JSON").dumps(), line);
    }
    assert!(text.lines().count() >= 3337);
}

#[test]
fn documents_print_as_cpython_prints_them() {
    let Some(text) = published("engine/py_json.jsonl") else { return };
    let lines: Vec<&str> = text.split_terminator('\n').collect();
    for line in &lines {
        assert_eq!(json::parse(line.as_bytes()).expect("JSON").dumps(), *line);
    }
    assert_eq!(lines.len(), 150);
}

#[test]
fn the_hashed_streams_are_cpythons() {
    let Some(text) = published("engine/py_hashes.txt") else { return };
    let mut n_streams = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [stream, seed, count, expected] = words[..] else { panic!("an unexpected line: {line}") };
        let mut random = SplitMix64(seed.parse().expect("a seed"));
        let count: usize = count.parse().expect("a count");
        let hash = match stream {
            "floats" => sha256_hex((0..count).map(|_| json::python_float_repr(random.double()))),
            "objects" => sha256_hex((0..count).map(|_| {
                let n = 1 + random.below(5);
                Value::from(random.object(n, 1)).dumps()
            })),
            other => panic!("an unknown stream: {other}"),
        };
        assert_eq!(hash, expected, "{stream}");
        n_streams += 1;
    }
    assert_eq!(n_streams, 2);
}

#[test]
fn router_bodies_are_read_or_refused_as_published() {
    let Some(text) = published("engine/router_cases.jsonl") else { return };
    let (mut n_read, mut n_refused) = (0, 0);
    for line in text.lines().skip(1) {
        let case = json::parse(line.as_bytes()).expect("JSON");
        let body = case.get("body_text").and_then(Value::as_str).expect("a body");
        let reason = case.get("expect").and_then(|expect| expect.get("reason")).and_then(Value::as_str);
        let name = case.get("name").map(Value::dumps);
        match (json::parse(body.as_bytes()), reason) {
            (Err(error), Some(reason @ ("MALFORMED_JSON" | "UNSUPPORTED_NUMBER"))) => {
                assert_eq!(error.reason.as_str(), reason, "{name:?}: {error}");
                n_refused += 1;
            }
            (Ok(_), None) => n_read += 1,
            (Ok(_), Some(reason)) => assert!(!reason.ends_with("_JSON") && !reason.ends_with("_NUMBER"), "{name:?}"),
            (Err(error), _) => panic!("{name:?}: {error}"),
        }
    }
    assert_eq!((n_read, n_refused), (421, 17));
}

#[test]
fn a_printed_value_reads_back_as_itself() {
    let mut random = SplitMix64(3);
    for _ in 0..3000 {
        let value = random.value(0);
        for text in [value.dumps(), value.dumps_compact(), value.dumps_indent(2), value.dumps_indent(0)] {
            let read = json::parse(text.as_bytes()).expect("our own JSON");
            assert_eq!(read, value, "{text}");
            assert_eq!(read.dumps(), value.dumps());
        }
    }
}

#[test]
fn damaged_texts_are_refused_or_read_but_never_panic() {
    let mut random = SplitMix64(4);
    let snippets: [&[u8]; 24] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b"\\",
        b",",
        b":",
        b"\\ud83d",
        b"\\ude00",
        b"\\u00",
        b"NaN",
        b"-Infinity",
        b"-",
        b"1e400",
        b"-0",
        b"18446744073709551616",
        b"0.1e-5",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\x00",
        b"null",
        b"\n",
    ];
    let (mut n_read, mut n_malformed, mut n_unsupported) = (0, 0, 0);
    for _ in 0..1000 {
        let text = random.value(0).dumps().into_bytes();
        for _ in 0..100 {
            let mut bytes = text.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() + 1);
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                    2 if at < bytes.len() => drop(bytes.drain(at..(at + 1 + random.below(8)).min(bytes.len()))),
                    _ => drop(bytes.splice(at..at, snippets[random.below(24)].iter().copied())),
                }
            }
            match json::parse(&bytes) {
                Ok(value) => {
                    // Whatever is read is finite, and reads back from its own text.
                    assert_eq!(json::parse(value.dumps().as_bytes()).as_ref(), Ok(&value));
                    n_read += 1;
                }
                Err(error) => {
                    assert!(error.offset <= bytes.len() && error.line >= 1 && error.column >= 1);
                    match error.reason {
                        Reason::MalformedJson => n_malformed += 1,
                        Reason::UnsupportedNumber => n_unsupported += 1,
                    }
                }
            }
        }
    }
    eprintln!("100,000 damaged texts: {n_read} read, {n_malformed} malformed, {n_unsupported} unsupported numbers");
    assert!(n_read > 1000 && n_malformed > 10_000 && n_unsupported > 100);
}

#[test]
fn deep_nesting_is_an_error_in_a_small_thread() {
    let read = || {
        for open in ["[", "{\"a\":", "[{\"a\":"] {
            let error = json::parse(open.repeat(100_000).as_bytes()).expect_err("too deep");
            assert_eq!(error.reason, Reason::MalformedJson);
        }
        let valid = format!("{}{}", "[".repeat(128), "]".repeat(128));
        json::parse(valid.as_bytes()).map(|value| (value.dumps(), value.python_repr(), value.clone() == value))
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(read).expect("a thread");
    assert!(thread.join().expect("no overflow").is_ok());
}

#[test]
fn integers_and_doubles_meet_at_the_edges() {
    for (text, number) in [
        ("9223372036854775807", Number::Int(i64::MAX)),
        ("9223372036854775808", Number::Uint(1 << 63)),
        ("9007199254740993.0", Number::Double(9007199254740992.0)),
        ("2.2250738585072011e-308", Number::Double(2.225073858507201e-308)),
        ("1.7976931348623158e308", Number::Double(f64::MAX)),
    ] {
        assert_eq!(json::parse(text.as_bytes()), Ok(Value::Number(number)), "{text}");
    }
}
