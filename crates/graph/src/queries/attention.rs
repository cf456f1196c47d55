//! Attentions: a softmax-weighted sum over the path of a history.

use std::collections::HashMap;

use super::affine::Affine;
use super::algebra::{Algebra, Form, Product, Term, axis_bit};
use super::expand::{Analysis, Reader, absorbable, extent, identity, is_view};
use super::operand::{Operand, expr_reads};
use super::{Refusal, Rule};
use crate::ir::{Binary, Compute, Expr, FoldKind, Graph, NodeId, NodeKind, Range, Unary};

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

/// How many elementwise nodes may stand between a fold over a path and what is made of it, for these to be seen through.
const NEAR: u8 = 4;

/// By node: it is elementwise and, within [`NEAR`] elementwise steps, reads a fold over a range that depends on values.
pub(super) fn near_path_folds(analysis: &Analysis<'_>) -> Vec<bool> {
    let graph = analysis.graph;
    const FAR: u8 = u8::MAX - 1;
    const WEIGHTED: u8 = u8::MAX;
    // Steps from the nearest such fold; beyond NEAR is far.
    let mut steps = vec![FAR; graph.nodes().len()];
    for node in graph.node_ids() {
        let Some(compute) = analysis.compute(node) else { continue };
        if let Some(fold) = &compute.fold {
            if fold.axes.iter().any(|axis| extent(axis).is_none()) {
                let weighted = reads_history(graph, &compute.body);
                steps[node.index()] = if weighted { WEIGHTED } else { 0 };
            }
            continue;
        }
        if compute.guard.is_some() {
            continue;
        }
        let (mut least, mut weighted) = (FAR, false);
        let mut see = |step: u8| {
            weighted |= step == WEIGHTED;
            least = least.min(if step == WEIGHTED { FAR } else { step });
        };
        graph.node(node).kind.for_each_read(&mut |read| see(steps[read.index()]), &mut |_| {});
        // What is made of a weighted sum is that attention's own result, to be read and never looked into.
        steps[node.index()] = if weighted { FAR } else { least.saturating_add(1).min(FAR) };
    }
    graph
        .node_ids()
        .map(|node| (1..=NEAR).contains(&steps[node.index()]) && analysis.elementwise(node).is_some())
        .collect()
}

/// Whether a body reads a history, directly or through a view.
fn reads_history(graph: &Graph, body: &Expr) -> bool {
    body.any(&mut |part| match part {
        Expr::History { .. } => true,
        Expr::Load { node, .. } => match &graph.node(*node).kind {
            NodeKind::Compute(view) => view.fold.is_none() && matches!(view.body, Expr::History { .. }),
            _ => false,
        },
        _ => false,
    })
}

/// A fold over the path, read: its range and the product that it sums.
struct PathFold {
    /// The path axis.
    path: Term,
    start: Term,
    end: Term,
    /// The exponent of the weight: everything under `exp`, added.
    exponent: Term,
    /// Factors that change along the path, other than the weight.
    varying: Vec<Term>,
    /// Factors that do not.
    fixed: Vec<Term>,
    coefficient: f64,
}

