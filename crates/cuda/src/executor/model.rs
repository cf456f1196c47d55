//! A loaded model: its steps' machines and the open sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use fiddlehead_forest::{Accepted, Forest, MAX_OUTPUTS, SessionId, Wanted};
use fiddlehead_graph::ModelGraph;
use fiddlehead_plan::{
    Collected, DeviceError, Executor, InputBuffers, LoadOptions, MemoryReport, OutputRows, PlanReport,
    Snapshot, Values,
};

use super::device::report;
use super::machine::Machine;
use super::session::{StepSession, StepSnapshot};

/// A model on a GPU.
pub(super) struct CudaExecutor {
    pub model: Arc<ModelGraph>,
    pub steps: Vec<Machine>,
    pub sessions: BTreeMap<SessionId, Vec<StepSession>>,
    pub options: LoadOptions,
    pub weight_bytes: usize,
    /// Distinguishes this executor's snapshots from others'.
    pub identity: Arc<()>,
}

/// The content of a snapshot.
struct Content {
    owner: Arc<()>,
    steps: Vec<StepSnapshot>,
}

impl CudaExecutor {
    fn session_step(&mut self, session: SessionId, step: usize) -> Result<&mut StepSession, DeviceError> {
        let count = self.steps.len();
        let steps = self.sessions.get_mut(&session).ok_or_else(|| unknown(session))?;
        steps.get_mut(step).ok_or_else(|| no_step(step, count))
    }

    fn check(&self, step: usize, forest: &Forest) -> Result<(), DeviceError> {
        for segment in forest.segments() {
            let session = segment.session();
            let steps = self.sessions.get(&session).ok_or_else(|| unknown(session))?;
            let position = steps[step].position;
            if position != segment.base() {
                let why = format!("the segment hangs from {}, it stands at {position}", segment.base());
                return Err(DeviceError::Session { session: session.0, why });
            }
            let deepest = forest.depths()[segment.range()].iter().max().copied().unwrap_or(0) as usize;
            if deepest + 1 > self.options.context {
                return Err(DeviceError::Context { wanted: deepest + 1, context: self.options.context });
            }
        }
        Ok(())
    }

    fn outputs(&self, step: usize, forest: &Forest) -> Result<Vec<OutputRows>, DeviceError> {
        let machine = &self.steps[step];
        let graph = &machine.program.graph;
        let mut rows = Vec::with_capacity(graph.outputs().len());
        for (place, output) in graph.outputs().iter().enumerate() {
            // Outputs that a forest cannot tell apart are given to those who want all.
            let mask = Wanted::output(place).unwrap_or(Wanted::ALL);
            let wants = |wanted: &Wanted| match place < MAX_OUTPUTS {
                true => wanted.intersects(mask),
                false => *wanted == Wanted::ALL,
            };
            let nodes: Vec<u32> = forest
                .wanted()
                .iter()
                .enumerate()
                .filter(|(_, wanted)| wants(wanted))
                .map(|(node, _)| node as u32)
                .collect();
            let mut values = Collected::new(graph.node(output.node).element);
            if !nodes.is_empty() {
                let (words, all) = machine.output(place)?;
                let (_, set) = machine.program.outputs[place];
                for &node in &nodes {
                    let row = set
                        .map_or(0, |set| machine.batch.sets[set.0].binary_search(&node).unwrap_or_default());
                    values.extend(&all[row * words..(row + 1) * words]);
                }
            }
            rows.push(OutputRows { nodes, values: values.values });
        }
        Ok(rows)
    }
}

fn unknown(session: SessionId) -> DeviceError {
    DeviceError::Session { session: session.0, why: "it is not open".into() }
}

fn no_step(step: usize, count: usize) -> DeviceError {
    DeviceError::Option(format!("there is no step {step}: the model has {count}"))
}

impl Executor for CudaExecutor {
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
        let steps = self.sessions.get(&session).ok_or_else(|| unknown(session))?;
        let step = steps.get(step).ok_or_else(|| no_step(step, self.steps.len()))?;
        Ok(step.position)
    }

    fn run(
        &mut self,
        step: usize,
        forest: &Forest,
        inputs: &[Values],
    ) -> Result<Vec<OutputRows>, DeviceError> {
        let count = self.steps.len();
        let machine = self.steps.get(step).ok_or_else(|| no_step(step, count))?;
        let inputs = InputBuffers::new(machine.program.graph.inputs(), inputs, forest.len())?;
        self.check(step, forest)?;
        // The sessions' parts are taken out while the machine runs them, one a segment.
        let mut taken = Vec::with_capacity(forest.segments().len());
        for segment in forest.segments() {
            let fresh = self.steps[step].session();
            if let Some(steps) = self.sessions.get_mut(&segment.session()) {
                let mut state = std::mem::replace(&mut steps[step], fresh);
                state.pending.set(forest, segment);
                taken.push(state);
            }
        }
        let mut sessions: Vec<&mut StepSession> = taken.iter_mut().collect();
        let result = self.steps[step].run(forest, &inputs, &mut sessions);
        for (segment, mut state) in forest.segments().iter().zip(taken) {
            state.pending.active = result.is_ok();
            if let Some(steps) = self.sessions.get_mut(&segment.session()) {
                steps[step] = state;
            }
        }
        result?;
        self.outputs(step, forest)
    }

    fn commit(&mut self, step: usize, accepted: &Accepted) -> Result<(), DeviceError> {
        let pool = self.steps.get(step).map(|machine| Arc::clone(machine.pool()));
        let state = self.session_step(accepted.session(), step)?;
        match pool {
            Some(pool) => state.commit(&pool, accepted),
            None => Ok(()),
        }
    }

    fn discard(&mut self, step: usize, session: SessionId) -> Result<(), DeviceError> {
        self.session_step(session, step).map(|step| step.pending.active = false)
    }

    fn snapshot(&mut self, session: SessionId) -> Result<Snapshot, DeviceError> {
        let steps = self.sessions.get(&session).ok_or_else(|| unknown(session))?;
        let steps: Vec<StepSnapshot> = steps.iter().map(StepSession::snapshot).collect();
        Ok(Snapshot {
            positions: steps.iter().map(|step| step.position).collect(),
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
        MemoryReport {
            weights: self.weight_bytes,
            mirrors: self.steps.iter().map(Machine::mirror_bytes).sum(),
            scratch: self.steps.iter().map(Machine::scratch_bytes).sum(),
            sessions: self.sessions.values().flatten().map(StepSession::bytes).sum(),
        }
    }

    fn explain(&self, step: usize) -> Result<PlanReport, DeviceError> {
        let machine = self.steps.get(step).ok_or_else(|| no_step(step, self.steps.len()))?;
        Ok(report(&machine.program))
    }
}
