//! Windows: reads of a bounded tail of a history, and the storage each history needs.

use super::affine::{Affine, Atom};
use super::algebra::{Algebra, Form, Product, Term};
use super::expand::{Analysis, Reader, extent, identity, is_view};
use super::operand::{Operand, Source, expr_reads};
use super::variance::Variance;
use super::{Refusal, Rule};
use crate::ir::{Binary, Expr, FoldKind, Graph, HistoryId, NodeId, NodeKind, Permissions, Range};

/// A causal, depthwise convolution: `node[c…] = scale(c) * Σ_j weight(c, j) * history[here - reach + 1 + j](c) + bias(c)`,
/// rows before the root read as zero.
///
/// Site axes: the node's axes `c…`, then the tap `j`, `0 .. reach`, oldest first. However written: as a fold over taps
/// or as a sum of explicit reads. The newest row may be read as the history or as the node that it is appended from.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The node that holds the result.
    pub node: NodeId,
    /// The history.
    pub history: HistoryId,
    /// How many rows are read, the node's own included.
    pub reach: usize,
    /// Extents of the node's axes.
    pub channels: Vec<usize>,
    /// The history's row at the tap: its indices are over `c…`, its depth is `here - reach + 1 + j`.
    pub row: Operand,
    /// One weight a tap, oldest first: each an operand over `c…` alone; absent where the program has no such tap (zero).
    pub taps: Vec<Option<Operand>>,
    /// The weight over `c…` and `j`, when the taps are one tensor indexed by the tap.
    pub weight: Option<Operand>,
    /// A factor over `c…`, one when absent.
    pub scale: Option<Expr>,
    /// An addend over `c…`, zero when absent.
    pub bias: Option<Expr>,
    /// What the node makes of the sum, elementwise over [`Expr::Accumulator`] (the formula above) and `c…`; nothing when
    /// absent.
    pub epilogue: Option<Expr>,
    /// Which operand roundings the source allows.
    pub permissions: Permissions,
}

/// What must be kept of a history after a node, deduced from all its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistoryStorage {
    /// Nothing: no read goes above the node's own row.
    Nothing,
    /// The last rows: a ring.
    Ring {
        /// How many rows are read, the node's own included; at least two.
        reach: usize,
    },
    /// All rows: pages.
    Whole,
    /// All rows for some reads, a bounded tail for others: pages, and a ring if that is quicker to read.
    Both {
        /// How many rows the bounded reads need, the node's own included.
        reach: usize,
    },
}

impl Window {
    /// The nodes that the site loads; the history counts as its row.
    pub fn reads(&self, graph: &Graph) -> Vec<NodeId> {
        let mut found = Vec::new();
        for operand in std::iter::once(&self.row).chain(self.taps.iter().flatten()).chain(&self.weight) {
            operand.reads(graph, &mut found);
        }
        for expr in self.scale.iter().chain(&self.bias).chain(&self.epilogue) {
            expr_reads(graph, expr, &mut found);
        }
        found.sort();
        found.dedup();
        found
    }
}

/// The windows of a graph, in graph order, and what nearly was one.
pub fn windows(graph: &Graph) -> (Vec<Window>, Vec<Refusal>) {
    let mut analysis = Analysis::new(graph);
    let (mut found, mut refusals) = (Vec::new(), Vec::new());
    for node in graph.node_ids() {
        match window(&mut analysis, node) {
            Ok(Some(window)) => found.push(window),
            Ok(None) => {}
            Err(refusal) => refusals.push(refusal),
        }
    }
    (found, refusals)
}

/// More taps than this are no window that a ring serves.
const TAP_LIMIT: usize = 64;

