//! A minimal executor: every node of a graph by its block program, over one session's chain of rows.

use std::ops::Range as Rows;

use fiddlehead_cpu::bytecode::*;
use fiddlehead_cpu::features::Isa;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::*;
use fiddlehead_oracle::{Array, Data, Oracle, Weight, Weights};

/// How a row's work is divided into runs.
#[derive(Clone, Copy, PartialEq)]
pub enum Parts {
    Whole,
    /// At most this many values of the outermost axis a run.
    Of(usize),
}

/// The words of every node with a fixed shape: `[rows, elements]`.
pub struct Memory {
    pub words: Vec<Vec<u32>>,
    pub sizes: Vec<usize>,
}

impl Memory {
    pub fn row(&self, node: NodeId, row: usize) -> &[u32] {
        let size = self.sizes[node.index()];
        &self.words[node.index()][row * size..(row + 1) * size]
    }
}

struct Chain<'a> {
    graph: &'a Graph,
    memory: *const Memory,
}

// SAFETY: used on one thread.
unsafe impl Sync for Chain<'_> {}

impl HistoryRows for Chain<'_> {
    fn span(&self, history: HistoryId, row: usize, depth: i32) -> Option<Span<'_>> {
        let node = self.graph.histories()[history.index()].row;
        // SAFETY: the memory outlives the run, and rows of histories come earlier in the graph than their readers.
        let memory = unsafe { &*self.memory };
        let (size, all) = (memory.sizes[node.index()], &memory.words[node.index()]);
        // A row that every node shares is held once.
        let stride = if all.len() == size { 0 } else { size };
        let words = &all[..row * stride + size];
        // SAFETY: words as floats of the same bits.
        let values = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<f32>(), words.len()) };
        // Two spans, so that programs meet the seam.
        let cut = (row as i32 + 1) / 2;
        let (first, end) = if depth < cut { (0, cut) } else { (cut, row as i32 + 1) };
        Some(Span { first, count: end - first, stride, values: &values[first as usize * stride..] })
    }
}

pub fn words_of(data: &Data<f32>) -> Vec<u32> {
    match data {
        Data::Float(values) => values.iter().map(|value| value.to_bits()).collect(),
        Data::Weight(values) => values.iter().map(|value| value.to_bits()).collect(),
        Data::Int(values) => values.iter().map(|value| *value as u32).collect(),
        Data::Id(values) => values.to_vec(),
        Data::Bool(values) => values.iter().map(|value| u32::from(*value)).collect(),
    }
}

