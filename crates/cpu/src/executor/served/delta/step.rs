//! Running a delta rule over a batch: one task for each head of each segment.

use fiddlehead_forest::Class;
use fiddlehead_graph::NodeId;
use fiddlehead_plan::{DeviceError, DeviceFacts, StepReport};

use super::{DecayForm, DeltaSite, Part, commit};
use crate::executor::batch::SegmentRows;
use crate::executor::lower::Lowering;
use crate::executor::program::{BufferIndex, Program};
use crate::executor::run::Run;
use crate::executor::view::View;
use crate::features::Isa;
use crate::kernels::delta::block::{Ancestry, DeltaBlock, MOST_NODES};
use crate::kernels::delta::serial::{delta_chain, delta_step};
use crate::kernels::delta::{Decay, DeltaRows, Scalars};
use crate::kernels::views::{ActivationRows, OutputRows, ViewError};
use fiddlehead_plan::order::SetIndex;

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

pub(in crate::executor::served) fn lower(
    lowering: &mut Lowering<'_>,
    site: &DeltaSite,
) -> Result<DeltaStep, DeviceError> {
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

/// A thread's scratch.
#[derive(Default)]
pub(in crate::executor) struct DeltaScratch {
    /// States along the path from a segment's root, for trees; the state before a block.
    stack: Vec<f32>,
    block: DeltaBlock,
    path: Vec<usize>,
    ends: Vec<u32>,
}

/// Prompts are solved in blocks that end at multiples of this depth, so that their cuts change nothing.
const PROMPT_BLOCK: usize = 64;

pub(in crate::executor) fn run(run: &mut Run<'_>, step: &DeltaStep) -> Result<(), ViewError> {
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
    if run.facts.pays_to_split(step.site.shape.work(nodes)) {
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

/// The operands of one head for some rows.
fn operands<'a>(
    view: &View<'a>,
    step: &DeltaStep,
    head: usize,
    part: SegmentRows,
) -> Result<DeltaRows<'a>, ViewError> {
    let (site, shape) = (&step.site, &step.site.shape);
    let scalars = |buffer: BufferIndex, operand: &Part| {
        let (values, stride) = slice(view, buffer, operand.offsets[head], 1, part);
        Scalars { values, stride }
    };
    Ok(DeltaRows {
        queries: rows(view, step.query, site.query.offsets[head], shape.key_dim, part)?,
        keys: rows(view, step.key, site.key.offsets[head], shape.key_dim, part)?,
        values: rows(view, step.value, site.value.offsets[head], shape.value_dim, part)?,
        decay: match (&site.decay, step.decay) {
            (Some((DecayForm::Factor, operand)), Some(buffer)) => Decay::Factor(scalars(buffer, operand)),
            (Some((DecayForm::Log, operand)), Some(buffer)) => Decay::Log(scalars(buffer, operand)),
            _ => Decay::Keep,
        },
        beta: match (&site.beta, step.beta) {
            (Some(operand), Some(buffer)) => Some(scalars(buffer, operand)),
            _ => None,
        },
    })
}

/// The results of one head for some rows: the first value's address, and a view.
fn results<'a>(
    view: &View<'a>,
    step: &DeltaStep,
    head: usize,
    part: SegmentRows,
) -> Result<(*mut f32, OutputRows<'a>), ViewError> {
    let width = step.site.shape.value_dim;
    let stride = view.stride(step.output);
    let start = view.row(step.output, part.first).wrapping_add(step.site.outputs[head]).cast::<f32>();
    // SAFETY: as for `slice`; each task writes its own head's columns of its own segment, and nobody reads them in this
    // step.
    let values = unsafe { std::slice::from_raw_parts_mut(start, (part.count - 1) * stride + width) };
    Ok((start, OutputRows::new(values, part.count, width, stride.max(width))?))
}

/// One head of one segment.
struct Head<'a, 'b> {
    view: &'b View<'a>,
    isa: Isa,
    step: &'b DeltaStep,
    head: usize,
    segment: SegmentRows,
    committed: &'b [f32],
    next: &'b mut [f32],
    scratch: &'b mut DeltaScratch,
}

