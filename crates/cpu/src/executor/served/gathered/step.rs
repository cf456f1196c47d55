//! The run of gathered contractions: rows counted and ordered by the part they chose, then one contraction a group.

use std::ops::Range;

use fiddlehead_plan::order::{Duty, SetIndex};
use fiddlehead_plan::{DeviceError, DeviceFacts, StepReport, Work};
use fiddlehead_storage::Format;

use super::super::Served;
use super::{Choices, GatheredSite, Index, Pieces};
use crate::bytecode::{Read, Trap, TrapKind};
use crate::executor::lower::Lowering;
use crate::executor::program::{BufferIndex, Place, Program};
use crate::executor::run::Run;
use crate::executor::threads::ThreadScratch;
use crate::executor::view::View;
use crate::features::Isa;
use crate::kernels::contraction::{ContractionScratch, columns_per_task, contract};
use crate::kernels::views::{ActivationRows, OutputRows, ViewError, WeightView};

/// Rows of one group that a task copies together. A block of them and its results stay in the second-level cache; a weight
/// in blocks is decoded once for as many.
const MOST_ROWS: usize = 128;
/// Tasks for each thread from which on a group's columns are not split: their ends are even enough.
const ENOUGH_TASKS: usize = 8;

/// Why a launch stopped.
pub(in crate::executor) enum Failure {
    /// A number chose no part: the program's fault.
    Trap(Trap),
    /// Memory does not fit: a mistake of lowering.
    View(ViewError),
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Failure {
        Failure::View(error)
    }
}

/// A gathered contraction with its buffers.
#[derive(Debug)]
struct Item {
    site: GatheredSite,
    set: Option<SetIndex>,
    activation: BufferIndex,
    weight: BufferIndex,
    choices: Option<BufferIndex>,
    output: BufferIndex,
}

/// Gathered contractions that share a launch.
#[derive(Debug)]
pub(in crate::executor) struct GatheredStep {
    items: Vec<Item>,
}

pub(in crate::executor) fn lower(
    lowering: &mut Lowering<'_>,
    units: &[usize],
) -> Result<GatheredStep, DeviceError> {
    let mut items = Vec::new();
    for &unit in units {
        let Duty::Served(index) = lowering.units.units[unit].work else { continue };
        let Served::Gathered(site) = lowering.found.served[index.0].clone() else { continue };
        let set = lowering.units.units[unit].set;
        items.push(Item {
            activation: lowering.readable(site.activation, set)?,
            weight: lowering.buffer(site.weight, set)?,
            choices: site.choices.map(|choices| lowering.readable(choices.node, set)).transpose()?,
            output: lowering.buffer(site.node, set)?,
            set,
            site: *site,
        });
    }
    Ok(GatheredStep { items })
}

/// One product of one row.
#[derive(Clone, Copy, Debug, Default)]
struct Pick {
    row: u32,
    product: u32,
}

/// The picks of one part.
#[derive(Clone, Debug)]
struct PartPicks {
    item: usize,
    /// The first row of the weight that they read.
    weight_row: usize,
    /// Their places in [`GatheredPlan::picks`].
    picks: Range<usize>,
}

/// Some columns for some picks of one part: a thread's task.
#[derive(Clone, Debug)]
struct Task {
    item: usize,
    weight_row: usize,
    picks: Range<usize>,
    columns: Range<usize>,
}

/// How the rows of a launch fall into groups; reused from launch to launch.
#[derive(Default)]
pub(in crate::executor) struct GatheredPlan {
    /// By pick in the order of rows: its group.
    groups_of: Vec<u32>,
    /// By group: how many picks, then where the next one goes.
    places: Vec<usize>,
    /// Picks, those of a group together, in the order of rows within it.
    picks: Vec<Pick>,
    parts: Vec<PartPicks>,
    tasks: Vec<Task>,
}

