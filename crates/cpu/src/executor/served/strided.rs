//! Contractions whose operands lie in memory in any strides, such as `a · b` with `b` read across its rows: what the row
//! kernels refuse.

use fiddlehead_graph::queries::Contraction;
use fiddlehead_graph::{Element, Expr, Graph, NodeId, NodeKind};
use fiddlehead_plan::{DeviceError, DeviceFacts, StepReport, Work};
use fiddlehead_storage::Format;

use super::forms::for_each_point;
use super::{operand_node, within};
use crate::executor::lower::{Context, Lowering};
use crate::executor::program::{BufferIndex, Place, Program};
use crate::executor::run::Run;
use crate::executor::view::View;
use crate::kernels::strided::{StridedMatrix, contract_strided};
use crate::kernels::views::{OutputRows, ViewError};
use fiddlehead_plan::order::Extension;
use fiddlehead_plan::order::SetIndex;

/// The candidate's name.
pub(in crate::executor) const NAME: &str = "strided";
/// Fewer multiply-adds than this for one matrix product are left to the general kernel: a call costs about as much.
const LEAST_WORK: usize = 2048;
/// More matrix products than this for one forest node are left to the general kernel.
const MOST_PRODUCTS: usize = 4096;
/// Columns of a thread's task are a multiple of this: whole panels of the kernel.
const PANEL: usize = 64;
/// Multiply-adds that a thread's task has at least: some ten microseconds.
const TASK_WORK: usize = 1 << 20;

/// An axis, or several that walk as one: its extent and the steps of both operands and of the result along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    extent: usize,
    steps: [usize; 3],
}

impl Walk {
    const NONE: Walk = Walk { extent: 1, steps: [0; 3] };

    /// Joins an axis outside of this one when both are one run in everything that walks.
    fn join(self, outer: Walk) -> Option<Walk> {
        if self.extent == 1 {
            return Some(outer);
        }
        let follows = |of: usize| outer.steps[of] == self.steps[of] * self.extent;
        (outer.extent == 1 || (0..3).all(follows))
            .then_some(Walk { extent: self.extent * outer.extent, steps: self.steps })
    }
}

/// `result[m, n] = scale · Σ_k a[m, k] · b[k, n]`, several times at other offsets.
#[derive(Clone, Debug)]
pub(in crate::executor) struct StridedSite {
    pub node: NodeId,
    /// Both operands: what `m` walks, and what `n` walks.
    pub operands: [NodeId; 2],
    rows: Walk,
    columns: Walk,
    folded: Walk,
    /// Offsets of both operands and of the result.
    products: Vec<[usize; 3]>,
    scale: Option<f32>,
}

