//! Recurrences: how a state's outgoing value depends on its incoming one.

use super::operand::Operand;
use crate::ir::{Expr, NodeId, StateId};

/// One state's update.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrence {
    /// The state.
    pub state: StateId,
    /// The node of its outgoing value.
    pub next: NodeId,
    /// What was proven of the update.
    pub kind: RecurrenceKind,
    /// Nodes that only this site reads and that need no buffer, in graph order. The outgoing value itself is the site's.
    pub absorbed: Vec<NodeId>,
}

/// Kinds of update.
#[derive(Clone, Debug, PartialEq)]
pub enum RecurrenceKind {
    /// The step leaves the state as it is.
    Unchanged,
    /// The outgoing value does not depend on the incoming one: a value carried one step.
    Replaced,
    /// Elementwise affine: `s'[x] = multiplier(x) * s[x] + addend(x)`, a scan.
    Diagonal(Box<Diagonal>),
    /// The delta rule.
    Delta(Box<Delta>),
    /// Anything else: serial over depth.
    General,
}

/// `s'[x…] = multiplier(x…) * s[x…] + addend(x…)`, over the state's axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagonal {
    /// Does not read the state; one when absent.
    pub multiplier: Option<Expr>,
    /// Does not read the state; zero when absent.
    pub addend: Option<Expr>,
}

/// The delta rule of `math.md`, per head `h…`, on a state `S[h…, i, j]` (`i` the key axis, `j` the value axis):
///
/// ```text
/// u(h, j) = beta(h) * (value(h, j) − c(h) * Σ_i S(h, i, j) * key(h, i))     c = decay or 1, by `reads`
/// S'(h, i, j) = decay(h) * S(h, i, j) + write_key(h, i) * u(h, j)           write_key = key
/// readout(h, j) = scale(h) * Σ_i query(h, i) * S'(h, i, j)
/// ```
///
/// Site axes: the head axes 0 … H-1, then the key axis, then the value axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// Extents of the head axes.
    pub heads: Vec<usize>,
    /// Extent of the key axis.
    pub key_dim: usize,
    /// Extent of the value axis.
    pub value_dim: usize,
    /// The state's axes that are head axes, in the site's order.
    pub head_axes: Vec<usize>,
    /// The state's axis that is the key axis.
    pub key_axis: usize,
    /// The state's axis that is the value axis. Before `key_axis` when the program keeps the state transposed.
    pub value_axis: usize,
    /// What is written under and read with; over heads and the key axis.
    pub key: Operand,
    /// The target; over heads and the value axis.
    pub value: Operand,
    /// The step size over heads; one when absent.
    pub beta: Option<Operand>,
    /// What the old state is multiplied with.
    pub decay: Decay,
    /// Which state the correction reads.
    pub reads: CorrectionReads,
    /// Reads of the state with a query, all of them.
    pub readouts: Vec<Readout>,
    /// The node of the correction `u`, when the program has one and others read it too.
    pub correction: Option<NodeId>,
}

/// What a delta rule multiplies its old state with; operands over heads.
#[derive(Clone, Debug, PartialEq)]
pub enum Decay {
    /// Nothing.
    One,
    /// The operand itself.
    Multiplier(Operand),
    /// e to the operand: the program wrote it so.
    Exponent(Operand),
}

/// Which state a delta rule's correction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CorrectionReads {
    /// The old state after the decay (`c = decay`), or there is no decay.
    Decayed,
    /// The old state before the decay (`c = 1`).
    Incoming,
}

/// A contraction of a state with a query over the key axis: `node[…] = scale * Σ_i query(h, i) * S(h, i, j)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Readout {
    /// The node that holds it.
    pub node: NodeId,
    /// For each site axis of the result, head axes then the value axis: the axis of `node` that carries it.
    pub result_axes: Vec<usize>,
    /// The query; over heads and the key axis.
    pub query: Operand,
    /// A factor over the node's own axes; one when absent.
    pub scale: Option<Expr>,
    /// Which state it reads.
    pub of: ReadoutOf,
}

/// Which state a readout reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadoutOf {
    /// The outgoing one.
    Next,
    /// The incoming one.
    Incoming,
}

impl Recurrence {
    /// The nodes whose tensors the site leaves in memory: the outgoing value (as the state's storage), readouts, and a
    /// correction that others read.
    pub fn results(&self) -> Vec<NodeId> {
        let mut nodes = vec![self.next];
        if let RecurrenceKind::Delta(delta) = &self.kind {
            nodes.extend(delta.readouts.iter().map(|readout| readout.node));
            nodes.extend(delta.correction);
        }
        nodes
    }
}
