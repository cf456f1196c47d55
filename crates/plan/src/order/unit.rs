//! Units: the smallest pieces of work that a program orders, and what each depends on.

use fiddlehead_forest::{MAX_OUTPUTS, Wanted};
use fiddlehead_graph::queries::{Demand, Variance};
use fiddlehead_graph::{Graph, HistoryId, NodeId, NodeKind, StateId};

use super::facts::{Facts, state_of};

/// A kernel that serves a site of the graph: what of the order it takes part in.
pub trait ServedSite {
    /// Nodes that it computes or makes needless.
    fn covers(&self) -> &[NodeId];
    /// Nodes whose tensors it leaves.
    fn makes(&self) -> Vec<NodeId>;
    /// Tensors and histories that it reads.
    fn reads(&self) -> (Vec<NodeId>, Vec<HistoryId>);
    /// The state that it carries from row to row by itself.
    fn state(&self) -> Option<StateId>;
}

/// A served site, by its place in the list given to [`Units::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedIndex(pub usize);

/// A set of rows, by its place in a program's sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetIndex(pub usize);

impl SetIndex {
    /// Every row of the forest.
    pub const ALL: SetIndex = SetIndex(0);
}

/// Which rows a set holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowSet {
    /// Every row of the forest.
    All,
    /// Rows that want one of these outputs.
    Wanting(u64),
}

impl RowSet {
    /// Whether the set holds a forest node that wants those outputs.
    pub fn holds(self, wanted: Wanted) -> bool {
        match self {
            RowSet::All => true,
            RowSet::Wanting(outputs) => wanted.intersects(match outputs >> MAX_OUTPUTS {
                0 => Wanted::from_bits(outputs as u32),
                // Beyond the outputs that a forest tells apart, only those who want everything want it.
                _ => Wanted::ALL,
            }),
        }
    }
}

/// What a unit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Computes a node by the general kernel.
    Node(NodeId),
    /// Runs a loop, with all of its results.
    Scan(NodeId),
    /// Adds the row's own row to a history.
    Append(HistoryId),
    /// Keeps the row's outgoing value of a state.
    Store(StateId),
    /// Runs a kernel that serves a site.
    Served(ServedIndex),
}

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Unit {
    /// What it does.
    pub work: Duty,
    /// Nodes whose tensors it leaves in memory.
    pub makes: Vec<NodeId>,
    /// Tensors of the same row that it reads; never states.
    pub reads: Vec<NodeId>,
    /// States whose incoming value it reads.
    pub states: Vec<StateId>,
    /// Histories that it reads.
    pub histories: Vec<HistoryId>,
    /// The rows it is done for; none when it is done once for all.
    pub set: Option<SetIndex>,
    /// Whether it carries a state by itself.
    pub carries: bool,
}

/// All units of a graph, constants left out.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// The units, in no order that matters.
    pub units: Vec<Unit>,
    /// The sets of rows, every row first.
    pub sets: Vec<RowSet>,
    /// By node: its set; none for what is not of each row.
    pub set_of: Vec<Option<SetIndex>>,
}

impl Units {
    /// The units of a graph of which `served` are served by kernels. `definition` gives the node whose definition
    /// computes a node: mostly itself.
    pub fn new(
        graph: &Graph,
        served: &[impl ServedSite],
        definition: &dyn Fn(NodeId) -> NodeId,
        facts: &Facts,
    ) -> Units {
        let mut units = Units { sets: vec![RowSet::All], ..Units::default() };
        units.set_of = graph.node_ids().map(|node| units.set(graph, facts, node)).collect();
        let mut covered = vec![false; graph.nodes().len()];
        for (index, site) in served.iter().enumerate() {
            site.covers().iter().for_each(|node| covered[node.index()] = true);
            units.push_served(graph, ServedIndex(index), site);
        }
        for node in graph.node_ids() {
            if covered[node.index()]
                || facts.demand[node.index()].is_none()
                || facts.variance[node.index()] == Variance::Constant
            {
                continue;
            }
            match &graph.node(node).kind {
                NodeKind::Compute(_) | NodeKind::Top { .. } => {
                    units.push(graph, facts, Duty::Node(node), vec![node], definition(node));
                }
                NodeKind::Scan(_) => {
                    let results = graph.node_ids().filter(|&other| {
                        matches!(graph.node(other).kind, NodeKind::ScanResult { scan, .. } if scan == node)
                            && !facts.demand[other.index()].is_none()
                    });
                    units.push(graph, facts, Duty::Scan(node), results.collect(), node);
                }
                _ => {}
            }
        }
        for (index, history) in graph.histories().iter().enumerate() {
            let work = Duty::Append(HistoryId(index as u32));
            units.push_reading(graph, work, vec![], vec![history.row], vec![], Some(SetIndex::ALL));
        }
        for (index, state) in graph.states().iter().enumerate() {
            let id = StateId(index as u32);
            if !served.iter().any(|site| site.state() == Some(id)) {
                let work = Duty::Store(id);
                units.push_reading(graph, work, vec![], vec![state.next], vec![], Some(SetIndex::ALL));
            }
        }
        units.prune(graph);
        units
    }

