//! A loaded model: its steps' machines and the open sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use fiddlehead_forest::{Accepted, Forest, SessionId, Wanted};
use fiddlehead_graph::ModelGraph;
use fiddlehead_plan::{
    Collected, DeviceError, Executor, InputBuffers, LoadOptions, MemoryReport, OutputRows, PlanReport,
    Snapshot, Values,
};

use super::device::input_words;
use super::explain;
use super::machine::{Machine, Workshop};
use super::session::{StepSession, StepSnapshot};
use super::sizing::device_facts;
use crate::features::Features;
use crate::pool::Pool;

/// Nodes of the largest forest: its buffers are a bounded part of memory, and longer prompts gain nothing.
const MOST_ROWS: usize = 4096;

/// A model on the CPU.
pub(super) struct CpuExecutor {
    model: Arc<ModelGraph>,
    steps: Vec<Machine>,
    sessions: BTreeMap<SessionId, Vec<StepSession>>,
    pool: Arc<Pool>,
    features: Features,
    options: LoadOptions,
    weight_bytes: usize,
    /// Distinguishes this executor's snapshots from others'.
    identity: Arc<()>,
}

/// The content of a snapshot.
struct Content {
    owner: Arc<()>,
    steps: Vec<StepSnapshot>,
}

impl CpuExecutor {
    pub(super) fn new(
        model: Arc<ModelGraph>,
        steps: Vec<Machine>,
        pool: Arc<Pool>,
        features: Features,
        options: LoadOptions,
        weight_bytes: usize,
    ) -> CpuExecutor {
        let sessions = BTreeMap::new();
        CpuExecutor { model, steps, sessions, pool, features, options, weight_bytes, identity: Arc::new(()) }
    }

    fn session(&self, session: SessionId) -> Result<&Vec<StepSession>, DeviceError> {
        self.sessions.get(&session).ok_or_else(|| unknown(session))
    }

    fn session_step(&mut self, session: SessionId, step: usize) -> Result<&mut StepSession, DeviceError> {
        let count = self.steps.len();
        let steps = self.sessions.get_mut(&session).ok_or_else(|| unknown(session))?;
        steps.get_mut(step).ok_or_else(|| no_step(step, count))
    }

    fn outputs(&self, step: usize, forest: &Forest) -> Vec<OutputRows> {
        let machine = &self.steps[step];
        let graph = &machine.program.graph;
        let mut rows = Vec::with_capacity(graph.outputs().len());
        for (place, output) in graph.outputs().iter().enumerate() {
            // Outputs that a forest cannot tell apart are given to those who want all.
            let mask = Wanted::output(place).unwrap_or(Wanted::ALL);
            let wants = |wanted: &Wanted| match place < fiddlehead_forest::MAX_OUTPUTS {
                true => wanted.intersects(mask),
                false => *wanted == Wanted::ALL,
            };
            let (_, set) = machine.program.outputs[place];
            let mut nodes = Vec::new();
            let mut values = Collected::new(graph.node(output.node).element);
            let mut within = 0;
            for (node, _) in forest.wanted().iter().enumerate().filter(|(_, wanted)| wants(wanted)) {
                let row = match set {
                    None => 0,
                    Some(set) => {
                        let nodes = &machine.batch.sets[set.0].nodes;
                        // Ascending both, and every node that wants the output is in its set.
                        while nodes.get(within).is_some_and(|&other| (other as usize) < node) {
                            within += 1;
                        }
                        within
                    }
                };
                nodes.push(node as u32);
                values.extend(machine.output_row(place, row));
            }
            rows.push(OutputRows { nodes, values: values.values });
        }
        rows
    }
}

fn unknown(session: SessionId) -> DeviceError {
    DeviceError::Session { session: session.0, why: "it is not open".into() }
}

fn no_step(step: usize, count: usize) -> DeviceError {
    DeviceError::Option(format!("there is no step {step}: the model has {count}"))
}

impl Executor for CpuExecutor {
    fn model(&self) -> &ModelGraph {
        &self.model
    }

    fn open(&mut self, session: SessionId) -> Result<(), DeviceError> {
        if self.sessions.contains_key(&session) {
            return Err(DeviceError::Session { session: session.0, why: "it is open already".into() });
        }
        let steps = self.steps.iter().map(Machine::session).collect();
        self.sessions.insert(session, steps);
        Ok(())
    }

    fn close(&mut self, session: SessionId) -> Result<(), DeviceError> {
        self.sessions.remove(&session).map(|_| ()).ok_or_else(|| unknown(session))
    }

