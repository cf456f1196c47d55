//! Windows: reads of a bounded tail of a history, and the storage each history needs.

use super::operand::Operand;
use crate::ir::{Expr, HistoryId, NodeId, Permissions};

/// A causal, depthwise convolution: `node[c…] = scale(c) * Σ_j weight(c, j) * history[here - reach + 1 + j](c) + bias(c)`,
/// rows before the root read as zero.
///
/// Site axes: the node's axes `c…`, then the tap `j`, `0 .. reach`, oldest first. However written: as a fold over taps
/// or as a sum of explicit reads. The newest row may be read as the history or as the node that it is appended from.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The node that holds the result.
    pub node: NodeId,
    /// The history.
    pub history: HistoryId,
    /// How many rows are read, the node's own included.
    pub reach: usize,
    /// Extents of the node's axes.
    pub channels: Vec<usize>,
    /// The history's row at the tap: its indices are over `c…`, its depth is `here - reach + 1 + j`.
    pub row: Operand,
    /// One weight a tap, oldest first: each an operand over `c…` alone; absent where the program has no such tap (zero).
    pub taps: Vec<Option<Operand>>,
    /// The weight over `c…` and `j`, when the taps are one tensor indexed by the tap.
    pub weight: Option<Operand>,
    /// A factor over `c…`, one when absent.
    pub scale: Option<Expr>,
    /// An addend over `c…`, zero when absent.
    pub bias: Option<Expr>,
    /// Which operand roundings the source allows.
    pub permissions: Permissions,
}

/// What must be kept of a history after a node, deduced from all its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistoryStorage {
    /// Nothing: no read goes above the node's own row.
    Nothing,
    /// The last rows: a ring.
    Ring {
        /// How many rows are read, the node's own included; at least two.
        reach: usize,
    },
    /// All rows: pages.
    Whole,
    /// All rows for some reads, a bounded tail for others: pages, and a ring if that is quicker to read.
    Both {
        /// How many rows the bounded reads need, the node's own included.
        reach: usize,
    },
}
