//! Models that are not what they should be.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::{fiddlehead, stories};

const FILES: [&str; 4] = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"];

/// A folder with the built-in model's files, its weights changed by `change`.
pub fn model(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in FILES {
        fs::copy(stories(name), folder.path().join(name)).expect("copied");
    }
    let weights = fs::read(stories("model.safetensors")).expect("weights");
    fs::write(folder.path().join("model.safetensors"), change(weights)).expect("written");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn refused(path: &Path, words: &[&str]) {
    fiddlehead(&["run", "--model", text(path), "Hello."]).failed(1, words);
}

#[test]
fn a_folder_and_a_file_are_the_same_model_as_the_built_in_one() {
    let folder = model(|weights| weights);
    let flags = ["run", "--temperature", "0", "--max-tokens", "16", "Tell me a story."];
    let built_in = fiddlehead(&flags).succeeded();
    for path in [folder.path().to_owned(), folder.path().join("model.safetensors")] {
        assert_eq!(fiddlehead(&[&flags[..], &["--model", text(&path)]].concat()).succeeded(), built_in);
    }
}

#[test]
fn missing_files() {
    refused(Path::new("no/such/folder"), &["no/such/folder", "No such file"]);
    let empty = tempfile::tempdir().expect("a folder");
    refused(empty.path(), &["model.safetensors"]);
    for (name, words) in [("config.json", &["config.json"][..]), ("tokenizer.json", &["tokenizer.json"])] {
        let folder = model(|weights| weights);
        fs::remove_file(folder.path().join(name)).expect("removed");
        refused(folder.path(), words);
    }
}

#[test]
fn damaged_weights() {
    for length in [0, 4, 8, 100, 10_000, 1_000_000] {
        let folder = model(|mut weights| {
            weights.truncate(length);
            weights
        });
        refused(folder.path(), &["model.safetensors"]);
    }
    let folder = model(|mut weights| {
        weights[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        weights
    });
    refused(folder.path(), &["model.safetensors"]);
}

#[test]
fn configurations_that_do_not_fit() {
    for (from, to, words) in [
        ("\"qwen3_5_text\"", "\"mystery\"", &["mystery", "qwen3_5"][..]),
        ("\"hidden_size\": 256", "\"hidden_size\": 128", &["tensor", "shape"]),
        ("\"hidden_size\": 256", "\"hidden_size\": \"wide\"", &["hidden_size", "wide"]),
        ("\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\"", &["hidden_act", "relu", "silu"]),
        ("\"vocab_size\": 1600,", "", &["vocab_size"]),
        ("{", "[", &["config.json"]),
    ] {
        let folder = model(|weights| weights);
        let path = folder.path().join("config.json");
        let config = fs::read_to_string(&path).expect("a text");
        assert!(config.contains(from));
        fs::write(&path, config.replacen(from, to, 1)).expect("written");
        refused(folder.path(), words);
    }
}

#[test]
fn generation_defaults_are_the_models_and_checked() {
    let folder = model(|weights| weights);
    let path = folder.path().join("generation_config.json");
    fs::write(&path, r#"{ "eos_token_id": 2, "do_sample": false }"#).expect("written");
    let flags = ["run", "--max-tokens", "16", "--seed", "1", "Tell me a story."];
    let greedy = fiddlehead(&[&flags[..], &["--temperature", "0"]].concat()).succeeded();
    assert_eq!(fiddlehead(&[&flags[..], &["--model", text(folder.path())]].concat()).succeeded(), greedy);
    fs::write(&path, r#"{ "temperature": -3 }"#).expect("written");
    refused(folder.path(), &["generation_config.json", "temperature", "-3"]);
}
