//! One graph on the device: its kernels compiled, its regimes' buffers and launches, and a run.

use std::collections::HashMap;
use std::sync::Arc;

use fiddlehead_forest::Forest;
use fiddlehead_graph::{Graph, NodeId};
use fiddlehead_plan::memory::{Lifetime, place};
use fiddlehead_plan::{
    Choosing, Chosen, Collected, DeviceError, InputBuffers, MemoryPlan, MemoryReport, PlanReport, Regime,
    StepMachine,
};

use super::batch::Batch;
use super::device::report;
use super::sampler::{self, CHOSEN, Sampler};
use super::session::CudaSession;
use crate::emit::{Argument, Grid, Kernel, Program, Report, Rows, RowsOf, elements};
use crate::error::CudaError;
use crate::memory::{Block, Pool};
use crate::runtime::{Function, KernelName, Recording, Runtime};

/// Bytes of `struct Trap` in `kernels/prelude.cuh`.
const TRAP: usize = 40;
/// Where chosen tokens begin, after the trap: both come to the host at once.
const TOKENS: usize = 48;

/// One launch of a regime.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub kernel: usize,
    pub grid: u32,
    pub arguments: Vec<u64>,
}

/// What a regime keeps.
struct Plan {
    arena: Block,
    memory: MemoryPlan,
    inputs: Vec<Block>,
    scratch: Block,
    batch: Block,
    launches: Vec<Launch>,
    /// Runs of this regime so far, and its launches recorded.
    runs: usize,
    recording: Option<Recording>,
}

/// A graph ready to run.
pub(super) struct Machine {
    pub program: Program,
    pub(super) pool: Arc<Pool>,
    pub(super) functions: Vec<Function>,
    weights: Vec<Arc<Block>>,
    constants: Vec<Block>,
    /// By buffer: those written at loading.
    persistent: Vec<Option<Block>>,
    plans: HashMap<(Regime, usize), Plan>,
    /// What a run tells the host: its trap, and the tokens that were chosen after it.
    outcome: Block,
    /// Made when tokens are first chosen.
    sampler: Option<Sampler>,
    /// The batch that ran last, and its plan.
    pub batch: Batch,
    last: (Regime, usize),
    /// Whether launches may be recorded and replayed.
    pub record: bool,
}

impl Machine {
    /// Compiles a program and runs what is run once. `weights` are the program's, on the device.
    pub(super) fn new(
        program: Program,
        weights: Vec<Arc<Block>>,
        pool: Arc<Pool>,
    ) -> Result<Machine, DeviceError> {
        let functions = functions(&program, pool.runtime.as_ref())?;
        let mut constants = Vec::new();
        for values in &program.constants {
            let block = pool.take(values.len() * 4)?;
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            pool.runtime.upload(block.address, &bytes)?;
            constants.push(block);
        }
        let persistent = program
            .buffers
            .iter()
            .map(|buffer| buffer.persistent.then(|| pool.take(buffer.words * 4)).transpose())
            .collect::<Result<_, _>>()?;
        let outcome = pool.take(TRAP)?;
        let mut machine = Machine {
            program,
            functions,
            weights,
            constants,
            persistent,
            plans: HashMap::new(),
            outcome,
            sampler: None,
            batch: Batch::default(),
            last: (Regime::default(), 0),
            record: true,
            pool,
        };
        machine.load()?;
        Ok(machine)
    }

    /// Runs the kernels that run once.
    fn load(&mut self) -> Result<(), DeviceError> {
        let batch = Batch::alone(&self.program);
        let block = self.pool.take(batch.bytes())?;
        self.reset_trap()?;
        self.pool.runtime.upload(block.address, &batch.encode(block.address, self.outcome.address))?;
        for (index, kernel) in self.program.prologue.iter().enumerate() {
            let argument = |argument: &Argument| match *argument {
                Argument::Batch => block.address,
                Argument::Traps => kernel.traps as u64,
                other => self.fixed(other).unwrap_or(0),
            };
            let arguments: Vec<u64> = kernel.arguments.iter().map(argument).collect();
            let grid = self.blocks(kernel.grid, &[1], 1);
            self.pool.runtime.launch(&self.functions[index], grid, kernel.block, &arguments)?;
        }
        self.check_trap()
    }

    /// The address of what does not depend on a regime.
    fn fixed(&self, argument: Argument) -> Option<u64> {
        match argument {
            Argument::Weight(param) => Some(self.weights[param.index()].address),
            Argument::Constant(place) => Some(self.constants[place].address),
            Argument::History(history) => Some(history.index() as u64),
            Argument::State(state) => Some(state.index() as u64),
            Argument::Buffer(node) => {
                let place = self.program.buffer(node)?;
                self.persistent[place].as_ref().map(|block| block.address)
            }
            _ => None,
        }
    }

