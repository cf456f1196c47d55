//! The delta rule: `S ← d S; u = beta (v − Sᵀ k); S ← S + k uᵀ; o = Sᵀ q`, for one value head.
//!
//! [`serial`] walks nodes one after another; a chain, a tree walk and single steps give the same bits. [`block`] solves a
//! chain or a tree of up to 128 nodes at once; it associates differently.

pub mod block;
mod commit;
pub mod serial;

use super::views::ActivationRows;

/// How a state `[key_dim, value_dim]` lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateLayout {
    /// Row `k` holds the values of key dimension `k`: `[key_dim, value_dim]`.
    KeyMajor,
    /// The transpose: `[value_dim, key_dim]`.
    ValueMajor,
}

/// One number for each node, `stride` values apart (heads may lie between).
#[derive(Clone, Copy, Debug)]
pub struct Scalars<'a> {
    /// The numbers; node `i`'s is at `i * stride`.
    pub values: &'a [f32],
    /// Distance between nodes.
    pub stride: usize,
}

impl Scalars<'_> {
    #[inline(always)]
    fn at(&self, node: usize) -> f32 {
        self.values[node * self.stride]
    }
}

/// How much of a state a node keeps.
#[derive(Clone, Copy, Debug)]
pub enum Decay<'a> {
    /// All of it; no multiplication happens.
    Keep,
    /// `e^g`, given g.
    Log(Scalars<'a>),
    /// The factor itself.
    Factor(Scalars<'a>),
}

/// The rows of one value head for some nodes.
#[derive(Clone, Copy, Debug)]
pub struct DeltaRows<'a> {
    /// `[nodes, key_dim]`.
    pub queries: ActivationRows<'a>,
    /// `[nodes, key_dim]`.
    pub keys: ActivationRows<'a>,
    /// `[nodes, value_dim]`.
    pub values: ActivationRows<'a>,
    /// How much of the state each node keeps.
    pub decay: Decay<'a>,
    /// The strength of each node's correction; one where absent.
    pub beta: Option<Scalars<'a>>,
}

impl DeltaRows<'_> {
    fn nodes(&self) -> usize {
        self.keys.rows()
    }

    fn key_dim(&self) -> usize {
        self.keys.columns()
    }

    fn value_dim(&self) -> usize {
        self.values.columns()
    }

    fn assert_shapes(&self) {
        let nodes = self.nodes();
        assert_eq!((self.queries.rows(), self.queries.columns()), (nodes, self.key_dim()), "queries' shape");
        assert_eq!(self.values.rows(), nodes, "values' rows");
        let holds = |scalars: &Scalars<'_>| nodes == 0 || (nodes - 1) * scalars.stride < scalars.values.len();
        match &self.decay {
            Decay::Keep => {}
            Decay::Log(scalars) | Decay::Factor(scalars) => assert!(holds(scalars), "a decay for each node"),
        }
        assert!(self.beta.as_ref().is_none_or(holds), "a beta for each node");
    }
}
