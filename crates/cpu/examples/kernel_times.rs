//! Times the kernels: the least of many runs, one line each.
//!
//! `cargo run --release -p fiddlehead-cpu --example kernel_times [SUBJECT ...] [plain|avx2|avx512]`, with the subjects `peak`,
//! `pool`, `crowded`, `strided`, `contraction`, `blocks`, `cold`, `elementary`, `delta` and `attention`; all without arguments.

use fiddlehead_cpu::features::{Features, Isa};
use fiddlehead_cpu::kernels::attention::{
    AttentionArguments, HistoryPiece, PieceRows, ScoreTransform, attend,
};
use fiddlehead_cpu::kernels::brain::{BrainBuffer, contract_brain};
use fiddlehead_cpu::kernels::contraction::{ContractionScratch, contract, contract_parallel};
use fiddlehead_cpu::kernels::delta::block::{Ancestry, DeltaBlock};
use fiddlehead_cpu::kernels::delta::serial::{delta_chain, delta_step};
use fiddlehead_cpu::kernels::delta::{Decay, DeltaRows, Scalars, StateLayout};
use fiddlehead_cpu::kernels::integer::{IntegerScratch, RoundedBuffer, check, contract_integer};
use fiddlehead_cpu::kernels::rows;
use fiddlehead_cpu::kernels::strided::{StridedMatrix, StridedScratch, contract_strided};
use fiddlehead_cpu::kernels::views::{ActivationRows, OutputRows, WeightView};
use fiddlehead_cpu::pool::{Pool, Waiting};
use fiddlehead_storage::Format;
use std::hint::black_box;
use std::time::Instant;

/// The least seconds of `runs` calls, after one for warmth.
fn least(runs: usize, mut call: impl FnMut()) -> f64 {
    call();
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 7919) % 1009) as f32 / 1009.0 - 0.5).collect()
}

/// A contraction that lives in the first-level cache with the widest tile: what the multipliers reach at best.
fn peak(isa: Isa) {
    let (rows, outputs, length) = (6, 4, 1024);
    let weights = values(outputs * length);
    let weight = WeightView::values(&weights, outputs, length, length).unwrap();
    let x = values(rows * length);
    let activations = ActivationRows::new(&x, rows, length, length).unwrap();
    let mut y = vec![0f32; rows * outputs];
    let mut scratch = ContractionScratch::default();
    let seconds = least(3000, || {
        let mut output = OutputRows::new(&mut y, rows, outputs, outputs).unwrap();
        contract(isa, &weight, &activations, 0..outputs, &mut output, &mut scratch);
    });
    println!("peak {isa:?}: {:.1} GFLOP/s", 2.0 * (rows * outputs * length) as f64 / seconds / 1e9);
}

fn contractions(isa: Isa) {
    let shapes = [(1024, 256), (768, 256), (256, 768), (1600, 256)];
    for (outputs, length) in shapes {
        for rows in [1, 2, 4, 8, 16, 64, 512] {
            if rows > 1 && outputs == 768 {
                continue;
            }
            for format in [Format::F32, Format::BF16, Format::F16] {
                let bytes = vec![0u8; outputs * length * format.block_bytes()];
                let weight = WeightView::dense(format, &bytes, outputs, length).unwrap();
                let x = values(rows * length);
                let activations = ActivationRows::new(&x, rows, length, length).unwrap();
                let mut y = vec![0f32; rows * outputs];
                let mut scratch = ContractionScratch::default();
                let seconds = least(if rows > 64 { 30 } else { 200 }, || {
                    let mut output = OutputRows::new(&mut y, rows, outputs, outputs).unwrap();
                    contract(isa, &weight, &activations, 0..outputs, &mut output, &mut scratch);
                });
                black_box(&y);
                if isa == Isa::Avx512 && format == Format::BF16 && Features::detect().avx512_bf16 {
                    let mut rounded = BrainBuffer::default();
                    let seconds = least(if rows > 64 { 30 } else { 200 }, || {
                        let x = rounded.round(Features::detect(), &activations);
                        let mut output = OutputRows::new(&mut y, rows, outputs, outputs).unwrap();
                        contract_brain(Features::detect(), &weight, &x, 0..outputs, &mut output).unwrap();
                    });
                    println!(
                        "contract with bf16 activations {rows}x{outputs}x{length}: {:.2} us, {:.1} GFLOP/s",
                        seconds * 1e6,
                        2.0 * (rows * outputs * length) as f64 / seconds / 1e9
                    );
                }
                println!(
                    "contract {isa:?} {format:?} {rows}x{outputs}x{length}: {:.2} us, {:.1} GFLOP/s, weight {:.1} GB/s",
                    seconds * 1e6,
                    2.0 * (rows * outputs * length) as f64 / seconds / 1e9,
                    bytes.len() as f64 / seconds / 1e9
                );
            }
        }
    }
}

