//! One run of a program: its steps in order, each spread over the pool where that pays.

use std::ops::Range;
use std::sync::Mutex;

use fiddlehead_graph::Graph;
use fiddlehead_plan::{DeviceError, DeviceFacts, Work};

use super::batch::Batch;
use super::machine::Machine;
use super::memory::Bump;
use super::program::*;
use super::scan;
use super::served::attend::{self, RowBlock};
use super::served::contract::{self, ContractTask, RoundedOperands};
use super::served::delta;
use super::served::gathered::{self, GatheredPlan};
use super::served::strided;
use super::threads::{PerThread, ThreadScratch};
use super::view::{Base, View};
use crate::bytecode::{LocalRow, Outer, Read, Slot, Trap, TrapKind};
use crate::features::{Features, Isa};
use crate::pool::Pool;
use fiddlehead_plan::order::SetIndex;

/// Nanoseconds of work that a thread should take at a time at least.
const PART: usize = 2_000;
/// Rows that one thread takes at a time through a group, so that what one operation leaves is in the cache for the next.
const ROW_BLOCK: usize = 8;
/// Rows whose local tensors are in memory at a time.
const LOCAL_ROWS: usize = 16;

/// A run under way.
pub(super) struct Run<'a> {
    pub program: &'a Program,
    pub pool: &'a Pool,
    pub isa: Isa,
    pub features: Features,
    pub facts: DeviceFacts,
    pub batch: &'a Batch,
    pub slots: Vec<Slot<'a>>,
    pub bases: &'a mut [Base],
    pub threads: &'a PerThread<ThreadScratch>,
    /// By buffer: rows of local tensors.
    pub locals: &'a mut [Vec<LocalRow>],
    pub bump: &'a mut Bump,
    pub block_bump: &'a mut Bump,
    pub nested: &'a mut [Machine],
    /// Reused from launch to launch.
    pub tasks: &'a mut Vec<ContractTask>,
    pub gathered: &'a mut GatheredPlan,
    pub rounded: &'a mut RoundedOperands,
    pub row_blocks: &'a mut Vec<RowBlock>,
}

/// The first failure of several threads, by row.
#[derive(Default)]
struct Failures(Mutex<Option<Trap>>);

impl Failures {
    fn note(&self, result: Result<(), Trap>) {
        let Err(trap) = result else { return };
        let mut first = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if first.is_none_or(|known| trap.row < known.row) {
            *first = Some(trap);
        }
    }
    fn into_result(self) -> Result<(), Trap> {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).map_or(Ok(()), Err)
    }
}

/// Work of the general kernel.
fn general(nanoseconds: usize) -> Work {
    Work { nanoseconds: nanoseconds as f64, ..Work::default() }
}

/// A program's trap as the user sees it.
pub(super) fn trap_error(graph: &Graph, trap: &Trap) -> DeviceError {
    let origin = &graph.node(trap.node).origin;
    let why = match trap.kind {
        // The program's reader knows the array by its name, not by its number in the graph.
        TrapKind::Index { what, axis, index, low, high } => {
            let name = match what {
                Read::Node(node) => &graph.node(node).origin.name,
                Read::History(history) => &graph.histories()[history.index()].key,
            };
            format!("index {index} is outside {low}..{high} of axis {axis} of `{name}`")
        }
        kind => kind.to_string(),
    };
    DeviceError::Trap { origin: origin.name.clone(), span: origin.span, why }
}

/// A kernel was given memory that does not fit: a mistake of lowering, told instead of trusted.
fn unfit(what: &str, error: impl ToString) -> DeviceError {
    DeviceError::Unsupported { what: what.into(), why: error.to_string() }
}

