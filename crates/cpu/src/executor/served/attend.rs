//! Attention over a history's stored rows and a node's ancestors in the batch.

use fiddlehead_graph::queries::{Attention, PathStart, Sites};
use fiddlehead_graph::{Compute, Element, Expr, Graph, HistoryId, NodeId, Permissions, Range};
use fiddlehead_plan::{DeviceError, DeviceFacts, StepReport, Work};

use super::forms::{head_offsets, result_offsets};
use super::{operand_node, within};
use crate::executor::lower::Lowering;
use crate::executor::program::{BufferIndex, Program};
use crate::executor::run::Run;
use crate::executor::view::View;
use crate::features::Isa;
use crate::kernels::attention::{AttentionArguments, HistoryPiece, PieceRows, ScoreTransform, attend};
use crate::kernels::views::{OutputRows, ViewError};
use fiddlehead_plan::order::Extension;
use fiddlehead_plan::order::SetIndex;

/// Query heads that share their keys and values and lie at even distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeadGroup {
    first: usize,
    heads: usize,
    query: usize,
    query_step: usize,
    key: usize,
    value: usize,
    output: usize,
}

/// An attention that the kernel serves.
#[derive(Clone, Debug)]
pub(in crate::executor) struct AttendSite {
    pub node: NodeId,
    pub query: NodeId,
    pub key: HistoryId,
    pub value: HistoryId,
    pub covers: Vec<NodeId>,
    groups: Vec<HeadGroup>,
    key_dim: usize,
    value_dim: usize,
    window: Option<usize>,
    scale: f32,
    /// The tensor of sinks, one a head.
    pub sinks: Option<NodeId>,
}

impl AttendSite {
    pub(super) fn new(
        graph: &Graph,
        site: &Attention,
        sites: &Sites,
        extension: &mut Extension,
    ) -> Result<AttendSite, String> {
        let scale = site.linear_scale.ok_or("the kernel takes only scores that are scaled by a literal")?;
        let mut absorbed_sink = false;
        if let Some(sink) = &site.sink {
            sink.visit(&mut |part| {
                absorbed_sink |= matches!(part, Expr::Load { node, .. } if site.absorbed.contains(node));
            });
        }
        if absorbed_sink {
            return Err("the sink is made of what the kernel leaves out".into());
        }
        let histories = [&site.key, &site.value].map(|operand| match operand.source {
            fiddlehead_graph::queries::Source::History(history) => {
                let depth = operand.depth.as_ref().and_then(|depth| depth.as_axis());
                (depth == Some(site.heads.len())).then_some(history)
            }
            _ => None,
        });
        let [Some(key), Some(value)] = histories else {
            return Err("keys and values are not rows of histories at the depth that is summed over".into());
        };
        if sites.histories[key.index()] != sites.histories[value.index()] {
            return Err("keys and values are kept for different lengths".into());
        }
        let float = |node: NodeId| graph.node(node).element == Element::F32;
        let rows = [key, value].map(|history| graph.histories()[history.index()].row);
        if !rows.iter().all(|&row| float(row)) || !float(site.node) {
            return Err("the kernel takes floats".into());
        }
        let heads = site.heads.len();
        let table =
            |operand: &fiddlehead_graph::queries::Operand, inner: usize, extents: &[usize], what: &str| {
                let flat = operand.flat(graph).ok_or_else(|| format!("the {what} has no fixed shape"))?;
                let offsets = head_offsets(&flat, &site.heads, inner, extents)
                    .ok_or_else(|| format!("a head of the {what} does not lie in one piece"))?;
                let reach = offsets.iter().max().unwrap_or(&0) + extents.iter().product::<usize>();
                match within(graph, &operand.source, reach) {
                    true => Ok(offsets),
                    false => Err(format!("an index may leave the {what}")),
                }
            };
        let inner = heads + 1;
        let queries = table(&site.query, inner, &site.key_dims, "query")?;
        let keys = table(&site.key, inner, &site.key_dims, "key")?;
        let values = table(&site.value, inner + site.key_dims.len(), &site.value_dims, "value")?;
        let shape = graph.shape(site.node).ok_or("the result has no fixed shape")?;
        let outputs = result_offsets(&shape, &site.result_axes, &site.heads)
            .ok_or("a head of the result does not lie in one piece")?;
        let value_dim: usize = site.value_dims.iter().product();
        let sinks = site.sink.as_ref().map(|sink| {
            let compute = Compute {
                axes: site.heads.iter().map(|&extent| Range::Fixed(extent)).collect(),
                fold: None,
                guard: None,
                body: sink.clone(),
                permissions: Permissions::default(),
            };
            extension.add(graph, site.node, &compute)
        });
        let mut covers = site.absorbed.clone();
        covers.push(site.node);
        covers.sort();
        Ok(AttendSite {
            node: site.node,
            query: operand_node(graph, &site.query.source, site.node, extension)?,
            key,
            value,
            covers,
            groups: groups(&queries, &keys, &values, &outputs, value_dim),
            key_dim: site.key_dims.iter().product(),
            value_dim,
            sinks,
            window: match site.start {
                PathStart::Root => None,
                PathStart::Sliding { reach } => Some(reach),
            },
            scale: scale as f32,
        })
    }
}

