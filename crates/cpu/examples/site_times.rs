//! Times sites beside plain loops in Rust that do the same: a convolution, a diagonal recurrence, an attention with sinks.
//!
//! `cargo run --release -p fiddlehead-cpu --example site_times [convolution|diagonal|sinks ...]`: one thread, the least time of
//! processors over several runs, once with every kernel and once with the general kernel alone.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::lower::{ModelBindings, lower_model};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_plan::{Device, LoadOptions, Values, Weights};
use fiddlehead_storage::Tensor;

const CONVOLUTION: &str = "
model site {
    dims O, C, H, W, K;
    param kernel: f32[O, C, K, K];
    step main(image: f32[C, H + K - 1, W + K - 1]) -> (y: f32[O, H, W]) {
        each[o in O, y in H, x in W] sum[c in C, i in K, j in K] image[c, y + i, x + j] * kernel[o, c, i, j]
    }
}";

const DIAGONAL: &str = "
step fn carry[N, S](x: f32[N], dt: f32[N], b: f32[S], c: f32[S], a: f32[N, S]) -> f32[N] {
    state h: f32[N, S] = 0.0;
    h' = each[n in N, s in S] exp(dt[n] * a[n, s]) * h[n, s] + dt[n] * b[s] * x[n];
    each[n in N] sum[s in S] c[s] * h'[n, s]
}

model site {
    dims N, S;
    param a: f32[N, S];
    step main(x: f32[N], dt: f32[N], b: f32[S], c: f32[S]) -> (y: f32[N]) { carry(x, dt, b, c, a) }
}";

const SINKS: &str = "
step fn attend[A, B, K](q: f32[A, K], k: f32[B, K], v: f32[B, K], sink: f32[A]) -> f32[A, K] {
    history ks = k;
    history vs = v;
    let s = each[h in A, t in path] rsqrt(f32(K)) * (sum[i in K] q[h, i] * ks[t][h / (A / B), i]);
    let m = each[h in A] max(sink[h], max[t in path] s[h, t]);
    let p = each[h in A, t in path] exp(s[h, t] - m[h]);
    each[h in A, i in K]
        (sum[t in path] p[h, t] * vs[t][h / (A / B), i]) / ((sum[t in path] p[h, t]) + exp(sink[h] - m[h]))
}

model site {
    dims A, B, K;
    param sink: f32[A];
    step main(q: f32[A, K], k: f32[B, K], v: f32[B, K]) -> (y: f32[A, K]) { attend(q, k, v, sink) }
}";

/// Seconds that the threads of this process have run.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The least milliseconds of several calls.
fn least(mut call: impl FnMut()) -> f64 {
    let begun = processor_seconds();
    let (mut best, mut runs) = (f64::INFINITY, 0);
    while runs < 3 || (processor_seconds() - begun < 1.0 && runs < 300) {
        let start = processor_seconds();
        call();
        best = best.min(processor_seconds() - start);
        runs += 1;
    }
    best * 1e3
}

fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix::new(seed);
    (0..count).map(|_| random.signed_unit()).collect()
}

/// Plain loops over a step's inputs and weights.
type Plain<'a> = &'a mut dyn FnMut(&[Vec<f32>], &[Vec<f32>]);

fn run(name: &str, text: &str, dims: &[(&str, i64)], rows: usize, plain: Plain<'_>) {
    let program = fiddlehead_lang::compile("site.fh", text).expect("a right program");
    let params = program.models[0].params.iter().map(|param| param.name.clone()).collect();
    let dims: BTreeMap<String, i64> = dims.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    let bound = ModelBindings { dims, params, ..ModelBindings::default() };
    let model = lower_model(&program, "site", &bound).expect("lowers");
    let graph = optimise(&model.steps[0]);
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let weights: Vec<Vec<f32>> =
        graph.params().iter().zip(0..).map(|(param, seed)| random(count(&param.shape), seed)).collect();
    let given: Vec<Vec<f32>> = graph
        .inputs()
        .iter()
        .zip(50..)
        .map(|(input, seed)| random(rows * count(&input.shape), seed))
        .collect();
    let mut line = format!("{name}, {rows} rows:");
    for (what, dispatch) in [("kernels", None), ("general kernel", Some("off"))] {
        let mut stored = Weights::new();
        for (param, values) in graph.params().iter().zip(&weights) {
            let tensor = Tensor::from_f32(param.shape.clone(), values.clone()).expect("fits");
            stored.insert(param.name.clone(), tensor);
        }
        let dispatch = dispatch.map(|off: &str| ("all".to_string(), off.to_string()));
        let options = LoadOptions { dispatch: dispatch.into_iter().collect(), ..LoadOptions::default() };
        let model = ModelGraph { name: "site".into(), steps: vec![graph.clone()] };
        let mut executor = CpuDevice::new(1).load(Arc::new(model), stored, options).expect("loads");
        let session = SessionId(1);
        executor.open(session).expect("a new session");
        let forest = Forest::single_chain(session, 0, rows).expect("a chain");
        let inputs: Vec<Values> = given.iter().map(|values| Values::F32(values.clone())).collect();
        let time = least(|| {
            black_box(executor.run(0, &forest, &inputs).expect("runs"));
            executor.discard(0, session).expect("open");
        });
        line += &format!(" {what} {time:.3} ms,");
    }
    let time = least(|| plain(&given, &weights));
    println!("{line} plain loops {time:.3} ms");
}