/// `a · b` with `b` read across its rows.
fn strided(isa: Isa) {
    for (rows, columns, length) in [(512, 512, 512), (64, 512, 512), (8, 512, 512), (300, 300, 300)] {
        let (a, b) = (values(rows * length), values(length * columns));
        let a = StridedMatrix::new(&a, [rows, length], [length, 1]).unwrap();
        let b = StridedMatrix::new(&b, [length, columns], [columns, 1]).unwrap();
        let mut y = vec![0f32; rows * columns];
        let mut scratch = StridedScratch::default();
        let seconds = least(60, || {
            let mut output = OutputRows::new(&mut y, rows, columns, columns).unwrap();
            contract_strided(isa, &a, &b, &mut output, &mut scratch);
        });
        let rate = 2.0 * (rows * columns * length) as f64 / seconds / 1e9;
        println!("strided {isa:?} {rows}x{columns}x{length}: {:.0} us, {rate:.0} GFLOP/s", seconds * 1e6);
    }
}

/// Weights in blocks, with f32 activations and with rounded ones; the single row also from 24 rotated copies.
fn blocks(isa: Isa) {
    let (outputs, length) = (1536, 768);
    for format in Format::ALL.iter().copied().filter(|format| format.block_elements() > 1) {
        let size = format.bytes_for(outputs * length).unwrap();
        let bytes = vec![0u8; size * 24];
        for (rows, copies) in [(1, 1), (1, 24), (2, 1), (4, 1), (8, 1), (64, 1), (512, 1)] {
            let x = values(rows * length);
            let activations = ActivationRows::new(&x, rows, length, length).unwrap();
            let mut y = vec![0f32; rows * outputs];
            let mut scratch = ContractionScratch::default();
            let runs = if rows > 64 { 10 } else { 60 };
            let weights: Vec<_> = bytes
                .chunks(size)
                .take(copies)
                .map(|copy| WeightView::dense(format, copy, outputs, length).unwrap())
                .collect();
            let each = 1e6 / copies as f64;
            let seconds = least(runs, || {
                for weight in &weights {
                    let mut output = OutputRows::new(&mut y, rows, outputs, outputs).unwrap();
                    contract(isa, weight, &activations, 0..outputs, &mut output, &mut scratch);
                }
            });
            let rates = |seconds: f64| {
                let (products, size) = (2.0 * (rows * outputs * length) as f64, size as f64);
                let [products, size] = [products, size].map(|count| count * copies as f64 / seconds / 1e9);
                format!("{products:.0} GFLOP/s, weight {size:.1} GB/s")
            };
            let name = format!("{isa:?} {format} {rows}x{outputs}x{length}, {copies} copies");
            println!("blocks {name}: {:.1} us, {}", seconds * each, rates(seconds));
            if isa == Isa::Avx512 && check(Features::detect(), format).is_ok() {
                let (mut buffer, mut scratch) = (RoundedBuffer::default(), IntegerScratch::default());
                let round = least(runs, || {
                    black_box(buffer.round(isa, &activations).unwrap());
                });
                let rounded = buffer.round(isa, &activations).unwrap();
                let seconds = least(runs, || {
                    for weight in &weights {
                        let mut output = OutputRows::new(&mut y, rows, outputs, outputs).unwrap();
                        let all = 0..outputs;
                        contract_integer(
                            Features::detect(),
                            weight,
                            &rounded,
                            all,
                            &mut output,
                            &mut scratch,
                        )
                        .unwrap();
                    }
                });
                println!(
                    "integer {name}: {:.1} us, {}; rounding {:.1} us",
                    seconds * each,
                    rates(seconds),
                    round * 1e6
                );
            }
            black_box(&y);
        }
    }
}

