//! Sites with kernels of their own, and how each is written.

mod attend;
mod contract;
mod delta;

use std::collections::HashMap;

use fiddlehead_graph::queries::{
    Contraction, HistoryStorage, Operand, Recurrence, RecurrenceKind, Site, Source, Variance, assign_sites,
};
use fiddlehead_graph::{Expr, Graph, HistoryId, NodeId, StateId};
use fiddlehead_plan::order::{Extension, Facts, Joined, ServedSite};
use fiddlehead_plan::{Choice, DeviceError, Family};

use self::attend::AttendSite;
use self::contract::ContractSite;
use self::delta::DeltaSite;
use super::kernel::{Grid, Kernel, Rows};
use super::lower::Context;
use super::scope::Scope;
use super::traps::Traps;

/// A site with the kernels that serve it.
#[derive(Clone, Debug)]
pub(super) enum Served {
    Contract(Box<ContractSite>),
    Attend(Box<AttendSite>),
    Delta(Box<DeltaSite>),
}

impl Served {
    pub fn family(&self) -> &'static str {
        match self {
            Served::Contract(_) => "contraction",
            Served::Attend(_) => "attention",
            Served::Delta(_) => "recurrence",
        }
    }
    /// Which of its family's kernels.
    pub fn candidate(&self) -> &'static str {
        match self {
            Served::Contract(_) => "chunks",
            Served::Attend(_) => "pages",
            Served::Delta(site) => site.candidate(),
        }
    }
    /// The state that it carries from row to row, and the words it keeps of each for a commit.
    pub fn carries(&self) -> Option<(StateId, usize)> {
        match self {
            Served::Delta(site) => Some((site.state, site.row_words())),
            _ => None,
        }
    }
    /// Writes the kernel that walks an accepted path again, of a site that carries a state.
    pub fn write_replay(&self, kernel: &mut Kernel, graph: &Graph) {
        if let Served::Delta(site) = self {
            site.write_replay(kernel, graph);
        }
    }
    /// The grid of its kernel.
    pub fn grid(&self, rows: Rows) -> Grid {
        match self {
            Served::Contract(site) => contract::grid(&[&**site], rows),
            Served::Attend(site) => site.grid(rows),
            Served::Delta(site) => site.grid(),
        }
    }
    /// Writes its kernel.
    pub fn write(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps) {
        match self {
            Served::Contract(site) => contract::write(&[&**site], kernel, scope, traps),
            Served::Attend(site) => site.write(kernel, scope, traps),
            Served::Delta(site) => site.write(kernel, scope, traps),
        }
    }
}

/// Contractions that share a launch.
pub(super) struct Together<'s>(Vec<&'s ContractSite>);

impl<'s> Together<'s> {
    /// Sites that are all contractions; none when another is among them.
    pub fn new(served: impl Iterator<Item = &'s Served>) -> Option<Together<'s>> {
        let contract = |site: &'s Served| match site {
            Served::Contract(site) => Some(&**site),
            _ => None,
        };
        served.map(contract).collect::<Option<_>>().map(Together)
    }
    /// The grid of their kernel.
    pub fn grid(&self, rows: Rows) -> Grid {
        contract::grid(&self.0, rows)
    }
    /// Writes their kernel.
    pub fn write(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps) {
        contract::write(&self.0, kernel, scope, traps);
    }
}

