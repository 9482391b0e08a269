//! Values of keys, for people and for machines.

use crate::cli::escape;
use crate::gguf::{Array, Value};
use crate::json;
use crate::spec::hex;

/// Bytes of a string that are shown where not all are asked for.
const SHOWN_BYTES: usize = 80;
/// The same of a string in an array.
const SHOWN_ELEMENT_BYTES: usize = 24;
/// Elements of an array that are shown.
const SHOWN_ELEMENTS: usize = 6;

/// How much is shown of long things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The start of them, and how much there is.
    Start,
    /// All of it.
    Full,
}

impl Extent {
    fn of(self, start: usize) -> usize {
        if self == Self::Full { usize::MAX } else { start }
    }
}

/// A name of a key or tensor, cut where it is too long to be one.
pub(super) fn name(name: &str, extent: Extent) -> String {
    shortened(name, extent.of(SHOWN_BYTES))
}

/// Text in one line, at most about its first `n` bytes.
pub(super) fn shortened(text: &str, n: usize) -> String {
    let (start, cut) = start(text.as_bytes(), n);
    escape::text(start) + &cut
}

/// A value in one line.
pub(super) fn text(value: &Value, extent: Extent) -> String {
    match value {
        Value::U8(n) => n.to_string(),
        Value::I8(n) => n.to_string(),
        Value::U16(n) => n.to_string(),
        Value::I16(n) => n.to_string(),
        Value::U32(n) => n.to_string(),
        Value::I32(n) => n.to_string(),
        // The shortest decimals that read back as these bits, with a point or an exponent in them.
        Value::F32(x) => format!("{x:?}"),
        Value::Bool(truth) => truth.to_string(),
        Value::U64(n) => n.to_string(),
        Value::I64(n) => n.to_string(),
        Value::F64(x) => format!("{x:?}"),
        Value::String(bytes) => string(bytes, extent.of(SHOWN_BYTES)),
        Value::Array(array) => array_text(array, extent),
    }
}

fn array_text(array: &Array, extent: Extent) -> String {
    let mut shown: Vec<String> = match array {
        Array::U8(v) => elements(v.iter(), extent),
        Array::I8(v) => elements(v.iter(), extent),
        Array::U16(v) => elements(v.iter(), extent),
        Array::I16(v) => elements(v.iter(), extent),
        Array::U32(v) => elements(v.iter(), extent),
        Array::I32(v) => elements(v.iter(), extent),
        Array::F32(v) => elements(v.iter().map(|x| format!("{x:?}")), extent),
        Array::Bool(v) => elements(v.iter(), extent),
        Array::U64(v) => elements(v.iter(), extent),
        Array::I64(v) => elements(v.iter(), extent),
        Array::F64(v) => elements(v.iter().map(|x| format!("{x:?}")), extent),
        Array::String(v) => elements(v.iter().map(|bytes| string(bytes, extent.of(SHOWN_ELEMENT_BYTES))), extent),
        Array::Array(v) => elements(v.iter().map(|array| array_text(array, extent)), extent),
    };
    let n_more = array.len() - shown.len();
    if n_more > 0 {
        shown.push(format!("... {n_more} more"));
    }
    format!("[{}]", shown.join(", "))
}

fn elements<T: ToString>(elements: impl Iterator<Item = T>, extent: Extent) -> Vec<String> {
    elements.take(extent.of(SHOWN_ELEMENTS)).map(|element| element.to_string()).collect()
}

/// A string in quotation marks, at most its first `n` bytes.
fn string(bytes: &[u8], n: usize) -> String {
    let (start, cut) = start(bytes, n);
    format!("\"{}\"{cut}", escape::text(start))
}

/// The first `n` bytes or a few less, so that no character is cut, and a remark when these are not all.
fn start(bytes: &[u8], n: usize) -> (&[u8], String) {
    if bytes.len() <= n {
        return (bytes, String::new());
    }
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (n.saturating_sub(3)..=n).rev().find(|at| !is_inside(*at)).unwrap_or(n);
    (bytes.get(..end).unwrap_or(bytes), format!("... ({} bytes)", bytes.len()))
}

