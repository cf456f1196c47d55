//! What an executor needs to know of a whole graph before it makes a program of it.

use fiddlehead_graph::queries::{Demand, Variance};
use fiddlehead_graph::{Expr, Graph, HistoryId, NodeId, NodeKind, Range, StateId};

/// What one node reads, each once.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// Tensors of the same row.
    pub nodes: Vec<NodeId>,
    /// Histories, at any depth.
    pub histories: Vec<HistoryId>,
    /// Whether `here` is read.
    pub here: bool,
}

impl Reads {
    /// Adds what an expression reads, each tensor once.
    fn note(&mut self, expr: &Expr) {
        expr.any(&mut |part| {
            match part {
                Expr::Load { node, .. } if !self.nodes.contains(node) => self.nodes.push(*node),
                Expr::History { history, .. } => self.histories.push(*history),
                Expr::Here => self.here = true,
                _ => {}
            }
            false
        });
    }
}

/// Nodes that one kernel computes together.
pub struct Joined {
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// What it reads.
    pub reads: Vec<NodeId>,
    /// Whether it runs for every row whatever is wanted.
    pub all: bool,
}

/// Facts by node.
#[derive(Clone, Debug)]
pub struct Facts {
    /// How often its value changes.
    pub variance: Vec<Variance>,
    /// Who wants it.
    pub demand: Vec<Demand>,
    /// What it reads.
    pub reads: Vec<Reads>,
}

impl Facts {
    /// Facts of a graph of which no place is served by a kernel.
    pub fn new(graph: &Graph) -> Facts {
        let reads: Vec<Reads> = graph.node_ids().map(|node| reads(graph, node)).collect();
        let variance = variance(graph, &reads);
        let mut facts = Facts { variance, demand: initial_demand(graph), reads };
        facts.push_demand();
        facts
    }

    /// Raises the demand of nodes that one kernel computes together to that of all of them, or to every row, and hands it
    /// on to what the kernel reads.
    pub fn join_demand(&mut self, groups: &[Joined]) {
        loop {
            let before = self.demand.clone();
            for group in groups {
                let mut joined = Demand { all: group.all, outputs: 0 };
                let more =
                    |a: Demand, b: Demand| Demand { all: a.all | b.all, outputs: a.outputs | b.outputs };
                group.nodes.iter().for_each(|node| joined = more(joined, self.demand[node.index()]));
                group.nodes.iter().for_each(|node| self.demand[node.index()] = joined);
                for read in &group.reads {
                    self.demand[read.index()] = more(joined, self.demand[read.index()]);
                }
            }
            self.push_demand();
            if before == self.demand {
                return;
            }
        }
    }

    fn push_demand(&mut self) {
        for node in (0..self.reads.len()).rev() {
            let here = self.demand[node];
            for read in &self.reads[node].nodes {
                let read = &mut self.demand[read.index()];
                read.all |= here.all;
                read.outputs |= here.outputs;
            }
        }
    }

    /// Whether the node has a value of its own for each forest node.
    pub fn per_node(&self, node: NodeId) -> bool {
        self.variance[node.index()] == Variance::PerNode
    }
}

fn reads(graph: &Graph, node: NodeId) -> Reads {
    let mut reads = Reads::default();
    let kind = &graph.node(node).kind;
    kind.for_each_read(&mut |read| reads.nodes.push(read), &mut |history| reads.histories.push(history));
    if let NodeKind::Compute(compute) = kind {
        compute.for_each_expr(&mut |expr| {
            reads.here |= expr.any(&mut |part| matches!(part, Expr::Here));
        });
    }
    // A reader of a local tensor finds its elements, and its mistakes, by the tensor's ranges.
    let mut place = 0;
    while let Some(&source) = reads.nodes.get(place) {
        for range in graph.axes(source) {
            range.for_each_expr(&mut |expr| reads.note(expr));
        }
        place += 1;
    }
    reads.nodes.sort();
    reads.nodes.dedup();
    reads.histories.sort();
    reads.histories.dedup();
    reads
}

fn variance(graph: &Graph, reads: &[Reads]) -> Vec<Variance> {
    let mut variances = Vec::with_capacity(reads.len());
    for node in graph.node_ids() {
        let own = match &graph.node(node).kind {
            NodeKind::Input(input) if graph.inputs()[input.index()].per_node => Variance::PerNode,
            NodeKind::Input(_) => Variance::Uniform,
            NodeKind::State(_) => Variance::PerNode,
            // A loop runs once a run, however little it depends on: its scratch is the run's.
            NodeKind::Scan(_) => Variance::Uniform,
            _ => Variance::Constant,
        };
        let here = &reads[node.index()];
        let path = if here.here || !here.histories.is_empty() { Variance::PerNode } else { own };
        let read = here.nodes.iter().map(|read: &NodeId| variances[read.index()]).max();
        // A local tensor's memory is taken when its size is known, which is in a run.
        let local = graph.axes(node).iter().any(|axis| matches!(axis, Range::Between { .. }));
        let own = if local { own.max(Variance::Uniform) } else { own };
        variances.push(own.max(path).max(read.unwrap_or(Variance::Constant)));
    }
    variances
}

fn initial_demand(graph: &Graph) -> Vec<Demand> {
    let mut demand = vec![Demand::default(); graph.nodes().len()];
    for (index, output) in graph.outputs().iter().enumerate() {
        demand[output.node.index()].outputs |= 1 << index.min(63);
    }
    for state in graph.states() {
        demand[state.next.index()].all = true;
        demand[state.initial.index()].all = true;
    }
    for history in graph.histories() {
        demand[history.row.index()].all = true;
    }
    demand
}

/// The node of a state's incoming value, when the graph has one.
pub fn state_of(graph: &Graph, node: NodeId) -> Option<StateId> {
    match graph.node(node).kind {
        NodeKind::State(state) => Some(state),
        _ => None,
    }
}
