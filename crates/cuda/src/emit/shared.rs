//! What shares a launch. Small work on the same rows is gone through by one block a row; contractions that read nothing of
//! each other lie side by side over the same blocks.
//!
//! A launch costs about as much as a few thousand elements. What is worth a grid of its own keeps one. How each element is
//! computed, by a thread or a warp, stays as it is, and so do its bits.

use fiddlehead_graph::{Graph, NodeId, NodeKind, Range};
use fiddlehead_plan::order::{Duty, ServedSite, Unit, UnitIndex};

use super::element::by_warp;
use super::kernel::Grid;
use super::lower::Lowering;
use super::scope::Spot;
use super::sites::{Served, Together};

/// The most steps of one unit and of a whole launch for a row: elements times folded points.
const MOST: usize = 1 << 14;
const MOST_TOGETHER: usize = 1 << 16;

/// What a unit takes of a block for a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Elements times folded points.
    pub steps: usize,
    /// Threads that have something to do.
    pub threads: usize,
}

impl Work {
    /// The work of a copy.
    pub fn of_words(words: usize) -> Option<Work> {
        (words <= MOST).then_some(Work { steps: words, threads: words })
    }

    /// The work of a tensor by its definition; none when it is much, or not known before a run.
    pub fn of_node(graph: &Graph, definition: NodeId) -> Option<Work> {
        let mut known = true;
        let kind = &graph.node(definition).kind;
        kind.for_each_read(&mut |read| known &= graph.shape(read).is_some(), &mut |_| {});
        let work = match kind {
            NodeKind::Compute(compute) => {
                let elements: usize = graph.shape(definition)?.iter().product();
                let folded = compute.fold.as_ref().map_or(&[][..], |fold| &fold.axes);
                let points = folded.iter().try_fold(1usize, |points, range| match range {
                    Range::Fixed(extent) => points.checked_mul(*extent),
                    Range::Between { .. } => None,
                })?;
                let lanes = if by_warp(compute) { 32 } else { 1 };
                Work { steps: elements.checked_mul(points.max(1))?, threads: elements.checked_mul(lanes)? }
            }
            NodeKind::Top { operand, k, .. } => {
                let shape = graph.shape(*operand)?;
                let all: usize = shape.iter().product();
                let outer = shape.split_last().map_or(1, |(_, outer)| outer.iter().product());
                Work { steps: all.checked_mul(*k)?, threads: usize::checked_mul(outer, 32)? }
            }
            _ => return None,
        };
        (known && work.steps <= MOST).then_some(work)
    }
}

/// Cuts units of the same rows, each after those it reads, into launches. `work` gives what a block can do beside other
/// work; a unit without is launched by itself.
pub(crate) fn launches(
    units: &[Unit],
    members: &[UnitIndex],
    work: &dyn Fn(UnitIndex) -> Option<Work>,
) -> Vec<Vec<UnitIndex>> {
    let reads = |reader: UnitIndex, maker: UnitIndex| {
        reader != maker && units[maker].makes.iter().any(|node| units[reader].reads.contains(node))
    };
    let mut waiting = members.to_vec();
    let mut launches = Vec::new();
    while !waiting.is_empty() {
        let ready = |unit: UnitIndex, taken: &[UnitIndex]| {
            waiting.iter().all(|&other| taken.contains(&other) || !reads(unit, other))
        };
        let (mut together, mut steps) = (Vec::new(), 0);
        for &unit in &waiting {
            let Some(work) = work(unit) else { continue };
            if steps + work.steps <= MOST_TOGETHER && ready(unit, &together) {
                together.push(unit);
                steps += work.steps;
            }
        }
        let mut found = vec![together];
        if found[0].is_empty() {
            let alone = waiting.iter().filter(|&&unit| ready(unit, &[]));
            found = alone.map(|&unit| vec![unit]).collect();
        }
        if found.is_empty() {
            // A sealed graph has no cycle; were there one, the rest keeps its order.
            found = waiting.iter().map(|&unit| vec![unit]).collect();
        }
        waiting.retain(|unit| !found.iter().any(|launch| launch.contains(unit)));
        launches.extend(found);
    }
    launches
}

