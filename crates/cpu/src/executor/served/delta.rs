//! The delta rule along paths: chains, single nodes and trees, all by the serial form, so that all give the same bits.

use fiddlehead_graph::queries::{
    CorrectionReads, Decay, Delta, FeedbackLoop, Operand, Readout, ReadoutOf, Recurrence,
};
use fiddlehead_graph::{Element, Expr, Graph, NodeId, StateId};
use fiddlehead_plan::{DeviceError, StepReport};

use super::extend::Extension;
use super::forms::{for_each_point, head_offsets, result_offsets};
use super::operand_node;
use crate::executor::batch::SegmentRows;
use crate::executor::lower::Lowering;
use crate::executor::program::{BufferIndex, Program};
use crate::executor::run::Run;
use crate::executor::unit::SetIndex;
use crate::executor::view::View;
use crate::features::Isa;
use crate::kernels::delta::serial::{delta_chain, delta_step};
use crate::kernels::delta::{self as kernel, DeltaRows, Scalars, StateLayout};
use crate::kernels::views::{ActivationRows, OutputRows, ViewError};

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

/// A delta rule with its buffers.
#[derive(Debug)]
pub(in crate::executor) struct DeltaStep {
    site: DeltaSite,
    query: BufferIndex,
    key: BufferIndex,
    value: BufferIndex,
    beta: Option<BufferIndex>,
    decay: Option<BufferIndex>,
    output: BufferIndex,
    initial: BufferIndex,
}

pub(super) fn lower(lowering: &mut Lowering<'_>, site: &DeltaSite) -> Result<DeltaStep, DeviceError> {
    let node = lowering.program.graph.states()[site.state.index()].initial;
    let initial = lowering.readable(node, None)?;
    let mut buffer = |node: NodeId| lowering.readable(node, Some(SetIndex::ALL));
    Ok(DeltaStep {
        initial,
        query: buffer(site.query.node)?,
        key: buffer(site.key.node)?,
        value: buffer(site.value.node)?,
        beta: site.beta.as_ref().map(|part| buffer(part.node)).transpose()?,
        decay: site.decay.as_ref().map(|(_, part)| buffer(part.node)).transpose()?,
        output: buffer(site.node)?,
        site: site.clone(),
    })
}

/// States along the path from a segment's root, for trees.
#[derive(Default)]
pub(in crate::executor) struct DeltaScratch {
    stack: Vec<f32>,
}

pub(in crate::executor) fn run(run: &mut Run<'_>, step: &DeltaStep) -> Result<(), ViewError> {
    const WORTH_SPLITTING: usize = 16 * 1024;
    let view = run.view();
    let heads = step.site.shape.states.len();
    let segments = view.batch.segments.len();
    let nodes = view.batch.parents.len();
    let (isa, threads) = (run.isa, run.threads);
    for (index, _) in view.batch.segments.iter().enumerate().filter(|(_, segment)| segment.base == 0) {
        let words = view.program.buffers[step.initial].elements;
        view.copy(step.initial, 0, view.batch.carried(step.site.state.index(), index).committed, words);
    }
    let failure = std::sync::Mutex::new(None);
    let one = |task: usize, thread: usize| {
        // SAFETY: the pool runs no two tasks at once with one thread index, and outside a region there is one thread.
        let scratch = unsafe { threads.get(thread) };
        if let Err(error) = head(&view, isa, step, task / heads, task % heads, &mut scratch.delta) {
            failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    };
    if nodes * heads * step.site.shape.state_words() > WORTH_SPLITTING {
        run.pool.run(segments * heads, one);
    } else {
        (0..segments * heads).for_each(|task| one(task, 0));
    }
    match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The rows of a segment of one operand of one head.
fn rows<'a>(
    view: &View<'a>,
    buffer: BufferIndex,
    offset: usize,
    columns: usize,
    segment: SegmentRows,
) -> Result<ActivationRows<'a>, ViewError> {
    let (values, stride) = slice(view, buffer, offset, columns, segment);
    ActivationRows::new(values, segment.count, columns, stride)
}

