//! Merging of nodes of equal structure, by their bytes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::encode;
use super::remap::Copy;
use crate::ir::*;

pub(crate) fn merge_equal(graph: &Graph) -> Graph {
    let mut copy = Copy::of(graph);
    let mut known: HashMap<Vec<u8>, NodeId> = HashMap::with_capacity(graph.nodes.len());
    for index in 0..graph.nodes.len() {
        let old = NodeId(index as u32);
        let mut node = copy.renumbered(old);
        if let NodeKind::Scan(scan) = &mut node.kind {
            scan.body = merge_equal(&scan.body);
        }
        match encode::node(&node).map(|bytes| known.entry(bytes)) {
            Some(Entry::Occupied(found)) => copy.stand_for(old, *found.get()),
            Some(Entry::Vacant(free)) => {
                free.insert(copy.push(old, node));
            }
            None => {
                copy.push(old, node);
            }
        }
    }
    copy.finish()
}