/// Rows of a group side by side, for one thread.
#[derive(Default)]
pub(in crate::executor) struct GatheredScratch {
    inputs: Vec<f32>,
    outputs: Vec<f32>,
}

pub(in crate::executor) fn run(
    run: &mut Run<'_>,
    step: &GatheredStep,
    row: Option<usize>,
) -> Result<(), Failure> {
    let mut plan = std::mem::take(run.gathered);
    let result = launch(run, step, row, &mut plan);
    *run.gathered = plan;
    result
}

fn launch(
    run: &Run<'_>,
    step: &GatheredStep,
    row: Option<usize>,
    plan: &mut GatheredPlan,
) -> Result<(), Failure> {
    let view = run.view();
    plan.picks.clear();
    plan.parts.clear();
    plan.tasks.clear();
    for (index, item) in step.items.iter().enumerate() {
        let rows = match (item.set, row) {
            (None, _) => 0..1,
            (Some(_), Some(row)) => row..row + 1,
            (Some(set), None) => 0..run.batch.sets[set.0].nodes.len(),
        };
        plan.group(&view, index, item, rows).map_err(Failure::Trap)?;
    }
    let alone = !run.facts.pays_to_split(plan.work(&view, step));
    let threads = if alone { 1 } else { run.pool.threads() };
    plan.split(&view, step, threads)?;
    let (isa, scratches) = (run.isa, run.threads);
    let plan = &*plan;
    let failure = std::sync::Mutex::new(None);
    let one = |task: &Task, thread: usize| {
        // SAFETY: the pool runs no two tasks at once with one thread index, and outside a region there is one thread.
        let scratch = unsafe { scratches.get(thread) };
        let item = &step.items[task.item];
        if let Err(error) = compute(&view, isa, item, task, &plan.picks[task.picks.clone()], scratch) {
            failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    };
    if alone || plan.tasks.len() == 1 {
        plan.tasks.iter().for_each(|task| one(task, 0));
    } else {
        run.pool.run(plan.tasks.len(), |task, thread| one(&plan.tasks[task], thread));
    }
    match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

impl GatheredPlan {
    /// Adds the picks of an item's rows, ordered by part.
    fn group(&mut self, view: &View<'_>, index: usize, item: &Item, rows: Range<usize>) -> Result<(), Trap> {
        let site = &item.site;
        let variants = site.starts.len();
        self.groups_of.clear();
        self.places.clear();
        self.places.resize(site.parts * variants, 0);
        for row in rows.clone() {
            let numbers = item.choices.map(|choices| view.words(choices, row));
            for product in &site.products {
                let part = numbers.map_or(Ok(0), |numbers| site.part(numbers[product.choice]));
                let part = part.map_err(|kind| Trap { node: site.node, row, kind })?;
                let group = part * variants + product.start;
                self.places[group] += 1;
                self.groups_of.push(group as u32);
            }
        }
        let mut next = self.picks.len();
        for (group, place) in self.places.iter_mut().enumerate() {
            let count = std::mem::replace(place, next);
            if count > 0 {
                let weight_row = group / variants * site.part_rows + site.starts[group % variants];
                self.parts.push(PartPicks { item: index, weight_row, picks: next..next + count });
            }
            next += count;
        }
        self.picks.resize(next, Pick::default());
        let products = (0..site.products.len() as u32).cycle();
        let rows = rows.flat_map(|row| std::iter::repeat_n(row as u32, site.products.len()));
        for ((&group, product), row) in self.groups_of.iter().zip(products).zip(rows) {
            let place = &mut self.places[group as usize];
            self.picks[*place] = Pick { row, product };
            *place += 1;
        }
        Ok(())
    }

    /// What the launch takes: each part that was chosen is read once.
    fn work(&self, view: &View<'_>, step: &GatheredStep) -> Work {
        let work = |part: &PartPicks| {
            let item = &step.items[part.item];
            item.work(view.program, 1, part.picks.len())
        };
        self.parts.iter().map(work).fold(Work::default(), |sum, work| sum + work)
    }

    fn split(&mut self, view: &View<'_>, step: &GatheredStep, threads: usize) -> Result<(), ViewError> {
        let blocks = self.parts.iter().map(|part| part.picks.len().div_ceil(MOST_ROWS)).sum::<usize>();
        let whole = threads == 1 || blocks >= threads * ENOUGH_TASKS;
        for part in &self.parts {
            let item = &step.items[part.item];
            let count = item.site.count;
            let grain = match whole {
                true => count,
                false => {
                    let weight = weight_view(view, item, part.weight_row)?;
                    columns_per_task(&weight, part.picks.len().min(MOST_ROWS), threads)
                }
            };
            for first in part.picks.clone().step_by(MOST_ROWS) {
                let picks = first..part.picks.end.min(first + MOST_ROWS);
                for start in (0..count).step_by(grain.max(1)) {
                    let columns = start..count.min(start + grain);
                    let (item, weight_row) = (part.item, part.weight_row);
                    self.tasks.push(Task { item, weight_row, picks: picks.clone(), columns });
                }
            }
        }
        Ok(())
    }
}

impl GatheredSite {
    /// The part that a number chooses.
    fn part(&self, word: u32) -> Result<usize, TrapKind> {
        let Some(Choices { index, id, .. }) = self.choices else { return Ok(0) };
        let number = if id { i64::from(word) } else { i64::from(word as i32) };
        match usize::try_from(number) {
            Ok(part) if part < self.parts => Ok(part),
            _ => {
                let Index { axis, extent, factor, constant } = index;
                let index = factor * number + constant;
                Err(TrapKind::Index { what: Read::Node(self.weight), axis, index, low: 0, high: extent })
            }
        }
    }
}

/// The rows of a part as the kernel sees them.
fn weight_view<'a>(view: &View<'a>, item: &Item, row: usize) -> Result<WeightView<'a>, ViewError> {
    let site = &item.site;
    let (format, bytes) = view.stored(item.weight);
    let start = format.bytes_for(row * site.row_length + site.column)?;
    let stride = format.bytes_for(site.row_step * site.row_length)?;
    WeightView::new(format, bytes.get(start..).unwrap_or_default(), site.count, site.columns, stride)
}

