//! Which elementwise chains ride on which site.
//!
//! An *epilogue* reads a site's result at the reader's own place (also in another shape: `[H * K]` read as `[H, K]`), so
//! that whoever has an element of the result can go on to the chain's last value. Nothing between needs memory. A *prologue*
//! is what only a contraction reads, as its activation. Two contractions over the same axes whose results one chain
//! reads (gate and up) can be one kernel.

use super::algebra::Term;
use super::expand::{Analysis, Reader};
use super::sites::{Site, SiteIndex, Sites};
use super::{Refusal, Rule};
use crate::ir::{Expr, Graph, NodeId};

/// Elementwise work that can ride with a site's kernel instead of passing through memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Fusion {
    /// The node that the site computes.
    pub site: NodeId,
    /// Elementwise nodes that only this site reads, as its activation; in graph order, the last is the operand.
    pub prologue: Vec<NodeId>,
    /// Elementwise nodes of as many elements as the site's result, in graph order, each computed as often as it. What they
    /// read of the result, or of one another, they read at their own place; nobody but they reads it, the last one's value
    /// left aside. They may also load other, earlier tensors (bias, residual, gate).
    pub epilogue: Vec<NodeId>,
    /// Another contraction over the same axes: what it computes, its own epilogue included, is read by this epilogue alone,
    /// at the reader's own place. Whoever computes both at once needs no memory for either; else it is a fusion by itself.
    pub joined: Option<Box<Fusion>>,
}

/// The most nodes in one epilogue.
const LONGEST: usize = 64;

/// The chains that can ride on the sites of a cover, in the order of the sites, and why others cannot. A site without
/// any is left out. An elementwise node rides on one site alone: as an epilogue of the last site whose result it reads at
/// its own place, else as a prologue of its only reader.
pub fn fusions(graph: &Graph, sites: &Sites) -> (Vec<Fusion>, Vec<Refusal>) {
    let mut search = Search::new(graph, sites);
    let mut found = Vec::new();
    for (at, site) in sites.sites.iter().enumerate() {
        let anchor = match site {
            Site::Attention(site) if site.epilogues.is_empty() => site.node,
            Site::Window(site) => site.node,
            Site::Contraction(site) => site.node,
            Site::Reduction(site) => site.node,
            _ => continue,
        };
        let epilogue = search.epilogue(at, anchor);
        found.push(Fusion { site: anchor, prologue: Vec::new(), epilogue, joined: None });
    }
    search.join(&mut found);
    for fusion in &mut found {
        search.prologue(fusion);
        if let Some(joined) = &mut fusion.joined {
            search.prologue(joined);
        }
    }
    found.retain(|fusion| !fusion.prologue.is_empty() || !fusion.epilogue.is_empty());
    search.refusals.sort_by_key(|refusal| refusal.node);
    (found, search.refusals)
}

