//! Chain fusion: an elementwise tensor is written into the expression that reads it.
//!
//! Two cases, and in both nothing is calculated more often than before:
//! - a *view* (one load with other indices, a literal, integer arithmetic) goes into every reader;
//! - an elementwise tensor with one reader, itself elementwise, of as many points, goes into it.
//!
//! A fold is never moved, so the operands of a fold stay plain loads that the queries can read. An index that is
//! not proven to lie in the vanished tensor keeps the tensor, since its trap would vanish too. A tensor that may trap by
//! itself is kept as well when the reader stands elsewhere in the program: a trap names the place of the array that was
//! being made. A view of views may read each twice, so what an expression grows to is bounded as well.

use std::cell::Cell;

use super::interval::{Interval, Surroundings};
use crate::ir::*;

/// The greatest number of parts that an expression may have once elementwise tensors went into it.
const LONGEST: usize = 256;
/// The same for views, which cost next to nothing and which the queries want to see through.
const LONGEST_OF_VIEWS: usize = 4096;

pub(crate) fn fuse_chains(graph: &Graph) -> Graph {
    let uses = count_uses(graph);
    let mut fused = graph.clone();
    for index in 0..fused.nodes.len() {
        match &fused.nodes[index].kind {
            NodeKind::Compute(compute) => {
                let place = fused.nodes[index].origin.span;
                let reader = Reader::new(&fused, &uses, compute, place);
                let body = reader.expression(&compute.body);
                let mut views = Reader::new(&fused, &uses, compute, place);
                views.only_views = true;
                let mut result = compute.map_exprs(&mut |expr| views.expression(expr));
                result.body = body;
                fused.nodes[index].kind = NodeKind::Compute(result);
            }
            NodeKind::Scan(scan) => {
                let mut scan = scan.clone();
                scan.body = fuse_chains(&scan.body);
                fused.nodes[index].kind = NodeKind::Scan(scan);
            }
            _ => {}
        }
    }
    fused
}

/// How many places read each node.
fn count_uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.nodes.len()];
    for node in &graph.nodes {
        node.kind.for_each_read(&mut |read| uses[read.index()] += 1, &mut |_| {});
    }
    graph.outputs.iter().for_each(|output| uses[output.node.index()] += 1);
    graph.histories.iter().for_each(|history| uses[history.row.index()] += 1);
    for state in &graph.states {
        uses[state.initial.index()] += 1;
        uses[state.next.index()] += 1;
    }
    uses
}

struct Reader<'a> {
    graph: &'a Graph,
    uses: &'a [usize],
    compute: &'a Compute,
    around: Surroundings,
    /// Where the program makes the reader.
    place: Option<(usize, usize)>,
    /// How many parts the expression has by now.
    length: Cell<usize>,
    only_views: bool,
}

impl<'a> Reader<'a> {
    fn new(graph: &'a Graph, uses: &'a [usize], compute: &'a Compute, place: Option<(usize, usize)>) -> Self {
        let around = Surroundings::of(compute, Interval::HERE);
        let length = Cell::new(length(&compute.body));
        Reader { graph, uses, compute, around, place, length, only_views: compute.fold.is_some() }
    }

    fn expression(&self, expr: &Expr) -> Expr {
        let result = expr.map_parts(&mut |part| self.expression(part));
        let Expr::Load { node, indices } = &result else { return result };
        let NodeKind::Compute(source) = &self.graph.node(*node).kind else { return result };
        if source.fold.is_some() || source.guard.is_some() {
            return result;
        }
        let longer = self.length.get() + length(&source.body);
        let wanted = if is_view(&source.body) {
            longer <= LONGEST_OF_VIEWS
        } else {
            longer <= LONGEST
                && !self.only_views
                && self.uses[node.index()] == 1
                && self.covers(&source.axes, indices)
        };
        if !wanted || !self.reaches(&source.axes, indices) {
            return result;
        }
        if self.graph.node(*node).origin.span != self.place && may_trap(self.graph, source) {
            return result;
        }
        let written = substitute(&source.body, indices);
        self.length.set(self.length.get() + length(&written));
        written
    }