/// Reads the sum over a path at `node`, its own axes at `indices`, its path axis as `path`. `None` for other nodes.
fn path_fold(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    node: NodeId,
    indices: &[Term],
    path: Term,
) -> Option<PathFold> {
    let (compute, fold) = analysis.summed(node)?;
    let [range @ Range::Between { .. }] = &fold.axes[..] else { return None };
    if compute.guard.is_some() {
        return None;
    }
    let (start, end) = analysis.range(reader, range, indices);
    let values: Vec<Term> = indices.iter().copied().chain([path]).collect();
    let body = analysis.read(reader, &compute.body, &values);
    let product = analysis.algebra.product(body);
    let path_axes = analysis.algebra.axes(path);
    let mut exponents = Vec::new();
    let (mut varying, mut fixed) = (Vec::new(), Vec::new());
    for &factor in &product.factors {
        let exponent = match analysis.algebra.form(factor) {
            Form::Unary(Unary::Exp, inner) => Some((*inner, 1.0)),
            Form::Reciprocal(inner) => match analysis.algebra.form(*inner) {
                Form::Unary(Unary::Exp, inner) => Some((*inner, -1.0)),
                _ => None,
            },
            _ => None,
        };
        if let Some((inner, sign)) = exponent {
            let signed = analysis.algebra.scale(inner, sign);
            exponents.extend(analysis.algebra.products(signed));
        } else if analysis.algebra.axes(factor) & path_axes != 0 {
            varying.push(factor);
        } else {
            fixed.push(factor);
        }
    }
    let exponent = analysis.algebra.sum(exponents);
    Some(PathFold { path, start, end, exponent, varying, fixed, coefficient: product.coefficient() })
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

/// `start ..= here` from the root or from a clamped window.
fn path_start(analysis: &mut Analysis<'_>, sum: &PathFold) -> Result<PathStart, &'static str> {
    let here = analysis.algebra.here();
    let one = analysis.algebra.int(1);
    let end = analysis.algebra.index_combination(&[(here, 1), (one, 1)]);
    if sum.end != end {
        return Err("the range does not end at this node");
    }
    if analysis.algebra.as_int(sum.start) == Some(0) {
        return Ok(PathStart::Root);
    }
    if let Form::Binary(Binary::Max, left, right) = *analysis.algebra.form(sum.start) {
        for (zero, bound) in [(left, right), (right, left)] {
            let back = analysis.algebra.index_combination(&[(here, 1), (bound, -1)]);
            if let (Some(0), Some(back)) = (analysis.algebra.as_int(zero), analysis.algebra.as_int(back))
                && back >= 0
            {
                return Ok(PathStart::Sliding { reach: back as usize + 1 });
            }
        }
    }
    let back = analysis.algebra.index_combination(&[(here, 1), (sum.start, -1)]);
    if analysis.algebra.as_int(back).is_some() {
        return Err("the range reaches below the root, where rows read as zero but still weigh");
    }
    Err("the range starts at no fixed distance")
}

/// A weight's exponent taken apart.
struct Score {
    /// Over the accumulator, which stands for the dot product.
    chain: Term,
    /// The exponent's part that changes along the path, as it is.
    varying: Term,
    /// What is added to it that does not: minus the maximum, or nothing.
    shift: Term,
    query: Term,
    key: Term,
    key_dims: Vec<usize>,
}

fn split_score(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    sum: &PathFold,
    rank: usize,
    seen: &mut Vec<NodeId>,
) -> Result<Score, String> {
    let path_axes = analysis.algebra.axes(sum.path);
    let (varying, fixed): (Vec<Product>, Vec<Product>) =
        analysis.algebra.products(sum.exponent).into_iter().partition(|product| {
            product.factors.iter().any(|&factor| analysis.algebra.axes(factor) & path_axes != 0)
        });
    let varying = analysis.algebra.sum(varying);
    let shift = if fixed.is_empty() { analysis.algebra.float(0.0) } else { analysis.algebra.sum(fixed) };
    check_shift(analysis, reader, sum, varying, shift, seen)?;

    // The dot product: the one sum over fixed axes that changes along the path.
    let mut dots: Vec<Term> = Vec::new();
    let mut foreign = None;
    analysis.algebra.visit(varying, &mut |term| {
        if analysis.algebra.axes(term) & path_axes == 0 {
            return false;
        }
        match analysis.algebra.form(term) {
            Form::Load { .. } => {
                dots.push(term);
                false
            }
            Form::History { .. } => {
                foreign = Some("the score reads a history outside a dot product");
                false
            }
            _ => true,
        }
    });
    if let Some(why) = foreign {
        return Err(why.to_string());
    }
    let [dot] = dots[..] else {
        return Err(format!("the score has {} sums that change along the path, not one", dots.len()));
    };
    let Form::Load { node, indices } = analysis.algebra.form(dot).clone() else {
        return Err("the score is no sum".to_string());
    };
    let Some((compute, fold)) = analysis.summed(node) else {
        return Err(format!("the score reads {node}, which is no sum"));
    };
    if compute.guard.is_some() {
        return Err(format!("the dot product {node} is guarded"));
    }
    let key_dims: Vec<usize> = fold.axes.iter().filter_map(extent).collect();
    if key_dims.len() != fold.axes.len() {
        return Err(format!("the dot product {node} does not run over fixed axes"));
    }
    seen.push(node);
    let folded = analysis.axes(&fold.axes, rank + 1);
    let values: Vec<Term> = indices.into_iter().chain(folded.iter().copied()).collect();
    let body = analysis.read(reader, &compute.body, &values);
    let product = analysis.algebra.product(body);
    let inner = folded.iter().fold(0, |bits, &axis| bits | analysis.algebra.axes(axis));
    let (mut key, mut query, mut outside) = (None, Vec::new(), Vec::new());
    for &factor in &product.factors {
        let axes = analysis.algebra.axes(factor);
        match analysis.algebra.form(factor) {
            Form::History { depth, .. } if *depth == sum.path => {
                if key.replace(factor).is_some() {
                    return Err("the dot product reads two rows".to_string());
                }
            }
            _ if axes & inner == 0 => outside.push(factor),
            _ if axes & path_axes != 0 => {
                return Err("a factor of the dot product changes along the path and is no row".to_string());
            }
            _ => query.push(factor),
        }
    }
    let Some(key) = key else { return Err("the dot product reads no row at the folded depth".to_string()) };
    if query.is_empty() {
        return Err("the dot product has no query".to_string());
    }
    if let Form::History { indices, .. } = analysis.algebra.form(key)
        && indices.iter().any(|&index| analysis.algebra.axes(index) & path_axes != 0)
    {
        return Err("the key's place in its row depends on the depth".to_string());
    }
    let query = analysis.algebra.term_of(Product::new(1.0, query));
    // What multiplies the sum goes to the score's chain.
    let accumulator = analysis.algebra.atom(Form::Accumulator);
    outside.push(accumulator);
    let scaled = analysis.algebra.term_of(Product::new(product.coefficient(), outside));
    let chain = analysis.algebra.replace(varying, &mut |_, term| (term == dot).then_some(scaled));
    let leftover = analysis.algebra.any(chain, &mut |form| matches!(form, Form::History { .. }));
    if leftover {
        return Err("the score reads a history outside the dot product".to_string());
    }
    Ok(Score { chain, varying, shift, query, key, key_dims })
}

/// The shift must be nothing, a literal, or minus the greatest score over the same range: anything else would weigh the
/// numbers differently where they overflow.
fn check_shift(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    sum: &PathFold,
    varying: Term,
    shift: Term,
    seen: &mut Vec<NodeId>,
) -> Result<(), String> {
    for part in analysis.algebra.products(shift) {
        if part.factors.is_empty() {
            continue;
        }
        if !is_maximum(analysis, reader, sum, varying, &part, seen)? {
            return Err(
                "what is subtracted from the score is not its maximum over the same range".to_string()
            );
        }
    }
    Ok(())
}

/// Whether `part` is minus a positive multiple of a maximum whose own multiple is the score.
fn is_maximum(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    sum: &PathFold,
    varying: Term,
    part: &Product,
    seen: &mut Vec<NodeId>,
) -> Result<bool, String> {
    let [factor] = part.factors[..] else { return Ok(false) };
    let times = -part.coefficient();
    if times <= 0.0 {
        return Ok(false);
    }
    match analysis.algebra.form(factor).clone() {
        // The greater of the maximum and something else (a sink) is as safe.
        Form::Binary(Binary::Max, left, right) => {
            for side in [left, right] {
                let side = analysis.algebra.product(side);
                let side = Product::new(side.coefficient() * part.coefficient(), side.factors);
                if is_maximum(analysis, reader, sum, varying, &side, seen)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Form::Load { node, indices } => {
            let Some(compute) = analysis.compute(node) else { return Ok(false) };
            let Some(fold) = &compute.fold else { return Ok(false) };
            let [range @ Range::Between { .. }] = &fold.axes[..] else { return Ok(false) };
            if fold.kind != FoldKind::Max || compute.guard.is_some() {
                return Ok(false);
            }
            if analysis.range(reader, range, &indices) != (sum.start, sum.end) {
                return Err("the maximum runs over a different range".to_string());
            }
            let values: Vec<Term> = indices.into_iter().chain([sum.path]).collect();
            let body = analysis.read(reader, &compute.body, &values);
            seen.push(node);
            Ok(analysis.algebra.scale(body, times) == varying)
        }
        _ => Ok(false),
    }
}

/// The sum of weights that an attention divides by.
#[derive(Clone)]
struct Denominator {
    sink: Option<Term>,
}

/// Proves that `divisor` is the sum of the same weights over the same range, but for a sink.
fn weights_sum(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    divisor: Term,
    sum: &PathFold,
    score: &Score,
    seen: &mut Vec<NodeId>,
) -> Result<Denominator, String> {
    let mut total = None;
    let mut sink: Option<Term> = None;
    for part in analysis.algebra.products(divisor) {
        if let [factor] = part.factors[..]
            && let Form::Load { node, indices } = analysis.algebra.form(factor).clone()
            && let Some(found) = path_fold(analysis, reader, node, &indices, sum.path)
        {
            if part.coefficient() != 1.0 || total.is_some() {
                return Err("it divides by a multiple of the weights' sum".to_string());
            }
            if (found.start, found.end) != (sum.start, sum.end) {
                return Err("it divides by a sum over a different range".to_string());
            }
            if found.exponent != sum.exponent
                || found.coefficient != 1.0
                || !found.varying.is_empty()
                || !found.fixed.is_empty()
            {
                return Err("it divides by a sum of different weights".to_string());
            }
            seen.push(node);
            total = Some(node);
            continue;
        }
        // coefficient * e^x, taken out of the common shift.
        let mut exponents = vec![Product::new(part.coefficient().ln(), Vec::new())];
        for &factor in &part.factors {
            let Form::Unary(Unary::Exp, inner) = *analysis.algebra.form(factor) else {
                return Err("a term beside the weights' sum is no exponential".to_string());
            };
            exponents.extend(analysis.algebra.products(inner));
        }
        if !part.coefficient().ln().is_finite() || sink.is_some() {
            return Err("what is added to the weights' sum is no single positive term".to_string());
        }
        let shift = analysis.algebra.scale(score.shift, -1.0);
        exponents.extend(analysis.algebra.products(shift));
        // What cancels exactly leaves a zero multiple behind.
        let exponents = analysis.algebra.sum(exponents);
        let left: Vec<Product> = analysis
            .algebra
            .products(exponents)
            .into_iter()
            .filter(|product| product.coefficient() != 0.0)
            .collect();
        sink = Some(analysis.algebra.sum(left));
    }
    if total.is_none() {
        return Err("it does not divide by the weights' sum".to_string());
    }
    if let Some(sink) = sink {
        let path_read = analysis.algebra.any(sink, &mut |form| match form {
            Form::Load { node, .. } => analysis
                .compute(*node)
                .and_then(|compute| compute.fold.as_ref())
                .is_some_and(|fold| fold.axes.iter().any(|axis| extent(axis).is_none())),
            Form::History { .. } => true,
            _ => false,
        });
        if path_read || analysis.algebra.axes(sink) & analysis.algebra.axes(sum.path) != 0 {
            return Err("the sink depends on the scores".to_string());
        }
    }
    Ok(Denominator { sink })
}

/// The undivided sum in its own axes, to find it at others'.
struct Divided<'a> {
    node: NodeId,
    sum: &'a PathFold,
    score: &'a Score,
    rank: usize,
}

/// Proves that a reader uses the undivided sum only divided by the weights' sum, and gives the reader's body with the
/// division taken out.
fn divided(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    user: NodeId,
    space: &Divided<'_>,
    seen: &mut Vec<NodeId>,
) -> Result<(Denominator, Term), Refusal> {
    let refuse = |why: String| Refusal::new(space.node, Rule::Attention, why);
    let Some(compute) = analysis.elementwise(user) else {
        return Err(refuse(format!("{user} reads the undivided sum and is not elementwise")));
    };
    // The reader's axes must not be taken for the sum's: number them far away, then move them back.
    let away = 2 * space.rank + 8;
    let axes = analysis.axes(&compute.axes, away);
    let body = analysis.read(reader, &compute.body, &axes);
    let mut found: Option<Denominator> = None;
    let mut failed: Option<String> = None;
    let mut memo = HashMap::new();
    let term = strip(analysis, reader, body, space, seen, &mut found, &mut failed, &mut memo);
    if let Some(why) = failed {
        return Err(refuse(format!("{user}: {why}")));
    }
    let Some(found) = found else {
        return Err(refuse(format!("{user} reads the sum without dividing it by the weights' sum")));
    };
    let home = analysis.axes(&compute.axes, 0);
    let map: Vec<(Term, Term)> = axes.into_iter().zip(home).collect();
    Ok((found, analysis.algebra.substitute(term, &map)))
}

/// Rebuilds a term with each `sum / weights` replaced by `sum`.
#[allow(clippy::too_many_arguments)]
fn strip(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    term: Term,
    space: &Divided<'_>,
    seen: &mut Vec<NodeId>,
    found: &mut Option<Denominator>,
    failed: &mut Option<String>,
    memo: &mut HashMap<Term, Term>,
) -> Term {
    if let Some(&known) = memo.get(&term) {
        return known;
    }
    let node = space.node;
    let is_sum = |algebra: &Algebra<'_>, term: Term| matches!(algebra.form(term), Form::Load { node: loaded, .. } if *loaded == node);
    let inside = analysis
        .algebra
        .any(term, &mut |form| matches!(form, Form::Load { node: loaded, .. } if *loaded == node));
    if !inside || failed.is_some() {
        return term;
    }
    let result = match analysis.algebra.form(term).clone() {
        Form::Load { node: loaded, .. } if loaded == node => {
            *failed = Some("it reads the sum without dividing it".to_string());
            term
        }
        Form::Sum(products) => {
            let mut result = Vec::new();
            for product in products {
                let sums: Vec<Term> = product
                    .factors
                    .iter()
                    .copied()
                    .filter(|&factor| is_sum(&analysis.algebra, factor))
                    .collect();
                let mut factors = product.factors.clone();
                if let [sum] = sums[..] {
                    match divisor_of(analysis, reader, &product, sum, space, seen) {
                        Ok((place, denominator)) => {
                            factors.remove(place);
                            if found.as_ref().is_some_and(|found| found.sink != denominator.sink) {
                                *failed = Some("it divides by different sums".to_string());
                            }
                            *found = Some(denominator);
                        }
                        Err(why) => {
                            failed.get_or_insert(why);
                        }
                    }
                } else if !sums.is_empty() {
                    *failed = Some("it multiplies the sum with itself".to_string());
                }
                let mut rebuilt = Product::new(product.coefficient(), Vec::new());
                for factor in factors {
                    let factor = if is_sum(&analysis.algebra, factor) {
                        factor
                    } else {
                        strip(analysis, reader, factor, space, seen, found, failed, memo)
                    };
                    let factor = analysis.algebra.product(factor);
                    rebuilt = analysis.algebra.multiply_products(&rebuilt, &factor);
                }
                let rebuilt = analysis.algebra.term_of(rebuilt);
                result.extend(analysis.algebra.products(rebuilt));
            }
            analysis.algebra.sum(result)
        }
        Form::Reciprocal(a) => {
            let a = strip(analysis, reader, a, space, seen, found, failed, memo);
            analysis.algebra.reciprocal(a)
        }
        Form::Unary(op, a) => {
            let a = strip(analysis, reader, a, space, seen, found, failed, memo);
            analysis.algebra.unary(op, a)
        }
        Form::Binary(op, a, b) => {
            let a = strip(analysis, reader, a, space, seen, found, failed, memo);
            let b = strip(analysis, reader, b, space, seen, found, failed, memo);
            analysis.algebra.binary(op, a, b)
        }
        Form::Select(c, a, b) => {
            let c = strip(analysis, reader, c, space, seen, found, failed, memo);
            let a = strip(analysis, reader, a, space, seen, found, failed, memo);
            let b = strip(analysis, reader, b, space, seen, found, failed, memo);
            analysis.algebra.select(c, a, b)
        }
        _ => {
            *failed = Some("it reads the sum inside an index".to_string());
            term
        }
    };
    memo.insert(term, result);
    result
}

/// The factor of a product that divides its sum by the weights' sum.
fn divisor_of(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    product: &Product,
    sum: Term,
    space: &Divided<'_>,
    seen: &mut Vec<NodeId>,
) -> Result<(usize, Denominator), String> {
    let Form::Load { indices, .. } = analysis.algebra.form(sum).clone() else {
        return Err("it reads no sum".to_string());
    };
    let (Some((compute, _)), path) = (analysis.summed(space.node), space.sum.path) else {
        return Err("it reads no sum".to_string());
    };
    // The weights at the reader's indices.
    let own = analysis.axes(&compute.axes, 0);
    let map: Vec<(Term, Term)> = own.into_iter().zip(indices.iter().copied()).collect();
    let Some(here) = path_fold(analysis, reader, space.node, &indices, path) else {
        return Err("it reads no sum over a path".to_string());
    };
    let shift = analysis.algebra.substitute(space.score.shift, &map);
    let varying = analysis.algebra.substitute(space.score.varying, &map);
    let score = Score {
        chain: space.score.chain,
        varying,
        shift,
        query: space.score.query,
        key: space.score.key,
        key_dims: Vec::new(),
    };
    let mut reason = "it does not divide the sum".to_string();
    for (place, &factor) in product.factors.iter().enumerate() {
        let Form::Reciprocal(divisor) = *analysis.algebra.form(factor) else { continue };
        match weights_sum(analysis, reader, divisor, &here, &score, seen) {
            Ok(mut denominator) => {
                // Sinks are told in the sum's own axes.
                if let Some(sink) = denominator.sink {
                    let back: Vec<(Term, Term)> = map.iter().map(|&(own, at)| (at, own)).collect();
                    denominator.sink = Some(analysis.algebra.substitute(sink, &back));
                }
                return Ok((place, denominator));
            }
            Err(why) => reason = why,
        }
    }
    Err(reason)
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
