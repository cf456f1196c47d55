//! Attentions: a softmax-weighted sum over the path of a history.

mod divide;
mod score;

use std::collections::HashMap;

use super::affine::Affine;
use super::algebra::{Algebra, Form, Product, Term, axis_bit};
use super::expand::{Analysis, Ends, Reader, absorbable, extent, identity, is_view};
use super::operand::{Operand, expr_reads};
use super::{Refusal, Rule};
use crate::ir::{Binary, Compute, Expr, FoldKind, Graph, NodeId, NodeKind, Range, Unary};
use divide::{Denominator, Divided, divided, weights_sum};
pub(super) use score::near_path_folds;
use score::{path_fold, path_start, split_score};

/// `node[h…, j] = Σ_t p(h, t) * value(h, t, j) / (Σ_t p(h, t) + e^sink(h))` with `p(h, t) = e^score(dot(h, t), h, t)`,
/// `dot(h, t) = Σ_i query(h, i) * key(h, t, i)` and `t` over `start ..= here`.
///
/// However the program wrote it (with or without subtracting the maximum, normalised before or after the weighted
/// sum, scaled before or after the dot product). A kernel subtracts its own running maximum.
///
/// Site axes: the head axes 0 … H-1, then `t` (absolute depth), then the key axes `i…`, then the value axes `j…`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// The node whose buffer gets the normalised sum, `[heads…, value…]` in row-major order of its own axes. Where the
    /// program divides only in a later node, this is the undivided sum, and [`Attention::epilogues`] are the later nodes.
    pub node: NodeId,
    /// For each site axis of the result, head axes then value axes: the axis of `node` that carries it.
    pub result_axes: Vec<usize>,
    /// Nodes that the program defined by dividing `node` by the sum of weights, restated over the divided value.
    pub epilogues: Vec<Epilogue>,
    /// Extents of the head axes.
    pub heads: Vec<usize>,
    /// Extents of the key axes (mostly one).
    pub key_dims: Vec<usize>,
    /// Extents of the value axes (mostly one).
    pub value_dims: Vec<usize>,
    /// What is compared: does not depend on `t`.
    pub query: Operand,
    /// What it is compared with: a history at depth `t`.
    pub key: Operand,
    /// What is summed: a history at depth `t`; often another one, or the same at other indices.
    pub value: Operand,
    /// The first depth that is read.
    pub start: PathStart,
    /// The score from the raw dot product: elementwise over [`Expr::Accumulator`] (the dot product), head axes and `t`.
    pub score: Expr,
    /// The factor, when the score is the dot product times a positive literal: the plain case.
    pub linear_scale: Option<f64>,
    /// The logarithm of a term added to the sum of weights, over the head axes.
    pub sink: Option<Expr>,
    /// Nodes that only this site reads and that need no buffer: scores, weights, their maximum and sums. In graph order.
    pub absorbed: Vec<NodeId>,
}

/// A node defined over an attention's undivided sum, restated over the divided one.
#[derive(Clone, Debug, PartialEq)]
pub struct Epilogue {
    /// The node.
    pub node: NodeId,
    /// Its definition, in which a load of [`Attention::node`] means the divided value; elementwise.
    pub compute: Compute,
}

/// Where an attention's range starts.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStart {
    /// At the session's first token.
    Root,
    /// `max(0, here - reach + 1)`: a sliding window of that many rows, the node's own included.
    Sliding {
        /// How many rows are read at most.
        reach: usize,
    },
}

/// How query heads share key heads, when a form over one head axis says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// Each its own.
    Same,
    /// `h / divisor`.
    Divided(usize),
    /// `h % divisor`.
    Modulo(usize),
    /// All the same one.
    Shared,
}

impl Grouping {
    /// The grouping that an index form over head axis `axis` states; `None` for any other form.
    pub fn of(form: &Affine, axis: usize) -> Option<Grouping> {
        use super::affine::Atom;
        if form.as_axis() == Some(axis) {
            return Some(Grouping::Same);
        }
        if form.as_constant() == Some(0) {
            return Some(Grouping::Shared);
        }
        match (&form.terms[..], form.constant, form.here) {
            ([(Atom::Quotient(inner, divisor), 1)], 0, 0) if inner.as_axis() == Some(axis) => {
                Some(Grouping::Divided(*divisor as usize))
            }
            ([(Atom::Remainder(inner, divisor), 1)], 0, 0) if inner.as_axis() == Some(axis) => {
                Some(Grouping::Modulo(*divisor as usize))
            }
            _ => None,
        }
    }
}

/// The attentions of a graph, in graph order, and what nearly was one.
pub fn attentions(graph: &Graph) -> (Vec<Attention>, Vec<Refusal>) {
    let mut analysis = Analysis::new(graph);
    let near = near_path_folds(&analysis);
    let (mut found, mut refusals) = (Vec::new(), Vec::new());
    for node in graph.node_ids() {
        match attention(&mut analysis, &near, node) {
            Ok(Some(attention)) => found.push(attention),
            Ok(None) => {}
            Err(refusal) => refusals.push(refusal),
        }
    }
    (found, refusals)
}

