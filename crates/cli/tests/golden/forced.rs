//! Golden tokens forced through the files that another project converted and quantised.
//!
//! At nearly every place the most likely token is the golden one, and wherever it is not, the reference interpreter, in
//! f64 on the weights of that file, holds the two for a near-tie.

use std::path::{Path, PathBuf};

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_engine::{Model, ModelOptions, ModelSource, Reference, ScoredPath, TokenScore, score};
use fiddlehead_plan::{LoadOptions, Numerics};

use crate::greedy::NEAR_TIE;
use crate::{fixtures, stories};

/// The least part of the places where the golden token must be the most likely one.
const AGREEMENT: f64 = 0.95;

fn load(path: &Path, numerics: Numerics) -> Model {
    let options =
        ModelOptions { load: LoadOptions { numerics, ..LoadOptions::default() }, ..ModelOptions::default() };
    Model::load(ModelSource::Path(path), &CpuDevice::new(1), &options).expect("it loads")
}

fn forced(model: &mut Model, prompt: &[u32], golden: &[u32]) -> Vec<TokenScore> {
    let path = ScoredPath { prompt, generated: golden, from: prompt.len() };
    let mut scores = Vec::new();
    score(model, path, &mut || true, &mut |score| scores.push(score)).expect("it scores");
    assert_eq!(scores.len(), golden.len());
    scores
}

/// The file, where the folder of files that are not tracked is given.
fn file(name: &str) -> Option<PathBuf> {
    let path = fixtures().map(|folder| folder.join("stories-11m").join(name));
    if path.is_none() {
        println!("{name}: skipped, the fixtures' folder is not given");
    }
    path
}

fn agrees(name: &str, contracts: &[Numerics]) {
    let Some(path) = file(name) else { return };
    let reference = Reference::load(ModelSource::Path(&path)).expect("it loads");
    for &numerics in contracts {
        let mut model = load(&path, numerics);
        let (mut places, mut agreeing, mut greatest) = (0, 0, 0.0f64);
        for (place, (prompt, golden)) in stories().into_iter().enumerate() {
            let scores = forced(&mut model, &prompt, &golden);
            let differing: Vec<&TokenScore> =
                scores.iter().filter(|score| score.best != score.token).collect();
            places += scores.len();
            agreeing += scores.len() - differing.len();
            let rows: Vec<usize> = differing.iter().map(|score| score.position - 1).collect();
            let tokens = [prompt, golden].concat();
            let rows = reference.logits(&tokens, &rows).expect("it runs");
            for (score, row) in differing.into_iter().zip(rows) {
                let first = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let gap = first - row[score.token as usize].min(row[score.best as usize]);
                let at = score.position;
                println!("{name}, {numerics}, prompt {place}, position {at}: a gap of {gap:.4}");
                assert!(
                    gap <= NEAR_TIE,
                    "{name}, {numerics}, prompt {place}, position {at}: no near-tie, {gap}"
                );
                greatest = greatest.max(gap);
            }
        }
        println!(
            "{name}, {numerics}: {agreeing} of {places} places agree, the greatest gap is {greatest:.4}"
        );
        assert!(agreeing as f64 >= AGREEMENT * places as f64, "{name}, {numerics}: {agreeing} of {places}");
    }
}

#[test]
fn stories_bf16_under_f32_has_the_golden_tokens() {
    let Some(path) = file("stories-bf16.gguf") else { return };
    let mut model = load(&path, Numerics::F32);
    for (place, (prompt, golden)) in stories().into_iter().enumerate() {
        let best: Vec<u32> = forced(&mut model, &prompt, &golden).iter().map(|score| score.best).collect();
        assert_eq!(best, golden, "prompt {place}");
    }
}

#[test]
fn stories_bf16() {
    agrees("stories-bf16.gguf", &[Numerics::Auto, Numerics::Strict]);
}

#[test]
fn stories_q8_0() {
    agrees("stories-q8_0.gguf", &[Numerics::F32, Numerics::Auto, Numerics::Strict]);
}

#[test]
fn scores_are_those_of_the_reference_implementation() {
    let folder = crate::folder("stories-11m");
    let mut model = load(&folder, Numerics::F32);
    let golden = folder.join("golden_logits.npz");
    for (place, (prompt, greedy)) in stories().into_iter().enumerate() {
        let (logits, shape) = crate::array::<f32>(&golden, &format!("logits_{}", place + 1));
        let [count, vocabulary] = shape[..] else { panic!("{shape:?}") };
        let tokens = &[prompt, greedy].concat()[..=count];
        let path = ScoredPath { prompt: tokens, generated: &[], from: 1 };
        let mut scores = Vec::new();
        score(&mut model, path, &mut || true, &mut |score| scores.push(score)).expect("it scores");
        assert_eq!(scores.len(), count);
        for (score, row) in scores.iter().zip(logits.chunks(vocabulary)) {
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            let wanted = f64::from(row[tokens[score.position] as usize]) - sum.ln();
            let error = (score.log_probability - wanted).abs();
            assert!(error < 2e-2 * wanted.abs().max(1.0), "prompt {place}, {score:?}: {wanted} is wanted");
        }
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / count as f64;
        let found = mean(&mut scores.iter().map(|score| score.log_probability));
        let wanted = mean(&mut logits.chunks(vocabulary).zip(&tokens[1..]).map(|(row, &token)| {
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            f64::from(row[token as usize]) - sum.ln()
        }));
        assert!((found - wanted).abs() < 1e-3, "prompt {place}: {found}, not {wanted}");
    }
}