/// One decode step's worth of weights, rotated so that they come from beyond the private caches.
fn cold(isa: Isa) {
    let (outputs, length) = (1024, 256);
    for format in [Format::F32, Format::BF16] {
        for copies in [21, 42, 200] {
            let bytes = vec![1u8; copies * outputs * length * format.block_bytes()];
            let x = values(length);
            let activations = ActivationRows::new(&x, 1, length, length).unwrap();
            let mut y = vec![0f32; outputs];
            for threads in [1, 2] {
                let pool = Pool::new(threads);
                let mut scratches = vec![ContractionScratch::default(), ContractionScratch::default()];
                let seconds = least(40, || {
                    for copy in bytes.chunks(outputs * length * format.block_bytes()) {
                        let weight = WeightView::dense(format, copy, outputs, length).unwrap();
                        let mut output = OutputRows::new(&mut y, 1, outputs, outputs).unwrap();
                        contract_parallel(&pool, isa, &weight, &activations, &mut output, &mut scratches);
                    }
                });
                println!(
                    "cold {isa:?} {format:?} 1x{outputs}x{length}, {:.0} MB rotated, {threads} threads: {:.2} us each, {:.1} GB/s",
                    bytes.len() as f64 / 1e6,
                    seconds * 1e6 / copies as f64,
                    bytes.len() as f64 / seconds / 1e9
                );
            }
        }
    }
}

fn regions() {
    for threads in [1, 2] {
        let pool = Pool::new(threads);
        let seconds = least(200, || {
            for _ in 0..200 {
                pool.run(2, |task, _| {
                    black_box(task);
                });
            }
        });
        println!("pool {threads} threads: {:.0} ns an empty region", seconds * 1e9 / 200.0);
        for spins in [100u32, 400, 1600] {
            let task = || {
                (0..spins).for_each(|spin| {
                    black_box(spin);
                })
            };
            let alone = least(500, || {
                task();
                task();
            });
            let seconds = least(200, || {
                for _ in 0..100 {
                    pool.run(2, |_, _| task());
                }
            }) / 100.0;
            println!("pool {threads} threads, two tasks of {:.0} ns: {:.0} ns", alone * 0.5e9, seconds * 1e9);
        }
    }
}

/// A decode step's worth of regions under each rule of waiting, in turn: run it where other work wants the cores, or with
/// `taskset -c 0` where two threads share one.
fn crowded() {
    const ROUNDS: usize = 40;
    const REGIONS: usize = 200;
    let here = Waiting::here();
    let rules = [
        ("the rule", 2, here),
        ("without pauses", 2, Waiting { pauses: false, ..here }),
        ("always spinning", 2, Waiting { cores: usize::MAX, pauses: false }),
        ("one thread", 1, here),
    ];
    let pools = rules.map(|(_, threads, waiting)| Pool::with_waiting(threads, waiting));
    let mut times = rules.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for place in 0..rules.len() {
            let place = if round % 2 == 0 { place } else { rules.len() - 1 - place };
            let start = Instant::now();
            for _ in 0..REGIONS {
                pools[place].run(2, |_, _| {
                    (0..6000).for_each(|spin| {
                        black_box(spin);
                    })
                });
            }
            times[place].push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    for ((name, ..), times) in rules.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let [median, ninth] = [times.len() / 2, times.len() * 9 / 10].map(|at| times[at]);
        println!(
            "crowded, {} cores, {name}: {median:.2} ms for {REGIONS} regions, p90 {ninth:.2}",
            here.cores
        );
    }
}

fn elementary(isa: Isa) {
    let count = 4096;
    let input: Vec<f32> = values(count).iter().map(|x| x * 8.0 + 4.5).collect();
    let mut output = vec![0.0; count];
    type Slice = fn(Isa, &[f32], &mut [f32]);
    let all: [(&str, Slice); 9] = [
        ("exp", rows::exp_slice),
        ("log", rows::log_slice),
        ("sin", rows::sin_slice),
        ("cos", rows::cos_slice),
        ("tanh", rows::tanh_slice),
        ("sigmoid", rows::sigmoid_slice),
        ("silu", rows::silu_slice),
        ("softplus", rows::softplus_slice),
        ("rsqrt", rows::rsqrt_slice),
    ];
    for (name, slice) in all {
        let seconds = least(300, || slice(isa, &input, &mut output));
        println!("{name} {isa:?}: {:.3} ns an element", seconds * 1e9 / count as f64);
    }
}