/// Runs the graph over `rows` rows of one fresh session.
pub fn run(
    graph: &Graph,
    weights: &Weights,
    inputs: &[Array<f32>],
    rows: usize,
    isa: Isa,
    parts: Parts,
) -> Result<Memory, Trap> {
    let nodes: Vec<NodeId> = graph.node_ids().collect();
    let is_local = |node: NodeId| graph.shape(node).is_none();
    let size = |node: NodeId| graph.shape(node).map_or(0, |shape| shape.iter().product::<usize>());
    let shared = |node: NodeId| match graph.node(node).kind {
        NodeKind::Input(id) => !graph.inputs()[id.index()].per_node,
        NodeKind::Param(_) | NodeKind::Constant(_) => true,
        _ => false,
    };
    let layout = |node: NodeId| match graph.shape(node) {
        Some(shape) => SourceLayout::row_major(node.index(), &shape, !shared(node)),
        None => SourceLayout::local(node.index(), true),
    };
    let sizes: Vec<usize> = nodes.iter().map(|&node| size(node)).collect();
    // A signalling pattern that no result should keep.
    let mut memory =
        Memory { words: sizes.iter().map(|size| vec![0x7fa5_a5a5; size * rows]).collect(), sizes };
    let mut programs = Vec::new();
    for &node in &nodes {
        let words = &mut memory.words[node.index()];
        match &graph.node(node).kind {
            NodeKind::Input(id) => *words = words_of(inputs[id.index()].data()),
            NodeKind::Param(id) => {
                *words = match &weights[&graph.params()[id.index()].name] {
                    Weight::Float(values) => values.iter().map(|value| value.to_bits()).collect(),
                    Weight::Int(values) => values.iter().map(|value| *value as u32).collect(),
                }
            }
            NodeKind::Constant(constant) => *words = constant.values.iter().map(|v| v.to_bits()).collect(),
            _ => {}
        }
        programs.push(match graph.node(node).kind {
            NodeKind::Compute(_) | NodeKind::Top { .. } => {
                Some(BlockProgram::compile(graph, node, &layout).expect("a valid node compiles"))
            }
            _ => None,
        });
    }
    let here: Vec<i32> = (0..rows as i32).collect();
    let empty = LocalRow { words: std::ptr::null_mut(), shape: LocalBox::default() };
    let mut boxes = vec![vec![empty; rows]; nodes.len()];
    let mut local_words: Vec<Vec<u32>> = Vec::new();
    let mut scratch = Scratch::with_isa(isa);
    for row in 0..rows {
        for &node in &nodes {
            let place = node.index();
            if let NodeKind::State(id) = graph.node(node).kind {
                let state = &graph.states()[id.index()];
                let from = if row == 0 { state.initial } else { state.next };
                let words = memory.row(from, row.saturating_sub(1)).to_vec();
                let size = memory.sizes[place];
                memory.words[place][row * size..(row + 1) * size].copy_from_slice(&words);
                continue;
            }
            let Some(program) = &programs[place] else { continue };
            let pointers: Vec<(*mut u32, usize)> =
                memory.words.iter_mut().map(|words| (words.as_mut_ptr(), words.len())).collect();
            let slots = |boxes: &[Vec<LocalRow>]| -> Vec<Slot<'static>> {
                nodes
                    .iter()
                    .map(|&node| {
                        let (words, length) = pointers[node.index()];
                        if is_local(node) {
                            let rows: &[LocalRow] = &boxes[node.index()];
                            // SAFETY: boxes live until the run ends, and change only between runs.
                            unsafe { Slot::local(std::slice::from_raw_parts(rows.as_ptr(), rows.len())) }
                        } else {
                            // SAFETY: the memory lives until the run ends; one thread.
                            unsafe { Slot::words(words, length, memory.sizes[node.index()]) }
                        }
                    })
                    .collect()
            };
            let chain = Chain { graph, memory: &raw const memory };
            if program.is_local() {
                let slots = slots(&boxes);
                let frame = Frame { slots: &slots, here: &here, histories: &chain };
                let shape = program.local_box(&frame, row, &mut scratch)?;
                local_words.push(vec![0x7fa5_a5a5; shape.elements()]);
                let words = local_words.last_mut().expect("just pushed").as_mut_ptr();
                boxes[place][row] = LocalRow { words, shape };
            }
            let slots = slots(&boxes);
            let frame = Frame { slots: &slots, here: &here, histories: &chain };
            for part in cuts(program.outer(), parts) {
                program.run(&frame, row..row + 1, part, &mut scratch)?;
            }
        }
    }
    Ok(memory)
}

fn cuts(outer: Option<Outer>, parts: Parts) -> Vec<Option<Rows<usize>>> {
    let (Some(outer), Parts::Of(most)) = (outer, parts) else { return vec![None] };
    let step = most.div_ceil(outer.multiple) * outer.multiple;
    let starts = (0..outer.extent).step_by(step);
    starts.map(|first| Some(first..(first + step).min(outer.extent))).collect()
}

/// What the reference gives for the graph's outputs: `[output][row]`.
pub fn expected(
    graph: &Graph,
    weights: &Weights,
    inputs: &[Array<f32>],
    rows: usize,
) -> Result<Vec<Vec<Data<f32>>>, String> {
    let oracle = Oracle::<f32>::new(graph, weights).expect("a valid graph");
    let forest = Forest::single_chain(SessionId(0), 0, rows).expect("a chain");
    let run = oracle.run(&forest, inputs, &Default::default()).map_err(|error| error.to_string())?;
    let outputs = 0..graph.outputs().len();
    Ok(outputs
        .map(|output| (0..rows).map(|row| run.output(row, output).expect("wanted").data().clone()).collect())
        .collect())
}