/// The causal convolution at a node; `None` when it reads no bounded tail.
pub(super) fn window(analysis: &mut Analysis<'_>, node: NodeId) -> Result<Option<Window>, Refusal> {
    let graph = analysis.graph;
    let Some(compute) = analysis.compute(node) else { return Ok(None) };
    let is_history_read = |expr: &Expr| {
        expr.any(&mut |part| match part {
            Expr::History { .. } => true,
            Expr::Load { node, .. } => is_view(graph, *node),
            _ => false,
        })
    };
    if compute.guard.is_some() || !is_history_read(&compute.body) {
        return Ok(None);
    }
    let channels: Option<Vec<usize>> = compute.axes.iter().map(extent).collect();
    let Some(channels) = channels else { return Ok(None) };
    let rank = channels.len();
    let axes = analysis.axes(&compute.axes, 0);
    let inline = |id: NodeId| is_view(graph, id);
    let mut reader = Reader::new(&inline);
    // As a sum of explicit taps: an unrolled fold, or the sum as it was written.
    let mut weight = None;
    let (body, mut weight_scale) = match &compute.fold {
        None => (analysis.read(&mut reader, &compute.body, &axes), None),
        Some(fold) => {
            let (FoldKind::Sum, [Range::Fixed(taps)]) = (&fold.kind, &fold.axes[..]) else { return Ok(None) };
            let tap = analysis.algebra.axis(rank, Some(*taps));
            let values: Vec<Term> = axes.iter().copied().chain([tap]).collect();
            let folded = analysis.read(&mut reader, &compute.body, &values);
            if !reads_tail(&analysis.algebra, folded, rank) {
                return Ok(None);
            }
            if *taps > TAP_LIMIT {
                let why = format!("it has more than {TAP_LIMIT} taps");
                return Err(Refusal::new(node, Rule::Window, why));
            }
            let product = analysis.algebra.product(folded);
            let (inside, outside): (Vec<Term>, Vec<Term>) =
                product.factors.iter().partition(|&&factor| analysis.algebra.uses(factor, rank));
            let ascending = inside.iter().any(|&factor| is_ascending(analysis, factor, tap));
            let weights: Vec<Term> = inside
                .iter()
                .copied()
                .filter(|&factor| !matches!(analysis.algebra.form(factor), Form::History { .. }))
                .collect();
            if weights.len() == 1 && ascending {
                let extents: Vec<Option<usize>> = channels.iter().copied().chain([*taps]).map(Some).collect();
                weight = analysis.operand(weights[0], &identity(rank + 1), &extents);
            }
            let mut terms = Vec::with_capacity(*taps);
            let kept = analysis.algebra.term_of(Product::new(1.0, inside));
            for place in 0..*taps {
                let place = analysis.algebra.int(place as i64);
                let term = analysis.algebra.substitute(kept, &[(tap, place)]);
                terms.extend(analysis.algebra.products(term));
            }
            let scale = Product::new(product.coefficient(), outside);
            (analysis.algebra.sum(terms), Some(scale))
        }
    };
    let Some((sum, tail)) = tail_sum(analysis, body) else { return Ok(None) };
    let refuse = |why: &str| Refusal::new(node, Rule::Window, why);
    if analysis.feedback[node.index()].is_some() {
        return Err(refuse("what it gives feeds back into the history that it reads"));
    }
    let row_node = graph.histories()[tail.history.index()].row;
    let here = analysis.algebra.here();
    let mut taps: Vec<(i64, Product)> = Vec::new();
    let mut addends: Vec<Product> = Vec::new();
    for product in analysis.algebra.products(sum) {
        let mut read: Option<(i64, usize)> = None;
        for (place, &factor) in product.factors.iter().enumerate() {
            let offset = match analysis.algebra.form(factor).clone() {
                Form::History { history, depth, indices } if history == tail.history => {
                    if indices != tail.indices {
                        return Err(refuse("its taps read different channels"));
                    }
                    let offset = analysis.algebra.index_combination(&[(depth, 1), (here, -1)]);
                    match analysis.algebra.as_int(offset) {
                        Some(offset) if offset <= 0 => offset,
                        _ => return Err(refuse("a tap is at no fixed distance")),
                    }
                }
                Form::Load { node: loaded, indices } if loaded == row_node && indices == tail.indices => 0,
                _ => continue,
            };
            if read.replace((offset, place)).is_some() {
                return Err(refuse("a product reads two rows"));
            }
        }
        match read {
            None => addends.push(product),
            Some((offset, place)) => {
                let mut rest = product;
                rest.factors.remove(place);
                taps.push((offset, rest));
            }
        }
    }
    let oldest = taps.iter().map(|(offset, _)| *offset).min().unwrap_or(0);
    let reach = 1 - oldest;
    if reach as usize > TAP_LIMIT {
        return Err(refuse("its oldest tap is too far back"));
    }
    let mut slots: Vec<Option<Operand>> = vec![None; reach as usize];
    let extents: Vec<Option<usize>> = channels.iter().map(|&n| Some(n)).collect();
    let number = identity(rank);
    for (offset, weight) in taps {
        let slot = &mut slots[(offset - oldest) as usize];
        if slot.is_some() {
            return Err(refuse("two products read the same tap"));
        }
        let reads_path = weight
            .factors
            .iter()
            .any(|&factor| analysis.algebra.any(factor, &mut |form| matches!(form, Form::History { .. })));
        if reads_path {
            return Err(refuse("a tap's weight reads a history"));
        }
        let weight = analysis.algebra.term_of(weight);
        *slot = Some(
            analysis
                .operand(weight, &number, &extents)
                .ok_or_else(|| refuse("a weight has no index form"))?,
        );
    }
    if weight.is_some() && slots.iter().any(Option::is_none) {
        weight = None;
    }
    let write = |analysis: &Analysis<'_>, term: Term| {
        analysis.write(term, &number).ok_or_else(|| refuse("an axis has no number"))
    };
    let reads_a_row =
        |factor: &Term| analysis.algebra.any(*factor, &mut |form| matches!(form, Form::History { .. }));
    if addends.iter().any(|product| product.factors.iter().any(reads_a_row)) {
        return Err(refuse("a row is read other than times a weight"));
    }
    if compute.fold.is_some() && !addends.is_empty() {
        return Err(refuse("something else is summed with the taps"));
    }
    let bias = match addends.is_empty() {
        true => None,
        false => {
            let bias = analysis.algebra.sum(addends);
            Some(write(analysis, bias)?)
        }
    };
    let scale = match weight_scale.take() {
        Some(scale) if scale.coefficient() != 1.0 || !scale.factors.is_empty() => {
            let scale = analysis.algebra.term_of(scale);
            Some(write(analysis, scale)?)
        }
        _ => None,
    };
    let accumulator = analysis.algebra.atom(Form::Accumulator);
    let chain = analysis.algebra.replace(body, &mut |_, term| (term == sum).then_some(accumulator));
    if analysis.algebra.any(chain, &mut |form| matches!(form, Form::History { .. })) {
        return Err(refuse("it reads a history beside its taps"));
    }
    let epilogue = if chain == accumulator { None } else { Some(write(analysis, chain)?) };
    let forms = tail
        .indices
        .iter()
        .map(|&index| analysis.affine(index, &number))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| refuse("the history's index has no form"))?;
    if forms.iter().any(|form| form.here != 0) {
        return Err(refuse("the channel depends on the depth"));
    }
    let depth = Affine { constant: oldest, here: 1, terms: vec![(Atom::Axis(rank), 1)] };
    Ok(Some(Window {
        node,
        history: tail.history,
        reach: reach as usize,
        channels,
        row: Operand {
            source: Source::History(tail.history),
            depth: Some(depth),
            indices: forms,
            variance: Variance::PerNode,
        },
        taps: slots,
        weight,
        scale,
        bias,
        epilogue,
        permissions: compute.permissions,
    }))
}

