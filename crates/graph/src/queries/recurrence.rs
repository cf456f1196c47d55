//! Recurrences: how a state's outgoing value depends on its incoming one.

mod delta;
mod readout;

use super::algebra::{Algebra, Form, Product, Term, axis_bit};
use super::expand::{Analysis, Reader, absorbable, identity, is_view};
use super::operand::{Operand, expr_reads};
use super::{Refusal, Rule};
use crate::ir::{Expr, Graph, NodeId, NodeKind, Range, StateId, Unary};
use delta::{Parts, delta};
use readout::readouts;

/// One state's update.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrence {
    /// The state.
    pub state: StateId,
    /// The node of its outgoing value.
    pub next: NodeId,
    /// What was proven of the update.
    pub kind: RecurrenceKind,
    /// Nodes that only this site reads and that need no buffer, in graph order. The outgoing value itself is the site's.
    pub absorbed: Vec<NodeId>,
    /// Nodes that read the incoming or the outgoing value other than through the site: they need it of every forest node.
    /// In graph order.
    pub other_readers: Vec<NodeId>,
}

/// Kinds of update.
#[derive(Clone, Debug, PartialEq)]
pub enum RecurrenceKind {
    /// The step leaves the state as it is.
    Unchanged,
    /// The outgoing value does not depend on the incoming one: a value carried one step.
    Replaced,
    /// Elementwise affine: `s'[x] = multiplier(x) * s[x] + addend(x)`, a scan.
    Diagonal(Box<Diagonal>),
    /// The delta rule.
    Delta(Box<Delta>),
    /// Anything else: serial over depth.
    General,
}

/// `s'[x…] = multiplier(x…) * s[x…] + addend(x…)`, over the state's axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagonal {
    /// Does not read the state; one when absent.
    pub multiplier: Option<Expr>,
    /// Does not read the state; zero when absent.
    pub addend: Option<Expr>,
}

/// The delta rule of `math.md`, per head `h…`, on a state `S[h…, i, j]` (`i` the key axis, `j` the value axis):
///
/// ```text
/// u(h, j) = beta(h) * (value(h, j) − c(h) * Σ_i S(h, i, j) * key(h, i))     c = decay or 1, by `reads`
/// S'(h, i, j) = decay(h) * S(h, i, j) + key(h, i) * u(h, j)
/// readout(h, j) = scale(h) * Σ_i query(h, i) * S'(h, i, j)
/// ```
///
/// Site axes: the head axes 0 … H-1, then the key axis, then the value axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// Extents of the head axes.
    pub heads: Vec<usize>,
    /// Extent of the key axis.
    pub key_dim: usize,
    /// Extent of the value axis.
    pub value_dim: usize,
    /// The state's axes that are head axes, in the site's order.
    pub head_axes: Vec<usize>,
    /// The state's axis that is the key axis.
    pub key_axis: usize,
    /// The state's axis that is the value axis. Before `key_axis` when the program keeps the state transposed.
    pub value_axis: usize,
    /// What is written under and read with; over heads and the key axis.
    pub key: Operand,
    /// The target; over heads and the value axis.
    pub value: Operand,
    /// The step size over heads; one when absent.
    pub beta: Option<Operand>,
    /// What the old state is multiplied with.
    pub decay: Decay,
    /// Which state the correction reads.
    pub reads: CorrectionReads,
    /// Reads of the state with a query, all of them.
    pub readouts: Vec<Readout>,
}

/// What a delta rule multiplies its old state with; operands over heads.
#[derive(Clone, Debug, PartialEq)]
pub enum Decay {
    /// Nothing.
    One,
    /// The operand itself.
    Multiplier(Operand),
    /// e to the operand: the program wrote it so.
    Exponent(Operand),
}

/// Which state a delta rule's correction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CorrectionReads {
    /// The old state after the decay (`c = decay`), or there is no decay.
    Decayed,
    /// The old state before the decay (`c = 1`).
    Incoming,
}