    fn blocks(&self, grid: Grid, tiers: &[usize], segments: usize) -> u32 {
        let rows = match grid.rows {
            Rows::One => 1,
            Rows::Set(set) => tiers.get(set.0).copied().unwrap_or(1),
            Rows::Segments => segments,
        };
        let work = rows.saturating_mul(grid.per_row).div_ceil(grid.per_block.max(1));
        work.clamp(1, self.pool.runtime.most_blocks()) as u32
    }

    /// Buffers and launches for a regime.
    fn plan(&self, regime: &Regime, segments: usize, batch_bytes: usize) -> Result<Plan, CudaError> {
        let memory = arena(&self.program, regime);
        let arena = self.pool.take(memory.bytes)?;
        let inputs = self
            .program
            .graph
            .inputs()
            .iter()
            .map(|input| {
                let words: usize = input.shape.iter().product();
                self.pool.take(words * 4 * if input.per_node { regime.tiers[0] } else { 1 })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let scratch_words = self
            .program
            .kernels
            .iter()
            .map(|kernel| kernel.scratch * self.blocks(kernel.grid, &regime.tiers, segments) as usize);
        let scratch = self.pool.take(scratch_words.max().unwrap_or(0) * 4)?;
        let batch = self.pool.take(batch_bytes.next_power_of_two())?;
        let mut plan =
            Plan { arena, memory, inputs, scratch, batch, launches: Vec::new(), runs: 0, recording: None };
        plan.launches = self.launches(&plan, regime, segments);
        Ok(plan)
    }

    fn launches(&self, plan: &Plan, regime: &Regime, segments: usize) -> Vec<Launch> {
        let address = |kernel: &Kernel, argument: &Argument| match *argument {
            Argument::Batch => plan.batch.address,
            Argument::Traps => kernel.traps as u64,
            Argument::Input(input) => plan.inputs[input.index()].address,
            Argument::Scratch => plan.scratch.address,
            other => self.fixed(other).unwrap_or_else(|| match other {
                Argument::Buffer(node) => self.buffer_address(plan, node),
                _ => 0,
            }),
        };
        let launch = |(kernel, of): (usize, &Kernel)| Launch {
            kernel,
            grid: self.blocks(of.grid, &regime.tiers, segments),
            arguments: of.arguments.iter().map(|argument| address(of, argument)).collect(),
        };
        self.program.kernels.iter().enumerate().map(launch).collect()
    }

    fn buffer_address(&self, plan: &Plan, node: NodeId) -> u64 {
        let place = self.program.buffer(node);
        place.map_or(0, |place| match &self.persistent[place] {
            Some(block) => block.address,
            None => plan.arena.address + plan.memory.offsets[place] as u64,
        })
    }

    /// Runs once, without a session.
    pub(super) fn run_alone(&mut self, inputs: &InputBuffers<'_>) -> Result<(), DeviceError> {
        let batch = Batch::alone(&self.program);
        self.start(batch, inputs, None)?;
        self.check_trap()
    }

    /// Starts a run. Nobody waits for it: its outcome is on the device.
    fn start(
        &mut self,
        mut batch: Batch,
        inputs: &InputBuffers<'_>,
        mut path: Option<(&Forest, &mut [&mut CudaSession])>,
    ) -> Result<(), DeviceError> {
        let regime = Regime::of(batch.sets.iter().map(Vec::len));
        let key = (regime, batch.segments.next_power_of_two());
        if !self.plans.contains_key(&key) {
            let plan = self.plan(&key.0, key.1, 1 << 12)?;
            self.plans.insert(key.clone(), plan);
        }
        let initial: Vec<u64> = {
            let (plan, states) = (&self.plans[&key], self.program.graph.states());
            states.iter().map(|state| self.buffer_address(plan, state.initial)).collect()
        };
        if let Some((forest, sessions)) = &mut path {
            batch.describe(forest, sessions, &self.pool, &initial)?;
        }
        if self.plans[&key].batch.bytes < batch.bytes() {
            let larger = self.pool.take(batch.bytes().next_power_of_two())?;
            let Some(mut plan) = self.plans.remove(&key) else { return Ok(()) };
            plan.batch = larger;
            plan.recording = None;
            plan.runs = 0;
            plan.launches = self.launches(&plan, &key.0, key.1);
            self.plans.insert(key.clone(), plan);
        }
        self.batch = batch;
        self.last = key.clone();
        self.reset_trap()?;
        let plan = &self.plans[&key];
        let runtime = &self.pool.runtime;
        let encoded = self.batch.encode(plan.batch.address, self.outcome.address);
        runtime.upload(plan.batch.address, &encoded)?;
        for (block, words) in plan.inputs.iter().zip(inputs.words()) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            runtime.upload(block.address, &bytes)?;
        }
        self.launch(&key)?;
        if let Some((forest, sessions)) = path {
            for (segment, session) in
                forest.segments().iter().zip(sessions).filter(|(part, _)| part.base() == 0)
            {
                session.begin(&self.pool, segment.count(), &initial)?;
            }
        }
        Ok(())
    }

    /// Launches a regime's kernels: eagerly the first time, recorded the second, replayed from then on.
    fn launch(&mut self, key: &(Regime, usize)) -> Result<(), CudaError> {
        let runtime = Arc::clone(&self.pool.runtime);
        let first = self.program.prologue.len();
        let Some(plan) = self.plans.get_mut(key) else { return Ok(()) };
        plan.runs += 1;
        if let Some(recording) = &plan.recording {
            return runtime.replay(recording);
        }
        let recording = self.record && plan.runs == 2 && runtime.record()?;
        let launched = plan.launches.iter().try_for_each(|launch| {
            let kernel = &self.program.kernels[launch.kernel];
            let function = &self.functions[first + launch.kernel];
            runtime.launch(function, launch.grid, kernel.block, &launch.arguments)
        });
        if recording {
            // A recording is ended also when a launch failed: the stream would refuse everything after it.
            let recorded = runtime.recorded();
            launched?;
            let recorded = recorded?;
            runtime.replay(&recorded)?;
            plan.recording = Some(recorded);
            return Ok(());
        }
        launched
    }

    /// The launches of the run that was last.
    pub(super) fn launched(&self) -> &[Launch] {
        self.plans.get(&self.last).map_or(&[], |plan| &plan.launches)
    }

    /// The kernel of a launch, and its function.
    pub(super) fn launched_kernel(&self, launch: &Launch) -> (&Kernel, &Function) {
        let place = self.program.prologue.len() + launch.kernel;
        (&self.program.kernels[launch.kernel], &self.functions[place])
    }

    fn reset_trap(&self) -> Result<(), CudaError> {
        self.pool.runtime.fill(self.outcome.address, 0xff, TRAP)
    }

    /// Waits for a run; the error of the trap that counts, if any.
    fn check_trap(&self) -> Result<(), DeviceError> {
        self.outcome(0).map(|_| ())
    }

    /// Waits for a run; the bytes of so many chosen tokens.
    ///
    /// # Errors
    /// The trap that counts, if any.
    fn outcome(&self, tokens: usize) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0u8; if tokens == 0 { TRAP } else { TOKENS + tokens * CHOSEN }];
        self.pool.runtime.download(self.outcome.address, &mut bytes)?;
        let words = bytes.as_chunks::<8>().0;
        let key = u64::from_le_bytes(words[0]);
        if key == u64::MAX {
            bytes.drain(..TOKENS.min(bytes.len()));
            return Ok(bytes);
        }
        let told = u64::from_le_bytes(words[1]) == key;
        let number = |place: usize| i64::from_le_bytes(words[place]);
        let numbers = told.then(|| [number(2), number(3), number(4)]);
        Err(self.program.traps.error(Report { code: key as u32, numbers }))
    }

    /// Where an output of the run that was last lies: its first row, words of a row, and the forest nodes of its rows, if
    /// every row has its own.
    fn placed(&self, place: usize) -> (u64, usize, Option<&[u32]>) {
        let (node, set) = self.program.outputs[place];
        let address = self.plans.get(&self.last).map_or(0, |plan| self.buffer_address(plan, node));
        let words = self.program.buffer(node).map_or(0, |buffer| self.program.buffers[buffer].words);
        (address, words, set.map(|set| &self.batch.sets[set.0][..]))
    }

    /// Words on the device.
    fn words_at(&self, address: u64, count: usize) -> Result<Vec<u32>, CudaError> {
        let mut bytes = vec![0u8; count * 4];
        self.pool.runtime.download(address, &mut bytes)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// The words of an output of a function that was called.
    pub(super) fn words(&self, place: usize) -> Result<Vec<u32>, CudaError> {
        let (address, words, _) = self.placed(place);
        self.words_at(address, words)
    }
}

