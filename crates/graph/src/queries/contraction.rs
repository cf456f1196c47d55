//! Contractions: a sum, over fixed axes, of a product of two reads.
//!
//! Matrix × vector, matrix × matrix, batched, convolution (`y + dy`, derived axes `k / d`, `k % d`) and gathered
//! (experts) are one descriptor; [`Contraction::as_rows_times_weight`] gives the view that row kernels serve.

mod rows;

use std::collections::HashMap;

use super::affine::{Affine, Atom};
use super::algebra::{Product, Term, axis_bit};
use super::expand::{Analysis, Reader, extent, identity, is_view};
use super::operand::{Operand, expr_reads};
use super::variance::Variance;
use super::{Refusal, Rule};
use crate::ir::{Expr, Graph, NodeId, Permissions, Range};

/// `node[r…] = scale(r…) * Σ_f operands[0](r…, f…) * operands[1](r…, f…)`.
///
/// Site axes: the node's axes 0 … R-1 (its shape), then the folded axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Contraction {
    /// The node that holds the result.
    pub node: NodeId,
    /// The two factors, `[activation, weight]`: the second is the one that changes less often, and of two that change alike
    /// it is a matrix rather than a vector.
    pub operands: [Operand; 2],
    /// Extent and role of every site axis.
    pub axes: Vec<ContractionAxis>,
    /// A factor that does not depend on the folded axes, over the node's axes; one when absent.
    pub scale: Option<Expr>,
    /// A guard of the node, over its axes: where false the element is zero.
    pub guard: Option<Expr>,
    /// Which operand roundings the source allows.
    pub permissions: Permissions,
}

/// One axis of a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractionAxis {
    /// How many values, from zero.
    pub extent: usize,
    /// Who depends on it.
    pub role: Role,
}

/// The part an axis plays in a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A result axis of the first operand alone.
    Left,
    /// A result axis of the second operand alone.
    Right,
    /// A result axis of both operands.
    Batch,
    /// A result axis of neither: the value repeats along it.
    Repeat,
    /// Summed over, read by both operands.
    Folded,
    /// Summed over, read by one operand alone.
    FoldedOnce,
}

/// A contraction seen as `result[m, n] = scale * Σ_k activation[m, k] * weight[row(n), column_offset + k]` with both
/// sides contiguous in `k`: the shape of matrix × vector and matrix × matrix kernels over row-major weights.
///
/// For one forest node the activation has the rows `activation_rows` (none: one row); over a batch these come for
/// each forest node. An axis in both `rows` and `activation_rows` walks both together (one small weight a head); only
/// without such an axis is the result a full matrix product. The weight's rows are addressed as `group * group_rows + row_offset + Σ axis * stride`.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsTimesWeight {
    /// The weight's tensor: a parameter, or another node of constant or uniform variance.
    pub weight: NodeId,
    /// Rows of the whole stored weight, all leading axes flattened.
    pub weight_rows: usize,
    /// Length of a stored row of the weight (its last axis), in elements.
    pub weight_row_length: usize,
    /// The first row read.
    pub row_offset: usize,
    /// Result axes that walk the weight's rows, in the order of the node's axes; strides in rows.
    pub rows: Vec<StridedAxis>,
    /// The first element read of each row.
    pub column_offset: usize,
    /// How many elements of each row are summed over: all folded extents multiplied.
    pub columns: usize,
    /// The weight's part chosen by data (experts), if any.
    pub group: Option<Group>,
    /// The other operand, over the contraction's axes.
    pub activation: Operand,
    /// The activation's first element read, in elements of its flattened tensor.
    pub activation_offset: usize,
    /// Result axes that walk the activation, in the order of the node's axes; strides in elements.
    pub activation_rows: Vec<StridedAxis>,
    /// Row-major strides of the result's axes in elements, by site axis: where the result of `(m, n)` goes.
    pub result_strides: Vec<usize>,
}

/// The weight's side of a contraction: [`RowsTimesWeight`] without its activation, fields as there.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightRows {
    /// Which of the contraction's operands the weight is; the other is the activation, indexed in any way.
    pub place: usize,
    /// The weight's tensor.
    pub weight: NodeId,
    /// Rows of the whole stored weight.
    pub weight_rows: usize,
    /// Length of a stored row, in elements.
    pub weight_row_length: usize,
    /// The first row read.
    pub row_offset: usize,
    /// Result axes that walk the weight's rows; strides in rows.
    pub rows: Vec<StridedAxis>,
    /// The first element read of each row.
    pub column_offset: usize,
    /// How many elements of each row are summed over.
    pub columns: usize,
    /// The weight's part chosen by data, if any.
    pub group: Option<Group>,
    /// Row-major strides of the result's axes in elements.
    pub result_strides: Vec<usize>,
}

impl WeightRows {
    /// As [`RowsTimesWeight::single_run`].
    pub fn single_run(&self) -> Option<(usize, usize, usize)> {
        single_run(self.row_offset, &self.rows)
    }
}

