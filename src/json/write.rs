//! The text of a value as Python's `json.dumps(value, ensure_ascii=False)` spells it.

use super::float::push_float_repr;
use super::{Number, Value};
use std::fmt::Write as _;

/// How the parts of a text are separated.
struct Style {
    item: &'static str,
    key: &'static str,
    indent: Option<usize>,
}

impl Value {
    /// `json.dumps(value, ensure_ascii=False)`: the text the models read. Separated by `", "` and `": "`; escapes only
    /// `"`, `\` and characters below U+0020.
    pub fn dumps(&self) -> String {
        self.written(&Style { item: ", ", key: ": ", indent: None })
    }

    /// `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.
    pub fn dumps_compact(&self) -> String {
        self.written(&Style { item: ",", key: ":", indent: None })
    }

    /// `json.dumps(value, ensure_ascii=False, indent=n)`, without a newline at the end.
    pub fn dumps_indent(&self, n: usize) -> String {
        self.written(&Style { item: ",", key: ": ", indent: Some(n) })
    }

    fn written(&self, style: &Style) -> String {
        let mut out = String::new();
        push_value(&mut out, self, style, 0);
        out
    }
}

fn push_value(out: &mut String, value: &Value, style: &Style, level: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => push_number(out, *number),
        Value::String(text) => push_string(out, text),
        Value::Array(items) if items.is_empty() => out.push_str("[]"),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                push_separator(out, i == 0, style, level + 1);
                push_value(out, item, style, level + 1);
            }
            push_newline(out, style, level);
            out.push(']');
        }
        Value::Object(object) if object.is_empty() => out.push_str("{}"),
        Value::Object(object) => {
            out.push('{');
            for (i, (key, item)) in object.iter().enumerate() {
                push_separator(out, i == 0, style, level + 1);
                push_string(out, key);
                out.push_str(style.key);
                push_value(out, item, style, level + 1);
            }
            push_newline(out, style, level);
            out.push('}');
        }
    }
}

fn push_separator(out: &mut String, first: bool, style: &Style, level: usize) {
    if !first {
        out.push_str(style.item);
    }
    push_newline(out, style, level);
}

fn push_newline(out: &mut String, style: &Style, level: usize) {
    if let Some(n) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', n.saturating_mul(level)));
    }
}

fn push_number(out: &mut String, number: Number) {
    // Writing to a String cannot fail.
    let _ = match number {
        Number::Int(i) => write!(out, "{i}"),
        Number::Uint(u) => write!(out, "{u}"),
        Number::Double(d) if d.is_nan() => write!(out, "NaN"),
        Number::Double(f64::INFINITY) => write!(out, "Infinity"),
        Number::Double(f64::NEG_INFINITY) => write!(out, "-Infinity"),
        Number::Double(d) => {
            push_float_repr(out, d);
            Ok(())
        }
    };
}

fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| b < 0x20 || b == b'"' || b == b'\\') {
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        let mut tail_chars = tail.chars();
        match tail_chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            other => {
                let code = other.map_or(0, u32::from);
                let _ = write!(out, "\\u{code:04x}");
            }
        }
        rest = tail_chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::{Object, parse};
    use super::*;

    fn read(text: &str) -> Value {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn escapes_only_what_python_escapes() {
        let text = "a\"\\/\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}é中\u{2028}😀";
        assert_eq!(Value::from(text).dumps(), "\"a\\\"\\\\/\\n\\r\\t\\b\\f\\u0000\\u001f\u{7f}é中\u{2028}😀\"");
    }

    #[test]
    fn the_three_layouts() {
        let value = read(r#"{"a":[1,2.0,[]],"b":{},"c":{"d":null}}"#);
        assert_eq!(value.dumps(), r#"{"a": [1, 2.0, []], "b": {}, "c": {"d": null}}"#);
        assert_eq!(value.dumps_compact(), r#"{"a":[1,2.0,[]],"b":{},"c":{"d":null}}"#);
        assert_eq!(
            value.dumps_indent(2),
            "{\n  \"a\": [\n    1,\n    2.0,\n    []\n  ],\n  \"b\": {},\n  \"c\": {\n    \"d\": null\n  }\n}"
        );
        assert_eq!(read("[1,[2]]").dumps_indent(0), "[\n1,\n[\n2\n]\n]");
    }

    #[test]
    fn numbers_that_json_has_no_word_for() {
        let numbers: Value = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().collect();
        assert_eq!(numbers.dumps(), "[NaN, Infinity, -Infinity]");
    }

    #[test]
    fn an_empty_object_is_written_as_python_does() {
        assert_eq!(Value::from(Object::new()).dumps_indent(2), "{}");
        assert_eq!(Value::Array(Vec::new()).dumps_indent(2), "[]");
    }

    #[test]
    fn states_of_the_field() {
        let value = read(r#"{"duration_s":532.0,"amount":1234567.5,"tiny":1e-7,"big":1e16}"#);
        assert_eq!(value.dumps(), r#"{"duration_s": 532.0, "amount": 1234567.5, "tiny": 1e-07, "big": 1e+16}"#);
        let value = read("[1e15,1e16,123456789012345680.0,5e-324,-0.0,-0]");
        assert_eq!(value.dumps(), "[1000000000000000.0, 1e+16, 1.2345678901234568e+17, 5e-324, -0.0, 0]");
    }
}
