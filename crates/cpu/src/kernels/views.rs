//! Views of matrices in memory: weights as bytes, activations and outputs as f32 rows with a stride.

use fiddlehead_storage::{Format, StorageError};
use std::marker::PhantomData;
use std::ops::Range;

/// A view does not fit its storage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The last row would end beyond the storage.
    #[error(
        "{rows} rows of {columns} with a stride of {stride} need {needed} {unit}, the storage holds {held}"
    )]
    TooShort {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        columns: usize,
        /// Distance between rows, in `unit`.
        stride: usize,
        /// What the storage would have to hold.
        needed: usize,
        /// What it holds.
        held: usize,
        /// "bytes" or "values".
        unit: &'static str,
    },
    /// The size does not fit the address space.
    #[error("{rows} rows with a stride of {stride} overflow the address space")]
    Overflow {
        /// Rows asked for.
        rows: usize,
        /// Distance between rows.
        stride: usize,
    },
    /// Rows of an output would overlap.
    #[error("output rows of {columns} values overlap with a stride of {stride}")]
    Overlap {
        /// Columns asked for.
        columns: usize,
        /// Distance between rows, in values.
        stride: usize,
    },
    /// The rows of a weight are no whole number of blocks, or too long.
    #[error(transparent)]
    Row(#[from] StorageError),
}

fn check(
    rows: usize,
    columns: usize,
    width: usize,
    stride: usize,
    held: usize,
    unit: &'static str,
) -> Result<(), ViewError> {
    let overflow = ViewError::Overflow { rows, stride };
    let needed = match rows {
        0 => 0,
        rows => (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(width)).ok_or(overflow)?,
    };
    if needed > held {
        return Err(ViewError::TooShort { rows, columns, stride, needed, held, unit });
    }
    Ok(())
}

/// A weight `[rows, columns]`, row-major, possibly unaligned (a mapped file).
#[derive(Clone, Copy, Debug)]
pub struct WeightView<'a> {
    pub(crate) format: Format,
    pub(crate) bytes: &'a [u8],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_stride_bytes: usize,
}

impl<'a> WeightView<'a> {
    /// `rows` rows of `columns` numbers, each row starting `row_stride_bytes` after the one before.
    ///
    /// # Errors
    /// When the last row would end beyond `bytes`, or `columns` is no whole number of the format's blocks.
    pub fn new(
        format: Format,
        bytes: &'a [u8],
        rows: usize,
        columns: usize,
        row_stride_bytes: usize,
    ) -> Result<Self, ViewError> {
        check(rows, columns, format.bytes_for(columns)?, row_stride_bytes, bytes.len(), "bytes")?;
        Ok(Self { format, bytes, rows, columns, row_stride_bytes })
    }

    /// Rows that follow each other without a gap.
    ///
    /// # Errors
    /// As [`WeightView::new`].
    pub fn dense(format: Format, bytes: &'a [u8], rows: usize, columns: usize) -> Result<Self, ViewError> {
        Self::new(format, bytes, rows, columns, format.bytes_for(columns)?)
    }

    /// f32 values in memory as a weight, `row_stride` in values.
    ///
    /// # Errors
    /// As [`WeightView::new`].
    pub fn values(
        values: &'a [f32],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Result<Self, ViewError> {
        // SAFETY: any f32 may be read as four bytes; the length in bytes is that of the same allocation.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        Self::new(Format::F32, bytes, rows, columns, row_stride.saturating_mul(4))
    }

    /// How its numbers are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Outputs of a contraction with it.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Length of the sum in a contraction with it.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes that the numbers of a row take.
    pub fn row_bytes(&self) -> usize {
        self.columns / self.format.block_elements() * self.format.block_bytes()
    }

    /// The address of a row. The row must exist.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> *const u8 {
        debug_assert!(row < self.rows);
        self.bytes.as_ptr().wrapping_add(row * self.row_stride_bytes)
    }
}

/// Activations `[rows, columns]`, f32.
#[derive(Clone, Copy, Debug)]
pub struct ActivationRows<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_stride: usize,
}

