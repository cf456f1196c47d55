//! Statements and loops.

use super::{Expr, HistoryId, LocalId, StateId};
use crate::size::Size;

/// What a block holds before its result.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `let`.
    Let {
        /// What is bound.
        pattern: Pattern,
        /// To what.
        value: Expr,
    },
    /// `state s: T = init;`. A scalar `init` of an array state fills it. `init` depends on no input, state or history.
    State {
        /// The state.
        state: StateId,
        /// Its value before a session's first node.
        init: Expr,
    },
    /// `s' = value;`, at most once for each state, outside every loop, arm and fold: it is evaluated once at every node.
    Assign {
        /// The state.
        state: StateId,
        /// Its outgoing value.
        value: Expr,
    },
    /// `history h = row;`: the node's own row.
    History {
        /// The history.
        history: HistoryId,
        /// The row.
        row: Expr,
    },
}

/// What a `let` binds.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// One name.
    Local(LocalId),
    /// The parts of a tuple.
    Tuple(Vec<Pattern>),
    /// `_`.
    Ignore,
}

/// `name = init` of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Carry {
    /// Its value in a turn: a scalar or an array.
    pub local: LocalId,
    /// Its value in the first turn, evaluated outside the loop.
    pub init: Expr,
}

/// `scan[index in range](carries) { ... }`. Step calls in it live along its turns. Its value: with an emission, what
/// [`Emission`] says; else the last value of the carry, or the tuple of the carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The loop's variable, i32.
    pub index: LocalId,
    /// Its value in the first turn.
    pub first: Size,
    /// How many turns; not below zero.
    pub turns: Size,
    /// The carries.
    pub carries: Vec<Carry>,
    /// `let`s of a turn, in order.
    pub statements: Vec<Statement>,
    /// What a turn emits.
    pub emission: Option<Emission>,
    /// The carries' values in the next turn, one for each.
    pub next: Vec<Expr>,
}

/// `emit value`, `emit_if(condition, value)` or `emit_if[bound](condition, value)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Emission {
    /// Emits only when true (a bool); always, when absent.
    pub condition: Option<Expr>,
    /// A scalar or an array.
    pub value: Expr,
    /// How many are emitted.
    pub count: EmissionCount,
}

/// How many values a scan emits.
#[derive(Clone, Debug, PartialEq)]
pub enum EmissionCount {
    /// Exactly this many. The scan's value is the array `[count, ...value]`.
    Proven(Size),
    /// At most this many, else a trap. The scan's value is the tuple (`[bound, ...value]` with zeros at the end, how
    /// many as i32).
    Declared(Size),
}

/// `for layer in layers(carries) { ... next ... }`. Its value: the carry, or the tuple of the carries, after the last
/// layer.
#[derive(Clone, Debug, PartialEq)]
pub struct ForLayers {
    /// The layer of a turn.
    pub layer: LocalId,
    /// The carries, at least one.
    pub carries: Vec<Carry>,
    /// `let`s of a turn, in order.
    pub statements: Vec<Statement>,
    /// The carries' values for the next layer, one for each.
    pub next: Vec<Expr>,
}
