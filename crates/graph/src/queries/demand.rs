//! Which rows of which nodes anybody will read.

use crate::ir::Graph;

/// Who needs a node's tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Every row: it feeds a state's outgoing value or a history, so later nodes may need it.
    pub all: bool,
    /// Bit `o`: output `o` of the graph needs it, for the rows wanted of that output. Output 63 stands for itself and all
    /// after it.
    pub outputs: u64,
}

impl Demand {
    /// Whether nobody needs it.
    pub fn is_none(self) -> bool {
        !self.all && self.outputs == 0
    }
}

/// The demand of every node, by node: pushed back from outputs, states and histories through everything they read.
pub fn demands(graph: &Graph) -> Vec<Demand> {
    let mut demands = vec![Demand::default(); graph.nodes().len()];
    for (place, output) in graph.outputs().iter().enumerate() {
        demands[output.node.index()].outputs |= 1 << place.min(63);
    }
    for state in graph.states() {
        demands[state.next.index()].all = true;
        demands[state.initial.index()].all = true;
    }
    for history in graph.histories() {
        demands[history.row.index()].all = true;
    }
    for id in graph.node_ids().rev() {
        let demand = demands[id.index()];
        if demand.is_none() {
            continue;
        }
        graph.node(id).kind.for_each_read(
            &mut |read| {
                let below = &mut demands[read.index()];
                below.all |= demand.all;
                below.outputs |= demand.outputs;
            },
            &mut |_| {},
        );
    }
    demands
}
