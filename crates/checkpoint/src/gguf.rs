//! The GGUF file format: counts, typed metadata, tensor declarations, then the tensors' bytes, each at an aligned place.
//!
//! Versions 2 and 3, little-endian. Everything is checked before it is used: a length never exceeds the bytes that are
//! left, so memory stays near the file's own size whatever it claims; names occur once; ranges lie within the file and
//! share no byte. Vocabularies are large, so an array of the metadata stays a view of the file.
//!
//! Source: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod cursor;
mod header;
mod layout;
mod metadata;
mod tensor_type;
mod value;
mod write;

use std::ops::Range;

use fiddlehead_storage::Bytes;

pub use metadata::Metadata;
pub use tensor_type::TensorType;
pub use value::{Array, Value, ValueType};
pub use write::{Declaration, WriteError, Writer, write};

/// The first bytes of a file.
pub const MAGIC: &[u8; 4] = b"GGUF";
/// Where tensors begin when the metadata does not say: multiples of this.
pub const DEFAULT_ALIGNMENT: usize = 32;
/// Alignments up to this are accepted: larger ones serve nobody and could make a small file claim a large space.
pub const MAXIMUM_ALIGNMENT: usize = 1 << 16;
/// Dimensions that a tensor may have.
pub const MAXIMUM_DIMENSIONS: usize = 4;

/// Values that the metadata may have: each takes more memory than it may take in a file, and models have a hundred.
pub const MAXIMUM_VALUES: u64 = 1 << 16;
/// Tensors that a file may have, for the same reason; the largest models have a hundred thousand in all their files.
pub const MAXIMUM_TENSORS: u64 = 1 << 18;

/// A checked GGUF file.
#[derive(Debug, Clone)]
pub struct File {
    /// The format's version, 2 or 3.
    pub version: u32,
    /// What the file says about itself.
    pub metadata: Metadata,
    /// Its tensors, in the order of their declarations.
    pub tensors: Vec<Entry>,
}

/// One tensor of a GGUF file, checked: the range lies within the file and fits the shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The tensor's name, unique within the file.
    pub name: String,
    /// How its elements are stored.
    pub tensor_type: TensorType,
    /// The dimensions, outermost first (the file has them innermost first).
    pub shape: Vec<usize>,
    /// The tensor's bytes, counted from the beginning of the file. For a type of unknown size they run to the next
    /// tensor, or to the end of the file.
    pub range: Range<usize>,
}

/// Why a GGUF file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It does not begin as a GGUF file does.
    #[error("not a GGUF file: it does not begin with the bytes `GGUF`")]
    NoMagic,
    /// Big-endian, or of a version that is not read.
    #[error("{found}; versions 2 and 3 in little-endian are read, convert the model again")]
    Version {
        /// What the file is.
        found: String,
    },
    /// The file ends within its header, or a length in the header is a lie.
    #[error(
        "the file is truncated or damaged: {what} should take {wanted} bytes at byte {at}, and {left} are left; download it again"
    )]
    Truncated {
        /// What was being read.
        what: String,
        /// Where.
        at: usize,
        /// Bytes it should take, or at least takes.
        wanted: u64,
        /// Bytes left in the file.
        left: usize,
    },
    /// More than any model has.
    #[error("the file has {count} {what}; at most {most} are read")]
    TooMany {
        /// Values of the metadata, or tensors.
        what: &'static str,
        /// How many it has.
        count: u64,
        /// How many are read.
        most: u64,
    },
    /// A value of the metadata.
    #[error("metadata `{key}`: {reason}")]
    BadMetadata {
        /// Its key, or its position when it has none.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// A tensor's declaration.
    #[error("tensor `{name}`: {reason}")]
    BadTensor {
        /// The tensor.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A tensor's bytes go past the end of the file.
    #[error(
        "the file is truncated: tensor `{name}` ends at byte {end} of the data and there are {available}; download it again"
    )]
    TensorPastEnd {
        /// The tensor.
        name: String,
        /// Where its bytes should end, counted from the beginning of the data.
        end: u64,
        /// Bytes of data.
        available: usize,
    },
}

/// Reads and checks a whole GGUF file. Texts and arrays of the metadata are views of it.
///
/// # Errors
/// [`FileError`] whenever anything is wrong. Nothing is returned that has not been checked.
pub fn parse(file: &Bytes) -> Result<File, FileError> {
    let header = header::read(file)?;
    let alignment = layout::alignment(&header.metadata)?;
    let tensors = layout::check(header.tensors, header.end, alignment, file.len())?;
    Ok(File { version: header.version, metadata: header.metadata, tensors })
}

/// A name from a hostile file may be as long as the file; a message needs its beginning.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
