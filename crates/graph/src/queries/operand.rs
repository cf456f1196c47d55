//! What a site reads: a tensor or a history's row, through index forms over the site's axes.

use super::affine::Affine;
use super::variance::Variance;
use crate::ir::{Compute, HistoryId, NodeId};

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
    /// Whether the operand's value depends on that axis of the site.
    pub fn uses(&self, axis: usize) -> bool {
        self.indices.iter().chain(&self.depth).any(|index| index.uses(axis))
    }
}
