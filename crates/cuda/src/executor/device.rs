//! A GPU as a device: loading models, running plain functions, explaining plans.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::{Element, Graph, Input, ModelGraph, NodeId};
use fiddlehead_plan::{
    Choice, Collected, Device, DeviceError, Executor, Family, InputBuffers, LoadOptions, MemoryReport,
    ModelExecutor, Numerics, PlanReport, Policy, Regime, StepMachine, StepReport, UploadObserver, Values,
    Weights, Workload, plain_function,
};
use fiddlehead_storage::Tensor;

use super::machine::{Machine, arena};
use super::profile::KernelTime;
use super::states::StateStore;
use crate::emit::{Context, Kernel, Program, lower};
use crate::memory::{Block, Pool};
use crate::runtime::Runtime;

/// Bytes of a weight that are copied before the next word about it.
const UPLOADED_AT_ONCE: usize = 16 << 20;

/// A GPU, or whatever else runs CUDA kernels.
#[derive(Clone)]
pub struct CudaDevice {
    runtime: Arc<dyn Runtime>,
    /// Whether a regime's launches are recorded and replayed.
    record: bool,
}

impl CudaDevice {
    /// The device behind a runtime.
    pub fn new(runtime: Arc<dyn Runtime>) -> CudaDevice {
        CudaDevice { runtime, record: true }
    }

    /// The device that launches every kernel by itself: to be compared with recorded launches.
    pub fn eager(self) -> CudaDevice {
        CudaDevice { record: false, ..self }
    }

    /// Bytes a second, those read and those written together, of so many copies of `bytes` bytes within the device, one
    /// after the other: what a kernel that only moves memory could reach.
    ///
    /// # Errors
    /// When two such blocks of memory cannot be had.
    pub fn copy_bandwidth(&self, bytes: usize, repeats: u32) -> Result<f64, DeviceError> {
        let pool = Pool::new(Arc::clone(&self.runtime));
        let (from, to) = (pool.take(bytes)?, pool.take(bytes)?);
        let runtime = &self.runtime;
        runtime.fill(from.address, 1, bytes)?;
        runtime.copy(to.address, from.address, bytes)?;
        runtime.synchronise()?;
        let started = Instant::now();
        for _ in 0..repeats {
            runtime.copy(to.address, from.address, bytes)?;
        }
        runtime.synchronise()?;
        Ok(2.0 * bytes as f64 * f64::from(repeats) / started.elapsed().as_secs_f64())
    }

    /// The times of the kernels of a plain function, each the mean of so many launches.
    ///
    /// # Errors
    /// As [`Device::call`].
    pub fn time_call(
        &self,
        graph: &Graph,
        inputs: &[Values],
        options: &LoadOptions,
        repeats: u32,
    ) -> Result<Vec<KernelTime>, DeviceError> {
        let (machine, _) = self.called(graph, inputs, options)?;
        Ok(machine.profile(repeats)?)
    }

    /// The times of the kernels of a model's step over a chain of `rows` new nodes of a fresh session, all inputs zero.
    ///
    /// # Errors
    /// As loading and running it.
    pub fn time_step(
        &self,
        graph: &Graph,
        weights: &Weights,
        options: &LoadOptions,
        rows: usize,
        repeats: u32,
    ) -> Result<Vec<KernelTime>, DeviceError> {
        let policy = CudaDevice::policy(options)?;
        let pool = Pool::new(Arc::clone(&self.runtime));
        let program = lower(graph, Context { weights, policy: &policy })?;
        let blocks = Uploads::of(&pool, std::slice::from_ref(&program), None).blocks(&program)?;
        let mut machine = Machine::new(program, blocks, Arc::clone(&pool))?;
        let forest = Forest::single_chain(SessionId(0), 0, rows)
            .map_err(|error| DeviceError::Option(error.to_string()))?;
        let zeros = |input: &Input| {
            let count = input.shape.iter().product::<usize>() * if input.per_node { rows } else { 1 };
            match input.element {
                Element::F32 => Values::F32(vec![0.0; count]),
                Element::I32 => Values::I32(vec![0; count]),
                Element::Bool => Values::Bool(vec![false; count]),
                Element::Id => Values::Id(vec![0; count]),
            }
        };
        let given: Vec<Values> = graph.inputs().iter().map(zeros).collect();
        let inputs = InputBuffers::new(graph.inputs(), &given, rows)?;
        let mut session = machine.session();
        machine.run(&forest, &inputs, &mut [&mut session])?;
        Ok(machine.profile(repeats)?)
    }

