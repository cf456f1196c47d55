//! Rewrites: each takes a valid graph and gives an equal one, simpler to find sites in and cheaper to run.
//!
//! Equal means the same values for every forest, bit by bit, save what a contract lets go. A trap stays, unless nothing
//! reads the value that would have trapped. Every rewrite walks the nodes once. What may never live here: anything that knows a device, or a site.

pub(crate) mod affine;
mod chain;
mod common;
mod dead;
mod encode;
pub(crate) mod interval;
mod remap;
pub(crate) mod simplify;
mod split;

use crate::ir::Graph;
use crate::validate::validate;
use interval::Interval;
pub use split::{LoopPiece, PieceEmission, StateUse, split_loop};

/// All rewrites in their order: constants folded, equal nodes merged, chains fused, what nothing needs removed.
pub fn optimise(graph: &Graph) -> Graph {
    let graph = fold_constants(graph);
    let graph = merge_equal(&graph);
    let graph = fuse_chains(&graph);
    let graph = fold_constants(&graph);
    let graph = merge_equal(&graph);
    remove_dead(&graph)
}

/// Folds literals, brings integer arithmetic into one form, and decides conditions that ranges decide.
pub fn fold_constants(graph: &Graph) -> Graph {
    checked("fold_constants", simplify::simplify(graph, Interval::HERE))
}

/// Merges nodes of equal structure.
pub fn merge_equal(graph: &Graph) -> Graph {
    checked("merge_equal", common::merge_equal(graph))
}

/// Writes elementwise nodes into what reads them, where nothing is then calculated twice.
pub fn fuse_chains(graph: &Graph) -> Graph {
    checked("fuse_chains", chain::fuse_chains(graph))
}

/// Removes nodes and weights that no output, state or history needs.
pub fn remove_dead(graph: &Graph) -> Graph {
    checked("remove_dead", dead::remove_dead(graph))
}

/// In debug builds and tests, stops at the rewrite that broke a graph.
fn checked(rewrite: &str, graph: Graph) -> Graph {
    if cfg!(debug_assertions) {
        let verdict = validate(&graph);
        debug_assert!(verdict.is_ok(), "{rewrite} broke the graph: {verdict:?}");
    }
    graph
}
