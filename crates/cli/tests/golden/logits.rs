//! Logits under `f32`, within 1e-3 of the greatest magnitude.

use std::path::{Path, PathBuf};

use fiddlehead_forest::{Class, SessionId};
use fiddlehead_plan::{Numerics, Values};

use crate::{arg_max, array, chain, executor, feed, feed_as, fixtures, floats, folder, stories};

/// The bound, relative to the greatest wanted magnitude of the row.
pub const BOUND: f32 = 1e-3;

/// The worst error of a row relative to its greatest wanted magnitude; infinite when something is no number.
pub fn error(found: &[f32], wanted: &[f32]) -> f32 {
    assert_eq!(found.len(), wanted.len());
    let scale = wanted.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
    let errors = found.iter().zip(wanted).map(|(a, b)| (a - b).abs());
    errors.map(|error| if error.is_nan() { f32::INFINITY } else { error }).fold(0.0, f32::max) / scale
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

/// A tiny checkpoint of random weights, from its safetensors file.
fn tiny_safetensors(name: &str) -> PathBuf {
    let folder = folder("tiny").join(name);
    compare(name, &folder, &folder, usize::MAX);
    folder
}

/// A tiny checkpoint of random weights: every architecture through the whole system, from both kinds of file.
fn tiny(name: &str) {
    let folder = tiny_safetensors(name);
    let file = folder.join("model.gguf");
    if file.exists() {
        return compare(name, &folder, &file, usize::MAX);
    }
    match fixtures() {
        // The converter cut gemma3's embedding to the tokenizer's 1537 tokens.
        Some(fixtures) => {
            compare(name, &folder, &fixtures.join("tiny").join(name).join("model-f32.gguf"), 1537)
        }
        None => println!("{name}: GGUF file skipped, the fixtures' folder is not given"),
    }
}

/// Compares the logits of the checkpoint at `path` with the golden ones up to a token, the tokens read as one prompt and
/// one by one.
fn compare(name: &str, folder: &Path, path: &Path, tokens_compared: usize) {
    let mut executor = executor(path, Numerics::F32);
    let golden = folder.join("golden.npz");
    let (tokens, shape) = array::<i32>(&golden, "tokens");
    let (positions, _) = array::<i64>(&golden, "positions");
    let (logits, _) = array::<f32>(&golden, "logits");
    let (rows, length) = (shape[0], shape[1]);
    let vocabulary = logits.len() / rows / positions.len();
    for row in 0..rows {
        let tokens: Vec<u32> = tokens[row * length..][..length].iter().map(|&token| token as u32).collect();
        for one_by_one in [false, true] {
            let session = SessionId(2 * row as u64 + u64::from(one_by_one));
            executor.open(session).expect("it opens");
            let found: Vec<f32> = if one_by_one {
                let step = |token: &u32| feed_as(executor.as_mut(), session, &[*token], Class::Generated);
                tokens.iter().map(step).flat_map(|outputs| floats(&outputs[0]).to_vec()).collect()
            } else {
                floats(&feed(executor.as_mut(), session, &tokens)[0]).to_vec()
            };
            let width = found.len() / length;
            assert!(width == vocabulary || width >= tokens_compared, "{}: {width}", path.display());
            let compared = width.min(tokens_compared);
            for (place, &position) in positions.iter().enumerate() {
                let found = &found[position as usize * width..][..compared];
                let wanted = &logits[(row * positions.len() + place) * vocabulary..][..compared];
                let error = error(found, wanted);
                assert!(
                    error <= BOUND,
                    "{name}, {}, row {row}, position {position}, one by one {one_by_one}: {error}",
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
    // GGUF has no word for its window, so such a file would be Llama's.
    tiny_safetensors("mistral");
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