/// The attention whose weighted sum is at `node`; `None` when it is plainly something else.
pub(super) fn attention(
    analysis: &mut Analysis<'_>,
    near: &[bool],
    node: NodeId,
) -> Result<Option<Attention>, Refusal> {
    let graph = analysis.graph;
    let Some((compute, fold)) = analysis.summed(node) else { return Ok(None) };
    if !matches!(fold.axes[..], [Range::Between { .. }]) {
        return Ok(None);
    }
    let rank = compute.axes.len();
    let axes = analysis.axes(&compute.axes, 0);
    let path = analysis.algebra.axis(rank, None);
    let inline = |id: NodeId| near[id.index()] || always_seen_through(graph, id);
    let mut reader = Reader::new(&inline);
    let Some(sum) = path_fold(analysis, &mut reader, node, &axes, path) else { return Ok(None) };
    // A sum of weights, or of anything unweighted, is no attention and not nearly one.
    if analysis.algebra.axes(sum.exponent) & analysis.algebra.axes(path) == 0 || sum.varying.is_empty() {
        return Ok(None);
    }
    let refuse = |why: &str| Refusal::new(node, Rule::Attention, why);
    if compute.axes.iter().any(|axis| extent(axis).is_none()) {
        return Err(refuse("the weighted sum has an axis that depends on other values"));
    }
    if analysis.feedback[node.index()].is_some() {
        return Err(refuse("what it gives feeds back into a history or state that it reads"));
    }
    let start = path_start(analysis, &sum).map_err(refuse)?;
    let [value] = sum.varying[..] else {
        return Err(refuse("the weights depend on the depth beyond the score"));
    };
    match analysis.algebra.form(value) {
        Form::History { depth, indices, .. } if *depth == path => {
            if indices.iter().any(|&index| analysis.algebra.uses(index, rank)) {
                return Err(refuse("the value's place in its row depends on the depth"));
            }
        }
        _ => return Err(refuse("what is weighted is no row of a history at the folded depth")),
    }

    let mut seen: Vec<NodeId> = Vec::new();
    let score = split_score(analysis, &mut reader, &sum, rank, &mut seen).map_err(|why| refuse(&why))?;

    // Head axes are those that the weights depend on; the rest belong to the value.
    let weight_axes = analysis.algebra.axes(sum.exponent)
        | analysis.algebra.axes(score.query)
        | analysis.algebra.axes(score.key);
    let (head_axes, value_axes): (Vec<usize>, Vec<usize>) =
        (0..rank).partition(|&axis| weight_axes & axis_bit(axis) != 0);
    if value_axes.is_empty() {
        return Err(refuse("every axis of the sum changes the weights"));
    }

    // Divided inside, or by every reader.
    let mut denominator: Option<Denominator> = None;
    let mut site_node = node;
    let mut epilogues = Vec::new();
    let mut result_axes: Vec<usize> = head_axes.iter().chain(&value_axes).copied().collect();
    match &sum.fixed[..] {
        [divisor] if sum.coefficient == 1.0 => {
            let Form::Reciprocal(divisor) = *analysis.algebra.form(*divisor) else {
                return Err(refuse(
                    "a factor that does not change along the path is no division by the weights' sum",
                ));
            };
            let found = weights_sum(analysis, &mut reader, divisor, &sum, &score, &mut seen);
            denominator = Some(found.map_err(|why| refuse(&why))?);
        }
        [] if sum.coefficient == 1.0 => {
            if analysis.liveness.escapes[node.index()] {
                return Err(refuse("the undivided sum is read from outside"));
            }
            let users = analysis.liveness.users[node.index()].clone();
            if users.is_empty() {
                return Ok(None);
            }
            for &user in &users {
                let space = Divided { node, sum: &sum, score: &score, rank };
                let (found, term) = divided(analysis, &mut reader, user, &space, &mut seen)?;
                match &denominator {
                    None => denominator = Some(found),
                    Some(first) if first.sink == found.sink => {}
                    Some(_) => return Err(refuse("its readers divide by different sums")),
                }
                epilogues.push((user, term));
            }
            // One reader that is the quotient itself holds the result.
            if let [(user, term)] = epilogues[..]
                && let Form::Load { node: loaded, indices } = analysis.algebra.form(term).clone()
                && loaded == node
                && let Some(places) = permutation(analysis, user, &indices)
            {
                result_axes = result_axes.iter().map(|&axis| places[axis]).collect();
                site_node = user;
                seen.push(node);
                epilogues.clear();
            }
        }
        _ => return Err(refuse("the weighted sum has another factor that does not change along the path")),
    }
    let Some(denominator) = denominator else { return Err(refuse("nothing divides by the weights' sum")) };
    if !reader.complete() {
        return Err(refuse("it is too large to read"));
    }

    // Renumber: heads, path, key axes, value axes.
    let heads: Vec<usize> = head_axes.iter().filter_map(|&axis| extent(&compute.axes[axis])).collect();
    let value_dims: Vec<usize> = value_axes.iter().filter_map(|&axis| extent(&compute.axes[axis])).collect();
    let (head_count, key_count) = (heads.len(), score.key_dims.len());
    let number = |axis: usize| {
        if let Some(place) = head_axes.iter().position(|&head| head == axis) {
            return Some(place);
        }
        if axis == rank {
            return Some(head_count);
        }
        if axis > rank {
            return (axis - rank <= key_count).then(|| head_count + axis - rank);
        }
        let place = value_axes.iter().position(|&value| value == axis)?;
        Some(head_count + 1 + key_count + place)
    };
    let mut extents: Vec<Option<usize>> = heads.iter().map(|&n| Some(n)).collect();
    extents.push(None);
    extents.extend(score.key_dims.iter().chain(&value_dims).map(|&n| Some(n)));
    let form = "an operand has no index form";
    let query = analysis.operand(score.query, &number, &extents).ok_or_else(|| refuse(form))?;
    let key = analysis.operand(score.key, &number, &extents).ok_or_else(|| refuse(form))?;
    let value = analysis.operand(value, &number, &extents).ok_or_else(|| refuse(form))?;
    let accumulator = analysis.algebra.atom(Form::Accumulator);
    let chain = analysis.algebra.product(score.chain);
    let linear_scale =
        (chain.factors == [accumulator] && chain.coefficient() > 0.0).then(|| chain.coefficient());
    let score_expr = analysis.write(score.chain, &number).ok_or_else(|| refuse("the score has no form"))?;
    let sink = match denominator.sink {
        None => None,
        Some(sink) => Some(analysis.write(sink, &number).ok_or_else(|| refuse("the sink has no form"))?),
    };
    let epilogues = epilogues
        .into_iter()
        .map(|(user, term)| {
            let compute = analysis.compute(user)?;
            let body = analysis.write(term, &identity(compute.axes.len()))?;
            Some(Epilogue { node: user, compute: Compute { body, ..compute.clone() } })
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| refuse("a reader has no form"))?;
    seen.append(&mut reader.inlined);
    let mut attention = Attention {
        node: site_node,
        result_axes,
        epilogues,
        heads,
        key_dims: score.key_dims,
        value_dims,
        query,
        key,
        value,
        start,
        score: score_expr,
        linear_scale,
        sink,
        absorbed: Vec::new(),
    };
    let kept = attention.results();
    attention.absorbed = absorbable(analysis, &seen, &kept, &attention.reads(graph));
    Ok(Some(attention))
}

/// Local tensors and views are always seen through: the former cannot be anything else.
fn always_seen_through(graph: &Graph, node: NodeId) -> bool {
    let local = match &graph.node(node).kind {
        NodeKind::Compute(compute) => compute.axes.iter().any(|axis| extent(axis).is_none()),
        _ => false,
    };
    local || is_view(graph, node)
}

/// By axis of a load: the axis of `user` that is its whole index, when these are all of the user's axes.
fn permutation(analysis: &mut Analysis<'_>, user: NodeId, indices: &[Term]) -> Option<Vec<usize>> {
    let compute = analysis.compute(user)?;
    let axes = analysis.axes(&compute.axes, 0);
    if axes.len() != indices.len() {
        return None;
    }
    let places: Vec<usize> =
        indices.iter().map(|index| axes.iter().position(|axis| axis == index)).collect::<Option<_>>()?;
    let mut sorted = places.clone();
    sorted.sort();
    sorted.dedup();
    (sorted.len() == places.len()).then_some(places)
}

impl Attention {
    /// The nodes whose tensors the site leaves in memory.
    pub fn results(&self) -> Vec<NodeId> {
        std::iter::once(self.node).chain(self.epilogues.iter().map(|epilogue| epilogue.node)).collect()
    }

    /// The nodes that the site loads; a history counts as its row.
    pub fn reads(&self, graph: &Graph) -> Vec<NodeId> {
        let mut found = Vec::new();
        for operand in [&self.query, &self.key, &self.value] {
            operand.reads(graph, &mut found);
        }
        for expr in std::iter::once(&self.score).chain(&self.sink) {
            expr_reads(graph, expr, &mut found);
        }
        for epilogue in &self.epilogues {
            expr_reads(graph, &epilogue.compute.body, &mut found);
        }
        let results = self.results();
        found.retain(|node| !results.contains(node));
        found.sort();
        found.dedup();
        found
    }
}
