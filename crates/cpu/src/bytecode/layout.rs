//! Where the tensors that a program reads and writes lie: what is known when it is compiled.

use fiddlehead_graph::{HistoryId, NodeId};

/// How the elements of a slot are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Four bytes an element, the machine's order: f32, i32, an id (u32), or a bool (0 or 1). What every program
    /// writes.
    Words,
    /// bf16 weights, two bytes an element.
    Bf16,
    /// f16 weights, two bytes an element.
    F16,
    /// Weights in blocks, read through [`super::Decode`]; strides must be row-major.
    Blocks,
}

/// Where the elements of a tensor lie within its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strides {
    /// Elements from one value of an axis to the next, one an axis.
    Fixed(Vec<usize>),
    /// A local tensor (one with an axis [`fiddlehead_graph::Range::Between`]): row-major in the box that
    /// `BlockProgram::local_box` of the program that writes it gives for the row.
    Local,
}

/// Where a tensor lies: the executor's answer for each node that a program reads, and for the one it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLayout {
    /// Its place in [`super::Frame::slots`].
    pub slot: usize,
    /// How elements are stored.
    pub format: Format,
    /// Where elements lie.
    pub strides: Strides,
    /// Whether every row (forest node) has its own; otherwise all rows share one.
    pub per_node: bool,
}

impl SourceLayout {
    /// Words in row-major order of `shape`.
    pub fn row_major(slot: usize, shape: &[usize], per_node: bool) -> SourceLayout {
        SourceLayout {
            slot,
            format: Format::Words,
            strides: Strides::Fixed(row_major_strides(shape)),
            per_node,
        }
    }

    /// A local tensor's words, in the box of its row.
    pub fn local(slot: usize, per_node: bool) -> SourceLayout {
        SourceLayout { slot, format: Format::Words, strides: Strides::Local, per_node }
    }
}

/// Strides of a dense tensor of `shape`, the last axis fastest.
pub fn row_major_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Why a node cannot become a program. All are mistakes of the caller or sizes beyond any machine; a valid graph with
/// right layouts compiles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Only computed tensors and top-k have programs.
    #[error("{0} is not a computed tensor or a top-k, so it has no program")]
    NotComputed(NodeId),
    /// The layout given for a node does not fit its shape.
    #[error("{node} read by {reader}: its layout {problem}")]
    Layout {
        /// The node that reads.
        reader: NodeId,
        /// The node whose layout is wrong.
        node: NodeId,
        /// What is wrong.
        problem: &'static str,
    },
    /// A history's row must have fixed extents.
    #[error("{reader} reads history {}, whose row has no fixed shape", history.0)]
    History {
        /// The node that reads.
        reader: NodeId,
        /// The history.
        history: HistoryId,
    },
    /// An expression breaks a rule of the graph's validator.
    #[error("{node} is not valid: {problem}")]
    Invalid {
        /// The node.
        node: NodeId,
        /// What is wrong.
        problem: &'static str,
    },
    /// More axes than a program keeps apart.
    #[error("{0} has more than {max} axes, folded ones included", max = super::MAX_AXES)]
    TooManyAxes(NodeId),
}
