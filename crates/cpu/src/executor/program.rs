//! A graph as the executor runs it: buffers, and steps over them. Made once by [`super::lower`]; nothing here changes
//! from run to run.

use std::sync::Arc;

use fiddlehead_graph::{Graph, HistoryId, InputId, NodeId, ParamId, StateId};
use fiddlehead_storage::Tensor;

use super::memory::Words;
use super::scan::ScanStep;
use super::served::attend::AttendStep;
use super::served::contract::ContractStep;
use super::served::delta::{DeltaShape, DeltaStep};
use super::served::gathered::GatheredStep;
use super::served::strided::StridedStep;
use crate::bytecode::{BlockProgram, Outer};
use fiddlehead_plan::order::{RowSet, SetIndex};

/// A buffer, by its place in [`Program::buffers`]; also the slot of bytecode programs.
pub(super) type BufferIndex = usize;

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// As the checkpoint stores it.
    Weight(ParamId),
    /// Computed at loading: by its place in [`Program::constants`].
    Constant(usize),
    /// In the caller's memory.
    Input { input: InputId, per_node: bool },
    /// In the arena, once for all rows.
    Uniform,
    /// In the arena, one for each row of the set.
    Rows(SetIndex),
    /// With the sessions: the parent's outgoing value.
    State(StateId, SetIndex),
    /// A local tensor; none: shared by all rows. Its memory is taken when a row's size is known.
    Local(Option<SetIndex>),
}

/// One tensor's memory.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub node: NodeId,
    pub place: Place,
    /// Words of one row; zero for local tensors.
    pub elements: usize,
    /// The first and the last step that touch it.
    pub life: (usize, usize),
}

/// A program's part of the work of one row.
#[derive(Debug)]
pub(super) enum RowOp {
    /// Computes a node.
    Run(Box<NodeProgram>),
    /// Copies a row to a history.
    Append { history: HistoryId, from: BufferIndex },
    /// Copies a row to a state's outgoing value.
    Store { state: StateId, from: BufferIndex },
}

/// A node's bytecode.
#[derive(Debug)]
pub(super) struct NodeProgram {
    pub node: NodeId,
    pub code: BlockProgram,
    pub to: BufferIndex,
    /// Whether the result is local.
    pub local: bool,
    /// The outermost axis, when threads may share one row's work along it.
    pub outer: Option<Outer>,
    /// About how many nanoseconds a row takes.
    pub cost: usize,
}

/// Row operations that each row runs through by itself.
#[derive(Debug)]
pub(super) struct Group {
    pub set: SetIndex,
    pub ops: Vec<RowOp>,
    /// About how many nanoseconds a row takes.
    pub cost: usize,
    /// Whether some result is local: then operations run one after another over a block of rows.
    pub local: bool,
    /// Whether every local result is read within the group alone, so that its memory is free after a block.
    pub closed: bool,
}

/// Copies the rows that a smaller set holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather {
    pub from: BufferIndex,
    /// None when `from` holds every row.
    pub from_set: SetIndex,
    pub to: BufferIndex,
    pub set: SetIndex,
}

/// One step of a program.
#[derive(Debug)]
pub(super) enum Step {
    Uniform(Vec<NodeProgram>),
    Rows(Group),
    Gather(Vec<Gather>),
    Contract(ContractStep),
    Gathered(GatheredStep),
    Strided(Box<StridedStep>),
    Attend(Box<AttendStep>),
    Delta(Box<DeltaStep>),
    Scan(Box<ScanStep>),
    /// Steps over all rows, run through for one row after another.
    Serial(Vec<Step>),
}

/// A graph ready to run.
#[derive(Debug)]
pub(super) struct Program {
    pub graph: Graph,
    pub sets: Vec<RowSet>,
    pub buffers: Vec<Buffer>,
    pub steps: Vec<Step>,
    /// By output: its buffer, and its set when every row has its own.
    pub outputs: Vec<(BufferIndex, Option<SetIndex>)>,
    /// By state: the buffer of its initial value.
    pub initials: Vec<BufferIndex>,
    /// By state: what a commit needs to know when a kernel carries it.
    pub carried: Vec<Option<Arc<DeltaShape>>>,
    /// By history: words of a row.
    pub row_words: Vec<usize>,
    /// By history: how many rows back it is read, its own included; none when all of it.
    pub reach: Vec<Option<usize>>,
    /// By parameter.
    pub weights: Vec<Tensor>,
    pub constants: Vec<Words>,
    /// Bodies of loops, until the machine takes them.
    pub loops: Vec<Program>,
    pub refusals: Vec<(String, String)>,
}

impl Program {
    /// Bytes of constants and of weights copied for alignment.
    pub(super) fn mirror_bytes(&self) -> usize {
        self.constants.iter().map(Words::bytes).sum()
    }
}