/// A value as JSON, and how many elements of an array, and of arrays in it, that leaves out. A number that JSON has not is a string, a string
/// that is not UTF-8 an object `{"hex": "ff00"}`.
pub(super) fn json(value: &Value, extent: Extent) -> (json::Value, usize) {
    let value = match value {
        Value::U8(n) => u64::from(*n).into(),
        Value::I8(n) => i64::from(*n).into(),
        Value::U16(n) => u64::from(*n).into(),
        Value::I16(n) => i64::from(*n).into(),
        Value::U32(n) => (*n).into(),
        Value::I32(n) => i64::from(*n).into(),
        Value::F32(x) => double(f64::from(*x)),
        Value::Bool(truth) => (*truth).into(),
        Value::U64(n) => (*n).into(),
        Value::I64(n) => (*n).into(),
        Value::F64(x) => double(*x),
        Value::String(bytes) => json_string(bytes),
        Value::Array(array) => return json_array(array, extent),
    };
    (value, 0)
}

fn json_array(array: &Array, extent: Extent) -> (json::Value, usize) {
    let n = extent.of(SHOWN_ELEMENTS);
    let mut n_more = array.len().saturating_sub(n);
    let value: json::Value = match array {
        Array::U8(v) => v.iter().take(n).map(|n| u64::from(*n)).collect(),
        Array::I8(v) => v.iter().take(n).map(|n| i64::from(*n)).collect(),
        Array::U16(v) => v.iter().take(n).map(|n| u64::from(*n)).collect(),
        Array::I16(v) => v.iter().take(n).map(|n| i64::from(*n)).collect(),
        Array::U32(v) => v.iter().take(n).copied().collect(),
        Array::I32(v) => v.iter().take(n).map(|n| i64::from(*n)).collect(),
        Array::F32(v) => v.iter().take(n).map(|x| double(f64::from(*x))).collect(),
        Array::Bool(v) => v.iter().take(n).copied().collect(),
        Array::U64(v) => v.iter().take(n).copied().collect(),
        Array::I64(v) => v.iter().take(n).copied().collect(),
        Array::F64(v) => v.iter().take(n).map(|x| double(*x)).collect(),
        Array::String(v) => v.iter().take(n).map(json_string).collect(),
        Array::Array(v) => {
            let inner = v.iter().take(n).map(|array| json_array(array, extent));
            inner
                .map(|(value, n)| {
                    n_more += n;
                    value
                })
                .collect()
        }
    };
    (value, n_more)
}

fn double(x: f64) -> json::Value {
    if x.is_finite() { x.into() } else { x.to_string().into() }
}

