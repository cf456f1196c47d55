//! Sites that a kernel serves instead of the general one: which they are, and the steps that run them.
//!
//! A query describes a site; here it is decided whether a kernel of this device can serve exactly that ([`contract`],
//! [`gathered`], [`strided`], [`attend`], [`delta`]). What a kernel cannot serve keeps its nodes, which the general kernel
//! computes.
//!
//! Start reading at [`find`].

pub(super) mod attend;
pub(super) mod contract;
pub(super) mod delta;
mod forms;
pub(super) mod gathered;
pub(super) mod strided;

use std::collections::HashMap;
use std::sync::Arc;

use fiddlehead_graph::queries::{
    Contraction, HistoryStorage, RecurrenceKind, Site, Source, Variance, assign_sites,
};
use fiddlehead_graph::{Graph, HistoryId, NodeId, NodeKind, Range, StateId};
use fiddlehead_plan::{Choice, DeviceError, Family};

use self::attend::AttendSite;
use self::contract::ContractSite;
use self::delta::{DeltaShape, DeltaSite};
use self::gathered::{GatheredSite, chosen_index};
use self::strided::StridedSite;
use super::lower::{Context, Lowering};
use super::program::Step;
use fiddlehead_plan::order::{Duty, Extension, Facts, Joined, ServedIndex, ServedSite, Unit, Units};

/// A site with the kernel that serves it.
#[derive(Clone, Debug)]
pub(super) enum Served {
    Contract(ContractSite),
    Gathered(Box<GatheredSite>),
    Strided(Box<StridedSite>),
    Attend(Box<AttendSite>),
    Delta(Box<DeltaSite>),
}

impl ServedSite for Served {
    fn covers(&self) -> &[NodeId] {
        match self {
            Served::Contract(site) => std::slice::from_ref(&site.node),
            Served::Gathered(site) => std::slice::from_ref(&site.node),
            Served::Strided(site) => std::slice::from_ref(&site.node),
            Served::Attend(site) => &site.covers,
            Served::Delta(site) => &site.covers,
        }
    }
    fn makes(&self) -> Vec<NodeId> {
        match self {
            Served::Contract(site) => vec![site.node],
            Served::Gathered(site) => vec![site.node],
            Served::Strided(site) => vec![site.node],
            Served::Attend(site) => vec![site.node],
            Served::Delta(site) => vec![site.node],
        }
    }
    fn reads(&self) -> (Vec<NodeId>, Vec<HistoryId>) {
        match self {
            Served::Contract(site) => (vec![site.activation, site.weight], vec![]),
            Served::Gathered(site) => (site.reads(), vec![]),
            Served::Attend(site) => {
                let mut reads = vec![site.query];
                reads.extend(site.sinks);
                (reads, vec![site.key, site.value])
            }
            Served::Strided(site) => (site.operands.to_vec(), vec![]),
            Served::Delta(site) => (site.reads(), vec![]),
        }
    }
    fn state(&self) -> Option<StateId> {
        match self {
            Served::Delta(site) => Some(site.state),
            _ => None,
        }
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
        let shares =
            |index: ServedIndex| matches!(self.served[index.0], Served::Contract(_) | Served::Gathered(_));
        matches!(unit.work, Duty::Served(index) if shares(index))
    }
    /// By state: the delta rule that carries it.
    pub(super) fn carried(&self) -> Vec<Option<Arc<DeltaShape>>> {
        let mut carried = vec![None; self.graph.states().len()];
        for site in &self.served {
            if let Served::Delta(site) = site {
                carried[site.state.index()] = Some(Arc::new(site.shape().clone()));
            }
        }
        carried
    }
    /// What kernels compute together.
    pub(super) fn joined(&self, facts: &Facts) -> Vec<Joined> {
        let served = self.served.iter().map(|site| Joined {
            nodes: site.covers().to_vec(),
            reads: site.reads().0,
            all: site.state().is_some(),
        });
        let defined = self.definitions.iter().map(|(&node, definition)| Joined {
            nodes: vec![node],
            reads: facts.reads[definition.index()].nodes.clone(),
            all: false,
        });
        served.chain(defined).collect()
    }
    /// The node whose definition computes a node.
    pub(super) fn definition(&self, node: NodeId) -> NodeId {
        self.definitions.get(&node).copied().unwrap_or(node)
    }
}