fn delta(isa: Isa) {
    let (keys, width) = (128, 128);
    for layout in [StateLayout::KeyMajor, StateLayout::ValueMajor] {
        for nodes in [1, 8, 16, 32, 64, 128] {
            let scale = |values: Vec<f32>| values.iter().map(|x| x * 0.1).collect::<Vec<_>>();
            let (q, k, v) = (scale(values(nodes * keys)), scale(values(nodes * keys)), values(nodes * width));
            let (decay, beta) = (vec![-0.1; nodes], vec![0.5; nodes]);
            let rows = DeltaRows {
                queries: ActivationRows::new(&q, nodes, keys, keys).unwrap(),
                keys: ActivationRows::new(&k, nodes, keys, keys).unwrap(),
                values: ActivationRows::new(&v, nodes, width, width).unwrap(),
                decay: Decay::Log(Scalars { values: &decay, stride: 1 }),
                beta: Some(Scalars { values: &beta, stride: 1 }),
            };
            let mut state = vec![0.1; keys * width];
            let mut child = state.clone();
            let mut outputs = vec![0.0; nodes * width];
            let chain = least(200, || {
                let mut view = OutputRows::new(&mut outputs, nodes, width, width).unwrap();
                delta_chain(isa, layout, &rows, &mut state, &mut view);
            });
            let parent = vec![0.1; keys * width];
            let step = least(200, || {
                let mut view = OutputRows::new(&mut outputs, nodes, width, width).unwrap();
                delta_step(isa, layout, &rows, 0, &parent, &mut child, &mut view);
            });
            let mut block = DeltaBlock::default();
            let path: Vec<usize> = (0..nodes).collect();
            let solve = least(200, || {
                let mut view = OutputRows::new(&mut outputs, nodes, width, width).unwrap();
                block.solve(isa, layout, &rows, Ancestry::Chain, Some(&parent), &mut view).unwrap();
            });
            let commit = least(200, || block.commit(isa, &path, Some(&parent), &mut child));
            println!(
                "delta {isa:?} {layout:?} {keys}x{width}, {nodes} nodes: chain {:.2} us a node, step {:.2} us, block {:.2} us a node ({:.1} solve + {:.1} commit)",
                chain * 1e6 / nodes as f64,
                step * 1e6,
                (solve + commit) * 1e6 / nodes as f64,
                solve * 1e6,
                commit * 1e6
            );
        }
    }
}

fn attention(isa: Isa) {
    let (heads, dim) = (2, 128);
    for (depth, query_rows) in [(64, 1), (512, 1), (4096, 1), (64, 64), (512, 512), (2048, 512)] {
        let (keys, values_) = (values(depth * dim), values(depth * dim));
        let queries = values(query_rows * heads * dim);
        let history = [HistoryPiece {
            keys: &keys,
            key_stride: dim,
            values: &values_,
            value_stride: dim,
            rows: PieceRows::Run { first: 0, count: depth },
        }];
        let arguments = AttentionArguments {
            queries: &queries,
            query_rows,
            query_row_stride: heads * dim,
            heads,
            query_head_stride: dim,
            key_dim: dim,
            value_dim: dim,
            history: &history,
            first_key_depth: 0,
            first_query_depth: depth - query_rows,
            window: None,
            transform: ScoreTransform::Scale(0.088),
            sinks: None,
        };
        let mut outputs = vec![0.0; query_rows * heads * dim];
        let seconds = least(50, || {
            let mut view = OutputRows::new(&mut outputs, query_rows, heads * dim, heads * dim).unwrap();
            attend(isa, &arguments, &mut view);
        });
        let met: usize = (0..query_rows).map(|row| depth - query_rows + row + 1).sum();
        println!(
            "attention {isa:?} {query_rows} rows x {heads} heads x {dim} to depth {depth}: {:.1} us, {:.1} GFLOP/s, history {:.1} GB/s",
            seconds * 1e6,
            4.0 * (met * heads * dim) as f64 / seconds / 1e9,
            (depth * dim * 8) as f64 / seconds / 1e9
        );
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let families: Vec<Isa> = Features::detect().usable().collect();
    let named: Vec<Isa> = families
        .iter()
        .copied()
        .filter(|isa| wanted.iter().any(|word| word.eq_ignore_ascii_case(&format!("{isa:?}"))))
        .collect();
    let subjects: Vec<&String> = wanted
        .iter()
        .filter(|word| !families.iter().any(|isa| word.eq_ignore_ascii_case(&format!("{isa:?}"))))
        .collect();
    let chosen = |name: &str| subjects.is_empty() || subjects.iter().any(|word| *word == name);
    if chosen("pool") {
        regions();
    }
    if chosen("crowded") {
        crowded();
    }
    for isa in if named.is_empty() { families } else { named } {
        type Subject = (&'static str, fn(Isa));
        let all: [Subject; 8] = [
            ("strided", strided),
            ("peak", peak),
            ("contraction", contractions),
            ("blocks", blocks),
            ("cold", cold),
            ("elementary", elementary),
            ("delta", delta),
            ("attention", attention),
        ];
        for (name, subject) in all {
            if chosen(name) {
                subject(isa);
            }
        }
    }
}
