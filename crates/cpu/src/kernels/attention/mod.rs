//! Attention of some query rows over one group's history: a softmax-weighted sum of values along the path.
//!
//! Keys are met in blocks of 64 at absolute multiples of depth, with a running maximum and sum (online softmax). Which
//! pieces the history comes in, how many query rows run together, and whether a row is part of a prompt, a step or a tree
//! changes neither a block's bounds nor any operation on it: a row's bits depend on its own path alone.
//!
//! [`history`] describes where the rows of a path lie; this file holds the call, `blocks` the computation.

mod blocks;
pub mod history;

use super::views::OutputRows;
use crate::features::Isa;
pub use history::{HistoryPiece, PieceRows};

/// Keys met together, and the multiple of depth at which blocks begin.
pub const KEY_BLOCK: usize = 64;

/// A function of the scores of one head: `(head, depth of the first, scores)`, rewriting the scores in place.
///
/// It must treat each score by itself; scores arrive in rising depth without gaps.
pub type ScoreFunction<'a> = dyn Fn(usize, usize, &mut [f32]) + Sync + 'a;

/// What happens to a score `q · k` before the softmax.
#[derive(Clone, Copy)]
pub enum ScoreTransform<'a> {
    /// Multiplied by a number.
    Scale(f32),
    /// `cap · tanh(scale · score / cap)`.
    SoftCap {
        /// The factor of the score.
        scale: f32,
        /// The bound that the result approaches.
        cap: f32,
    },
    /// Any elementwise function.
    Function(&'a ScoreFunction<'a>),
}

/// The operands for one group of query heads that share their keys and values.
///
/// Query row `r` stands at depth `first_query_depth + r` and attends to every depth up to its own, from the lower bound on.
/// One row is the step of a node in a tree (its history ends with itself); several rows are a chain.
#[derive(Clone, Copy)]
pub struct AttentionArguments<'a> {
    /// Element `d` of head `h` of row `r` is at `r * query_row_stride + h * query_head_stride + d`.
    pub queries: &'a [f32],
    /// Rows of a chain, at least one node.
    pub query_rows: usize,
    /// Distance between rows, in values.
    pub query_row_stride: usize,
    /// Query heads of the group.
    pub heads: usize,
    /// Distance between heads, in values.
    pub query_head_stride: usize,
    /// Values in a query and a key.
    pub key_dim: usize,
    /// Values in a value row.
    pub value_dim: usize,
    /// The path's rows in rising depth, together covering every depth a row attends to.
    pub history: &'a [HistoryPiece<'a>],
    /// Depth of the first row of the first piece.
    pub first_key_depth: usize,
    /// Depth of query row 0.
    pub first_query_depth: usize,
    /// With a window `w`, a row at depth `t` attends to depths from `t + 1 - w`; without, from the start.
    pub window: Option<usize>,
    /// What happens to a score before the softmax.
    pub transform: ScoreTransform<'a>,
    /// For each head, one more score that takes part in the softmax's sum and has no value.
    pub sinks: Option<&'a [f32]>,
}

impl AttentionArguments<'_> {
    /// The depths that query row `row` attends to.
    pub(super) fn depths(&self, row: usize) -> std::ops::Range<usize> {
        let depth = self.first_query_depth + row;
        let lowest = self.window.map_or(0, |window| (depth + 1).saturating_sub(window));
        lowest.max(self.first_key_depth)..depth + 1
    }
}

/// Computes `outputs[r, h * value_dim + d]` for every query row and head of the group. Where a row has no score above −∞, NaN.
///
/// # Panics
/// When queries, pieces or outputs are shorter than described, or the history ends before the last query row's depth.
pub fn attend(isa: Isa, arguments: &AttentionArguments<'_>, outputs: &mut OutputRows<'_>) {
    let a = arguments;
    if a.query_rows == 0 || a.heads == 0 {
        return;
    }
    let last = (a.query_rows - 1) * a.query_row_stride + (a.heads - 1) * a.query_head_stride + a.key_dim;
    assert!(last <= a.queries.len(), "queries end at {last} of {}", a.queries.len());
    assert_eq!(
        (outputs.rows(), outputs.columns()),
        (a.query_rows, a.heads * a.value_dim),
        "the outputs' shape"
    );
    assert!(a.sinks.is_none_or(|sinks| sinks.len() >= a.heads), "a sink for each head");
    let mut rows = 0;
    for piece in a.history {
        piece.assert_inside(a.key_dim, a.value_dim);
        rows += piece.count();
    }
    let (held, needed) = (a.first_key_depth + rows, a.first_query_depth + a.query_rows);
    assert!(held >= needed, "the history ends at depth {held}, the queries at {needed}");
    isa.run(blocks::Attend { arguments: a, outputs });
}
