//! Contractions of rows with a stored weight.

use fiddlehead_graph::queries::{Contraction, StridedAxis};
use fiddlehead_graph::{Element, Expr, Graph, NodeId, NodeKind};
use fiddlehead_plan::{DeviceError, DeviceFacts, StepReport, Weights, Work};
use fiddlehead_storage::Format;

use super::extend::Extension;
use super::forms::for_each_point;
use super::{Served, operand_node, within};
use crate::executor::lower::Lowering;
use crate::executor::program::{BufferIndex, Place, Program};
use crate::executor::run::Run;
use crate::executor::view::View;
use crate::features::Isa;
use crate::kernels::contraction::{ContractionScratch, columns_per_task, contract};
use crate::kernels::views::{ActivationRows, OutputRows, ViewError, WeightView};
use fiddlehead_plan::order::{Duty, SetIndex};
use std::ops::Range;

/// One matrix product of a contraction: `result[output + n] = Σ_k activation[input + k] · weight[row + n * step, column + k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Product {
    input: usize,
    output: usize,
    row: usize,
}

/// An axis of a contraction along which only the activation and the result walk; steps in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    extent: usize,
    input: usize,
    output: usize,
}

/// A contraction that the row kernel serves.
#[derive(Clone, Debug)]
pub(in crate::executor) struct ContractSite {
    pub node: NodeId,
    pub activation: NodeId,
    pub weight: NodeId,
    products: Vec<Product>,
    /// An axis of the activation alone, along which every product repeats: more rows of one matrix.
    left: Left,
    /// Rows of the weight in a product, and from one to the next.
    count: usize,
    row_step: usize,
    row_length: usize,
    column: usize,
    columns: usize,
    scale: Option<f32>,
}

/// More products than this for one forest node are left to the general kernel, whose loops cost less than as many calls.
const MOST_PRODUCTS: usize = 64;

impl ContractSite {
    pub(super) fn new(
        graph: &Graph,
        site: &Contraction,
        weights: &Weights,
        extension: &mut Extension,
    ) -> Result<ContractSite, String> {
        let view = site.as_rows_times_weight(graph).map_err(|refusal| refusal.to_string())?;
        if site.guard.is_some() {
            return Err("the row kernel takes no guard".into());
        }
        if view.group.is_some() {
            return Err("the row kernel takes no part chosen by data".into());
        }
        let scale = match &site.scale {
            None => None,
            Some(Expr::Float(value)) => Some(*value as f32),
            Some(_) => return Err("the row kernel takes only a literal factor".into()),
        };
        if graph.node(view.weight).element != Element::F32 || graph.node(site.node).element != Element::F32 {
            return Err("the row kernel takes floats".into());
        }
        let mut outer: Vec<StridedAxis> = view.activation_rows.clone();
        let mut left = Left { extent: 1, input: 0, output: 0 };
        let is_left = |axis: &StridedAxis| view.rows.iter().all(|other| other.axis != axis.axis);
        let longest = outer.iter().copied().filter(is_left).max_by_key(|axis| axis.extent);
        let is_outer = |axis: usize| outer.iter().any(|other| other.axis == axis);
        let mut inner = view.clone();
        inner.rows.retain(|axis| !is_outer(axis.axis));
        let (row, row_step, count) = inner.single_run().ok_or("the weight's rows follow no single step")?;
        let mut stride = 1;
        for axis in inner.rows.iter().rev() {
            if axis.extent != 1 && view.result_strides[axis.axis] != stride {
                return Err("the result is not contiguous along the weight's rows".into());
            }
            stride *= axis.extent;
        }
        let walked = |axis: usize| is_outer(axis) || inner.rows.iter().any(|other| other.axis == axis);
        if (0..view.result_strides.len()).any(|axis| site.axes[axis].extent != 1 && !walked(axis)) {
            return Err("the result repeats along an axis".into());
        }
        if let Some(axis) = longest {
            outer.retain(|other| other.axis != axis.axis);
            left = Left { extent: axis.extent, input: axis.stride, output: view.result_strides[axis.axis] };
        }
        let extents: Vec<usize> = outer.iter().map(|axis| axis.extent).collect();
        if extents.iter().product::<usize>() > MOST_PRODUCTS {
            return Err(format!("more than {MOST_PRODUCTS} products for one node"));
        }
        let mut products = Vec::new();
        for_each_point(&extents, |point| {
            let mut product = Product { input: view.activation_offset, output: 0, row };
            for (axis, &value) in outer.iter().zip(point) {
                product.input += value * axis.stride;
                product.output += value * view.result_strides[axis.axis];
                let rows = view.rows.iter().find(|other| other.axis == axis.axis);
                product.row += value * rows.map_or(0, |rows| rows.stride);
            }
            products.push(product);
        });
        let furthest = products.iter().map(|product| product.input).max().unwrap_or(0);
        let reach = furthest + (left.extent.max(1) - 1) * left.input + view.columns;
        if left.extent == 0 || !within(graph, &view.activation.source, reach) {
            return Err("an index may leave the activation".into());
        }
        if let NodeKind::Param(param) = graph.node(view.weight).kind
            && let Some(tensor) = weights.get(&graph.params()[param.index()].name)
        {
            let whole = |elements: usize| elements.is_multiple_of(tensor.format().block_elements());
            let starts = products
                .iter()
                .all(|product| whole(product.row * view.weight_row_length + view.column_offset));
            if !(starts && whole(row_step * view.weight_row_length) && whole(view.columns)) {
                return Err(format!("the weight's rows cut blocks of {}", tensor.format()));
            }
        }
        Ok(ContractSite {
            node: site.node,
            left,
            activation: operand_node(graph, &view.activation.source, site.node, extension)?,
            weight: view.weight,
            products,
            count,
            row_step: if count > 1 { row_step } else { 1 },
            row_length: view.weight_row_length,
            column: view.column_offset,
            columns: view.columns,
            scale,
        })
    }
}

