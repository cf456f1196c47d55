//! Contractions with parts of a weight that data choose: as in the oracle, with the same bits whoever shares a batch, and the
//! same trap as the general kernel where a number chooses no part.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_gate::case::{bits, options, to_f64s, values};
use fiddlehead_graph::lower::{ModelBindings, lower_function, lower_model};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_graph::{Element, Graph, Input, ModelGraph};
use fiddlehead_oracle::{Array, Oracle, OracleSessions, Weight};
use fiddlehead_plan::{Device, DeviceError, Executor, LoadOptions, Values, Weights};
use fiddlehead_storage::{Format, Tensor};

const SESSION: SessionId = SessionId(3);

/// Sizes at which rows, tiles and blocks of weights end unevenly.
const SIZES: [(&str, i64); 6] = [("D", 256), ("E", 5), ("F", 37), ("T", 3), ("H", 3), ("A", 70)];

/// Bodies of a step over `x`, numbers `e` and weights `w`, and the result's shape.
const BODIES: &[(&str, &str, &str)] = &[
    ("one vector, several parts", "f32[T, F]", "each[j in T, f in F] sum[d in D] w[e[j], f, d] * x[d]"),
    ("the factors turned round", "f32[T, F]", "each[j in T, f in F] sum[d in D] x[d] * w[e[j], f, d]"),
    ("a vector for each part", "f32[T, F]", "each[j in T, f in F] sum[d in D] w[e[j], f, d] * xs[j, d]"),
    ("scaled", "f32[T, F]", "each[j in T, f in F] 0.5 * (sum[d in D] w[e[j], f, d] * x[d])"),
    ("one part a node", "f32[F]", "each[f in F] sum[d in D] w[token, f, d] * x[d]"),
    (
        "a number of the program's making",
        "f32[T, F]",
        "each[j in T, f in F] sum[d in D] w[table[e[j]], f, d] * x[d]",
    ),
    ("some rows of a part", "f32[T, F - 5]", "each[j in T, f in F - 5] sum[d in D] w[e[j], f + 3, d] * x[d]"),
    ("parts turned into columns", "f32[F, T]", "each[f in F, j in T] sum[d in D] w[e[j], f, d] * x[d]"),
    (
        "parts of one flat weight",
        "f32[T, F]",
        "each[j in T, f in F] sum[d in D] flat[e[j] * F + f, d] * x[d]",
    ),
    (
        "parts made of smaller weights",
        "f32[T, H, F]",
        "each[j in T, h in H, f in F] sum[d in D] nested[e[j], h, f, d] * xs[h, d]",
    ),
    ("a table of numbers", "f32[F]", "each[f in F] sum[d in D] w[table[token], f, d] * x[d]"),
    ("a vector read backwards", "f32[T, F]", "each[j in T, f in F] sum[d in D] w[e[j], f, d] * x[D - 1 - d]"),
    ("results turned into columns", "f32[F, H]", "each[f in F, h in H] sum[d in D] w[2, f, d] * xs[h, d]"),
    (
        "a convolution",
        "f32[F, 20]",
        "each[f in F, y in 20] sum[h in H, i in 32] kernel[f, h, i] * xs[h, 3 * y + i]",
    ),
    (
        "three taps",
        "f32[20, F]",
        "each[y in 20, f in F] sum[h in H, i in 3] taps[f, h, i] * xs[h, 2 * y + i]",
    ),
    (
        "a convolution along one axis",
        "f32[20, F]",
        "each[y in 20, f in F] sum[k in H * 32] kernel[f, k / 32, k % 32] * xs[k / 32, y + k % 32]",
    ),
];

fn program(result: &str, body: &str) -> String {
    format!(
        "model gathered {{
            dims D, E, F, T, H, A;
            param w: f32[E, F, D];
            param flat: f32[E * F, D];
            param nested: f32[E, H, F, D];
            param kernel: f32[F, H, 32];
            param taps: f32[F, H, 3];
            param narrow: f32[F, A];
            param table: i32[E];
            step main(x: f32[D], xs: f32[H, D], e: i32[T], token: id) -> (y: {result}) {{ {body} }}
        }}"
    )
}

