//! Values of the metadata. Texts and arrays are views.

use std::fmt;

use fiddlehead_storage::Bytes;

macro_rules! scalars {
    ($($name:ident, $type:ty, $id:literal;)*) => {
        /// The type of a value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names of Rust's types")]
        pub enum ValueType {
            $($name,)*
            Bool,
            /// Bytes that should be UTF-8.
            Text,
            /// Values of one type.
            Array,
        }

        /// One value.
        #[derive(Debug, Clone)]
        #[allow(missing_docs, reason = "the names of Rust's types")]
        pub enum Value {
            $($name($type),)*
            Bool(bool),
            /// Bytes that should be UTF-8.
            Text(Bytes),
            /// Values of one type.
            Array(Array),
        }

        impl ValueType {
            /// Its number in files.
            pub fn id(self) -> u32 {
                match self {
                    $(ValueType::$name => $id,)*
                    ValueType::Bool => 7,
                    ValueType::Text => 8,
                    ValueType::Array => 9,
                }
            }

            /// The type of a number.
            pub fn from_id(id: u32) -> Option<ValueType> {
                match id {
                    $($id => Some(ValueType::$name),)*
                    7 => Some(ValueType::Bool),
                    8 => Some(ValueType::Text),
                    9 => Some(ValueType::Array),
                    _ => None,
                }
            }

            /// The least bytes that a value takes; exactly these, unless it is a text or an array.
            pub(super) fn least_bytes(self) -> u64 {
                match self {
                    $(ValueType::$name => size_of::<$type>() as u64,)*
                    ValueType::Bool => 1,
                    ValueType::Text => 8,
                    ValueType::Array => 12,
                }
            }
        }

        impl Value {
            /// Its type.
            pub fn value_type(&self) -> ValueType {
                match self {
                    $(Value::$name(_) => ValueType::$name,)*
                    Value::Bool(_) => ValueType::Bool,
                    Value::Text(_) => ValueType::Text,
                    Value::Array(_) => ValueType::Array,
                }
            }

            /// A number or a truth value from exactly its bytes.
            pub(super) fn scalar(kind: ValueType, bytes: &[u8]) -> Option<Value> {
                match kind {
                    $(ValueType::$name => Some(Value::$name(<$type>::from_le_bytes(bytes.try_into().ok()?))),)*
                    ValueType::Bool => match bytes {
                        [0] => Some(Value::Bool(false)),
                        [1] => Some(Value::Bool(true)),
                        _ => None,
                    },
                    ValueType::Text | ValueType::Array => None,
                }
            }

            /// The bytes of the value as a file has them, without its type.
            pub(super) fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Value::$name(value) => out.extend(value.to_le_bytes()),)*
                    Value::Bool(value) => out.push(u8::from(*value)),
                    Value::Text(text) => {
                        out.extend((text.len() as u64).to_le_bytes());
                        out.extend_from_slice(text);
                    }
                    Value::Array(array) => {
                        out.extend(array.element.id().to_le_bytes());
                        out.extend((array.count as u64).to_le_bytes());
                        out.extend_from_slice(&array.bytes);
                    }
                }
            }
        }

        $(
            impl From<$type> for Value {
                fn from(value: $type) -> Value {
                    Value::$name(value)
                }
            }

            impl From<&[$type]> for Value {
                fn from(values: &[$type]) -> Value {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    Value::Array(Array { element: ValueType::$name, count: values.len(), bytes: bytes.into() })
                }
            }
        )*
    };
}

scalars! {
    U8, u8, 0;
    I8, i8, 1;
    U16, u16, 2;
    I16, i16, 3;
    U32, u32, 4;
    I32, i32, 5;
    F32, f32, 6;
    U64, u64, 10;
    I64, i64, 11;
    F64, f64, 12;
}