struct Search<'g> {
    graph: &'g Graph,
    sites: &'g Sites,
    analysis: Analysis<'g>,
    /// By node: the sites that read its tensor, perhaps past what the program put between.
    readers: Vec<Vec<usize>>,
    /// By node: whether it rides on a site already.
    taken: Vec<bool>,
    refusals: Vec<Refusal>,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph, sites: &'g Sites) -> Search<'g> {
        let mut readers = vec![Vec::new(); graph.nodes().len()];
        for (place, site) in sites.sites.iter().enumerate() {
            site.reads(graph).iter().for_each(|read| readers[read.index()].push(place));
        }
        let taken = vec![false; graph.nodes().len()];
        Search { graph, sites, analysis: Analysis::new(graph), readers, taken, refusals: Vec::new() }
    }

    /// Whether a node is elementwise work that no other kind of site has.
    fn rides(&self, node: NodeId) -> bool {
        let owner = self.sites.owner[node.index()];
        matches!(owner, Some(SiteIndex(place)) if matches!(self.sites.sites[place], Site::Chain(_)))
            && !self.taken[node.index()]
    }

    fn name(&self, node: NodeId) -> &str {
        &self.graph.node(node).origin.name
    }

    fn users(&self, node: NodeId) -> &[NodeId] {
        &self.analysis.liveness.users[node.index()]
    }

    /// The nodes that a chain on a site can hold, in graph order.
    fn epilogue(&mut self, at: usize, anchor: NodeId) -> Vec<NodeId> {
        let mut chain: Vec<NodeId> = Vec::new();
        let mut why = None;
        let mut closed = 0;
        while chain.len() < LONGEST {
            let members = [&[anchor], &chain[..]].concat();
            let mut open: Vec<NodeId> =
                members.iter().flat_map(|&member| self.users(member)).copied().collect();
            open.retain(|user| !chain.contains(user) && self.rides(*user));
            open.sort();
            open.dedup();
            // The first in the graph's order: what another one reads of it is then there.
            let next = open.into_iter().find(|&user| {
                let fits = self.fits(at, anchor, &members, user);
                why = why.take().or_else(|| fits.clone().err());
                fits.is_ok()
            });
            let Some(next) = next else { break };
            chain.push(next);
            let (_, inner) = chain.split_last().unwrap_or((&anchor, &[]));
            match std::iter::once(&anchor).chain(inner).find_map(|&node| self.kept(node, &chain)) {
                None => closed = chain.len(),
                Some(reason) => {
                    why.get_or_insert(reason);
                }
            }
        }
        chain.truncate(closed);
        chain.iter().for_each(|node| self.taken[node.index()] = true);
        if let (true, Some(why), Site::Contraction(_)) = (chain.is_empty(), why, &self.sites.sites[at]) {
            self.refusals.push(Refusal::new(anchor, Rule::Fusion, why));
        }
        chain
    }

    /// Why a node needs memory although `chain` goes on from it; none when it needs none.
    fn kept(&self, node: NodeId, chain: &[NodeId]) -> Option<String> {
        if self.analysis.liveness.escapes[node.index()] {
            return Some(format!("`{}` is an output, a state or a row of a history", self.name(node)));
        }
        if let Some(other) = self.users(node).iter().find(|user| !chain.contains(user)) {
            return Some(format!("`{}` reads `{}` too", self.name(*other), self.name(node)));
        }
        let past = self.readers[node.index()].iter().find_map(|&place| {
            let nodes = self.sites.sites[place].nodes();
            nodes.iter().all(|reader| !chain.contains(reader)).then(|| nodes.last().copied()).flatten()
        });
        past.map(|other| format!("`{}` reads `{}` too", self.name(other), self.name(node)))
    }

    /// Whether an elementwise node can go on from `members` when the site at that place runs.
    fn fits(&mut self, at: usize, anchor: NodeId, members: &[NodeId], reader: NodeId) -> Result<(), String> {
        let elements = |shape: Option<Vec<usize>>| shape.map(|shape| shape.iter().product::<usize>());
        let name = self.name(reader).to_string();
        let count = elements(self.graph.shape(reader));
        if count.is_none() || count != elements(self.graph.shape(anchor)) {
            return Err(format!("`{name}` has another number of elements"));
        }
        let mut reads = Vec::new();
        let mut histories = false;
        self.graph.node(reader).kind.for_each_read(&mut |read| reads.push(read), &mut |_| histories = true);
        if histories {
            return Err(format!("`{name}` reads a history"));
        }
        for &member in members.iter().filter(|member| reads.contains(member)) {
            if !in_place(&mut self.analysis, reader, member) {
                return Err(format!("`{name}` reads it at other places than its own"));
            }
        }
        let variances = &self.analysis.variances;
        if variances[reader.index()] != variances[anchor.index()] {
            return Err(format!("`{name}` is computed for other rows"));
        }
        for read in reads.into_iter().filter(|read| !members.contains(read)) {
            if self.graph.shape(read).is_none() {
                return Err(format!(
                    "`{name}` reads `{}`, whose size is known in a run alone",
                    self.name(read)
                ));
            }
            // All else that it reads must be there when this site runs.
            if self.sites.owner[read.index()].is_some_and(|owner| owner.0 >= at) {
                return Err(format!("`{name}` waits for `{}` too", self.name(read)));
            }
        }
        Ok(())
    }

    /// Joins contractions that one epilogue reads.
    fn join(&mut self, found: &mut Vec<Fusion>) {
        let mut joined: Vec<usize> = Vec::new();
        for place in 0..found.len() {
            let Some(axes) = self.contraction(found[place].site) else { continue };
            let other = (0..place).rev().find(|&other| {
                let (own, other_site) = (&found[place], &found[other]);
                let end = other_site.epilogue.last().copied().unwrap_or(other_site.site);
                let readers = self.users(end).to_vec();
                !own.epilogue.is_empty()
                    && !joined.contains(&other)
                    && other_site.joined.is_none()
                    && self.contraction(other_site.site).is_some_and(|other| other.axes == axes.axes)
                    && !readers.is_empty()
                    && self.kept(end, &own.epilogue).is_none()
                    && self.analysis.variances[end.index()] == self.analysis.variances[own.site.index()]
                    && readers.iter().all(|&reader| in_place(&mut self.analysis, reader, end))
            });
            let Some(other) = other else { continue };
            self.refusals.retain(|refusal| refusal.node != found[other].site);
            found[place].joined = Some(Box::new(found[other].clone()));
            joined.push(other);
        }
        let mut place = 0;
        found.retain(|_| {
            place += 1;
            !joined.contains(&(place - 1))
        });
    }

    fn contraction(&self, node: NodeId) -> Option<&'g super::Contraction> {
        match &self.sites.sites[self.sites.owner[node.index()]?.0] {
            Site::Contraction(site) => Some(site),
            _ => None,
        }
    }

    /// Adds what only this contraction reads.
    fn prologue(&mut self, fusion: &mut Fusion) {
        let Some(site) = self.contraction(fusion.site) else { return };
        let Some(mut at) = site.operands[0].node() else { return };
        let mut reader = fusion.site;
        loop {
            let mut histories = false;
            self.graph.node(at).kind.for_each_read(&mut |_| {}, &mut |_| histories = true);
            let fits = self.rides(at)
                && !histories
                && !self.analysis.liveness.escapes[at.index()]
                && self.users(at) == [reader]
                && self.kept(at, &[&fusion.prologue[..], &[fusion.site]].concat()).is_none()
                && self.graph.shape(at).is_some();
            if !fits {
                break;
            }
            self.taken[at.index()] = true;
            fusion.prologue.push(at);
            let mut sources = Vec::new();
            self.graph.node(at).kind.for_each_read(&mut |read| sources.push(read), &mut |_| {});
            sources.sort();
            sources.dedup();
            sources.retain(|&source| self.rides(source) && in_place(&mut self.analysis, at, source));
            match sources[..] {
                [only] => (reader, at) = (at, only),
                _ => break,
            }
        }
        fusion.prologue.reverse();
    }
}

