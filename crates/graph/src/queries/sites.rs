//! The cover of a graph by sites.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::attention::{Attention, attention, near_path_folds};
use super::contraction::{Contraction, contraction};
use super::demand::demands;
use super::expand::Analysis;
use super::feedback::{FeedbackLoop, feedback_loops};
use super::recurrence::{Recurrence, RecurrenceKind, recurrence};
use super::row::{Chain, Gather, Reduction, TopPair, chain, gather, reduction, tops};
use super::window::{HistoryStorage, Window, storage, window};
use super::{Refusal, Rule, Variance};
use crate::ir::{Graph, NodeId, NodeKind, StateId};

/// A place of the graph served as one.
#[derive(Clone, Debug, PartialEq)]
pub enum Site {
    /// A softmax-weighted sum over a history.
    Attention(Box<Attention>),
    /// A state's update, diagonal or by the delta rule, with its readouts. Other kinds are no sites: their nodes are
    /// covered one by one, and [`Sites::loops`] says which must run node after node.
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
    /// By state: how it is updated, sites or not.
    pub recurrences: Vec<Recurrence>,
    /// By history: what to keep.
    pub histories: Vec<HistoryStorage>,
    /// Nodes that no site carries from one forest node to the next by itself: each loop's nodes must run in order of depth,
    /// all of them for one forest node before any for its children.
    pub loops: Vec<FeedbackLoop>,
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

impl Site {
    /// The nodes that the site computes or absorbs.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes = self.results();
        match self {
            Site::Attention(site) => nodes.extend(&site.absorbed),
            Site::Recurrence(site) => nodes.extend(&site.absorbed),
            Site::Chain(site) => nodes = site.nodes.clone(),
            _ => {}
        }
        nodes.sort();
        nodes
    }

    /// The nodes whose tensors the site loads, each once, in graph order; a history counts as its row.
    pub fn reads(&self, graph: &Graph) -> Vec<NodeId> {
        let mut found = Vec::new();
        match self {
            Site::Attention(site) => found = site.reads(graph),
            Site::Recurrence(site) => found = site.reads(graph),
            Site::Window(site) => found = site.reads(graph),
            Site::Contraction(site) => found = site.reads(graph),
            _ => {
                let nodes = self.nodes();
                let mut histories = Vec::new();
                for &node in &nodes {
                    graph
                        .node(node)
                        .kind
                        .for_each_read(&mut |read| found.push(read), &mut |history| histories.push(history));
                }
                found.extend(histories.iter().map(|history| graph.histories()[history.index()].row));
                found.retain(|read| !nodes.contains(read));
            }
        }
        found.sort();
        found.dedup();
        found
    }
}

/// Covers a graph: attentions and recurrences first, then windows, contractions, and the small shapes.
pub fn assign_sites(graph: &Graph) -> Sites {
    let mut analysis = Analysis::new(graph);
    let mut refusals = Vec::new();
    let found = Found::new(&mut analysis, &mut refusals);
    let mut banned: HashSet<NodeId> = HashSet::new();
    loop {
        let cover = Cover::new(&analysis, &found, &banned);
        match cover.order(graph) {
            Ok(order) => return cover.finish(&mut analysis, order, found.recurrences.clone(), refusals),
            Err((node, rule)) => {
                // Two sites would wait for each other: one with several results is given up.
                let why = "its results and what it reads depend on each other through other sites";
                refusals.push(Refusal::new(node, rule, why));
                banned.insert(node);
            }
        }
    }
}

/// Every site that was proven, before any is chosen.
struct Found {
    attentions: Vec<Attention>,
    recurrences: Vec<Recurrence>,
    windows: Vec<Window>,
    contractions: Vec<Contraction>,
    tops: Vec<TopPair>,
}