fn convolution() {
    let (outputs, channels, h, w, k) = (64, 64, 28, 28, 3);
    let dims = [("O", 64), ("C", 64), ("H", 28), ("W", 28), ("K", 3)];
    let mut y = vec![0f32; outputs * h * w];
    run("convolution of 64 × 28 × 28 by 64 × 3 × 3", CONVOLUTION, &dims, 1, &mut |given, weights| {
        let (image, kernel, width) = (&given[0], &weights[0], w + k - 1);
        y.fill(0.0);
        for o in 0..outputs {
            for c in 0..channels {
                for (i, j) in (0..k).flat_map(|i| (0..k).map(move |j| (i, j))) {
                    let tap = kernel[(o * channels + c) * k * k + i * k + j];
                    for row in 0..h {
                        let from = &image[(c * (h + k - 1) + row + i) * width + j..][..w];
                        let to = &mut y[(o * h + row) * w..][..w];
                        to.iter_mut().zip(from).for_each(|(to, from)| *to += tap * from);
                    }
                }
            }
        }
        black_box(&y);
    });
}

fn diagonal() {
    let (n, s, rows) = (1024, 16, 64);
    let mut state = vec![0f32; n * s];
    let mut y = vec![0f32; rows * n];
    run("diagonal state of 1024 × 16", DIAGONAL, &[("N", 1024), ("S", 16)], rows, &mut |given, weights| {
        let [x, dt, b, c] = [&given[0], &given[1], &given[2], &given[3]];
        state.fill(0.0);
        for row in 0..rows {
            for at in 0..n {
                let (x, dt) = (x[row * n + at], dt[row * n + at]);
                let mut sum = 0.0;
                for place in 0..s {
                    let h = &mut state[at * s + place];
                    *h = (dt * weights[0][at * s + place]).exp() * *h + dt * b[row * s + place] * x;
                    sum += c[row * s + place] * *h;
                }
                y[row * n + at] = sum;
            }
        }
        black_box(&y);
    });
}

fn sinks() {
    let (heads, groups, k, rows) = (8, 4, 128, 256);
    let mut y = vec![0f32; rows * heads * k];
    let mut weights_of = Vec::new();
    let dims = [("A", 8), ("B", 4), ("K", 128)];
    run("attention of 8 heads of 128 with sinks", SINKS, &dims, rows, &mut |given, weights| {
        let [q, keys, values] = [&given[0], &given[1], &given[2]];
        for row in 0..rows {
            for head in 0..heads {
                let group = head / (heads / groups);
                let q = &q[(row * heads + head) * k..][..k];
                let at = |rows: &[f32], t: usize| rows[(t * groups + group) * k..][..k].to_vec();
                weights_of.clear();
                weights_of.extend(
                    (0..=row).map(|t| {
                        at(keys, t).iter().zip(q).map(|(a, b)| a * b).sum::<f32>() / (k as f32).sqrt()
                    }),
                );
                let most = weights_of.iter().copied().fold(weights[0][head], f32::max);
                weights_of.iter_mut().for_each(|score| *score = (*score - most).exp());
                let total = weights_of.iter().sum::<f32>() + (weights[0][head] - most).exp();
                let y = &mut y[(row * heads + head) * k..][..k];
                y.fill(0.0);
                for (t, weight) in weights_of.iter().enumerate() {
                    y.iter_mut().zip(at(values, t)).for_each(|(y, value)| *y += weight / total * value);
                }
            }
        }
        black_box(&y);
    });
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for (name, time) in [("convolution", convolution as fn()), ("diagonal", diagonal), ("sinks", sinks)] {
        if asked.is_empty() || asked.iter().any(|other| other == name) {
            time();
        }
    }
}