/// Computes a task's columns of the results of its picks.
fn compute(
    view: &View<'_>,
    isa: Isa,
    item: &Item,
    task: &Task,
    picks: &[Pick],
    scratch: &mut ThreadScratch,
) -> Result<(), ViewError> {
    let site = &item.site;
    let weight = weight_view(view, item, task.weight_row)?;
    let (columns, width) = (task.columns.clone(), task.columns.len());
    let contraction = &mut scratch.contraction.f32;
    let whole = site.pieces.starts.len() == 1 && site.output_step == 1;
    if let ([pick], true) = (picks, whole) {
        let start = item.result(view, pick, columns.start);
        // SAFETY: a product's results lie together in its row; each product of each row is one pick, and the tasks of a
        // pick write disjoint columns, which nobody reads in this step.
        let results = unsafe { std::slice::from_raw_parts_mut(start, width) };
        // SAFETY: a vector of one piece.
        let vector = unsafe { std::slice::from_raw_parts(item.vector(view, pick), site.columns) };
        rows_times_weight(isa, &weight, (vector, 1), columns, results, contraction)?;
        rescale(results, site.scale);
        return Ok(());
    }
    let GatheredScratch { inputs, outputs } = &mut scratch.gathered;
    inputs.clear();
    inputs.reserve(picks.len() * site.columns);
    for pick in picks {
        // SAFETY: the pieces of every product were checked to lie within a row of the activation.
        unsafe { site.pieces.append(item.vector(view, pick), inputs) };
    }
    if outputs.len() < picks.len() * width {
        outputs.resize(picks.len() * width, 0.0);
    }
    let results = &mut outputs[..picks.len() * width];
    rows_times_weight(isa, &weight, (inputs, picks.len()), columns.clone(), results, contraction)?;
    rescale(results, site.scale);
    for (pick, result) in picks.iter().zip(results.chunks_exact(width)) {
        let start = item.result(view, pick, columns.start);
        for (place, &value) in result.iter().enumerate() {
            // SAFETY: as for a single pick, with results `output_step` apart.
            unsafe { *start.wrapping_add(place * site.output_step) = value };
        }
    }
    Ok(())
}

