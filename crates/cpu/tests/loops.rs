//! Loops: their prefill and their decode come out of the dataflow.

use std::collections::BTreeMap;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_oracle::{Array, Oracle, Weights};
use fiddlehead_plan::{Device, DeviceError, LoadOptions, Values};

const PROGRAM: &str = "
step fn token_step[V, D](token: id, at: i32, embed: f32[V, D], mix: f32[D, D]) -> f32[V] {
    state s: f32[D] = 0.0;
    let x = embed[token];
    s' = each[d in D] 0.5 * s[d] + x[d];
    history xs = x;
    let m = max[t in path] sum[d in D] x[d] * xs[t][d];
    let e = each[t in path] exp((sum[d in D] x[d] * xs[t][d]) - m);
    let y = each[d in D] s'[d] + (sum[t in path] e[t] * xs[t][d]) / (sum[t in path] e[t]);
    let z = each[i in D] sum[d in D] mix[i, d] * y[d];
    each[v in V] sum[d in D] embed[v, d] * z[d]
}

fn main[P, V, D](prompt: id[P], embed: f32[V, D], mix: f32[D, D]) -> id[40] =
    scan[t in P + 40 - 1](last = prompt[0]) {
        let logits = token_step(if t < P { prompt[t] } else { last }, t, embed, mix);
        let best = argmax(logits);
        emit_if(t >= P - 1, best);
        next best
    };
";

/// The text that a trap of a function points to.
fn trapped(text: &str, inputs: &[Values]) -> String {
    let program = fiddlehead_lang::compile("trap.fh", text).expect("a right program");
    let graph = optimise(&lower_function(&program, "main", &BTreeMap::new()).expect("lowers"));
    match CpuDevice::new(1).call(&graph, inputs, &LoadOptions::default()) {
        Err(DeviceError::Trap { span: Some((start, end)), .. }) => text[start..end].to_string(),
        other => panic!("no trap with a place: {other:?}"),
    }
}

#[test]
fn a_loop_that_emits_too_much_traps_at_its_emission() {
    let text = "fn main() -> (i32[2], i32) {\n    let k = 3;\n    scan[t in 9] {\n        emit_if[2](t % k == 1, t);\n    }\n}";
    assert_eq!(trapped(text, &[]), "t % k == 1");
}

/// Elementwise arrays are written into what reads them, but not where that would move a trap to another line.
#[test]
fn a_trap_names_the_array_that_was_being_made_and_not_its_reader() {
    let text = "fn main(x: f32[4], at: i32) -> f32[3] {\n    let y = each[i in 3] x[i + at];\n    each[i in 3] 2.0 * y[i]\n}";
    let x = Values::F32(vec![1.0, 2.0, 3.0, 4.0]);
    assert_eq!(trapped(text, &[x, Values::I32(vec![2])]), "each[i in 3] x[i + at]");
    let text =
        "fn main(n: i32) -> f32[3] {\n    let y = each[i in 3] i / n;\n    each[i in 3] 2.0 * f32(y[i])\n}";
    assert_eq!(trapped(text, &[Values::I32(vec![0])]), "each[i in 3] i / n");
}

fn random(seed: u64, count: usize, scale: f32) -> Vec<f32> {
    let mut random = SplitMix::new(seed);
    (0..count).map(|_| scale * random.signed_unit()).collect()
}

#[test]
fn a_loop_reads_its_prompt_at_once_and_writes_one_by_one() {
    let (prompt_length, vocabulary, width) = (90usize, 61usize, 16usize);
    let program = fiddlehead_lang::compile("loop.fh", PROGRAM).unwrap_or_else(|errors| {
        panic!("{}", errors.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join("\n"))
    });
    let sizes = [("P", prompt_length), ("V", vocabulary), ("D", width)];
    let sizes = BTreeMap::from(sizes.map(|(name, size)| (name.to_string(), size as i64)));
    let graph = optimise(&lower_function(&program, "main", &sizes).expect("lowers"));
    let prompt: Vec<u32> = (0..prompt_length).map(|place| (place * 17 % vocabulary) as u32).collect();
    let embed = random(1, vocabulary * width, 1.0);
    let mix = random(2, width * width, 0.5);

    let oracle = Oracle::<f64>::new(&graph, &Weights::new()).expect("resolves");
    let given: Vec<Array<f64>> = vec![
        Array::ids(&prompt),
        Array::<f64>::floats(&embed).reshaped(&[vocabulary, width]).expect("fits"),
        Array::<f64>::floats(&mix).reshaped(&[width, width]).expect("fits"),
    ];
    let expected = oracle.evaluate(&given).expect("no trap");
    let expected: Vec<u32> = expected[0].to_f64s().into_iter().map(|id| id as u32).collect();

    let device = CpuDevice::new(2);
    let inputs = [Values::Id(prompt), Values::F32(embed), Values::F32(mix)];
    for dispatch in [vec![], vec![("all".to_string(), "off".to_string())]] {
        let options = LoadOptions { dispatch: dispatch.into_iter().collect(), ..LoadOptions::default() };
        let found = device.call(&graph, &inputs, &options).expect("runs");
        assert_eq!(found, [Values::Id(expected.clone())]);
        let report = device.explain(&graph, &options).expect("lowers");
        let scan = report.steps.iter().find(|step| step.family == "scan").expect("a loop");
        assert!(scan.detail.contains("at once") && scan.detail.contains("one by one"), "{}", scan.detail);
    }
}
