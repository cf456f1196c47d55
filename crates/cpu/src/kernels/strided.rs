//! Contractions of two f32 operands with any strides: `y[m, n] = Σ_k a[m, k] · b[k, n]`.
//!
//! Where `b` is contiguous along `n`, scaled rows; where it is contiguous along `k`, dot products; else `b` is copied to
//! the first form. The choice depends on `b`'s strides alone, never on a size, so the bits of an output depend on its row
//! of `a` and its column of `b` alone.

use super::broadcast::{Extent, Start, scaled_rows};
use super::contraction::{ContractionScratch, contract};
use super::vector::{Kernel, Vector};
use super::views::{ActivationRows, OutputRows, ViewError, WeightView};
use crate::features::Isa;

/// Steps of `k` between visits of the rows: a panel of `b` this long stays in the first-level cache.
const LENGTH_BLOCK: usize = 128;
/// Columns of a panel: four of the widest vectors.
const PANEL_COLUMNS: usize = 64;
/// From so many rows of `a` on, a panel of `b` is copied to lie in one piece: rows a power of two apart would meet in a few
/// sets of the cache.
const COPIED_ROWS: usize = 24;

/// A matrix whose element `(i, j)` lies at `i * strides[0] + j * strides[1]`, in values; strides may be zero.
#[derive(Clone, Copy, Debug)]
pub struct StridedMatrix<'a> {
    values: &'a [f32],
    shape: [usize; 2],
    strides: [usize; 2],
}

impl<'a> StridedMatrix<'a> {
    /// `shape[0]` × `shape[1]` elements.
    ///
    /// # Errors
    /// When the last element would lie beyond `values`.
    pub fn new(values: &'a [f32], shape: [usize; 2], strides: [usize; 2]) -> Result<Self, ViewError> {
        let overflow = ViewError::Overflow { rows: shape[0], stride: strides[0] };
        if shape[0] > 0 && shape[1] > 0 {
            let last = (shape[0] - 1)
                .checked_mul(strides[0])
                .zip((shape[1] - 1).checked_mul(strides[1]))
                .and_then(|(row, column)| row.checked_add(column))
                .and_then(|last| last.checked_add(1))
                .ok_or(overflow)?;
            if last > values.len() {
                return Err(ViewError::TooShort {
                    rows: shape[0],
                    columns: shape[1],
                    stride: strides[0],
                    needed: last,
                    held: values.len(),
                    unit: "values",
                });
            }
        }
        Ok(Self { values, shape, strides })
    }

    /// Its two sizes.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    #[inline(always)]
    fn at(&self, row: usize, column: usize) -> *const f32 {
        self.values.as_ptr().wrapping_add(row * self.strides[0] + column * self.strides[1])
    }

    /// A row-major copy in `to`.
    fn pack<'t>(&self, to: &'t mut Vec<f32>) -> &'t [f32] {
        to.clear();
        to.reserve(self.shape[0] * self.shape[1]);
        for row in 0..self.shape[0] {
            let start = row * self.strides[0];
            to.extend((0..self.shape[1]).map(|column| self.values[start + column * self.strides[1]]));
        }
        to
    }
}

/// Scratch space of one thread for copied operands; grows to what it needs and is reused.
#[derive(Default)]
pub struct StridedScratch {
    packed: Vec<f32>,
    panel: Vec<f32>,
    contraction: ContractionScratch,
}

/// Computes `output[m, n] = Σ_k a[m, k] · b[k, n]`.
///
/// # Panics
/// When the shapes disagree.
pub fn contract_strided(
    isa: Isa,
    a: &StridedMatrix<'_>,
    b: &StridedMatrix<'_>,
    output: &mut OutputRows<'_>,
    scratch: &mut StridedScratch,
) {
    assert_eq!(a.shape[1], b.shape[0], "the sum's length differs");
    assert_eq!([output.rows(), output.columns()], [a.shape[0], b.shape[1]], "the output's shape");
    let [rows, length] = a.shape;
    let columns = b.shape[1];
    if b.strides[1] == 1 {
        return isa.run(ScaledRows { a, b, output, panel: &mut scratch.panel });
    }
    if b.strides[0] == 1 {
        let (values, stride) = match a.strides {
            [stride, 1] => (a.values, stride),
            _ => (a.pack(&mut scratch.packed), length),
        };
        // Both views describe elements that `StridedMatrix::new` has checked, so neither can be refused.
        if let (Ok(weight), Ok(activations)) = (
            WeightView::values(b.values, columns, length, b.strides[1]),
            ActivationRows::new(values, rows, length, stride),
        ) {
            contract(isa, &weight, &activations, 0..columns, output, &mut scratch.contraction);
            return;
        }
    }
    let packed = b.pack(&mut scratch.packed);
    let b = StridedMatrix { values: packed, shape: b.shape, strides: [columns, 1] };
    isa.run(ScaledRows { a, b: &b, output, panel: &mut scratch.panel });
}

struct ScaledRows<'a, 'b> {
    a: &'a StridedMatrix<'a>,
    b: &'a StridedMatrix<'a>,
    output: &'a mut OutputRows<'b>,
    panel: &'a mut Vec<f32>,
}

impl Kernel for ScaledRows<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let (rows, length, columns) = (self.a.shape[0], self.a.shape[1], self.b.shape[1]);
        let copied = rows >= COPIED_ROWS;
        let width = if copied { PANEL_COLUMNS } else { columns.max(1) };
        for from in (0..columns).step_by(width) {
            let width = width.min(columns - from);
            let mut first = 0;
            loop {
                let block = (length - first).min(LENGTH_BLOCK);
                let start = if first == 0 { Start::Zero } else { Start::Keep };
                let extent = Extent { rows, columns: width, length: block };
                let (step, output) = (self.a.strides[1], &mut *self.output);
                if copied {
                    self.panel.clear();
                    for k in first..first + block {
                        let row = k * self.b.strides[0] + from;
                        self.panel.extend_from_slice(&self.b.values[row..row + width]);
                    }
                }
                let panel = self.panel.as_ptr();
                let source = |k: usize| match copied {
                    true => panel.wrapping_add(k * width),
                    false => self.b.at(first + k, from),
                };
                // SAFETY: the views have checked that all these elements exist, and the panel holds `block` rows of `width`;
                // the output is borrowed exclusively.
                unsafe {
                    scaled_rows::<V>(
                        extent,
                        start,
                        step,
                        |m| self.a.at(m, first),
                        source,
                        |m| output.row(m).wrapping_add(from),
                    )
                };
                first += block;
                if first >= length {
                    break;
                }
            }
        }
    }
}
