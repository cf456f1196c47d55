//! Configurations that ask for the impossible: an error that names the key or the tensor, at once, and no memory for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fiddlehead_checkpoint::{Checkpoint, Copying};
use fiddlehead_engine::Prepared;
use serde_json::Value;

/// Texts put where a value was.
const VALUES: [&str; 17] = [
    "0",
    "-1",
    "2147483646",
    "2147483647",
    "2147483648",
    "1152921504606846976",
    "1e30",
    "1e-320",
    "0.5",
    "1e400",
    "NaN",
    "\"x\"",
    "null",
    "[]",
    "{}",
    "true",
    "[1, 2]",
];

/// The paths of all keys of an object, of nested ones too.
fn keys(value: &Value, path: &str, found: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}/{key}");
        keys(value, &path, found);
        found.push(path);
    }
}

/// The model at `source` with its weights linked, so that its configuration can be replaced.
fn copy(source: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        if source.join(name).exists() {
            std::os::unix::fs::symlink(source.join(name), folder.path().join(name)).expect("a link");
        }
    }
    folder
}

/// From the files to graphs with their weights; the message when that fails.
fn prepare(folder: &Path) -> Result<(), String> {
    let checkpoint = Checkpoint::open_with(folder, Copying::Planned).map_err(|error| error.to_string())?;
    Prepared::new(&checkpoint).map(|_| ()).map_err(|error| error.to_string())
}

fn every_value_of_every_key(source: &Path) {
    const MARK: &str = "put a value here";
    let folder = copy(source);
    let text = fs::read_to_string(source.join("config.json")).expect("a text");
    let config: Value = serde_json::from_str(&text).expect("JSON");
    let mut paths = Vec::new();
    keys(&config, "", &mut paths);
    assert!(paths.len() > 10, "{paths:?}");
    for path in &paths {
        for value in VALUES {
            let mut changed = config.clone();
            *changed.pointer_mut(path).expect("its own path") = MARK.into();
            let changed = changed.to_string().replace(&format!("\"{MARK}\""), value);
            fs::write(folder.path().join("config.json"), changed).expect("written");
            let started = Instant::now();
            let why = prepare(folder.path()).err().unwrap_or_default();
            assert!(why.len() < 1000, "{path} = {value}: {why}");
            // Generous: a loop over an absurd size takes minutes.
            assert!(started.elapsed() < Duration::from_secs(10), "{path} = {value}");
        }
    }
}

#[test]
fn every_absurd_value_of_every_key() {
    let stories = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories-11m"));
    every_value_of_every_key(&stories);
    let Some(fixtures) = std::env::var_os("FIDDLEHEAD_TEST_FIXTURES") else {
        println!("skipped for other models: the fixtures' folder is not given");
        return;
    };
    for name in ["llama", "gemma3", "qwen3_moe"] {
        every_value_of_every_key(&Path::new(&fixtures).join("tiny").join(name));
    }
}

#[test]
fn a_head_larger_than_any_is_refused_before_its_frequencies_are_computed() {
    let source = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories-11m"));
    let folder = copy(&source);
    let text = fs::read_to_string(source.join("config.json")).expect("a text");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["head_dim"] = 2_147_483_646u32.into();
    fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    let error = prepare(folder.path()).expect_err("absurd");
    assert!(error.contains("head_dim") && error.contains("at most 65536"), "{error}");
}
