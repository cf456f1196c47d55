//! Logits under `f32`, within 1e-3 of the greatest magnitude.

use std::path::Path;

use fiddlehead_forest::{Class, SessionId};
use fiddlehead_plan::{Numerics, Values};

use crate::{arg_max, array, chain, executor, feed, feed_as, floats, folder, stories};

/// The bound, relative to the greatest wanted magnitude of the row.
const BOUND: f32 = 1e-3;

/// The worst error of a row relative to its greatest wanted magnitude.
fn error(found: &[f32], wanted: &[f32]) -> f32 {
    assert_eq!(found.len(), wanted.len());
    let scale = wanted.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
    found.iter().zip(wanted).fold(0.0f32, |error, (a, b)| error.max((a - b).abs())) / scale
}

#[test]
fn stories_and_its_draft_head() {
    let folder = folder("stories-11m");
    let mut executor = executor(&folder, Numerics::F32);
    let draft = executor.model().steps.iter().position(|step| step.name() == "mtp").expect("a draft head");
    let golden = folder.join("golden_logits.npz");
    let mut worst = 0.0f32;
    for (place, (prompt, greedy)) in stories().into_iter().enumerate() {
        let (logits, shape) = array::<f32>(&golden, &format!("logits_{}", place + 1));
        let [count, vocabulary] = shape[..] else { panic!("{shape:?}") };
        let tokens: Vec<u32> = prompt.into_iter().chain(greedy).collect();
        let session = SessionId(place as u64);
        executor.open(session).expect("it opens");
        let outputs = feed(executor.as_mut(), session, &tokens[..count]);
        for (found, wanted) in floats(&outputs[0]).chunks(vocabulary).zip(logits.chunks(vocabulary)) {
            worst = worst.max(error(found, wanted));
        }

        // The head reads the hidden value at a node and the token after it.
        let forest = chain(session, 0, count, Class::Prompt);
        let inputs = [
            Values::Id(tokens[1..=count].to_vec()),
            outputs[1].values.clone(),
            Values::I32(forest.depths().to_vec()),
        ];
        let drafts = executor.run(draft, &forest, &inputs).expect("it runs");
        let (wanted, _) = array::<f32>(&golden, &format!("mtp_logits_{}", place + 1));
        let rows = floats(&drafts[0]).chunks(vocabulary).zip(wanted.chunks(vocabulary));
        for (position, (found, wanted)) in rows.enumerate() {
            assert_eq!(arg_max(found), arg_max(wanted), "prompt {place}, position {position} of the head");
        }
    }
    println!("worst error of the logits: {worst:.2e} of the greatest magnitude");
    assert!(worst <= BOUND, "{worst}");
}

/// A tiny checkpoint of random weights: every architecture through the whole system, all tokens at once and one by one.
fn tiny(name: &str) {
    let folder = folder("tiny").join(name);
    compare(name, &folder, &folder);
    let file = folder.join("model.gguf");
    if file.exists() {
        compare(name, &folder, &file);
    }
}

fn compare(name: &str, folder: &Path, path: &Path) {
    let mut executor = executor(path, Numerics::F32);
    let golden = folder.join("golden.npz");
    let (tokens, shape) = array::<i32>(&golden, "tokens");
    let (positions, _) = array::<i64>(&golden, "positions");
    let (logits, _) = array::<f32>(&golden, "logits");
    let (rows, length) = (shape[0], shape[1]);
    let vocabulary = logits.len() / rows / positions.len();
    for row in 0..rows {
        let tokens: Vec<u32> = tokens[row * length..][..length].iter().map(|&token| token as u32).collect();
        let (prompt, generated) = (SessionId(2 * row as u64), SessionId(2 * row as u64 + 1));
        executor.open(prompt).expect("it opens");
        executor.open(generated).expect("it opens");
        let outputs = feed(executor.as_mut(), prompt, &tokens);
        let at_once = floats(&outputs[0]);
        let mut one_by_one = Vec::new();
        for token in tokens {
            let outputs = feed_as(executor.as_mut(), generated, &[token], Class::Generated);
            one_by_one.extend_from_slice(floats(&outputs[0]));
        }
        for (way, found) in [("all at once", at_once), ("one by one", &one_by_one)] {
            for (place, &position) in positions.iter().enumerate() {
                let found = &found[position as usize * vocabulary..][..vocabulary];
                let wanted = &logits[(row * positions.len() + place) * vocabulary..][..vocabulary];
                let error = error(found, wanted);
                assert!(
                    error <= BOUND,
                    "{name}, {}, row {row}, position {position}, {way}: {error}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn tiny_qwen3_5() {
    tiny("qwen3_5");
}

#[test]
fn tiny_llama() {
    tiny("llama");
}

#[test]
fn tiny_qwen2() {
    tiny("qwen2");
}

#[test]
fn tiny_mistral() {
    tiny("mistral");
}

#[test]
fn tiny_qwen3() {
    tiny("qwen3");
}

#[test]
fn tiny_qwen3_moe() {
    tiny("qwen3_moe");
}

#[test]
fn tiny_gemma3() {
    tiny("gemma3");
}

#[test]
fn tiny_qwen3_5_moe() {
    tiny("qwen3_5_moe");
}

#[test]
fn tiny_qwen3_next() {
    tiny("qwen3_next");
}
