//! Where a graph's tensors lie, and how long each buffer is needed.

use std::collections::HashMap;

use fiddlehead_graph::queries::Variance;
use fiddlehead_graph::{Graph, NodeId, NodeKind};
use fiddlehead_plan::DeviceError;
use fiddlehead_plan::order::{Facts, Units};
use fiddlehead_storage::Tensor;

use super::kernel::{Argument, Kernel};
use super::scan::Constants;
use super::scope::{RowsOf, Spot, elements};

/// Memory that kernels pass a tensor in.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub node: NodeId,
    /// Words of one row.
    pub words: usize,
    pub rows: RowsOf,
    /// Written once, at loading.
    pub persistent: bool,
    /// The first and the last kernel that touch it.
    pub life: (usize, usize),
}

/// A state that a kernel carries from row to row, so that no row's value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Words kept of each pending row, from which a commit walks its path again.
    pub row_words: usize,
    /// The kernel that does, by its place in [`Program::replays`].
    pub replay: usize,
}

/// Where each tensor lies; constants are kept for upload.
pub(super) fn spots(
    graph: &Graph,
    facts: &Facts,
    units: &Units,
    weights: &[Tensor],
    constants: &mut Constants,
) -> Vec<Spot> {
    let place = |id: NodeId| match &graph.node(id).kind {
        NodeKind::Input(input) => {
            let rows = if graph.inputs()[input.index()].per_node { RowsOf::Node } else { RowsOf::Shared };
            Spot::Words(Argument::Input(*input), rows)
        }
        NodeKind::Param(param) => Spot::Weight(Argument::Weight(*param), weights[param.index()].format()),
        NodeKind::Constant(constant) => {
            constants.push(constant.values.clone());
            Spot::Words(Argument::Constant(constants.len() - 1), RowsOf::Shared)
        }
        NodeKind::State(state) => Spot::State(*state),
        NodeKind::Scan(_) => Spot::Nowhere,
        _ if facts.demand[id.index()].is_none() => Spot::Nowhere,
        _ if graph.shape(id).is_none() => Spot::Local,
        _ => Spot::Words(Argument::Buffer(id), units.set_of[id.index()].map_or(RowsOf::Shared, RowsOf::Set)),
    };
    graph.node_ids().map(place).collect()
}

/// Buffers with the kernels that touch them.
pub(super) fn buffers(
    graph: &Graph,
    facts: &Facts,
    units: &Units,
    prologue: &[Kernel],
    kernels: &[Kernel],
    copied: &[NodeId],
) -> Result<Vec<Buffer>, DeviceError> {
    let mut index: HashMap<NodeId, usize> = HashMap::new();
    let mut buffers: Vec<Buffer> = Vec::new();
    let steps = prologue.iter().map(|kernel| (0, kernel)).chain(kernels.iter().enumerate());
    for (step, kernel) in steps {
        for argument in &kernel.arguments {
            let Argument::Buffer(node) = *argument else { continue };
            let place = *index.entry(node).or_insert_with(|| {
                let rows = units.set_of[node.index()].map_or(RowsOf::Shared, RowsOf::Set);
                let persistent =
                    facts.variance[node.index()] == Variance::Constant && !copied.contains(&node);
                let words = elements(graph, node);
                buffers.push(Buffer { node, words, rows, persistent, life: (step, step) });
                buffers.len() - 1
            });
            buffers[place].life.1 = step;
        }
    }
    let last = kernels.len();
    for output in graph.outputs() {
        if let Some(&place) = index.get(&output.node) {
            buffers[place].life.1 = last;
        }
    }
    for state in graph.states() {
        if let Some(&place) = index.get(&state.initial) {
            buffers[place].life = (0, last);
        }
    }
    if let Some(buffer) = buffers.iter().find(|buffer| buffer.words > u32::MAX as usize) {
        let name = &graph.node(buffer.node).origin.name;
        return Err(DeviceError::Unsupported {
            what: format!("`{name}`"),
            why: "it has more elements than memory can hold".into(),
        });
    }
    Ok(buffers)
}