impl Found {
    fn new(analysis: &mut Analysis<'_>, refusals: &mut Vec<Refusal>) -> Self {
        let graph = analysis.graph;
        let near = near_path_folds(analysis);
        let mut found = Found {
            attentions: Vec::new(),
            recurrences: Vec::new(),
            windows: Vec::new(),
            contractions: Vec::new(),
            tops: tops(graph),
        };
        for node in graph.node_ids() {
            match attention(analysis, &near, node) {
                Ok(site) => found.attentions.extend(site),
                Err(refusal) => refusals.push(refusal),
            }
            match window(analysis, node) {
                Ok(site) => found.windows.extend(site),
                Err(refusal) => refusals.push(refusal),
            }
            match contraction(analysis, node) {
                Ok(site) => found.contractions.extend(site),
                Err(refusal) => refusals.push(refusal),
            }
        }
        for state in 0..graph.states().len() {
            found.recurrences.push(recurrence(analysis, StateId(state as u32), refusals));
        }
        found
    }
}

/// A choice of sites.
struct Cover {
    sites: Vec<Site>,
    owner: Vec<Option<SiteIndex>>,
}

impl Cover {
    fn new(analysis: &Analysis<'_>, found: &Found, banned: &HashSet<NodeId>) -> Self {
        let graph = analysis.graph;
        let demands = demands(graph);
        let mut cover = Cover { sites: Vec::new(), owner: vec![None; graph.nodes().len()] };
        for site in &found.attentions {
            if !banned.contains(&site.node) {
                cover.claim(Site::Attention(Box::new(site.clone())));
            }
        }
        for site in &found.recurrences {
            let served = matches!(site.kind, RecurrenceKind::Diagonal(_) | RecurrenceKind::Delta(_));
            if served && !banned.contains(&site.next) {
                cover.claim(Site::Recurrence(Box::new(site.clone())));
            }
        }
        for site in &found.windows {
            cover.claim(Site::Window(Box::new(site.clone())));
        }
        for site in &found.contractions {
            cover.claim(Site::Contraction(Box::new(site.clone())));
        }
        for site in &found.tops {
            cover.claim(Site::Top(*site));
        }
        // Readers first, so that a chain reaches back as far as it can.
        for node in graph.node_ids().rev() {
            if cover.owner[node.index()].is_some() || demands[node.index()].is_none() {
                continue;
            }
            let site = match &graph.node(node).kind {
                NodeKind::Input(_) | NodeKind::Param(_) | NodeKind::Constant(_) | NodeKind::State(_) => {
                    continue;
                }
                NodeKind::ScanResult { .. } => Site::General(node),
                NodeKind::Scan(_) => Site::Scan(node),
                NodeKind::Top { .. } => continue,
                NodeKind::Compute(_) => {
                    let owner = &cover.owner;
                    let same_loop = |id: NodeId| {
                        owner[id.index()].is_none()
                            && analysis.feedback[id.index()] == analysis.feedback[node.index()]
                    };
                    gather(graph, node)
                        .map(Site::Gather)
                        .or_else(|| reduction(graph, &analysis.liveness, node).map(Site::Reduction))
                        .or_else(|| chain(graph, &analysis.liveness, node, &same_loop).map(Site::Chain))
                        .unwrap_or(Site::General(node))
                }
            };
            cover.claim(site);
        }
        cover
    }

    /// Adds a site unless another already has one of its nodes.
    fn claim(&mut self, site: Site) {
        let nodes = site.nodes();
        if nodes.iter().any(|node| self.owner[node.index()].is_some()) {
            return;
        }
        for node in nodes {
            self.owner[node.index()] = Some(SiteIndex(self.sites.len()));
        }
        self.sites.push(site);
    }

