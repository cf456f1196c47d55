//! Contractions of rows with a stored weight: [`site`] says which they are, [`arithmetic`] with which kernel each runs,
//! [`rounded`] holds the activations that kernels read rounded. Here they run: one launch for all that are ready together.

mod arithmetic;
mod rounded;
mod site;

use std::ops::Range;

use fiddlehead_plan::{DeviceError, DeviceFacts, StepReport, Work};
use fiddlehead_storage::Format;

use self::rounded::Matrix;
use self::site::Product;
use super::Served;
use crate::executor::lower::Lowering;
use crate::executor::program::{BufferIndex, Place, Program};
use crate::executor::run::Run;
use crate::executor::view::View;
use crate::features::Features;
use crate::kernels::brain::{BrainError, contract_brain};
use crate::kernels::contraction::{ContractionScratch, columns_per_task, contract};
use crate::kernels::integer::{IntegerError, IntegerScratch, contract_integer};
use crate::kernels::views::{ActivationRows, OutputRows, ViewError, WeightView};
use fiddlehead_plan::order::{Duty, SetIndex};

pub(in crate::executor) use self::arithmetic::Arithmetic;
pub(in crate::executor) use self::rounded::RoundedOperands;
pub(in crate::executor) use self::site::ContractSite;

/// Weight rows that the integer kernel takes at a time.
const LANES: usize = 16;
/// What an f32 product costs beside an integer one.
const INTEGER_SPEED: [usize; 2] = [7, 4];
/// How many activation rows' integer products unpacking a weight costs.
const INTEGER_UNPACKING: usize = 3;

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