/// A contraction of a state with a query over the key axis: `node[…] = scale * Σ_i query(h, i) * S(h, i, j)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Readout {
    /// The node that holds it.
    pub node: NodeId,
    /// For each site axis of the result, head axes then the value axis: the axis of `node` that carries it.
    pub result_axes: Vec<usize>,
    /// The query; over heads and the key axis.
    pub query: Operand,
    /// A factor over the node's own axes; one when absent.
    pub scale: Option<Expr>,
    /// Which state it reads.
    pub of: ReadoutOf,
}

/// Which state a readout reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReadoutOf {
    /// The outgoing one.
    Next,
    /// The incoming one.
    Incoming,
}

impl Recurrence {
    /// The nodes whose tensors the site leaves in memory: the outgoing value (as the state's storage) and readouts.
    pub fn results(&self) -> Vec<NodeId> {
        let mut nodes = vec![self.next];
        if let RecurrenceKind::Delta(delta) = &self.kind {
            nodes.extend(delta.readouts.iter().map(|readout| readout.node));
        }
        nodes
    }

    /// The nodes that the site loads, besides the state. Empty for kinds that read their nodes as the graph defines them.
    pub fn reads(&self, graph: &Graph) -> Vec<NodeId> {
        let mut found = Vec::new();
        match &self.kind {
            RecurrenceKind::Diagonal(diagonal) => {
                for expr in diagonal.multiplier.iter().chain(&diagonal.addend) {
                    expr_reads(graph, expr, &mut found);
                }
            }
            RecurrenceKind::Delta(delta) => {
                let decay = match &delta.decay {
                    Decay::One => None,
                    Decay::Multiplier(operand) | Decay::Exponent(operand) => Some(operand),
                };
                let queries = delta.readouts.iter().map(|readout| &readout.query);
                for operand in
                    [&delta.key, &delta.value].into_iter().chain(&delta.beta).chain(decay).chain(queries)
                {
                    operand.reads(graph, &mut found);
                }
                for scale in delta.readouts.iter().filter_map(|readout| readout.scale.as_ref()) {
                    expr_reads(graph, scale, &mut found);
                }
            }
            RecurrenceKind::Unchanged | RecurrenceKind::Replaced | RecurrenceKind::General => {}
        }
        found.sort();
        found.dedup();
        found
    }
}

/// The recurrence of every state, in the order of [`Graph::states`], and what nearly was a better kind.
pub fn recurrences(graph: &Graph) -> (Vec<Recurrence>, Vec<Refusal>) {
    let mut analysis = Analysis::new(graph);
    let mut refusals = Vec::new();
    let found = (0..graph.states().len())
        .map(|state| recurrence(&mut analysis, StateId(state as u32), &mut refusals))
        .collect();
    (found, refusals)
}

/// What is known while one state's update is read.
struct Update<'a> {
    state: StateId,
    /// Nodes before the outgoing value that depend on the incoming one, by node.
    depends: &'a [bool],
    /// Extents of the state.
    shape: Vec<usize>,
}

/// More products than this in a distributed update are no recurrence that anybody serves.
const PRODUCT_LIMIT: usize = 64;

