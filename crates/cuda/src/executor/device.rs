//! A GPU as a device: loading models, running plain functions, explaining plans.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fiddlehead_graph::{Graph, ModelGraph, NodeId};
use fiddlehead_plan::{
    Collected, Device, DeviceError, Executor, Family, InputBuffers, LoadOptions, PlanReport, Policy,
    StepReport, Values, Weights,
};
use fiddlehead_storage::Tensor;

use super::machine::Machine;
use super::model::CudaExecutor;
use crate::emit::{Context, Kernel, Program, lower};
use crate::memory::{Block, Pool};
use crate::runtime::Runtime;

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

    pub(crate) fn policy(options: &LoadOptions) -> Result<Policy, DeviceError> {
        Policy::parse(&options.dispatch, |family: Family, name: &str| match family {
            Family::Contraction => name == "chunks",
            Family::Attention => name == "pages",
            Family::Recurrence => name == "serial",
        })
    }
}

impl std::fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.runtime.describe())
    }
}

/// Copies weights to the device, those of one name once.
fn upload(
    pool: &Arc<Pool>,
    program: &Program,
    known: &mut HashMap<String, Arc<Block>>,
) -> Result<Vec<Arc<Block>>, DeviceError> {
    let mut blocks = Vec::new();
    for (param, tensor) in program.graph.params().iter().zip(&program.weights) {
        if let Some(block) = known.get(&param.name) {
            blocks.push(Arc::clone(block));
            continue;
        }
        let block = Arc::new(copy_weight(pool, tensor)?);
        known.insert(param.name.clone(), Arc::clone(&block));
        blocks.push(block);
    }
    Ok(blocks)
}

fn copy_weight(pool: &Arc<Pool>, tensor: &Tensor) -> Result<Block, DeviceError> {
    let block = pool.take(tensor.bytes().len())?;
    pool.runtime.upload(block.address, tensor.bytes())?;
    Ok(block)
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
        let mut known = HashMap::new();
        let mut steps = Vec::new();
        for graph in &model.steps {
            let program = lower(graph, Context { weights: &weights, policy: &policy })?;
            let blocks = upload(&pool, &program, &mut known)?;
            let mut machine = Machine::new(program, blocks, Arc::clone(&pool))?;
            machine.record = self.record;
            steps.push(machine);
        }
        let weight_bytes = known.values().map(|block| block.bytes).sum();
        let (sessions, identity) = (BTreeMap::new(), Arc::new(()));
        Ok(Box::new(CudaExecutor { model, steps, sessions, options, weight_bytes, identity }))
    }

    fn call(
        &self,
        graph: &Graph,
        inputs: &[Values],
        options: &LoadOptions,
    ) -> Result<Vec<Values>, DeviceError> {
        if let Some(input) = graph.inputs().iter().find(|input| input.per_node) {
            let why = "a plain function has no input of each node: load it as a model's step".into();
            return Err(DeviceError::Input { name: input.name.clone(), why });
        }
        if !graph.states().is_empty() || !graph.histories().is_empty() {
            let why = "it has states or histories: load it as a model's step".into();
            return Err(DeviceError::Unsupported { what: format!("`{}`", graph.name()), why });
        }
        let policy = CudaDevice::policy(options)?;
        let inputs = InputBuffers::new(graph.inputs(), inputs, 1)?;
        let program = lower(graph, Context { weights: &Weights::new(), policy: &policy })?;
        let pool = Pool::new(Arc::clone(&self.runtime));
        let mut machine = Machine::new(program, Vec::new(), pool)?;
        machine.run_alone(&inputs)?;
        let mut found = Vec::new();
        for (place, output) in graph.outputs().iter().enumerate() {
            let mut collected = Collected::new(graph.node(output.node).element);
            collected.extend(&machine.output(place)?.1);
            found.push(collected.values);
        }
        Ok(found)
    }

    fn explain(&self, graph: &Graph, options: &LoadOptions) -> Result<PlanReport, DeviceError> {
        let policy = CudaDevice::policy(options)?;
        let weights = fiddlehead_plan::placeholder_weights(graph)?;
        Ok(report(&lower(graph, Context { weights: &weights, policy: &policy })?))
    }
}

/// What runs, for people.
pub(super) fn report(program: &Program) -> PlanReport {
    let name = |node: &NodeId| program.graph.node(*node).origin.name.clone();
    let step = |kernel: &Kernel| StepReport {
        family: kernel.family.into(),
        nodes: kernel.nodes.iter().map(name).collect(),
        candidate: match kernel.family {
            "contraction" => "chunks".into(),
            "attention" => "pages".into(),
            "recurrence" => "serial".into(),
            _ => "emitted".into(),
        },
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