impl StridedSite {
    pub(super) fn new(
        graph: &Graph,
        site: &Contraction,
        context: Context<'_>,
        extension: &mut Extension,
    ) -> Result<StridedSite, String> {
        if site.guard.is_some() {
            return Err("the strided kernel takes no guard".into());
        }
        let scale = match &site.scale {
            None => None,
            Some(Expr::Float(value)) => Some(*value as f32),
            Some(_) => return Err("the strided kernel takes only a literal factor".into()),
        };
        let floats = |node: NodeId| graph.node(node).element == Element::F32;
        if !site.operands.iter().filter_map(|operand| operand.node()).all(floats) || !floats(site.node) {
            return Err("the strided kernel takes floats".into());
        }
        let rank = graph.shape(site.node).map_or(0, |shape| shape.len());
        let mut result_steps = vec![1; rank];
        for axis in (1..rank).rev() {
            result_steps[axis - 1] = result_steps[axis] * site.axes[axis].extent;
        }
        let mut walks = vec![Walk::NONE; site.axes.len()];
        let mut starts = [0; 3];
        for (of, operand) in site.operands.iter().enumerate() {
            let flat = operand.flat(graph).ok_or("an operand has no fixed shape")?;
            let steps = flat.as_strides().ok_or("an operand's index is not affine")?;
            starts[of] = usize::try_from(flat.constant).map_err(|_| "an index starts below zero")?;
            for (axis, step) in steps {
                walks[axis].steps[of] = usize::try_from(step).map_err(|_| "an operand is read backwards")?;
            }
        }
        for (axis, walk) in walks.iter_mut().enumerate() {
            walk.extent = site.axes[axis].extent;
            walk.steps[2] = result_steps.get(axis).copied().unwrap_or(0);
        }
        if walks.iter().any(|walk| walk.extent == 0) {
            return Err("it is empty".into());
        }
        for (of, operand) in site.operands.iter().enumerate() {
            let reach = walks.iter().map(|walk| (walk.extent - 1) * walk.steps[of]).sum::<usize>();
            if !within(graph, &operand.source, starts[of] + reach + 1) {
                return Err("an index may leave an operand".into());
            }
        }
        let folded = walks[rank..]
            .iter()
            .rev()
            .try_fold(Walk::NONE, |inner, &outer| inner.join(outer))
            .ok_or("the folded axes follow no single step")?;
        let mut result: Vec<Walk> = walks[..rank].iter().copied().filter(|walk| walk.extent > 1).collect();
        // What the columns walk is the second operand.
        let innermost = result.last().copied().unwrap_or(Walk { extent: 1, steps: [0, 1, 1] });
        let swapped = match innermost.steps {
            [0, step, _] if step > 0 => false,
            [step, 0, _] if step > 0 => true,
            _ => return Err("the result's last axis walks both operands or none".into()),
        };
        let order = |walk: Walk| match swapped {
            true => Walk { steps: [walk.steps[1], walk.steps[0], walk.steps[2]], ..walk },
            false => walk,
        };
        result.iter_mut().for_each(|walk| *walk = order(*walk));
        let folded = order(folded);
        let mut columns = order(innermost);
        result.pop();
        while let Some(joined) =
            result.last().filter(|outer| outer.steps[0] == 0).and_then(|&outer| columns.join(outer))
        {
            columns = joined;
            result.pop();
        }
        let left = |walk: &&Walk| walk.steps[1] == 0 && walk.steps[0] > 0;
        let rows = result.iter().filter(left).max_by_key(|walk| walk.extent).copied().unwrap_or(Walk::NONE);
        if let Some(place) = result.iter().position(|walk| *walk == rows) {
            result.remove(place);
        }
        if rows.extent * columns.extent * folded.extent < LEAST_WORK {
            return Err(format!("fewer than {LEAST_WORK} multiply-adds in a product"));
        }
        let extents: Vec<usize> = result.iter().map(|walk| walk.extent).collect();
        if extents.iter().product::<usize>() > MOST_PRODUCTS {
            return Err(format!("more than {MOST_PRODUCTS} products for one node"));
        }
        let start = if swapped { [starts[1], starts[0], 0] } else { starts };
        let mut products = Vec::new();
        for_each_point(&extents, |point| {
            let mut offsets = start;
            for (walk, &value) in result.iter().zip(point) {
                (0..3).for_each(|of| offsets[of] += value * walk.steps[of]);
            }
            products.push(offsets);
        });
        let operands = if swapped {
            [&site.operands[1], &site.operands[0]]
        } else {
            [&site.operands[0], &site.operands[1]]
        };
        for node in operands.iter().filter_map(|operand| operand.node()) {
            if let NodeKind::Param(param) = graph.node(node).kind
                && let Some(tensor) = context.weights.get(&graph.params()[param.index()].name)
                && tensor.format() != Format::F32
            {
                return Err(format!("the strided kernel does not read {}", tensor.format()));
            }
        }
        let mut node = |place: usize| operand_node(graph, &operands[place].source, site.node, extension);
        Ok(StridedSite {
            node: site.node,
            operands: [node(0)?, node(1)?],
            rows,
            columns,
            folded,
            products,
            scale,
        })
    }
}

/// A contraction of any strides with its buffers.
#[derive(Debug)]
pub(in crate::executor) struct StridedStep {
    site: StridedSite,
    set: Option<SetIndex>,
    operands: [BufferIndex; 2],
    output: BufferIndex,
}

pub(super) fn lower(
    lowering: &mut Lowering<'_>,
    site: &StridedSite,
    set: Option<SetIndex>,
) -> Result<StridedStep, DeviceError> {
    let operands = [lowering.buffer(site.operands[0], set)?, lowering.buffer(site.operands[1], set)?];
    Ok(StridedStep { site: site.clone(), set, operands, output: lowering.buffer(site.node, set)? })
}

