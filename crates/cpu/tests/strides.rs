//! Matrix products whose operands lie in memory in any order: served by the strided kernel, right to f64, and the same
//! bits for a row whatever is computed beside it.

use std::collections::BTreeMap;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_plan::{Device, LoadOptions, Numerics, Values, Weights};
use fiddlehead_storage::Tensor;
use std::sync::Arc;

fn normals(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next() + next()).collect()
}

fn lower(text: &str, sizes: &[(&str, usize)]) -> fiddlehead_graph::Graph {
    let program = fiddlehead_lang::compile("main.fh", text).unwrap_or_else(|errors| {
        panic!("{}", errors.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join("\n"))
    });
    let sizes: BTreeMap<String, i64> =
        sizes.iter().map(|(name, size)| (name.to_string(), *size as i64)).collect();
    lower_function(&program, "main", &sizes).expect("lowers")
}

/// An element of an operand or of the result: by batch, row, column or length.
type Place = fn(&Sizes, usize, usize, usize) -> usize;

struct Sizes {
    b: usize,
    m: usize,
    n: usize,
    k: usize,
}

/// A program over `x`, `y` and the places of `x[b, m, k]`, `y[b, k, n]` and the result's `[b, m, n]`.
const PROGRAMS: &[(&str, &str, Place, Place, Place)] = &[
    (
        "a b",
        "fn main[M, N, K](x: f32[M, K], y: f32[K, N]) -> f32[M, N] =
            each[m in M, n in N] sum[k in K] x[m, k] * y[k, n];",
        |s, _, m, k| m * s.k + k,
        |s, _, k, n| k * s.n + n,
        |s, _, m, n| m * s.n + n,
    ),
    (
        "a' b",
        "fn main[M, N, K](x: f32[K, M], y: f32[K, N]) -> f32[M, N] =
            each[m in M, n in N] sum[k in K] x[k, m] * y[k, n];",
        |s, _, m, k| k * s.m + m,
        |s, _, k, n| k * s.n + n,
        |s, _, m, n| m * s.n + n,
    ),
    (
        "a' b', halved",
        "fn main[M, N, K](x: f32[K, M], y: f32[N, K]) -> f32[M, N] =
            each[m in M, n in N] 0.5 * (sum[k in K] x[k, m] * y[n, k]);",
        |s, _, m, k| k * s.m + m,
        |s, _, k, n| n * s.k + k,
        |s, _, m, n| m * s.n + n,
    ),
    (
        "(a b)'",
        "fn main[M, N, K](x: f32[M, K], y: f32[K, N]) -> f32[N, M] =
            each[n in N, m in M] sum[k in K] x[m, k] * y[k, n];",
        |s, _, m, k| m * s.k + k,
        |s, _, k, n| k * s.n + n,
        |s, _, m, n| n * s.m + m,
    ),
    (
        "a batch of a b",
        "fn main[B, M, N, K](x: f32[B, M, K], y: f32[K, B, N]) -> f32[B, M, N] =
            each[b in B, m in M, n in N] sum[k in K] x[b, m, k] * y[k, b, n];",
        |s, b, m, k| (b * s.m + m) * s.k + k,
        |s, b, k, n| (k * s.b + b) * s.n + n,
        |s, b, m, n| (b * s.m + m) * s.n + n,
    ),
];

