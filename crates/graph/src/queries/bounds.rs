//! Which indices are proven to stay inside their axes; all others need a check at run time.

use super::algebra::Term;
use super::expand::{Analysis, Reader, extent};
use crate::ir::*;

/// An index that the graph alone does not prove to be in range.
#[derive(Clone, Debug, PartialEq)]
pub struct UnprovenIndex {
    /// The node whose expression reads.
    pub node: NodeId,
    /// What is read.
    pub read: Indexed,
    /// Which of its axes; for [`Indexed::Depth`] always zero.
    pub axis: usize,
    /// The index expression, over the node's axes and fold axes.
    pub index: Expr,
}

/// What an index indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Indexed {
    /// A tensor.
    Node(NodeId),
    /// A history's row.
    Row(HistoryId),
    /// A history along the path: the depth must not be above `here` (below zero it reads zero).
    Depth(HistoryId),
}

/// All indices that are not proven, in graph order.
pub fn unproven_indices(graph: &Graph) -> Vec<UnprovenIndex> {
    let mut analysis = Analysis::new(graph);
    let nothing = |_: NodeId| false;
    let mut found = Vec::new();
    for node in graph.node_ids() {
        let Some(compute) = analysis.compute(node) else { continue };
        let ranges: Vec<&Range> =
            compute.axes.iter().chain(compute.fold.iter().flat_map(|fold| &fold.axes)).collect();
        let mut reader = Reader::new(&nothing);
        let axes: Vec<Term> = ranges
            .iter()
            .enumerate()
            .map(|(axis, range)| analysis.algebra.axis(axis, extent(range)))
            .collect();
        let mut reads: Vec<&Expr> = Vec::new();
        compute.for_each_expr(&mut |expr| {
            expr.visit(&mut |part| {
                if matches!(part, Expr::Load { .. } | Expr::History { .. }) {
                    reads.push(part);
                }
            })
        });
        let scope = Scope { ranges: &ranges, axes: &axes };
        for read in reads {
            match read {
                Expr::Load { node: source, indices } => {
                    let terms: Vec<Term> =
                        indices.iter().map(|index| analysis.read(&mut reader, index, &axes)).collect();
                    for (axis, range) in graph.axes(*source).iter().enumerate() {
                        let Some(index) = terms.get(axis) else { continue };
                        if !scope.inside(&mut analysis, &mut reader, *index, range, &terms) {
                            let (read, index) = (Indexed::Node(*source), indices[axis].clone());
                            found.push(UnprovenIndex { node, read, axis, index });
                        }
                    }
                }
                Expr::History { history, depth, indices } => {
                    let term = analysis.read(&mut reader, depth, &axes);
                    if !scope.reached(&mut analysis, &mut reader, term) {
                        let (read, index) = (Indexed::Depth(*history), (**depth).clone());
                        found.push(UnprovenIndex { node, read, axis: 0, index });
                    }
                    let row = graph.histories()[history.index()].row;
                    for (axis, range) in graph.axes(row).iter().enumerate() {
                        let Some(index) = indices.get(axis) else { continue };
                        let term = analysis.read(&mut reader, index, &axes);
                        if !scope.inside(&mut analysis, &mut reader, term, range, &[]) {
                            let (read, index) = (Indexed::Row(*history), index.clone());
                            found.push(UnprovenIndex { node, read, axis, index });
                        }
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// The axes of the reading node.
struct Scope<'a> {
    ranges: &'a [&'a Range],
    axes: &'a [Term],
}

impl Scope<'_> {
    fn inside(
        &self,
        analysis: &mut Analysis<'_>,
        reader: &mut Reader<'_>,
        index: Term,
        range: &Range,
        indices: &[Term],
    ) -> bool {
        if let Range::Fixed(n) = range {
            let (low, high) = analysis.algebra.bounds(index);
            return low.is_some_and(|low| low >= 0) && high.is_some_and(|high| high < *n as i64);
        }
        // A local tensor's axis: read by an axis with the same ends.
        let wanted = analysis.range(reader, range, indices);
        match self.axes.iter().position(|&axis| axis == index) {
            Some(place) => analysis.range(reader, self.ranges[place], self.axes) == wanted,
            None => false,
        }
    }

    /// Whether a depth is at most `here`.
    fn reached(&self, analysis: &mut Analysis<'_>, reader: &mut Reader<'_>, depth: Term) -> bool {
        let here = analysis.algebra.here();
        let mut greatest = depth;
        for (place, range) in self.ranges.iter().enumerate() {
            if extent(range).is_some() || !analysis.algebra.uses(greatest, place) {
                continue;
            }
            let axis = self.axes[place];
            let ends = analysis.range(reader, range, self.axes);
            let without = analysis.algebra.index_combination(&[(greatest, 1), (axis, -1)]);
            if analysis.algebra.uses(without, place) {
                return false;
            }
            let beyond = analysis.algebra.int(if ends.inclusive { 0 } else { 1 });
            greatest = analysis.algebra.index_combination(&[(without, 1), (ends.end, 1), (beyond, -1)]);
        }
        let left = analysis.algebra.index_combination(&[(here, 1), (greatest, -1)]);
        matches!(analysis.algebra.bounds(left), (Some(low), _) if low >= 0)
    }
}