    /// Whether the reader has no more points than the source: its axes are the indices, each once.
    fn covers(&self, axes: &[Range], indices: &[Expr]) -> bool {
        let mut seen = vec![false; self.compute.axes.len()];
        for (index, range) in indices.iter().zip(axes) {
            match index {
                Expr::Axis(axis) if *axis < seen.len() && !seen[*axis] => seen[*axis] = true,
                Expr::Int(_) if matches!(range, Range::Fixed(_)) => {}
                _ => return false,
            }
        }
        seen.into_iter().enumerate().all(|(axis, seen)| seen || self.compute.axes[axis] == Range::Fixed(1))
    }

    /// Whether every index is proven to lie inside the source's axis.
    fn reaches(&self, axes: &[Range], indices: &[Expr]) -> bool {
        let folded = self.compute.fold.iter().flat_map(|fold| &fold.axes);
        let ranges: Vec<&Range> = self.compute.axes.iter().chain(folded).collect();
        axes.iter().zip(indices).all(|(range, index)| match (range, index) {
            (Range::Fixed(n), index) => {
                let interval = self.around.interval(index);
                interval.low >= 0 && interval.high < *n as i64
            }
            (Range::Between { .. }, Expr::Axis(axis)) => {
                let wanted = range.map_exprs(&mut |expr| substitute(expr, indices));
                ranges.get(*axis).is_some_and(|range| range.same_values(&wanted))
            }
            _ => false,
        })
    }
}

/// Whether making a tensor may trap. What stands in an arm of an `if` is taken to be guarded by it.
fn may_trap(graph: &Graph, source: &Compute) -> bool {
    let around = Surroundings::of(source, Interval::HERE);
    fn walk(graph: &Graph, around: &Surroundings, expr: &Expr) -> bool {
        let inside = |node: NodeId, indices: &[Expr]| {
            graph.axes(node).iter().zip(indices).all(|(range, index)| match range {
                Range::Fixed(n) => {
                    let interval = around.interval(index);
                    interval.low >= 0 && interval.high < *n as i64
                }
                // Read by an axis with the same ends, which the reader of such a tensor has.
                Range::Between { .. } => matches!(index, Expr::Axis(_)),
            })
        };
        let traps = match expr {
            Expr::Select(condition, ..) => return walk(graph, around, condition),
            Expr::Load { node, indices } => !inside(*node, indices),
            Expr::History { history, depth, indices } => {
                let reads_data = depth.any(&mut |part| matches!(part, Expr::Load { .. }));
                reads_data || !inside(graph.histories()[history.index()].row, indices)
            }
            Expr::Unary(Unary::IntToId, operand) => around.interval(operand).low < 0,
            Expr::Binary(Binary::Divide | Binary::Remainder, _, right) => {
                let by = around.interval(right);
                right.element_in(graph, Element::F32) == Element::I32 && by.low <= 0 && by.high >= 0
            }
            _ => false,
        };
        let mut found = traps;
        expr.for_each_part(&mut |part| found = found || walk(graph, around, part));
        found
    }
    walk(graph, &around, &source.body)
}

/// How many parts an expression has.
fn length(expr: &Expr) -> usize {
    let mut count = 0;
    expr.visit(&mut |_| count += 1);
    count
}

/// Whether an expression only names a value that exists already, or counts.
fn is_view(expr: &Expr) -> bool {
    match expr {
        Expr::Float(_) | Expr::Bool(_) | Expr::Id(_) => true,
        Expr::Load { indices, .. } => indices.iter().all(is_index),
        Expr::History { depth, indices, .. } => is_index(depth) && indices.iter().all(is_index),
        other => is_index(other),
    }
}

fn is_index(expr: &Expr) -> bool {
    match expr {
        Expr::Int(_) | Expr::Axis(_) | Expr::Here => true,
        Expr::Load { indices, .. } => indices.is_empty(),
        Expr::Binary(Binary::Add | Binary::Subtract | Binary::Multiply, left, right) => {
            is_index(left) && is_index(right)
        }
        Expr::Binary(Binary::Divide | Binary::Remainder, left, right) => {
            is_index(left) && matches!(**right, Expr::Int(by) if by > 0)
        }
        _ => false,
    }
}

/// An expression with each axis replaced by an index.
fn substitute(expr: &Expr, indices: &[Expr]) -> Expr {
    match expr {
        Expr::Axis(axis) => indices[*axis].clone(),
        other => other.map_parts(&mut |part| substitute(part, indices)),
    }
}