pub(in crate::executor) fn run(
    run: &mut Run<'_>,
    step: &StridedStep,
    row: Option<usize>,
) -> Result<(), ViewError> {
    let rows = match (step.set, row) {
        (None, _) => 0..1,
        (Some(_), Some(row)) => row..row + 1,
        (Some(set), None) => 0..run.batch.sets[set.0].nodes.len(),
    };
    let site = &step.site;
    let threads = run.pool.threads();
    let work = step.work(rows.len());
    let view = run.view();
    // Nodes with a row each of what one matrix serves are the rows of one product.
    let together = site.rows.extent == 1 && view.stride(step.operands[1]) == 0;
    let (nodes, each_node) = if together { (1, rows.len()) } else { (rows.len(), 1) };
    if rows.is_empty() {
        return Ok(());
    }
    let each = each_node * site.rows.extent * site.columns.extent * site.folded.extent;
    let products = nodes * site.products.len();
    let grain = match products >= threads * 4 || !run.facts.pays_to_split(work) {
        true => site.columns.extent,
        false => {
            let parts = (each / TASK_WORK).clamp(1, threads * 4);
            site.columns.extent.div_ceil(parts).next_multiple_of(PANEL)
        }
    };
    let parts = site.columns.extent.div_ceil(grain);
    let (isa, scratches) = (run.isa, run.threads);
    let failure = std::sync::Mutex::new(None);
    let one = |task: usize, thread: usize| {
        // SAFETY: the pool runs no two tasks at once with one thread index, and outside a region there is one thread.
        let scratch = unsafe { scratches.get(thread) };
        let (product, part) = (task / parts, task % parts);
        let (row, product) = (rows.start + product / site.products.len(), product % site.products.len());
        let columns = part * grain..site.columns.extent.min((part + 1) * grain);
        let nodes = row..row + each_node;
        let done = step.product(&view, nodes, product, columns, |a, b, output| {
            contract_strided(isa, a, b, output, &mut scratch.strided);
        });
        if let Err(error) = done {
            failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    };
    match run.facts.pays_to_split(work) {
        true => run.pool.run(products * parts, one),
        false => (0..products * parts).for_each(|task| one(task, 0)),
    }
    match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

impl StridedStep {
    /// Some columns of one product of a forest node, or of several that have a row of it each.
    fn product(
        &self,
        view: &View<'_>,
        nodes: std::ops::Range<usize>,
        product: usize,
        columns: std::ops::Range<usize>,
        contract: impl FnOnce(&StridedMatrix<'_>, &StridedMatrix<'_>, &mut OutputRows<'_>),
    ) -> Result<(), ViewError> {
        let StridedSite { mut rows, folded, scale, .. } = self.site;
        if nodes.len() > 1 {
            let steps = [view.stride(self.operands[0]), 0, view.stride(self.output)];
            rows = Walk { extent: nodes.len(), steps };
        }
        let [first, second, result] = self.site.products[product];
        let values = |of: usize| self.values(view, self.operands[of], &nodes);
        let (width, own) = (columns.len(), self.site.columns);
        let a = StridedMatrix::new(
            values(0).get(first..).unwrap_or_default(),
            [rows.extent, folded.extent],
            [rows.steps[0], folded.steps[0]],
        )?;
        let b = StridedMatrix::new(
            values(1).get(second + columns.start * own.steps[1]..).unwrap_or_default(),
            [folded.extent, width],
            [folded.steps[1], own.steps[1]],
        )?;
        let start = view.row(self.output, nodes.start).cast::<f32>().wrapping_add(result + columns.start);
        let stride = rows.steps[2];
        // SAFETY: the result's elements of this product and these columns, which no other task writes and nobody reads in
        // this step; between the rows the slice covers others', which the kernel does not touch.
        let output = unsafe { std::slice::from_raw_parts_mut(start, (rows.extent - 1) * stride + width) };
        let mut output = OutputRows::new(output, rows.extent, width, stride.max(width))?;
        contract(&a, &b, &mut output);
        if let Some(scale) = scale {
            for at in 0..rows.extent {
                for column in 0..width {
                    // SAFETY: the elements just written.
                    unsafe { *start.wrapping_add(at * stride + column) *= scale };
                }
            }
        }
        Ok(())
    }

    /// An operand's values from the first to the last of some forest nodes.
    fn values<'a>(&self, view: &View<'a>, buffer: BufferIndex, nodes: &std::ops::Range<usize>) -> &'a [f32] {
        if let Place::Weight(param) = view.program.buffers[buffer].place {
            // Lowering copies a weight that is not aligned, so that this one is.
            return view.program.weights[param.index()].as_f32().unwrap_or_default();
        }
        let words = view.words(buffer, nodes.start);
        let count = words.len() + (nodes.len() - 1) * view.stride(buffer);
        // SAFETY: both are four bytes of plain data, and any bits are a float; the nodes' rows lie that far apart.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), count) }
    }

    fn work(&self, rows: usize) -> Work {
        let StridedSite { rows: own, columns, folded, products, .. } = &self.site;
        let elements = |a: &Walk, b: &Walk| a.extent * b.extent;
        let bytes = 4 * (elements(own, folded) + elements(folded, columns) + elements(own, columns));
        let times = rows * products.len();
        Work {
            multiplications: times * own.extent * columns.extent * folded.extent,
            bytes: times * bytes,
            nanoseconds: 0.0,
        }
    }

    /// What it is, for people.
    pub(in crate::executor) fn report(
        &self,
        program: &Program,
        rows: usize,
        facts: &DeviceFacts,
    ) -> StepReport {
        let StridedSite { node, rows: own, columns, folded, products, .. } = &self.site;
        let work = self.work(if self.set.is_some() { rows } else { 1 });
        StepReport {
            family: "contraction".into(),
            nodes: vec![program.graph.node(*node).origin.name.clone()],
            candidate: NAME.into(),
            detail: format!(
                "{} × [{}, {}] · [{}, {}]",
                products.len(),
                own.extent,
                folded.extent,
                folded.extent,
                columns.extent
            ),
            microseconds: facts.best_nanoseconds(work) / 1000.0,
        }
    }
}
