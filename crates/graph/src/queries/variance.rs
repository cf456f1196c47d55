//! On what a tensor's value depends.

use std::cell::Cell;

use crate::ir::{Expr, Graph, NodeKind};

/// How often a tensor has to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variance {
    /// On weights and literals alone: once per loaded model.
    Constant,
    /// On shared inputs too: once per run.
    Uniform,
    /// On per-node inputs, `here`, states or histories: once per forest node.
    PerNode,
}

/// The variance of every node, by node.
pub fn variances(graph: &Graph) -> Vec<Variance> {
    let mut found: Vec<Variance> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let mut variance = match &node.kind {
            NodeKind::Param(_) | NodeKind::Constant(_) => Variance::Constant,
            NodeKind::Input(input) if graph.inputs()[input.index()].per_node => Variance::PerNode,
            NodeKind::Input(_) => Variance::Uniform,
            NodeKind::State(_) => Variance::PerNode,
            _ => Variance::Constant,
        };
        let mut reads_path = false;
        if let NodeKind::Compute(compute) = &node.kind {
            compute.for_each_expr(&mut |expr| {
                reads_path |= expr.any(&mut |part| matches!(part, Expr::Here | Expr::History { .. }));
            });
        }
        if reads_path {
            variance = Variance::PerNode;
        }
        let total = Cell::new(variance);
        let raise = |to: Variance| total.set(total.get().max(to));
        node.kind.for_each_read(
            &mut |read| raise(found.get(read.index()).copied().unwrap_or(Variance::PerNode)),
            &mut |_| raise(Variance::PerNode),
        );
        found.push(total.get());
    }
    found
}
