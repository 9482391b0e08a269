//! The strict reader.

use super::{Number, Object, Value};
use crate::error::{Error, ErrorKind, Place};
use std::fmt;

/// Deepest nesting [`parse`] accepts, in levels of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// Deepest nesting [`parse_within`] can be asked for. The reader and everything that walks a value go down one call a
/// level, so this bound is what keeps a hostile text from exhausting the stack.
const HIGHEST_MAX_DEPTH: usize = 1024;

/// The first bytes of a UTF-8 text that starts with a byte order mark.
const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// The class of a [`ParseError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Not JSON, not UTF-8, a lone surrogate, or nested too deeply.
    MalformedJson,
    /// A number outside `i64`, `u64` and the finite doubles, or one of Python's `NaN` and `Infinity`.
    UnsupportedNumber,
}

impl Reason {
    /// The reason as clients match it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MalformedJson => "MALFORMED_JSON",
            Self::UnsupportedNumber => "UNSUPPORTED_NUMBER",
        }
    }
}

/// Why a text is not JSON this project reads: the first fault in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The class of the fault.
    pub reason: Reason,
    /// Byte offset of the fault from the start of the input (a byte order mark counts).
    pub offset: usize,
    /// Line of the fault, from 1.
    pub line: usize,
    /// Character of that line, from 1.
    pub column: usize,
    /// What is wrong, without the place.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {} (byte {})", self.message, self.line, self.column, self.offset)
    }
}

impl std::error::Error for ParseError {}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        let message = format!("{} (line {}, column {})", error.message, error.line, error.column);
        Self::new(ErrorKind::Json, message).at(Place::Offset(error.offset as u64))
    }
}

/// Reads one JSON value nested at most [`MAX_DEPTH`] levels deep.
///
/// One byte order mark before it is skipped, white space around it too; anything else after it is an error.
///
/// # Errors
/// See [`Reason`]. Of several faults the first in the text is reported.
pub fn parse(bytes: &[u8]) -> Result<Value, ParseError> {
    parse_within(bytes, MAX_DEPTH)
}

/// Reads one JSON value nested at most `max_depth` levels deep (1,024 whatever is asked).
///
/// # Errors
/// As [`parse`].
pub fn parse_within(bytes: &[u8], max_depth: usize) -> Result<Value, ParseError> {
    let start = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let body = bytes.get(start..).unwrap_or_default();
    // A fault before the first byte that is not UTF-8 comes first in the text, so the part before it is read anyway.
    let (text, cut) = match std::str::from_utf8(body) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = body.get(..error.valid_up_to()).unwrap_or_default();
            (std::str::from_utf8(valid).unwrap_or_default(), Some(error.valid_up_to()))
        }
    };
    let mut reader = Reader { text, at: 0, levels_left: max_depth.min(HIGHEST_MAX_DEPTH) };
    let fault = match (reader.document(), cut) {
        (Ok(value), None) => return Ok(value),
        (Err(fault), None) => fault,
        (Err(fault), Some(cut)) if fault.at < cut => fault,
        (_, Some(cut)) => Fault { reason: Reason::MalformedJson, at: cut, message: "bytes that are not UTF-8".into() },
    };
    let before = body.get(..fault.at).unwrap_or(body);
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
    let on_line = before.get(line_start..).unwrap_or_default();
    Err(ParseError {
        reason: fault.reason,
        offset: start + fault.at,
        line: 1 + before.iter().filter(|b| **b == b'\n').count(),
        // Continuation bytes do not start a character.
        column: 1 + on_line.iter().filter(|b| **b & 0xC0 != 0x80).count(),
        message: fault.message,
    })
}

/// A fault and where it is in the text after a byte order mark.
struct Fault {
    reason: Reason,
    at: usize,
    message: String,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    levels_left: usize,
}

type Read<T> = Result<T, Fault>;

