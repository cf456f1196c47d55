//! Contractions: a sum, over fixed axes, of a product of two reads.
//!
//! Matrix × vector, matrix × matrix, batched, convolution (`y + dy`, derived axes `k / d`, `k % d`) and gathered
//! (experts) are one descriptor; [`Contraction::as_rows_times_weight`] gives the view that row kernels serve.

use super::operand::Operand;
use crate::ir::{Expr, NodeId, Permissions};

/// `node[r…] = scale(r…) * Σ_f operands[0](r…, f…) * operands[1](r…, f…)`.
///
/// Site axes: the node's axes 0 … R-1 (its shape), then the folded axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Contraction {
    /// The node that holds the result.
    pub node: NodeId,
    /// The two factors. When exactly one is [`super::Variance::Constant`] it is the second: `[activation, weight]`.
    pub operands: [Operand; 2],
    /// Extent and role of every site axis.
    pub axes: Vec<ContractionAxis>,
    /// A factor that does not depend on the folded axes, over the node's axes; one when absent.
    pub scale: Option<Expr>,
    /// A guard of the node, over its axes: where false the element is zero.
    pub guard: Option<Expr>,
    /// Which operand roundings the source allows.
    pub permissions: Permissions,
}

/// One axis of a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractionAxis {
    /// How many values, from zero.
    pub extent: usize,
    /// Who depends on it.
    pub role: Role,
}

/// The part an axis plays in a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A result axis of the first operand alone.
    Left,
    /// A result axis of the second operand alone.
    Right,
    /// A result axis of both operands.
    Batch,
    /// A result axis of neither: the value repeats along it.
    Repeat,
    /// Summed over, read by both operands.
    Folded,
    /// Summed over, read by one operand alone.
    FoldedOnce,
}

/// A contraction seen as `result[m, n] = scale * Σ_k activation[m, k] * weight[row(n), column_offset + k]` with both
/// sides contiguous in `k`: the shape of matrix × vector and matrix × matrix kernels over row-major weights.
///
/// For one forest node the activation has the rows `activation_rows` (none: one row); over a batch these come for
/// each forest node. The weight's rows are addressed as `group * group_rows + row_offset + Σ axis * stride`.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsTimesWeight {
    /// The weight's tensor: a parameter, or a node of constant variance.
    pub weight: NodeId,
    /// Rows of the whole stored weight, all leading axes flattened.
    pub weight_rows: usize,
    /// Length of a stored row of the weight (its last axis), in elements.
    pub weight_row_length: usize,
    /// The first row read.
    pub row_offset: usize,
    /// Result axes that walk the weight's rows, in the order of the node's axes; strides in rows.
    pub rows: Vec<StridedAxis>,
    /// The first element read of each row.
    pub column_offset: usize,
    /// How many elements of each row are summed over: all folded extents multiplied.
    pub columns: usize,
    /// The weight's part chosen by data (experts), if any.
    pub group: Option<Group>,
    /// The other operand, over the contraction's axes.
    pub activation: Operand,
    /// The activation's first element read, in elements of its flattened tensor.
    pub activation_offset: usize,
    /// Result axes that walk the activation, in the order of the node's axes; strides in elements.
    pub activation_rows: Vec<StridedAxis>,
    /// Row-major strides of the result's axes in elements, by site axis: where the result of `(m, n)` goes.
    pub result_strides: Vec<usize>,
}

/// An axis that walks memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StridedAxis {
    /// The site axis.
    pub axis: usize,
    /// How many values, from zero.
    pub extent: usize,
    /// The distance of one step; its unit is said where it is used.
    pub stride: usize,
}

/// The part of a weight chosen by data.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Which part, an expression over the node's axes (i32 or id).
    pub index: Expr,
    /// How many parts the weight has.
    pub count: usize,
    /// Rows of the weight from one part to the next.
    pub rows: usize,
    /// The result axes on which `index` depends (the chosen experts of a node).
    pub axes: Vec<usize>,
}

impl RowsTimesWeight {
    /// `(start, stride, count)` when the rows read form one arithmetic run in the order of the result's elements.
    pub fn single_run(&self) -> Option<(usize, usize, usize)> {
        let mut stride = 1;
        let mut count = 1;
        for (place, axis) in self.rows.iter().rev().enumerate() {
            if place == 0 {
                stride = axis.stride;
            } else if axis.stride != stride * count {
                return None;
            }
            count *= axis.extent;
        }
        Some((self.row_offset, stride, count))
    }
}

/// Contractions that read the same activation and so can be one launch over several weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The activation's tensor.
    pub activation: NodeId,
    /// The contractions' nodes, two or more, in graph order. None of them depends on another.
    pub nodes: Vec<NodeId>,
}
