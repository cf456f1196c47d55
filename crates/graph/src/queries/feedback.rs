//! Which nodes feed back into themselves from one forest node to the next.
//!
//! A site may run over all nodes of a forest at once only when nothing it reads depends on what it gives at an earlier
//! node, except through the state that its own kernel carries.

use crate::ir::{Graph, NodeId, NodeKind};

/// Nodes that depend on one another through states or histories: all of them must run for one forest node before any
/// runs for its children. The incoming state's own node is among them. In graph order.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedbackLoop {
    /// The nodes.
    pub nodes: Vec<NodeId>,
}

/// The loops of a graph: its strongly connected components, once each state's outgoing value leads to its incoming one
/// and each history's row to the history's readers.
pub fn feedback_loops(graph: &Graph) -> Vec<FeedbackLoop> {
    let count = graph.nodes().len();
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); count];
    let mut readers: Vec<Vec<u32>> = vec![Vec::new(); graph.histories().len()];
    for id in graph.node_ids() {
        graph.node(id).kind.for_each_read(&mut |read| users[read.index()].push(id.0), &mut |history| {
            readers[history.index()].push(id.0)
        });
        if let NodeKind::State(state) = graph.node(id).kind {
            users[graph.states()[state.index()].next.index()].push(id.0);
        }
    }
    for (history, readers) in readers.into_iter().enumerate() {
        users[graph.histories()[history].row.index()].extend(readers);
    }
    let mut loops = components(&users);
    loops.retain(|nodes| nodes.len() > 1);
    loops.iter_mut().for_each(|nodes| nodes.sort());
    loops.sort();
    loops.into_iter().map(|nodes| FeedbackLoop { nodes: nodes.into_iter().map(NodeId).collect() }).collect()
}

/// Tarjan's strongly connected components, without recursion.
fn components(edges: &[Vec<u32>]) -> Vec<Vec<u32>> {
    const UNSEEN: u32 = u32::MAX;
    let mut index = vec![UNSEEN; edges.len()];
    let mut low = vec![0u32; edges.len()];
    let mut open = vec![false; edges.len()];
    let (mut stack, mut found, mut counter) = (Vec::new(), Vec::new(), 0);
    for root in 0..edges.len() {
        if index[root] != UNSEEN {
            continue;
        }
        let mut calls = vec![(root, 0usize)];
        while let Some((node, edge)) = calls.pop() {
            if edge == 0 {
                index[node] = counter;
                low[node] = counter;
                counter += 1;
                stack.push(node as u32);
                open[node] = true;
            }
            if let Some(&to) = edges[node].get(edge) {
                calls.push((node, edge + 1));
                let to = to as usize;
                if index[to] == UNSEEN {
                    calls.push((to, 0));
                } else if open[to] {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            if low[node] == index[node] {
                let mut component = Vec::new();
                while let Some(top) = stack.pop() {
                    open[top as usize] = false;
                    component.push(top);
                    if top as usize == node {
                        break;
                    }
                }
                found.push(component);
            }
            if let Some(&(above, _)) = calls.last() {
                low[above] = low[above].min(low[node]);
            }
        }
    }
    found
}