impl Reader<'_> {
    fn document(&mut self) -> Read<Value> {
        self.skip_blanks();
        let value = self.value()?;
        self.skip_blanks();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.fault("text after the end of the value")),
        }
    }

    fn value(&mut self) -> Read<Value> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'N') if self.rest().starts_with("NaN") => Err(self.unsupported(self.at, "NaN")),
            Some(b'I') if self.rest().starts_with("Infinity") => Err(self.unsupported(self.at, "Infinity")),
            Some(_) => Err(self.fault("expected a value")),
            None => Err(self.fault("expected a value, found the end of the text")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Read<Value>) -> Read<Value> {
        let Some(levels_left) = self.levels_left.checked_sub(1) else {
            return Err(self.fault("arrays and objects are nested too deeply"));
        };
        self.levels_left = levels_left;
        let value = read(self)?;
        self.levels_left += 1;
        Ok(value)
    }

    fn array(&mut self) -> Read<Value> {
        self.at += 1;
        self.skip_blanks();
        if self.take(b']') {
            return Ok(Value::Array(Vec::new()));
        }
        // Pairs are what large files are made of.
        let mut items = Vec::with_capacity(2);
        loop {
            self.skip_blanks();
            items.push(self.value()?);
            self.skip_blanks();
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.fault("expected ',' or ']' after an item of an array"));
            }
        }
    }

    fn object(&mut self) -> Read<Value> {
        self.at += 1;
        let mut object = Object::new();
        self.skip_blanks();
        if self.take(b'}') {
            return Ok(Value::Object(object));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.fault("expected a key in double quotes"));
            }
            let key = self.string()?;
            self.skip_blanks();
            if !self.take(b':') {
                return Err(self.fault("expected ':' after a key"));
            }
            self.skip_blanks();
            let value = self.value()?;
            object.insert(key, value);
            self.skip_blanks();
            if self.take(b'}') {
                return Ok(Value::Object(object));
            }
            if !self.take(b',') {
                return Err(self.fault("expected ',' or '}' after a member of an object"));
            }
        }
    }

    fn string(&mut self) -> Read<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let Some(plain) = rest.bytes().position(|b| b < 0x20 || b == b'"' || b == b'\\') else {
                self.at = self.text.len();
                return Err(self.fault("a string without its closing quote"));
            };
            out.push_str(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                _ => return Err(self.fault("a control character in a string; write it as \\n, \\t or \\u00XX")),
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        let c = match self.text.as_bytes().get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.fault("an escape JSON does not have")),
        };
        self.at += 2;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Read<char> {
        let Some(unit) = self.code_unit(self.at) else {
            return Err(self.fault("\\u must be followed by four hexadecimal digits"));
        };
        let (code, length) = match unit {
            0xD800..=0xDBFF => match self.code_unit(self.at + 6) {
                Some(low @ 0xDC00..=0xDFFF) => (0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00), 12),
                _ => (unit, 6),
            },
            _ => (unit, 6),
        };
        let Some(c) = char::from_u32(code) else {
            return Err(self.fault("half of a surrogate pair; text needs both halves"));
        };
        self.at += length;
        Ok(c)
    }

    /// The value of `\uhhhh` (four hex digits) at byte `at`.
    fn code_unit(&self, at: usize) -> Option<u32> {
        let digits = self.text.as_bytes().get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, b| Some(unit * 16 + char::from(*b).to_digit(16)?))
    }

    fn number(&mut self) -> Read<Number> {
        let start = self.at;
        let negative = self.take(b'-');
        if negative {
            if self.rest().starts_with("Infinity") {
                return Err(self.unsupported(start, "-Infinity"));
            }
            if self.rest().starts_with("NaN") {
                return Err(self.unsupported(start, "-NaN"));
            }
        }
        let leading_zero = self.peek() == Some(b'0');
        let n_digits = self.skip_digits();
        if n_digits == 0 {
            return Err(self.fault("expected a digit"));
        }
        if leading_zero && n_digits > 1 {
            self.at -= n_digits - 1;
            return Err(self.fault("a number must not start with 0"));
        }
        let mut is_integer = true;
        if self.take(b'.') {
            is_integer = false;
            if self.skip_digits() == 0 {
                return Err(self.fault("expected a digit after the decimal point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.skip_digits() == 0 {
                return Err(self.fault("expected a digit in the exponent"));
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        if is_integer {
            if let Ok(i) = text.parse() {
                return Ok(Number::Int(i));
            }
            return text.parse().map(Number::Uint).map_err(|_| self.unsupported(start, "an integer outside 64 bits"));
        }
        match text.parse::<f64>() {
            Ok(d) if d.is_finite() => Ok(Number::Double(d)),
            _ => Err(self.unsupported(start, "a number too large for a double")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Read<Value> {
        if !self.rest().starts_with(word) {
            return Err(self.fault("expected a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn skip_digits(&mut self) -> usize {
        let n = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += n;
        n
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// What is left to read; `at` never stands inside a character.
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fault(&self, message: &str) -> Fault {
        Fault { reason: Reason::MalformedJson, at: self.at, message: message.to_owned() }
    }

    fn unsupported(&self, at: usize, what: &str) -> Fault {
        let message = format!("{what} is not a number a request can hold");
        Fault { reason: Reason::UnsupportedNumber, at, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reason::{MalformedJson, UnsupportedNumber};

    fn reason(text: &str) -> Option<Reason> {
        parse(text.as_bytes()).err().map(|error| error.reason)
    }

    #[test]
    fn every_way_to_be_malformed() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,]",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{a:1}",
            "{'a':1}",
            "{1:1}",
            "[1 2]",
            "{\"a\" 1}",
            "nul",
            "True",
            "tru",
            "Nan",
            "Inf",
            "nan",
            "-",
            "-a",
            "+1",
            "01",
            "-01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1.e5",
            "0x10",
            "1_0",
            "\"",
            "\"a",
            "\"\\",
            "\"\\u12",
            "\"\\u12g4\"",
            "\"\\x41\"",
            "\"\\u+123\"",
            "\"a\tb\"",
            "\"\u{0}\"",
            "\"\\ud800\"",
            "\"\\ud800x\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\\ud83dx\\ude00\"",
            "1 x",
            "[]]",
            "{}{}",
            "// c\n1",
            "\u{feff}\u{feff}1",
            "\u{a0}1",
        ] {
            assert_eq!(reason(text), Some(MalformedJson), "{text:?}");
        }
    }

    #[test]
    fn numbers_no_request_can_hold() {
        for text in [
            "NaN",
            "-NaN",
            "Infinity",
            "-Infinity",
            "[1, NaN]",
            "18446744073709551616",
            "-9223372036854775809",
            "1e309",
            "-1e400",
            "123456789012345678901234567890",
        ] {
            assert_eq!(reason(text), Some(UnsupportedNumber), "{text:?}");
        }
    }

    #[test]
    fn numbers_keep_the_class_they_are_written_in() {
        for (text, number) in [
            ("0", Number::Int(0)),
            ("-0", Number::Int(0)),
            ("9223372036854775807", Number::Int(i64::MAX)),
            ("-9223372036854775808", Number::Int(i64::MIN)),
            ("9223372036854775808", Number::Uint(1 << 63)),
            ("18446744073709551615", Number::Uint(u64::MAX)),
            ("1.0", Number::Double(1.0)),
            ("1E2", Number::Double(100.0)),
            ("1e-400", Number::Double(0.0)),
            ("0.1", Number::Double(0.1)),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap(), Value::Number(number), "{text}");
        }
        assert_eq!(parse(b"-0.0").unwrap().dumps(), "-0.0");
    }

    #[test]
    fn the_first_fault_decides() {
        assert_eq!(reason(r#"{"t": "\ud800", "y": NaN}"#), Some(MalformedJson));
        assert_eq!(reason(r#"{"y": NaN, "t": "\ud800"}"#), Some(UnsupportedNumber));
        assert_eq!(parse(b"[NaN, \"\xff\"]").unwrap_err().reason, UnsupportedNumber);
        let error = parse(b"[\"\xff\", NaN]").unwrap_err();
        assert_eq!((error.reason, error.offset), (MalformedJson, 2));
        assert_eq!(parse(b"1 \xff").unwrap_err().offset, 2);
        // A surrogate and an overlong form, written as bytes.
        assert_eq!(parse(b"\"\xed\xa0\x80\"").unwrap_err().reason, MalformedJson);
        assert_eq!(parse(b"\"\xc0\x80\"").unwrap_err().reason, MalformedJson);
    }

    #[test]
    fn depth_is_checked_on_the_way_down() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(nested(128).as_bytes()).is_ok());
        let error = parse(nested(129).as_bytes()).unwrap_err();
        assert_eq!((error.reason, error.offset), (MalformedJson, 128));
        for n in [3000, 100_000] {
            assert_eq!(reason(&nested(n)), Some(MalformedJson));
            assert_eq!(reason(&"[".repeat(n)), Some(MalformedJson));
            assert_eq!(reason(&"{\"a\":".repeat(n)), Some(MalformedJson));
        }
        assert!(parse_within(nested(4).as_bytes(), 3).is_err());
        assert!(parse_within(nested(1024).as_bytes(), usize::MAX).is_ok());
        assert!(parse_within(nested(1025).as_bytes(), usize::MAX).is_err());
        // Siblings do not add up.
        assert!(parse(format!("[{}]", vec!["[]"; 1000].join(",")).as_bytes()).is_ok());
    }

    #[test]
    fn one_byte_order_mark_is_skipped() {
        assert_eq!(parse(b"\xef\xbb\xbf 1").unwrap(), Value::from(1_i64));
        assert_eq!(parse("{\"a\": \u{feff}1}".as_bytes()).unwrap_err().reason, MalformedJson);
        assert_eq!(parse(b"\xef\xbb\xbf\xef\xbb\xbf1").unwrap_err().offset, 3);
    }

    #[test]
    fn strings_are_read_whole() {
        let value = parse(r#""a\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude00é😀""#.as_bytes()).unwrap();
        assert_eq!(value, Value::from("a\"\\/\u{8}\u{c}\n\r\tAé😀é😀"));
    }

    #[test]
    fn keys_of_other_libraries_are_ordinary_text() {
        let text = r#"{"$serde_json::private::Number": "1", "state": "x", "state": "y"}"#;
        assert_eq!(parse(text.as_bytes()).unwrap().dumps(), r#"{"$serde_json::private::Number": "1", "state": "y"}"#);
    }

    #[test]
    fn says_where() {
        let error = parse("{\"é\": 1,\n \"b\" 2}".as_bytes()).unwrap_err();
        assert_eq!((error.offset, error.line, error.column), (15, 2, 6));
        assert_eq!(error.to_string(), "expected ':' after a key at line 2, column 6 (byte 15)");
        let error = Error::from(error);
        assert_eq!(error.kind(), ErrorKind::Json);
        assert_eq!(error.to_string(), "byte 15: expected ':' after a key (line 2, column 6)");
    }
}
