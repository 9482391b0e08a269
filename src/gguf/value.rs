//! Metadata values.

use super::strings::Strings;

macro_rules! values {
    ($($(#[$doc:meta])* $variant:ident($ty:ty) = $id:literal, $name:literal;)*) => {
        /// The value of a metadata key.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Value {
            $($(#[$doc])* $variant($ty),)*
            /// A byte string; text is UTF-8 by convention, not by guarantee.
            String(Vec<u8>),
            /// An array of values of one type.
            Array(Array),
        }

        /// An array value: all elements have one type.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Array {
            $($(#[$doc])* $variant(Vec<$ty>),)*
            /// Byte strings.
            String(Strings),
            /// Nested arrays.
            Array(Vec<Array>),
        }

        impl Value {
            /// The number of the value's type in a file.
            pub fn type_id(&self) -> u32 {
                match self { $(Self::$variant(_) => $id,)* Self::String(_) => 8, Self::Array(_) => 9 }
            }

            /// What the value is, for messages: `u32`, `string`, `array of f32`.
            pub fn type_name(&self) -> String {
                match self {
                    $(Self::$variant(_) => $name.into(),)*
                    Self::String(_) => "string".into(),
                    Self::Array(array) => format!("array of {}", array.element_name()),
                }
            }
        }

        impl Array {
            /// The number of the element type in a file.
            pub fn element_id(&self) -> u32 {
                match self { $(Self::$variant(_) => $id,)* Self::String(_) => 8, Self::Array(_) => 9 }
            }

            /// The element type, for messages.
            pub fn element_name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* Self::String(_) => "string", Self::Array(_) => "array" }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(v) => v.len(),)* Self::String(v) => v.len(), Self::Array(v) => v.len() }
            }
        }

        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Self::$variant(value)
            }
        }

        impl From<Vec<$ty>> for Value {
            fn from(values: Vec<$ty>) -> Self {
                Self::Array(Array::$variant(values))
            }
        })*
    };
}

values! {
    /// Unsigned, 8 bits.
    U8(u8) = 0, "u8";
    /// Signed, 8 bits.
    I8(i8) = 1, "i8";
    /// Unsigned, 16 bits.
    U16(u16) = 2, "u16";
    /// Signed, 16 bits.
    I16(i16) = 3, "i16";
    /// Unsigned, 32 bits.
    U32(u32) = 4, "u32";
    /// Signed, 32 bits.
    I32(i32) = 5, "i32";
    /// Float, 32 bits.
    F32(f32) = 6, "f32";
    /// A byte that is 0 or 1.
    Bool(bool) = 7, "bool";
    /// Unsigned, 64 bits.
    U64(u64) = 10, "u64";
    /// Signed, 64 bits.
    I64(i64) = 11, "i64";
    /// Float, 64 bits.
    F64(f64) = 12, "f64";
}

impl Array {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into_bytes())
    }
}

impl From<Strings> for Value {
    fn from(strings: Strings) -> Self {
        Self::Array(Array::String(strings))
    }
}

impl From<&[String]> for Value {
    fn from(strings: &[String]) -> Self {
        Self::Array(Array::String(strings.iter().collect()))
    }
}
