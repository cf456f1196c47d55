//! How long a tensor is needed, and how far along the dependency order it stands.

use crate::ir::NodeId;

/// When tensors are first and last needed, in graph order.
#[derive(Clone, Debug, PartialEq)]
pub struct Liveness {
    /// By node: the last node that loads it; itself when none does.
    pub last_use: Vec<NodeId>,
    /// By node: it is an output, a state's next or initial value, or a history's row, and so outlives the step.
    pub escapes: Vec<bool>,
    /// By node: the length of the longest chain of loads below it, zero for inputs, parameters and states.
    pub level: Vec<u32>,
    /// By node: the nodes that load it, in graph order, each once.
    pub users: Vec<Vec<NodeId>>,
}