/// A launch was given what its kernels do not take: a mistake of lowering, told instead of trusted.
#[derive(Debug, thiserror::Error)]
pub(in crate::executor) enum ContractError {
    /// Memory that does not fit.
    #[error(transparent)]
    View(#[from] ViewError),
    /// A format or a machine without the integer kernel.
    #[error(transparent)]
    Integer(#[from] IntegerError),
    /// A format or a machine without the kernel of bf16.
    #[error(transparent)]
    Brain(#[from] BrainError),
}

/// Some columns of one product: a thread's task.
#[derive(Clone, Copy, Debug)]
pub(in crate::executor) struct ContractTask {
    item: usize,
    product: usize,
    repeat: usize,
    columns: (usize, usize),
    /// The place of its activations among those rounded; none reads f32.
    rounded: Option<usize>,
}

/// Scratch space of one thread.
#[derive(Default)]
pub(in crate::executor) struct ContractScratch {
    /// Of the kernels that read f32 activations.
    pub f32: ContractionScratch,
    integer: IntegerScratch,
}

/// Which rows of an item's set are computed: all, or one of a serial part.
fn rows_of(view: &View<'_>, item: &Item, row: Option<usize>) -> Range<usize> {
    match (item.set, row) {
        (None, _) => 0..1,
        (Some(_), Some(row)) => row..row + 1,
        (Some(set), None) => 0..view.batch.sets[set.0].nodes.len(),
    }
}

pub(in crate::executor) fn run(
    run: &mut Run<'_>,
    step: &ContractStep,
    row: Option<usize>,
) -> Result<(), ContractError> {
    let mut tasks = std::mem::take(run.tasks);
    let mut rounded = std::mem::take(run.rounded);
    tasks.clear();
    rounded.clear();
    let alone = share(run, step, row, &mut tasks, &mut rounded)?;
    // SAFETY: `share` took the matrices from operands of this step, which steps before have written.
    unsafe { rounded.round(run.features, run.pool) };
    let view = &run.view();
    let launch = Launch { view: *view, features: run.features, rounded: &rounded };
    let scratches = run.threads;
    let failure = std::sync::Mutex::new(None);
    let one = |task: &ContractTask, thread: usize| {
        // SAFETY: the pool runs no two tasks at once with one thread index, and outside a region there is one thread.
        let scratch = unsafe { scratches.get(thread) };
        let item = &step.items[task.item];
        if let Err(error) = launch.columns(item, *task, rows_of(view, item, row), &mut scratch.contraction) {
            failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    };
    if alone || tasks.len() == 1 {
        tasks.iter().for_each(|task| one(task, 0));
    } else {
        run.pool.run(tasks.len(), |task, thread| one(&tasks[task], thread));
    }
    *run.tasks = tasks;
    *run.rounded = rounded;
    match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Cuts a launch into tasks and collects the activations to round; whether one thread does it all.
fn share(
    run: &Run<'_>,
    step: &ContractStep,
    row: Option<usize>,
    tasks: &mut Vec<ContractTask>,
    rounded: &mut RoundedOperands,
) -> Result<bool, ViewError> {
    let view = &run.view();
    let threads = run.pool.threads();
    let work = step.items.iter().map(|item| item.work(run.program, rows_of(view, item, row).len()));
    let alone = !run.facts.pays_to_split(work.fold(Work::default(), |sum, work| sum + work));
    for (index, item) in step.items.iter().enumerate() {
        let (site, range) = (&item.site, rows_of(view, item, row));
        // One forest node: the activation's own rows are the matrix. Several: the nodes are, once for each of those.
        let (rows, repeats) = match range.len() {
            0 => continue,
            1 => (site.left.extent, 1),
            rows => (rows, site.left.extent),
        };
        for product in 0..site.products.len() {
            let grain = match alone {
                true => site.count,
                false => {
                    let weight = weight_view(view, item, site.products[product])?;
                    columns_per_task(&weight, rows, threads).next_multiple_of(LANES)
                }
            };
            for repeat in 0..repeats {
                let arithmetic = site.chosen.arithmetic;
                let rounded = (arithmetic != Arithmetic::F32)
                    .then(|| rounded.add(item.matrix(view, product, repeat, &range), arithmetic));
                for start in (0..site.count).step_by(grain.max(1)) {
                    let columns = (start, site.count.min(start + grain));
                    tasks.push(ContractTask { item: index, product, repeat, columns, rounded });
                }
            }
        }
    }
    Ok(alone)
}

/// The weight's rows of a product as the kernel sees them.
fn weight_view<'a>(view: &View<'a>, item: &Item, product: Product) -> Result<WeightView<'a>, ViewError> {
    let site = &item.site;
    let (format, bytes) = view.stored(item.weight);
    let start = format.bytes_for(product.row * site.row_length + site.column)?;
    let stride = format.bytes_for(site.row_step * site.row_length)?;
    WeightView::new(format, bytes.get(start..).unwrap_or_default(), site.count, site.columns, stride)
}

/// What the tasks of a launch share.
struct Launch<'a> {
    view: View<'a>,
    features: Features,
    rounded: &'a RoundedOperands,
}

impl Launch<'_> {
    fn columns(
        &self,
        item: &Item,
        task: ContractTask,
        rows: Range<usize>,
        scratch: &mut ContractScratch,
    ) -> Result<(), ContractError> {
        let (site, features) = (&item.site, self.features);
        let product = site.products[task.product];
        let weight = weight_view(&self.view, item, product)?;
        let matrix = item.matrix(&self.view, task.product, task.repeat, &rows);
        let count = matrix.rows;
        let output = match rows.len() {
            1 => site.left.output,
            _ => self.view.stride(item.output),
        };
        let range = task.columns.0..task.columns.1;
        let start = self.view.row(item.output, rows.start);
        let start = start.wrapping_add(product.output + task.repeat * site.left.output + range.start);
        let length = (count - 1) * output + range.len();
        // SAFETY: the result's rows lie `output` words apart in one tensor; tasks of a launch write disjoint columns, and
        // nobody reads the result in this step. The slice covers other tasks' columns between its rows, which the kernel
        // does not touch.
        let results = unsafe { std::slice::from_raw_parts_mut(start.cast::<f32>(), length) };
        let mut results = OutputRows::new(results, count, range.len(), output.max(range.len()))?;
        match (site.chosen.arithmetic, task.rounded) {
            (Arithmetic::Integer, Some(place)) => {
                let activations = self.rounded.integer(place);
                let scratch = &mut scratch.integer;
                contract_integer(features, &weight, &activations, range.clone(), &mut results, scratch)?;
            }
            (Arithmetic::Brain, Some(place)) => {
                let activations = self.rounded.brain(place);
                contract_brain(features, &weight, &activations, range.clone(), &mut results)?;
            }
            _ => {
                let length = (count - 1) * matrix.stride + site.columns;
                // SAFETY: rows of the matrix lie that many words apart in one tensor; the furthest element that any
                // product reads of a node's row was checked against the tensor's shape.
                let values = unsafe { std::slice::from_raw_parts(matrix.start, length) };
                let activations = ActivationRows::new(values, count, site.columns, matrix.stride)?;
                contract(features.isa, &weight, &activations, range.clone(), &mut results, &mut scratch.f32);
            }
        }
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
}

impl Item {
    /// The activations of one product and repeat over the rows of a run.
    fn matrix(&self, view: &View<'_>, product: usize, repeat: usize, rows: &Range<usize>) -> Matrix {
        let site = &self.site;
        let (count, stride) = match rows.len() {
            1 => (site.left.extent, site.left.input),
            count => (count, view.stride(self.activation)),
        };
        let start = view.row(self.activation, rows.start).cast_const().cast::<f32>();
        let start = start.wrapping_add(site.products[product].input + repeat * site.left.input);
        Matrix { start, rows: count, stride, columns: site.columns }
    }

    /// How the weight is stored.
    fn format(&self, program: &Program) -> Format {
        match program.buffers[self.weight].place {
            Place::Weight(param) => program.weights[param.index()].format(),
            _ => Format::F32,
        }
    }

    /// What it takes for some rows.
    fn work(&self, program: &Program, rows: usize) -> Work {
        let site = &self.site;
        let elements = site.products.len() * site.count * site.columns;
        let rows = rows * site.left.extent;
        let format = self.format(program);
        let bytes = elements / format.block_elements() * format.block_bytes();
        let multiplications = match site.chosen.arithmetic {
            Arithmetic::F32 => elements * rows,
            Arithmetic::Integer => {
                elements * (rows + INTEGER_UNPACKING) * INTEGER_SPEED[1] / INTEGER_SPEED[0]
            }
            Arithmetic::Brain => elements * rows * 3 / 4,
        };
        Work { multiplications, bytes, nanoseconds: 0.0 }
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
            let gate = site.chosen.gate.map(|gate| format!("; {gate}")).unwrap_or_default();
            StepReport {
                family: "contraction".into(),
                nodes: vec![program.graph.node(site.node).origin.name.clone()],
                candidate: site.chosen.arithmetic.name().into(),
                detail: format!(
                    "{} × [{}, {}], {} bytes of {} weight, {merged} in one launch{gate}",
                    site.products.len(),
                    site.count,
                    site.columns,
                    work.bytes,
                    item.format(program),
                ),
                microseconds: facts.best_nanoseconds(work) / 1000.0,
            }
        };
        self.items.iter().map(report).collect()
    }
}