pub(super) fn recurrence(
    analysis: &mut Analysis<'_>,
    state: StateId,
    refusals: &mut Vec<Refusal>,
) -> Recurrence {
    let graph = analysis.graph;
    let declared = &graph.states()[state.index()];
    let next = declared.next;
    let simple = |analysis: &Analysis<'_>, kind| finish(analysis, state, next, kind, &[]);
    if matches!(graph.node(next).kind, NodeKind::State(own) if own == state) {
        return simple(analysis, RecurrenceKind::Unchanged);
    }
    let depends = dependents(analysis, state, next);
    if !depends[next.index()] {
        return simple(analysis, RecurrenceKind::Replaced);
    }
    let update = Update { state, depends: &depends, shape: declared.shape.clone() };
    // First as written; then seeing through one or two of the tensors that the update reads, which the program may have
    // given names (a key multiplied by the step size, say).
    let mut candidates = Vec::new();
    let mut first = None;
    match attempt(analysis, &update, next, &[], &mut candidates) {
        Ok(recurrence) => return recurrence,
        Err(refusal) => first = first.or(Some(refusal)),
    }
    candidates.truncate(6);
    for (place, &one) in candidates.iter().enumerate() {
        for &other in std::iter::once(&one).chain(&candidates[place + 1..]) {
            if let Ok(recurrence) = attempt(analysis, &update, next, &[one, other], &mut Vec::new()) {
                return recurrence;
            }
        }
    }
    refusals.extend(first);
    simple(analysis, RecurrenceKind::General)
}

/// Which nodes up to `next` depend on the state's incoming value.
fn dependents(analysis: &Analysis<'_>, state: StateId, next: NodeId) -> Vec<bool> {
    let graph = analysis.graph;
    let mut depends = vec![false; graph.nodes().len()];
    for id in graph.node_ids() {
        if matches!(graph.node(id).kind, NodeKind::State(own) if own == state) {
            depends[id.index()] = true;
        }
        if depends[id.index()] {
            for user in &analysis.liveness.users[id.index()] {
                if *user <= next {
                    depends[user.index()] = true;
                }
            }
        }
    }
    depends
}

fn attempt(
    analysis: &mut Analysis<'_>,
    update: &Update<'_>,
    next: NodeId,
    opened: &[NodeId],
    candidates: &mut Vec<NodeId>,
) -> Result<Recurrence, Refusal> {
    let graph = analysis.graph;
    let refuse = |rule: Rule, node: NodeId, why: &str| Refusal::new(node, rule, why);
    let affine = |why: &str| refuse(Rule::Recurrence, next, why);
    let Some(compute) = analysis.elementwise(next) else {
        return Err(affine("the outgoing value is no elementwise tensor"));
    };
    let inline = |id: NodeId| update.depends[id.index()] || is_view(graph, id) || opened.contains(&id);
    let mut reader = Reader::new(&inline);
    let axes = analysis.axes(&compute.axes, 0);
    let body = analysis.read(&mut reader, &compute.body, &axes);
    let reads_state = |algebra: &Algebra<'_>, term: Term| {
        algebra.any(term, &mut |form| match form {
            Form::Load { node, .. } => update.depends[node.index()],
            _ => false,
        })
    };
    let products = analysis
        .algebra
        .distribute(body, &mut |algebra, term| reads_state(algebra, term), PRODUCT_LIMIT)
        .ok_or_else(|| affine("the update has too many products"))?;
    if !reader.complete() {
        return Err(affine("the update is too large to read"));
    }
    let is_state = |id: NodeId| matches!(graph.node(id).kind, NodeKind::State(own) if own == update.state);

    let mut kept: Vec<Product> = Vec::new();
    let mut folds: Vec<(Product, NodeId, Vec<Term>)> = Vec::new();
    let mut free: Vec<Product> = Vec::new();
    for product in products {
        let reading: Vec<Term> = product
            .factors
            .iter()
            .copied()
            .filter(|&factor| reads_state(&analysis.algebra, factor))
            .collect();
        let [read] = reading[..] else {
            if reading.is_empty() {
                free.push(product);
                continue;
            }
            return Err(affine("a product reads the old state twice"));
        };
        let mut rest = product.clone();
        if let Some(place) = rest.factors.iter().position(|&factor| factor == read) {
            rest.factors.remove(place);
        }
        match analysis.algebra.form(read) {
            Form::Load { node, indices } if is_state(*node) => {
                if *indices != axes {
                    return Err(affine("an element reads another element of the old state"));
                }
                kept.push(rest);
            }
            Form::Load { node, indices } => folds.push((rest, *node, indices.clone())),
            _ => return Err(affine("the update is not affine in the old state")),
        }
    }
    let number = identity(axes.len());
    if folds.is_empty() {
        let multiplier = analysis.algebra.sum(kept);
        let addend = (!free.is_empty()).then(|| analysis.algebra.sum(free));
        let multiplier = (analysis.algebra.as_float(multiplier) != Some(1.0)).then_some(multiplier);
        let write = |term: Option<Term>| match term {
            None => Ok(None),
            Some(term) => {
                analysis.write(term, &number).map(Some).ok_or_else(|| affine("an axis has no number"))
            }
        };
        let diagonal = Diagonal { multiplier: write(multiplier)?, addend: write(addend)? };
        let kind = RecurrenceKind::Diagonal(Box::new(diagonal));
        let recurrence = finish(analysis, update.state, next, kind, &reader.inlined);
        return closed(analysis, recurrence);
    }
    let [(correction, fold, fold_indices)] = &folds[..] else {
        return Err(refuse(Rule::DeltaRule, next, "the update reads several folds of the old state"));
    };
    let parts = Parts { kept, correction: correction.clone(), fold: *fold, fold_indices, free, axes: &axes };
    // What could be seen through, for another attempt.
    for product in parts.free.iter().chain([&parts.correction]).chain(&parts.kept) {
        for &factor in &product.factors {
            if let Form::Load { node, .. } = analysis.algebra.form(factor)
                && analysis.elementwise(*node).is_some()
                && !candidates.contains(node)
            {
                candidates.push(*node);
            }
        }
    }
    let (mut delta, mut seen) = delta(analysis, update, parts, &mut reader, candidates)?;
    delta.readouts = readouts(analysis, update.state, next, &delta, &mut seen);
    seen.extend(reader.inlined.iter().copied());
    let kind = RecurrenceKind::Delta(Box::new(delta));
    let recurrence = finish(analysis, update.state, next, kind, &seen);
    closed(analysis, recurrence)
}

