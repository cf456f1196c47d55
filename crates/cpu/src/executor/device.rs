//! The CPU as a device: loading models, running plain functions, explaining plans.

use std::sync::Arc;

use fiddlehead_graph::{Graph, ModelGraph, Output};
use fiddlehead_plan::sampling::Chooser;
use fiddlehead_plan::{
    Choice, Collected, Device, DeviceError, DeviceFacts, Executor, Family, InputBuffers, LoadOptions,
    MemoryReport, ModelExecutor, Numerics, PlanReport, Policy, Values, Weights, Workload, plain_function,
};

use super::estimate::estimate;
use super::explain;
use super::lower::{Context, lower};
use super::machine::{InputWords, Machine, Workshop};
use super::model::CpuStep;
use super::served::contract::Arithmetic;
use super::sizing::device_facts;
use crate::features::Features;
use crate::pool::Pool;

/// The processor of this machine and the threads that may be used of it.
///
/// ```
/// use fiddlehead_cpu::executor::CpuDevice;
/// use fiddlehead_plan::Device;
/// let device = CpuDevice::new(2);
/// assert!(device.describe().contains("2 threads"));
/// ```
#[derive(Clone)]
pub struct CpuDevice {
    features: Features,
    pool: Arc<Pool>,
}

impl CpuDevice {
    /// A device of that many threads, the calling one included.
    pub fn new(threads: usize) -> CpuDevice {
        CpuDevice::with_features(threads, Features::detect())
    }

    /// A device that uses no more than some of the machine's features: to compare families of instructions.
    pub fn with_features(threads: usize, features: Features) -> CpuDevice {
        CpuDevice { features, pool: Arc::new(Pool::new(threads)) }
    }

    /// What of the machine it uses.
    pub fn features(&self) -> Features {
        self.features
    }

    fn facts(&self) -> DeviceFacts {
        device_facts(self.features.isa, self.pool.threads())
    }

    fn policy(options: &LoadOptions) -> Result<Policy, DeviceError> {
        let policy = Policy::parse(&options.dispatch, known_candidate)?;
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
        if let Choice::Named(name) = policy.of(Family::Contraction)
            && [Arithmetic::Integer, Arithmetic::Brain].iter().any(|rounding| rounding.name() == name)
            && options.numerics != Numerics::Auto
        {
            return Err(DeviceError::Option(format!(
                "contraction={name} rounds operands, which {} numerics forbid; use contraction={} or auto numerics",
                options.numerics,
                Arithmetic::F32.name()
            )));
        }
        Ok(policy)
    }

    fn context<'a>(
        &self,
        weights: &'a Weights,
        policy: &'a Policy,
        numerics: Numerics,
        architecture: &'a str,
    ) -> Context<'a> {
        Context {
            weights,
            policy,
            numerics,
            architecture,
            features: self.features,
            single_row: false,
            dry: false,
        }
    }
}

/// The candidates of this device by family.
pub(super) fn known_candidate(family: Family, name: &str) -> bool {
    candidates(family).contains(&name)
}

/// Names of the kernels that serve a family beside the general one.
pub(super) fn candidates(family: Family) -> &'static [&'static str] {
    match family {
        Family::Contraction => &["rows", "integer", "bf16", "strided"],
        Family::Attention => &["pages"],
        Family::Recurrence => &["serial", "block"],
        Family::Fusion => &[],
    }
}

impl std::fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Device for CpuDevice {
    fn describe(&self) -> String {
        format!("CPU, {:?}, {} threads", self.features.isa, self.pool.threads())
    }

    fn load(
        &self,
        model: Arc<ModelGraph>,
        weights: Weights,
        options: LoadOptions,
    ) -> Result<Box<dyn Executor>, DeviceError> {
        let policy = CpuDevice::policy(&options)?;
        let context = self.context(&weights, &policy, options.numerics, &model.name);
        let steps = model
            .steps
            .iter()
            .map(|graph| {
                let machine = Machine::new(lower(graph, context)?, self.pool.threads());
                Ok(CpuStep {
                    machine,
                    pool: Arc::clone(&self.pool),
                    features: self.features,
                    chooser: Chooser::default(),
                })
            })
            .collect::<Result<Vec<_>, DeviceError>>()?;
        let bytes = weights.values().map(|tensor| tensor.bytes().len()).sum();
        Ok(Box::new(ModelExecutor::new(model, steps, options, bytes)))
    }

    fn estimate(
        &self,
        model: &ModelGraph,
        weights: &Weights,
        options: &LoadOptions,
        workload: &Workload,
    ) -> Result<MemoryReport, DeviceError> {
        let policy = CpuDevice::policy(options)?;
        let context = Context { dry: true, ..self.context(weights, &policy, options.numerics, &model.name) };
        let bytes = weights.values().map(|tensor| tensor.bytes().len()).sum();
        let mut all = MemoryReport { weights: bytes, ..MemoryReport::default() };
        for (index, graph) in model.steps.iter().enumerate() {
            let machine = Machine::new(lower(graph, context)?, self.pool.threads());
            let step = estimate(&machine, options.context, workload);
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
        plain_function(graph)?;
        let policy = CpuDevice::policy(options)?;
        let weights = Weights::new();
        let context = self.context(&weights, &policy, options.numerics, graph.name());
        let mut machine = Machine::new(lower(graph, context)?, self.pool.threads());
        let inputs = InputBuffers::new(graph.inputs(), inputs, 1)?;
        let facts = self.facts();
        machine.run_alone(
            Workshop { pool: &self.pool, features: self.features, facts },
            &input_words(&inputs),
            false,
        )?;
        let value = |(place, output): (usize, &Output)| {
            let mut words = Collected::new(graph.node(output.node).element);
            words.extend(machine.output_row(place, 0));
            words.values
        };
        Ok(graph.outputs().iter().enumerate().map(value).collect())
    }

    fn explain(&self, graph: &Graph, options: &LoadOptions) -> Result<PlanReport, DeviceError> {
        let policy = CpuDevice::policy(options)?;
        let weights = fiddlehead_plan::placeholder_weights(graph)?;
        let context = self.context(&weights, &policy, options.numerics, graph.name());
        let machine = Machine::new(lower(graph, context)?, self.pool.threads());
        Ok(explain::report(&machine, 1, &self.facts()))
    }
}

/// Where the words of checked inputs begin.
pub(super) fn input_words(inputs: &InputBuffers<'_>) -> Vec<InputWords> {
    inputs.words().iter().map(|words| InputWords { start: words.as_ptr() }).collect()
}
