//! Copying a graph while its nodes get new numbers.

use crate::ir::*;

/// A copy in the making: the new graph, and where each old node went.
pub(crate) struct Copy<'a> {
    old: &'a Graph,
    pub new: Graph,
    places: Vec<Option<NodeId>>,
}

impl<'a> Copy<'a> {
    /// A copy that has the old graph's tables and no node yet.
    pub fn of(old: &'a Graph) -> Copy<'a> {
        let new = Graph {
            name: old.name.clone(),
            inputs: old.inputs.clone(),
            params: old.params.clone(),
            states: old.states.clone(),
            histories: old.histories.clone(),
            nodes: Vec::with_capacity(old.nodes.len()),
            outputs: old.outputs.clone(),
        };
        Copy { old, new, places: vec![None; old.nodes.len()] }
    }

    /// Adds a node whose reads are already new numbers, standing for the old one.
    pub fn push(&mut self, old: NodeId, node: Node) -> NodeId {
        let id = NodeId(self.new.nodes.len() as u32);
        self.new.nodes.push(node);
        self.places[old.index()] = Some(id);
        id
    }

    /// Lets an old node be a node that is there already.
    pub fn stand_for(&mut self, old: NodeId, new: NodeId) {
        self.places[old.index()] = Some(new);
    }

    /// Where an old node went. A rewrite drops only what nothing kept reads, and keeps the order.
    pub fn place(&self, old: NodeId) -> NodeId {
        debug_assert!(self.places[old.index()].is_some(), "{old} was dropped and is still read");
        self.places[old.index()].unwrap_or(old)
    }

    /// An old node with its reads renumbered.
    pub fn renumbered(&self, old: NodeId) -> Node {
        let node = &self.old.nodes[old.index()];
        let kind = match &node.kind {
            NodeKind::Compute(compute) => {
                NodeKind::Compute(compute.map_exprs(&mut |expr| self.expression(expr)))
            }
            NodeKind::Top { operand, k, part } => {
                NodeKind::Top { operand: self.place(*operand), k: *k, part: *part }
            }
            NodeKind::Scan(scan) => {
                let mut scan = scan.clone();
                scan.captured.iter_mut().for_each(|node| *node = self.place(*node));
                NodeKind::Scan(scan)
            }
            NodeKind::ScanResult { scan, result } => {
                NodeKind::ScanResult { scan: self.place(*scan), result: *result }
            }
            other => other.clone(),
        };
        Node { kind, element: node.element, origin: node.origin.clone() }
    }

    /// An old expression with its reads renumbered.
    pub fn expression(&self, expr: &Expr) -> Expr {
        let mut result = expr.map_parts(&mut |part| self.expression(part));
        if let Expr::Load { node, .. } = &mut result {
            *node = self.place(*node);
        }
        result
    }

    /// The finished copy, with states, histories and outputs renumbered.
    pub fn finish(mut self) -> Graph {
        for index in 0..self.new.states.len() {
            let (initial, next) = (self.old.states[index].initial, self.old.states[index].next);
            self.new.states[index].initial = self.place(initial);
            self.new.states[index].next = self.place(next);
        }
        for index in 0..self.new.histories.len() {
            self.new.histories[index].row = self.place(self.old.histories[index].row);
        }
        for index in 0..self.new.outputs.len() {
            self.new.outputs[index].node = self.place(self.old.outputs[index].node);
        }
        self.new
    }
}
