//! `fiddlehead inspect`, and GGUF files in `run`.

use std::fs;
use std::path::{Path, PathBuf};

use fiddlehead_checkpoint::gguf::{Metadata, write};

use crate::{fiddlehead, stories};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A GGUF file of these texts and no tensor.
fn file(folder: &Path, values: &[(&str, &str)]) -> PathBuf {
    let mut metadata = Metadata::default();
    values.iter().for_each(|(key, value)| metadata.set(*key, *value));
    let path = folder.join("model.gguf");
    fs::write(&path, write(Vec::new(), &metadata, &[]).expect("valid")).expect("written");
    path
}

#[test]
fn the_built_in_model_and_its_folder_are_described_alike() {
    let built_in = fiddlehead(&["inspect"]).succeeded();
    for words in [
        "safetensors model",
        "model_type = \"qwen3_5_text\"",
        "1600 x 256",
        "steps: main, mtp",
        "4096 tokens",
    ] {
        assert!(built_in.contains(words), "{built_in} should hold {words:?}");
    }
    let folder = stories("config.json").parent().expect("a folder").to_owned();
    let from_folder = fiddlehead(&["inspect", text(&folder)]).succeeded();
    let without_name = |said: &str| said.split_once(": ").map(|(_, rest)| rest.to_owned());
    assert_eq!(without_name(&from_folder), without_name(&built_in));
    let longer = fiddlehead(&["inspect", "--context", "100000"]).succeeded();
    assert!(longer.contains("100000 tokens, made for 4096"), "{longer}");
}

#[test]
fn mistral_rs_2361_an_unknown_architecture() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), &[("general.architecture", "unheard-of")]);
    let words = ["`unheard-of` is not known", "qwen35moe", "gemma3"];
    fiddlehead(&["run", "--model", text(&path), "Hello."]).failed(1, &words);
    let said = fiddlehead(&["inspect", text(&path)]).succeeded();
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn a_gguf_file_that_lacks_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    for (values, word) in [
        (&[][..], "general.architecture"),
        (&[("general.architecture", "qwen3")], "qwen3.feed_forward_length"),
        (&[("general.architecture", "qwen3"), ("qwen3.feed_forward_length", "many")], "\"many\""),
    ] {
        let path = file(folder.path(), values);
        fiddlehead(&["run", "--model", text(&path), "Hello."]).failed(1, &[word]);
        assert!(fiddlehead(&["inspect", text(&path)]).succeeded().contains(word));
    }
    let path = folder.path().join("model.gguf");
    fs::write(&path, b"GGUF").expect("written");
    fiddlehead(&["inspect", text(&path)]).failed(1, &["model.gguf", "truncated"]);
}

#[test]
fn gguf_files_of_the_built_in_model_answer_as_it_does() {
    let Some(fixtures) = std::env::var_os("FIDDLEHEAD_TEST_FIXTURES") else {
        println!("skipped: the fixtures' folder is not given");
        return;
    };
    let flags = ["run", "--numerics", "f32", "--temperature", "0", "--max-tokens", "24", "Tell me a story."];
    let built_in = fiddlehead(&flags).succeeded();
    let path = Path::new(&fixtures).join("stories-11m/stories-bf16.gguf");
    assert_eq!(fiddlehead(&[&flags[..], &["--model", text(&path)]].concat()).succeeded(), built_in);
    let said = fiddlehead(&["inspect", text(&path)]).succeeded();
    assert!(said.contains("it can be served, as qwen3_5 (steps: main, mtp)"), "{said}");
}
