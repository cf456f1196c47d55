//! Queries: pure, partial functions of the sealed graph that either prove a shape or refuse.
//!
//! Each query returns a *descriptor* (what a family of kernels needs to serve that place of the graph) or a
//! [`Refusal`] with its reason. Nothing here is stored, nothing matches on names, and a refusal only ever means the
//! general, slower kernel. Real-number algebra (associativity, `exp(a + b) = exp(a) exp(b)`) is used to see that two
//! programs are equal; ordered folds are never touched.
//!
//! Start reading at [`sites::assign_sites`], which covers a graph by sites, then at the family of interest:
//! [`contraction`], [`attention`], [`window`], [`recurrence`], [`row`] (reductions, gathers, top-k). The common
//! vocabulary is [`affine`] (index expressions) and [`operand`] (what a site reads). What a whole graph needs known
//! once is in [`variance`], [`demand`] and [`liveness`].

pub mod affine;
mod algebra;
pub mod attention;
pub mod bounds;
pub mod contraction;
pub mod demand;
mod expand;
pub mod feedback;
pub mod fusion;
pub mod liveness;
pub mod operand;
pub mod recurrence;
pub mod row;
pub mod sites;
pub mod variance;
pub mod window;

pub use affine::{Affine, Atom};
pub use attention::{Attention, Epilogue, Grouping, PathStart, attentions};
pub use bounds::{Indexed, UnprovenIndex, unproven_indices};
pub use contraction::{
    Contraction, ContractionAxis, Group, Merge, Role, RowsTimesWeight, StridedAxis, WeightRows, contractions,
    merges,
};
pub use demand::{Demand, demands};
pub use feedback::{FeedbackLoop, feedback_loops};
pub use fusion::{Fusion, fusions};
pub use liveness::{Liveness, liveness};
pub use operand::{Operand, Source};
pub use recurrence::{
    CorrectionReads, Decay, Delta, Diagonal, Readout, ReadoutOf, Recurrence, RecurrenceKind, recurrences,
};
pub use row::{Chain, Gather, Reduction, TopPair, gather, reduction, tops};
pub use sites::{Site, SiteIndex, Sites, assign_sites};
pub use variance::{Variance, variances};
pub use window::{HistoryStorage, Window, history_storage, windows};

use crate::ir::NodeId;

/// Why a query did not prove its shape at a node. Only nearly matching nodes refuse; a node that is plainly
/// something else is silent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{node}: not {rule}: {why}")]
pub struct Refusal {
    /// The node at which the proof stopped.
    pub node: NodeId,
    /// Which rule refused.
    pub rule: Rule,
    /// What was found instead, for `fiddlehead explain`.
    pub why: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(node: NodeId, rule: Rule, why: impl Into<String>) -> Self {
        Refusal { node, rule, why: why.into() }
    }
}

/// The rules that refuse, by what they would have proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A fold of a product of two loads.
    Contraction,
    /// A contraction of a weight's contiguous rows with a contiguous activation.
    RowsTimesWeight,
    /// A softmax-weighted fold over a history.
    Attention,
    /// A read of a bounded tail of a history.
    Window,
    /// A state whose update is affine in the old state.
    Recurrence,
    /// A decay and a rank-one correction that reads the state.
    DeltaRule,
    /// A fold along rows.
    Reduction,
    /// Elementwise work that rides on a site.
    Fusion,
    /// An index that stays inside its axis.
    Bounds,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Rule::Contraction => "a contraction",
            Rule::RowsTimesWeight => "rows times a weight",
            Rule::Attention => "an attention",
            Rule::Window => "a window",
            Rule::Recurrence => "an affine recurrence",
            Rule::DeltaRule => "a delta rule",
            Rule::Reduction => "a reduction",
            Rule::Fusion => "fused with what reads it",
            Rule::Bounds => "a proven index",
        })
    }
}