/// The row of a node among those of an output.
fn row_of(rows: Option<&[u32]>, node: u32) -> usize {
    rows.map_or(0, |rows| rows.binary_search(&node).unwrap_or_default())
}

impl StepMachine for Machine {
    type Session = CudaSession;

    fn graph(&self) -> &Graph {
        &self.program.graph
    }

    fn session(&self) -> CudaSession {
        let graph = &self.program.graph;
        let states = graph.states().iter().zip(&self.program.carried);
        let states: Vec<_> =
            states.map(|(state, carried)| (state.shape.iter().product(), *carried)).collect();
        let histories: Vec<(usize, Option<usize>)> = graph
            .histories()
            .iter()
            .zip(&self.program.reach)
            .map(|(history, &reach)| (elements(graph, history.row), reach))
            .collect();
        CudaSession::new(&states, &histories)
    }

    fn run(
        &mut self,
        forest: &Forest,
        inputs: &InputBuffers<'_>,
        sessions: &mut [&mut CudaSession],
    ) -> Result<(), DeviceError> {
        let batch = Batch::rows(&self.program, forest);
        self.start(batch, inputs, Some((forest, sessions)))?;
        self.check_trap()
    }

    fn run_and_choose(
        &mut self,
        forest: &Forest,
        inputs: &InputBuffers<'_>,
        sessions: &mut [&mut CudaSession],
        choosing: Choosing<'_>,
    ) -> Result<Vec<Chosen>, DeviceError> {
        let Choosing { output, nodes, choices } = choosing;
        let bytes = TOKENS + nodes.len() * CHOSEN;
        if self.outcome.bytes < bytes {
            self.outcome = self.pool.take(bytes.next_power_of_two())?;
        }
        let batch = Batch::rows(&self.program, forest);
        self.start(batch, inputs, Some((forest, sessions)))?;
        if nodes.is_empty() {
            return self.check_trap().map(|()| Vec::new());
        }
        let (address, words, placed) = self.placed(output);
        let logits = nodes.iter().map(|&node| address + (row_of(placed, node) * words * 4) as u64).collect();
        let rows = sampler::Rows { logits, vocabulary: words, choices };
        let sampler = match &mut self.sampler {
            Some(sampler) => sampler,
            none => none.insert(Sampler::new(&self.pool)?),
        };
        sampler.launch(&rows, self.outcome.address + TOKENS as u64)?;
        Ok(sampler::read(&self.outcome(nodes.len())?, choices))
    }