/// Whether a product reads a history at a depth that moves with axis `tap` and with `here`.
fn reads_tail(algebra: &Algebra<'_>, term: Term, tap: usize) -> bool {
    algebra.any(term, &mut |form| match form {
        Form::History { depth, .. } => {
            algebra.uses(*depth, tap) && algebra.any(*depth, &mut |part| matches!(part, Form::Here))
        }
        _ => false,
    })
}

/// Whether a factor reads a history at `here + constant + tap`.
fn is_ascending(analysis: &mut Analysis<'_>, factor: Term, tap: Term) -> bool {
    let Form::History { depth, .. } = *analysis.algebra.form(factor) else { return false };
    let here = analysis.algebra.here();
    let rest = analysis.algebra.index_combination(&[(depth, 1), (here, -1), (tap, -1)]);
    analysis.algebra.as_int(rest).is_some()
}

struct Tail {
    history: HistoryId,
    indices: Vec<Term>,
}

/// The innermost sum that holds every read of an earlier row, and how it reads.
fn tail_sum(analysis: &mut Analysis<'_>, body: Term) -> Option<(Term, Tail)> {
    let here = analysis.algebra.here();
    let mut reads = Vec::new();
    analysis.algebra.visit(body, &mut |term| {
        if matches!(analysis.algebra.form(term), Form::History { .. }) {
            reads.push(term);
        }
        true
    });
    reads.sort();
    let mut tail: Option<Tail> = None;
    let mut earlier = false;
    for read in reads {
        let Form::History { history, depth, indices } = analysis.algebra.form(read).clone() else { continue };
        let offset = analysis.algebra.index_combination(&[(depth, 1), (here, -1)]);
        let offset = analysis.algebra.as_int(offset)?;
        earlier |= offset < 0;
        match &tail {
            None => tail = Some(Tail { history, indices }),
            Some(known) if known.history != history => return None,
            Some(_) => {}
        }
    }
    let tail = tail.filter(|_| earlier)?;
    let reads_it = |algebra: &Algebra<'_>, term: Term| {
        algebra.any(term, &mut |form| matches!(form, Form::History { .. }))
    };
    // Down from the whole while exactly one part holds all reads.
    let mut at = body;
    loop {
        let holders: Vec<Term> = analysis
            .algebra
            .parts(at)
            .into_iter()
            .filter(|&part| reads_it(&analysis.algebra, part))
            .collect();
        let is_sum = matches!(analysis.algebra.form(at), Form::Sum(products) if products.len() > 1);
        match holders[..] {
            [only] if !matches!(analysis.algebra.form(only), Form::History { .. }) => at = only,
            _ if is_sum => return Some((at, tail)),
            _ => return None,
        }
    }
}