/// The recurrence with what it absorbs and who else reads the state.
fn finish(
    analysis: &Analysis<'_>,
    state: StateId,
    next: NodeId,
    kind: RecurrenceKind,
    seen: &[NodeId],
) -> Recurrence {
    let mut recurrence = Recurrence { state, next, kind, absorbed: Vec::new(), other_readers: Vec::new() };
    let results = recurrence.results();
    recurrence.absorbed = absorbable(analysis, seen, &results, &recurrence.reads(analysis.graph));
    let own = state_node(analysis.graph, state);
    let mut readers: Vec<NodeId> = [Some(next), own]
        .into_iter()
        .flatten()
        .flat_map(|node| analysis.liveness.users[node.index()].iter().copied())
        .filter(|user| !results.contains(user) && !recurrence.absorbed.contains(user))
        .collect();
    readers.sort();
    readers.dedup();
    recurrence.other_readers = readers;
    recurrence
}

/// Refuses a recurrence whose state feeds back through anything but what the site absorbs: its operands would not be
/// known before it runs.
fn closed(analysis: &Analysis<'_>, recurrence: Recurrence) -> Result<Recurrence, Refusal> {
    let Some(own) = analysis.feedback[recurrence.next.index()] else { return Ok(recurrence) };
    for node in analysis.graph.node_ids() {
        let outside = analysis.feedback[node.index()] == Some(own)
            && node != recurrence.next
            && !recurrence.absorbed.contains(&node)
            && !matches!(analysis.graph.node(node).kind, NodeKind::State(state) if state == recurrence.state);
        if outside {
            let why = format!("the update runs through {node}, which is also read elsewhere");
            return Err(Refusal::new(recurrence.next, Rule::Recurrence, why));
        }
    }
    Ok(recurrence)
}

fn state_node(graph: &Graph, state: StateId) -> Option<NodeId> {
    graph.node_ids().find(|&id| matches!(graph.node(id).kind, NodeKind::State(own) if own == state))
}