fn head(
    view: &View<'_>,
    isa: Isa,
    step: &DeltaStep,
    segment_index: usize,
    head: usize,
    scratch: &mut DeltaScratch,
) -> Result<(), ViewError> {
    let shape = &step.site.shape;
    let segment = view.batch.segments[segment_index];
    let size = shape.state_words();
    let carried = view.batch.carried(shape.state.index(), segment_index);
    // SAFETY: the session's committed state and the room for its next one hold every head's state; each task touches its
    // own head's part, and nobody writes the committed one.
    let (committed, next) = unsafe {
        let committed = carried.committed.wrapping_add(shape.states[head]).cast_const().cast::<f32>();
        let next = carried.next.wrapping_add(shape.states[head]).cast::<f32>();
        (std::slice::from_raw_parts(committed, size), std::slice::from_raw_parts_mut(next, size))
    };
    let all = operands(view, step, head, segment)?;
    if segment.count > 1 {
        commit::keep(shape, segment, &all, head, carried.rows);
    }
    let (start, mut outputs) = results(view, step, head, segment)?;
    let mut one = Head { view, isa, step, head, segment, committed, next, scratch };
    if !segment.chain {
        one.tree(&all, &mut outputs);
    } else if step.site.block && (segment.count > 1 || one.is_prompt(0)) {
        one.next.copy_from_slice(one.committed);
        one.blocks()?;
    } else if segment.count == 1 {
        delta_step(isa, shape.layout, &all, 0, one.committed, one.next, &mut outputs);
    } else {
        one.next.copy_from_slice(one.committed);
        delta_chain(isa, shape.layout, &all, one.next, &mut outputs);
    }
    if let Some(scale) = step.site.scale {
        let stride = view.stride(step.output);
        for row in 0..segment.count {
            for column in 0..shape.value_dim {
                // SAFETY: the elements that this task has just written.
                unsafe { *start.wrapping_add(row * stride + column) *= scale };
            }
        }
    }
    Ok(())
}

impl Head<'_, '_> {
    fn is_prompt(&self, node: usize) -> bool {
        self.view.batch.classes[self.segment.first + node] == Class::Prompt
    }

    /// A chain by blocks: prompts up to absolute multiples of 64, drafts as long as a block may be. What a block cannot
    /// solve (a decay of zero) goes the serial way, which depends on the path alone.
    fn blocks(&mut self) -> Result<(), ViewError> {
        let mut done = 0;
        while done < self.segment.count {
            let prompt = self.is_prompt(done);
            let most = match prompt {
                true => PROMPT_BLOCK - (self.segment.base + done) % PROMPT_BLOCK,
                false => MOST_NODES,
            };
            let mut count = 1;
            while count < most && done + count < self.segment.count && self.is_prompt(done + count) == prompt
            {
                count += 1;
            }
            let part = SegmentRows { first: self.segment.first + done, count, ..self.segment };
            let operands = operands(self.view, self.step, self.head, part)?;
            let (_, mut outputs) = results(self.view, self.step, self.head, part)?;
            let (isa, layout) = (self.isa, self.step.site.shape.layout);
            let DeltaScratch { block, path, stack, .. } = &mut *self.scratch;
            // A generated node by itself is a plain step, whatever came before it in its segment.
            let solved = (prompt || count > 1)
                && block
                    .solve(isa, layout, &operands, Ancestry::Chain, Some(self.next), &mut outputs)
                    .is_ok();
            if solved {
                stack.clear();
                stack.extend_from_slice(self.next);
                path.clear();
                path.extend(0..count);
                block.commit(isa, path, Some(stack), self.next);
            } else {
                delta_chain(isa, layout, &operands, self.next, &mut outputs);
            }
            done += count;
        }
        Ok(())
    }

    /// A tree: at once by the block form, or depth first with the states of the current path on a stack.
    fn tree(&mut self, operands: &DeltaRows<'_>, outputs: &mut OutputRows<'_>) {
        let (isa, shape, segment) = (self.isa, &self.step.site.shape, self.segment);
        if self.step.site.block && segment.count <= MOST_NODES {
            let ends = &self.view.batch.ends[segment.first..segment.first + segment.count];
            let DeltaScratch { block, ends: own, .. } = &mut *self.scratch;
            own.clear();
            own.extend(ends.iter().map(|&end| end - segment.first as u32));
            let (tree, state) = (Ancestry::Tree(own), Some(self.committed));
            if block.solve(isa, shape.layout, operands, tree, state, outputs).is_ok() {
                return;
            }
        }
        let size = shape.state_words();
        let here = &self.view.batch.sets[SetIndex::ALL.0].here;
        let nodes = segment.first..segment.first + segment.count;
        let levels = nodes.map(|node| here[node] as usize - segment.base);
        let deepest = levels.clone().max().unwrap_or(0);
        let stack = &mut self.scratch.stack;
        if stack.len() < (deepest + 1) * size {
            stack.resize((deepest + 1) * size, 0.0);
        }
        for (node, level) in levels.enumerate() {
            let (above, own) = stack.split_at_mut(level * size);
            let parent = match level {
                0 => self.committed,
                _ => &above[(level - 1) * size..],
            };
            delta_step(isa, shape.layout, operands, node, parent, &mut own[..size], outputs);
        }
    }
}

impl DeltaStep {
    /// What it is, for people.
    pub(in crate::executor) fn report(
        &self,
        program: &Program,
        rows: usize,
        facts: &DeviceFacts,
    ) -> StepReport {
        let shape = &self.site.shape;
        StepReport {
            family: "recurrence".into(),
            nodes: vec![program.graph.node(self.site.node).origin.name.clone()],
            candidate: if self.site.block { "block" } else { "serial" }.into(),
            detail: format!("{} heads of [{}, {}]", shape.states.len(), shape.key_dim, shape.value_dim),
            microseconds: facts.best_nanoseconds(shape.work(rows)) / 1000.0,
        }
    }
}