    /// Drops units whose results nobody reads: a kernel may read past what the program put between.
    fn prune(&mut self, graph: &Graph) {
        let mut needed = vec![false; graph.nodes().len()];
        graph.outputs().iter().for_each(|output| needed[output.node.index()] = true);
        graph.states().iter().for_each(|state| needed[state.initial.index()] = true);
        let mut kept = vec![false; self.units.len()];
        loop {
            let mut grew = false;
            for (unit, kept) in self.units.iter().zip(&mut kept).filter(|(_, kept)| !**kept) {
                let keeps = matches!(unit.work, Duty::Append(_) | Duty::Store(_))
                    || unit.carries
                    || unit.makes.iter().any(|node| needed[node.index()]);
                if keeps {
                    (*kept, grew) = (true, true);
                    unit.reads.iter().for_each(|node| needed[node.index()] = true);
                }
            }
            if !grew {
                break;
            }
        }
        let mut kept = kept.into_iter();
        self.units.retain(|_| kept.next().unwrap_or(true));
    }

    fn set(&mut self, graph: &Graph, facts: &Facts, node: NodeId) -> Option<SetIndex> {
        // All results of a loop are there for the rows that the loop runs for.
        let asked = match graph.node(node).kind {
            NodeKind::ScanResult { scan, .. } => scan,
            _ => node,
        };
        match facts.demand[asked.index()] {
            _ if !facts.per_node(node) => None,
            _ if matches!(graph.node(node).kind, NodeKind::Input(_)) => Some(SetIndex::ALL),
            Demand { all: true, .. } => Some(SetIndex::ALL),
            Demand { outputs, .. } => {
                let set = RowSet::Wanting(outputs);
                let place = self.sets.iter().position(|&known| known == set).unwrap_or_else(|| {
                    self.sets.push(set);
                    self.sets.len() - 1
                });
                Some(SetIndex(place))
            }
        }
    }

    fn push(&mut self, graph: &Graph, facts: &Facts, work: Duty, makes: Vec<NodeId>, definition: NodeId) {
        let reads = &facts.reads[definition.index()];
        let set = match work {
            Duty::Node(node) | Duty::Scan(node) => self.set_of[node.index()],
            _ => None,
        };
        self.push_reading(graph, work, makes, reads.nodes.clone(), reads.histories.clone(), set);
    }

    fn push_served(&mut self, graph: &Graph, index: ServedIndex, site: &impl ServedSite) {
        let (reads, histories) = site.reads();
        let set = match site.state() {
            Some(_) => Some(SetIndex::ALL),
            None => site.makes().first().and_then(|node| self.set_of[node.index()]),
        };
        self.push_reading(graph, Duty::Served(index), site.makes(), reads, histories, set);
        if let Some(unit) = self.units.last_mut() {
            unit.carries = site.state().is_some();
            unit.states.extend(site.state());
        }
    }

    fn push_reading(
        &mut self,
        graph: &Graph,
        work: Duty,
        makes: Vec<NodeId>,
        reads: Vec<NodeId>,
        histories: Vec<HistoryId>,
        set: Option<SetIndex>,
    ) {
        let mut states: Vec<StateId> = reads.iter().filter_map(|&node| state_of(graph, node)).collect();
        states.sort();
        states.dedup();
        let mut reads: Vec<NodeId> =
            reads.into_iter().filter(|&node| state_of(graph, node).is_none()).collect();
        reads.sort();
        reads.dedup();
        self.units.push(Unit { work, makes, reads, states, histories, set, carries: false });
    }
}