/// A contraction with its buffers.
#[derive(Debug)]
struct Item {
    site: ContractSite,
    set: Option<SetIndex>,
    activation: BufferIndex,
    weight: BufferIndex,
    output: BufferIndex,
}

/// Contractions that share a launch.
#[derive(Debug)]
pub(in crate::executor) struct ContractStep {
    items: Vec<Item>,
}

pub(super) fn lower(lowering: &mut Lowering<'_>, units: &[usize]) -> Result<ContractStep, DeviceError> {
    let mut items = Vec::new();
    for &unit in units {
        let Duty::Served(index) = lowering.units.units[unit].work else { continue };
        let Served::Contract(site) = lowering.found.served[index.0].clone() else { continue };
        let set = lowering.units.units[unit].set;
        items.push(Item {
            activation: lowering.readable(site.activation, set)?,
            weight: lowering.buffer(site.weight, set)?,
            output: lowering.buffer(site.node, set)?,
            set,
            site,
        });
    }
    Ok(ContractStep { items })
}

/// Some columns of one product: a thread's task.
#[derive(Clone, Copy, Debug)]
pub(in crate::executor) struct ContractTask {
    item: usize,
    product: usize,
    repeat: usize,
    columns: (usize, usize),
}

pub(in crate::executor) fn run(
    run: &mut Run<'_>,
    step: &ContractStep,
    row: Option<usize>,
) -> Result<(), ViewError> {
    let threads = run.pool.threads();
    let mut tasks = std::mem::take(run.tasks);
    tasks.clear();
    let rows_of = |item: &Item| match (item.set, row) {
        (None, _) => 0..1,
        (Some(_), Some(row)) => row..row + 1,
        (Some(set), None) => 0..run.batch.sets[set.0].nodes.len(),
    };
    let work = step.items.iter().map(|item| item.work(run.program, rows_of(item).len()));
    let alone = !run.facts.pays_to_split(work.fold(Work::default(), |sum, work| sum + work));
    for (index, item) in step.items.iter().enumerate() {
        let (site, rows) = (&item.site, rows_of(item).len());
        // One forest node: the activation's own rows are the matrix. Several: the nodes are, once for each of those.
        let (rows, repeats) = match rows {
            0 => continue,
            1 => (site.left.extent, 1),
            rows => (rows, site.left.extent),
        };
        for product in 0..site.products.len() {
            let grain = match alone {
                true => site.count,
                false => {
                    let view = run.view();
                    columns_per_task(&weight_view(&view, item, site.products[product])?, rows, threads)
                }
            };
            for repeat in 0..repeats {
                for start in (0..site.count).step_by(grain.max(1)) {
                    let columns = (start, site.count.min(start + grain));
                    tasks.push(ContractTask { item: index, product, repeat, columns });
                }
            }
        }
    }
    let view = run.view();
    let (isa, scratches) = (run.isa, run.threads);
    let failure = std::sync::Mutex::new(None);
    let one = |task: &ContractTask, thread: usize| {
        // SAFETY: the pool runs no two tasks at once with one thread index, and outside a region there is one thread.
        let scratch = unsafe { scratches.get(thread) };
        let item = &step.items[task.item];
        if let Err(error) = columns(&view, isa, item, *task, rows_of(item), &mut scratch.contraction) {
            failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    };
    if alone || tasks.len() == 1 {
        tasks.iter().for_each(|task| one(task, 0));
    } else {
        run.pool.run(tasks.len(), |task, thread| one(&tasks[task], thread));
    }
    *run.tasks = tasks;
    match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The weight's rows of a product as the kernel sees them.
fn weight_view<'a>(view: &View<'a>, item: &Item, product: Product) -> Result<WeightView<'a>, ViewError> {
    let site = &item.site;
    let (format, bytes): (Format, &'a [u8]) = match view.program.buffers[item.weight].place {
        Place::Weight(param) => {
            let tensor = &view.program.weights[param.index()];
            (tensor.format(), tensor.bytes())
        }
        _ => {
            let words = view.words(item.weight, 0);
            // SAFETY: any word may be read as four bytes; the length in bytes is that of the same memory.
            let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) };
            (Format::F32, bytes)
        }
    };
    let start = format.bytes_for(product.row * site.row_length + site.column)?;
    let stride = format.bytes_for(site.row_step * site.row_length)?;
    WeightView::new(format, bytes.get(start..).unwrap_or_default(), site.count, site.columns, stride)
}

