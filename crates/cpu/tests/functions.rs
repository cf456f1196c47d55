//! Plain functions: whole matrices and images through the same kernels as a model's rows.

use std::collections::BTreeMap;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_gate::case::to_f64s;
use fiddlehead_graph::Graph;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_oracle::{Array, Oracle, Weights};
use fiddlehead_plan::{Device, LoadOptions, Values};

fn function(text: &str, sizes: &[(&str, i64)]) -> Graph {
    let program = fiddlehead_lang::compile("main.fh", text).unwrap_or_else(|errors| {
        panic!("{}", errors.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join("\n"))
    });
    let sizes: BTreeMap<String, i64> = sizes.iter().map(|&(name, size)| (name.to_string(), size)).collect();
    optimise(&lower_function(&program, "main", &sizes).expect("lowers"))
}

/// Runs a function of floats on the device, with and without kernels, and compares with the oracle; gives the candidates
/// that served.
fn check(text: &str, sizes: &[(&str, i64)]) -> Vec<String> {
    let graph = function(text, sizes);
    let mut random = SplitMix::new(11);
    let mut inputs = Vec::new();
    let mut arrays: Vec<Array<f64>> = Vec::new();
    for input in graph.inputs() {
        let values: Vec<f32> = (0..input.shape.iter().product()).map(|_| random.signed_unit()).collect();
        arrays.push(Array::floats(&values).reshaped(&input.shape).expect("fits"));
        inputs.push(Values::F32(values));
    }
    let expected =
        Oracle::<f64>::new(&graph, &Weights::new()).expect("resolves").evaluate(&arrays).expect("no trap");
    let device = CpuDevice::new(2);
    let off = LoadOptions { dispatch: [("all".into(), "off".into())].into(), ..LoadOptions::default() };
    for options in [LoadOptions::default(), off] {
        let found = device.call(&graph, &inputs, &options).expect("runs");
        for (found, expected) in found.iter().zip(&expected) {
            for (index, (a, b)) in to_f64s(found).iter().zip(expected.to_f64s()).enumerate() {
                assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "element {index}: {a} instead of {b}");
            }
        }
    }
    let report = device.explain(&graph, &LoadOptions::default()).expect("lowers");
    report.steps.into_iter().map(|step| format!("{} {}", step.family, step.candidate)).collect()
}

#[test]
fn a_matrix_times_a_transposed_matrix_is_one_product() {
    let text = "fn main[M, N, K](a: f32[M, K], b: f32[N, K]) -> f32[M, N] =
        each[i in M, j in N] sum[k in K] a[i, k] * b[j, k];";
    let served = check(text, &[("M", 130), ("N", 67), ("K", 45)]);
    assert_eq!(served, ["contraction rows"]);
    check(text, &[("M", 1), ("N", 1), ("K", 1)]);
}

#[test]
fn batches_of_matrices_are_products_of_their_own() {
    let text = "fn main[B, M, N, K](a: f32[B, M, K], b: f32[B, N, K]) -> f32[B, M, N] =
        each[h in B, i in M, j in N] 0.5 * (sum[k in K] a[h, i, k] * b[h, j, k]);";
    let served = check(text, &[("B", 3), ("M", 33), ("N", 20), ("K", 31)]);
    assert!(served.contains(&"contraction rows".to_string()), "{served:?}");
}

#[test]
fn other_functions_run_on_the_general_kernel() {
    check(
        "fn main[M, N, K](a: f32[M, K], b: f32[K, N]) -> f32[M, N] =
            each[i in M, j in N] sum[k in K] a[i, k] * b[k, j];",
        &[("M", 40), ("N", 50), ("K", 30)],
    );
    check(
        "fn main[C, O, H, W](img: f32[C, H + 2, W + 2], ker: f32[O, C, 3, 3]) -> f32[O, H, W] =
            each[o in O, y in H, x in W] sum[c in C, dy in 3, dx in 3] img[c, y + dy, x + dx] * ker[o, c, dy, dx];",
        &[("C", 3), ("O", 5), ("H", 12), ("W", 17)],
    );
    check(
        "fn main[T, D](q: f32[T, D], k: f32[T, D], v: f32[T, D]) -> f32[T, D] {
            let s = each[t in T, u in 0..=t] rsqrt(D) * sum[d in D] q[t, d] * k[u, d];
            let m = each[t in T] max[u in 0..=t] s[t, u];
            let p = each[t in T, u in 0..=t] exp(s[t, u] - m[t]);
            each[t in T, d in D] (sum[u in 0..=t] p[t, u] * v[u, d]) / (sum[u in 0..=t] p[t, u])
        }",
        &[("T", 70), ("D", 16)],
    );
}
