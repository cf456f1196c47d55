//! Sessions of a loaded model, the same on every device: who is open, where each stands, which segment waits for a
//! commit, what a snapshot holds. A device supplies a [`StepMachine`] for each step and what a session keeps of one
//! ([`StepSession`]); [`ModelExecutor`] makes an [`Executor`] of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fiddlehead_forest::{Accepted, Forest, MAX_OUTPUTS, NO_PARENT, Segment, SessionId, Shape, Wanted};
use fiddlehead_graph::{Element, Graph, ModelGraph};

use crate::device::{DeviceError, Executor, LoadOptions, MemoryReport, OutputRows, Snapshot, Values};
use crate::explain::PlanReport;
use crate::sampling::{Chosen, TokenChoice, check_choices, no_logits};
use crate::values::{Collected, InputBuffers};

/// Nodes of the largest forest: its buffers are a bounded part of memory, and longer prompts gain nothing.
const MOST_ROWS: usize = 4096;

/// What a session keeps of one step on a device.
pub trait StepSession: Default + Send {
    /// What a snapshot keeps of it: shared with the session until that writes.
    type Kept: Send + Sync + 'static;
    /// The pending segment.
    fn pending(&self) -> &Pending;
    /// The pending segment.
    fn pending_mut(&mut self) -> &mut Pending;
    /// Everything committed.
    fn keep(&self) -> Self::Kept;
    /// Puts the session where a snapshot was taken.
    fn restore(&mut self, kept: &Self::Kept);
    /// Bytes held.
    fn bytes(&self) -> usize;
    /// Bytes that a snapshot holds.
    fn kept_bytes(kept: &Self::Kept) -> usize;
}

/// Tokens to be chosen from rows of a run.
#[derive(Clone, Copy, Debug)]
pub struct Choosing<'a> {
    /// The place of the output that holds their logits, f32.
    pub output: usize,
    /// The forest nodes whose rows are read, ascending; each wants the output.
    pub nodes: &'a [u32],
    /// One for each node.
    pub choices: &'a [TokenChoice<'a>],
}

/// One graph on a device.
pub trait StepMachine: Send {
    /// What a session keeps of it.
    type Session: StepSession;
    /// The graph.
    fn graph(&self) -> &Graph;
    /// A session that nothing was committed to.
    fn session(&self) -> Self::Session;
    /// Runs a forest over its sessions, one a segment.
    ///
    /// # Errors
    /// Traps, and whatever the device says.
    fn run(
        &mut self,
        forest: &Forest,
        inputs: &InputBuffers<'_>,
        sessions: &mut [&mut Self::Session],
    ) -> Result<(), DeviceError>;
    /// Runs a forest as [`StepMachine::run`] does, and chooses tokens from its rows.
    ///
    /// # Errors
    /// As [`StepMachine::run`]. A row from which no token can be chosen fails alone.
    fn run_and_choose(
        &mut self,
        forest: &Forest,
        inputs: &InputBuffers<'_>,
        sessions: &mut [&mut Self::Session],
        choosing: Choosing<'_>,
    ) -> Result<Vec<Chosen>, DeviceError>;
    /// Collects rows of an output of the run that was last, by forest node; each is one that wants it.
    ///
    /// # Errors
    /// Whatever the device says.
    fn output(&self, place: usize, nodes: &[u32], rows: &mut Collected) -> Result<(), DeviceError>;
    /// Keeps the nodes of a checked path, counted from the pending segment's first, and drops the rest of it. The position
    /// is the caller's.
    ///
    /// # Errors
    /// Whatever the device says.
    fn accept(&self, session: &mut Self::Session, path: &[usize]) -> Result<(), DeviceError>;
    /// Bytes of mirrors and scratch.
    fn memory(&self) -> MemoryReport;
    /// How it is run.
    fn explain(&self) -> PlanReport;
}

/// Where a session stands in a step, and the segment that ran and was not committed yet.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// Nodes committed.
    pub position: usize,
    /// Whether a segment waits.
    active: bool,
    first: usize,
    /// Its nodes.
    pub count: usize,
    /// Each node's parent, counted from the first; empty for a chain.
    parents: Vec<u32>,
}

impl Pending {
    /// A chain of so many nodes that waits after `position` committed ones.
    pub fn chain(position: usize, count: usize) -> Pending {
        Pending { position, active: true, first: 0, count, parents: Vec::new() }
    }

    /// Whether the segment is a single node or a chain.
    pub fn is_chain(&self) -> bool {
        self.parents.is_empty()
    }

    /// Takes in a segment that is about to run.
    fn begin(&mut self, forest: &Forest, segment: &Segment) {
        self.first = segment.first();
        self.count = segment.count();
        self.parents.clear();
        if segment.shape() == Shape::Tree {
            let first = segment.first() as u32;
            self.parents.extend(forest.parents()[segment.range()].iter().map(|&parent| match parent {
                NO_PARENT => NO_PARENT,
                parent => parent - first,
            }));
        }
    }

    /// The segment no longer waits.
    pub fn end(&mut self) {
        self.active = false;
    }

