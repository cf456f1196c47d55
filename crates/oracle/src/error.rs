//! What can go wrong: a trap of the program, a malformed graph, or values that do not fit it.

use fiddlehead_forest::{ForestError, SessionId};
use fiddlehead_graph::{Element, Origin};

/// A rule that a running program broke.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Trap {
    /// An index outside its axis.
    #[error("index {index} is outside {start}..{end}, axis {axis} of `{tensor}`")]
    OutOfRange {
        /// The tensor or history that was read.
        tensor: String,
        /// Which of its axes, from zero.
        axis: usize,
        /// The index.
        index: i64,
        /// The axis's first value.
        start: i64,
        /// One past the axis's last value.
        end: i64,
    },
    /// A history was read below the node itself.
    #[error("row {depth} of history `{history}` does not exist yet: this node is at depth {here}")]
    FutureRow {
        /// The history's key.
        history: String,
        /// The depth that was read.
        depth: i64,
        /// The node's depth.
        here: i64,
    },
    /// An integer divided by zero.
    #[error("integer division by zero")]
    DivisionByZero,
    /// A negative integer became an id.
    #[error("{value} is no id: ids are not negative")]
    NegativeId {
        /// The integer.
        value: i64,
    },
    /// A loop emitted more often than its bound says.
    #[error("the loop emits more than the {capacity} values it declares")]
    TooManyEmissions {
        /// The declared bound.
        capacity: usize,
    },
}

/// Why an oracle could not be made or run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OracleError {
    /// The program broke a rule while it ran.
    #[error("in `{}`: {trap}", origin.name)]
    Trap {
        /// The tensor that was being computed, and its place in the source.
        origin: Origin,
        /// The rule.
        trap: Trap,
    },
    /// The graph itself is wrong; a validated graph is not.
    #[error("the graph is malformed at `{}`: {reason}", origin.name)]
    Malformed {
        /// The tensor that is wrong.
        origin: Origin,
        /// What is wrong.
        reason: String,
    },
    /// No value was given for a weight.
    #[error("weight `{name}` is missing")]
    MissingWeight {
        /// Its name.
        name: String,
    },
    /// A value does not have the declared type or shape.
    #[error("`{name}` should be {expected_element:?}{expected:?} and is {found_element:?}{found:?}")]
    Mismatch {
        /// The weight's or input's name.
        name: String,
        /// The declared type.
        expected_element: Element,
        /// The declared shape, with a leading axis of nodes for a per-node input.
        expected: Vec<usize>,
        /// The type given.
        found_element: Element,
        /// The shape given.
        found: Vec<usize>,
    },
    /// An array's data does not fill its shape.
    #[error("{elements} elements do not fill the shape {shape:?}")]
    ArraySize {
        /// How many elements were given.
        elements: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The graph takes another number of inputs.
    #[error("the graph takes {expected} inputs and got {found}")]
    InputCount {
        /// How many it takes.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// The forest names a session that was not given and cannot be fresh.
    #[error("session {session} hangs from position {base} but was not given")]
    UnknownSession {
        /// The session.
        session: SessionId,
        /// Where its segment hangs.
        base: usize,
    },
    /// The session's values are not those of this graph.
    #[error("session {session} does not hold the states and history rows of this graph")]
    ForeignSession {
        /// The session.
        session: SessionId,
    },
    /// The forest's segment or the accepted path does not continue the session.
    #[error(transparent)]
    Forest(#[from] ForestError),
}
