//! Where the tensors of one graph lie, as code addresses them.

use fiddlehead_graph::{Element, Graph, HistoryId, NodeId, StateId};
use fiddlehead_plan::order::SetIndex;
use fiddlehead_storage::Format;

use super::kernel::Argument;

/// Whose rows a buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsOf {
    /// One for all.
    Shared,
    /// One for each row of a set.
    Set(SetIndex),
    /// One for each forest node.
    Node,
}

/// Where a tensor lies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spot {
    /// A weight as it is stored.
    Weight(Argument, Format),
    /// Words behind an argument.
    Words(Argument, RowsOf),
    /// Words at an address that the code knows by that expression, a `u32*`.
    At(String),
    /// A state's incoming value.
    State(StateId),
    /// Computed anew wherever it is read: its extents are not known before.
    Local,
    /// Never read.
    Nowhere,
}

/// Where a history's rows lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HistorySpot {
    /// With the sessions.
    Pages(HistoryId),
    /// Row after row at an address that the code knows by that expression.
    At(String),
}

/// One graph as kernels see it: a program's own, or the body of a loop inside it.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    pub graph: &'a Graph,
    pub spots: Vec<Spot>,
    pub histories: Vec<HistorySpot>,
    /// The name of the depth.
    pub here: String,
    /// The set whose rows the code runs for; none when once for all.
    pub set: Option<SetIndex>,
}

/// The C type of an element.
pub(crate) fn type_of(element: Element) -> &'static str {
    match element {
        Element::F32 => "float",
        Element::I32 => "int",
        Element::Bool => "bool",
        Element::Id => "u32",
    }
}

/// Elements of one row of a tensor whose axes are fixed; zero for others.
pub(crate) fn elements(graph: &Graph, node: NodeId) -> usize {
    graph.shape(node).map_or(0, |shape| shape.iter().product())
}