/// The path that reports count with.
const REPORTED_PATH: usize = 1024;

impl AttendSite {
    /// Rows that a node on a path of that many reads.
    fn reads(&self, path: usize) -> usize {
        self.window.map_or(path, |window| path.min(window))
    }
    /// Multiplications for one row that is read.
    fn row(&self) -> usize {
        self.groups.iter().map(|group| group.heads).sum::<usize>() * (self.key_dim + self.value_dim)
    }
}

/// Collects heads into groups: those with one key and value head whose queries and results lie at even distances.
fn groups(
    queries: &[usize],
    keys: &[usize],
    values: &[usize],
    outputs: &[usize],
    value_dim: usize,
) -> Vec<HeadGroup> {
    let mut groups: Vec<HeadGroup> = Vec::new();
    for head in 0..queries.len() {
        let joined = groups.last_mut().is_some_and(|group| {
            let step = queries[head].checked_sub(group.query + group.query_step * (group.heads - 1));
            let same = group.key == keys[head]
                && group.value == values[head]
                && outputs[head] == group.output + value_dim * group.heads
                && step.is_some_and(|step| group.heads == 1 || step == group.query_step);
            if let (true, Some(step)) = (same, step) {
                group.query_step = step;
                group.heads += 1;
            }
            same
        });
        if !joined {
            groups.push(HeadGroup {
                first: head,
                heads: 1,
                query: queries[head],
                query_step: 0,
                key: keys[head],
                value: values[head],
                output: outputs[head],
            });
        }
    }
    groups
}

/// An attention with its buffers.
#[derive(Debug)]
pub(in crate::executor) struct AttendStep {
    site: AttendSite,
    set: SetIndex,
    query: BufferIndex,
    output: BufferIndex,
    sinks: Option<BufferIndex>,
}

pub(super) fn lower(lowering: &mut Lowering<'_>, site: &AttendSite) -> Result<AttendStep, DeviceError> {
    let set = lowering.units.set_of[site.node.index()]
        .ok_or_else(|| lowering.unsupported(site.node, "an attention reads a path, and this one has none"))?;
    let query = lowering.readable(site.query, Some(set))?;
    let output = lowering.buffer(site.node, Some(set))?;
    let sinks = site.sinks.map(|node| lowering.readable(node, Some(set))).transpose()?;
    Ok(AttendStep { site: site.clone(), set, query, output, sinks })
}

/// Rows of a chain that one task takes: they share each pass over the keys.
const ROW_BLOCK: usize = 8;

/// Consecutive rows of a set that are one chain's.
#[derive(Clone, Copy, Debug)]
pub(in crate::executor) struct RowBlock {
    first: usize,
    count: usize,
}

/// Pieces of a path, reused from task to task.
#[derive(Default)]
pub(in crate::executor) struct AttendScratch {
    pieces: Vec<HistoryPiece<'static>>,
}

