//! The safetensors file format: eight bytes of header length, a JSON header, the tensors' bytes.
//!
//! The reader here is stricter than the format's own crate where a hostile file could gain from it: the header is read
//! without building a tree of it (memory stays near the file's own size), every name occurs once, and every error names
//! its tensor. The length of the header is trusted within the file, whatever its size.
//!
//! Source: <https://github.com/huggingface/safetensors#format>.

mod element;
mod header;
mod layout;

use std::ops::Range;

pub use element::Element;

/// One tensor of a safetensors file, checked: the range lies within the file and fits the shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The tensor's name, unique within the file.
    pub name: String,
    /// How its elements are stored.
    pub element: Element,
    /// The dimensions, outermost first; empty for one element.
    pub shape: Vec<usize>,
    /// The tensor's bytes, counted from the beginning of the file.
    pub range: Range<usize>,
}

/// Why a safetensors file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Fewer bytes than the header's length takes.
    #[error(
        "not a safetensors file: {length} bytes, and the length of the header alone takes 8; download it again"
    )]
    TooShort {
        /// Bytes in the file.
        length: usize,
    },
    /// The header is said to go past the end of the file.
    #[error(
        "not a safetensors file, or a truncated one: the header should take {header} bytes and the file has {left} after its length; download it again"
    )]
    HeaderPastEnd {
        /// Bytes that the header claims.
        header: u64,
        /// Bytes in the file after the header's length.
        left: usize,
    },
    /// The header is not the JSON that the format asks for.
    #[error("the header cannot be read: {reason}")]
    BadHeader {
        /// What the JSON reader says.
        reason: String,
    },
    /// A tensor's declaration contradicts itself.
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
    Truncated {
        /// The first tensor that is not whole.
        name: String,
        /// Where its bytes should end, counted from the end of the header.
        end: u64,
        /// Bytes after the header.
        available: usize,
    },
    /// Two tensors claim the same bytes, or bytes belong to none.
    #[error("tensor `{name}` begins at byte {begin} of the data and should begin at {expected}: {kind}")]
    NotContiguous {
        /// The tensor.
        name: String,
        /// Where it says that it begins.
        begin: u64,
        /// Where the tensor before it ends.
        expected: u64,
        /// Whether ranges overlap or leave a hole.
        kind: &'static str,
    },
    /// Bytes after the last tensor.
    #[error("{extra} bytes after the last tensor belong to no tensor")]
    TrailingBytes {
        /// How many.
        extra: usize,
    },
}

/// Reads and checks the header of a whole safetensors file; tensors come in the order of their bytes.
///
/// # Errors
/// [`FileError`] whenever the header, a size, or the cover of the file by the tensors' ranges is wrong. Nothing is
/// returned that has not been checked.
pub fn parse(file: &[u8]) -> Result<Vec<Entry>, FileError> {
    let (header, data) = split(file)?;
    layout::check(header::read(header)?, file.len() - data.len(), data.len())
}

/// The header's bytes and the data's bytes.
fn split(file: &[u8]) -> Result<(&[u8], &[u8]), FileError> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(FileError::TooShort { length: file.len() });
    };
    let header = u64::from_le_bytes(*length);
    usize::try_from(header)
        .ok()
        .and_then(|header| rest.split_at_checked(header))
        .ok_or(FileError::HeaderPastEnd { header, left: rest.len() })
}
