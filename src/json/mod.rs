//! JSON as Python reads and writes it.
//!
//! The models were trained on `json.dumps` text, so a state such as `{"amount": 532.0}` must be spelled with Python's
//! blanks, escapes and float digits or the tokens differ. The reader is strict: one value, no comments, bounded
//! nesting, numbers that a 64-bit integer or a finite double can hold, and text without lone surrogates.
//!
//! * [`parse`] and [`parse_within`] read; [`ParseError`] says what, where, and in which class ([`Reason`]).
//! * [`Value::dumps`], [`Value::dumps_indent`] and [`Value::dumps_compact`] write.
//! * [`Object`] keeps the order of its keys; a repeated key keeps its first place and takes the last value.
//! * [`Value::python_str`], [`Value::python_repr`] and [`python_float_repr`] give Python's `str()` and `repr()`.

mod float;
mod object;
mod path;
mod read;
mod repr;
mod value;
mod write;

pub use float::python_float_repr;
pub use object::Object;
pub use path::path_at;
pub use read::{MAX_DEPTH, ParseError, Reason, parse, parse_within};
pub use repr::python_str_repr;
pub use value::{Number, ScalarKey, Value};
