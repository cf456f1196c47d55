//! The delta rule along paths: which recurrences the kernels serve ([`DeltaSite`]), how they run ([`step`]) and what a
//! commit does ([`commit`]).
//!
//! The serial form gives chains, single nodes and trees the same bits. The block form solves prompts by blocks that end at
//! absolute multiples of 64, and drafts at once; it rounds differently, and so must be asked for by name.

mod commit;
mod step;

use fiddlehead_graph::queries::{
    CorrectionReads, Decay, Delta, FeedbackLoop, Operand, Readout, ReadoutOf, Recurrence,
};
use fiddlehead_graph::{Element, Expr, Graph, NodeId, StateId};
use fiddlehead_plan::Work;

use super::forms::{for_each_point, head_offsets, result_offsets};
use super::{operand_node, within};
use crate::kernels::delta::StateLayout;
use fiddlehead_plan::order::Extension;

pub(in crate::executor) use commit::replay;
pub(super) use step::lower;
pub(in crate::executor) use step::{DeltaScratch, DeltaStep, run};

/// An operand of every head: a tensor, and where in a row each head begins.
#[derive(Clone, Debug)]
struct Part {
    node: NodeId,
    offsets: Vec<usize>,
}

/// How the state decays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecayForm {
    Factor,
    Log,
}

/// A delta rule that the kernel serves.
#[derive(Clone, Debug)]
pub(in crate::executor) struct DeltaSite {
    pub state: StateId,
    /// The readout.
    pub node: NodeId,
    pub covers: Vec<NodeId>,
    shape: DeltaShape,
    query: Part,
    key: Part,
    value: Part,
    beta: Option<Part>,
    decay: Option<(DecayForm, Part)>,
    outputs: Vec<usize>,
    scale: Option<f32>,
    /// Whether the block form runs prompts and drafts.
    block: bool,
}

/// What a commit needs to know of a delta rule.
#[derive(Clone, Debug)]
pub(in crate::executor) struct DeltaShape {
    pub state: StateId,
    key_dim: usize,
    value_dim: usize,
    layout: StateLayout,
    /// Where each head's state begins.
    states: Vec<usize>,
    decay: Option<DecayForm>,
    beta: bool,
}

impl DeltaShape {
    /// Words that a node's key, value, decay and beta take for one head.
    fn head_words(&self) -> usize {
        self.key_dim + self.value_dim + 2
    }
    /// Words kept of each pending node, so that a commit can walk the accepted path again.
    pub(in crate::executor) fn row_words(&self) -> usize {
        self.states.len() * self.head_words()
    }
    /// What some nodes take: two passes over the state, each with two multiplications an element that wait for its loads.
    fn work(&self, nodes: usize) -> Work {
        let elements = self.states.len() * self.state_words() * nodes;
        Work {
            multiplications: 8 * elements,
            bytes: 8 * self.states.len() * self.state_words(),
            nanoseconds: 0.0,
        }
    }
    fn state_words(&self) -> usize {
        self.key_dim * self.value_dim
    }
}

