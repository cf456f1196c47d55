//! Times a model of nothing but experts: `T` of `E` feed-forward blocks that a router picks for each row, layer after layer.
//!
//! `cargo run --release -p fiddlehead-cpu --example expert_times [FORMAT ...] [off] [rows=M] [threads=N] [layers=L]`: formats
//! as checkpoints name them (`bf16`, `q8_0`, `q4_k`; all three without arguments). `off` runs the general kernel alone. Every
//! run has other rows, so that a single row reads other experts than the one before it. Beside the time of the clock it tells
//! that of the processors, which other work on the machine hardly changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::lower::{ModelBindings, lower_model};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_plan::{Device, LoadOptions, Values, Weights};
use fiddlehead_storage::{Format, Tensor};

const PROGRAM: &str = "
fn softmax[N](x: f32[N]) -> f32[N] {
    let m = max[i in N] x[i];
    let p = each[i in N] exp(x[i] - m);
    let total = sum[i in N] p[i];
    each[i in N] p[i] / total
}

model experts {
    dims D, E, F, T, L;
    layers[L] {
        param router: f32[E, D];
        param gate: f32[E, F, D];
        param up: f32[E, F, D];
        param down: f32[E, D, F];
    }
    step main(x: f32[D]) -> (y: f32[D]) {
        let x = for layer in layers(x = x) {
            let n = rsqrt((sum[d in D] x[d] * x[d]) / D + 0.000001);
            let y = each[d in D] x[d] * n;
            let scores = compute bf16 | q8 { each[e in E] sum[d in D] layer.router[e, d] * y[d] };
            let (w, e) = top[T](softmax(scores));
            let g = compute bf16 | q8 { each[j in T, f in F] sum[d in D] layer.gate[e[j], f, d] * y[d] };
            let u = compute bf16 | q8 { each[j in T, f in F] sum[d in D] layer.up[e[j], f, d] * y[d] };
            let a = each[j in T, f in F] silu(g[j, f]) * u[j, f];
            let o = compute bf16 | q8 { each[j in T, d in D] sum[f in F] layer.down[e[j], d, f] * a[j, f] };
            next each[d in D] x[d] + sum[j in T] w[j] * o[j, d]
        };
        x
    }
}
";

const SIZES: [(&str, i64); 4] = [("D", 1024), ("E", 32), ("F", 512), ("T", 4)];

/// Random numbers of about a trained weight's size, as a file of that format would hold them.
fn weight(random: &mut SplitMix, format: Format, shape: &[usize]) -> Tensor {
    let elements: usize = shape.iter().product();
    let scale = 1.7 / (shape[shape.len() - 1] as f32).sqrt();
    let half = |value: f32| half::f16::from_f32(value).to_le_bytes();
    let mut bytes = Vec::with_capacity(format.bytes_for(elements).expect("whole blocks"));
    match format {
        Format::F32 => {
            (0..elements).for_each(|_| bytes.extend((scale * random.signed_unit()).to_le_bytes()));
        }
        Format::BF16 => (0..elements).for_each(|_| {
            bytes.extend(half::bf16::from_f32(scale * random.signed_unit()).to_le_bytes());
        }),
        format => {
            let block = format.block_bytes();
            for _ in 0..elements / format.block_elements() {
                let start = bytes.len();
                (0..block).for_each(|_| bytes.push(random.below(256) as u8));
                let head = match format {
                    Format::Q8_0 => half(scale / 127.0).to_vec(),
                    Format::Q4_K => [half(scale / 480.0), half(scale / 63.0)].concat(),
                    format => panic!("{format} has no random weights here"),
                };
                bytes[start..start + head.len()].copy_from_slice(&head);
            }
        }
    }
    Tensor::new(format, shape.to_vec(), bytes.into()).expect("as many bytes as the shape takes")
}

/// Seconds that the threads of this process have run.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: usize| {
        let given = arguments.iter().find_map(|argument| argument.strip_prefix(name));
        given.map_or(default, |value| value.parse().expect("a number"))
    };
    let named: Vec<Format> = [Format::F32, Format::BF16, Format::Q8_0, Format::Q4_K].into_iter().collect();
    let asked = |format: &Format| arguments.iter().any(|argument| *argument == format.to_string());
    let formats: Vec<Format> = match named.iter().any(asked) {
        true => named.into_iter().filter(asked).collect(),
        false => vec![Format::BF16, Format::Q8_0, Format::Q4_K],
    };
    let off = arguments.iter().any(|argument| argument == "off");
    let (threads, layers) = (number("threads=", 2), number("layers=", 8));
    let rows = match number("rows=", 0) {
        0 => vec![1, 64, 512],
        rows => vec![rows],
    };
    let program = fiddlehead_lang::compile("experts.fh", PROGRAM).expect("a right program");
    for format in formats {
        let mut random = SplitMix::new(1);
        let mut dims: BTreeMap<String, i64> =
            SIZES.iter().map(|(name, size)| (name.to_string(), *size)).collect();
        dims.insert("L".into(), layers as i64);
        let params = (0..layers)
            .flat_map(|layer| ["router", "gate", "up", "down"].map(|name| format!("layers.{layer}.{name}")));
        let bound = ModelBindings { dims, params: params.collect(), ..ModelBindings::default() };
        let model = lower_model(&program, "experts", &bound).expect("lowers");
        let steps: Vec<_> = model.steps.iter().map(optimise).collect();
        let mut weights = Weights::new();
        for param in steps[0].params() {
            weights.insert(param.name.clone(), weight(&mut random, format, &param.shape));
        }
        let dispatch = if off { BTreeMap::from([("all".into(), "off".into())]) } else { BTreeMap::new() };
        let options = LoadOptions { dispatch, ..LoadOptions::default() };
        let model = Arc::new(ModelGraph { name: "experts".into(), steps });
        let mut executor = CpuDevice::new(threads).load(model, weights, options).expect("loads");
        let session = SessionId(1);
        executor.open(session).expect("a new session");
        for &rows in &rows {
            let forest = Forest::single_chain(session, 0, rows).expect("a chain");
            let (mut best, mut busy) = (f64::INFINITY, f64::INFINITY);
            let mut all = Vec::new();
            let begun = Instant::now();
            while all.len() < 3 || (begun.elapsed().as_secs_f64() < 3.0 && all.len() < 200) {
                let x = (0..rows * 1024).map(|_| random.signed_unit()).collect();
                let (start, ran) = (Instant::now(), processor_seconds());
                executor.run(0, &forest, &[Values::F32(x)]).expect("runs");
                let seconds = start.elapsed().as_secs_f64();
                executor.discard(0, session).expect("open");
                best = best.min(seconds);
                busy = busy.min(processor_seconds() - ran);
                all.push(seconds);
            }
            all.sort_by(f64::total_cmp);
            let (least, median, busy) = (best * 1e3, all[all.len() / 2] * 1e3, busy * 1e3);
            println!(
                "{format}, {rows} rows, {threads} threads, {layers} layers: least {least:.2} ms, median {median:.2} ms of {}, \
                 of processors {busy:.2} ms",
                all.len()
            );
        }
    }
}