fn slice<'a>(
    view: &View<'a>,
    buffer: BufferIndex,
    offset: usize,
    columns: usize,
    segment: SegmentRows,
) -> (&'a [f32], usize) {
    let stride = view.stride(buffer);
    let start = view.row(buffer, segment.first).wrapping_add(offset).cast_const().cast::<f32>();
    // SAFETY: the segment's rows lie `stride` words apart, each holding the operand's columns from its offset on; steps
    // before have written them.
    (unsafe { std::slice::from_raw_parts(start, (segment.count - 1) * stride + columns) }, stride)
}

fn head(
    view: &View<'_>,
    isa: Isa,
    step: &DeltaStep,
    segment_index: usize,
    head: usize,
    scratch: &mut DeltaScratch,
) -> Result<(), ViewError> {
    let (site, shape) = (&step.site, &step.site.shape);
    let segment = view.batch.segments[segment_index];
    let scalars = |buffer: BufferIndex, part: &Part| {
        let (values, stride) = slice(view, buffer, part.offsets[head], 1, segment);
        Scalars { values, stride }
    };
    let operands = DeltaRows {
        queries: rows(view, step.query, site.query.offsets[head], shape.key_dim, segment)?,
        keys: rows(view, step.key, site.key.offsets[head], shape.key_dim, segment)?,
        values: rows(view, step.value, site.value.offsets[head], shape.value_dim, segment)?,
        decay: match (&site.decay, step.decay) {
            (Some((DecayForm::Factor, part)), Some(buffer)) => kernel::Decay::Factor(scalars(buffer, part)),
            (Some((DecayForm::Log, part)), Some(buffer)) => kernel::Decay::Log(scalars(buffer, part)),
            _ => kernel::Decay::Keep,
        },
        beta: match (&site.beta, step.beta) {
            (Some(part), Some(buffer)) => Some(scalars(buffer, part)),
            _ => None,
        },
    };
    let stride = view.stride(step.output);
    let start = view.row(step.output, segment.first).wrapping_add(site.outputs[head]).cast::<f32>();
    let length = (segment.count - 1) * stride + shape.value_dim;
    // SAFETY: as for `slice`; each task writes its own head's columns of its own segment.
    let results = unsafe { std::slice::from_raw_parts_mut(start, length) };
    let mut outputs = OutputRows::new(results, segment.count, shape.value_dim, stride.max(shape.value_dim))?;
    let size = shape.state_words();
    let carried = view.batch.carried(shape.state.index(), segment_index);
    // SAFETY: the session's committed state and the room for its next one hold every head's state; each task touches its
    // own head's part, and nobody writes the committed one.
    let (committed, next) = unsafe {
        let committed = carried.committed.wrapping_add(shape.states[head]).cast_const().cast::<f32>();
        let next = carried.next.wrapping_add(shape.states[head]).cast::<f32>();
        (std::slice::from_raw_parts(committed, size), std::slice::from_raw_parts_mut(next, size))
    };
    if segment.count == 1 {
        delta_step(isa, shape.layout, &operands, 0, committed, next, &mut outputs);
    } else if segment.chain {
        next.copy_from_slice(committed);
        delta_chain(isa, shape.layout, &operands, next, &mut outputs);
    } else {
        walk(view, isa, shape, segment, &operands, committed, scratch, &mut outputs);
    }
    if segment.count > 1 {
        keep(shape, segment, &operands, head, carried.rows);
    }
    if let Some(scale) = site.scale {
        for row in 0..segment.count {
            for column in 0..shape.value_dim {
                // SAFETY: the elements that this task has just written.
                unsafe { *start.wrapping_add(row * stride + column) *= scale };
            }
        }
    }
    Ok(())
}

/// A tree depth first, the states of the current path on a stack.
#[allow(clippy::too_many_arguments)]
fn walk(
    view: &View<'_>,
    isa: Isa,
    shape: &DeltaShape,
    segment: SegmentRows,
    operands: &DeltaRows<'_>,
    committed: &[f32],
    scratch: &mut DeltaScratch,
    outputs: &mut OutputRows<'_>,
) {
    let size = shape.state_words();
    let here = &view.batch.sets[SetIndex::ALL.0].here;
    let levels =
        (segment.first..segment.first + segment.count).map(|node| here[node] as usize - segment.base);
    let deepest = levels.clone().max().unwrap_or(0);
    if scratch.stack.len() < (deepest + 1) * size {
        scratch.stack.resize((deepest + 1) * size, 0.0);
    }
    for (node, level) in levels.enumerate() {
        let (above, own) = scratch.stack.split_at_mut(level * size);
        let parent = match level {
            0 => committed,
            _ => &above[(level - 1) * size..],
        };
        delta_step(isa, shape.layout, operands, node, parent, &mut own[..size], outputs);
    }
}

