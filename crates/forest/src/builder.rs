//! Building a forest: nodes are checked as they are added, so that a built forest needs no check again.

use crate::forest::{Forest, NO_PARENT, Segment};
use crate::{Class, ForestError, SessionId, Shape, Wanted};
use std::collections::HashSet;

/// The most nodes a forest holds. Far above any tick of a scheduler; it bounds the memory a bad caller can
/// ask for, and keeps every node's index within 32 bits.
pub const MAX_NODES: usize = 1 << 20;

/// The deepest absolute depth of a node: `here` is a 32-bit integer in a program.
pub const MAX_DEPTH: usize = i32::MAX as usize - 1;

/// Collects segments and their nodes in depth-first order; [`build`](ForestBuilder::build) seals them.
#[derive(Clone, Debug, Default)]
pub struct ForestBuilder {
    parents: Vec<u32>,
    depths: Vec<i32>,
    classes: Vec<Class>,
    wanted: Vec<Wanted>,
    segment_indices: Vec<u32>,
    segments: Vec<Segment>,
    sessions: HashSet<SessionId>,
    /// The nodes whose subtree may still grow: the path from a root to the newest node.
    open: Vec<u32>,
}

impl ForestBuilder {
    /// A forest without segments.
    pub fn new() -> ForestBuilder {
        ForestBuilder::default()
    }

    /// Begins the segment of `session`, which has `base` tokens committed. Nodes added from now on belong to
    /// it.
    ///
    /// # Errors
    /// The session has a segment already, the segment before is empty, or `base` is too deep.
    pub fn segment(&mut self, session: SessionId, base: usize) -> Result<&mut Self, ForestError> {
        self.check_last_segment()?;
        if base > MAX_DEPTH {
            return Err(ForestError::TooDeep { session, depth: base });
        }
        if !self.sessions.insert(session) {
            return Err(ForestError::DuplicateSession { session });
        }
        let first = self.parents.len() as u32;
        self.segments.push(Segment { session, base, first, count: 0, shape: Shape::Node });
        self.open.clear();
        Ok(self)
    }

    /// Adds a node to the current segment and returns its index in the forest. Without a parent it is a root
    /// and hangs from the session's snapshot; a segment may have several roots.
    ///
    /// # Errors
    /// No segment was begun, the parent is no earlier node of this segment, the order is not depth-first, or
    /// a limit is passed.
    pub fn node(&mut self, parent: Option<u32>, class: Class, wanted: Wanted) -> Result<u32, ForestError> {
        let node = self.parents.len() as u32;
        let segment_index = self.segments.len() as u32;
        let Some(segment) = self.segments.last_mut() else {
            return Err(ForestError::NodeWithoutSegment { node });
        };
        if node as usize >= MAX_NODES {
            return Err(ForestError::TooManyNodes);
        }
        let open_above = match parent {
            None => 0,
            Some(parent) if parent >= node => return Err(ForestError::ParentAfterChild { node, parent }),
            Some(parent) if parent < segment.first => {
                return Err(ForestError::ParentInAnotherSegment { node, parent });
            }
            Some(parent) => match self.open.binary_search(&parent) {
                Ok(level) => level + 1,
                Err(_) => return Err(ForestError::NotDepthFirst { node, parent }),
            },
        };
        let depth = segment.base + open_above;
        if depth > MAX_DEPTH {
            return Err(ForestError::TooDeep { session: segment.session, depth });
        }
        // A node that is not the child of its predecessor is a second child of something.
        segment.shape = match (segment.count, segment.shape) {
            (0, _) => Shape::Node,
            (_, Shape::Node | Shape::Chain) if open_above == self.open.len() => Shape::Chain,
            _ => Shape::Tree,
        };
        segment.count += 1;
        self.open.truncate(open_above);
        self.open.push(node);
        self.parents.push(parent.unwrap_or(NO_PARENT));
        self.depths.push(depth as i32);
        self.classes.push(class);
        self.wanted.push(wanted);
        self.segment_indices.push(segment_index - 1);
        Ok(node)
    }

    /// Adds `count` nodes, each the child of the one before, below the newest node of the current segment (or
    /// from the snapshot, when the segment is empty). The last of them wants `last`, the others `others`.
    ///
    /// # Errors
    /// As [`node`](ForestBuilder::node).
    pub fn chain(
        &mut self,
        count: usize,
        class: Class,
        others: Wanted,
        last: Wanted,
    ) -> Result<&mut Self, ForestError> {
        for index in 0..count {
            let parent = self.open.last().copied();
            self.node(parent, class, if index + 1 == count { last } else { others })?;
        }
        Ok(self)
    }

    /// Adds a tree below the snapshot of the current segment; `parents` count from the tree's first node, as
    /// the generators of [`shapes`](crate::shapes) give them.
    ///
    /// # Errors
    /// As [`node`](ForestBuilder::node).
    pub fn tree(
        &mut self,
        parents: &[Option<u32>],
        class: Class,
        wanted: Wanted,
    ) -> Result<&mut Self, ForestError> {
        let first = self.parents.len() as u32;
        for parent in parents {
            // A parent that overflows is after its child in any case.
            self.node(parent.map(|parent| first.saturating_add(parent)), class, wanted)?;
        }
        Ok(self)
    }

    /// How many nodes were added so far.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether no node was added so far.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// Seals the forest.
    ///
    /// # Errors
    /// There is no segment, or the last one is empty.
    pub fn build(self) -> Result<Forest, ForestError> {
        self.check_last_segment()?;
        if self.segments.is_empty() {
            return Err(ForestError::EmptyForest);
        }
        let mut ends: Vec<u32> = (0..self.parents.len() as u32).collect();
        for node in (0..self.parents.len()).rev() {
            let parent = self.parents[node];
            if parent != NO_PARENT {
                ends[parent as usize] = ends[parent as usize].max(ends[node]);
            }
        }
        Ok(Forest {
            parents: self.parents,
            ends,
            depths: self.depths,
            classes: self.classes,
            wanted: self.wanted,
            segment_indices: self.segment_indices,
            segments: self.segments,
        })
    }

    fn check_last_segment(&self) -> Result<(), ForestError> {
        match self.segments.last() {
            Some(segment) if segment.count == 0 => {
                Err(ForestError::EmptySegment { session: segment.session })
            }
            _ => Ok(()),
        }
    }
}