    /// The parent of a node, both counted from the segment's first.
    fn parent(&self, node: usize) -> Option<usize> {
        match self.parents.get(node) {
            Some(&NO_PARENT) => None,
            Some(&parent) => Some(parent as usize),
            None => node.checked_sub(1),
        }
    }

    /// The nodes of an accepted path, counted from the segment's first.
    fn path(&self, accepted: &Accepted) -> Result<Vec<usize>, String> {
        if !self.active {
            return Err("no segment is pending: run one first".into());
        }
        if accepted.base() != self.position {
            let (base, position) = (accepted.base(), self.position);
            return Err(format!("the path hangs from {base}, the session stands at {position}"));
        }
        let mut parent = None;
        let mut path = Vec::with_capacity(accepted.len());
        for &node in accepted.nodes() {
            let node = (node as usize).wrapping_sub(self.first);
            if node >= self.count || self.parent(node) != parent {
                return Err("the accepted path is not one of the pending segment".into());
            }
            parent = Some(node);
            path.push(node);
        }
        Ok(path)
    }
}

/// A loaded model on a device.
pub struct ModelExecutor<M: StepMachine> {
    model: Arc<ModelGraph>,
    steps: Vec<M>,
    sessions: BTreeMap<SessionId, Vec<M::Session>>,
    options: LoadOptions,
    weight_bytes: usize,
    /// Distinguishes this executor's snapshots from others'.
    identity: Arc<()>,
}

/// The content of a snapshot.
struct Content<K> {
    owner: Arc<()>,
    steps: Vec<(usize, K)>,
}

impl<M: StepMachine> ModelExecutor<M> {
    /// A model whose steps are ready, over so many bytes of weights.
    pub fn new(
        model: Arc<ModelGraph>,
        steps: Vec<M>,
        options: LoadOptions,
        weight_bytes: usize,
    ) -> ModelExecutor<M> {
        ModelExecutor {
            model,
            steps,
            sessions: BTreeMap::new(),
            options,
            weight_bytes,
            identity: Arc::new(()),
        }
    }

    fn machine(&self, step: usize) -> Result<&M, DeviceError> {
        let count = self.steps.len();
        let none = || DeviceError::Option(format!("there is no step {step}: the model has {count}"));
        self.steps.get(step).ok_or_else(none)
    }

    fn session(&self, session: SessionId) -> Result<&Vec<M::Session>, DeviceError> {
        self.sessions.get(&session).ok_or_else(|| unknown(session))
    }

    /// The session's part in a step that exists.
    fn part(&mut self, session: SessionId, step: usize) -> Result<&mut M::Session, DeviceError> {
        self.machine(step)?;
        let steps = self.sessions.get_mut(&session).ok_or_else(|| unknown(session))?;
        Ok(&mut steps[step])
    }

