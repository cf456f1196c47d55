//! The sealed forest and its readers.

use crate::{Accepted, Class, ForestBuilder, ForestError, SessionId, Shape, Wanted};
use std::ops::Range;

/// The parent of a root in [`Forest::parents`]. Read as a signed 32-bit integer it is −1.
pub const NO_PARENT: u32 = u32::MAX;

/// One session's part of a forest: a single node, a chain or a tree that hangs from the session's snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub(crate) session: SessionId,
    pub(crate) base: usize,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) shape: Shape,
}

impl Segment {
    /// Whose segment this is.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The number of tokens the session has committed: the stored rows of each of its histories, and the
    /// absolute depth of the segment's roots.
    pub fn base(&self) -> usize {
        self.base
    }

    /// The segment's nodes, as indices into the forest's slices.
    pub fn range(&self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }

    /// The first node of the segment.
    pub fn first(&self) -> usize {
        self.first as usize
    }

    /// The number of nodes, one or more.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether the segment is a single node, a chain or a tree.
    pub fn shape(&self) -> Shape {
        self.shape
    }
}

/// A batch: checked when it was built, immutable since. Every slice has one entry for each node, in
/// depth-first order, segment after segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest {
    pub(crate) parents: Vec<u32>,
    pub(crate) ends: Vec<u32>,
    pub(crate) depths: Vec<i32>,
    pub(crate) classes: Vec<Class>,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) segment_indices: Vec<u32>,
    pub(crate) segments: Vec<Segment>,
}

impl Forest {
    /// One session's chain of `count` nodes of class [`Class::Prompt`]; every output of every node is wanted.
    ///
    /// # Errors
    /// `count` is zero, or a limit is passed.
    pub fn single_chain(session: SessionId, base: usize, count: usize) -> Result<Forest, ForestError> {
        let mut builder = ForestBuilder::new();
        builder.segment(session, base)?.chain(count, Class::Prompt, Wanted::ALL, Wanted::ALL)?;
        builder.build()
    }

    /// The number of nodes, one or more.
    #[allow(clippy::len_without_is_empty)] // a forest is never empty
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Each node's parent, or [`NO_PARENT`] for a root.
    pub fn parents(&self) -> &[u32] {
        &self.parents
    }

    /// The last node of each node's subtree, the node itself for a leaf.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Each node's absolute depth in its session: `here` in a program.
    pub fn depths(&self) -> &[i32] {
        &self.depths
    }

    /// Each node's class.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The outputs of each node that somebody will read.
    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// Each node's index into [`segments`](Forest::segments).
    pub fn segment_indices(&self) -> &[u32] {
        &self.segment_indices
    }

    /// The segments, in the order of their nodes.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The segment of a node.
    ///
    /// # Panics
    /// When there is no such node, as indexing a slice does.
    pub fn segment_of(&self, node: u32) -> &Segment {
        &self.segments[self.segment_indices[node as usize] as usize]
    }

    /// The parent of a node, none for a root.
    ///
    /// # Panics
    /// When there is no such node, as indexing a slice does.
    pub fn parent(&self, node: u32) -> Option<u32> {
        let parent = self.parents[node as usize];
        (parent != NO_PARENT).then_some(parent)
    }

    /// Whether `ancestor` is an ancestor of `node`, or `node` itself.
    ///
    /// # Panics
    /// When there is no such ancestor, as indexing a slice does.
    pub fn is_ancestor(&self, ancestor: u32, node: u32) -> bool {
        ancestor <= node && node <= self.ends[ancestor as usize]
    }

    /// The nodes from the root down to `node` itself, within the forest.
    ///
    /// # Panics
    /// When there is no such node, as indexing a slice does.
    pub fn ancestors(&self, node: u32) -> Ancestors<'_> {
        Ancestors { ends: &self.ends, next: self.segment_of(node).first, node }
    }

    /// [`ancestors`](Forest::ancestors), collected: the rows of `node`'s path within the forest.
    ///
    /// # Panics
    /// When there is no such node, as indexing a slice does.
    pub fn path_rows(&self, node: u32) -> Vec<u32> {
        self.ancestors(node).collect()
    }

    /// The nodes that want at least one output of `mask`, in order.
    pub fn wanted_rows(&self, mask: Wanted) -> Vec<u32> {
        (0..self.len() as u32).filter(|&node| self.wanted[node as usize].intersects(mask)).collect()
    }

    /// The nodes without a child, in order.
    pub fn leaves(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len() as u32).filter(|&node| self.ends[node as usize] == node)
    }

    /// The accepted path of a segment: `nodes` from a root downwards, each the child of the one before. An
    /// empty path drops the whole segment.
    ///
    /// # Errors
    /// There is no such segment, or the nodes are no such path.
    pub fn accept(&self, segment: usize, nodes: &[u32]) -> Result<Accepted, ForestError> {
        Accepted::new(self, segment, nodes)
    }

    /// The accepted path that ends at `node`: it and all of its ancestors in the forest.
    ///
    /// # Errors
    /// There is no such node.
    pub fn accept_to(&self, node: u32) -> Result<Accepted, ForestError> {
        match self.segment_indices.get(node as usize) {
            Some(&segment) => Accepted::new(self, segment as usize, &self.path_rows(node)),
            None => Err(ForestError::NoSuchNode { node, count: self.len() }),
        }
    }

    /// The path that accepts a whole segment, which must be a node or a chain.
    ///
    /// # Errors
    /// There is no such segment, or it branches.
    pub fn accept_all(&self, segment: usize) -> Result<Accepted, ForestError> {
        let range = self.segments.get(segment).map(Segment::range).unwrap_or_default();
        let nodes: Vec<u32> = range.map(|node| node as u32).collect();
        Accepted::new(self, segment, &nodes)
    }
}

/// A node's ancestors from the root down to itself; see [`Forest::ancestors`].
#[derive(Clone, Debug)]
pub struct Ancestors<'forest> {
    ends: &'forest [u32],
    next: u32,
    node: u32,
}

impl Iterator for Ancestors<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.next <= self.node {
            let candidate = self.next;
            let end = self.ends[candidate as usize];
            if self.node <= end {
                self.next = candidate + 1;
                return Some(candidate);
            }
            // The node is outside this subtree, so none of it is an ancestor.
            self.next = end + 1;
        }
        None
    }
}