impl ServedSite for Served {
    fn covers(&self) -> &[NodeId] {
        match self {
            Served::Contract(site) => &site.covers,
            Served::Attend(site) => &site.covers,
            Served::Delta(site) => &site.covers,
        }
    }
    fn makes(&self) -> Vec<NodeId> {
        match self {
            Served::Contract(site) => vec![site.node()],
            Served::Attend(site) => vec![site.attention.node],
            Served::Delta(site) => site.makes.clone(),
        }
    }
    fn reads(&self) -> (Vec<NodeId>, Vec<HistoryId>) {
        match self {
            Served::Contract(site) => (site.reads.clone(), vec![]),
            Served::Attend(site) => (site.reads.clone(), site.histories.to_vec()),
            Served::Delta(site) => (site.reads.clone(), vec![]),
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
    definitions: HashMap<NodeId, NodeId>,
    pub sites_histories: Vec<HistoryStorage>,
    pub refusals: Vec<(String, String)>,
}

impl Found {
    /// The node whose definition computes a node.
    pub fn definition(&self, node: NodeId) -> NodeId {
        self.definitions.get(&node).copied().unwrap_or(node)
    }
    /// What kernels compute together.
    pub fn joined(&self, facts: &Facts) -> Vec<Joined> {
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
}

/// Finds the sites of a graph that kernels serve under a policy.
pub(super) fn find(graph: &Graph, context: Context<'_>) -> Result<Found, DeviceError> {
    let sites = assign_sites(graph);
    let mut extension = Extension::new(graph);
    let mut found = Vec::new();
    let mut definitions = HashMap::new();
    let name = |node: NodeId| graph.node(node).origin.name.clone();
    let mut refusals: Vec<(String, String)> =
        sites.refusals.iter().map(|refusal| (name(refusal.node), refusal.to_string())).collect();
    let in_loop = |nodes: &[NodeId]| {
        sites.loops.iter().any(|feedback| feedback.nodes.iter().any(|node| nodes.contains(node)))
    };
    let contracts = context.policy.serves(Family::Contraction);
    let fused = (contracts && context.policy.serves(Family::Fusion))
        .then(|| contract::choose(graph, &sites, &in_loop));
    refusals
        .extend(fused.iter().flat_map(|fused| &fused.refusals).map(|(node, why)| (name(*node), why.clone())));
    let contraction = |node: NodeId| {
        sites.sites.iter().find_map(|site| match site {
            Site::Contraction(site) if site.node == node => Some(&**site),
            _ => None,
        })
    };
    for site in &sites.sites {
        let why = match site {
            Site::Contraction(site) if contracts => {
                let constant = site.operands.iter().all(|operand| operand.variance == Variance::Constant);
                let joined = fused.as_ref().is_some_and(|fused| fused.joined.contains(&site.node));
                if constant || joined {
                    continue;
                }
                if in_loop(&[site.node]) {
                    Err("it depends on itself through a state, row after row".to_string())
                } else {
                    let fusion = fused.as_ref().map(|fused| fused.of(site.node));
                    let joined = fusion.as_ref().and_then(|fusion| fusion.joined.as_deref());
                    let joined = joined.and_then(|joined| contraction(joined.site));
                    let terms: Vec<&Contraction> = std::iter::once(&**site).chain(joined).collect();
                    ContractSite::new(graph, &terms, fusion.as_ref(), &mut extension)
                        .map(|site| found.push(Served::Contract(Box::new(site))))
                }
                .map_err(|why| (site.node, why))
            }
            Site::Attention(site) if context.policy.serves(Family::Attention) => {
                let covered: Vec<NodeId> = site.absorbed.iter().copied().chain([site.node]).collect();
                if in_loop(&covered) {
                    Err("it depends on itself through a state, row after row".to_string())
                } else {
                    AttendSite::new(graph, site, &mut extension).map(|served| {
                        found.push(Served::Attend(Box::new(served)));
                        for epilogue in &site.epilogues {
                            let added = extension.add(graph, epilogue.node, &epilogue.compute);
                            definitions.insert(epilogue.node, added);
                        }
                    })
                }
                .map_err(|why| (site.node, why))
            }
            Site::Recurrence(site) if context.policy.serves(Family::Recurrence) => match &site.kind {
                RecurrenceKind::Delta(_) if in_loop(&covered(site)) => {
                    Err((site.next, "its operands depend on its own past through other nodes".to_string()))
                }
                RecurrenceKind::Delta(delta) => {
                    let block = *context.policy.of(Family::Recurrence) == Choice::Named("block".into());
                    DeltaSite::new(graph, site, delta, block, &mut extension)
                        .map(|site| found.push(Served::Delta(Box::new(site))))
                        .map_err(|why| (site.next, why))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        };
        if let Err((node, why)) = why {
            refusals.push((name(node), why));
        }
    }
    Ok(Found {
        graph: extension.seal(graph)?,
        served: found,
        definitions,
        sites_histories: sites.histories.clone(),
        refusals,
    })
}

/// The nodes that a recurrence computes or makes needless.
fn covered(site: &Recurrence) -> Vec<NodeId> {
    site.absorbed.iter().copied().chain(site.results()).collect()
}

/// The operand with a node for its source: what the program wrote inside a larger expression becomes a node.
fn as_node(graph: &Graph, reader: NodeId, operand: &Operand, extension: &mut Extension) -> Operand {
    let mut operand = operand.clone();
    if let Source::Chain(compute) = &operand.source {
        operand.source = Source::Node(extension.add(graph, reader, compute));
    }
    operand
}

/// The nodes that an expression loads.
fn loads(expr: &Expr, found: &mut Vec<NodeId>) {
    expr.visit(&mut |part| {
        if let Expr::Load { node, .. } = part {
            found.push(*node);
        }
    });
}

/// The nodes that an operand's indices load, and its source.
fn operand_loads(operand: &Operand, found: &mut Vec<NodeId>) {
    found.extend(operand.node());
    for form in &operand.indices {
        form_loads(form, found);
    }
}

fn form_loads(form: &fiddlehead_graph::queries::Affine, found: &mut Vec<NodeId>) {
    use fiddlehead_graph::queries::Atom;
    for (atom, _) in &form.terms {
        match atom {
            Atom::Axis(_) => {}
            Atom::Quotient(inner, _) | Atom::Remainder(inner, _) => form_loads(inner, found),
            Atom::Gathered(expr) => loads(expr, found),
        }
    }
}
