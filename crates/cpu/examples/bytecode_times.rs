//! Times of block programs for the chains, norms and windows of a small model, per row on one thread:
//! `cargo run --release -p fiddlehead-cpu --example bytecode_times [plain|avx2|avx512]`.

use std::time::Instant;

use fiddlehead_cpu::bytecode::*;
use fiddlehead_cpu::features::{Features, Isa};
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::*;

/// Rows a run; the times below are per row.
const ROWS: usize = 64;

fn axis(axis: usize) -> Expr {
    Expr::Axis(axis)
}
fn int(value: usize) -> Expr {
    Expr::Int(value as i64)
}
fn load(node: NodeId, indices: &[Expr]) -> Expr {
    Expr::load(node, indices.to_vec())
}
fn mul(a: Expr, b: Expr) -> Expr {
    Expr::binary(Binary::Multiply, a, b)
}
fn add(a: Expr, b: Expr) -> Expr {
    Expr::binary(Binary::Add, a, b)
}

struct Bench {
    builder: GraphBuilder,
    timed: Vec<(String, Vec<NodeId>)>,
}

impl Bench {
    fn input(&mut self, shape: &[usize], per_node: bool) -> NodeId {
        let name = format!("input{}", self.builder.graph().inputs().len());
        self.builder.input(Input { name, shape: shape.to_vec(), element: Element::F32, per_node })
    }
    fn node(&mut self, axes: &[usize], fold: Option<(FoldKind, &[usize])>, body: Expr) -> NodeId {
        let fixed = |axes: &[usize]| axes.iter().map(|&n| Range::Fixed(n)).collect::<Vec<_>>();
        let element = match &fold {
            Some((FoldKind::ArgMax, _)) => Element::Id,
            _ => Element::F32,
        };
        let fold = fold.map(|(kind, axes)| Fold { kind, axes: fixed(axes) });
        let compute =
            Compute { axes: fixed(axes), fold, guard: None, body, permissions: Permissions::default() };
        self.builder.compute(compute, element, Origin::default())
    }
    fn time(&mut self, name: &str, nodes: &[NodeId]) {
        self.timed.push((name.to_string(), nodes.to_vec()));
    }
}

struct Ring {
    rows: Vec<f32>,
    size: usize,
}
impl HistoryRows for Ring {
    fn span(&self, _: HistoryId, row: usize, _: i32) -> Option<Span<'_>> {
        Some(Span { first: 0, count: row as i32 + 1, stride: self.size, values: &self.rows })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let isa = match std::env::args().nth(1).as_deref() {
        Some("plain") => Isa::Plain,
        Some("avx2") => Isa::Avx2,
        _ => Features::detect().isa,
    };
    let mut bench = Bench { builder: GraphBuilder::new("times"), timed: Vec::new() };
    let b = &mut bench;

    let (x, w) = (b.input(&[256], true), b.input(&[256], false));
    let square = mul(load(x, &[axis(0)]), load(x, &[axis(0)]));
    let sum = b.node(&[], Some((FoldKind::Sum, &[256])), square);
    let mean = mul(load(sum, &[]), Expr::Float(1.0 / 256.0));
    let scale = Expr::unary(Unary::Rsqrt, add(mean, Expr::Float(1e-6)));
    let norm = b.node(&[256], None, mul(mul(load(x, &[axis(0)]), scale), load(w, &[axis(0)])));
    b.time("rms norm of 256", &[sum, norm]);

    let (gate, up) = (b.input(&[768], true), b.input(&[768], true));
    let body = mul(Expr::unary(Unary::Silu, load(gate, &[axis(0)])), load(up, &[axis(0)]));
    let gated = b.node(&[768], None, body);
    b.time("silu(gate) * up of 768", &[gated]);

    let (c, taps) = (b.input(&[1024], true), b.input(&[1024, 4], false));
    let xs = b.builder.history("xs", c);
    let depth = add(Expr::binary(Binary::Subtract, Expr::Here, int(3)), axis(1));
    let past = Expr::History { history: xs, depth: Box::new(depth), indices: vec![axis(0)] };
    let product = mul(load(taps, &[axis(0), axis(1)]), past);
    let conv = b.node(&[1024], Some((FoldKind::Sum, &[4])), product);
    let silu = b.node(&[1024], None, Expr::unary(Unary::Silu, load(conv, &[axis(0)])));
    b.time("causal convolution of 1024 x 4, silu", &[conv, silu]);
    b.time("  the convolution alone", &[conv]);

    let q = b.input(&[16, 32], true);
    let at = || load(q, &[axis(0), axis(1)]);
    let sums = b.node(&[16], Some((FoldKind::Sum, &[32])), mul(at(), at()));
    let scale = Expr::unary(Unary::Rsqrt, add(load(sums, &[axis(0)]), Expr::Float(1e-6)));
    let l2 = b.node(&[16, 32], None, mul(at(), scale));
    b.time("l2 norms of 16 x 32", &[sums, l2]);

