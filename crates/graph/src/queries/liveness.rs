//! How long a tensor is needed, and how far along the dependency order it stands.

use std::cell::Cell;

use crate::ir::{Graph, NodeId};

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

/// Uses, levels and last uses of every node.
pub fn liveness(graph: &Graph) -> Liveness {
    let count = graph.nodes().len();
    let mut users: Vec<Vec<NodeId>> = vec![Vec::new(); count];
    let mut level = vec![0; count];
    for id in graph.node_ids() {
        let above = Cell::new(0);
        graph.node(id).kind.for_each_read(
            &mut |read| {
                above.set(above.get().max(level[read.index()] + 1));
                let users = &mut users[read.index()];
                if users.last() != Some(&id) {
                    users.push(id);
                }
            },
            // A history's own row must be there before the history is read at `here`.
            &mut |history| {
                let row = graph.histories()[history.index()].row;
                above.set(above.get().max(level[row.index()] + 1));
            },
        );
        level[id.index()] = above.get();
    }
    let mut escapes = vec![false; count];
    for node in escaping(graph) {
        escapes[node.index()] = true;
    }
    let last_use = graph.node_ids().map(|id| users[id.index()].last().copied().unwrap_or(id)).collect();
    Liveness { last_use, escapes, level, users }
}

fn escaping(graph: &Graph) -> impl Iterator<Item = NodeId> {
    let outputs = graph.outputs().iter().map(|output| output.node);
    let states = graph.states().iter().flat_map(|state| [state.next, state.initial]);
    let rows = graph.histories().iter().map(|history| history.row);
    outputs.chain(states).chain(rows)
}