    /// Runs a plain function once; gives the machine, and the outputs.
    fn called(
        &self,
        graph: &Graph,
        inputs: &[Values],
        options: &LoadOptions,
    ) -> Result<(Machine, Vec<Values>), DeviceError> {
        plain_function(graph)?;
        let policy = CudaDevice::policy(options)?;
        let inputs = InputBuffers::new(graph.inputs(), inputs, 1)?;
        let program = lower(graph, Context { weights: &Weights::new(), policy: &policy })?;
        let pool = Pool::new(Arc::clone(&self.runtime));
        let mut machine = Machine::new(program, Vec::new(), pool)?;
        machine.run_alone(&inputs)?;
        let mut found = Vec::new();
        for (place, output) in graph.outputs().iter().enumerate() {
            let mut collected = Collected::new(graph.node(output.node).element);
            collected.extend(&machine.words(place)?);
            found.push(collected.values);
        }
        Ok((machine, found))
    }

    pub(crate) fn policy(options: &LoadOptions) -> Result<Policy, DeviceError> {
        let policy = Policy::parse(&options.dispatch, |family: Family, name: &str| match family {
            Family::Contraction => name == "chunks",
            Family::Attention => name == "pages",
            Family::Recurrence => ["serial", "block"].contains(&name),
            Family::Fusion => false,
        })?;
        // The block form rounds prompts otherwise than generated tokens, which is what strict forbids.
        if options.numerics == Numerics::Strict
            && *policy.of(Family::Recurrence) == Choice::Named("block".into())
        {
            return Err(DeviceError::Option(
                "recurrence=block computes prompts and generated tokens apart, which strict numerics forbids; use \
                 recurrence=serial or another contract"
                    .into(),
            ));
        }
        Ok(policy)
    }
}

impl std::fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.runtime.describe())
    }
}

/// Weights on their way to the device, those of one name once.
struct Uploads<'a> {
    pool: &'a Arc<Pool>,
    observer: Option<&'a dyn UploadObserver>,
    known: HashMap<String, Arc<Block>>,
    done: u64,
    all: u64,
}

impl<'a> Uploads<'a> {
    /// The weights of some programs.
    fn of(
        pool: &'a Arc<Pool>,
        programs: &[Program],
        observer: Option<&'a dyn UploadObserver>,
    ) -> Uploads<'a> {
        let mut names = HashSet::new();
        let weights = programs.iter().flat_map(|program| program.graph.params().iter().zip(&program.weights));
        let first = weights.filter(|(param, _)| names.insert(param.name.as_str()));
        let all = first.map(|(_, tensor)| tensor.bytes().len() as u64).sum();
        Uploads { pool, observer, known: HashMap::new(), done: 0, all }
    }

    /// By parameter of a program: its weight on the device.
    fn blocks(&mut self, program: &Program) -> Result<Vec<Arc<Block>>, DeviceError> {
        let mut blocks = Vec::new();
        for (param, tensor) in program.graph.params().iter().zip(&program.weights) {
            if let Some(block) = self.known.get(&param.name) {
                blocks.push(Arc::clone(block));
                continue;
            }
            let block = Arc::new(self.copy(tensor)?);
            self.known.insert(param.name.clone(), Arc::clone(&block));
            blocks.push(block);
        }
        Ok(blocks)
    }

    fn copy(&mut self, tensor: &Tensor) -> Result<Block, DeviceError> {
        let bytes = tensor.bytes();
        let block = self.pool.take(bytes.len())?;
        for (place, piece) in bytes.chunks(UPLOADED_AT_ONCE).enumerate() {
            self.pool.runtime.upload(block.address + (place * UPLOADED_AT_ONCE) as u64, piece)?;
            self.done += piece.len() as u64;
            if let Some(observer) = self.observer {
                observer.uploaded(self.done, self.all);
            }
        }
        Ok(block)
    }
}

impl Device for CudaDevice {
    fn describe(&self) -> String {
        self.runtime.describe()
    }

