//! What a site reads: a tensor or a history's row, through index forms over the site's axes.

use super::affine::{Affine, Atom};
use super::variance::Variance;
use crate::ir::{Compute, Expr, Graph, HistoryId, NodeId, Range};

/// One thing that a site reads, element by element, as a function of the *site's axes*. Each descriptor says how it
/// numbers its axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Where the elements come from.
    pub source: Source,
    /// For [`Source::History`]: the absolute depth that is read. Absent otherwise.
    pub depth: Option<Affine>,
    /// One form for each axis of the source, outermost first.
    pub indices: Vec<Affine>,
    /// How often the operand changes.
    pub variance: Variance,
}

/// Where an operand's elements come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A node's tensor.
    Node(NodeId),
    /// A history's rows.
    History(HistoryId),
    /// A tensor that no node holds, because the program wrote it inside a larger expression: to be computed first, as
    /// if it were a node of the graph with this definition (no fold, fixed axes). [`Operand::indices`] are over its axes.
    Chain(Box<Compute>),
}

impl Operand {
    /// The node, when the source is one.
    pub fn node(&self) -> Option<NodeId> {
        match self.source {
            Source::Node(node) => Some(node),
            _ => None,
        }
    }
    /// Collects the nodes that reading the operand loads, gathers' indices included. A history counts as its row.
    pub(super) fn reads(&self, graph: &Graph, found: &mut Vec<NodeId>) {
        match &self.source {
            Source::Node(node) => found.push(*node),
            Source::History(history) => found.push(graph.histories()[history.index()].row),
            Source::Chain(compute) => expr_reads(graph, &compute.body, found),
        }
        for form in self.indices.iter().chain(&self.depth) {
            affine_reads(graph, form, found);
        }
    }
    /// The place of the element in the flattened source (row-major), in elements: of the node's tensor, the chain's, or
    /// the history's row. `None` when an extent is not fixed.
    pub fn flat(&self, graph: &Graph) -> Option<Affine> {
        let shape = match &self.source {
            Source::Node(node) => graph.shape(*node)?,
            Source::History(history) => graph.shape(graph.histories()[history.index()].row)?,
            Source::Chain(compute) => compute
                .axes
                .iter()
                .map(|range| match range {
                    Range::Fixed(n) => Some(*n),
                    Range::Between { .. } => None,
                })
                .collect::<Option<_>>()?,
        };
        let mut stride = 1i64;
        let mut flat = Affine::default();
        for (index, &extent) in self.indices.iter().zip(&shape).rev() {
            flat.add(index, stride);
            stride = stride.checked_mul(i64::try_from(extent).ok()?)?;
        }
        Some(flat)
    }
    /// Whether the operand's value depends on that axis of the site.
    pub fn uses(&self, axis: usize) -> bool {
        self.indices.iter().chain(&self.depth).any(|index| index.uses(axis))
    }
}

fn affine_reads(graph: &Graph, form: &Affine, found: &mut Vec<NodeId>) {
    for (atom, _) in &form.terms {
        match atom {
            Atom::Axis(_) => {}
            Atom::Quotient(inner, _) | Atom::Remainder(inner, _) => affine_reads(graph, inner, found),
            Atom::Gathered(expr) => expr_reads(graph, expr, found),
        }
    }
}

/// Collects the nodes that an expression loads; a history counts as its row.
pub(super) fn expr_reads(graph: &Graph, expr: &Expr, found: &mut Vec<NodeId>) {
    expr.visit(&mut |part| match part {
        Expr::Load { node, .. } => found.push(*node),
        Expr::History { history, .. } => found.push(graph.histories()[history.index()].row),
        _ => {}
    });
}