/// The storage that each history needs, by history: from the depths at which the graph reads it.
pub fn history_storage(graph: &Graph) -> Vec<HistoryStorage> {
    let mut analysis = Analysis::new(graph);
    storage(&mut analysis)
}

pub(super) fn storage(analysis: &mut Analysis<'_>) -> Vec<HistoryStorage> {
    let graph = analysis.graph;
    // By history: whether the whole path is read, and the furthest bounded read.
    let mut whole = vec![false; graph.histories().len()];
    let mut reach = vec![1usize; graph.histories().len()];
    for node in graph.nodes() {
        let NodeKind::Compute(compute) = &node.kind else { continue };
        let mut reads: Vec<(HistoryId, &Expr)> = Vec::new();
        compute.for_each_expr(&mut |expr| {
            expr.visit(&mut |part| {
                if let Expr::History { history, depth, .. } = part {
                    reads.push((*history, depth));
                }
            })
        });
        if reads.is_empty() {
            continue;
        }
        let ranges: Vec<&Range> =
            compute.axes.iter().chain(compute.fold.iter().flat_map(|fold| &fold.axes)).collect();
        let axes: Vec<Term> = ranges
            .iter()
            .enumerate()
            .map(|(axis, range)| analysis.algebra.axis(axis, extent(range)))
            .collect();
        let nothing = |_: NodeId| false;
        for (history, depth) in reads {
            let mut reader = Reader::new(&nothing);
            let depth = analysis.read(&mut reader, depth, &axes);
            match distance(analysis, &mut reader, depth, &ranges, &axes) {
                Some(rows) => reach[history.index()] = reach[history.index()].max(rows),
                None => whole[history.index()] = true,
            }
        }
    }
    whole
        .into_iter()
        .zip(reach)
        .map(|(whole, reach)| match (whole, reach) {
            (false, 1) => HistoryStorage::Nothing,
            (false, reach) => HistoryStorage::Ring { reach },
            (true, 1) => HistoryStorage::Whole,
            (true, reach) => HistoryStorage::Both { reach },
        })
        .collect()
}

/// How many rows back a depth can reach, this node's own included; `None` without a bound.
fn distance(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    depth: Term,
    ranges: &[&Range],
    axes: &[Term],
) -> Option<usize> {
    let here = analysis.algebra.here();
    let mut back = analysis.algebra.index_combination(&[(here, 1), (depth, -1)]);
    // An axis over a dependent range is at least the range's start.
    for (place, range) in ranges.iter().enumerate() {
        if extent(range).is_some() || !analysis.algebra.uses(back, place) {
            continue;
        }
        let start = analysis.range(reader, range, axes).start;
        // `max(0, x)` is at least x.
        let start = match *analysis.algebra.form(start) {
            Form::Binary(Binary::Max, left, right) => {
                if analysis.algebra.as_int(left).is_some() {
                    right
                } else {
                    left
                }
            }
            _ => start,
        };
        let without = analysis.algebra.index_combination(&[(back, 1), (axes[place], 1)]);
        if analysis.algebra.uses(without, place) {
            return None;
        }
        back = analysis.algebra.index_combination(&[(without, 1), (start, -1)]);
    }
    match analysis.algebra.bounds(back) {
        (_, Some(high)) if high >= 0 => usize::try_from(high).ok().map(|high| high + 1),
        (_, Some(_)) => Some(1),
        _ => None,
    }
}