    fn position(&self, session: SessionId, step: usize) -> Result<usize, DeviceError> {
        let steps = self.session(session)?;
        steps.get(step).map(|step| step.position).ok_or_else(|| no_step(step, self.steps.len()))
    }

    fn run(
        &mut self,
        step: usize,
        forest: &Forest,
        inputs: &[Values],
    ) -> Result<Vec<OutputRows>, DeviceError> {
        let count = self.steps.len();
        let machine = self.steps.get_mut(step).ok_or_else(|| no_step(step, count))?;
        if forest.len() > MOST_ROWS {
            return Err(DeviceError::Unsupported {
                what: format!("a forest of {} nodes", forest.len()),
                why: format!("the most is {MOST_ROWS}: cut prompts at multiples of 64"),
            });
        }
        let inputs = InputBuffers::new(machine.program.graph.inputs(), inputs, forest.len())?;
        let mut taken = Vec::with_capacity(forest.segments().len());
        for segment in forest.segments() {
            let session = segment.session();
            let steps = self.sessions.get(&session).ok_or_else(|| unknown(session))?;
            if steps[step].position != segment.base() {
                let why = format!(
                    "the segment hangs from {}, it stands at {}",
                    segment.base(),
                    steps[step].position
                );
                return Err(DeviceError::Session { session: session.0, why });
            }
            let deepest = forest.depths()[segment.range()].iter().max().copied().unwrap_or(0) as usize;
            if deepest + 1 > self.options.context {
                return Err(DeviceError::Context { wanted: deepest + 1, context: self.options.context });
            }
        }
        for segment in forest.segments() {
            if let Some(steps) = self.sessions.get_mut(&segment.session()) {
                let mut state = std::mem::take(&mut steps[step]);
                state.pending.set(forest, segment);
                taken.push(state);
            }
        }
        let result = {
            let mut sessions: Vec<&mut StepSession> = taken.iter_mut().collect();
            machine.run(
                Workshop {
                    pool: &self.pool,
                    features: self.features,
                    facts: device_facts(self.features.isa, self.pool.threads()),
                },
                forest,
                &input_words(&inputs),
                &mut sessions,
            )
        };
        for (segment, mut state) in forest.segments().iter().zip(taken) {
            state.pending.active = result.is_ok();
            if let Some(steps) = self.sessions.get_mut(&segment.session()) {
                steps[step] = state;
            }
        }
        result?;
        Ok(self.outputs(step, forest))
    }

    fn commit(&mut self, step: usize, accepted: &Accepted) -> Result<(), DeviceError> {
        let session = accepted.session();
        let isa = self.features.isa;
        let state = self.session_step(session, step)?;
        state.commit(isa, accepted).map_err(|why| DeviceError::Session { session: session.0, why })
    }

    fn discard(&mut self, step: usize, session: SessionId) -> Result<(), DeviceError> {
        self.session_step(session, step).map(StepSession::discard)
    }

    fn snapshot(&mut self, session: SessionId) -> Result<Snapshot, DeviceError> {
        let steps: Vec<StepSnapshot> = self.session(session)?.iter().map(StepSession::snapshot).collect();
        Ok(Snapshot {
            positions: steps.iter().map(StepSnapshot::position).collect(),
            bytes: steps.iter().map(StepSnapshot::bytes).sum(),
            content: Arc::new(Content { owner: Arc::clone(&self.identity), steps }),
        })
    }

    fn restore(&mut self, session: SessionId, snapshot: &Snapshot) -> Result<(), DeviceError> {
        let foreign = || DeviceError::Session {
            session: session.0,
            why: "the snapshot was taken by another executor".into(),
        };
        let content = snapshot.content.downcast_ref::<Content>().ok_or_else(foreign)?;
        if !Arc::ptr_eq(&content.owner, &self.identity) {
            return Err(foreign());
        }
        let steps = self.sessions.get_mut(&session).ok_or_else(|| unknown(session))?;
        for (step, kept) in steps.iter_mut().zip(&content.steps) {
            step.restore(kept);
        }
        Ok(())
    }

    fn memory(&self) -> MemoryReport {
        let sessions = self.sessions.values().flatten().map(StepSession::bytes).sum();
        MemoryReport {
            weights: self.weight_bytes,
            mirrors: self.steps.iter().map(Machine::mirror_bytes).sum(),
            scratch: self.steps.iter().map(Machine::scratch_bytes).sum(),
            sessions,
        }
    }

    fn explain(&self, step: usize) -> Result<PlanReport, DeviceError> {
        let machine = self.steps.get(step).ok_or_else(|| no_step(step, self.steps.len()))?;
        Ok(explain::report(machine, 1, &device_facts(self.features.isa, self.pool.threads())))
    }
}
