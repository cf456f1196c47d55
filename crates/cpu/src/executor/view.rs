//! What every thread sees of a run: where each tensor lies.

use super::batch::{Batch, SetHistories};
use super::program::{BufferIndex, Group, Place, Program, RowOp};
use crate::bytecode::{Frame, Scratch, Slot, Trap};
use fiddlehead_plan::order::SetIndex;
use fiddlehead_storage::Format;
use std::ops::Range;

/// The address of a buffer and the words from one row to the next; states have an address a row instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    pub start: *mut u32,
    pub stride: usize,
}

impl Base {
    pub(super) const NOWHERE: Base = Base { start: std::ptr::null_mut(), stride: 0 };
}

/// A run's memory.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub program: &'a Program,
    pub batch: &'a Batch,
    pub slots: &'a [Slot<'a>],
    pub bases: &'a [Base],
}

// SAFETY: the addresses are of memory that the run holds; the order of its steps keeps writers and readers apart.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    /// The words of one row of a tensor (the only row of a shared one).
    pub(super) fn row(&self, buffer: BufferIndex, row: usize) -> *mut u32 {
        match self.program.buffers[buffer].place {
            Place::State(..) => self.batch.state_rows[buffer][row],
            _ => self.bases[buffer].start.wrapping_add(row * self.bases[buffer].stride),
        }
    }

    /// A shared tensor's bytes as they are stored, and their format.
    pub(super) fn stored(&self, buffer: BufferIndex) -> (Format, &'a [u8]) {
        match self.program.buffers[buffer].place {
            Place::Weight(param) => {
                let tensor = &self.program.weights[param.index()];
                (tensor.format(), tensor.bytes())
            }
            _ => {
                let words = self.words(buffer, 0);
                // SAFETY: any word may be read as four bytes; the length in bytes is that of the same memory.
                let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) };
                (Format::F32, bytes)
            }
        }
    }

    /// Words from one row of a tensor to the next; zero when all rows share it.
    pub(super) fn stride(&self, buffer: BufferIndex) -> usize {
        self.bases[buffer].stride
    }

    /// Runs a group's operations over rows of its set, one operation after another.
    pub(super) fn operations(
        &self,
        group: &Group,
        rows: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), Trap> {
        let histories = self.histories(group.set);
        let frame = self.frame(group.set, &histories);
        for operation in &group.ops {
            self.operation(operation, &frame, rows.clone(), scratch)?;
        }
        Ok(())
    }

    pub(super) fn histories(&self, set: SetIndex) -> SetHistories<'a> {
        SetHistories { batch: self.batch, set }
    }

    pub(super) fn frame<'b>(&self, set: SetIndex, histories: &'b SetHistories<'b>) -> Frame<'b>
    where
        'a: 'b,
    {
        Frame { slots: self.slots, here: &self.batch.sets[set.0].here, histories }
    }

    pub(super) fn operation(
        &self,
        operation: &RowOp,
        frame: &Frame<'_>,
        rows: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), Trap> {
        match operation {
            RowOp::Run(program) => program.code.run(frame, rows, None, scratch)?,
            RowOp::Append { history, from } => {
                let words = self.program.row_words[history.index()];
                for row in rows {
                    if let Some(to) = self.batch.own_row(history.index(), row) {
                        self.copy(*from, row, to, words);
                    }
                }
            }
            RowOp::Store { state, from } => {
                let words = self.program.buffers[*from].elements;
                for row in rows {
                    self.copy(*from, row, self.batch.outgoing_row(state.index(), row, words), words);
                }
            }
        }
        Ok(())
    }

    /// Copies a row of a tensor to `to`, which has room for `words`, the tensor's elements.
    pub(super) fn copy(&self, from: BufferIndex, row: usize, to: *mut u32, words: usize) {
        let source = self.row(from, row);
        // SAFETY: a row of the buffer holds as many words; pages, states and buffers are different memory, and nobody
        // else writes this row of either in this step.
        unsafe { std::ptr::copy_nonoverlapping(source, to, words) }
    }

    /// A row's words.
    pub(super) fn words(&self, buffer: BufferIndex, row: usize) -> &'a [u32] {
        // SAFETY: the row holds as many words, written by steps before.
        unsafe { std::slice::from_raw_parts(self.row(buffer, row), self.program.buffers[buffer].elements) }
    }
}
