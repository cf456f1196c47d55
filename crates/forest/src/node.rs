//! What is said about one node and one segment: session, class, wanted outputs, shape.

use crate::ForestError;
use std::fmt;

/// The name of a session, unique for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// A row's role. It decides how the row is computed, so that a row's value never depends on the rows beside
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The token was given.
    Prompt,
    /// The token was sampled or drafted.
    Generated,
}

/// The shape of a segment, which chooses the form of every stateful site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// One node.
    Node,
    /// Two nodes or more, each the parent of the next.
    Chain,
    /// Somewhere a node, or the snapshot itself, has two children or more.
    Tree,
}

/// How many outputs of a step a [`Wanted`] mask can tell apart.
pub const MAX_OUTPUTS: usize = 32;

/// The outputs of a node that somebody will read, one bit for each output of the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wanted(u32);

impl Wanted {
    /// No output is read: the node only carries state forward.
    pub const NONE: Wanted = Wanted(0);
    /// Every output of the step is read, however many it has.
    pub const ALL: Wanted = Wanted(u32::MAX);

    /// The mask of one output.
    ///
    /// # Errors
    /// [`ForestError::TooManyOutputs`] when `index` is [`MAX_OUTPUTS`] or more.
    pub fn output(index: usize) -> Result<Wanted, ForestError> {
        if index < MAX_OUTPUTS { Ok(Wanted(1 << index)) } else { Err(ForestError::TooManyOutputs { index }) }
    }

    /// The mask whose bits are `bits`; bit `i` stands for output `i`.
    pub const fn from_bits(bits: u32) -> Wanted {
        Wanted(bits)
    }

    /// The mask as bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The outputs in either mask.
    pub const fn union(self, other: Wanted) -> Wanted {
        Wanted(self.0 | other.0)
    }

    /// Whether output `index` is in the mask. Past [`MAX_OUTPUTS`] an output has no bit of its own and is
    /// wanted by [`Wanted::ALL`] alone.
    pub const fn contains(self, index: usize) -> bool {
        if index < MAX_OUTPUTS { (self.0 >> index) & 1 == 1 } else { self.0 == u32::MAX }
    }

    /// Whether the masks share an output.
    pub const fn intersects(self, other: Wanted) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the mask is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}