/// Whether `reader` loads `source`, and only at the place, counted row-major, that the reader's own element has.
fn in_place(analysis: &mut Analysis<'_>, reader: NodeId, source: NodeId) -> bool {
    let graph = analysis.graph;
    let Some(compute) = analysis.compute(reader) else { return false };
    let (Some(shape), Some(own)) = (graph.shape(source), graph.shape(reader)) else { return false };
    if shape.iter().product::<usize>() != own.iter().product::<usize>() {
        return false;
    }
    let mut loads: Vec<Vec<Expr>> = Vec::new();
    compute.for_each_expr(&mut |expr| {
        expr.visit(&mut |part| {
            if let Expr::Load { node, indices } = part
                && *node == source
            {
                loads.push(indices.clone());
            }
        });
    });
    // Nearly every read is of the reader's own axes.
    let plain = |indices: &[Expr]| {
        shape == own && indices.iter().enumerate().all(|(place, index)| *index == Expr::Axis(place))
    };
    if loads.iter().all(|indices| plain(indices)) {
        return !loads.is_empty();
    }
    let axes = analysis.axes(&compute.axes, 0);
    let flat = |analysis: &mut Analysis<'_>, terms: &[Term], shape: &[usize]| {
        let mut stride = 1i64;
        let mut parts = Vec::with_capacity(terms.len());
        for (&term, &extent) in terms.iter().zip(shape).rev() {
            parts.push((term, stride));
            stride = stride.checked_mul(i64::try_from(extent).ok()?)?;
        }
        Some(analysis.algebra.index_combination(&parts))
    };
    let Some(wanted) = flat(analysis, &axes, &own) else { return false };
    let opaque = |_: NodeId| false;
    loads.iter().all(|indices| {
        let mut reader = Reader::new(&opaque);
        let terms: Vec<Term> = indices.iter().map(|index| analysis.read(&mut reader, index, &axes)).collect();
        flat(analysis, &terms, &shape) == Some(wanted)
    })
}
