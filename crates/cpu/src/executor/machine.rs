//! A program with its memory: what a loaded step, a plain function and the body of a loop run on.

use std::sync::Arc;

use fiddlehead_forest::Forest;
use fiddlehead_plan::memory::{Lifetime, MemoryPlan, place};
use fiddlehead_plan::{DeviceError, DeviceFacts, Regime};

use super::batch::Batch;
use super::history::History;
use super::lower::weight_slot;
use super::memory::{Bump, Words};
use super::program::{BufferIndex, Place, Program};
use super::run::Run;
use super::served::attend::RowBlock;
use super::served::contract::{ContractTask, RoundedOperands};
use super::served::gathered::GatheredPlan;
use super::session::{CpuSession, StateStore};
use super::threads::{PerThread, ThreadScratch};
use super::view::{Base, View};
use crate::bytecode::{LocalRow, Slot};
use crate::features::Features;
use crate::pool::Pool;
use fiddlehead_plan::order::SetIndex;

/// An input in somebody's memory, four bytes an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputWords {
    pub start: *const u32,
}

/// What a run works with beside the machine itself.
#[derive(Clone, Copy)]
pub(super) struct Workshop<'a> {
    pub pool: &'a Pool,
    pub features: Features,
    pub facts: DeviceFacts,
}

/// A program and the memory it runs in.
pub(super) struct Machine {
    pub program: Program,
    plans: Vec<(Regime, MemoryPlan)>,
    arena: Words,
    pub batch: Batch,
    bases: Vec<Base>,
    locals: Vec<Vec<LocalRow>>,
    bump: Bump,
    block_bump: Bump,
    threads: PerThread<ThreadScratch>,
    slots: Vec<Slot<'static>>,
    nested: Vec<Machine>,
    tasks: Vec<ContractTask>,
    gathered: GatheredPlan,
    rounded: RoundedOperands,
    row_blocks: Vec<RowBlock>,
}

// SAFETY: the addresses in `bases`, `locals` and `batch` are used only inside a run, which borrows the machine.
unsafe impl Send for Machine {}

/// The same allocation for values of another lifetime.
fn recycle<'b>(mut slots: Vec<Slot<'_>>) -> Vec<Slot<'b>> {
    slots.clear();
    slots.into_iter().map(|_| Slot::EMPTY).collect()
}

impl Machine {
    pub(super) fn new(mut program: Program, threads: usize) -> Machine {
        let nested = program.loops.drain(..).map(|body| Machine::new(body, threads)).collect();
        let buffers = program.buffers.len();
        Machine {
            program,
            plans: Vec::new(),
            arena: Words::default(),
            batch: Batch::default(),
            bases: vec![Base::NOWHERE; buffers],
            locals: vec![Vec::new(); buffers],
            bump: Bump::default(),
            block_bump: Bump::default(),
            threads: PerThread::new(threads),
            slots: Vec::new(),
            nested,
            tasks: Vec::new(),
            gathered: GatheredPlan::default(),
            rounded: RoundedOperands::default(),
            row_blocks: Vec::new(),
        }
    }

    /// A session of this step at its first position.
    pub(super) fn session(&self) -> CpuSession {
        let states = self.program.initials.iter().zip(&self.program.carried);
        let states = states.map(|(&buffer, carried)| {
            StateStore::new(self.program.buffers[buffer].elements, carried.as_ref().map(Arc::clone))
        });
        let rows = self.program.row_words.iter().zip(&self.program.reach);
        CpuSession {
            states: states.collect(),
            histories: rows.map(|(&words, &reach)| History::new(words, reach)).collect(),
            ..CpuSession::default()
        }
    }

    /// A session that another machine began, of a step with the same states and histories.
    pub(super) fn take_over(&self, begun: CpuSession) -> CpuSession {
        let mut session = self.session();
        if begun.states.len() != session.states.len() || begun.histories.len() != session.histories.len() {
            return session;
        }
        for (state, begun) in session.states.iter_mut().zip(begun.states) {
            state.committed = begun.committed;
        }
        CpuSession { pending: begun.pending, histories: begun.histories, ..session }
    }

    /// Runs the program over a forest, one session a segment. Everything stays in the machine's memory until the next
    /// run.
    pub(super) fn run(
        &mut self,
        workshop: Workshop<'_>,
        forest: &Forest,
        inputs: &[InputWords],
        sessions: &mut [&mut CpuSession],
    ) -> Result<(), DeviceError> {
        let mut batch = std::mem::take(&mut self.batch);
        let prepared = batch.prepare(&self.program, forest, sessions);
        self.batch = batch;
        prepared?;
        self.execute(workshop, inputs, false)
    }

    /// Runs a program that reads no path, once.
    pub(super) fn run_alone(
        &mut self,
        workshop: Workshop<'_>,
        inputs: &[InputWords],
        only_uniform: bool,
    ) -> Result<(), DeviceError> {
        self.batch.prepare_alone(&self.program);
        self.execute(workshop, inputs, only_uniform)
    }

