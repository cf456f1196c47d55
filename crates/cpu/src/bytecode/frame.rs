//! What a program runs on: memory, rows, histories, and how a run fails.

use fiddlehead_graph::{HistoryId, NodeId};

use super::MAX_AXES;

/// Weights in blocks, read as f32. Implemented by the executor over a stored tensor.
pub trait Decode: Sync {
    /// Elements in all.
    fn elements(&self) -> usize;
    /// Writes the elements from `first` on, in row-major order, as many as `out` holds. `first + out.len()` is at most
    /// [`Decode::elements`].
    fn decode(&self, first: usize, out: &mut [f32]);
}

/// Rows of a history at consecutive depths.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The depth of the first row.
    pub first: i32,
    /// How many rows.
    pub count: i32,
    /// Elements from one row to the next.
    pub stride: usize,
    /// The rows, each row-major in the history's row shape; elements that are no floats as their bits. At least
    /// `(count - 1) * stride` and one row long.
    pub values: &'a [f32],
}

/// The histories of the forest's paths.
pub trait HistoryRows: Sync {
    /// The longest convenient run of rows that holds `depth` on the path of forest node `row`; the node's own row at
    /// its own depth included. `depth` is from zero to the row's `here`. None when the rows are not there, which a run
    /// reports as a trap.
    fn span(&self, history: HistoryId, row: usize, depth: i32) -> Option<Span<'_>>;
}

/// No histories at all: for programs that read none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHistories;

impl HistoryRows for NoHistories {
    fn span(&self, _: HistoryId, _: usize, _: i32) -> Option<Span<'_>> {
        None
    }
}

/// The box of a local tensor for one row: every value of each axis that any point has. Fixed axes begin at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalBox {
    /// How many axes.
    pub rank: usize,
    /// The least value of each axis.
    pub origin: [i32; MAX_AXES],
    /// How many values from the least to the greatest.
    pub extent: [u32; MAX_AXES],
}

impl LocalBox {
    /// Elements to allocate.
    pub fn elements(&self) -> usize {
        self.extent[..self.rank].iter().map(|&extent| extent as usize).product()
    }
}

/// One row's local tensor.
#[derive(Clone, Copy, Debug)]
pub struct LocalRow {
    /// Its memory.
    pub words: *mut u32,
    /// How it lies there.
    pub shape: LocalBox,
}

/// The memory of one tensor. Programs read some slots and write one.
#[derive(Clone, Copy)]
pub struct Slot<'a>(pub(super) Memory<'a>);

#[derive(Clone, Copy)]
pub(super) enum Memory<'a> {
    Empty,
    Words { words: *mut u32, length: usize, row_stride: usize },
    Rows { rows: &'a [*mut u32], length: usize },
    Local { rows: &'a [LocalRow] },
    Bytes { bytes: &'a [u8] },
    Blocks { decode: &'a dyn Decode },
}

// SAFETY: a slot is a pointer whose validity and freedom from races the maker of it vouched for, for every thread that
// runs a program over it.
unsafe impl Send for Slot<'_> {}
// SAFETY: as above.
unsafe impl Sync for Slot<'_> {}

impl<'a> Slot<'a> {
    /// A slot that no program touches.
    pub const EMPTY: Slot<'a> = Slot(Memory::Empty);

    /// `length` words; row `r` begins at `r * row_stride`. A shared tensor has one row and any stride.
    ///
    /// # Safety
    /// The words are readable for `'a`, and writable where a program writes this slot. While a program runs nobody
    /// else writes what it reads, nor touches what it writes.
    pub unsafe fn words(words: *mut u32, length: usize, row_stride: usize) -> Slot<'a> {
        Slot(Memory::Words { words, length, row_stride })
    }

    /// Words that are only read.
    pub fn shared(values: &'a [f32], row_stride: usize) -> Slot<'a> {
        Slot(Memory::Words { words: values.as_ptr() as *mut u32, length: values.len(), row_stride })
    }

    /// One pointer a row, `length` words behind each: states, whose rows lie with their owners.
    ///
    /// # Safety
    /// As for [`Slot::words`], for each row.
    pub unsafe fn rows(rows: &'a [*mut u32], length: usize) -> Slot<'a> {
        Slot(Memory::Rows { rows, length })
    }

    /// A local tensor: one box a row (one box in all when it is shared).
    ///
    /// # Safety
    /// As for [`Slot::words`], for the `shape.elements()` words of each row. `shape` is what
    /// `BlockProgram::local_box` of the program that writes the tensor gave for that row.
    pub unsafe fn local(rows: &'a [LocalRow]) -> Slot<'a> {
        Slot(Memory::Local { rows })
    }

    /// bf16 or f16 weights, in any alignment.
    pub fn bytes(bytes: &'a [u8]) -> Slot<'a> {
        Slot(Memory::Bytes { bytes })
    }

    /// Weights in blocks.
    pub fn blocks(decode: &'a dyn Decode) -> Slot<'a> {
        Slot(Memory::Blocks { decode })
    }
}

/// Everything that a run reads and writes.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The memory, by [`super::SourceLayout::slot`].
    pub slots: &'a [Slot<'a>],
    /// Each row's absolute depth, from zero, below 2^30.
    pub here: &'a [i32],
    /// The paths' histories; rows are asked for by the row's number in this frame.
    pub histories: &'a dyn HistoryRows,
}

/// A run-time failure: the program's text is wrong for these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}, row {row}: {kind}")]
pub struct Trap {
    /// The node whose program failed.
    pub node: NodeId,
    /// The row it failed at.
    pub row: usize,
    /// What happened.
    pub kind: TrapKind,
}

/// What went wrong at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrapKind {
    /// An index outside its axis.
    #[error("index {index} is outside {low}..{high} of axis {axis} of {what}")]
    Index {
        /// What was read.
        what: Read,
        /// Which of its axes.
        axis: usize,
        /// The index.
        index: i64,
        /// The axis's first value.
        low: i64,
        /// One past its last value.
        high: i64,
    },
    /// An integer division by zero.
    #[error("division of an integer by zero")]
    DivisionByZero,
    /// A negative number made an id.
    #[error("{0} is negative and cannot be an id")]
    NegativeId(i32),
    /// A history read above the node's own depth.
    #[error("history {} is read at depth {depth}, above here = {here}", history.0)]
    AboveHere {
        /// The history.
        history: HistoryId,
        /// The depth asked for.
        depth: i64,
        /// The node's own depth.
        here: i32,
    },
    /// The executor holds no row at that depth.
    #[error("history {} holds no row at depth {depth}", history.0)]
    NoHistory {
        /// The history.
        history: HistoryId,
        /// The depth asked for.
        depth: i32,
    },
    /// A slot holds less than the program reads or writes there: the executor's mistake.
    #[error("slot {0} is too small, or not of the kind that its layout says")]
    Slot(usize),
    /// A depth outside 0..2^30.
    #[error("here = {0} is outside 0..2^30")]
    Here(i32),
}

/// A thing that is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// A tensor.
    Node(NodeId),
    /// A history's row.
    History(HistoryId),
}

impl std::fmt::Display for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Read::Node(node) => write!(f, "{node}"),
            Read::History(history) => write!(f, "history {}", history.0),
        }
    }
}
