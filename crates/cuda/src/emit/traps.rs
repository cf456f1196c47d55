//! What may trap: each place in the code has a number, which the device reports and this table explains.

use fiddlehead_graph::{Graph, NodeId, Origin};
use fiddlehead_plan::DeviceError;

/// What went wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TrapKind {
    /// An index outside an axis of what is read.
    Index {
        read: String,
        axis: usize,
    },
    /// A history read above the node's own depth.
    FutureRow {
        history: String,
    },
    DivisionByZero,
    NegativeId,
    TooManyEmissions {
        capacity: usize,
    },
}

/// A trap as the device reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub code: u32,
    /// Value, low and high; absent when another row's were told.
    pub numbers: Option<[i64; 3]>,
}

/// Places that may trap: of one kernel, then of all of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traps {
    sites: Vec<(Origin, TrapKind)>,
}

impl Traps {
    /// The number that the next new place gets.
    pub fn next(&self) -> usize {
        self.sites.len()
    }

    /// The number of a place; the same place gets the same one.
    pub fn add(&mut self, graph: &Graph, reader: NodeId, kind: TrapKind) -> usize {
        let origin = &graph.node(reader).origin;
        let known = self.sites.iter().position(|(other, known)| other == origin && *known == kind);
        known.unwrap_or_else(|| self.add_new(graph, reader, kind))
    }

    /// A number of its own.
    pub fn add_new(&mut self, graph: &Graph, reader: NodeId, kind: TrapKind) -> usize {
        self.sites.push((graph.node(reader).origin.clone(), kind));
        self.sites.len() - 1
    }

    /// Adds another table's places after these; gives the number of its first.
    pub fn extend(&mut self, other: Traps) -> usize {
        let first = self.sites.len();
        self.sites.extend(other.sites);
        first
    }

    /// The error that a report means.
    pub fn error(&self, report: Report) -> DeviceError {
        let Some((origin, kind)) = self.sites.get(report.code as usize) else {
            return DeviceError::Unsupported {
                what: "a kernel".into(),
                why: format!("it reported trap {}, which no place has", report.code),
            };
        };
        let why = match (kind, report.numbers) {
            (TrapKind::Index { read, axis }, Some([index, low, high])) => {
                format!("index {index} is outside {low}..{high} of axis {axis} of `{read}`")
            }
            (TrapKind::Index { read, axis }, None) => {
                format!("an index is outside of axis {axis} of `{read}`")
            }
            (TrapKind::FutureRow { history }, Some([depth, _, end])) => {
                let here = end - 1;
                format!("row {depth} of history `{history}` does not exist yet: this node is at depth {here}")
            }
            (TrapKind::FutureRow { history }, None) => {
                format!("a row of history `{history}` does not exist yet")
            }
            (TrapKind::DivisionByZero, _) => "integer division by zero".into(),
            (TrapKind::NegativeId, Some([value, ..])) => format!("{value} is no id: ids are not negative"),
            (TrapKind::NegativeId, None) => "ids are not negative".into(),
            (TrapKind::TooManyEmissions { capacity }, _) => {
                format!("the loop emits more than the {capacity} values that it declares")
            }
        };
        DeviceError::Trap { origin: origin.name.clone(), span: origin.span, why }
    }
}