    fn check(&self, step: usize, forest: &Forest) -> Result<(), DeviceError> {
        if forest.len() > MOST_ROWS {
            return Err(DeviceError::Unsupported {
                what: format!("a forest of {} nodes", forest.len()),
                why: format!("the most is {MOST_ROWS}: cut prompts at multiples of 64"),
            });
        }
        for segment in forest.segments() {
            let session = segment.session();
            let position = self.session(session)?[step].pending().position;
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
        let graph = machine.graph();
        let mut rows = Vec::with_capacity(graph.outputs().len());
        for (place, output) in graph.outputs().iter().enumerate() {
            let nodes = wanting(forest, place);
            let mut values = Collected::new(graph.node(output.node).element);
            if !nodes.is_empty() {
                machine.output(place, &nodes, &mut values)?;
            }
            rows.push(OutputRows { nodes, values: values.values });
        }
        Ok(rows)
    }

    /// Lets a machine run a forest over its sessions, one a segment, whose segments wait for a commit from then on.
    fn advance<T>(
        &mut self,
        step: usize,
        forest: &Forest,
        inputs: &[Values],
        run: impl FnOnce(&mut M, &InputBuffers<'_>, &mut [&mut M::Session]) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let inputs = InputBuffers::new(self.machine(step)?.graph().inputs(), inputs, forest.len())?;
        self.check(step, forest)?;
        // The sessions' parts are taken out while the machine runs them, one a segment.
        let mut taken = Vec::with_capacity(forest.segments().len());
        for segment in forest.segments() {
            let mut part = std::mem::take(self.part(segment.session(), step)?);
            part.pending_mut().begin(forest, segment);
            taken.push(part);
        }
        let result = {
            let mut sessions: Vec<&mut M::Session> = taken.iter_mut().collect();
            run(&mut self.steps[step], &inputs, &mut sessions)
        };
        for (segment, mut part) in forest.segments().iter().zip(taken) {
            part.pending_mut().active = result.is_ok();
            *self.part(segment.session(), step)? = part;
        }
        result
    }
}

/// The nodes of a forest that want an output. Outputs that a forest cannot tell apart are given to those who want all.
fn wanting(forest: &Forest, output: usize) -> Vec<u32> {
    let mask = Wanted::output(output).unwrap_or(Wanted::ALL);
    let wants = |wanted: Wanted| match output < MAX_OUTPUTS {
        true => wanted.intersects(mask),
        false => wanted == Wanted::ALL,
    };
    (0..forest.len() as u32).filter(|&node| wants(forest.wanted()[node as usize])).collect()
}

fn unknown(session: SessionId) -> DeviceError {
    DeviceError::Session { session: session.0, why: "it is not open".into() }
}

impl<M: StepMachine> Executor for ModelExecutor<M> {
    fn model(&self) -> &ModelGraph {
        &self.model
    }

    fn open(&mut self, session: SessionId) -> Result<(), DeviceError> {
        if self.sessions.contains_key(&session) {
            return Err(DeviceError::Session { session: session.0, why: "it is open already".into() });
        }
        let steps = self.steps.iter().map(M::session).collect();
        self.sessions.insert(session, steps);
        Ok(())
    }

    fn close(&mut self, session: SessionId) -> Result<(), DeviceError> {
        self.sessions.remove(&session).map(|_| ()).ok_or_else(|| unknown(session))
    }

    fn position(&self, session: SessionId, step: usize) -> Result<usize, DeviceError> {
        self.machine(step)?;
        Ok(self.session(session)?[step].pending().position)
    }

    fn run(
        &mut self,
        step: usize,
        forest: &Forest,
        inputs: &[Values],
    ) -> Result<Vec<OutputRows>, DeviceError> {
        self.advance(step, forest, inputs, |machine, inputs, sessions| {
            machine.run(forest, inputs, sessions)
        })?;
        self.outputs(step, forest)
    }

    fn run_and_choose(
        &mut self,
        step: usize,
        forest: &Forest,
        inputs: &[Values],
        output: usize,
        choices: &[TokenChoice<'_>],
    ) -> Result<Vec<Chosen>, DeviceError> {
        let graph = self.machine(step)?.graph();
        let node = graph.outputs().get(output).map(|output| output.node);
        if node.is_none_or(|node| graph.node(node).element != Element::F32) {
            return Err(no_logits(output));
        }
        let nodes = wanting(forest, output);
        check_choices(nodes.len(), choices)?;
        let choosing = Choosing { output, nodes: &nodes, choices };
        self.advance(step, forest, inputs, |machine, inputs, sessions| {
            machine.run_and_choose(forest, inputs, sessions, choosing)
        })
    }

    fn commit(&mut self, step: usize, accepted: &Accepted) -> Result<(), DeviceError> {
        let id = accepted.session();
        self.part(id, step)?;
        // Apart, so that the machine and the session may be borrowed together.
        let (machine, sessions) = (&self.steps[step], &mut self.sessions);
        let session = &mut sessions.get_mut(&id).ok_or_else(|| unknown(id))?[step];
        let path =
            session.pending().path(accepted).map_err(|why| DeviceError::Session { session: id.0, why })?;
        machine.accept(session, &path)?;
        session.pending_mut().position += path.len();
        session.pending_mut().end();
        Ok(())
    }

    fn discard(&mut self, step: usize, session: SessionId) -> Result<(), DeviceError> {
        self.part(session, step).map(|part| part.pending_mut().end())
    }

    fn snapshot(&mut self, session: SessionId) -> Result<Snapshot, DeviceError> {
        let parts = self.session(session)?;
        let steps: Vec<_> = parts.iter().map(|part| (part.pending().position, part.keep())).collect();
        Ok(Snapshot {
            positions: steps.iter().map(|(position, _)| *position).collect(),
            bytes: steps.iter().map(|(_, kept)| M::Session::kept_bytes(kept)).sum(),
            content: Arc::new(Content { owner: Arc::clone(&self.identity), steps }),
        })
    }

    fn restore(&mut self, session: SessionId, snapshot: &Snapshot) -> Result<(), DeviceError> {
        let foreign = || DeviceError::Session {
            session: session.0,
            why: "the snapshot was taken by another executor".into(),
        };
        type Kept<M> = <<M as StepMachine>::Session as StepSession>::Kept;
        let content = snapshot.content.downcast_ref::<Content<Kept<M>>>().ok_or_else(foreign)?;
        if !Arc::ptr_eq(&content.owner, &self.identity) {
            return Err(foreign());
        }
        let steps = self.sessions.get_mut(&session).ok_or_else(|| unknown(session))?;
        for (part, (position, kept)) in steps.iter_mut().zip(&content.steps) {
            part.restore(kept);
            part.pending_mut().position = *position;
            part.pending_mut().end();
        }
        Ok(())
    }

    fn memory(&self) -> MemoryReport {
        let mut all = MemoryReport { weights: self.weight_bytes, ..MemoryReport::default() };
        for machine in &self.steps {
            let step = machine.memory();
            all.mirrors += step.mirrors;
            all.scratch += step.scratch;
        }
        all.sessions = self.sessions.values().flatten().map(StepSession::bytes).sum();
        all
    }

    fn explain(&self, step: usize) -> Result<PlanReport, DeviceError> {
        Ok(self.machine(step)?.explain())
    }
}