fn lowered(result: &str, body: &str) -> Graph {
    let program = fiddlehead_lang::compile("gathered.fh", &program(result, body)).unwrap_or_else(|errors| {
        panic!("{body}: {}", errors.items.iter().map(|item| item.message.clone()).collect::<String>())
    });
    let bound = ModelBindings {
        dims: sizes(),
        params: ["w", "flat", "nested", "table", "kernel", "taps", "narrow"].map(String::from).into(),
        ..ModelBindings::default()
    };
    optimise(&lower_model(&program, "gathered", &bound).expect("lowers").steps[0])
}

fn sizes() -> BTreeMap<String, i64> {
    SIZES.iter().map(|(name, size)| (name.to_string(), *size)).collect()
}

/// Random weights of a format, for the device and for the oracle.
fn weights(graph: &Graph, format: Format, seed: u64) -> (Weights, HashMap<String, Weight>) {
    let mut random = SplitMix::new(seed);
    let (mut stored, mut plain) = (Weights::new(), HashMap::new());
    for param in graph.params() {
        let count: usize = param.shape.iter().product();
        if param.element != Element::F32 {
            let numbers: Vec<i32> = (0..count).map(|place| (place * 3 % 5) as i32).collect();
            let floats = numbers.iter().map(|&number| number as f32).collect();
            stored.insert(param.name.clone(), Tensor::from_f32(param.shape.clone(), floats).expect("fits"));
            plain.insert(param.name.clone(), Weight::Int(numbers.into()));
            continue;
        }
        let whole = param.shape[param.shape.len() - 1].is_multiple_of(format.block_elements());
        let format = if whole { format } else { Format::BF16 };
        let values: Vec<f32> = (0..count).map(|_| random.signed_unit() / 8.0).collect();
        let half = |value: f32| half::f16::from_f32(value).to_le_bytes();
        let bytes: Vec<u8> = match format {
            Format::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Format::BF16 => {
                values.iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()).collect()
            }
            // Any bytes are a block once its scales are small numbers.
            format => {
                let mut bytes: Vec<u8> =
                    (0..format.bytes_for(count).expect("whole")).map(|_| random.below(256) as u8).collect();
                let scales = if format == Format::Q4_K { 2 } else { 1 };
                for block in bytes.chunks_exact_mut(format.block_bytes()) {
                    (0..scales).for_each(|at| block[2 * at..2 * at + 2].copy_from_slice(&half(0.001)));
                }
                bytes
            }
        };
        let tensor = Tensor::new(format, param.shape.clone(), bytes.into()).expect("fits");
        plain.insert(param.name.clone(), Weight::Float(tensor.to_f32().expect("decodes").into()));
        stored.insert(param.name.clone(), tensor);
    }
    (stored, plain)
}

/// Inputs of `rows` nodes whose numbers `choose` gives by node and place.
fn inputs(graph: &Graph, rows: usize, seed: u64, choose: &dyn Fn(usize, usize) -> i32) -> Vec<Array<f32>> {
    let mut random = SplitMix::new(seed);
    let one = |input: &Input| {
        let mut shape = vec![rows];
        shape.extend(&input.shape);
        let (count, width) = (shape.iter().product::<usize>(), input.shape.iter().product::<usize>());
        let numbers = || (0..count).map(|place| choose(place / width, place % width));
        let array = match input.element {
            Element::F32 => Array::floats(&(0..count).map(|_| random.signed_unit()).collect::<Vec<_>>()),
            Element::Id => Array::ids(&numbers().map(|number| number as u32).collect::<Vec<_>>()),
            _ => Array::ints(&numbers().collect::<Vec<_>>()),
        };
        array.reshaped(&shape).expect("as many elements")
    };
    graph.inputs().iter().map(one).collect()
}

fn loaded(graph: &Graph, weights: Weights, threads: usize, dispatch: &[(&str, &str)]) -> Box<dyn Executor> {
    let model = ModelGraph { name: "gathered".into(), steps: vec![graph.clone()] };
    let mut executor =
        CpuDevice::new(threads).load(Arc::new(model), weights, options(dispatch)).expect("loads");
    executor.open(SESSION).expect("a new session");
    executor
}

fn run(executor: &mut dyn Executor, inputs: &[Array<f32>], rows: usize) -> Result<Vec<u32>, DeviceError> {
    let forest = Forest::single_chain(SESSION, 0, rows).expect("a chain");
    let given: Vec<Values> = inputs.iter().map(values).collect();
    let outputs = executor.run(0, &forest, &given)?;
    let (_, words) = bits(&outputs).remove(0);
    executor.discard(0, SESSION).expect("open");
    Ok(words)
}

