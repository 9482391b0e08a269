//! The value every other part of the library passes around.

use super::Object;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// `null`, Python's `None`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Self>),
    /// An object, in the order it was written.
    Object(Object),
}

/// A JSON number in the class Python reads it in: written without a point or an exponent it is an integer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer that fits `i64`.
    Int(i64),
    /// An integer above `i64::MAX`; smaller ones are always [`Number::Int`].
    Uint(u64),
    /// A double. The reader never makes one that is not finite; the writer spells those as Python does.
    Double(f64),
}

impl Number {
    /// The number as a double, rounded to the nearest when it is a large integer.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(i) => i as f64,
            Self::Uint(u) => u as f64,
            Self::Double(d) => d,
        }
    }
}

impl Value {
    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The items of an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// An integer that fits `i64`. Doubles are not integers, not even `1.0`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(Number::Int(i)) => Some(*i),
            _ => None,
        }
    }

    /// An integer that fits `u64`. Doubles are not integers, not even `1.0`.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(Number::Int(i)) => u64::try_from(*i).ok(),
            Self::Number(Number::Uint(u)) => Some(*u),
            _ => None,
        }
    }

    /// Any number as a double.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number.as_f64()),
            _ => None,
        }
    }

    /// The member `key` of an object; `None` for a missing key and for anything that is not an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The scalar under Python's `==`: `1`, `1.0` and `true` have one key, `"1"` another. `None` for arrays and objects.
    pub fn scalar_key(&self) -> Option<ScalarKey<'_>> {
        Some(match self {
            Self::Null => ScalarKey::Null,
            Self::String(text) => ScalarKey::Text(text),
            Self::Bool(truth) => ScalarKey::Integer(i128::from(*truth)),
            Self::Number(Number::Int(i)) => ScalarKey::Integer(i128::from(*i)),
            Self::Number(Number::Uint(u)) => ScalarKey::Integer(i128::from(*u)),
            // Every integer read from JSON is far below 2^126, so larger doubles equal doubles only.
            Self::Number(Number::Double(d)) if d.fract() == 0.0 && d.abs() < 8.5e37 => ScalarKey::Integer(*d as i128),
            Self::Number(Number::Double(d)) => ScalarKey::Fraction(d.to_bits()),
            Self::Array(_) | Self::Object(_) => return None,
        })
    }
}

/// What two scalars have in common exactly when Python calls them equal; see [`Value::scalar_key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalarKey<'a> {
    /// `null`.
    Null,
    /// A string.
    Text(&'a str),
    /// A number or boolean that is a whole number below 2^126.
    Integer(i128),
    /// The bits of any other double.
    Fraction(u64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Self::Number(Number::Int(i))
    }
}

impl From<u64> for Value {
    fn from(u: u64) -> Self {
        Self::Number(i64::try_from(u).map_or(Number::Uint(u), Number::Int))
    }
}

impl From<u32> for Value {
    fn from(u: u32) -> Self {
        Self::from(i64::from(u))
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Self {
        // `usize` is at most 64 bits on every Rust target.
        Self::from(n as u64)
    }
}

impl From<f64> for Value {
    fn from(d: f64) -> Self {
        Self::Number(Number::Double(d))
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl From<Vec<Self>> for Value {
    fn from(items: Vec<Self>) -> Self {
        Self::Array(items)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_of_labels_is_pythons() {
        let same = |a: Value, b: Value| a.scalar_key() == b.scalar_key() && a.scalar_key().is_some();
        let one = || Value::from(1_i64);
        assert!(same(one(), Value::from(1.0)));
        assert!(same(one(), Value::from(true)));
        assert!(same(Value::from(false), Value::from(-0.0)));
        assert!(!same(one(), Value::from("1")));
        assert!(!same(one(), Value::from(1.5)));
        assert!(same(Value::from(1.5), Value::from(1.5)));
        assert!(same(Value::from(1e300), Value::from(1e300)));
        assert!(!same(Value::from(9007199254740993_i64), Value::from(9007199254740992.0)));
        assert!(!same(Value::from(u64::MAX), Value::from(18446744073709551616.0)));
        assert!(same(Value::from(1_u64 << 63), Value::from(9223372036854775808.0)));
        assert!(!same(Value::Array(Vec::new()), Value::Array(Vec::new())));
    }

    #[test]
    fn numbers_keep_their_class() {
        assert_eq!(Value::from(5_u64), Value::from(5_i64));
        assert_eq!(Value::from(u64::MAX).as_i64(), None);
        assert_eq!(Value::from(u64::MAX).as_u64(), Some(u64::MAX));
        assert_eq!(Value::from(-1_i64).as_u64(), None);
        assert_eq!(Value::from(1.0).as_i64(), None);
        assert_eq!(Value::from(3_i64).as_f64(), Some(3.0));
    }
}
