//! Which elementwise chains ride on which site.

use crate::ir::NodeId;

/// Elementwise work that can ride with a site's kernel instead of passing through memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Fusion {
    /// The node that the site computes.
    pub site: NodeId,
    /// Elementwise nodes that only this site reads, as its activation; in graph order, the last is the operand.
    pub prologue: Vec<NodeId>,
    /// Elementwise nodes over the site's result space that read its result at the same point, each read by the next
    /// alone but for the last; in graph order. They may also load other, earlier tensors (bias, residual, gate).
    pub epilogue: Vec<NodeId>,
}