impl<'a> ActivationRows<'a> {
    /// `rows` rows of `columns` values, `row_stride` values apart.
    ///
    /// # Errors
    /// When the last row would end beyond `values`.
    pub fn new(values: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Result<Self, ViewError> {
        check(rows, columns, columns, row_stride, values.len(), "values")?;
        Ok(Self { values, rows, columns, row_stride })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The address of a row. The row must exist.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> *const f32 {
        debug_assert!(row < self.rows);
        self.values.as_ptr().wrapping_add(row * self.row_stride)
    }
}

/// A place for outputs `[rows, columns]`, f32, that several threads may fill part by part.
#[derive(Debug)]
pub struct OutputRows<'a> {
    start: *mut f32,
    rows: usize,
    columns: usize,
    row_stride: usize,
    storage: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for an exclusive borrow of f32 values, which may move between threads.
unsafe impl Send for OutputRows<'_> {}
// SAFETY: a shared reference allows no access by itself; `alias` is unsafe and states its condition.
unsafe impl Sync for OutputRows<'_> {}

impl<'a> OutputRows<'a> {
    /// `rows` rows of `columns` values, `row_stride` values apart.
    ///
    /// # Errors
    /// When the last row would end beyond `values`, or rows overlap.
    pub fn new(
        values: &'a mut [f32],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Result<Self, ViewError> {
        check(rows, columns, columns, row_stride, values.len(), "values")?;
        if rows > 1 && row_stride < columns {
            return Err(ViewError::Overlap { columns, stride: row_stride });
        }
        Ok(Self { start: values.as_mut_ptr(), rows, columns, row_stride, storage: PhantomData })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The same place again, for another thread.
    ///
    /// # Safety
    /// While both exist, no element may be written through one and read or written through the other.
    pub unsafe fn alias(&self) -> OutputRows<'_> {
        OutputRows { storage: PhantomData, ..*self }
    }

    /// The part that holds `rows` × `columns`; indices count from its corner.
    ///
    /// # Panics
    /// When the part is not inside.
    pub fn part(&mut self, rows: Range<usize>, columns: Range<usize>) -> OutputRows<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        assert!(
            columns.start <= columns.end && columns.end <= self.columns,
            "{columns:?} of {}",
            self.columns
        );
        OutputRows {
            start: self.start.wrapping_add(rows.start * self.row_stride + columns.start),
            rows: rows.len(),
            columns: columns.len(),
            row_stride: self.row_stride,
            storage: PhantomData,
        }
    }

    /// The address of a row's first value. The row must exist.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize) -> *mut f32 {
        debug_assert!(row < self.rows);
        self.start.wrapping_add(row * self.row_stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_refuse_what_does_not_fit() {
        let bytes = [0u8; 23];
        assert!(WeightView::new(Format::F16, &bytes, 3, 3, 8).is_ok());
        assert!(WeightView::new(Format::F16, &bytes, 3, 4, 8).is_err());
        assert!(WeightView::new(Format::F32, &bytes, 0, 100, 8).is_ok());
        let huge = WeightView::new(Format::F32, &bytes, usize::MAX, 4, usize::MAX);
        assert_eq!(huge.unwrap_err(), ViewError::Overflow { rows: usize::MAX, stride: usize::MAX });
        let mut values = [0f32; 10];
        assert!(ActivationRows::new(&values, 3, 4, 3).is_ok());
        assert!(ActivationRows::new(&values, 3, 5, 3).is_err());
        assert_eq!(
            OutputRows::new(&mut values, 3, 4, 3).unwrap_err(),
            ViewError::Overlap { columns: 4, stride: 3 }
        );
        assert!(OutputRows::new(&mut values, 2, 4, 6).is_ok());
        let bytes = [0u8; 100];
        assert!(WeightView::dense(Format::Q4_1, &bytes, 5, 32).is_ok());
        assert!(WeightView::dense(Format::Q4_1, &bytes, 5, 64).is_err());
        assert!(matches!(WeightView::dense(Format::Q4_1, &bytes, 1, 48), Err(ViewError::Row(_))));
    }
}
