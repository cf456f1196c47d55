//! The part of a segment that a commit keeps.

use crate::{Forest, ForestError, SessionId};

/// A checked path from a root of a segment downwards: the nodes whose rows and states a commit keeps.
/// Everything else in the segment is dropped. Made by [`Forest::accept`] and its siblings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    session: SessionId,
    segment: usize,
    base: usize,
    first: usize,
    nodes: Vec<u32>,
}

impl Accepted {
    pub(crate) fn new(forest: &Forest, segment: usize, nodes: &[u32]) -> Result<Accepted, ForestError> {
        let count = forest.segments().len();
        let Some(owner) = forest.segments().get(segment) else {
            return Err(ForestError::NoSuchSegment { segment, count });
        };
        let mut parent = None;
        for &node in nodes {
            if !owner.range().contains(&(node as usize)) || forest.parent(node) != parent {
                return Err(ForestError::NotAPath { segment, node });
            }
            parent = Some(node);
        }
        Ok(Accepted {
            session: owner.session(),
            segment,
            base: owner.base(),
            first: owner.first(),
            nodes: nodes.to_vec(),
        })
    }

    /// Whose segment the path belongs to.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The segment's index in the forest.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// The position the segment hangs from.
    pub fn base(&self) -> usize {
        self.base
    }

    /// The accepted nodes, root first, as indices into the forest's slices. The node at index `i` has the
    /// absolute depth `base() + i`.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// The deepest accepted node, none when the whole segment is dropped.
    pub fn last(&self) -> Option<u32> {
        self.nodes.last().copied()
    }

    /// The number of accepted nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the whole segment is dropped.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The session's position once the path is committed.
    pub fn position(&self) -> usize {
        self.base + self.nodes.len()
    }

    /// Whether the accepted nodes are the segment's first ones, so that a commit moves no row.
    pub fn is_prefix(&self) -> bool {
        self.last().is_none_or(|last| last as usize + 1 == self.first + self.nodes.len())
    }
}
