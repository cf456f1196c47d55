//! Contractions that round their activations: only where the program, the contract and the user allow it, near what f32
//! gives, and with bits of a row that depend on that row alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_cpu::features::{Features, Isa};
use fiddlehead_forest::{Forest, ForestBuilder, SessionId};
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::{Graph, ModelGraph};
use fiddlehead_plan::{Device, DeviceError, Executor, LoadOptions, Numerics, PlanReport, Values, Weights};
use fiddlehead_storage::{Format, Tensor};

const VOCABULARY: usize = 50;
const WIDTH: usize = 256;
const INNER: usize = 512;

/// Two layers' worth of matrices in different formats, two of them reading one vector.
fn graph(compute: &str) -> Graph {
    use fiddlehead_graph::builder::GraphBuilder;
    use fiddlehead_graph::{Input, NodeKind, Param};
    let sum = "each[n in N] sum[k in K] w[n, k] * x[k]";
    let body = if compute.is_empty() { sum.to_string() } else { format!("{compute} {{ {sum} }}") };
    let text = format!(
        "fn linear[N, K](w: f32[N, K], x: f32[K]) -> f32[N] = {body};
        step fn main[V, D, F](
            token: id, embed: f32[V, D], gate: f32[F, D], up: f32[F, D], down: f32[D, F]
        ) -> f32[V] {{
            let e = embed[token];
            let scale = max[d in D] abs(e[d]);
            let x = each[d in D] e[d] / (0.5 + scale);
            let g = linear(gate, x);
            let u = linear(up, x);
            let y = linear(down, each[f in F] silu(g[f]) * u[f]);
            linear(embed, each[d in D] x[d] + y[d])
        }}"
    );
    let program = fiddlehead_lang::compile("main.fh", &text).unwrap_or_else(|errors| {
        panic!("{}", errors.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join("\n"))
    });
    let sizes =
        [("V", VOCABULARY), ("D", WIDTH), ("F", INNER)].map(|(name, size)| (name.to_string(), size as i64));
    let lowered = lower_function(&program, "main", &BTreeMap::from(sizes)).expect("lowers");
    // Language functions have no weights, so all inputs but the token become parameters.
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

/// Blocks with scales that make numbers of ordinary size, other bytes arbitrary.
fn tensor(format: Format, rows: usize, columns: usize, seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let blocks = rows * columns / format.block_elements();
    let mut bytes = Vec::new();
    for _ in 0..blocks {
        let mut block: Vec<u8> = (0..format.block_bytes()).map(|_| next() as u8).collect();
        let mut put = |at: usize, value: f32| {
            block[at..at + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
        };
        match format {
            Format::Q8_0 => put(0, 0.0005),
            Format::Q5_0 => put(0, 0.004),
            Format::Q4_1 => {
                put(0, 0.008);
                put(2, -0.06);
            }
            Format::Q4_K => {
                put(0, 0.0003);
                put(2, 0.0015);
            }
            Format::Q6_K => put(208, 0.00003),
            Format::BF16 => {
                let value = (next() % 2001) as f32 / 1000.0 - 1.0;
                block.copy_from_slice(&half::bf16::from_f32(value * 0.06).to_le_bytes());
            }
            other => unreachable!("{other}"),
        }
        bytes.extend(block);
    }
    Tensor::new(format, vec![rows, columns], bytes.into()).expect("fits")
}

fn weights(formats: [Format; 4]) -> Weights {
    let [embed, gate, up, down] = formats;
    [
        ("embed", tensor(embed, VOCABULARY, WIDTH, 1)),
        ("gate", tensor(gate, INNER, WIDTH, 2)),
        ("up", tensor(up, INNER, WIDTH, 3)),
        ("down", tensor(down, WIDTH, INNER, 4)),
    ]
    .map(|(name, tensor)| (name.to_string(), tensor))
    .into()
}

const BLOCKS: [Format; 4] = [Format::Q8_0, Format::Q5_0, Format::Q4_1, Format::Q4_K];
const BRAIN: [Format; 4] = [Format::BF16; 4];
const ALLOWED: &str = "compute bf16 | q8";

fn load(
    device: &CpuDevice,
    compute: &str,
    formats: [Format; 4],
    numerics: Numerics,
    candidate: Option<&str>,
) -> Result<Box<dyn Executor>, DeviceError> {
    let model = ModelGraph { name: "made_up".into(), steps: vec![graph(compute)] };
    let dispatch = candidate.map(|name| ("contraction".to_string(), name.to_string())).into_iter().collect();
    device.load(
        Arc::new(model),
        weights(formats),
        LoadOptions { numerics, dispatch, ..LoadOptions::default() },
    )
}

/// Logits of all tokens, in forests of that many nodes.
fn logits(executor: &mut dyn Executor, session: u64, tokens: &[u32], nodes: usize) -> Vec<Vec<f32>> {
    let session = SessionId(session);
    executor.open(session).expect("a new session");
    let mut found = Vec::new();
    let mut base = 0;
    for part in tokens.chunks(nodes) {
        let forest = Forest::single_chain(session, base, part.len()).expect("a chain");
        let outputs = executor.run(0, &forest, &[Values::Id(part.to_vec())]).expect("runs");
        found.extend(outputs[0].values.as_f32().expect("floats").chunks(VOCABULARY).map(<[f32]>::to_vec));
        executor.commit(0, &forest.accept_all(0).expect("a chain")).expect("continues");
        base += part.len();
    }
    found
}

fn candidates(report: &PlanReport) -> Vec<&str> {
    let steps = report.steps.iter().filter(|step| step.family == "contraction");
    steps.map(|step| step.candidate.as_str()).collect()
}

fn served(features: Features) -> Vec<(&'static str, [Format; 4])> {
    let all = [("integer", BLOCKS, features.avx512_vnni), ("bf16", BRAIN, features.avx512_bf16)];
    let served = all.into_iter().filter(|(.., enabled)| *enabled);
    let served: Vec<_> = served.map(|(name, formats, _)| (name, formats)).collect();
    if served.is_empty() {
        eprintln!("skipped: this machine has no rounding kernels");
    }
    served
}

#[test]
fn a_rows_bits_do_not_depend_on_the_batch_or_threads() {
    let tokens: Vec<u32> = (0..75).map(|at| at * 17 % VOCABULARY as u32).collect();
    for (name, formats) in served(Features::detect()) {
        let mut expected: Option<Vec<Vec<u32>>> = None;
        for threads in [1, 2] {
            let device = CpuDevice::new(threads);
            let mut executor = load(&device, ALLOWED, formats, Numerics::Auto, Some(name)).expect("loads");
            let report = executor.explain(0).expect("a step");
            assert_eq!(candidates(&report), [name; 4], "{:?}", report.refusals);
            for (session, nodes) in [1, 2, 3, 5, 8, 9, 31, 75].into_iter().enumerate() {
                let found = logits(executor.as_mut(), session as u64, &tokens, nodes);
                let found: Vec<Vec<u32>> =
                    found.iter().map(|row| row.iter().map(|value| value.to_bits()).collect()).collect();
                let expected = expected.get_or_insert_with(|| found.clone());
                assert!(*expected == found, "{name}, {threads} threads, {nodes} nodes at a time");
            }
        }
    }
}

#[test]
fn a_session_gets_the_bits_it_gets_alone() {
    for (name, formats) in served(Features::detect()) {
        let mut executor =
            load(&CpuDevice::new(2), ALLOWED, formats, Numerics::Auto, Some(name)).expect("loads");
        let texts: [&[u32]; 3] = [&[3, 14, 15, 9, 26], &[5], &[35, 8, 9, 7, 9, 3, 2, 3, 8]];
        let alone: Vec<Vec<Vec<f32>>> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| logits(executor.as_mut(), 10 + at as u64, text, text.len()))
            .collect();
        let mut builder = ForestBuilder::new();
        for (at, text) in texts.iter().enumerate() {
            let session = SessionId(at as u64);
            executor.open(session).expect("a new session");
            builder.segment(session, 0).expect("a new session");
            builder
                .chain(
                    text.len(),
                    fiddlehead_forest::Class::Prompt,
                    fiddlehead_forest::Wanted::ALL,
                    fiddlehead_forest::Wanted::ALL,
                )
                .expect("a chain");
        }
        let forest = builder.build().expect("a forest");
        let outputs = executor.run(0, &forest, &[Values::Id(texts.concat())]).expect("runs");
        let together = outputs[0].values.as_f32().expect("floats");
        assert_eq!(together, alone.concat().concat(), "{name}");
    }
}

#[test]
fn rounding_stays_near_f32() {
    let tokens: Vec<u32> = (0..40).map(|at| at * 7 % VOCABULARY as u32).collect();
    let device = CpuDevice::new(2);
    for (name, formats) in served(Features::detect()) {
        let mut exact = load(&device, ALLOWED, formats, Numerics::F32, None).expect("loads");
        let mut rounded = load(&device, ALLOWED, formats, Numerics::Auto, Some(name)).expect("loads");
        let exact = logits(exact.as_mut(), 0, &tokens, 40).concat();
        let rounded = logits(rounded.as_mut(), 0, &tokens, 40).concat();
        let scale = exact.iter().fold(0f32, |most, value| most.max(value.abs()));
        assert!(rounded.iter().all(|value| value.is_finite()), "{name}");
        let error = exact.iter().zip(&rounded).fold(0f32, |most, (a, b)| most.max((a - b).abs())) / scale;
        let (least, most) = if name == "integer" { (1e-8, 2e-4) } else { (1e-5, 0.02) };
        // It did round, and not by much.
        assert!((least..most).contains(&error), "{name}: {error}");
    }
}

#[test]
fn nothing_is_rounded_without_leave() {
    let device = CpuDevice::new(1);
    let report = |compute: &str, numerics: Numerics, candidate: Option<&str>| {
        let executor = load(&device, compute, BLOCKS, numerics, candidate).expect("loads");
        executor.explain(0).expect("a step")
    };
    for (compute, numerics, candidate, reason) in [
        // The model is nobody's: no gate was passed.
        (ALLOWED, Numerics::Auto, None, "no checkpoint of `made_up` with q8_0 weights"),
        (ALLOWED, Numerics::F32, None, "f32 numerics round no operand"),
        (ALLOWED, Numerics::Strict, None, "strict numerics round no operand"),
        (ALLOWED, Numerics::Auto, Some("rows"), "names another"),
        ("compute bf16", Numerics::Auto, Some("integer"), "does not allow `compute q8`"),
        ("", Numerics::Auto, Some("integer"), "does not allow `compute q8`"),
    ] {
        let report = report(compute, numerics, candidate);
        assert_eq!(candidates(&report), ["rows"; 4], "{compute}, {numerics}, {candidate:?}");
        let refused = |why: &&(String, String)| why.1.starts_with("not integer: ") && why.1.contains(reason);
        // Without the kernels that is what is said.
        if Features::detect().avx512_vnni || candidate.is_some() {
            let count = report.refusals.iter().filter(refused).count();
            assert!(count >= 1, "{compute}, {numerics}, {candidate:?}: {:?}", report.refusals);
        }
    }
    let narrow = CpuDevice::with_features(1, Features::detect().at_most(Isa::Avx2));
    for (name, formats) in [("integer", BLOCKS), ("bf16", BRAIN)] {
        let executor = load(&narrow, ALLOWED, formats, Numerics::Auto, Some(name)).expect("loads");
        let report = executor.explain(0).expect("a step");
        assert_eq!(candidates(&report), ["rows"; 4]);
        assert!(report.refusals[0].1.contains("not enabled"), "{:?}", report.refusals);
    }
}

#[test]
fn a_named_rounding_contradicts_contracts_that_forbid_it() {
    for numerics in [Numerics::F32, Numerics::Strict] {
        for name in ["integer", "bf16"] {
            let error =
                load(&CpuDevice::new(1), ALLOWED, BLOCKS, numerics, Some(name)).err().expect("refused");
            assert!(matches!(error, DeviceError::Option(_)), "{error}");
            assert!(error.to_string().contains(&format!("{numerics} numerics forbid")), "{error}");
        }
    }
}