    let (heads, frequencies) = (b.input(&[8, 64], true), b.input(&[16], false));
    let at = |index: Expr| load(heads, &[axis(0), index]);
    let position = Expr::unary(Unary::ToFloat, Expr::Here);
    let table = |f| Expr::unary(f, mul(position.clone(), load(frequencies, &[axis(0)])));
    let cos = b.node(&[16], None, table(Unary::Cos));
    let sin = b.node(&[16], None, table(Unary::Sin));
    let less = |n: usize| Expr::binary(Binary::Less, axis(1), int(n));
    let back = || Expr::binary(Binary::Subtract, axis(1), int(16));
    let first = Expr::binary(
        Binary::Subtract,
        mul(at(axis(1)), load(cos, &[axis(1)])),
        mul(at(add(axis(1), int(16))), load(sin, &[axis(1)])),
    );
    let second = add(mul(at(axis(1)), load(cos, &[back()])), mul(at(back()), load(sin, &[back()])));
    let rotated = Expr::select(less(16), first, Expr::select(less(32), second, at(axis(1))));
    let rotary = b.node(&[8, 64], None, rotated);
    b.time("rotary embedding of 8 x 64, 32 rotated", &[cos, sin, rotary]);

    let logits = b.input(&[4096], true);
    let at = || load(logits, &[axis(0)]);
    let most = b.node(&[], Some((FoldKind::Max, &[4096])), at());
    let shifted = Expr::binary(Binary::Subtract, at(), load(most, &[]));
    let powers = b.node(&[4096], None, Expr::unary(Unary::Exp, shifted));
    let total = b.node(&[], Some((FoldKind::Sum, &[4096])), load(powers, &[axis(0)]));
    let body = Expr::binary(Binary::Divide, load(powers, &[axis(0)]), load(total, &[]));
    let shares = b.node(&[4096], None, body);
    b.time("softmax of 4096", &[most, powers, total, shares]);
    let best = b.node(&[], Some((FoldKind::ArgMax, &[4096])), at());
    b.time("arg-max of 4096", &[best]);

    let (p, r) = (b.input(&[256], true), b.input(&[256], true));
    let residual = b.node(&[256], None, add(load(p, &[axis(0)]), load(r, &[axis(0)])));
    b.time("residual sum of 256", &[residual]);
    let matrix = b.input(&[256, 256], false);
    let product = mul(load(matrix, &[axis(0), axis(1)]), load(p, &[axis(1)]));
    let projected = b.node(&[256], Some((FoldKind::Sum, &[256])), product);
    b.time("matrix of 256 x 256 times vector, as the fallback", &[projected]);

    let Bench { builder, timed } = bench;
    let graph = builder.seal()?;
    let shape = |node: NodeId| graph.shape(node).unwrap_or_default();
    let shared = |node: NodeId| match graph.node(node).kind {
        NodeKind::Input(id) => !graph.inputs()[id.index()].per_node,
        _ => false,
    };
    let layout = |node: NodeId| SourceLayout::row_major(node.index(), &shape(node), !shared(node));
    let mut memory: Vec<Vec<f32>> = graph
        .node_ids()
        .map(|node| {
            let size = shape(node).iter().product::<usize>() * ROWS;
            (0..size).map(|at| ((at * 7919) % 2001) as f32 / 1000.0 - 1.0).collect()
        })
        .collect();
    let slots: Vec<Slot<'_>> = memory
        .iter_mut()
        .map(|words| {
            let size = words.len() / ROWS;
            // SAFETY: the memory outlives the runs, which happen one after the other.
            unsafe { Slot::words(words.as_mut_ptr().cast(), words.len(), size) }
        })
        .collect();
    let here: Vec<i32> = (0..ROWS as i32).collect();
    let ring = Ring { rows: (0..ROWS * 1024).map(|at| (at % 17) as f32 * 0.1).collect(), size: 1024 };
    let frame = Frame { slots: &slots, here: &here, histories: &ring };
    let mut scratch = Scratch::with_isa(isa);
    println!("{isa:?}; microseconds a row, in runs of {ROWS} rows and of one");
    for (name, nodes) in timed {
        let start = Instant::now();
        let programs = nodes
            .iter()
            .map(|&node| BlockProgram::compile(&graph, node, &layout))
            .collect::<Result<Vec<_>, _>>()?;
        let compile = start.elapsed().as_secs_f64() * 1e6;
        let mut best = [f64::INFINITY; 2];
        for _ in 0..60 {
            let start = Instant::now();
            for program in &programs {
                program.run(&frame, 0..ROWS, None, &mut scratch)?;
            }
            best[0] = best[0].min(start.elapsed().as_secs_f64() * 1e6 / ROWS as f64);
            let start = Instant::now();
            for row in 0..ROWS {
                for program in &programs {
                    program.run(&frame, row..row + 1, None, &mut scratch)?;
                }
            }
            best[1] = best[1].min(start.elapsed().as_secs_f64() * 1e6 / ROWS as f64);
        }
        let guess: f64 = programs.iter().map(|program| program.cost() / 1000.0).sum();
        println!("{:8.3} {:8.3}  {name} (guess {guess:.2}, compiled in {compile:.0})", best[0], best[1]);
    }
    Ok(())
}
