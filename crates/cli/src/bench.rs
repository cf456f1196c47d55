//! `fiddlehead bench`: how fast a model reads prompts and generates, in the manner of llama-bench.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use fiddlehead_engine::{Model, PathCounts, Prepared, Sampling, Session, TokenChoice};
use serde_json::json;

use crate::arguments::BenchArguments;
use crate::failure::usage;
use crate::random::Random;
use crate::statistics::mean_and_deviation;
use crate::{device, kernels, memory, output};

/// Tokens of the generation that warms up.
const WARM_UP: usize = 16;

/// Tokens a second of each repetition.
#[derive(Default)]
struct Samples {
    prefill: Vec<f64>,
    decode: Vec<f64>,
}

/// Measures a model.
///
/// # Errors
/// Whatever keeps it from loading or running.
pub fn bench(arguments: &BenchArguments) -> Result<ExitCode> {
    if arguments.profile {
        let prepared = Prepared::open(device::source(arguments.model.model.as_deref()))?;
        let options = device::load_options(&arguments.device);
        let Prepared { graphs, weights, .. } = &prepared;
        let device = device::cuda(&arguments.device)?;
        let times = device.time_step(&graphs.steps[0], weights, &options, 1, 50)?;
        return kernels::print_profile(&device, &times, arguments.json).map(|()| ExitCode::SUCCESS);
    }
    let device = device::device(&arguments.device)?;
    let described = device.describe();
    let mut model = device::load_on(device.as_ref(), &arguments.model, &arguments.device, arguments.json)?;
    let context = model.context();
    if arguments.prompt.max(arguments.generate) > context {
        return Err(usage(format!(
            "the context holds {context} tokens; ask for fewer, or give a longer --context"
        )));
    }
    if arguments.prompt == 0 && arguments.generate == 0 {
        return Err(usage("there is nothing to measure: --prompt and --generate are both 0"));
    }
    let samples = measure(&mut model, arguments)?;
    let peak = memory::peak_bytes();
    if arguments.json {
        output::print_line(&json(&model, arguments, &described, &samples, peak).to_string())?;
    } else {
        output::print(&table(&model, arguments, &described, &samples, peak))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(model: &mut Model, arguments: &BenchArguments) -> Result<Samples> {
    let mut random = Random::new(1);
    prefill(model, arguments.prompt, &mut random)?;
    decode(model, arguments.generate.min(WARM_UP), &mut random)?;
    let mut samples = Samples::default();
    for _ in 0..arguments.repetitions {
        samples.prefill.extend(prefill(model, arguments.prompt, &mut random)?);
        samples.decode.extend(decode(model, arguments.generate, &mut random)?);
    }
    Ok(samples)
}

/// Tokens a second of a prompt in an empty session; `None` for no tokens.
fn prefill(model: &mut Model, count: usize, random: &mut Random) -> Result<Option<f64>> {
    if count == 0 {
        return Ok(None);
    }
    let tokens: Vec<u32> = (0..count).map(|_| token(model, random)).collect();
    let path = PathCounts::default();
    let mut session = Session::open(model)?;
    let started = Instant::now();
    session.prompt_and_choose(model, &tokens, &greedy(&path), &mut || true)?;
    let seconds = started.elapsed().as_secs_f64();
    session.close(model)?;
    Ok(Some(count as f64 / seconds))
}

/// Tokens a second of steps in an empty session; `None` for no tokens.
fn decode(model: &mut Model, count: usize, random: &mut Random) -> Result<Option<f64>> {
    if count == 0 {
        return Ok(None);
    }
    let path = PathCounts::default();
    let mut session = Session::open(model)?;
    let started = Instant::now();
    for _ in 0..count {
        let token = token(model, random);
        session.step_and_choose(model, token, &greedy(&path))?;
    }
    let seconds = started.elapsed().as_secs_f64();
    session.close(model)?;
    Ok(Some(count as f64 / seconds))
}

/// Every measured run ends in a choice, as those of an answer do; which token it is does not matter here.
fn greedy(path: &PathCounts) -> TokenChoice<'_> {
    TokenChoice { sampling: Sampling::GREEDY, seed: 0, answer: 0, position: 0, path }
}

fn token(model: &Model, random: &mut Random) -> u32 {
    random.below(model.interface().vocabulary() as u32)
}

fn json(
    model: &Model,
    arguments: &BenchArguments,
    device: &str,
    samples: &Samples,
    peak: Option<u64>,
) -> serde_json::Value {
    let (prefill, decode) = (mean_and_deviation(&samples.prefill), mean_and_deviation(&samples.decode));
    let memory = model.executor().memory();
    json!({
        "model": device::name(arguments.model.model.as_deref()),
        "prompt_tokens": arguments.prompt,
        "generated_tokens": arguments.generate,
        "repetitions": arguments.repetitions,
        "threads": device::threads(&arguments.device),
        "numerics": arguments.device.numerics.to_string(),
        "device": device,
        "cpu_features": device::features(&arguments.device),
        "version": env!("CARGO_PKG_VERSION"),
        "prefill_tokens_per_second": prefill.map(|(mean, _)| mean),
        "prefill_deviation": prefill.map(|(_, deviation)| deviation),
        "decode_tokens_per_second": decode.map(|(mean, _)| mean),
        "decode_deviation": decode.map(|(_, deviation)| deviation),
        "load_seconds": model.timings().load_seconds,
        "plan_seconds": model.timings().plan_seconds,
        "peak_memory_bytes": peak,
        "memory": {
            "weights": memory.weights,
            "mirrors": memory.mirrors,
            "scratch": memory.scratch,
            "sessions": memory.sessions,
        },
        "samples": { "prefill": samples.prefill, "decode": samples.decode },
    })
}

fn table(
    model: &Model,
    arguments: &BenchArguments,
    device: &str,
    samples: &Samples,
    peak: Option<u64>,
) -> String {
    let name = device::name(arguments.model.model.as_deref());
    let mut text = format!("{name} | {device} | numerics {}\n\n", arguments.device.numerics);
    let tests =
        [("prompt", arguments.prompt, &samples.prefill), ("generate", arguments.generate, &samples.decode)];
    text += "| test          |            tok/s |\n|---------------|-----------------:|\n";
    for (test, count, samples) in tests {
        if let Some((mean, deviation)) = mean_and_deviation(samples) {
            let rate = format!("{mean:.1} ± {deviation:.1}");
            text += &format!("| {test:<8} {count:>4} | {rate:>16} |\n");
        }
    }
    let timings = model.timings();
    let mebibytes = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let peak = peak.map(|bytes| format!(", peak memory {:.0} MiB", mebibytes(bytes))).unwrap_or_default();
    text + &format!("\nload {:.3} s, plan {:.1} ms{peak}\n", timings.load_seconds, timings.plan_seconds * 1e3)
}
