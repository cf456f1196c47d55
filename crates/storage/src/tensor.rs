//! A stored weight: a format, a shape and the bytes.

use std::ops::Range;

use crate::{Bytes, Format, StorageError, dequantise};

/// A weight as it is stored: row-major, the last dimension running along a row's blocks.
///
/// A tensor is checked when it is made: the bytes are exactly those that the shape takes. Cloning copies no bytes.
#[derive(Debug, Clone)]
pub struct Tensor {
    format: Format,
    shape: Vec<usize>,
    bytes: Bytes,
}

impl Tensor {
    /// A tensor of `shape` over `bytes`; an empty shape is one element.
    ///
    /// # Errors
    /// When the sizes overflow, the last dimension ends inside a block, or the bytes are not exactly as many.
    pub fn new(format: Format, shape: Vec<usize>, bytes: Bytes) -> Result<Tensor, StorageError> {
        let expected = format.bytes_for_shape(&shape)?;
        if bytes.len() != expected {
            return Err(StorageError::WrongLength { shape, format, expected, found: bytes.len() });
        }
        Ok(Tensor { format, shape, bytes })
    }

    /// A tensor of f32 values held in memory.
    ///
    /// # Errors
    /// When the values are not as many as the shape says.
    pub fn from_f32(shape: Vec<usize>, values: Vec<f32>) -> Result<Tensor, StorageError> {
        Tensor::new(Format::F32, shape, values.into())
    }