fn json_string(bytes: &[u8]) -> json::Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let mut object = json::Object::new();
            object.insert("hex", hex(bytes));
            object.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Strings;

    #[test]
    fn every_type_is_shown() {
        let array = |array| Value::Array(array);
        for (value, shown, dumped) in [
            (Value::U8(255), "255", "255"),
            (Value::I8(-1), "-1", "-1"),
            (Value::U16(65_535), "65535", "65535"),
            (Value::I16(-2), "-2", "-2"),
            (Value::U32(7), "7", "7"),
            (Value::I32(-7), "-7", "-7"),
            (Value::F32(1.0), "1.0", "1.0"),
            (Value::F32(0.1), "0.1", "0.10000000149011612"),
            (Value::F32(f32::NAN), "NaN", "\"NaN\""),
            (Value::F64(f64::NEG_INFINITY), "-inf", "\"-inf\""),
            (Value::F64(0.1), "0.1", "0.1"),
            (Value::Bool(true), "true", "true"),
            (Value::U64(u64::MAX), "18446744073709551615", "18446744073709551615"),
            (Value::I64(i64::MIN), "-9223372036854775808", "-9223372036854775808"),
            ("a\u{1b}\"b".into(), "\"a\\u{1b}\\\"b\"", "\"a\\u001b\\\"b\""),
            (Value::String(b"\xffA".to_vec()), "\"\\xffA\"", "{\"hex\": \"ff41\"}"),
            (array(Array::U8(vec![1])), "[1]", "[1]"),
            (array(Array::I8(vec![-1])), "[-1]", "[-1]"),
            (array(Array::U16(vec![1])), "[1]", "[1]"),
            (array(Array::I16(vec![-1])), "[-1]", "[-1]"),
            (array(Array::U32(Vec::new())), "[]", "[]"),
            (array(Array::I32(vec![-1, 2])), "[-1, 2]", "[-1, 2]"),
            (array(Array::F32(vec![0.5, f32::INFINITY])), "[0.5, inf]", "[0.5, \"inf\"]"),
            (array(Array::Bool(vec![false])), "[false]", "[false]"),
            (array(Array::U64(vec![1])), "[1]", "[1]"),
            (array(Array::I64(vec![-1])), "[-1]", "[-1]"),
            (array(Array::F64(vec![1e300])), "[1e300]", "[1e+300]"),
            (array(Array::Array(vec![Array::U8(vec![1]), Array::U8(vec![])])), "[[1], []]", "[[1], []]"),
        ] {
            assert_eq!(text(&value, Extent::Start), shown);
            assert_eq!(text(&value, Extent::Full), shown);
            assert_eq!((json(&value, Extent::Start).0.dumps().as_str(), json(&value, Extent::Full).1), (dumped, 0));
        }
    }

    #[test]
    fn long_arrays_show_their_start_and_count() {
        let numbers = Value::from((0..1000u32).collect::<Vec<_>>());
        assert_eq!(text(&numbers, Extent::Start), "[0, 1, 2, 3, 4, 5, ... 994 more]");
        assert!(text(&numbers, Extent::Full).ends_with("998, 999]"));
        let (short, n_more) = json(&numbers, Extent::Start);
        assert_eq!((short.dumps().as_str(), n_more), ("[0, 1, 2, 3, 4, 5]", 994));
        assert_eq!(json(&numbers, Extent::Full).0.as_array().map(<[_]>::len), Some(1000));
        let strings: Strings = (0..7).map(|_| "\u{2581}".repeat(30)).collect();
        let shown = text(&strings.into(), Extent::Start);
        let one = format!("\"{}\"... (90 bytes)", "\u{2581}".repeat(8));
        assert_eq!(shown, format!("[{}, ... 1 more]", [one.as_str(); 6].join(", ")));
        let nested = Value::Array(Array::Array(vec![Array::U8(vec![9; 100]); 100]));
        let shown = text(&nested, Extent::Start);
        assert_eq!(shown.matches("... 94 more").count(), 7, "{shown}");
        assert_eq!(json(&nested, Extent::Start).1, 7 * 94);
    }

    #[test]
    fn long_strings_show_their_start_and_length_and_no_half_character() {
        for (long, kept) in [("a".repeat(81), 80), ("\u{1f642}".repeat(30), 80), ("я".repeat(50), 80)] {
            let shown = text(&long.as_str().into(), Extent::Start);
            assert_eq!(shown, format!("\"{}\"... ({} bytes)", &long[..kept], long.len()));
            assert_eq!(text(&long.as_str().into(), Extent::Full), format!("\"{long}\""));
            assert_eq!(json(&long.as_str().into(), Extent::Start).0.as_str(), Some(long.as_str()));
        }
        let odd = format!("a{}", "\u{1f642}".repeat(30));
        assert_eq!(text(&odd.as_str().into(), Extent::Start), format!("\"{}\"... (121 bytes)", &odd[..77]));
        assert_eq!(text(&"a".repeat(80).into(), Extent::Start).len(), 82);
        // No character starts anywhere: all of what is shown is escaped.
        let shown = text(&Value::String(vec![0x80; 1000]), Extent::Start);
        assert_eq!(shown, format!("\"{}\"... (1000 bytes)", "\\x80".repeat(80)));
        assert_eq!(name(&"k".repeat(200), Extent::Start), format!("{}... (200 bytes)", "k".repeat(80)));
    }
}
