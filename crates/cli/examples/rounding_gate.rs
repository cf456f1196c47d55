//! Measures a checkpoint gate: what a contraction that rounds its operands does to a checkpoint's distributions.
//!
//! `cargo run --release -p fiddlehead-cli --example rounding_gate -- CANDIDATE MODEL TEXT [POSITIONS]` feeds a text to
//! the model once with f32 arithmetic and once with the candidate (`integer`, `bf16`) in every contraction that it can
//! serve, and prints the numbers of a [`fiddlehead_plan::Gate`] and whether it passes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_cpu::features::Features;
use fiddlehead_cpu::kernels::{brain, integer};
use fiddlehead_engine::{Model, ModelOptions, ModelSource, Prepared};
use fiddlehead_forest::{Class, ForestBuilder, SessionId, Wanted};
use fiddlehead_plan::{Device, Executor, Gate, LoadOptions, Numerics, Values};

/// Positions of one run: few, since each has a row of logits.
const CHUNK: usize = 32;
/// Positions after which a new session begins, so that each sees a context of ordinary length.
const CONTEXT: usize = 512;
const SESSION: SessionId = SessionId(0);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [candidate, model, text, rest @ ..] = &arguments[..] else {
        bail!("usage: rounding_gate CANDIDATE MODEL TEXT [POSITIONS]");
    };
    let most =
        rest.first().map_or(Ok(usize::MAX), |count| count.parse()).context("POSITIONS is no number")?;
    let path = Path::new(model);
    let device = CpuDevice::new(2);
    let tokens = {
        let text = std::fs::read_to_string(text).with_context(|| text.clone())?;
        let options = ModelOptions { context: Some(CHUNK), ..ModelOptions::default() };
        Model::load(ModelSource::Path(path), &device, &options)?.encode_raw(&text)?
    };
    let tokens = &tokens[..tokens.len().min(most)];
    let formats = formats(path, candidate, device.features())?;
    let mut exact = load(path, &device, Numerics::F32, None)?;
    let mut rounded = load(path, &device, Numerics::Auto, Some(candidate))?;
    let served = rounded.explain(0)?.steps.iter().filter(|step| step.candidate == *candidate).count();
    ensure!(served > 0, "`{candidate}` serves nothing in {model}");

    let mut sums = Sums::default();
    for part in tokens.chunks(CONTEXT) {
        exact.open(SESSION)?;
        rounded.open(SESSION)?;
        for (at, tokens) in part.chunks(CHUNK).enumerate() {
            let [exact, rounded] =
                [&mut exact, &mut rounded].map(|executor| feed(executor.as_mut(), at * CHUNK, tokens));
            sums.add(&exact?, &rounded?, tokens.len());
        }
        exact.close(SESSION)?;
        rounded.close(SESSION)?;
    }
    let gate = Gate {
        candidate: "",
        architecture: "",
        formats: &[],
        checkpoint: "",
        positions: sums.positions,
        agreeing: sums.agreeing,
        mean_divergence: sums.divergence / sums.positions as f64,
        greatest_gap: sums.gap,
    };
    println!("{candidate}, {}, [{formats}], {model}{gate}", exact.model().name);
    println!("greatest divergence {:.1e} nats, gaps of disagreements {:.3?}", sums.greatest, sums.gaps);
    println!("{}", if gate.passes() { "passes" } else { "refused" });
    Ok(())
}

/// The formats of the checkpoint's weights that the candidate can serve.
fn formats(path: &Path, candidate: &str, features: Features) -> Result<String> {
    let weights = Prepared::new(&Checkpoint::open(path)?)?.weights;
    let serves = |format| match candidate {
        "bf16" => brain::check(features, format).is_ok(),
        _ => integer::check(features, format).is_ok(),
    };
    let formats: BTreeSet<&str> = weights
        .values()
        .map(|tensor| tensor.format())
        .filter(|&format| serves(format))
        .map(|format| format.name())
        .collect();
    Ok(formats.into_iter().collect::<Vec<_>>().join(", "))
}

fn load(
    path: &Path,
    device: &CpuDevice,
    numerics: Numerics,
    candidate: Option<&str>,
) -> Result<Box<dyn Executor>> {
    let Prepared { graphs, weights, .. } = Prepared::new(&Checkpoint::open(path)?)?;
    let dispatch = candidate.map(|name| ("contraction".to_owned(), name.to_owned())).into_iter().collect();
    let options = LoadOptions { numerics, dispatch, context: CONTEXT, uploads: None };
    Ok(device.load(Arc::new(graphs), weights, options)?)
}

/// Logits after each of the tokens.
fn feed(executor: &mut dyn Executor, base: usize, tokens: &[u32]) -> Result<Vec<f32>> {
    let mut builder = ForestBuilder::new();
    builder.segment(SESSION, base)?.chain(tokens.len(), Class::Prompt, Wanted::ALL, Wanted::ALL)?;
    let forest = builder.build()?;
    let inputs = [Values::Id(tokens.to_vec()), Values::I32(forest.depths().to_vec())];
    let mut outputs = executor.run(0, &forest, &inputs)?;
    executor.commit(0, &forest.accept_all(0)?)?;
    match outputs.swap_remove(0).values {
        Values::F32(logits) => Ok(logits),
        other => bail!("logits of {:?}", other.element()),
    }
}

#[derive(Default)]
struct Sums {
    positions: usize,
    agreeing: usize,
    divergence: f64,
    greatest: f64,
    gap: f64,
    gaps: Vec<f64>,
}

impl Sums {
    fn add(&mut self, exact: &[f32], rounded: &[f32], rows: usize) {
        let vocabulary = exact.len() / rows;
        for (exact, rounded) in exact.chunks(vocabulary).zip(rounded.chunks(vocabulary)) {
            let (best, other) = (arg_max(exact), arg_max(rounded));
            self.positions += 1;
            self.agreeing += usize::from(best == other);
            if best != other {
                let gap = f64::from(exact[best]) - f64::from(exact[other]);
                self.gap = self.gap.max(gap);
                self.gaps.push(gap);
            }
            let divergence = divergence(exact, rounded);
            self.divergence += divergence;
            self.greatest = self.greatest.max(divergence);
        }
    }
}

fn arg_max(row: &[f32]) -> usize {
    row.iter().enumerate().fold(0, |best, (at, value)| if *value > row[best] { at } else { best })
}

/// The Kullback-Leibler divergence of the distribution of `other` from that of `row`, in nats.
fn divergence(row: &[f32], other: &[f32]) -> f64 {
    let normaliser = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        f64::from(most) + row.iter().map(|value| f64::from(value - most).exp()).sum::<f64>().ln()
    };
    let (own, others) = (normaliser(row), normaliser(other));
    row.iter()
        .zip(other)
        .map(|(&a, &b)| {
            let (a, b) = (f64::from(a) - own, f64::from(b) - others);
            a.exp() * (a - b)
        })
        .sum()
}