impl Value {
    /// A whole number that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i128().and_then(|value| u64::try_from(value).ok())
    }

    /// A whole number.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_i128().and_then(|value| i64::try_from(value).ok())
    }

    fn as_i128(&self) -> Option<i128> {
        Some(match self {
            Value::U8(value) => i128::from(*value),
            Value::I8(value) => i128::from(*value),
            Value::U16(value) => i128::from(*value),
            Value::I16(value) => i128::from(*value),
            Value::U32(value) => i128::from(*value),
            Value::I32(value) => i128::from(*value),
            Value::U64(value) => i128::from(*value),
            Value::I64(value) => i128::from(*value),
            _ => return None,
        })
    }

    /// A number, whole or not.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::F32(value) => Some(f64::from(*value)),
            Value::F64(value) => Some(*value),
            _ => self.as_i128().map(|value| value as f64),
        }
    }

    /// A truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A text that is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// An array.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(Bytes::from(text.as_bytes().to_vec()))
    }
}

impl From<&[bool]> for Value {
    fn from(values: &[bool]) -> Value {
        let bytes: Vec<u8> = values.iter().map(|&value| u8::from(value)).collect();
        Value::Array(Array { element: ValueType::Bool, count: values.len(), bytes: bytes.into() })
    }
}

impl From<&[&str]> for Value {
    fn from(texts: &[&str]) -> Value {
        let mut bytes = Vec::new();
        for text in texts {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        Value::Array(Array { element: ValueType::Text, count: texts.len(), bytes: bytes.into() })
    }
}

/// One line for people: long texts and arrays are cut.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        const LONGEST: usize = 80;
        match self {
            Value::Text(text) => {
                // A cut may fall inside a character; what is shown of it is a replacement character.
                let text = String::from_utf8_lossy(&text[..text.len().min(4 * LONGEST)]);
                if text.chars().count() > LONGEST {
                    return write!(formatter, "{:?}…", text.chars().take(LONGEST).collect::<String>());
                }
                write!(formatter, "{text:?}")
            }
            Value::Array(array) => {
                write!(formatter, "[")?;
                for (index, value) in array.values().take(SHOWN).enumerate() {
                    write!(formatter, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                if array.len() > SHOWN {
                    write!(formatter, ", … {} in all]", array.len())
                } else {
                    write!(formatter, "]")
                }
            }
            Value::Bool(value) => write!(formatter, "{value}"),
            Value::F32(value) => write!(formatter, "{value}"),
            Value::F64(value) => write!(formatter, "{value}"),
            number => write!(formatter, "{}", number.as_i128().unwrap_or_default()),
        }
    }
}

/// Values of one type, read from the file as they are asked for.
#[derive(Debug, Clone)]
pub struct Array {
    element: ValueType,
    count: usize,
    bytes: Bytes,
}

impl Array {
    /// An array over bytes that hold exactly `count` elements.
    pub(super) fn from_checked(element: ValueType, count: usize, bytes: Bytes) -> Array {
        Array { element, count, bytes }
    }

    /// The type of its elements, never an array.
    pub fn element(&self) -> ValueType {
        self.element
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The texts' bytes, one after another; `None` when the elements are no texts.
    pub fn texts(&self) -> Option<impl Iterator<Item = &[u8]>> {
        let mut rest = self.bytes.as_slice();
        let next = move || {
            let (length, behind) = rest.split_first_chunk::<8>()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (text, behind) = behind.split_at_checked(length)?;
            rest = behind;
            Some(text)
        };
        (self.element == ValueType::Text).then(|| std::iter::from_fn(next))
    }

    /// The elements, one after another.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = &self.bytes[at..];
            if self.element != ValueType::Text {
                let (bytes, _) = rest.split_at_checked(self.element.least_bytes() as usize)?;
                at += bytes.len();
                // Bytes other than 0 and 1 are no truth value; whoever reads the array sees a number.
                return Value::scalar(self.element, bytes)
                    .or_else(|| bytes.first().map(|&byte| Value::U8(byte)));
            }
            let (length, _) = rest.split_first_chunk::<8>()?;
            let start = at + 8;
            let end = start.checked_add(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            at = end;
            self.bytes.slice(start..end).map(Value::Text)
        })
    }
}