    fn execute(
        &mut self,
        workshop: Workshop<'_>,
        inputs: &[InputWords],
        only_uniform: bool,
    ) -> Result<(), DeviceError> {
        let plan = self.plan()?;
        self.place_buffers(plan, inputs);
        if !only_uniform {
            let bases = &self.bases;
            let initials = &self.program.initials;
            self.batch.point_states(&self.program, &|state| bases[initials[state]].start);
        }
        self.bump.reset();
        let mut slots: Vec<Slot<'_>> = recycle(std::mem::take(&mut self.slots));
        for (index, buffer) in self.program.buffers.iter().enumerate() {
            let Base { start, stride } = self.bases[index];
            slots.push(match buffer.place {
                Place::Weight(param) => weight_slot(&self.program.weights[param.index()]),
                // SAFETY: each row's address is of a state of as many words, written by nobody in a step that reads it.
                Place::State(..) => unsafe { Slot::rows(&self.batch.state_rows[index], buffer.elements) },
                Place::Local(_) => Slot::EMPTY,
                // SAFETY: the buffer holds its regime's rows of `stride` words; steps write only buffers that are their
                // own then, and inputs and constants never.
                _ => unsafe { Slot::words(start, self.length(index), stride) },
            });
        }
        let mut run = Run {
            program: &self.program,
            pool: workshop.pool,
            isa: workshop.features.isa,
            features: workshop.features,
            facts: workshop.facts,
            batch: &self.batch,
            slots,
            bases: &mut self.bases,
            threads: &self.threads,
            locals: &mut self.locals,
            bump: &mut self.bump,
            block_bump: &mut self.block_bump,
            nested: &mut self.nested,
            tasks: &mut self.tasks,
            gathered: &mut self.gathered,
            rounded: &mut self.rounded,
            row_blocks: &mut self.row_blocks,
        };
        let result = if only_uniform { run.uniform_steps() } else { run.steps() };
        self.slots = recycle(run.slots);
        result
    }

    fn rows(&self, buffer: BufferIndex) -> usize {
        match self.program.buffers[buffer].place {
            Place::Rows(set) => self.batch.sets[set.0].nodes.len(),
            Place::Input { per_node: true, .. } => self.batch.sets[SetIndex::ALL.0].nodes.len(),
            _ => 1,
        }
    }

    fn length(&self, buffer: BufferIndex) -> usize {
        self.rows(buffer) * self.program.buffers[buffer].elements
    }

    /// The plan of the batch's regime, made when it is the first of it. Its place in `plans`.
    fn plan(&mut self) -> Result<usize, DeviceError> {
        let same = |regime: &Regime| {
            let rows = self.batch.sets.iter().map(|set| fiddlehead_plan::regime::tier(set.nodes.len()));
            regime.tiers.iter().copied().eq(rows)
        };
        let known = self.plans.iter().position(|(regime, _)| same(regime)).unwrap_or_else(|| {
            let regime = Regime::of(self.batch.sets.iter().map(|set| set.nodes.len()));
            let plan = place(&self.lifetimes(&regime));
            self.plans.push((regime, plan));
            self.plans.len() - 1
        });
        // Also for a plan that is known: a larger one may have asked for more than there was, and lost the arena.
        self.arena.reserve(self.plans[known].1.bytes / 4, "the buffers of a plan")?;
        Ok(known)
    }

    /// By buffer: how much of the arena it takes in a regime, and when.
    fn lifetimes(&self, regime: &Regime) -> Vec<Lifetime> {
        let life = |buffer: &super::program::Buffer| {
            let rows = match buffer.place {
                _ if buffer.life.0 > buffer.life.1 => 0,
                Place::Rows(set) => regime.tiers[set.0],
                Place::Uniform => 1,
                _ => 0,
            };
            Lifetime {
                bytes: buffer.elements * rows * 4,
                first: buffer.life.0.min(buffer.life.1),
                last: buffer.life.1,
            }
        };
        self.program.buffers.iter().map(life).collect()
    }

    /// The memory plan of a regime, for reports.
    pub(super) fn plan_of(&self, regime: &Regime) -> MemoryPlan {
        place(&self.lifetimes(regime))
    }

    fn place_buffers(&mut self, plan: usize, inputs: &[InputWords]) {
        let arena = self.arena.as_mut_ptr();
        let offsets = &self.plans[plan].1.offsets;
        for ((base, buffer), offset) in self.bases.iter_mut().zip(&self.program.buffers).zip(offsets) {
            let start = match buffer.place {
                Place::Rows(_) | Place::Uniform => arena.wrapping_add(offset / 4),
                Place::Constant(place) => self.program.constants[place].as_ptr().cast_mut(),
                Place::Input { input, .. } => inputs[input.index()].start.cast_mut(),
                Place::Weight(_) | Place::State(..) | Place::Local(_) => continue,
            };
            let own_rows = matches!(buffer.place, Place::Rows(_) | Place::Input { per_node: true, .. });
            *base = Base { start, stride: if own_rows { buffer.elements } else { 0 } };
        }
    }

    /// The machines of its loops' bodies.
    pub(super) fn nested(&self) -> &[Machine] {
        &self.nested
    }

    /// What the last run left.
    pub(super) fn view(&self) -> View<'_> {
        View { program: &self.program, batch: &self.batch, slots: &[], bases: &self.bases }
    }

    /// The words of an output: of a row of its set, or of all.
    pub(super) fn output_row(&self, output: usize, row: usize) -> &[u32] {
        self.view().words(self.program.outputs[output].0, row)
    }

    /// The words of a state's first value, after a run.
    pub(super) fn initial(&self, state: usize) -> &[u32] {
        self.view().words(self.program.initials[state], 0)
    }

    /// Bytes of buffers.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.arena.bytes()
            + self.bump.bytes()
            + self.block_bump.bytes()
            + self.rounded.bytes()
            + self.nested.iter().map(Machine::scratch_bytes).sum::<usize>()
    }

    /// Bytes of copies of weights and of constants.
    pub(super) fn mirror_bytes(&self) -> usize {
        self.program.mirror_bytes() + self.nested.iter().map(Machine::mirror_bytes).sum::<usize>()
    }
}
