//! Everything that can be wrong with a forest, an accepted path or a position.

use crate::{MAX_DEPTH, MAX_NODES, MAX_OUTPUTS, SessionId};

/// A rule of the forest that a caller broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForestError {
    /// A forest needs a segment.
    #[error("the forest has no segment: begin one with `segment` and give it a node")]
    EmptyForest,
    /// A segment needs a node.
    #[error("the segment of session {session} has no node")]
    EmptySegment {
        /// Whose segment.
        session: SessionId,
    },
    /// A node was added before any segment.
    #[error("node {node} was added before the first segment: call `segment` first")]
    NodeWithoutSegment {
        /// The node's index.
        node: u32,
    },
    /// A session may have one segment in a forest.
    #[error("session {session} already has a segment in this forest")]
    DuplicateSession {
        /// The session named twice.
        session: SessionId,
    },
    /// The parent does not precede the node.
    #[error("node {node} names parent {parent}, which does not come before it")]
    ParentAfterChild {
        /// The node.
        node: u32,
        /// The parent it named.
        parent: u32,
    },
    /// The parent belongs to another session's segment.
    #[error("node {node} names parent {parent}, which lies in another segment")]
    ParentInAnotherSegment {
        /// The node.
        node: u32,
        /// The parent it named.
        parent: u32,
    },
    /// The parent's subtree was already closed by a later node.
    #[error(
        "node {node} names parent {parent}, whose subtree is already closed: give nodes in depth-first order"
    )]
    NotDepthFirst {
        /// The node.
        node: u32,
        /// The parent it named.
        parent: u32,
    },
    /// The forest is full.
    #[error("a forest holds at most {MAX_NODES} nodes")]
    TooManyNodes,
    /// A node would lie deeper than a 32-bit `here` can say.
    #[error("session {session} would reach depth {depth}, the deepest is {MAX_DEPTH}")]
    TooDeep {
        /// Whose segment.
        session: SessionId,
        /// The depth asked for.
        depth: usize,
    },
    /// A wanted mask has one bit for each output.
    #[error("output {index} cannot be wanted: a step has at most {MAX_OUTPUTS} outputs")]
    TooManyOutputs {
        /// The output's index.
        index: usize,
    },
    /// There is no such segment.
    #[error("there is no segment {segment}, the forest has {count}")]
    NoSuchSegment {
        /// The index asked for.
        segment: usize,
        /// How many there are.
        count: usize,
    },
    /// There is no such node.
    #[error("there is no node {node}, the forest has {count}")]
    NoSuchNode {
        /// The index asked for.
        node: u32,
        /// How many there are.
        count: usize,
    },
    /// The accepted nodes are not a path down from a root of the segment.
    #[error("accepted node {node} is not a child of the accepted node before it (segment {segment})")]
    NotAPath {
        /// The segment.
        segment: usize,
        /// The first node that breaks the path.
        node: u32,
    },
    /// The accepted path continues from another place than the session's position.
    #[error("the path hangs from position {base}, but the session stands at {position}")]
    WrongPosition {
        /// Where the segment hangs.
        base: usize,
        /// Where the session stands.
        position: usize,
    },
    /// The step has no position in this session.
    #[error("there is no step {step}, the session has {count}")]
    NoSuchStep {
        /// The step's index.
        step: usize,
        /// How many there are.
        count: usize,
    },
}
