//! Greedy tokens of the stories model under every contract.
//!
//! Under `f32` they are the reference implementation's. Where a contract allows rounding, the first difference may only
//! be a near-tie, measured by the oracle in f64.

use fiddlehead_engine::{ModelSource, Reference};
use fiddlehead_forest::{Class, SessionId};
use fiddlehead_plan::{Executor, Numerics};

use crate::{arg_max, executor, feed, feed_as, floats, folder, stories};

/// How far apart two logits may be that rounding may swap.
pub const NEAR_TIE: f64 = 0.25;

fn generate(executor: &mut dyn Executor, session: SessionId, prompt: &[u32], count: usize) -> Vec<u32> {
    executor.open(session).expect("it opens");
    let mut outputs = feed(executor, session, prompt);
    let mut tokens = Vec::new();
    loop {
        let rows = outputs[0].nodes.len();
        let logits = floats(&outputs[0]);
        let token = arg_max(&logits[logits.len() / rows * (rows - 1)..]) as u32;
        tokens.push(token);
        if tokens.len() == count {
            return tokens;
        }
        outputs = feed_as(executor, session, &[token], Class::Generated);
    }
}

/// By how much the most likely token after a path is ahead of `token`, by the reference interpreter.
fn lead_over(path: &[u32], token: u32) -> f64 {
    let reference = Reference::load(ModelSource::Path(&folder("stories-11m"))).expect("it loads");
    let logits = reference.logits(path, &[path.len() - 1]).expect("it runs").remove(0);
    logits.iter().copied().fold(f64::NEG_INFINITY, f64::max) - logits[token as usize]
}

#[test]
fn f32_gives_the_tokens_of_the_reference() {
    let mut executor = executor(&folder("stories-11m"), Numerics::F32);
    for (place, (prompt, greedy)) in stories().into_iter().enumerate() {
        let found = generate(executor.as_mut(), SessionId(place as u64), &prompt, greedy.len());
        assert_eq!(found, greedy, "prompt {place}");
    }
}

#[test]
fn roundings_move_near_ties_alone() {
    for numerics in [Numerics::Auto, Numerics::Strict] {
        let mut executor = executor(&folder("stories-11m"), numerics);
        for (place, (prompt, greedy)) in stories().into_iter().enumerate() {
            let found = generate(executor.as_mut(), SessionId(place as u64), &prompt, greedy.len());
            let differs = found.iter().zip(&greedy).position(|(found, wanted)| found != wanted);
            let Some(at) = differs else {
                println!("{numerics}, prompt {place}: all {} tokens are equal", greedy.len());
                continue;
            };
            let path: Vec<u32> = prompt.iter().chain(&greedy[..at]).copied().collect();
            let lead = lead_over(&path, found[at]);
            println!(
                "{numerics}, prompt {place}: token {at} is {}, not {}; a gap of {lead:.3}",
                found[at], greedy[at]
            );
            assert!(lead <= NEAR_TIE, "{numerics}, prompt {place}, token {at}: no near-tie, a gap of {lead}");
        }
    }
}

#[test]
fn the_oracle_agrees_which_token_leads() {
    let path = &stories()[0].0[..4];
    let mut executor = executor(&folder("stories-11m"), Numerics::F32);
    executor.open(SessionId(0)).expect("it opens");
    let outputs = feed(executor.as_mut(), SessionId(0), path);
    let logits = &floats(&outputs[0])[3 * (floats(&outputs[0]).len() / 4)..];
    let best = arg_max(logits);
    assert_eq!(lead_over(path, best as u32), 0.0);
    let other = (best + 1) % logits.len();
    let lead = f64::from(logits[best] - logits[other]);
    assert!((lead_over(path, other as u32) - lead).abs() < 1e-3 * f64::from(logits[best].abs()));
}
