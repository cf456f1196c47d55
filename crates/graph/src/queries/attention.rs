//! Attentions: a softmax-weighted sum over the path of a history.

use super::affine::Affine;
use super::operand::Operand;
use crate::ir::{Compute, Expr, NodeId};

/// `node[h…, j] = Σ_t p(h, t) * value(h, t, j) / (Σ_t p(h, t) + e^sink(h))` with `p(h, t) = e^score(dot(h, t), h, t)`,
/// `dot(h, t) = Σ_i query(h, i) * key(h, t, i)` and `t` over `start ..= here`.
///
/// However the program wrote it (with or without subtracting the maximum, normalised before or after the weighted
/// sum, scaled before or after the dot product). A kernel subtracts its own running maximum.
///
/// Site axes: the head axes 0 … H-1, then `t` (absolute depth), then the key axes `i…`, then the value axes `j…`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// The node whose buffer gets the normalised sum, `[heads…, value…]` in row-major order of its own axes. Where the
    /// program divides only in a later node, this is the undivided sum, and [`Attention::epilogues`] are the later nodes.
    pub node: NodeId,
    /// For each site axis of the result, head axes then value axes: the axis of `node` that carries it.
    pub result_axes: Vec<usize>,
    /// Nodes that the program defined by dividing `node` by the sum of weights, restated over the divided value.
    pub epilogues: Vec<Epilogue>,
    /// Extents of the head axes.
    pub heads: Vec<usize>,
    /// Extents of the key axes (mostly one).
    pub key_dims: Vec<usize>,
    /// Extents of the value axes (mostly one).
    pub value_dims: Vec<usize>,
    /// What is compared: does not depend on `t`.
    pub query: Operand,
    /// What it is compared with: a history at depth `t`.
    pub key: Operand,
    /// What is summed: a history at depth `t`; often another one, or the same at other indices.
    pub value: Operand,
    /// The first depth that is read.
    pub start: PathStart,
    /// The score from the raw dot product: elementwise over [`Expr::Accumulator`] (the dot product), head axes and `t`.
    pub score: Expr,
    /// The factor, when the score is the dot product times a positive literal: the plain case.
    pub linear_scale: Option<f64>,
    /// The logarithm of a term added to the sum of weights, over the head axes.
    pub sink: Option<Expr>,
    /// Nodes that only this site reads and that need no buffer: scores, weights, their maximum and sums. In graph order.
    pub absorbed: Vec<NodeId>,
}

/// A node defined over an attention's undivided sum, restated over the divided one.
#[derive(Clone, Debug, PartialEq)]
pub struct Epilogue {
    /// The node.
    pub node: NodeId,
    /// Its definition, in which a load of [`Attention::node`] means the divided value; elementwise.
    pub compute: Compute,
}

/// Where an attention's range starts.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStart {
    /// At the session's first token.
    Root,
    /// `max(0, here - reach + 1)`: a sliding window of that many rows, the node's own included.
    Sliding {
        /// How many rows are read at most.
        reach: usize,
    },
}

/// How query heads share key heads, when a form over one head axis says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// Each its own.
    Same,
    /// `h / divisor`.
    Divided(usize),
    /// `h % divisor`.
    Modulo(usize),
    /// All the same one.
    Shared,
}

impl Grouping {
    /// The grouping that an index form over head axis `axis` states; `None` for any other form.
    pub fn of(form: &Affine, axis: usize) -> Option<Grouping> {
        use super::affine::Atom;
        if form.as_axis() == Some(axis) {
            return Some(Grouping::Same);
        }
        if form.as_constant() == Some(0) {
            return Some(Grouping::Shared);
        }
        match (&form.terms[..], form.constant, form.here) {
            ([(Atom::Quotient(inner, divisor), 1)], 0, 0) if inner.as_axis() == Some(axis) => {
                Some(Grouping::Divided(*divisor as usize))
            }
            ([(Atom::Remainder(inner, divisor), 1)], 0, 0) if inner.as_axis() == Some(axis) => {
                Some(Grouping::Modulo(*divisor as usize))
            }
            _ => None,
        }
    }
}
