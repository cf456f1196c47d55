//! The stories model's program, lowered and read by the oracle, against logits of another implementation.

mod common;

use std::path::Path;

use common::{array, fixtures, folder, load, worst};
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_oracle::{Array, Oracle, OracleSessions};

/// Positions compared; the golden file has 64. The oracle is slow by design.
const POSITIONS: usize = 8;
const STORIES: &str = "stories-11m";

fn golden_logits(name: &str) -> (Vec<f32>, usize) {
    let (values, shape) = array(&folder(STORIES).join("golden_logits.npz"), name);
    (values, shape[1])
}

fn golden_tokens(prompt: usize) -> Vec<u32> {
    let text = std::fs::read_to_string(folder(STORIES).join("golden.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
    ["prompt_tokens", "greedy_tokens"]
        .iter()
        .flat_map(|key| golden[prompt][key].as_array().unwrap())
        .map(|token| token.as_u64().unwrap() as u32)
        .collect()
}

fn arg_max(values: &[f64]) -> usize {
    (0..values.len()).rev().max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap()
}

#[test]
fn the_program_means_what_the_reference_implementation_computes() {
    compare(&folder(STORIES));
}

#[test]
fn gguf_files_are_the_same_model() {
    let Some(fixtures) = fixtures() else {
        println!("skipped: the fixtures' folder is not given");
        return;
    };
    // What eight-bit weights do to the tokens is judged by the whole system's golden tests.
    compare(&fixtures.join(STORIES).join("stories-bf16.gguf"));
}

fn compare(path: &Path) {
    let (model, weights) = load(path);
    assert_eq!(model.steps.iter().map(|step| step.name()).collect::<Vec<_>>(), ["main", "mtp"]);
    let main = Oracle::<f64>::new(model.step("main").unwrap(), &weights).unwrap();
    let mtp = Oracle::<f64>::new(model.step("mtp").unwrap(), &weights).unwrap();
    let tokens = golden_tokens(0);
    let positions: Vec<i32> = (0..POSITIONS as i32).collect();

    let forest = Forest::single_chain(SessionId(0), 0, POSITIONS).unwrap();
    let run = main
        .run(
            &forest,
            &[Array::ids(&tokens[..POSITIONS]), Array::ints(&positions)],
            &OracleSessions::default(),
        )
        .unwrap();
    let (golden, width) = golden_logits("logits_1");
    let mut hidden = Vec::new();
    for position in 0..POSITIONS {
        let logits = run.output(position, 0).unwrap().to_f64s();
        let wanted = &golden[position * width..][..width];
        let (error, scale) = worst(&logits, wanted);
        assert!(error <= 1e-3 * scale, "{}, position {position}: {error} of {scale}", path.display());
        hidden.extend(run.output(position, 1).unwrap().to_f64s().iter().map(|&value| value as f32));
    }

    let hidden_size = hidden.len() / POSITIONS;
    let hidden = Array::floats(&hidden).reshaped(&[POSITIONS, hidden_size]).unwrap();
    let run = mtp
        .run(
            &forest,
            &[Array::ids(&tokens[1..=POSITIONS]), hidden, Array::ints(&positions)],
            &OracleSessions::default(),
        )
        .unwrap();
    let (golden, width) = golden_logits("mtp_logits_1");
    for position in 0..POSITIONS {
        let logits = run.output(position, 0).unwrap().to_f64s();
        let wanted: Vec<f64> = golden[position * width..][..width].iter().map(|&v| f64::from(v)).collect();
        assert_eq!(arg_max(&logits), arg_max(&wanted), "position {position} of the draft head");
    }
}