/// Asserts that every output equals the reference: in its bits when `tolerance` is zero (any NaN equals any), within
/// `tolerance * (1 + |x|)` otherwise; for every family of instructions and several ways to divide the work.
pub fn compare(graph: &Graph, weights: &Weights, inputs: &[Array<f32>], rows: usize, tolerance: f32) {
    let expected = expected(graph, weights, inputs, rows).expect("no trap");
    for isa in fiddlehead_cpu::features::Features::detect().usable() {
        let mut first: Option<Memory> = None;
        for parts in [Parts::Whole, Parts::Of(1), Parts::Of(3), Parts::Of(64)] {
            let memory = run(graph, weights, inputs, rows, isa, parts).expect("no trap");
            for (output, expected) in graph.outputs().iter().zip(&expected) {
                for (row, expected) in expected.iter().enumerate() {
                    let found = memory.row(output.node, row);
                    let float = matches!(expected, Data::Float(_) | Data::Weight(_));
                    for (at, (&found, expected)) in found.iter().zip(words_of(expected)).enumerate() {
                        let (x, y) = (f32::from_bits(found), f32::from_bits(expected));
                        let close = (x - y).abs() <= tolerance * (1.0 + y.abs());
                        // The sign of zero of a minimum is free.
                        let equal = found == expected || float && (x == y || x.is_nan() && y.is_nan());
                        assert!(
                            equal || float && tolerance > 0.0 && close,
                            "{}, row {row}, element {at}: {x} ({found:#x}), not {y} ({expected:#x}), {isa:?}",
                            output.name
                        );
                    }
                }
            }
            match &first {
                None => first = Some(memory),
                Some(first) => {
                    for output in graph.outputs() {
                        for row in 0..rows {
                            assert_eq!(memory.row(output.node, row), first.row(output.node, row));
                        }
                    }
                }
            }
        }
    }
}

pub fn axis(axis: usize) -> Expr {
    Expr::Axis(axis)
}
pub fn int(value: i64) -> Expr {
    Expr::Int(value)
}
pub fn load(node: NodeId, indices: &[Expr]) -> Expr {
    Expr::load(node, indices.to_vec())
}
pub fn op(op: Binary, a: Expr, b: Expr) -> Expr {
    Expr::binary(op, a, b)
}
pub fn fixed(shape: &[usize]) -> Vec<Range> {
    shape.iter().map(|&extent| Range::Fixed(extent)).collect()
}
pub fn between(start: Expr, end: Expr) -> Range {
    Range::Between { start, end, inclusive: false, bound: None }
}
pub fn path() -> Range {
    between(int(0), op(Binary::Add, Expr::Here, int(1)))
}

pub fn input(builder: &mut GraphBuilder, shape: &[usize], element: Element, per_node: bool) -> NodeId {
    let name = format!("input{}", builder.graph().inputs().len());
    builder.input(Input { name, shape: shape.to_vec(), element, per_node })
}

pub fn tensor(
    builder: &mut GraphBuilder,
    element: Element,
    axes: Vec<Range>,
    fold: Option<(FoldKind, Vec<Range>)>,
    body: Expr,
) -> NodeId {
    guarded(builder, element, axes, fold, None, body)
}

pub fn guarded(
    builder: &mut GraphBuilder,
    element: Element,
    axes: Vec<Range>,
    fold: Option<(FoldKind, Vec<Range>)>,
    guard: Option<Expr>,
    body: Expr,
) -> NodeId {
    let fold = fold.map(|(kind, axes)| Fold { kind, axes });
    let compute = Compute { axes, fold, guard, body, permissions: Permissions::default() };
    builder.compute(compute, element, Origin::default())
}

/// Adds a tensor and makes it an output.
pub fn output(
    builder: &mut GraphBuilder,
    element: Element,
    axes: Vec<Range>,
    fold: Option<(FoldKind, Vec<Range>)>,
    body: Expr,
) -> NodeId {
    let node = tensor(builder, element, axes, fold, body);
    builder.output(format!("output{}", builder.graph().outputs().len()), node);
    node
}

/// Words that look random: floats in [-2, 2), integers in -range..range.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }
    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next() as f32 / (1u32 << 29) as f32 - 2.0).collect()
    }
    pub fn ints(&mut self, count: usize, range: i32) -> Vec<i32> {
        (0..count).map(|_| (self.next() % (2 * range as u32)) as i32 - range).collect()
    }
    pub fn float_array(&mut self, shape: &[usize]) -> Array<f32> {
        let values = self.floats(shape.iter().product());
        Array::new(shape, Data::Float(values)).expect("sizes fit")
    }
}