fn served(executor: &dyn Executor) -> bool {
    executor.explain(0).expect("a step").steps.iter().any(|step| step.candidate == "groups")
}

fn close(found: &[u32], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (place, (&found, wanted)) in found.iter().zip(wanted).enumerate() {
        let found = f64::from(f32::from_bits(found));
        let error = (found - wanted).abs() / (1.0 + wanted.abs());
        assert!(error <= 1e-5, "{what}, element {place}: {found} instead of {wanted}");
    }
}

fn expected(graph: &Graph, plain: &HashMap<String, Weight>, inputs: &[Array<f32>], rows: usize) -> Vec<f64> {
    let oracle = Oracle::<f64>::new(graph, plain).expect("resolves");
    let sessions = OracleSessions::from([(SESSION, oracle.session())]);
    let wide: Vec<Array<f64>> = inputs.iter().map(Array::converted).collect();
    let forest = Forest::single_chain(SESSION, 0, rows).expect("a chain");
    let run = oracle.run(&forest, &wide, &sessions).expect("runs");
    (0..rows).flat_map(|row| run.output(row, 0).expect("wanted").to_f64s()).collect()
}

/// The number of a node at a place.
type Choose = fn(usize, usize) -> i32;

/// How numbers fall: any, all the same, some parts never chosen, the same part twice for one row.
const CHOICES: &[(&str, Choose)] = &[
    ("mixed", |row, place| ((row * 7 + place * 3) % 5) as i32),
    ("all to one", |_, _| 4),
    ("two of five", |row, _| if row % 3 == 0 { 3 } else { 1 }),
    ("twice in a row", |row, place| ((row + place / 2) % 5) as i32),
];

#[test]
fn every_form_gives_what_the_oracle_gives_with_the_bits_of_a_row_alone() {
    for (name, result, body) in BODIES {
        let graph = lowered(result, body);
        for (place, format) in [Format::F32, Format::BF16, Format::Q8_0, Format::Q4_K].into_iter().enumerate()
        {
            let (stored, plain) = weights(&graph, format, 11);
            let mut together = loaded(&graph, stored.clone(), 2, &[]);
            assert!(
                served(&*together),
                "{name}, {format}: {:?}",
                together.explain(0).expect("a step").refusals
            );
            let mut alone = loaded(&graph, stored, 1, &[]);
            // All ways for one format, one way for each of the others: the oracle takes its time.
            let ways = if place == 0 { CHOICES } else { &CHOICES[place..=place] };
            for (how, choose) in ways {
                let what = format!("{name}, {format}, {how}");
                let rows = 23;
                let given = inputs(&graph, rows, 5, choose);
                let found = run(&mut *together, &given, rows).expect("runs");
                close(&found, &expected(&graph, &plain, &given, rows), &what);
                let width = found.len() / rows;
                for row in [0, 1, 17, rows - 1] {
                    let own: Vec<Array<f32>> = given.iter().map(|input| only(input, row, rows)).collect();
                    let single = run(&mut *alone, &own, 1).expect("runs");
                    assert_eq!(single, found[row * width..(row + 1) * width], "{what}, row {row} alone");
                }
            }
        }
    }
}

/// One row of an input.
fn only(input: &Array<f32>, row: usize, rows: usize) -> Array<f32> {
    let mut shape = input.shape().to_vec();
    shape[0] = 1;
    let size = to_f64s(&values(input)).len() / rows;
    let range = row * size..(row + 1) * size;
    let array = match values(input) {
        Values::F32(all) => Array::floats(&all[range]),
        Values::I32(all) => Array::ints(&all[range]),
        Values::Id(all) => Array::ids(&all[range]),
        Values::Bool(_) => panic!("no input is bool"),
    };
    array.reshaped(&shape).expect("as many elements")
}

#[test]
fn more_rows_than_a_task_takes_and_more_threads_than_parts() {
    let (_, result, body) = BODIES[0];
    let graph = lowered(result, body);
    let (stored, plain) = weights(&graph, Format::BF16, 12);
    let rows = 300;
    let given = inputs(&graph, rows, 6, &|_, _| 2);
    let mut executor = loaded(&graph, stored, 3, &[]);
    let found = run(&mut *executor, &given, rows).expect("runs");
    close(&found, &expected(&graph, &plain, &given, rows), "300 rows");
}

