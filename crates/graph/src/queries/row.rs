//! The small shapes: reductions along rows, elementwise chains, gathers of a row, top-k pairs.

use super::affine::expr_uses;
use super::expand::extent;
use super::liveness::Liveness;
use crate::ir::{Expr, FoldKind, Graph, NodeId, NodeKind, Range, TopPart};

/// A fold over fixed axes that is no contraction: one value a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// The node.
    pub node: NodeId,
    /// Rows of one forest node: the product of its axes' extents.
    pub rows: usize,
    /// Elements folded for a row.
    pub length: usize,
    /// Elementwise nodes over the same row that read the result, with a tensor that the fold reads: one row kernel can
    /// do both (a norm). In graph order.
    pub consumers: Vec<NodeId>,
}

/// Elementwise nodes with the same iteration space, each but the last read by later ones of the chain alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The nodes, in graph order; the last one needs a buffer, the others none.
    pub nodes: Vec<NodeId>,
    /// Elements of one forest node.
    pub elements: usize,
}

/// A pick of a contiguous row: `node[c…] = table[index, c…]` with `index` from data.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// The node.
    pub node: NodeId,
    /// The table.
    pub table: NodeId,
    /// Which row: an expression over the node's leading axes.
    pub index: Expr,
    /// How many leading axes of the node `index` ranges over (zero: one row).
    pub leading: usize,
    /// Elements of a row.
    pub row: usize,
}

/// Both results of a top-k over the same operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopPair {
    /// The tensor searched.
    pub operand: NodeId,
    /// How many.
    pub k: usize,
    /// The node of the values, if used.
    pub values: Option<NodeId>,
    /// The node of the indices, if used.
    pub indices: Option<NodeId>,
}

/// The fold along rows at a node; `None` for ordered folds, dependent ranges and other nodes.
pub fn reduction(graph: &Graph, liveness: &Liveness, node: NodeId) -> Option<Reduction> {
    let NodeKind::Compute(compute) = &graph.node(node).kind else { return None };
    let fold = compute.fold.as_ref()?;
    if matches!(fold.kind, FoldKind::Ordered { .. }) {
        return None;
    }
    let rows = shape_of(&compute.axes)?;
    let folded = shape_of(&fold.axes)?;
    let row: Vec<usize> = rows.iter().chain(&folded).copied().collect();
    let mut loads = Vec::new();
    compute.body.visit(&mut |part| {
        if matches!(part, Expr::Load { .. }) {
            loads.push(part);
        }
    });
    let mut consumers = Vec::new();
    // What is made of a row's value alone may stand between.
    let mut sources = vec![node];
    for &user in &liveness.users[node.index()] {
        if is_elementwise_over(graph, user, &rows) && reads_at_own_axes(graph, user, node, rows.len()) {
            sources.push(user);
        }
    }
    for &source in &sources {
        for &user in &liveness.users[source.index()] {
            let fits = is_elementwise_over(graph, user, &row)
                && reads_at_own_axes(graph, user, source, rows.len())
                && shares_a_load(graph, user, &loads);
            if fits && !folded.is_empty() {
                consumers.push(user);
                if source != node {
                    consumers.push(source);
                }
            }
        }
    }
    consumers.sort();
    consumers.dedup();
    Some(Reduction { node, rows: rows.iter().product(), length: folded.iter().product(), consumers })
}

fn shape_of(ranges: &[Range]) -> Option<Vec<usize>> {
    ranges.iter().map(extent).collect()
}

fn is_elementwise_over(graph: &Graph, node: NodeId, shape: &[usize]) -> bool {
    match &graph.node(node).kind {
        NodeKind::Compute(compute) => {
            compute.fold.is_none()
                && compute.guard.is_none()
                && shape_of(&compute.axes).as_deref() == Some(shape)
        }
        _ => false,
    }
}

/// Whether an elementwise node over a fold's whole space reads an element just as the fold does.
fn shares_a_load(graph: &Graph, node: NodeId, loads: &[&Expr]) -> bool {
    match &graph.node(node).kind {
        NodeKind::Compute(compute) => compute.body.any(&mut |part| loads.contains(&part)),
        _ => false,
    }
}

