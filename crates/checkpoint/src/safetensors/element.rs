//! The element types of the format.

use fiddlehead_storage::Format;

/// How a safetensors file stores an element. All types of the format are known, so that sizes can be checked; those
/// with a [`Format`] can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    name: &'static str,
    bits: usize,
    format: Option<Format>,
}

const fn element(name: &'static str, bits: usize) -> Element {
    Element { name, bits, format: None }
}

const fn served(name: &'static str, bits: usize, format: Format) -> Element {
    Element { name, bits, format: Some(format) }
}

const ELEMENTS: [Element; 22] = [
    served("F32", 32, Format::F32),
    served("F16", 16, Format::F16),
    served("BF16", 16, Format::BF16),
    element("F8_E4M3", 8),
    element("F8_E5M2", 8),
    element("F8_E8M0", 8),
    element("F8_E4M3FNUZ", 8),
    element("F8_E5M2FNUZ", 8),
    element("F6_E2M3", 6),
    element("F6_E3M2", 6),
    element("F4", 4),
    element("F64", 64),
    element("C64", 64),
    element("I8", 8),
    element("I16", 16),
    element("I32", 32),
    element("I64", 64),
    element("U8", 8),
    element("U16", 16),
    element("U32", 32),
    element("U64", 64),
    element("BOOL", 8),
];

impl Element {
    /// The type of a name as the header spells it.
    pub fn from_name(name: &str) -> Option<Element> {
        ELEMENTS.iter().copied().find(|element| element.name == name)
    }

    /// All names, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ELEMENTS.iter().map(|element| element.name)
    }

    /// The name as the header spells it.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The storage format that serves it; `None` for a type that no format serves.
    pub fn format(self) -> Option<Format> {
        self.format
    }

    /// Bytes that a shape takes; `None` when a product overflows or the bits end inside a byte.
    pub fn bytes_for(self, shape: &[usize]) -> Option<usize> {
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
        let bits = elements.checked_mul(self.bits)?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }
}
