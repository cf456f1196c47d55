//! Tiny random checkpoints of each architecture, by the oracle, against another implementation's logits.

mod common;

use std::path::Path;

use common::{array, fixtures, folder, load, worst};
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_oracle::{Array, Oracle, OracleSessions};

fn agrees(name: &str) {
    let folder = folder("tiny").join(name);
    compare(name, &folder, &folder, usize::MAX);
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

/// Compares the logits of the model at `path` with the golden ones, up to a token.
fn compare(name: &str, folder: &Path, path: &Path, tokens_compared: usize) {
    let (model, weights) = load(path);
    let oracle = Oracle::<f64>::new(model.step("main").unwrap(), &weights).unwrap();
    let golden = folder.join("golden.npz");
    let (tokens, shape) = array::<i32>(&golden, "tokens");
    let (positions, _) = array::<i64>(&golden, "positions");
    let (logits, _) = array::<f32>(&golden, "logits");
    let (rows, length) = (shape[0], shape[1]);
    let vocabulary = logits.len() / rows / positions.len();
    for row in 0..rows {
        let ids: Vec<u32> = tokens[row * length..][..length].iter().map(|&token| token as u32).collect();
        let at: Vec<i32> = (0..length as i32).collect();
        let forest = Forest::single_chain(SessionId(0), 0, length).unwrap();
        let inputs = [Array::ids(&ids), Array::ints(&at)];
        let run = oracle.run(&forest, &inputs, &OracleSessions::default()).unwrap();
        for (place, &position) in positions.iter().enumerate() {
            let found = run.output(position as usize, 0).unwrap().to_f64s();
            let wanted =
                &logits[(row * positions.len() + place) * vocabulary..][..vocabulary.min(tokens_compared)];
            let (error, scale) = worst(&found, wanted);
            assert!(
                error <= 1e-3 * scale,
                "{name}, {}, row {row}, position {position}: {error} of {scale}",
                path.display()
            );
        }
    }
}

#[test]
fn qwen3_5() {
    agrees("qwen3_5");
}

#[test]
fn llama() {
    agrees("llama");
}

#[test]
fn qwen2() {
    agrees("qwen2");
}

#[test]
fn mistral() {
    // In GGUF files it is a llama.
    let folder = folder("tiny").join("mistral");
    compare("mistral", &folder, &folder, usize::MAX);
}

#[test]
fn qwen3() {
    agrees("qwen3");
}

#[test]
fn qwen3_moe() {
    agrees("qwen3_moe");
}

#[test]
fn gemma3() {
    agrees("gemma3");
}

#[test]
fn qwen3_5_moe() {
    agrees("qwen3_5_moe");
}

#[test]
fn qwen3_next() {
    agrees("qwen3_next");
}
