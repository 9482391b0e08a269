//! Python's `str()` and `repr()` of a value, for option texts and for messages users of the reference know.

use super::float::push_float_repr;
use super::{Number, Value};
use std::fmt::Write as _;

impl Value {
    /// The name of the Python type `json.loads` gives this value: `str`, `int`, `float`, `bool`, `NoneType`, `list` or
    /// `dict`.
    pub fn python_type_name(&self) -> &'static str {
        match self {
            Self::Null => "NoneType",
            Self::Bool(_) => "bool",
            Self::Number(Number::Int(_) | Number::Uint(_)) => "int",
            Self::Number(Number::Double(_)) => "float",
            Self::String(_) => "str",
            Self::Array(_) => "list",
            Self::Object(_) => "dict",
        }
    }

    /// Python's `str(value)`: a string as is, `True`, `1.0`, `None`, and the `repr` of a list or dict.
    pub fn python_str(&self) -> String {
        match self {
            Self::String(text) => text.clone(),
            other => other.python_repr(),
        }
    }

    /// Python's `repr(value)`. Code points that no Unicode version has assigned yet count as printable here.
    pub fn python_repr(&self) -> String {
        let mut out = String::new();
        push_repr(&mut out, self);
        out
    }
}

/// Python's `repr` of a string: in single quotes unless it holds one and no double quote, with `\n`, `\r`, `\t`, and
/// `\x..`, `\u....` or `\U........` for what does not print.
pub fn python_str_repr(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_str_repr(&mut out, text);
    out
}

fn push_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(Number::Double(d)) => push_float_repr(out, *d),
        // Writing to a String cannot fail.
        Value::Number(Number::Int(i)) => drop(write!(out, "{i}")),
        Value::Number(Number::Uint(u)) => drop(write!(out, "{u}")),
        Value::String(text) => push_str_repr(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                push_repr(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (i, (key, item)) in object.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                push_str_repr(out, key);
                out.push_str(": ");
                push_repr(out, item);
            }
            out.push('}');
        }
    }
}

fn push_str_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        let code = u32::from(c);
        // Writing to a String cannot fail.
        let _ = match c {
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            _ if c == quote => write!(out, "\\{c}"),
            _ if is_printable(c) => out.write_char(c),
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
}

/// Whether `repr` shows a character as itself: not a control, format, private-use or separator character other than
/// the plain blank, and not one of the noncharacters.
fn is_printable(c: char) -> bool {
    let code = u32::from(c);
    if c == ' ' {
        return true;
    }
    let format = matches!(code,
        0xAD | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x890..=0x891 | 0x8E2 | 0x180E | 0x200B..=0x200F
        | 0x202A..=0x202E | 0x2060..=0x2064 | 0x2066..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB | 0x110BD | 0x110CD
        | 0x13430..=0x13438 | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0001 | 0xE0020..=0xE007F);
    let private_use = matches!(code, 0xE000..=0xF8FF | 0xF_0000..=0x10_FFFF);
    let noncharacter = code & 0xFFFE == 0xFFFE || matches!(code, 0xFDD0..=0xFDEF);
    !(c.is_control() || c.is_whitespace() || format || private_use || noncharacter)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn repr_quotes_and_escapes_like_python() {
        for (text, repr) in [
            ("a", "'a'"),
            ("it's", "\"it's\""),
            ("both ' and \"", "'both \\' and \"'"),
            ("a\\b\n\r\t", "'a\\\\b\\n\\r\\t'"),
            ("\u{0}\u{1b}\u{7f}\u{85}\u{a0}", "'\\x00\\x1b\\x7f\\x85\\xa0'"),
            ("é中😀", "'é中😀'"),
            ("\u{200b}\u{2028}\u{feff}\u{e000}", "'\\u200b\\u2028\\ufeff\\ue000'"),
            ("\u{e0001}\u{10ffff}", "'\\U000e0001\\U0010ffff'"),
        ] {
            assert_eq!(python_str_repr(text), repr);
        }
    }

    #[test]
    fn str_of_scalars_and_nested_values() {
        let value = parse(br#"[null,true,false,1,18446744073709551615,1.0,1e22,"s",{"k":["x"]}]"#).unwrap();
        assert_eq!(value.python_str(), "[None, True, False, 1, 18446744073709551615, 1.0, 1e+22, 's', {'k': ['x']}]");
        assert_eq!(Value::from("s").python_str(), "s");
        let names: Vec<_> = value.as_array().unwrap().iter().map(Value::python_type_name).collect();
        assert_eq!(names, ["NoneType", "bool", "bool", "int", "int", "float", "float", "str", "dict"]);
        assert_eq!(value.python_type_name(), "list");
    }
}