/// An axis that walks memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StridedAxis {
    /// The site axis.
    pub axis: usize,
    /// How many values, from zero.
    pub extent: usize,
    /// The distance of one step; its unit is said where it is used.
    pub stride: usize,
}

/// The part of a weight chosen by data.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Which part, an expression over the node's axes (i32 or id).
    pub index: Expr,
    /// How many parts the weight has.
    pub count: usize,
    /// Rows of the weight from one part to the next.
    pub rows: usize,
    /// The result axes on which `index` depends (the chosen experts of a node).
    pub axes: Vec<usize>,
}

impl RowsTimesWeight {
    /// `(start, stride, count)` when the rows read form one arithmetic run in the order of the result's elements.
    pub fn single_run(&self) -> Option<(usize, usize, usize)> {
        single_run(self.row_offset, &self.rows)
    }
}

fn single_run(offset: usize, rows: &[StridedAxis]) -> Option<(usize, usize, usize)> {
    let mut stride = 1;
    let mut count = 1;
    for (place, axis) in rows.iter().rev().enumerate() {
        if place == 0 {
            stride = axis.stride;
        } else if axis.stride != stride * count {
            return None;
        }
        count *= axis.extent;
    }
    Some((offset, stride, count))
}

/// Contractions that read the same activation and so can be one launch over several weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The activation's tensor.
    pub activation: NodeId,
    /// The contractions' nodes, two or more, in graph order. None of them depends on another.
    pub nodes: Vec<NodeId>,
}

/// The contractions of a graph, in graph order, and what nearly was one.
pub fn contractions(graph: &Graph) -> (Vec<Contraction>, Vec<Refusal>) {
    let mut analysis = Analysis::new(graph);
    let (mut found, mut refusals) = (Vec::new(), Vec::new());
    for node in graph.node_ids() {
        match contraction(&mut analysis, node) {
            Ok(Some(contraction)) => found.push(contraction),
            Ok(None) => {}
            Err(refusal) => refusals.push(refusal),
        }
    }
    (found, refusals)
}

/// The contraction at a node; `None` when it is plainly something else.
pub(super) fn contraction(analysis: &mut Analysis<'_>, node: NodeId) -> Result<Option<Contraction>, Refusal> {
    let Some((compute, fold)) = analysis.summed(node) else { return Ok(None) };
    let refuse = |why: &str| Err(Refusal::new(node, Rule::Contraction, why));
    let ranges: Vec<&Range> = compute.axes.iter().chain(&fold.axes).collect();
    let extents: Vec<Option<usize>> = ranges.iter().map(|range| extent(range)).collect();
    let result_axes = compute.axes.len();
    if extents.len() > 60 {
        return refuse("it has more than sixty axes");
    }
    let axes: Vec<_> = (0..extents.len()).map(|axis| analysis.algebra.axis(axis, extents[axis])).collect();
    let graph = analysis.graph;
    let is_view = |id: NodeId| is_view(graph, id);
    let mut reader = Reader::new(&is_view);
    let body = analysis.read(&mut reader, &compute.body, &axes);
    let product = analysis.algebra.product(body);
    let folded: u64 = (result_axes..extents.len()).fold(0, |bits, axis| bits | axis_bit(axis));
    let (inside, outside): (Vec<Term>, Vec<Term>) =
        product.factors.iter().partition(|&&factor| analysis.algebra.axes(factor) & folded != 0);
    let Some(groups) = two_factors(analysis, &inside) else {
        // One factor alone is a plain reduction, which is no near miss.
        return if inside.len() > 2 { refuse("its factors do not part into two operands") } else { Ok(None) };
    };
    if extents.iter().any(Option::is_none) {
        return refuse("an axis depends on other values");
    }
    let number = identity(extents.len());
    let mut operands = Vec::with_capacity(2);
    for group in groups {
        let term = analysis.algebra.term_of(Product::new(1.0, group));
        match analysis.operand(term, &number, &extents) {
            Some(operand) => operands.push(operand),
            None => return refuse("an operand has no index form"),
        }
    }
    let walks = |operand: &Operand| (0..result_axes).any(|axis| operand.uses(axis));
    let matrix_first = walks(&operands[0]) && !walks(&operands[1]);
    match operands[0].variance.cmp(&operands[1].variance) {
        std::cmp::Ordering::Less => operands.swap(0, 1),
        std::cmp::Ordering::Equal if matrix_first => operands.swap(0, 1),
        _ => {}
    }
    let scale = (product.coefficient() != 1.0 || !outside.is_empty())
        .then(|| Product::new(product.coefficient(), outside))
        .map(|scale| analysis.algebra.term_of(scale))
        .and_then(|scale| analysis.write(scale, &identity(result_axes)));
    let Ok([first, second]) = <[Operand; 2]>::try_from(operands) else {
        return refuse("it has no two operands");
    };
    let axes = (0..extents.len())
        .map(|axis| {
            let role = match (axis < result_axes, first.uses(axis), second.uses(axis)) {
                (true, true, true) => Role::Batch,
                (true, true, false) => Role::Left,
                (true, false, true) => Role::Right,
                (true, false, false) => Role::Repeat,
                (false, true, true) => Role::Folded,
                (false, _, _) => Role::FoldedOnce,
            };
            ContractionAxis { extent: extents[axis].unwrap_or(0), role }
        })
        .collect();
    Ok(Some(Contraction {
        node,
        operands: [first, second],
        axes,
        scale,
        guard: compute.guard.clone(),
        permissions: compute.permissions,
    }))
}

