//! The contractions of a state along its key axis that a delta rule's site also serves.

use super::*;

/// The contractions of the incoming or outgoing state along its key axis.
pub(super) fn readouts(
    analysis: &mut Analysis<'_>,
    state: StateId,
    next: NodeId,
    delta: &Delta,
    seen: &mut Vec<NodeId>,
) -> Vec<Readout> {
    let graph = analysis.graph;
    let state_node = state_node(graph, state);
    let inside = |id: NodeId| analysis.feedback[id.index()].is_some();
    let mut readers: Vec<(NodeId, ReadoutOf)> = Vec::new();
    for (source, of) in [(Some(next), ReadoutOf::Next), (state_node, ReadoutOf::Incoming)] {
        let Some(source) = source else { continue };
        let mut pending = vec![source];
        while let Some(from) = pending.pop() {
            for &user in &analysis.liveness.users[from.index()] {
                if is_view(graph, user) {
                    pending.push(user);
                } else if !readers.contains(&(user, of)) && !inside(user) {
                    readers.push((user, of));
                }
            }
        }
    }
    readers.sort();
    let is_view = |id: NodeId| is_view(graph, id);
    readers
        .into_iter()
        .filter_map(|(node, of)| {
            let source = if of == ReadoutOf::Next { next } else { state_node? };
            readout(analysis, node, source, of, delta, &is_view, seen)
        })
        .collect()
}

pub(super) fn readout(
    analysis: &mut Analysis<'_>,
    node: NodeId,
    source: NodeId,
    of: ReadoutOf,
    delta: &Delta,
    is_view: &dyn Fn(NodeId) -> bool,
    seen: &mut Vec<NodeId>,
) -> Option<Readout> {
    let (compute, fold) = analysis.summed(node)?;
    let [Range::Fixed(extent)] = fold.axes[..] else { return None };
    if compute.guard.is_some() || extent != delta.key_dim {
        return None;
    }
    let rank = compute.axes.len();
    let axes = analysis.axes(&compute.axes, 0);
    let folded = analysis.algebra.axis(rank, Some(extent));
    let values: Vec<Term> = axes.iter().copied().chain([folded]).collect();
    let mut reader = Reader::new(is_view);
    let body = analysis.read(&mut reader, &compute.body, &values);
    let product = analysis.algebra.product(body);
    let place = product.factors.iter().position(
        |&factor| matches!(analysis.algebra.form(factor), Form::Load { node, .. } if *node == source),
    )?;
    let Form::Load { indices, .. } = analysis.algebra.form(product.factors[place]).clone() else {
        return None;
    };
    let mut rest = product.factors.clone();
    rest.remove(place);
    if indices.get(delta.key_axis) != Some(&folded) {
        return None;
    }
    // Each head axis and the value axis of the state is walked by an axis of the node of its own, over its whole extent.
    let mut result_axes = Vec::new();
    for &state_axis in delta.head_axes.iter().chain([&delta.value_axis]) {
        let place = axes.iter().position(|axis| *axis == indices[state_axis])?;
        let whole = if state_axis == delta.value_axis {
            delta.value_dim
        } else {
            delta.heads[delta.head_axes.iter().position(|&head| head == state_axis)?]
        };
        if result_axes.contains(&place) || compute.axes[place] != Range::Fixed(whole) {
            return None;
        }
        result_axes.push(place);
    }
    if result_axes.len() != rank {
        return None;
    }
    let heads = delta.heads.len();
    let number = |axis: usize| {
        if axis == rank {
            Some(heads)
        } else {
            result_axes.iter().position(|&place| place == axis).map(|at| at + usize::from(at == heads))
        }
    };
    let (query, scale): (Vec<Term>, Vec<Term>) =
        rest.into_iter().partition(|&factor| analysis.algebra.uses(factor, rank));
    let query = analysis.algebra.term_of(Product::new(1.0, query));
    let value_bit = axis_bit(result_axes[heads]);
    let reads_source = |form: &Form| matches!(form, Form::Load { node, .. } if *node == source);
    if analysis.algebra.axes(query) & value_bit != 0 || analysis.algebra.any(query, &mut { reads_source }) {
        return None;
    }
    let scale = Product::new(product.coefficient(), scale);
    let scale = analysis.algebra.term_of(scale);
    let mut extents: Vec<Option<usize>> = delta.heads.iter().map(|&n| Some(n)).collect();
    extents.extend([Some(delta.key_dim), Some(delta.value_dim)]);
    seen.append(&mut reader.inlined);
    Some(Readout {
        node,
        query: analysis.operand(query, &number, &extents)?,
        scale: match analysis.algebra.as_float(scale) {
            Some(1.0) => None,
            _ => Some(analysis.write(scale, &identity(rank))?),
        },
        result_axes,
        of,
    })
}