#[test]
fn a_number_that_chooses_no_part_traps_as_the_general_kernel_does() {
    for (name, result, body) in BODIES {
        let graph = lowered(result, body);
        let (stored, _) = weights(&graph, Format::F32, 13);
        let mut kernels = loaded(&graph, stored.clone(), 2, &[]);
        let mut general = loaded(&graph, stored, 2, &[("all", "off")]);
        for bad in [5, 6, -1, i32::MAX / 64, i32::MIN / 64] {
            let choose = move |row: usize, place: usize| if row == 3 && place < 2 { bad } else { 1 };
            let given = inputs(&graph, 6, 7, &choose);
            let found = [&mut kernels, &mut general].map(|executor| run(&mut **executor, &given, 6));
            match &found {
                [Ok(found), Ok(wanted)] => assert_eq!(found.len(), wanted.len(), "{name}, {bad}"),
                [Err(found @ DeviceError::Trap { .. }), Err(wanted)] => {
                    assert_eq!(found.to_string(), wanted.to_string(), "{name}, {bad}");
                }
                _ => panic!("{name}, {bad}: {found:?}"),
            }
            let chosen = body.contains("[e[") || body.contains("token") || body.contains("flat");
            assert_eq!(found[0].is_err(), chosen, "{name}, {bad}: {found:?}");
            let good = inputs(&graph, 6, 7, &|_, _| 1);
            run(&mut *kernels, &good, 6).expect("the session is as it was");
        }
    }
}

/// An index that leaves its axis for the next row of the same tensor is a trap, not that row's value.
#[test]
fn an_index_beyond_its_axis_is_not_read_from_the_next_row() {
    let graph = lowered("f32[F]", "each[f in F] sum[a in A] narrow[f, a] * xs[0, a + 200]");
    let (stored, _) = weights(&graph, Format::F32, 14);
    let mut kernels = loaded(&graph, stored, 1, &[]);
    let error = run(&mut *kernels, &inputs(&graph, 2, 7, &|_, _| 1), 2).expect_err("256 is no place of 256");
    assert!(error.to_string().contains("256 is outside 0..256"), "{error}");
}

/// A function's rows are an axis of its own: hundreds of products in one node, its weight an argument.
#[test]
fn functions_gather_from_their_arguments() {
    const FUNCTION: &str =
        "fn main[A, T, E, F, D](w: f32[E, F, D], x: f32[A, D], e: i32[A, T]) -> f32[A, T, F] =
        each[a in A, j in T, f in F] sum[d in D] w[e[a, j], f, d] * x[a, d];";
    let program = fiddlehead_lang::compile("main.fh", FUNCTION).expect("a right program");
    let graph = optimise(&lower_function(&program, "main", &sizes()).expect("lowers"));
    let mut random = SplitMix::new(9);
    let given: Vec<Array<f32>> = graph
        .inputs()
        .iter()
        .map(|input| {
            let count = input.shape.iter().product::<usize>();
            let array = match input.element {
                Element::F32 => Array::floats(&(0..count).map(|_| random.signed_unit()).collect::<Vec<_>>()),
                _ => Array::ints(&(0..count).map(|place| (place % 4) as i32).collect::<Vec<_>>()),
            };
            array.reshaped(&input.shape).expect("as many elements")
        })
        .collect();
    let wide: Vec<Array<f64>> = given.iter().map(Array::converted).collect();
    let wanted =
        Oracle::<f64>::new(&graph, &HashMap::new()).expect("resolves").evaluate(&wide).expect("runs");
    let device = CpuDevice::new(2);
    let handed: Vec<Values> = given.iter().map(values).collect();
    let found = device.call(&graph, &handed, &LoadOptions::default()).expect("runs");
    let words: Vec<u32> = found[0].as_f32().expect("floats").iter().map(|value| value.to_bits()).collect();
    close(&words, &wanted[0].to_f64s(), "a function");
    let report = device.explain(&graph, &LoadOptions::default()).expect("lowers");
    assert!(report.steps.iter().any(|step| step.candidate == "groups"), "{:?}", report.refusals);
}