impl Lowering<'_> {
    /// What a unit takes of a block for a row, when that is little.
    pub(super) fn work(&self, unit: usize) -> Option<Work> {
        match self.units.units[unit].work {
            Duty::Node(node) if self.scope.spots[node.index()] == Spot::Local => Some(Work::default()),
            Duty::Node(node) => Work::of_node(self.scope.graph, self.found.definition(node)),
            duty @ (Duty::Append(_) | Duty::Store(_)) => Work::of_words(self.kept(duty).1),
            _ => None,
        }
    }

    /// Small work on the same rows: one block a row.
    pub(super) fn small(&mut self, units: &[usize]) {
        let set = self.units.units[units[0]].set;
        let grid = Grid { rows: Self::rows(set), per_row: 1, per_block: 1 };
        let nodes: Vec<NodeId> =
            units.iter().map(|&unit| self.subject(self.units.units[unit].work)).collect();
        let mut kernel = self.kernel(nodes[0], grid, "elements");
        let threads = units.iter().filter_map(|&unit| self.work(unit)).map(|work| work.threads).max();
        kernel.block = threads.unwrap_or(1).next_power_of_two().clamp(64, 512) as u32;
        kernel.nodes = nodes;
        self.scope.set = set;
        let count = set.map_or("1".into(), |set| format!("b->set_count[{}]", set.0));
        kernel.line(format!("for (int row = blockIdx.x; row < {count}; row += gridDim.x) {{"));
        self.enter(&mut kernel, set);
        units.iter().for_each(|&unit| self.in_block(&mut kernel, unit));
        kernel.line("}");
        self.push(kernel);
    }

    /// Kernels that read nothing of each other: contractions of the same rows are one.
    pub(super) fn together(&mut self, units: &[usize]) {
        let mut open = units.to_vec();
        while let Some(&first) = open.first() {
            let set = self.units.units[first].set;
            let members: Vec<usize> =
                open.iter().copied().filter(|&unit| self.units.units[unit].set == set).collect();
            open.retain(|unit| !members.contains(unit));
            let found = self.found;
            let served = members.iter().filter_map(|&unit| match self.units.units[unit].work {
                Duty::Served(index) => Some(&found.served[index.0]),
                _ => None,
            });
            let served: Vec<&Served> = served.collect();
            let together = Together::new(served.iter().copied()).filter(|_| served.len() == members.len());
            let (Some(together), true) = (together, members.len() > 1) else {
                members.iter().for_each(|&unit| self.unit(unit));
                continue;
            };
            self.scope.set = set;
            let grid = together.grid(Self::rows(set));
            let mut kernel = self.kernel(served[0].makes()[0], grid, "contraction");
            kernel.candidate = served[0].candidate();
            kernel.nodes = served.iter().flat_map(|site| site.covers()).copied().collect();
            together.write(&mut kernel, &self.scope, &mut self.traps);
            self.push(kernel);
        }
    }
}

#[cfg(test)]
mod tests {
    use fiddlehead_plan::order::SetIndex;

    use super::*;

    fn unit(makes: u32, reads: &[u32]) -> Unit {
        Unit {
            work: Duty::Node(NodeId(makes)),
            makes: vec![NodeId(makes)],
            reads: reads.iter().map(|&read| NodeId(read)).collect(),
            states: vec![],
            histories: vec![],
            set: Some(SetIndex::ALL),
            carries: false,
        }
    }

    #[test]
    fn heavy_work_parts_what_depends_on_it_from_what_does_not() {
        // 0 → 1 (heavy) → 2, and 3 by itself.
        let units = [unit(0, &[]), unit(1, &[0]), unit(2, &[1]), unit(3, &[0])];
        let work = |unit: UnitIndex| (unit != 1).then_some(Work { steps: 8, threads: 8 });
        assert_eq!(launches(&units, &[0, 1, 2, 3], &work), [vec![0, 3], vec![1], vec![2]]);
    }

    #[test]
    fn a_launch_holds_so_much() {
        let units: Vec<Unit> = (0..6).map(|node| unit(node, &[])).collect();
        let work = |_: UnitIndex| Some(Work { steps: MOST, threads: 1 });
        let found = launches(&units, &[0, 1, 2, 3, 4, 5], &work);
        assert_eq!(found, [vec![0, 1, 2, 3], vec![4, 5]]);
    }
}