/// Finds the sites of a graph that kernels serve under a policy.
pub(super) fn find(graph: &Graph, context: Context<'_>) -> Result<Found, DeviceError> {
    let policy = context.policy;
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
            // Computed once, at loading.
            Site::Contraction(site)
                if site.operands.iter().all(|operand| operand.variance == Variance::Constant) => {}
            Site::Contraction(site) if policy.serves(Family::Contraction) => {
                match contraction(graph, site, context, &mut found.extension) {
                    Ok(served) => {
                        if let Served::Contract(contract) = &served
                            && let Some((candidate, why)) = &contract.chosen.refused
                        {
                            found.refuse(site.node, format!("not {}: {why}", candidate.name()));
                        }
                        found.served.push(served);
                    }
                    Err(why) => found.refuse(site.node, why),
                }
            }
            Site::Attention(site) if policy.serves(Family::Attention) => {
                match AttendSite::new(graph, site, &sites, &mut found.extension) {
                    Ok(served) => {
                        found.served.push(Served::Attend(Box::new(served)));
                        for epilogue in &site.epilogues {
                            let added = found.extension.add(graph, epilogue.node, &epilogue.compute);
                            found.definitions.insert(epilogue.node, added);
                        }
                    }
                    Err(why) => found.refuse(site.node, why),
                }
            }
            Site::Recurrence(site) if policy.serves(Family::Recurrence) => {
                if let RecurrenceKind::Delta(delta) = &site.kind {
                    let loops = if context.single_row { &[][..] } else { &sites.loops[..] };
                    let block = *policy.of(Family::Recurrence) == Choice::Named("block".into());
                    match DeltaSite::new(graph, site, delta, loops, block, &mut found.extension) {
                        Ok(site) => found.served.push(Served::Delta(Box::new(site))),
                        Err(why) => found.refuse(site.next, why),
                    }
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

/// The kernel of a contraction: of rows as they lie, of any strides, or of rows gathered first.
fn contraction(
    graph: &Graph,
    site: &Contraction,
    context: Context<'_>,
    extension: &mut Extension,
) -> Result<Served, String> {
    // Kernels read by address: an index that leaves its axis would read its neighbour where the program traps.
    let extents: Vec<usize> = site.axes.iter().map(|axis| axis.extent).collect();
    for operand in &site.operands {
        chosen_index(graph, operand, &extents)?;
    }
    let strided =
        |extension: &mut Extension| match context.policy.allows(Family::Contraction, strided::NAME) {
            true => StridedSite::new(graph, site, context, extension)
                .map(|served| Served::Strided(Box::new(served))),
            false => Err("`--dispatch` names another than the strided kernel".to_string()),
        };
    let weight = match site.as_weight_rows(graph) {
        Ok(weight) => weight,
        Err(refusal) => return strided(extension).map_err(|why| format!("{refusal}; {why}")),
    };
    let gathered = |extension: &mut Extension| {
        let served = GatheredSite::new(graph, site, &weight, context.weights, extension)?;
        Ok(Served::Gathered(Box::new(served)))
    };
    if weight.group.is_some() {
        return gathered(extension);
    }
    if let Ok(served) = ContractSite::new(graph, site, context, extension) {
        return Ok(Served::Contract(served));
    }
    // Gathering takes all forest nodes together, which pays for what each node has; one matrix product alone has no more
    // rows to wait for.
    let per_node = site.operands.iter().any(|operand| operand.variance == Variance::PerNode);
    let either = match per_node {
        true => gathered(extension).or_else(|why| strided(extension).map_err(|other| (why, other))),
        false => strided(extension).or_else(|why| gathered(extension).map_err(|other| (why, other))),
    };
    either.map_err(|(why, other): (String, String)| format!("{why}; {other}"))
}

/// The node that holds an operand: its own, or one added for it.
fn operand_node(
    graph: &Graph,
    source: &Source,
    reader: NodeId,
    extension: &mut Extension,
) -> Result<NodeId, String> {
    match source {
        Source::Node(node) if matches!(graph.node(*node).kind, NodeKind::State(_)) => {
            Err("an operand is a state, whose rows lie with their sessions".into())
        }
        Source::Node(node) => Ok(*node),
        Source::Chain(compute) => Ok(extension.add(graph, reader, compute)),
        Source::History(_) => Err("an operand is read from a history".into()),
    }
}

/// Whether the first `reach` elements exist in one row of a source: kernels read by address, and check nothing.
fn within(graph: &Graph, source: &Source, reach: usize) -> bool {
    let elements = match source {
        Source::Node(node) => graph.shape(*node).map(|shape| shape.iter().product::<usize>()),
        Source::History(history) => {
            graph.shape(graph.histories()[history.index()].row).map(|shape| shape.iter().product())
        }
        Source::Chain(compute) => compute
            .axes
            .iter()
            .map(|axis| match axis {
                Range::Fixed(extent) => Some(*extent),
                Range::Between { .. } => None,
            })
            .product(),
    };
    elements.is_some_and(|elements| reach <= elements)
}

/// The launches of kernels that are ready together: contractions of whole weights, those of chosen parts, any other.
pub(super) fn launches(found: &Found, units: &Units, ready: &[usize]) -> Vec<Vec<usize>> {
    let gathered = |unit: &&usize| match units.units[**unit].work {
        Duty::Served(index) => matches!(found.served[index.0], Served::Gathered(_)),
        _ => false,
    };
    let (parts, whole): (Vec<usize>, Vec<usize>) = ready.iter().partition(gathered);
    [whole, parts].into_iter().filter(|launch| !launch.is_empty()).collect()
}

/// Makes the step of units that share a launch.
pub(super) fn lower(lowering: &mut Lowering<'_>, units: &[usize]) -> Result<Step, DeviceError> {
    let served = |unit: usize| match lowering.units.units[unit].work {
        Duty::Served(index) => lowering.found.served.get(index.0),
        _ => None,
    };
    match units.first().and_then(|&unit| served(unit)) {
        Some(Served::Attend(site)) => attend::lower(lowering, site).map(|step| Step::Attend(Box::new(step))),
        Some(Served::Strided(site)) => {
            let set = lowering.units.units[units[0]].set;
            strided::lower(lowering, site, set).map(|step| Step::Strided(Box::new(step)))
        }
        Some(Served::Delta(site)) => delta::lower(lowering, site).map(|step| Step::Delta(Box::new(step))),
        Some(Served::Gathered(_)) => gathered::lower(lowering, units).map(Step::Gathered),
        _ => contract::lower(lowering, units).map(Step::Contract),
    }
}
