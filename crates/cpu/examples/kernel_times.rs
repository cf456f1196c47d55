//! Times the kernels: the least of many runs, one line each. `cargo run --release -p fiddlehead-cpu --example kernel_times`.

use fiddlehead_cpu::features::{Features, Isa};
use fiddlehead_cpu::kernels::contraction::{ContractionScratch, contract, contract_parallel};
use fiddlehead_cpu::kernels::views::{ActivationRows, OutputRows, WeightFormat, WeightView};
use fiddlehead_cpu::pool::Pool;
use std::hint::black_box;
use std::time::Instant;

/// The least seconds of `runs` calls.
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

fn contractions(isa: Isa) {
    for (rows, outputs, length) in [
        (1, 1024, 256),
        (1, 768, 256),
        (1, 256, 768),
        (1, 1600, 256),
        (2, 1024, 256),
        (4, 1024, 256),
        (8, 1024, 256),
        (16, 1024, 256),
        (64, 1024, 256),
        (512, 1024, 256),
        (512, 256, 768),
    ] {
        for (format, name) in
            [(WeightFormat::F32, "f32"), (WeightFormat::Bf16, "bf16"), (WeightFormat::F16, "f16")]
        {
            let bytes = vec![0u8; outputs * length * format.bytes()];
            let weight = WeightView::dense(format, &bytes, outputs, length).unwrap();
            let x = values(rows * length);
            let activations = ActivationRows::new(&x, rows, length, length).unwrap();
            let mut y = vec![0f32; rows * outputs];
            let mut scratch = ContractionScratch::default();
            let seconds = least(200, || {
                let mut output = OutputRows::new(&mut y, rows, outputs, outputs).unwrap();
                contract(isa, &weight, &activations, 0..outputs, &mut output, &mut scratch);
            });
            black_box(&y);
            println!(
                "contract {isa:?} {name} {rows}x{outputs}x{length}: {:.2} us, {:.1} GFLOP/s, weight {:.1} GB/s",
                seconds * 1e6,
                2.0 * (rows * outputs * length) as f64 / seconds / 1e9,
                bytes.len() as f64 / seconds / 1e9
            );
        }
    }
}

fn regions() {
    for threads in [1, 2] {
        let pool = Pool::new(threads);
        let seconds = least(50, || {
            for _ in 0..200 {
                pool.run(threads, |task, _| {
                    black_box(task);
                });
            }
        }) / 200.0;
        println!("pool {threads} threads: {:.0} ns a region", seconds * 1e9);
        let (outputs, length) = (1024, 256);
        let bytes = vec![0u8; outputs * length * 2];
        let weight = WeightView::dense(WeightFormat::Bf16, &bytes, outputs, length).unwrap();
        let x = values(length);
        let activations = ActivationRows::new(&x, 1, length, length).unwrap();
        let mut y = vec![0f32; outputs];
        let mut scratches = vec![ContractionScratch::default(), ContractionScratch::default()];
        let seconds = least(200, || {
            for _ in 0..20 {
                let mut output = OutputRows::new(&mut y, 1, outputs, outputs).unwrap();
                contract_parallel(
                    &pool,
                    Features::detect().isa,
                    &weight,
                    &activations,
                    &mut output,
                    &mut scratches,
                );
            }
        }) / 20.0;
        println!("pool {threads} threads, 1x{outputs}x{length} bf16: {:.2} us", seconds * 1e6);
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if chosen("pool") {
        regions();
    }
    for isa in Features::detect().usable().collect::<Vec<_>>().into_iter().rev() {
        if chosen("contraction") {
            contractions(isa);
        }
    }
}
