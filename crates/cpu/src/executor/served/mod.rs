//! Sites that a kernel serves instead of the general one: which they are, and the steps that run them.
//!
//! A query describes a site; here it is decided whether a kernel of this device can serve exactly that ([`contract`]). What a kernel cannot serve keeps its nodes, which the general kernel computes.
//!
//! Start reading at [`find`].

pub(super) mod contract;
mod extend;
#[allow(dead_code, reason = "attention and recurrences come next")]
mod forms;

use std::collections::HashMap;

use fiddlehead_graph::queries::{HistoryStorage, Site, Source, assign_sites};
use fiddlehead_graph::{Graph, HistoryId, NodeId, StateId};
use fiddlehead_plan::{DeviceError, Family, Policy};

use self::contract::ContractSite;
use self::extend::Extension;
use super::lower::Lowering;
use super::program::Step;
use super::unit::{Unit, Work};

/// A served site, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServedIndex(pub usize);

/// A site with the kernel that serves it.
#[derive(Clone, Debug)]
pub(super) enum Served {
    Contract(ContractSite),
}

impl Served {
    /// Nodes that it computes or makes needless.
    pub(super) fn covers(&self) -> &[NodeId] {
        match self {
            Served::Contract(site) => std::slice::from_ref(&site.node),
        }
    }
    /// Nodes whose tensors it leaves.
    pub(super) fn makes(&self) -> Vec<NodeId> {
        match self {
            Served::Contract(site) => vec![site.node],
        }
    }
    /// Tensors and histories that it reads.
    pub(super) fn reads(&self) -> (Vec<NodeId>, Vec<HistoryId>) {
        match self {
            Served::Contract(site) => (vec![site.activation, site.weight], vec![]),
        }
    }
    /// The state that it carries itself.
    pub(super) fn state(&self) -> Option<StateId> {
        None
    }
}

/// What was found in a graph.
pub(super) struct Found {
    /// The graph with nodes added at its end: operands that the program wrote inside larger expressions.
    pub graph: Graph,
    pub served: Vec<Served>,
    /// Nodes computed by another definition than their own: that of the node added for them.
    pub definitions: HashMap<NodeId, NodeId>,
    /// By history: how many rows back it is read.
    pub reach: Vec<Option<usize>>,
    pub refusals: Vec<(String, String)>,
}

impl Found {
    pub(super) fn shares_launch(&self, unit: &Unit) -> bool {
        matches!(unit.work, Work::Served(index) if matches!(self.served[index.0], Served::Contract(_)))
    }
    /// The node whose definition computes a node.
    pub(super) fn definition(&self, node: NodeId) -> NodeId {
        self.definitions.get(&node).copied().unwrap_or(node)
    }
}

/// Finds the sites of a graph that kernels serve under a policy.
pub(super) fn find(graph: &Graph, policy: &Policy) -> Result<Found, DeviceError> {
    let sites = assign_sites(graph);
    let mut found = Search {
        graph,
        extension: Extension::new(graph),
        served: Vec::new(),
        definitions: HashMap::new(),
        refusals: Vec::new(),
    };
    for refusal in &sites.refusals {
        found.refuse(refusal.node, refusal.to_string());
    }
    for site in &sites.sites {
        match site {
            Site::Contraction(site) if policy.serves(Family::Contraction) => {
                match ContractSite::new(graph, site, &mut found.extension) {
                    Ok(site) => found.served.push(Served::Contract(site)),
                    Err(why) => found.refuse(site.node, why),
                }
            }
            _ => {}
        }
    }
    let reach = sites.histories.iter().map(|storage| match *storage {
        HistoryStorage::Nothing => Some(1),
        HistoryStorage::Ring { reach } => Some(reach),
        HistoryStorage::Whole | HistoryStorage::Both { .. } => None,
    });
    Ok(Found {
        graph: found.extension.seal(graph)?,
        served: found.served,
        definitions: found.definitions,
        reach: reach.collect(),
        refusals: found.refusals,
    })
}

struct Search<'a> {
    graph: &'a Graph,
    extension: Extension,
    served: Vec<Served>,
    definitions: HashMap<NodeId, NodeId>,
    refusals: Vec<(String, String)>,
}

impl Search<'_> {
    fn refuse(&mut self, node: NodeId, why: impl Into<String>) {
        self.refusals.push((self.graph.node(node).origin.name.clone(), why.into()));
    }
}

/// The node that holds an operand: its own, or one added for it.
fn operand_node(
    graph: &Graph,
    source: &Source,
    reader: NodeId,
    extension: &mut Extension,
) -> Result<NodeId, String> {
    match source {
        Source::Node(node) => Ok(*node),
        Source::Chain(compute) => Ok(extension.add(graph, reader, compute)),
        Source::History(_) => Err("an operand is read from a history".into()),
    }
}

/// Makes the step of units that share a launch.
pub(super) fn lower(lowering: &mut Lowering<'_>, units: &[usize]) -> Result<Step, DeviceError> {
    contract::lower(lowering, units).map(Step::Contract)
}