    fn load(
        &self,
        model: Arc<ModelGraph>,
        weights: Weights,
        options: LoadOptions,
    ) -> Result<Box<dyn Executor>, DeviceError> {
        let policy = CudaDevice::policy(&options)?;
        let pool = Pool::new(Arc::clone(&self.runtime));
        let lowered = |graph| lower(graph, Context { weights: &weights, policy: &policy });
        let programs = model.steps.iter().map(lowered).collect::<Result<Vec<_>, _>>()?;
        let mut uploads = Uploads::of(&pool, &programs, options.uploads.as_deref());
        let mut steps = Vec::new();
        for program in programs {
            let blocks = uploads.blocks(&program)?;
            let mut machine = Machine::new(program, blocks, Arc::clone(&pool))?;
            machine.record = self.record;
            steps.push(machine);
        }
        let weight_bytes = uploads.known.values().map(|block| block.bytes).sum();
        Ok(Box::new(ModelExecutor::new(model, steps, options, weight_bytes)))
    }

    fn estimate(
        &self,
        model: &ModelGraph,
        weights: &Weights,
        options: &LoadOptions,
        workload: &Workload,
    ) -> Result<MemoryReport, DeviceError> {
        let policy = CudaDevice::policy(options)?;
        let bytes = weights.values().map(|tensor| tensor.bytes().len()).sum();
        let mut all = MemoryReport { weights: bytes, ..MemoryReport::default() };
        for (index, graph) in model.steps.iter().enumerate() {
            let program = lower(graph, Context { weights, policy: &policy })?;
            let step = estimate(&program, options.context, workload.rows.min(options.context));
            all.mirrors += step.mirrors;
            if workload.steps.contains(&index) {
                all.scratch = all.scratch.saturating_add(step.scratch);
                all.sessions = all.sessions.saturating_add(step.sessions);
            }
        }
        Ok(all)
    }

    fn call(
        &self,
        graph: &Graph,
        inputs: &[Values],
        options: &LoadOptions,
    ) -> Result<Vec<Values>, DeviceError> {
        self.called(graph, inputs, options).map(|(_, found)| found)
    }

    fn explain(&self, graph: &Graph, options: &LoadOptions) -> Result<PlanReport, DeviceError> {
        let policy = CudaDevice::policy(options)?;
        let weights = fiddlehead_plan::placeholder_weights(graph)?;
        Ok(report(&lower(graph, Context { weights: &weights, policy: &policy })?))
    }
}

/// What one step takes for a session of `context` nodes and runs of at most `rows`, of which one is wanted.
fn estimate(program: &Program, context: usize, rows: usize) -> MemoryReport {
    let regime = Regime::of(std::iter::once(rows).chain(program.sets.iter().skip(1).map(|_| 1)));
    let states = program.graph.states().iter().zip(&program.carried);
    let states =
        states.map(|(state, carried)| StateStore::estimate(state.shape.iter().product(), *carried, rows));
    let histories = program.graph.histories().iter().zip(&program.reach).map(|(history, reach)| {
        let words: usize = program.graph.shape(history.row).map_or(0, |shape| shape.iter().product());
        let kept = reach.map_or(context, |reach| context.min(reach + rows));
        words.saturating_mul(4).saturating_mul(kept.next_multiple_of(64))
    });
    let persistent = program.buffers.iter().filter(|buffer| buffer.persistent);
    let constants = program.constants.iter().map(|values| values.len() * 4);
    MemoryReport {
        weights: 0,
        mirrors: persistent.map(|buffer| buffer.words * 4).chain(constants).sum(),
        scratch: arena(program, &regime).bytes,
        sessions: states.chain(histories).fold(0, usize::saturating_add),
    }
}

/// What runs, for people.
pub(super) fn report(program: &Program) -> PlanReport {
    let name = |node: &NodeId| program.graph.node(*node).origin.name.clone();
    let step = |kernel: &Kernel| StepReport {
        family: kernel.family.into(),
        nodes: kernel.nodes.iter().map(name).collect(),
        candidate: kernel.candidate.into(),
        detail: format!("`{}`, {} threads a block", kernel.name, kernel.block),
        microseconds: 0.0,
    };
    let bytes = |persistent: bool| {
        let buffers = program.buffers.iter().filter(|buffer| buffer.persistent == persistent);
        buffers.map(|buffer| buffer.words * 4).sum::<usize>()
    };
    PlanReport {
        regime: "one row".into(),
        steps: program.kernels.iter().map(step).collect(),
        refusals: program.refusals.clone(),
        planned_bytes: bytes(false),
        unshared_bytes: bytes(false),
    }
}