/// Parts the folded factors into two operands: weights from the rest, or by the axes they depend on.
fn two_factors(analysis: &Analysis<'_>, factors: &[Term]) -> Option<[Vec<Term>; 2]> {
    let (constant, varying): (Vec<Term>, Vec<Term>) =
        factors.iter().partition(|&&factor| analysis.value_variance(factor) == Variance::Constant);
    if !constant.is_empty() && !varying.is_empty() {
        return Some([varying, constant]);
    }
    match factors {
        // A square is a reduction's, not a contraction's.
        [left, right] => (left != right).then(|| [vec![*left], vec![*right]]),
        [] | [_] => None,
        _ => {
            // The factors with the widest axes lead; each other joins a leader that has all its axes.
            let axes = |term: &Term| analysis.algebra.axes(*term);
            let mut groups: Vec<(u64, Vec<Term>)> = Vec::new();
            let mut sorted = factors.to_vec();
            sorted.sort_by_key(|term| std::cmp::Reverse(axes(term).count_ones()));
            for term in sorted {
                let wanted = axes(&term);
                match groups.iter_mut().find(|(group, _)| group & wanted == wanted) {
                    Some((_, terms)) => terms.push(term),
                    None => groups.push((wanted, vec![term])),
                }
            }
            match &mut groups[..] {
                [(_, left), (_, right)] => Some([std::mem::take(left), std::mem::take(right)]),
                // One tensor over all the axes, times what ranges over fewer: a matrix and a vector in parts.
                [(all, terms)] if axes(&terms[0]) == *all => {
                    let rest = terms.split_off(1);
                    let narrower = rest.iter().all(|term| axes(term) != *all);
                    narrower.then(|| [std::mem::take(terms), rest])
                }
                _ => None,
            }
        }
    }
}

impl Contraction {
    /// The nodes that the site loads; a history counts as its row.
    pub fn reads(&self, graph: &Graph) -> Vec<NodeId> {
        let mut found = Vec::new();
        for operand in &self.operands {
            operand.reads(graph, &mut found);
        }
        for expr in self.scale.iter().chain(&self.guard) {
            expr_reads(graph, expr, &mut found);
        }
        found.sort();
        found.dedup();
        found
    }
}

impl Role {
    fn is_folded(self) -> bool {
        matches!(self, Role::Folded | Role::FoldedOnce)
    }
}

/// Contractions that read the same activation vector through [`RowsTimesWeight`] and do not depend on one another.
pub fn merges(graph: &Graph, contractions: &[Contraction]) -> Vec<Merge> {
    let mut by_activation: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
    let mut place: HashMap<NodeId, usize> = HashMap::new();
    for contraction in contractions {
        let Ok(view) = contraction.as_rows_times_weight(graph) else { continue };
        // One row a node, whole weights: anything else is another launch shape.
        if view.group.is_some() || !view.activation_rows.is_empty() || contraction.guard.is_some() {
            continue;
        }
        let Some(activation) = view.activation.node() else { continue };
        let at = *place.entry(activation).or_insert_with(|| {
            by_activation.push((activation, Vec::new()));
            by_activation.len() - 1
        });
        by_activation[at].1.push(contraction.node);
    }
    let liveness = super::liveness::liveness(graph);
    by_activation
        .into_iter()
        .filter(|(_, nodes)| nodes.len() > 1)
        .filter_map(|(activation, nodes)| {
            let nodes = independent(&liveness, &nodes);
            (nodes.len() > 1).then_some(Merge { activation, nodes })
        })
        .collect()
}

/// The nodes that depend on no earlier one of the list.
fn independent(liveness: &super::liveness::Liveness, nodes: &[NodeId]) -> Vec<NodeId> {
    let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return Vec::new() };
    let mut depends = vec![false; last.index() - first.index() + 1];
    let mut kept = Vec::new();
    for id in first.index()..=last.index() {
        let node = NodeId(id as u32);
        let listed = nodes.contains(&node);
        if listed && !depends[id - first.index()] {
            kept.push(node);
        }
        if listed || depends[id - first.index()] {
            for user in &liveness.users[id] {
                if user.index() <= last.index() {
                    depends[user.index() - first.index()] = true;
                }
            }
        }
    }
    kept
}