    /// The sites in an order of dependence, nearest to the graph's; or a node whose site waits for itself.
    fn order(&self, graph: &Graph) -> Result<Vec<usize>, (NodeId, Rule)> {
        let mut waits = vec![0usize; self.sites.len()];
        let mut unlocks: Vec<Vec<usize>> = vec![Vec::new(); self.sites.len()];
        for (place, site) in self.sites.iter().enumerate() {
            let mut sources: Vec<usize> = site
                .reads(graph)
                .iter()
                .filter_map(|read| self.owner[read.index()])
                .map(|owner| owner.0)
                .collect();
            sources.sort();
            sources.dedup();
            for source in sources {
                unlocks[source].push(place);
                waits[place] += 1;
            }
        }
        let last = |place: usize| self.sites[place].results().last().copied();
        let mut ready: BinaryHeap<Reverse<(Option<NodeId>, usize)>> = (0..self.sites.len())
            .filter(|&place| waits[place] == 0)
            .map(|place| Reverse((last(place), place)))
            .collect();
        let mut order = Vec::with_capacity(self.sites.len());
        while let Some(Reverse((_, place))) = ready.pop() {
            order.push(place);
            for &next in &unlocks[place] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(Reverse((last(next), next)));
                }
            }
        }
        if order.len() == self.sites.len() {
            return Ok(order);
        }
        let stuck = self.sites.iter().enumerate().filter(|(place, _)| waits[*place] > 0);
        let mut several = stuck.filter_map(|(_, site)| match site {
            Site::Attention(site) => Some((site.node, Rule::Attention)),
            Site::Recurrence(site) => Some((site.next, Rule::Recurrence)),
            _ => None,
        });
        // Single results follow the graph's own order and cannot wait for themselves.
        match several.next_back() {
            Some(found) => Err(found),
            None => Ok(order),
        }
    }

    fn finish(
        self,
        analysis: &mut Analysis<'_>,
        order: Vec<usize>,
        mut recurrences: Vec<Recurrence>,
        mut refusals: Vec<Refusal>,
    ) -> Sites {
        let graph = analysis.graph;
        // A site that everyone sees through (a view) is not needed.
        let mut needed = analysis.liveness.escapes.clone();
        let mut kept = vec![false; self.sites.len()];
        for &place in order.iter().rev() {
            let site = &self.sites[place];
            if site.results().iter().any(|node| needed[node.index()]) {
                kept[place] = true;
                site.reads(graph).iter().for_each(|read| needed[read.index()] = true);
            }
        }
        let mut places: Vec<Option<Site>> = self.sites.into_iter().map(Some).collect();
        let mut sites = Vec::with_capacity(order.len());
        let mut owner = vec![None; graph.nodes().len()];
        let mut materialised = vec![false; graph.nodes().len()];
        for place in order.into_iter().filter(|&place| kept[place]) {
            let Some(site) = places[place].take() else { continue };
            for node in site.nodes() {
                owner[node.index()] = Some(SiteIndex(sites.len()));
            }
            for node in site.results() {
                materialised[node.index()] = true;
            }
            sites.push(site);
        }
        for node in graph.node_ids() {
            if !matches!(
                graph.node(node).kind,
                NodeKind::Compute(_) | NodeKind::Top { .. } | NodeKind::Scan(_)
            ) {
                materialised[node.index()] |= owner[node.index()].is_none();
            }
        }
        for recurrence in &mut recurrences {
            let served = owner[recurrence.next.index()]
                .is_some_and(|owner: SiteIndex| matches!(sites[owner.0], Site::Recurrence(_)));
            if !served && matches!(recurrence.kind, RecurrenceKind::Diagonal(_) | RecurrenceKind::Delta(_)) {
                recurrence.kind = RecurrenceKind::General;
                recurrence.other_readers.append(&mut recurrence.absorbed);
            }
        }
        for site in &sites {
            if let Site::Contraction(site) = site
                && site.operands.iter().any(|operand| operand.variance == Variance::Constant)
                && let Err(refusal) = site.as_rows_times_weight(graph)
            {
                refusals.push(refusal);
            }
        }
        // A node that a better rule took has nothing to explain.
        refusals.retain(|refusal| {
            let Some(owner) = owner[refusal.node.index()] else { return false };
            match (&sites[owner.0], refusal.rule) {
                (Site::Attention(_) | Site::Recurrence(_), _) => false,
                (Site::Window(_), rule) => rule == Rule::Attention,
                (Site::Contraction(_), rule) => rule != Rule::Contraction,
                _ => true,
            }
        });
        refusals.sort_by_key(|refusal| refusal.node);
        let carried = |members: &FeedbackLoop| {
            let mut owners = members
                .nodes
                .iter()
                .filter(|node| !matches!(graph.node(**node).kind, NodeKind::State(_)))
                .map(|node| owner[node.index()]);
            match owners.next().flatten() {
                Some(first) => {
                    matches!(sites[first.0], Site::Recurrence(_)) && owners.all(|owner| owner == Some(first))
                }
                None => false,
            }
        };
        let loops = feedback_loops(graph).into_iter().filter(|members| !carried(members)).collect();
        Sites { owner, materialised, recurrences, histories: storage(analysis), loops, refusals, sites }
    }
}
