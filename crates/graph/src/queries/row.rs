//! The small shapes: reductions along rows, elementwise chains, gathers of a row, top-k pairs.

use crate::ir::NodeId;

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
    pub index: crate::ir::Expr,
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