impl DeltaSite {
    pub(super) fn new(
        graph: &Graph,
        site: &Recurrence,
        delta: &Delta,
        loops: &[FeedbackLoop],
        block: bool,
        extension: &mut Extension,
    ) -> Result<DeltaSite, String> {
        if !site.other_readers.is_empty() {
            return Err("others read its state at every node".into());
        }
        let [readout] = &delta.readouts[..] else { return Err("the kernel reads the state out once".into()) };
        if readout.of != ReadoutOf::Next
            || delta.reads == CorrectionReads::Incoming && !matches!(delta.decay, Decay::One)
        {
            return Err("the kernel corrects after the decay and reads out the outgoing state".into());
        }
        let scale = match &readout.scale {
            None => None,
            Some(Expr::Float(value)) => Some(*value as f32),
            Some(_) => return Err("the kernel takes only a literal factor".into()),
        };
        let state = &graph.states()[site.state.index()];
        if state.element != Element::F32 {
            return Err("the kernel takes floats".into());
        }
        let mut covers = site.absorbed.clone();
        covers.extend([site.next, readout.node]);
        covers.sort();
        covers.dedup();
        if loops.iter().any(|members| members.nodes.iter().any(|node| covers.binary_search(node).is_ok())) {
            return Err("its operands depend on its own past through other nodes".into());
        }
        let mut part = |operand: &Operand, inner: usize, extents: &[usize], what: &str| {
            let flat = operand.flat(graph).ok_or_else(|| format!("the {what} has no fixed shape"))?;
            let offsets = head_offsets(&flat, &delta.heads, inner, extents)
                .ok_or_else(|| format!("a head of the {what} does not lie in one piece"))?;
            let reach = offsets.iter().max().unwrap_or(&0) + extents.iter().product::<usize>();
            if !within(graph, &operand.source, reach) {
                return Err(format!("an index may leave the {what}"));
            }
            let node = operand_node(graph, &operand.source, site.next, extension)?;
            Ok::<Part, String>(Part { node, offsets })
        };
        let heads = delta.heads.len();
        let keys = [delta.key_dim];
        let decay = match &delta.decay {
            Decay::One => None,
            Decay::Multiplier(operand) => Some((DecayForm::Factor, part(operand, heads, &[], "decay")?)),
            Decay::Exponent(operand) => Some((DecayForm::Log, part(operand, heads, &[], "decay")?)),
        };
        Ok(DeltaSite {
            state: site.state,
            node: readout.node,
            covers,
            shape: DeltaShape {
                state: site.state,
                key_dim: delta.key_dim,
                value_dim: delta.value_dim,
                layout: layout(delta),
                states: state_offsets(&state.shape, delta)
                    .ok_or("a head's state does not lie in one piece")?,
                decay: decay.as_ref().map(|(form, _)| *form),
                beta: delta.beta.is_some(),
            },
            query: part(&readout.query, heads, &keys, "query")?,
            key: part(&delta.key, heads, &keys, "key")?,
            value: part(&delta.value, heads + 1, &[delta.value_dim], "value")?,
            beta: delta.beta.as_ref().map(|beta| part(beta, heads, &[], "beta")).transpose()?,
            decay,
            outputs: outputs(graph, readout, &delta.heads)
                .ok_or("a head of the readout does not lie in one piece")?,
            scale,
            block,
        })
    }

    /// What a commit needs to know.
    pub(super) fn shape(&self) -> &DeltaShape {
        &self.shape
    }

    /// Tensors that it reads.
    pub(super) fn reads(&self) -> Vec<NodeId> {
        let scalars = self.beta.iter().chain(self.decay.iter().map(|(_, part)| part));
        [&self.query, &self.key, &self.value].into_iter().chain(scalars).map(|part| part.node).collect()
    }
}

fn layout(delta: &Delta) -> StateLayout {
    if delta.key_axis < delta.value_axis { StateLayout::KeyMajor } else { StateLayout::ValueMajor }
}

/// Where each head's state begins, when heads are the outer axes.
fn state_offsets(shape: &[usize], delta: &Delta) -> Option<Vec<usize>> {
    let mut axes = delta.head_axes.clone();
    match layout(delta) {
        StateLayout::KeyMajor => axes.extend([delta.key_axis, delta.value_axis]),
        StateLayout::ValueMajor => axes.extend([delta.value_axis, delta.key_axis]),
    }
    result_offsets(shape, &axes, &delta.heads)
}

fn outputs(graph: &Graph, readout: &Readout, heads: &[usize]) -> Option<Vec<usize>> {
    result_offsets(&graph.shape(readout.node)?, &readout.result_axes, heads).filter(|offsets| {
        let mut count = 0;
        for_each_point(heads, |_| count += 1);
        offsets.len() == count
    })
}