impl<'a> Run<'a> {
    /// Runs the steps that no row takes part in.
    pub(super) fn uniform_steps(&mut self) -> Result<(), DeviceError> {
        for step in &self.program.steps {
            match step {
                Step::Uniform(_) => self.step(step, None)?,
                Step::Scan(scan) if scan.set.is_none() => self.step(step, None)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs every step.
    pub(super) fn steps(&mut self) -> Result<(), DeviceError> {
        let program = self.program;
        program.steps.iter().try_for_each(|step| self.step(step, None))
    }

    pub(super) fn view(&self) -> View<'_> {
        View { program: self.program, batch: self.batch, slots: &self.slots, bases: self.bases }
    }

    fn rows(&self, set: SetIndex) -> usize {
        self.batch.sets[set.0].nodes.len()
    }

    /// Runs one step over all rows of its set, or over one row of all.
    fn step(&mut self, step: &'a Step, row: Option<usize>) -> Result<(), DeviceError> {
        let range = |count: usize| row.map_or(0..count, |row| row..row + 1);
        match step {
            Step::Uniform(programs) => programs.iter().try_for_each(|program| self.uniform(program)),
            Step::Rows(group) => {
                let rows = range(self.rows(group.set));
                self.group(group, rows)
            }
            Step::Gather(gathers) => {
                self.gather(gathers);
                Ok(())
            }
            Step::Contract(step) => {
                contract::run(self, step, row).map_err(|error| unfit("a contraction", error))
            }
            Step::Gathered(step) => gathered::run(self, step, row).map_err(|failure| match failure {
                gathered::Failure::Trap(trap) => self.trap(trap),
                gathered::Failure::View(error) => unfit("a contraction", error),
            }),
            Step::Strided(step) => {
                strided::run(self, step, row).map_err(|error| unfit("a contraction", error))
            }
            Step::Attend(step) => attend::run(self, step, row).map_err(|error| unfit("an attention", error)),
            Step::Delta(step) => delta::run(self, step).map_err(|error| unfit("a delta rule", error)),
            Step::Scan(scan) => match scan.set {
                None => scan::run(self, scan, 0),
                Some(set) => range(self.rows(set)).try_for_each(|row| scan::run(self, scan, row)),
            },
            Step::Serial(steps) => (0..self.rows(SetIndex::ALL))
                .try_for_each(|row| steps.iter().try_for_each(|step| self.step(step, Some(row)))),
        }
    }

    pub(super) fn trap(&self, trap: Trap) -> DeviceError {
        trap_error(&self.program.graph, &trap)
    }

    fn uniform(&mut self, program: &NodeProgram) -> Result<(), DeviceError> {
        if program.local {
            self.place_locals(program, 0..1, SetIndex::ALL, false)?;
        }
        self.split(program, SetIndex::ALL, 0).map_err(|trap| self.trap(trap))
    }

    /// One row of one node's program, shared by threads along the outermost axis when it is long.
    fn split(&self, program: &NodeProgram, set: SetIndex, row: usize) -> Result<(), Trap> {
        let view = self.view();
        let histories = view.histories(set);
        let frame = view.frame(set, &histories);
        let threads = self.pool.threads();
        let outer = program.outer.filter(|_| self.facts.pays_to_split(general(program.cost)));
        let Some(Outer { extent, multiple }) = outer else {
            // SAFETY: no region is open, so this thread is the only user of scratch zero.
            let scratch = unsafe { self.threads.get(0) };
            return program.code.run(&frame, row..row + 1, None, &mut scratch.bytecode);
        };
        let parts = (program.cost / PART + 1).min(threads * 4);
        let grain = extent.div_ceil(parts).next_multiple_of(multiple.max(1));
        let failures = Failures::default();
        self.pool.run_ranges(extent, grain, |outer, thread| {
            // SAFETY: the pool runs no two tasks at once with one thread index.
            let scratch = unsafe { self.threads.get(thread) };
            failures.note(program.code.run(&frame, row..row + 1, Some(outer), &mut scratch.bytecode));
        });
        failures.into_result()
    }

    fn group(&mut self, group: &Group, rows: Range<usize>) -> Result<(), DeviceError> {
        if group.local {
            return self.local_group(group, rows);
        }
        self.own_rows(group, rows).map_err(|trap| self.trap(trap))
    }

    /// Every row through the group by itself.
    fn own_rows(&self, group: &Group, rows: Range<usize>) -> Result<(), Trap> {
        let threads = self.pool.threads();
        if !self.facts.pays_to_split(general(group.cost.saturating_mul(rows.len()))) {
            return self.blocks(group, rows, 0);
        }
        if rows.len() == 1 {
            return self.one_row(group, rows.start);
        }
        let grain = rows.len().div_ceil(threads * 4).clamp(1, ROW_BLOCK);
        let failures = Failures::default();
        let (view, first) = (self.view(), rows.start);
        self.pool.run_ranges(rows.len(), grain, |part, thread| {
            // SAFETY: the pool runs no two tasks at once with one thread index.
            let scratch = unsafe { self.threads.get(thread) };
            let part = first + part.start..first + part.end;
            failures.note(view.operations(group, part, &mut scratch.bytecode));
        });
        failures.into_result()
    }

    fn blocks(&self, group: &Group, rows: Range<usize>, thread: usize) -> Result<(), Trap> {
        // SAFETY: no region is open, so this thread is the only user of its scratch.
        let scratch = unsafe { self.threads.get(thread) };
        let view = self.view();
        for start in rows.clone().step_by(ROW_BLOCK) {
            view.operations(group, start..rows.end.min(start + ROW_BLOCK), &mut scratch.bytecode)?;
        }
        Ok(())
    }

    /// One row through a group whose long operations threads share.
    fn one_row(&self, group: &Group, row: usize) -> Result<(), Trap> {
        let view = self.view();
        let histories = view.histories(group.set);
        let frame = view.frame(group.set, &histories);
        for operation in &group.ops {
            match operation {
                RowOp::Run(program) => self.split(program, group.set, row)?,
                _ => {
                    // SAFETY: no region is open, so this thread is the only user of scratch zero.
                    let scratch = unsafe { self.threads.get(0) };
                    view.operation(operation, &frame, row..row + 1, &mut scratch.bytecode)?;
                }
            }
        }
        Ok(())
    }

    /// A group with tensors whose size is known only in the run: block by block, operation by operation.
    fn local_group(&mut self, group: &Group, rows: Range<usize>) -> Result<(), DeviceError> {
        let block = if group.closed { LOCAL_ROWS } else { rows.len().max(1) };
        for start in rows.clone().step_by(block) {
            let part = start..rows.end.min(start + block);
            if group.closed {
                self.block_bump.reset();
            }
            for operation in &group.ops {
                if let RowOp::Run(program) = operation
                    && program.local
                {
                    self.place_locals(program, part.clone(), group.set, group.closed)?;
                }
                let failures = Failures::default();
                let view = self.view();
                let histories = view.histories(group.set);
                let frame = view.frame(group.set, &histories);
                let grain = part.len().div_ceil(self.pool.threads());
                self.pool.run_ranges(part.len(), grain, |rows, thread| {
                    // SAFETY: the pool runs no two tasks at once with one thread index.
                    let scratch = unsafe { self.threads.get(thread) };
                    let rows = part.start + rows.start..part.start + rows.end;
                    failures.note(view.operation(operation, &frame, rows, &mut scratch.bytecode));
                });
                failures.into_result().map_err(|trap| self.trap(trap))?;
            }
        }
        Ok(())
    }

    /// Takes memory for rows of a local tensor and points its slot there.
    fn place_locals(
        &mut self,
        program: &NodeProgram,
        rows: Range<usize>,
        set: SetIndex,
        closed: bool,
    ) -> Result<(), DeviceError> {
        let count = match self.program.buffers[program.to].place {
            Place::Local(Some(set)) => self.rows(set),
            _ => 1,
        };
        let mut placed = std::mem::take(&mut self.locals[program.to]);
        placed.resize(count, LocalRow { words: std::ptr::null_mut(), shape: Default::default() });
        for row in rows {
            let view = self.view();
            let histories = view.histories(set);
            // SAFETY: no region is open, so this thread is the only user of scratch zero.
            let scratch = unsafe { self.threads.get(0) };
            let frame = view.frame(set, &histories);
            let shape = program.code.local_box(&frame, row, &mut scratch.bytecode);
            let shape = shape.map_err(|trap| self.trap(trap))?;
            let extents = shape.extent[..shape.rank].iter().map(|&extent| extent as usize);
            let elements = extents.fold(1, usize::saturating_mul);
            let bump = if closed { &mut *self.block_bump } else { &mut *self.bump };
            placed[row] = LocalRow { words: bump.allocate(elements)?, shape };
        }
        self.locals[program.to] = placed;
        self.point_local(program.to);
        Ok(())
    }

    fn point_local(&mut self, buffer: BufferIndex) {
        let rows: *const [LocalRow] = self.locals[buffer].as_slice();
        // SAFETY: the rows stay where they are until the next placing, which points the slot anew before anybody reads
        // it again; each row's memory was taken for its box.
        self.slots[buffer] = unsafe { Slot::local(&*rows) };
    }

    fn gather(&mut self, gathers: &[Gather]) {
        for gather in gathers {
            let rows = self.rows(gather.set);
            if self.program.buffers[gather.to].place == Place::Local(Some(gather.set)) {
                let placed =
                    (0..rows).map(|row| self.locals[gather.from][self.row_within(gather, row)]).collect();
                self.locals[gather.to] = placed;
                self.point_local(gather.to);
                continue;
            }
            let view = self.view();
            let words = self.program.buffers[gather.to].elements;
            for row in 0..rows {
                view.copy(gather.from, self.row_within(gather, row), view.row(gather.to, row), words);
            }
        }
    }

    /// Where a row of the smaller set lies in the larger one.
    fn row_within(&self, gather: &Gather, row: usize) -> usize {
        let node = self.batch.sets[gather.set.0].nodes[row];
        if gather.from_set == SetIndex::ALL {
            return node as usize;
        }
        // A smaller set's rows are among the larger one's, because demand only grows towards what is read.
        self.batch.sets[gather.from_set.0].nodes.binary_search(&node).unwrap_or_default()
    }
}