    fn output(&self, place: usize, nodes: &[u32], rows: &mut Collected) -> Result<(), DeviceError> {
        let (address, words, placed) = self.placed(place);
        let wanted: Vec<usize> = nodes.iter().map(|&node| row_of(placed, node)).collect();
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return Ok(()) };
        let found = self.words_at(address + (first * words * 4) as u64, (last - first + 1) * words)?;
        for row in wanted {
            rows.extend(&found[(row - first) * words..][..words]);
        }
        Ok(())
    }

    fn accept(&self, session: &mut CudaSession, path: &[usize]) -> Result<(), DeviceError> {
        let replays = session.replays(&self.pool, path)?;
        self.replay(path, &replays)?;
        Ok(session.accept(&self.pool, path)?)
    }

    fn memory(&self) -> MemoryReport {
        let held = |plan: &Plan| {
            let inputs: usize = plan.inputs.iter().map(|block| block.bytes).sum();
            plan.arena.bytes + plan.scratch.bytes + plan.batch.bytes + inputs
        };
        let mirrors = self.persistent.iter().flatten().chain(&self.constants).map(|block| block.bytes);
        MemoryReport {
            mirrors: mirrors.sum(),
            scratch: self.plans.values().map(held).sum::<usize>()
                + self.sampler.as_ref().map_or(0, Sampler::bytes),
            ..MemoryReport::default()
        }
    }

    fn explain(&self) -> PlanReport {
        report(&self.program)
    }
}

/// The layout of a regime's buffers.
pub(super) fn arena(program: &Program, regime: &Regime) -> MemoryPlan {
    let rows = |rows: RowsOf| match rows {
        RowsOf::Shared => 1,
        RowsOf::Set(set) => regime.tiers[set.0],
        RowsOf::Node => regime.tiers[0],
    };
    let lifetimes: Vec<Lifetime> = program
        .buffers
        .iter()
        .map(|buffer| Lifetime {
            bytes: if buffer.persistent { 0 } else { (buffer.words * 4 * rows(buffer.rows)).max(4) },
            first: buffer.life.0,
            last: buffer.life.1,
        })
        .collect();
    place(&lifetimes)
}

/// One function for each kernel, those of one name the same.
fn functions(program: &Program, runtime: &dyn Runtime) -> Result<Vec<Function>, CudaError> {
    let kernels: Vec<&Kernel> = program.every_kernel().collect();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut names: Vec<KernelName<'_>> = Vec::new();
    for kernel in &kernels {
        places.entry(&kernel.name).or_insert_with(|| {
            names.push(KernelName { name: &kernel.name, arguments: kernel.arguments.len() });
            names.len() - 1
        });
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let compiled = runtime.compile(&program.source(), &names)?;
    Ok(kernels.iter().map(|kernel| compiled[places[kernel.name.as_str()]].clone()).collect())
}