fn columns(
    view: &View<'_>,
    isa: Isa,
    item: &Item,
    task: ContractTask,
    rows: Range<usize>,
    scratch: &mut ContractionScratch,
) -> Result<(), ViewError> {
    let site = &item.site;
    let product = site.products[task.product];
    let weight = weight_view(view, item, product)?;
    let (count, input, output) = match rows.len() {
        1 => (site.left.extent, site.left.input, site.left.output),
        count => (count, view.stride(item.activation), view.stride(item.output)),
    };
    let length = (count - 1) * input + site.columns;
    let start = view.row(item.activation, rows.start);
    let start = start.wrapping_add(product.input + task.repeat * site.left.input);
    // SAFETY: rows of the matrix lie `input` words apart in one tensor; the furthest element that any product reads of a
    // node's row was checked against the tensor's shape.
    let values = unsafe { std::slice::from_raw_parts(start.cast_const().cast::<f32>(), length) };
    let activations = ActivationRows::new(values, count, site.columns, input)?;
    let range = task.columns.0..task.columns.1;
    let start = view.row(item.output, rows.start);
    let start = start.wrapping_add(product.output + task.repeat * site.left.output + range.start);
    let length = (count - 1) * output + range.len();
    // SAFETY: as above; tasks of a launch write disjoint columns, and nobody reads the result in this step. The slice
    // covers other tasks' columns between its rows, which the kernel does not touch.
    let results = unsafe { std::slice::from_raw_parts_mut(start.cast::<f32>(), length) };
    let mut results = OutputRows::new(results, count, range.len(), output.max(range.len()))?;
    contract(isa, &weight, &activations, range.clone(), &mut results, scratch);
    if let Some(scale) = site.scale {
        for row in 0..count {
            for column in 0..range.len() {
                // SAFETY: the elements that this task has just written.
                unsafe { *start.cast::<f32>().wrapping_add(row * output + column) *= scale };
            }
        }
    }
    Ok(())
}

impl Item {
    /// What it takes for some rows.
    fn work(&self, program: &Program, rows: usize) -> Work {
        let site = &self.site;
        let elements = site.products.len() * site.count * site.columns;
        let rows = rows * site.left.extent;
        let format = match program.buffers[self.weight].place {
            Place::Weight(param) => program.weights[param.index()].format(),
            _ => Format::F32,
        };
        let bytes = elements / format.block_elements() * format.block_bytes();
        Work { multiplications: elements * rows, bytes, nanoseconds: 0.0 }
    }
}

impl ContractStep {
    /// What it is, for people.
    pub(in crate::executor) fn reports(
        &self,
        program: &Program,
        rows: usize,
        facts: &DeviceFacts,
    ) -> Vec<StepReport> {
        let merged = self.items.len();
        let report = |item: &Item| {
            let site = &item.site;
            let work = item.work(program, if item.set.is_some() { rows } else { 1 });
            StepReport {
                family: "contraction".into(),
                nodes: vec![program.graph.node(site.node).origin.name.clone()],
                candidate: "rows".into(),
                detail: format!(
                    "{} × [{}, {}], {} bytes of weight, {merged} in one launch",
                    site.products.len(),
                    site.count,
                    site.columns,
                    work.bytes
                ),
                microseconds: facts.best_nanoseconds(work) / 1000.0,
            }
        };
        self.items.iter().map(report).collect()
    }
}