/// Keeps what a commit needs of each node.
fn keep(shape: &DeltaShape, segment: SegmentRows, operands: &DeltaRows<'_>, head: usize, kept: *mut u32) {
    let (keys, values) = (shape.key_dim, shape.value_dim);
    for node in 0..segment.count {
        let start = node * shape.row_words() + head * shape.head_words();
        // SAFETY: the session made room for the rows of the segment's nodes; each task writes its own head's part.
        unsafe {
            let to = kept.add(start).cast::<f32>();
            std::ptr::copy_nonoverlapping(operands.keys.row(node), to, keys);
            std::ptr::copy_nonoverlapping(operands.values.row(node), to.add(keys), values);
            *to.add(keys + values) = match &operands.decay {
                kernel::Decay::Keep => 0.0,
                kernel::Decay::Log(scalars) | kernel::Decay::Factor(scalars) => {
                    scalars.values[node * scalars.stride]
                }
            };
            *to.add(keys + values + 1) =
                operands.beta.as_ref().map_or(1.0, |scalars| scalars.values[node * scalars.stride]);
        }
    }
}

/// Walks an accepted path again, from the committed state, over the rows that were kept. The bits are those of the run.
pub(in crate::executor) fn replay(
    isa: Isa,
    shape: &DeltaShape,
    kept: &[u32],
    path: impl Iterator<Item = usize> + Clone,
    state: &mut [u32],
) -> Result<(), ViewError> {
    let kept = floats(kept);
    let mut unread = vec![0.0; shape.value_dim];
    let (keys, values) = (shape.key_dim, shape.value_dim);
    for (head, &start) in shape.states.iter().enumerate() {
        // SAFETY: any word is an f32; the state is borrowed exclusively.
        let state = unsafe {
            let state = &mut state[start..start + shape.state_words()];
            std::slice::from_raw_parts_mut(state.as_mut_ptr().cast::<f32>(), state.len())
        };
        for node in path.clone() {
            let row = &kept[node * shape.row_words() + head * shape.head_words()..][..shape.head_words()];
            let scalar = |at: usize| Scalars { values: &row[at..at + 1], stride: 1 };
            let key = ActivationRows::new(&row[..keys], 1, keys, keys)?;
            let operands = DeltaRows {
                queries: key,
                keys: key,
                values: ActivationRows::new(&row[keys..keys + values], 1, values, values)?,
                decay: match shape.decay {
                    None => kernel::Decay::Keep,
                    Some(DecayForm::Factor) => kernel::Decay::Factor(scalar(keys + values)),
                    Some(DecayForm::Log) => kernel::Decay::Log(scalar(keys + values)),
                },
                beta: shape.beta.then(|| scalar(keys + values + 1)),
            };
            let mut outputs = OutputRows::new(&mut unread, 1, values, values)?;
            delta_chain(isa, shape.layout, &operands, state, &mut outputs);
        }
    }
    Ok(())
}

fn floats(words: &[u32]) -> &[f32] {
    // SAFETY: any word is an f32.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
}

impl DeltaStep {
    /// What it is, for people.
    pub(in crate::executor) fn report(&self, program: &Program, rows: usize) -> StepReport {
        let shape = &self.site.shape;
        let work = shape.states.len() * shape.state_words() * rows;
        StepReport {
            family: "recurrence".into(),
            nodes: vec![program.graph.node(self.site.node).origin.name.clone()],
            candidate: "serial".into(),
            detail: format!("{} heads of [{}, {}]", shape.states.len(), shape.key_dim, shape.value_dim),
            microseconds: work as f64 / 12_000.0,
        }
    }
}