/// Whether `node` loads `source`, and only at its own first `rank` axes in order.
pub(super) fn reads_at_own_axes(graph: &Graph, node: NodeId, source: NodeId, rank: usize) -> bool {
    let NodeKind::Compute(compute) = &graph.node(node).kind else { return false };
    let (mut reads, mut own) = (0, true);
    compute.for_each_expr(&mut |expr| {
        expr.visit(&mut |part| {
            if let Expr::Load { node: loaded, indices } = part
                && *loaded == source
            {
                reads += 1;
                own &= indices.len() == rank
                    && indices.iter().enumerate().all(|(place, index)| *index == Expr::Axis(place));
            }
        })
    });
    reads > 0 && own
}

/// The pick of rows at a node.
pub fn gather(graph: &Graph, node: NodeId) -> Option<Gather> {
    let NodeKind::Compute(compute) = &graph.node(node).kind else { return None };
    if compute.fold.is_some() || compute.guard.is_some() {
        return None;
    }
    let shape = shape_of(&compute.axes)?;
    let Expr::Load { node: table, indices } = &compute.body else { return None };
    let (index, rest) = indices.split_first()?;
    let table_shape = graph.shape(*table)?;
    // From data: the index loads something.
    if !index.any(&mut |part| matches!(part, Expr::Load { .. })) || rest.len() > shape.len() {
        return None;
    }
    let leading = shape.len() - rest.len();
    let own = rest.iter().enumerate().all(|(place, index)| *index == Expr::Axis(leading + place))
        && (leading..shape.len()).all(|axis| !expr_uses(index, axis))
        && shape[leading..] == table_shape[1..];
    own.then(|| Gather {
        node,
        table: *table,
        index: index.clone(),
        leading,
        row: table_shape[1..].iter().product(),
    })
}

/// The top-k pairs of a graph, in graph order.
pub fn tops(graph: &Graph) -> Vec<TopPair> {
    let mut pairs: Vec<TopPair> = Vec::new();
    for node in graph.node_ids() {
        let NodeKind::Top { operand, k, part } = graph.node(node).kind else { continue };
        let known = pairs.iter().position(|pair| {
            let taken = match part {
                TopPart::Values => pair.values,
                TopPart::Indices => pair.indices,
            };
            (pair.operand, pair.k) == (operand, k) && taken.is_none()
        });
        let place = known.unwrap_or_else(|| {
            pairs.push(TopPair { operand, k, values: None, indices: None });
            pairs.len() - 1
        });
        match part {
            TopPart::Values => pairs[place].values = Some(node),
            TopPart::Indices => pairs[place].indices = Some(node),
        }
    }
    pairs
}

/// The elementwise chain that ends at a node, among the nodes that `free` allows; `None` when the node is not elementwise
/// over fixed axes.
pub(super) fn chain(
    graph: &Graph,
    liveness: &Liveness,
    node: NodeId,
    free: &dyn Fn(NodeId) -> bool,
) -> Option<Chain> {
    let NodeKind::Compute(compute) = &graph.node(node).kind else { return None };
    let shape = shape_of(&compute.axes)?;
    if compute.fold.is_some() {
        return None;
    }
    let mut nodes = vec![node];
    let mut pending = vec![node];
    while let Some(at) = pending.pop() {
        let mut reads = Vec::new();
        graph.node(at).kind.for_each_read(&mut |read| reads.push(read), &mut |_| {});
        reads.sort();
        reads.dedup();
        for read in reads {
            let joins = free(read)
                && !nodes.contains(&read)
                && nodes.len() < CHAIN_LIMIT
                && !liveness.escapes[read.index()]
                && is_elementwise_over(graph, read, &shape)
                && liveness.users[read.index()]
                    .iter()
                    .all(|user| nodes.contains(user) && reads_at_own_axes(graph, *user, read, shape.len()));
            if joins {
                nodes.push(read);
                pending.push(read);
            }
        }
    }
    nodes.sort();
    Some(Chain { nodes, elements: shape.iter().product() })
}

/// The most nodes in one chain.
const CHAIN_LIMIT: usize = 64;