#[test]
fn products_in_any_order_equal_the_float64_sum() {
    let device = CpuDevice::new(2);
    for (name, text, left, right, result) in PROGRAMS {
        for (m, n, k) in [(7, 33, 19), (1, 130, 65), (40, 5, 127), (64, 64, 64), (13, 301, 257)] {
            let b = if text.contains("[B") { 3 } else { 1 };
            let sizes = Sizes { b, m, n, k };
            let mut names = vec![("M", m), ("N", n), ("K", k)];
            names.extend((b > 1).then_some(("B", b)));
            let graph = lower(text, &names);
            let (x, y) = (normals(b * m * k, 3), normals(b * k * n, 5));
            let options = LoadOptions { numerics: Numerics::F32, ..LoadOptions::default() };
            let report = device.explain(&graph, &options).expect("explains");
            let served = report.steps.iter().any(|step| step.candidate == "strided");
            // A single row read along its length may be a plain row product.
            assert!(served || m == 1, "{name} {m}x{n}x{k}: {:?}, {:?}", report.steps, report.refusals);
            let inputs = [Values::F32(x.clone()), Values::F32(y.clone())];
            let found = device.call(&graph, &inputs, &options).expect("runs").swap_remove(0);
            let found = found.as_f32().expect("floats");
            let factor = if name.contains("halved") { 0.5 } else { 1.0 };
            for b in 0..sizes.b {
                for row in 0..m {
                    for column in 0..n {
                        let product = |k: usize| {
                            f64::from(x[left(&sizes, b, row, k)]) * f64::from(y[right(&sizes, b, k, column)])
                        };
                        let (sum, size) = (0..k).fold((0.0, 0.0), |(sum, size), k| {
                            (sum + product(k) * factor, size + product(k).abs())
                        });
                        let got = f64::from(found[result(&sizes, b, row, column)]);
                        assert!(
                            (got - sum).abs() <= 2e-6 * size,
                            "{name} {m}x{n}x{k} [{b}, {row}, {column}]: {got} for {sum}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn small_products_are_left_to_others() {
    let device = CpuDevice::new(1);
    let graph = lower(PROGRAMS[0].1, &[("M", 4), ("N", 4), ("K", 4)]);
    let report = device.explain(&graph, &LoadOptions::default()).expect("explains");
    assert!(report.steps.iter().all(|step| step.candidate != "strided"), "{:?}", report.steps);
}

#[test]
fn a_nodes_bits_do_not_depend_on_the_nodes_beside_it() {
    use fiddlehead_graph::builder::GraphBuilder;
    use fiddlehead_graph::{Input, NodeKind, Param};
    // A weight that is read across its rows, and a product of two values of the node.
    let text = "step fn main[N, K](x: f32[K], w: f32[K, N]) -> (f32[N], f32[N, N]) {
        let y = each[n in N] sum[k in K] x[k] * w[k, n];
        let z = each[n in N, k in K] y[n] * x[k];
        (y, each[n in N, m in N] sum[k in K] z[n, k] * z[m, k])
    }";
    let lowered = lower(text, &[("N", 70), ("K", 40)]);
    // Language functions have no weights: the second input becomes one.
    let mut builder = GraphBuilder::new("main");
    for node in lowered.nodes() {
        match &node.kind {
            NodeKind::Input(input) => {
                let Input { name, shape, element, .. } = lowered.inputs()[input.index()].clone();
                match name.as_str() {
                    "x" => builder.input(Input { name, shape, element, per_node: true }),
                    _ => builder.param(Param { name, shape, element }),
                }
            }
            kind => builder.node(kind.clone(), node.element, node.origin.clone()),
        };
    }
    lowered.outputs().iter().for_each(|output| builder.output(output.name.clone(), output.node));
    let graph = builder.seal().expect("a valid graph");
    let weight = Tensor::from_f32(vec![40, 70], normals(40 * 70, 11)).expect("fits");
    let rows = normals(11 * 40, 7);
    let mut expected: Option<Vec<Vec<u32>>> = None;
    for (threads, nodes) in [(1, 11), (2, 11), (2, 1), (2, 4)] {
        let model = ModelGraph { name: "strides".into(), steps: vec![graph.clone()] };
        let options = LoadOptions { numerics: Numerics::F32, ..LoadOptions::default() };
        let weights = Weights::from([("w".to_string(), weight.clone())]);
        let mut executor = CpuDevice::new(threads).load(Arc::new(model), weights, options).expect("loads");
        let report = executor.explain(0).expect("a step");
        let served = report.steps.iter().filter(|step| step.candidate == "strided").count();
        assert_eq!(served, 2, "{:?}, {:?}", report.steps, report.refusals);
        executor.open(SessionId(0)).expect("a new session");
        let mut found: Vec<Vec<u32>> = Vec::new();
        for (part, rows) in rows.chunks(nodes * 40).enumerate() {
            let count = rows.len() / 40;
            let forest = Forest::single_chain(SessionId(0), part * nodes, count).expect("a chain");
            let outputs = executor.run(0, &forest, &[Values::F32(rows.to_vec())]).expect("runs");
            executor.commit(0, &forest.accept_all(0).expect("a chain")).expect("continues");
            for node in 0..count {
                let row = outputs.iter().flat_map(|output| {
                    let values = output.values.as_f32().expect("floats");
                    let length = values.len() / count;
                    values[node * length..][..length].iter().map(|value| value.to_bits())
                });
                found.push(row.collect());
            }
        }
        let expected = expected.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "{threads} threads, {nodes} nodes at a time");
    }
}
