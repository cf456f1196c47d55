//! Removal of what no output, state or history needs.

use super::remap::Copy;
use crate::ir::*;

pub(crate) fn remove_dead(graph: &Graph) -> Graph {
    let mut live = vec![false; graph.nodes.len()];
    let mut mark = |node: NodeId| live[node.index()] = true;
    graph.outputs.iter().for_each(|output| mark(output.node));
    graph.histories.iter().for_each(|history| mark(history.row));
    for state in &graph.states {
        mark(state.initial);
        mark(state.next);
    }
    // A node reads earlier ones alone, so one walk backwards finds all. Rows of histories are live already.
    for index in (0..graph.nodes.len()).rev() {
        if live[index] {
            graph.nodes[index].kind.for_each_read(&mut |node| live[node.index()] = true, &mut |_| {});
        }
    }
    let mut copy = Copy::of(graph);
    let mut params = vec![None; graph.params.len()];
    copy.new.params.clear();
    for (index, &live) in live.iter().enumerate() {
        // An input stays: it is what a caller hands in.
        if !live && !matches!(graph.nodes[index].kind, NodeKind::Input(_)) {
            continue;
        }
        let old = NodeId(index as u32);
        let mut node = copy.renumbered(old);
        match &mut node.kind {
            NodeKind::Param(param) => {
                let place = params[param.index()].get_or_insert_with(|| {
                    copy.new.params.push(graph.params[param.index()].clone());
                    ParamId(copy.new.params.len() as u32 - 1)
                });
                *param = *place;
            }
            NodeKind::Scan(scan) => scan.body = remove_dead(&scan.body),
            _ => {}
        }
        copy.push(old, node);
    }
    copy.finish()
}