    /// How the elements are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements in all.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The stored bytes, at any alignment.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The stored bytes as a view that keeps their owner alive.
    pub fn shared_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The last dimension: elements in a row.
    pub fn row_elements(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Bytes that one row takes.
    pub fn row_bytes(&self) -> usize {
        self.row_elements() / self.format.block_elements() * self.format.block_bytes()
    }

    /// Rows: the product of all dimensions but the last.
    pub fn rows(&self) -> usize {
        self.shape.split_last().map_or(1, |(_, outer)| outer.iter().product())
    }

    /// The stored bytes of one row.
    ///
    /// # Errors
    /// [`StorageError::OutOfRows`].
    pub fn row(&self, row: usize) -> Result<&[u8], StorageError> {
        let range = self.byte_range(row..row.saturating_add(1))?;
        Ok(&self.bytes[range])
    }

    /// Some of the rows as a tensor of shape `[rows, row_elements]`, without copying.
    ///
    /// # Errors
    /// [`StorageError::OutOfRows`].
    pub fn row_range(&self, rows: Range<usize>) -> Result<Tensor, StorageError> {
        let shape = vec![rows.len(), self.row_elements()];
        let out_of_rows = self.out_of_rows(&rows);
        let bytes = self.bytes.slice(self.byte_range(rows)?).ok_or(out_of_rows)?;
        Tensor::new(self.format, shape, bytes)
    }

    /// The same elements under another shape, without copying: the blocks must not change.
    ///
    /// # Errors
    /// [`StorageError::WrongReshape`].
    pub fn reshape(&self, shape: Vec<usize>) -> Result<Tensor, StorageError> {
        let fits = self.format.bytes_for_shape(&shape).is_ok_and(|bytes| bytes == self.bytes.len())
            && shape.iter().product::<usize>() == self.elements();
        if !fits {
            return Err(StorageError::WrongReshape { from: self.shape.clone(), to: shape });
        }
        Ok(Tensor { format: self.format, shape, bytes: self.bytes.clone() })
    }

    /// The values in place: only when they are stored as f32, at an address fit for it, on a little-endian machine.
    pub fn as_f32(&self) -> Option<&[f32]> {
        if self.format != Format::F32 || cfg!(target_endian = "big") {
            return None;
        }
        bytemuck::try_cast_slice(&self.bytes).ok()
    }

    /// Writes one row's values; `out` holds `row_elements`.
    ///
    /// # Errors
    /// When there is no such row or the output has another length.
    pub fn dequantise_row(&self, row: usize, out: &mut [f32]) -> Result<(), StorageError> {
        self.check_output(self.row_elements(), out)?;
        dequantise(self.format, self.row(row)?, out)
    }

    /// Writes all values, row after row; `out` holds `elements`.
    ///
    /// # Errors
    /// When the output has another length.
    pub fn dequantise(&self, out: &mut [f32]) -> Result<(), StorageError> {
        self.check_output(self.elements(), out)?;
        dequantise(self.format, &self.bytes, out)
    }

    /// All values, row after row, as a new vector.
    ///
    /// # Errors
    /// None for a tensor made by [`Tensor::new`]; the type leaves room for formats that must be checked as they are read.
    pub fn to_f32(&self) -> Result<Vec<f32>, StorageError> {
        let mut out = vec![0.0; self.elements()];
        self.dequantise(&mut out)?;
        Ok(out)
    }

    fn check_output(&self, expected: usize, out: &[f32]) -> Result<(), StorageError> {
        if out.len() == expected {
            return Ok(());
        }
        Err(StorageError::WrongOutput { expected, found: out.len() })
    }

    fn byte_range(&self, rows: Range<usize>) -> Result<Range<usize>, StorageError> {
        if rows.start > rows.end || rows.end > self.rows() {
            return Err(self.out_of_rows(&rows));
        }
        let row = self.row_bytes();
        Ok(rows.start * row..rows.end * row)
    }

    fn out_of_rows(&self, rows: &Range<usize>) -> StorageError {
        StorageError::OutOfRows { start: rows.start, end: rows.end, rows: self.rows() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(shape: Vec<usize>) -> Tensor {
        let elements = shape.iter().product::<usize>();
        Tensor::from_f32(shape, (0..elements).map(|value| value as f32).collect()).expect("sizes fit")
    }

    #[test]
    fn rows_are_views() {
        let tensor = counting(vec![2, 3, 4]);
        assert_eq!((tensor.rows(), tensor.row_elements(), tensor.row_bytes()), (6, 4, 16));
        let mut row = [0.0; 4];
        tensor.dequantise_row(4, &mut row).expect("a row");
        assert_eq!(row, [16.0, 17.0, 18.0, 19.0]);
        let part = tensor.row_range(1..3).expect("in range");
        assert_eq!(part.shape(), [2, 4]);
        assert_eq!(part.as_f32(), tensor.as_f32().map(|all| &all[4..12]));
        assert_eq!(
            tensor.row_range(5..7).expect_err("past the end"),
            StorageError::OutOfRows { start: 5, end: 7, rows: 6 }
        );
        assert!(tensor.row(usize::MAX).is_err());
    }

    #[test]
    fn a_shape_needs_exactly_its_bytes() {
        let error =
            Tensor::new(Format::BF16, vec![2, 2], vec![0u8; 9].into()).expect_err("one byte too many");
        assert!(error.to_string().contains("takes 8 bytes, found 9"), "{error}");
        assert!(Tensor::new(Format::BF16, vec![], vec![0u8; 2].into()).is_ok());
        assert_eq!(counting(vec![0, 3]).to_f32(), Ok(vec![]));
    }

    #[test]
    fn reshaping_keeps_the_elements() {
        let tensor = counting(vec![4, 6]);
        assert_eq!(tensor.reshape(vec![24]).expect("fits").to_f32(), tensor.to_f32());
        assert!(tensor.reshape(vec![5, 5]).is_err());
        assert!(tensor.reshape(vec![usize::MAX, 2]).is_err());
    }

    #[test]
    fn outputs_of_a_wrong_length_are_refused() {
        let tensor = counting(vec![2, 2]);
        let error = tensor.dequantise(&mut [0.0; 3]).expect_err("too short");
        assert_eq!(error, StorageError::WrongOutput { expected: 4, found: 3 });
    }
}
