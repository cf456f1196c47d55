//! Activations as rounding kernels read them: each matrix of a launch is rounded once, whoever reads it.

use super::arithmetic::Arithmetic;
use crate::features::Features;
use crate::kernels::brain::{BrainBuffer, BrainRows};
use crate::kernels::integer::{RoundedBuffer, RoundedRows};
use crate::pool::Pool;
use std::ops::Range;

/// Values that are worth handing to other threads: some ten microseconds of rounding.
const SHARED_VALUES: usize = 32 * 1024;
/// Values that a thread takes at a time.
const PART_VALUES: usize = 8 * 1024;
/// Matrices looked back at for one that is rounded already: those that share a launch and an activation are neighbours.
const LOOK_BACK: usize = 8;

/// A matrix of f32 activations in the run's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matrix {
    pub start: *const f32,
    pub rows: usize,
    /// Values from one row to the next.
    pub stride: usize,
    pub columns: usize,
}

// SAFETY: the address is of the run's memory, used only inside a run, which borrows all of it.
unsafe impl Send for Matrix {}
// SAFETY: as above; nobody writes an activation in a step that reads it.
unsafe impl Sync for Matrix {}

#[derive(Clone, Copy, Debug)]
struct Entry {
    matrix: Matrix,
    arithmetic: Arithmetic,
    /// Where its values begin in the buffer of its arithmetic.
    first: usize,
    /// Its first row among the rows of all entries.
    first_row: usize,
}

/// The rounded activations of one launch; memory is reused from launch to launch.
#[derive(Debug, Default)]
pub(in crate::executor) struct RoundedOperands {
    entries: Vec<Entry>,
    rows: usize,
    /// Values by arithmetic: of integers, of bf16.
    values: [usize; 2],
    integer: RoundedBuffer,
    brain: BrainBuffer,
}

impl RoundedOperands {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        (self.rows, self.values) = (0, [0; 2]);
    }

    /// Takes a matrix in; its place. A matrix that is there already has its place.
    pub(super) fn add(&mut self, matrix: Matrix, arithmetic: Arithmetic) -> usize {
        let same = |entry: &Entry| entry.matrix == matrix && entry.arithmetic == arithmetic;
        let near = self.entries.len().saturating_sub(LOOK_BACK);
        if let Some(known) = self.entries[near..].iter().position(same) {
            return near + known;
        }
        let values = &mut self.values[usize::from(arithmetic == Arithmetic::Brain)];
        self.entries.push(Entry { matrix, arithmetic, first: *values, first_row: self.rows });
        *values += matrix.rows * matrix.columns;
        self.rows += matrix.rows;
        self.entries.len() - 1
    }

    /// Rounds all of them.
    ///
    /// # Safety
    /// Every matrix's values are readable, and nobody writes them meanwhile.
    pub(super) unsafe fn round(&mut self, features: Features, pool: &Pool) {
        let [integers, brains] = self.values;
        if integers + brains == 0 {
            return;
        }
        let (integer, brain) = (self.integer.room(integers), self.brain.room(brains));
        let entries = &self.entries;
        let rows = |range: Range<usize>| {
            let mut at = entries.partition_point(|entry| entry.first_row + entry.matrix.rows <= range.start);
            for row in range {
                while entries[at].first_row + entries[at].matrix.rows <= row {
                    at += 1;
                }
                let Entry { matrix, arithmetic, first, first_row } = entries[at];
                let row = row - first_row;
                let start = matrix.start.wrapping_add(row * matrix.stride);
                let to = first + row * matrix.columns;
                // SAFETY: the caller vouches for the matrix; every row goes to its own part of the room.
                unsafe {
                    let values = std::slice::from_raw_parts(start, matrix.columns);
                    match arithmetic {
                        Arithmetic::Brain => brain.round(features, to, values),
                        _ => integer.round(features.isa, to, values),
                    }
                }
            }
        };
        if integers + brains < SHARED_VALUES || pool.threads() == 1 {
            return rows(0..self.rows);
        }
        let grain = PART_VALUES * self.rows / (integers + brains);
        pool.run_ranges(self.rows, grain, |range, _| rows(range));
    }

    /// A matrix of integers, rounded.
    pub(super) fn integer(&self, place: usize) -> RoundedRows<'_> {
        let Entry { matrix, first, .. } = self.entries[place];
        self.integer.rows(first, matrix.rows, matrix.columns)
    }

    /// A matrix of bf16, rounded.
    pub(super) fn brain(&self, place: usize) -> BrainRows<'_> {
        let Entry { matrix, first, .. } = self.entries[place];
        self.brain.rows(first, matrix.rows, matrix.columns)
    }

    /// Bytes that it holds.
    pub(in crate::executor) fn bytes(&self) -> usize {
        self.integer.bytes() + self.brain.bytes()
    }
}