pub(in crate::executor) fn run(
    run: &mut Run<'_>,
    step: &AttendStep,
    row: Option<usize>,
) -> Result<(), ViewError> {
    let mut blocks = std::mem::take(run.row_blocks);
    blocks.clear();
    let view = run.view();
    let nodes = &run.batch.sets[step.set.0].nodes;
    // Rows with sinks of their own share no call.
    let most = match step.sinks {
        Some(sinks) if view.stride(sinks) > 0 => 1,
        _ => ROW_BLOCK,
    };
    for row in row.map_or(0..nodes.len(), |row| row..row + 1) {
        let node = nodes[row] as usize;
        let segment = run.batch.segment_of[node];
        let joins = blocks.last_mut().filter(|block: &&mut RowBlock| {
            let last = nodes[block.first + block.count - 1] as usize;
            last + 1 == node
                && run.batch.segment_of[last] == segment
                && run.batch.segments[segment as usize].chain
                && block.first + block.count == row
                && block.count < most
        });
        match joins {
            Some(block) => block.count += 1,
            None => blocks.push(RowBlock { first: row, count: 1 }),
        }
    }
    let groups = step.site.groups.len();
    let (isa, threads) = (run.isa, run.threads);
    let failure = std::sync::Mutex::new(None);
    let one = |task: usize, thread: usize| {
        // SAFETY: the pool runs no two tasks at once with one thread index, and outside a region there is one thread.
        let scratch = unsafe { threads.get(thread) };
        let (block, group) = (blocks[task / groups], step.site.groups[task % groups]);
        if let Err(error) = attend_block(&view, isa, step, block, group, &mut scratch.attention) {
            failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    };
    let tasks = blocks.len() * groups;
    if run.facts.pays_to_split(work(&view, step, &blocks)) {
        run.pool.run(tasks, one);
    } else {
        (0..tasks).for_each(|task| one(task, 0));
    }
    *run.row_blocks = blocks;
    match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Multiplications of queries with keys and of weights with values.
fn work(view: &View<'_>, step: &AttendStep, blocks: &[RowBlock]) -> Work {
    let here = &view.batch.sets[step.set.0].here;
    let read = |block: &RowBlock| step.site.reads(here[block.first] as usize + 1) * block.count;
    let reads: usize = blocks.iter().map(read).sum();
    Work { multiplications: reads * step.site.row(), ..Work::default() }
}

fn attend_block(
    view: &View<'_>,
    isa: Isa,
    step: &AttendStep,
    block: RowBlock,
    group: HeadGroup,
    scratch: &mut AttendScratch,
) -> Result<(), ViewError> {
    let site = &step.site;
    let set = &view.batch.sets[step.set.0];
    let depth = set.here[block.first] as usize;
    let lowest = site.window.map_or(0, |window| (depth + 1).saturating_sub(window));
    let mut pieces = recycle(std::mem::take(&mut scratch.pieces));
    let last = set.nodes[block.first + block.count - 1] as usize;
    let until = depth + block.count;
    let segment = view.batch.segment_of[last] as usize;
    let first_key_depth = gather(view, site, group, last, segment, lowest..until, &mut pieces);
    let query_stride = view.stride(step.query);
    let length = (block.count - 1) * query_stride + (group.heads - 1) * group.query_step + site.key_dim;
    let start = view.row(step.query, block.first).wrapping_add(group.query).cast_const().cast::<f32>();
    // SAFETY: the rows of the query lie `query_stride` words apart, and each holds the group's heads from its offset on.
    let queries = unsafe { std::slice::from_raw_parts(start, length) };
    let width = group.heads * site.value_dim;
    let output_stride = view.stride(step.output);
    let start = view.row(step.output, block.first).wrapping_add(group.output).cast::<f32>();
    // SAFETY: as above; each task writes its own group's columns of its own rows, and nobody reads them in this step.
    let results = unsafe { std::slice::from_raw_parts_mut(start, (block.count - 1) * output_stride + width) };
    let mut outputs = OutputRows::new(results, block.count, width, output_stride.max(width))?;
    let sinks = step.sinks.map(|buffer| {
        let words = &view.words(buffer, block.first)[group.first..group.first + group.heads];
        // SAFETY: an f32 has the size and the alignment of a word, and any bits are one.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<f32>(), words.len()) }
    });
    let arguments = AttentionArguments {
        queries,
        query_rows: block.count,
        query_row_stride: query_stride,
        heads: group.heads,
        query_head_stride: group.query_step,
        key_dim: site.key_dim,
        value_dim: site.value_dim,
        history: &pieces,
        first_key_depth,
        first_query_depth: depth,
        window: site.window,
        transform: ScoreTransform::Scale(site.scale),
        sinks,
    };
    attend(isa, &arguments, &mut outputs);
    scratch.pieces = recycle(pieces);
    Ok(())
}

/// Collects the rows of a node's path at `depths`; gives the depth of the first.
fn gather<'a>(
    view: &View<'a>,
    site: &AttendSite,
    group: HeadGroup,
    node: usize,
    segment: usize,
    depths: std::ops::Range<usize>,
    pieces: &mut Vec<HistoryPiece<'a>>,
) -> usize {
    let (keys, values) =
        (view.batch.page_shapes[site.key.index()], view.batch.page_shapes[site.value.index()]);
    let mut depth = depths.start;
    while depth < depths.end {
        let (place, follow) = view.batch.place(node, depth);
        let within = place % keys.page_rows;
        let count = follow.min(keys.page_rows - within).min(depths.end - depth);
        let key = view.batch.history_row(site.key.index(), segment, place);
        let value = view.batch.history_row(site.value.index(), segment, place);
        let (Some(key), Some(value)) = (key, value) else {
            // A window's rows are kept as long as it can reach; the kernel refuses a history that ends early.
            break;
        };
        let slice = |start: *mut u32, offset: usize, words: usize| {
            // SAFETY: `count` rows lie one after another in a page from there on; their rows were written by steps
            // before, and pages live as long as the run.
            unsafe {
                let start = start.cast_const().cast::<f32>().add(offset);
                std::slice::from_raw_parts(start, count * words - offset)
            }
        };
        pieces.push(HistoryPiece {
            keys: slice(key, group.key, keys.row_words),
            key_stride: keys.row_words,
            values: slice(value, group.value, values.row_words),
            value_stride: values.row_words,
            rows: PieceRows::Run { first: 0, count },
        });
        depth += count;
    }
    depths.start
}

/// The same allocation for pieces of another lifetime.
fn recycle<'b>(mut pieces: Vec<HistoryPiece<'_>>) -> Vec<HistoryPiece<'b>> {
    const NOTHING: HistoryPiece<'static> = HistoryPiece {
        keys: &[],
        key_stride: 0,
        values: &[],
        value_stride: 0,
        rows: PieceRows::Run { first: 0, count: 0 },
    };
    pieces.clear();
    pieces.into_iter().map(|_| NOTHING).collect()
}

impl AttendStep {
    /// What it is, for people.
    pub(in crate::executor) fn report(
        &self,
        program: &Program,
        rows: usize,
        facts: &DeviceFacts,
    ) -> StepReport {
        let site = &self.site;
        let multiplications = site.reads(REPORTED_PATH) * site.row() * rows;
        let bytes = site.reads(REPORTED_PATH) * site.groups.len() * (site.key_dim + site.value_dim) * 4;
        StepReport {
            family: "attention".into(),
            nodes: vec![program.graph.node(site.node).origin.name.clone()],
            candidate: "pages".into(),
            detail: format!(
                "{} groups of {} heads, keys of {}, values of {}{}{}, on a path of {REPORTED_PATH}",
                site.groups.len(),
                site.groups.first().map_or(0, |group| group.heads),
                site.key_dim,
                site.value_dim,
                site.window.map_or(String::new(), |window| format!(", the last {window} rows")),
                if site.sinks.is_some() { ", a sink a head" } else { "" }
            ),
            microseconds: facts.best_nanoseconds(Work { multiplications, bytes, nanoseconds: 0.0 }) / 1000.0,
        }
    }
}
