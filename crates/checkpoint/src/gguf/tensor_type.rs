//! How tensors of a file are stored: the format's numbers and our formats.

use std::fmt;

use fiddlehead_storage::Format;

/// A tensor's type as a GGUF file has it: a number. Types with a [`Format`] can be served; of others that are known the
/// size can be checked at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorType {
    id: u32,
    known: Option<Known>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Served(Format),
    Unserved { name: &'static str, block_elements: usize, block_bytes: usize },
}

const SERVED: [(u32, Format); 15] = [
    (0, Format::F32),
    (1, Format::F16),
    (2, Format::Q4_0),
    (3, Format::Q4_1),
    (6, Format::Q5_0),
    (7, Format::Q5_1),
    (8, Format::Q8_0),
    (10, Format::Q2_K),
    (11, Format::Q3_K),
    (12, Format::Q4_K),
    (13, Format::Q5_K),
    (14, Format::Q6_K),
    (20, Format::IQ4_NL),
    (23, Format::IQ4_XS),
    (30, Format::BF16),
];

/// Number, name, elements and bytes of a block.
const UNSERVED: [(u32, &str, usize, usize); 17] = [
    (9, "q8_1", 32, 36),
    (15, "q8_k", 256, 292),
    (16, "iq2_xxs", 256, 66),
    (17, "iq2_xs", 256, 74),
    (18, "iq3_xxs", 256, 98),
    (19, "iq1_s", 256, 50),
    (21, "iq3_s", 256, 110),
    (22, "iq2_s", 256, 82),
    (24, "i8", 1, 1),
    (25, "i16", 1, 2),
    (26, "i32", 1, 4),
    (27, "i64", 1, 8),
    (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56),
    (34, "tq1_0", 256, 54),
    (35, "tq2_0", 256, 66),
    (39, "mxfp4", 32, 17),
];

impl TensorType {
    /// The type of a number; any number is a type, known or not.
    pub fn from_id(id: u32) -> TensorType {
        let served = SERVED.iter().find(|(known, _)| *known == id).map(|&(_, format)| Known::Served(format));
        let known = served.or_else(|| {
            UNSERVED.iter().find(|(known, ..)| *known == id).map(|&(_, name, block_elements, block_bytes)| {
                Known::Unserved { name, block_elements, block_bytes }
            })
        });
        TensorType { id, known }
    }

    /// The type that stores a format; `None` for a format that GGUF files cannot hold.
    pub fn of_format(format: Format) -> Option<TensorType> {
        SERVED
            .iter()
            .find(|(_, known)| *known == format)
            .map(|&(id, format)| TensorType { id, known: Some(Known::Served(format)) })
    }

    /// Its number in files.
    pub fn id(self) -> u32 {
        self.id
    }

    /// The storage format that serves it; `None` for a type that no format serves.
    pub fn format(self) -> Option<Format> {
        match self.known {
            Some(Known::Served(format)) => Some(format),
            _ => None,
        }
    }

    /// Bytes that a shape takes: `None` for a type of unknown size, `Some(None)` when a row ends inside a block or a
    /// product overflows.
    pub fn bytes_for(self, shape: &[usize]) -> Option<Option<usize>> {
        let (block_elements, block_bytes) = match self.known? {
            Known::Served(format) => return Some(format.bytes_for_shape(shape).ok()),
            Known::Unserved { block_elements, block_bytes, .. } => (block_elements, block_bytes),
        };
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let row = shape.last().copied().unwrap_or(1);
        Some(
            elements
                .filter(|_| row.is_multiple_of(block_elements))
                .and_then(|elements| (elements / block_elements).checked_mul(block_bytes)),
        )
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known {
            Some(Known::Served(format)) => write!(formatter, "{format}"),
            Some(Known::Unserved { name, .. }) => write!(formatter, "{name} (type {})", self.id),
            None => write!(formatter, "the unknown type {}", self.id),
        }
    }
}
