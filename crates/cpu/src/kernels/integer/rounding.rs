//! Activations rounded to sixteen bits in groups of 32, each number in two parts of eight bits: `256 · high + low`, both signed.
//!
//! Eight bits alone were tried: a group with one great value left its others five bits or fewer, and SmolLM2 (Q4_1) lost 39 of
//! 1000 most likely tokens (mean divergence 3.9e-3 nats). The low part costs as many products again, and no other work.

use super::IntegerError;
use crate::features::Isa;
use crate::kernels::vector::{Kernel, Vector};
use crate::kernels::views::ActivationRows;
use std::marker::PhantomData;

/// Values under one scale.
pub(super) const GROUP: usize = 32;
/// Bytes of a group: high parts, then low ones.
pub(super) const GROUP_BYTES: usize = 2 * GROUP;
/// What the greatest magnitude of a group becomes: the high part of this and of everything below lies within ±127.
const GREATEST: f32 = 32512.0;

/// What sums need of a group besides its numbers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Facts {
    /// A value is a number times this.
    pub scale: f32,
    /// The scale times the sum of the first sixteen numbers, of the others, and of all.
    pub halves: [f32; 2],
    pub total: f32,
}

/// Activations `[rows, columns]` as pairs of signed bytes with a scale for each 32.
#[derive(Clone, Copy, Debug)]
pub struct RoundedRows<'a> {
    pub(super) numbers: &'a [i8],
    pub(super) facts: &'a [Facts],
    rows: usize,
    columns: usize,
}

impl RoundedRows<'_> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The value that element `[row, column]` was rounded to.
    ///
    /// # Panics
    /// When it is outside.
    pub fn value(&self, row: usize, column: usize) -> f32 {
        assert!(row < self.rows && column < self.columns, "[{row}, {column}] is outside");
        let (group, at) = ((row * self.columns + column) / GROUP, column % GROUP);
        let [high, low] = [at, GROUP + at].map(|at| i32::from(self.numbers[group * GROUP_BYTES + at]));
        (high * 256 + low) as f32 * self.facts[group].scale
    }
}

/// Memory for rounded rows, reused.
#[derive(Debug, Default)]
pub struct RoundedBuffer {
    numbers: Vec<i8>,
    facts: Vec<Facts>,
}

impl RoundedBuffer {
    /// Rounds rows: the greatest magnitude of each 32 values becomes 32512. A group that holds anything but finite values makes
    /// every output that reads it NaN.
    ///
    /// # Errors
    /// When `columns` is no multiple of 32.
    pub fn round(&mut self, isa: Isa, rows: &ActivationRows<'_>) -> Result<RoundedRows<'_>, IntegerError> {
        let columns = rows.columns;
        if !columns.is_multiple_of(GROUP) {
            return Err(IntegerError::Columns(columns));
        }
        let room = self.room(rows.rows * columns);
        for row in 0..rows.rows {
            // SAFETY: this thread alone uses the room, which has as many values.
            unsafe { room.round(isa, row * columns, &rows.values[row * rows.row_stride..][..columns]) };
        }
        Ok(self.rows(0, rows.rows, columns))
    }

    /// Room for `values` values, for threads to fill part by part.
    pub fn room(&mut self, values: usize) -> RoundedRoom<'_> {
        let groups = values.div_ceil(GROUP);
        if self.facts.len() < groups {
            self.numbers.resize(groups * GROUP_BYTES, 0);
            self.facts.resize(groups, Facts::default());
        }
        let (numbers, facts) = (self.numbers.as_mut_ptr(), self.facts.as_mut_ptr());
        RoundedRoom { numbers, facts, values, storage: PhantomData }
    }

    /// Rows that lie there from value `first` on.
    ///
    /// # Panics
    /// When `first` or `columns` is no multiple of 32, or the rows end beyond the room.
    pub fn rows(&self, first: usize, rows: usize, columns: usize) -> RoundedRows<'_> {
        assert!(first.is_multiple_of(GROUP) && columns.is_multiple_of(GROUP), "whole groups");
        let groups = rows * columns / GROUP;
        let numbers = &self.numbers[first / GROUP * GROUP_BYTES..][..groups * GROUP_BYTES];
        let facts = &self.facts[first / GROUP..][..groups];
        RoundedRows { numbers, facts, rows, columns }
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.numbers.capacity() + self.facts.capacity() * size_of::<Facts>()
    }
}

