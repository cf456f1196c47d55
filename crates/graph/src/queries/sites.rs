//! The cover of a graph by sites.

use super::Refusal;
use super::attention::Attention;
use super::contraction::Contraction;
use super::recurrence::Recurrence;
use super::row::{Chain, Gather, Reduction, TopPair};
use super::window::{HistoryStorage, Window};
use crate::ir::NodeId;

/// A place of the graph served as one.
#[derive(Clone, Debug, PartialEq)]
pub enum Site {
    /// A softmax-weighted sum over a history.
    Attention(Box<Attention>),
    /// A state's update with its readouts. Diagonal and general ones list no readouts.
    Recurrence(Box<Recurrence>),
    /// A causal convolution.
    Window(Box<Window>),
    /// A sum of a product of two reads.
    Contraction(Box<Contraction>),
    /// A fold along rows.
    Reduction(Reduction),
    /// A pick of rows.
    Gather(Gather),
    /// Top-k.
    Top(TopPair),
    /// Elementwise nodes.
    Chain(Chain),
    /// A loop.
    Scan(NodeId),
    /// Any other node: the general kernel.
    General(NodeId),
}

/// A site by its place in [`Sites::sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteIndex(pub usize);

/// A cover of a graph: every node that is computed belongs to exactly one site.
#[derive(Clone, Debug, PartialEq)]
pub struct Sites {
    /// The sites, in an order in which each comes after all sites whose results it reads.
    pub sites: Vec<Site>,
    /// By node: the site that computes or absorbs it. None for inputs, parameters, constants, incoming states and nodes
    /// nobody needs.
    pub owner: Vec<Option<SiteIndex>>,
    /// By node: whether its tensor is in memory after its site ran. False for absorbed nodes.
    pub materialised: Vec<bool>,
    /// By history: what to keep.
    pub histories: Vec<HistoryStorage>,
    /// Nodes that nearly matched a better site, and why not.
    pub refusals: Vec<Refusal>,
}

impl Site {
    /// The nodes whose tensors the site leaves in memory, in graph order.
    pub fn results(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = match self {
            Site::Attention(site) => std::iter::once(site.node)
                .chain(site.epilogues.iter().map(|epilogue| epilogue.node))
                .collect(),
            Site::Recurrence(site) => site.results(),
            Site::Window(site) => vec![site.node],
            Site::Contraction(site) => vec![site.node],
            Site::Reduction(site) => vec![site.node],
            Site::Gather(site) => vec![site.node],
            Site::Top(site) => site.values.into_iter().chain(site.indices).collect(),
            Site::Chain(site) => site.nodes.last().copied().into_iter().collect(),
            Site::Scan(node) | Site::General(node) => vec![*node],
        };
        nodes.sort();
        nodes
    }
}
