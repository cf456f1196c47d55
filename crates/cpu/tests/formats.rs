//! Weights stay as they are stored, in any format: looked up by the general kernel, multiplied by the row kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::{Graph, ModelGraph};
use fiddlehead_oracle::{Array, Oracle, OracleSessions, Weight};
use fiddlehead_plan::{Device, LoadOptions, Values, Weights};
use fiddlehead_storage::{Format, Tensor};

const WIDTH: usize = 512;
const ROWS: usize = 9;
const OUTPUTS: usize = 21;

/// A row of a table, through a matrix. Language functions have no weights, so the two inputs become parameters.
fn graph() -> Graph {
    use fiddlehead_graph::builder::GraphBuilder;
    use fiddlehead_graph::{Input, NodeKind, Param};
    let text = "step fn main[V, N, D](token: id, table: f32[V, D], matrix: f32[N, D]) -> f32[N] {
        let x = table[token];
        let scale = max[d in D] abs(x[d]);
        let y = each[d in D] x[d] / (1.0 + scale);
        each[n in N] sum[d in D] matrix[n, d] * y[d]
    }";
    let program = fiddlehead_lang::compile("main.fh", text).unwrap_or_else(|errors| {
        panic!("{}", errors.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join("\n"))
    });
    let sizes =
        [("V", ROWS), ("N", OUTPUTS), ("D", WIDTH)].map(|(name, size)| (name.to_string(), size as i64));
    let lowered = lower_function(&program, "main", &BTreeMap::from(sizes)).expect("lowers");
    let mut builder = GraphBuilder::new("main");
    for node in lowered.nodes() {
        match &node.kind {
            NodeKind::Input(input) => {
                let Input { name, shape, element, .. } = lowered.inputs()[input.index()].clone();
                match name.as_str() {
                    "token" => builder.input(Input { name, shape, element, per_node: true }),
                    _ => builder.param(Param { name, shape, element }),
                }
            }
            kind => builder.node(kind.clone(), node.element, node.origin.clone()),
        };
    }
    builder.output("y", lowered.outputs()[0].node);
    builder.seal().expect("a valid graph")
}

fn tensor(format: Format, rows: usize, seed: usize) -> Tensor {
    let bytes = format.bytes_for_shape(&[rows, WIDTH]).expect("whole blocks");
    let bytes: Vec<u8> = match format {
        // Any bytes are numbers in the other formats, of small scales when no byte is large.
        Format::F32 => (0..bytes / 4).flat_map(|at| ((at * 7 % 13) as f32 - 6.0).to_le_bytes()).collect(),
        _ => (0..bytes).map(|index| ((index + seed) * 37 % 56) as u8).collect(),
    };
    Tensor::new(format, vec![rows, WIDTH], bytes.into()).expect("fits")
}

#[test]
fn every_format_gives_what_its_values_give() {
    let graph = graph();
    for &format in Format::ALL {
        let (table, matrix) = (tensor(format, ROWS, 1), tensor(format, OUTPUTS, 5));
        let values = |tensor: &Tensor| Weight::Float(Arc::from(tensor.to_f32().expect("decodes")));
        let known = [("table".to_string(), values(&table)), ("matrix".to_string(), values(&matrix))];
        let oracle = Oracle::<f64>::new(&graph, &known.into_iter().collect()).expect("resolves");
        let tokens: Vec<u32> = (0..20).map(|node| node * 5 % ROWS as u32).collect();
        let forest = Forest::single_chain(SessionId(0), 0, tokens.len()).expect("a chain");
        let expected =
            oracle.run(&forest, &[Array::ids(&tokens)], &OracleSessions::default()).expect("no trap");

        let weights = Weights::from([("table".to_string(), table), ("matrix".to_string(), matrix)]);
        let stored: usize = weights.values().map(|tensor| tensor.bytes().len()).sum();
        let model = ModelGraph { name: "formats".into(), steps: vec![graph.clone()] };
        for family in ["auto", "off"] {
            let options =
                LoadOptions { dispatch: [("all".into(), family.into())].into(), ..LoadOptions::default() };
            let device = CpuDevice::new(2);
            let mut executor = device.load(Arc::new(model.clone()), weights.clone(), options).expect("loads");
            assert_eq!((executor.memory().weights, executor.memory().mirrors), (stored, 0), "{format}");
            let kernel =
                executor.explain(0).expect("a step").steps.iter().any(|step| step.family == "contraction");
            let refusals = executor.explain(0).expect("a step").refusals;
            assert_eq!(kernel, family == "auto", "{format}: {refusals:?}");
            executor.open(SessionId(0)).expect("a new session");
            let found = executor.run(0, &forest, &[Values::Id(tokens.clone())]).expect("runs");
            let found = found[0].values.as_f32().expect("floats");
            for node in 0..tokens.len() {
                let expected = expected.output(node, 0).expect("wanted").to_f64s();
                let scale = expected.iter().fold(1e-30, |most: f64, value| most.max(value.abs()));
                for (found, expected) in found[node * OUTPUTS..].iter().zip(&expected) {
                    let error = (*found as f64 - expected).abs();
                    assert!(error <= 1e-4 * scale, "{format}, {family}, node {node}: {found} for {expected}");
                }
            }
        }
    }
}