/// A place for rounded values that several threads may fill, each its own part.
#[derive(Debug)]
pub struct RoundedRoom<'a> {
    numbers: *mut i8,
    facts: *mut Facts,
    values: usize,
    storage: PhantomData<&'a mut RoundedBuffer>,
}

// SAFETY: it stands for an exclusive borrow of plain numbers; `round` is unsafe and asks for disjoint parts.
unsafe impl Sync for RoundedRoom<'_> {}

impl RoundedRoom<'_> {
    /// Rounds values to the place `first`.
    ///
    /// # Safety
    /// No other thread fills or reads the same values meanwhile.
    ///
    /// # Panics
    /// When they are no whole groups of 32 or end beyond the room.
    pub unsafe fn round(&self, isa: Isa, first: usize, values: &[f32]) {
        let count = values.len();
        assert!(first.is_multiple_of(GROUP) && count.is_multiple_of(GROUP), "whole groups");
        assert!(first.checked_add(count).is_some_and(|end| end <= self.values), "beyond the room");
        // SAFETY: inside the buffer, which `self` borrows, and the caller is the only user of this part.
        let (numbers, facts) = unsafe {
            let (first, groups) = (first / GROUP, count / GROUP);
            let numbers = self.numbers.add(first * GROUP_BYTES);
            let numbers = std::slice::from_raw_parts_mut(numbers, groups * GROUP_BYTES);
            (numbers, std::slice::from_raw_parts_mut(self.facts.add(first), groups))
        };
        isa.run(RoundRow { values, numbers, facts });
    }
}

struct RoundRow<'a> {
    values: &'a [f32],
    numbers: &'a mut [i8],
    facts: &'a mut [Facts],
}

impl Kernel for RoundRow<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let groups =
            self.values.as_chunks::<GROUP>().0.iter().zip(self.numbers.as_chunks_mut::<GROUP_BYTES>().0);
        for ((values, numbers), facts) in groups.zip(self.facts) {
            let mut vectors = [V::splat(0.0); 4];
            let mut most = V::splat(0.0);
            let mut poison = V::splat(0.0);
            for index in 0..GROUP / V::LANES {
                // SAFETY: the vectors lie within the group's 32 values.
                let x = unsafe { V::load(values.as_ptr().add(index * V::LANES)) };
                vectors[index] = x;
                most = x.abs().max(most);
                poison = x.mul_add(V::splat(0.0), poison);
            }
            // Zero for finite values, else NaN, which `max` alone could lose.
            let poison = poison.sum();
            let greatest = most.greatest();
            let inverse = if greatest > 0.0 && poison == 0.0 { GREATEST / greatest } else { 0.0 };
            // A magnitude so small that its inverse overflows rounds to nothing.
            let inverse = if inverse.is_finite() { inverse } else { 0.0 };
            let mut rounded = [0f32; GROUP];
            let mut halves = [0f32; 2];
            for index in 0..GROUP / V::LANES {
                let x = V::select(V::splat(inverse).equal(V::splat(0.0)), V::splat(0.0), vectors[index]);
                let whole = x.mul(V::splat(inverse)).round();
                // Whole numbers far below 2^24: exact in any order.
                halves[index * V::LANES / 16] += whole.sum();
                // SAFETY: as above.
                unsafe { whole.store(rounded.as_mut_ptr().add(index * V::LANES)) };
            }
            let (high, low) = numbers.split_at_mut(GROUP);
            for ((high, low), value) in high.iter_mut().zip(low).zip(rounded) {
                // With 1.5 · 2^23 added, a whole number lies in the lowest bits: cheaper than a saturating conversion.
                let bits = (value + 12_582_912.0).to_bits();
                *low = bits as i8;
                *high = ((bits + 128) >> 8) as i8;
            }
            let scale = greatest / GREATEST + poison;
            let total = (halves[0] + halves[1]) * scale;
            *facts = Facts { scale, halves: halves.map(|half| half * scale), total };
        }
    }
}
