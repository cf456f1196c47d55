//! What a device supplies: the seam between everything that knows models and everything that knows hardware.
//!
//! A device loads the graphs of a model with its weights and gives back an [`Executor`]. The engine holds executors
//! as trait objects and never asks which device is behind one.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fiddlehead_forest::{Accepted, Forest, SessionId};
use fiddlehead_graph::{Element, Graph, ModelGraph};
use fiddlehead_storage::Tensor;

use crate::explain::PlanReport;
use crate::numerics::Numerics;
use crate::sampling::{Chosen, TokenChoice, choose_rows};

/// A tensor's elements on the host, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Floats.
    F32(Vec<f32>),
    /// Integers.
    I32(Vec<i32>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Token numbers.
    Id(Vec<u32>),
}

impl Values {
    /// How many elements.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::I32(values) => values.len(),
            Values::Bool(values) => values.len(),
            Values::Id(values) => values.len(),
        }
    }
    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The type of the elements.
    pub fn element(&self) -> Element {
        match self {
            Values::F32(_) => Element::F32,
            Values::I32(_) => Element::I32,
            Values::Bool(_) => Element::Bool,
            Values::Id(_) => Element::Id,
        }
    }
    /// The floats, when these are floats.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match self {
            Values::F32(values) => Some(values),
            _ => None,
        }
    }
}

/// One output of a run: a row for each node that wanted it, in the forest's order.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputRows {
    /// Forest nodes whose row is here, ascending.
    pub nodes: Vec<u32>,
    /// `[nodes, ...output shape]`.
    pub values: Values,
}

/// Weights by the names of [`fiddlehead_graph::Param`], each with the shape that the graph declares.
pub type Weights = BTreeMap<String, Tensor>;

/// What the user chose about how a model is run.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Which roundings are allowed.
    pub numerics: Numerics,
    /// Overrides of the dispatch policy, `family → off | auto | candidate name`.
    pub dispatch: BTreeMap<String, String>,
    /// The longest path a session may have, in nodes; a longer one is refused.
    pub context: usize,
    /// Who hears how far weights are copied to the device; one that reads them where they lie says nothing.
    pub uploads: Option<Arc<dyn UploadObserver>>,
}

/// Hears how far weights are copied to a device.
pub trait UploadObserver: fmt::Debug + Send + Sync {
    /// So many of the weights' bytes are on their way or there.
    fn uploaded(&self, done: u64, all: u64);
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions { numerics: Numerics::Auto, dispatch: BTreeMap::new(), context: 4096, uploads: None }
    }
}

/// Everything needed to continue a session from a position: for every step its position, its states and its
/// history. Cheap to clone; the device's part is shared and never changed.
#[derive(Clone)]
pub struct Snapshot {
    /// Nodes committed so far, for each step of the model.
    pub positions: Vec<usize>,
    /// Bytes held on the device for this snapshot.
    pub bytes: usize,
    /// The device's own part.
    pub content: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("positions", &self.positions)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Why a device could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The program asks for something that no kernel of this device serves.
    #[error("{what} cannot run on this device: {why}")]
    Unsupported {
        /// The node or site.
        what: String,
        /// The reason.
        why: String,
    },
    /// A weight is missing or does not have the declared shape.
    #[error("weight `{name}`: {why}")]
    Weight {
        /// Its name in the graph.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// An input is missing, or has the wrong type or length.
    #[error("input `{name}`: {why}")]
    Input {
        /// Its name in the graph.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A session is unknown, is open already, or is not where the forest says.
    #[error("session {session}: {why}")]
    Session {
        /// Its number.
        session: u64,
        /// What is wrong with it.
        why: String,
    },
    /// An index out of range, a division by zero: the program's own fault at run time.
    #[error("`{origin}` trapped: {why}")]
    Trap {
        /// The node's name in the program.
        origin: String,
        /// Byte range in the program's text, when known.
        span: Option<(usize, usize)>,
        /// What happened.
        why: String,
    },
    /// A session would outgrow the context it was loaded with.
    #[error("a path of {wanted} nodes does not fit the context of {context}; load with a longer --context")]
    Context {
        /// Nodes that the path would have.
        wanted: usize,
        /// Nodes that fit.
        context: usize,
    },
    /// Memory ran out.
    #[error("out of memory: {wanted} more bytes were needed for {what}")]
    OutOfMemory {
        /// For what.
        what: String,
        /// How many bytes.
        wanted: usize,
    },
    /// An option that the device does not know.
    #[error("{0}")]
    Option(String),
}

/// Bytes held, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Weights as the file holds them (mapped or embedded, not copied).
    pub weights: usize,
    /// Copies of weights in another form.
    pub mirrors: usize,
    /// Buffers of the current plans.
    pub scratch: usize,
    /// States and histories of open sessions.
    pub sessions: usize,
}

/// What memory is estimated for: one session of [`LoadOptions::context`] nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The steps that will run, by their places in the model.
    pub steps: Vec<usize>,
    /// Nodes of the largest forest.
    pub rows: usize,
}