impl Pieces {
    /// Copies the vector that begins at `start` to the end of `to`.
    ///
    /// # Safety
    /// All pieces lie in memory that may be read.
    unsafe fn append(&self, start: *const f32, to: &mut Vec<f32>) {
        for &piece in &self.starts {
            // SAFETY: the caller's condition.
            let from = unsafe { std::slice::from_raw_parts(start.wrapping_add(piece), self.length) };
            match *from {
                // Calls for a few values would cost more than the values.
                [a] => to.push(a),
                [a, b, c] => to.extend([a, b, c]),
                [a, b, c, d, e] => to.extend([a, b, c, d, e]),
                _ => to.extend_from_slice(from),
            }
        }
    }
}

fn rescale(results: &mut [f32], scale: Option<f32>) {
    if let Some(scale) = scale {
        results.iter_mut().for_each(|result| *result *= scale);
    }
}

/// The rows of one group, side by side, with the part that they chose.
fn rows_times_weight(
    isa: Isa,
    weight: &WeightView<'_>,
    (values, rows): (&[f32], usize),
    columns: Range<usize>,
    results: &mut [f32],
    scratch: &mut ContractionScratch,
) -> Result<(), ViewError> {
    let length = weight.columns();
    let activations = ActivationRows::new(values, rows, length, length)?;
    let mut results = OutputRows::new(results, rows, columns.len(), columns.len())?;
    contract(isa, weight, &activations, columns, &mut results, scratch);
    Ok(())
}

impl Item {
    /// Where the vector of a pick begins.
    fn vector(&self, view: &View<'_>, pick: &Pick) -> *const f32 {
        let product = self.site.products[pick.product as usize];
        view.row(self.activation, pick.row as usize).wrapping_add(product.input).cast_const().cast()
    }
    /// Where the result of a pick with a row of its part goes.
    fn result(&self, view: &View<'_>, pick: &Pick, column: usize) -> *mut f32 {
        let product = self.site.products[pick.product as usize];
        let place = product.output + column * self.site.output_step;
        view.row(self.output, pick.row as usize).wrapping_add(place).cast()
    }
    /// What it takes to read `parts` parts and contract `picks` vectors.
    fn work(&self, program: &Program, parts: usize, picks: usize) -> Work {
        let elements = self.site.count * self.site.columns;
        let format = match program.buffers[self.weight].place {
            Place::Weight(param) => program.weights[param.index()].format(),
            _ => Format::F32,
        };
        let bytes = parts * elements / format.block_elements() * format.block_bytes();
        Work { multiplications: elements * picks, bytes, nanoseconds: 0.0 }
    }
}

impl GatheredStep {
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
            let picks = if item.set.is_some() { rows } else { 1 } * site.products.len();
            let groups = site.parts * site.starts.len();
            let work = item.work(program, picks.min(groups), picks);
            StepReport {
                family: "contraction".into(),
                nodes: vec![program.graph.node(site.node).origin.name.clone()],
                candidate: "groups".into(),
                detail: format!(
                    "{} × [{}, {}] of {} parts, vectors in {} pieces, at most {} bytes of weight, {merged} in one launch",
                    site.products.len(),
                    site.count,
                    site.columns,
                    site.parts,
                    site.pieces.starts.len(),
                    work.bytes
                ),
                microseconds: facts.best_nanoseconds(work) / 1000.0,
            }
        };
        self.items.iter().map(report).collect()
    }
}
