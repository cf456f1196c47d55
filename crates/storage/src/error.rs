//! What can be wrong with stored weights.

use crate::Format;

/// Why bytes, a shape and a format do not make a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The product of the dimensions, or the bytes it takes, does not fit in the address space.
    #[error("shape {shape:?} in {format} is larger than the address space")]
    TooLarge {
        /// The dimensions as given.
        shape: Vec<usize>,
        /// The format they were asked for in.
        format: Format,
    },
    /// The last dimension, or a count of elements, ends inside a block.
    #[error("{elements} elements in {format} end inside a block: blocks hold {block} elements")]
    PartialBlock {
        /// The format.
        format: Format,
        /// The count of elements, along the last dimension.
        elements: usize,
        /// Elements a block holds.
        block: usize,
    },
    /// The bytes are not as many as the shape and the format take.
    #[error("shape {shape:?} in {format} takes {expected} bytes, found {found}")]
    WrongLength {
        /// The dimensions.
        shape: Vec<usize>,
        /// The format.
        format: Format,
        /// Bytes that the shape takes.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// The output of a dequantising is not as long as the values it must hold.
    #[error("the output holds {found} elements, the stored values are {expected}")]
    WrongOutput {
        /// Elements that are stored.
        expected: usize,
        /// Elements that the output holds.
        found: usize,
    },
    /// A row, or a range of rows, past the end.
    #[error("rows {start}..{end} of a tensor that has {rows}")]
    OutOfRows {
        /// First row asked for.
        start: usize,
        /// One past the last row asked for.
        end: usize,
        /// Rows there are.
        rows: usize,
    },
    /// A new shape that does not hold the same elements in the same blocks.
    #[error("shape {from:?} cannot be read as {to:?}: the elements or the blocks differ")]
    WrongReshape {
        /// The tensor's shape.
        from: Vec<usize>,
        /// The shape asked for.
        to: Vec<usize>,
    },
    /// A tensor that must be a matrix and is not.
    #[error("shape {shape:?} is not a matrix")]
    NoMatrix {
        /// The dimensions.
        shape: Vec<usize>,
    },
    /// Scales that do not belong to the matrix.
    #[error("the scales of shape {shape:?} have shape {found:?}, expected {expected:?}")]
    WrongScales {
        /// The matrix's dimensions.
        shape: Vec<usize>,
        /// Scales along each dimension.
        expected: [usize; 2],
        /// The scales' dimensions.
        found: Vec<usize>,
    },
    /// A value that a format cannot hold: not finite, or too large for its scales.
    #[error("{format} cannot hold {value} (element {at})")]
    Unstorable {
        /// The format.
        format: Format,
        /// Its place among the values.
        at: usize,
        /// The value as text.
        value: String,
    },
    /// A format that weights are read in and never written.
    #[error("{format} is only read; nothing is quantised to it")]
    OnlyRead {
        /// The format.
        format: Format,
    },
}