/// A place where programs run.
pub trait Device: Send + Sync {
    /// Its name and what it can do, for people.
    fn describe(&self) -> String;
    /// Makes a model ready to run.
    fn load(
        &self,
        model: Arc<ModelGraph>,
        weights: Weights,
        options: LoadOptions,
    ) -> Result<Box<dyn Executor>, DeviceError>;
    /// The most bytes that a model will hold on this device, before anything is taken for it.
    ///
    /// # Errors
    /// As [`Device::load`].
    fn estimate(
        &self,
        model: &ModelGraph,
        weights: &Weights,
        options: &LoadOptions,
        workload: &Workload,
    ) -> Result<MemoryReport, DeviceError>;
    /// Runs a plain function (no states, no per-node inputs) once: `inputs` in the graph's order, outputs in the
    /// graph's order.
    fn call(
        &self,
        graph: &Graph,
        inputs: &[Values],
        options: &LoadOptions,
    ) -> Result<Vec<Values>, DeviceError>;
    /// How a graph would be run: sites, refusals, candidates and the numbers behind each choice.
    fn explain(&self, graph: &Graph, options: &LoadOptions) -> Result<PlanReport, DeviceError>;
}

/// A loaded model. Owned and driven by one thread.
///
/// [`Executor::run`] leaves each segment of its forest *pending* in its session: nothing of it counts until
/// [`Executor::commit`] accepts a path of it. A later run on the session, [`Executor::discard`] or
/// [`Executor::restore`] drops what is pending.
pub trait Executor: Send {
    /// The graphs it runs; a step is named by its place here.
    fn model(&self) -> &ModelGraph;
    /// Starts a session at position zero of every step.
    fn open(&mut self, session: SessionId) -> Result<(), DeviceError>;
    /// Ends a session and frees what it held.
    fn close(&mut self, session: SessionId) -> Result<(), DeviceError>;
    /// Nodes committed so far in a step of a session.
    fn position(&self, session: SessionId, step: usize) -> Result<usize, DeviceError>;
    /// Runs a step over a forest. `inputs` come in the graph's order: per-node ones `[nodes, ...shape]`, shared ones
    /// `[...shape]`. Gives one [`OutputRows`] an output of the graph.
    fn run(
        &mut self,
        step: usize,
        forest: &Forest,
        inputs: &[Values],
    ) -> Result<Vec<OutputRows>, DeviceError>;
    /// As [`Executor::run`], but gives no rows: it chooses a token from each row of one output that a node wants, in the
    /// forest's order, by the choice of the same place. A device of its own does so where the rows are, and only the
    /// tokens leave it. Every device chooses as [`crate::sampling::Chooser`] does, to the bit.
    ///
    /// # Errors
    /// As [`Executor::run`]; an output that is not f32, another number of choices than of rows. A row from which no
    /// token can be chosen fails alone.
    fn run_and_choose(
        &mut self,
        step: usize,
        forest: &Forest,
        inputs: &[Values],
        output: usize,
        choices: &[TokenChoice<'_>],
    ) -> Result<Vec<Chosen>, DeviceError> {
        choose_rows(&self.run(step, forest, inputs)?, output, choices)
    }
    /// Keeps the accepted path of the pending segment of its session and drops the rest of that segment.
    fn commit(&mut self, step: usize, accepted: &Accepted) -> Result<(), DeviceError>;
    /// Drops the pending segment of a session.
    fn discard(&mut self, step: usize, session: SessionId) -> Result<(), DeviceError>;
    /// Everything committed in a session.
    fn snapshot(&mut self, session: SessionId) -> Result<Snapshot, DeviceError>;
    /// Puts a session where the snapshot was taken (the same session or another one of this executor).
    fn restore(&mut self, session: SessionId, snapshot: &Snapshot) -> Result<(), DeviceError>;
    /// Bytes held.
    fn memory(&self) -> MemoryReport;
    /// How a step is run.
    fn explain(&self, step: usize) -> Result<PlanReport, DeviceError>;
}
