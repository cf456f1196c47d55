//! `fiddlehead inspect`, and GGUF files in `run`.

use std::fs;
use std::path::{Path, PathBuf};

use fiddlehead_checkpoint::gguf::{Metadata, write};
use serde_json::{Value, json};

use crate::{fiddlehead, models, stories};

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
    let built_in = fiddlehead(&["inspect", "--memory", "any"]).succeeded();
    for words in [
        "safetensors model, 20.3 MiB, 10.6 million values",
        "model_type = \"qwen3_5_text\"",
        "model.layers.*.mlp.up_proj.weight",
        "1600 x 256",
        "steps: main, mtp; 1600 tokens",
        "memory for one session of 4096 tokens",
    ] {
        assert!(built_in.contains(words), "{built_in} should hold {words:?}");
    }
    let folder = stories("config.json").parent().expect("a folder").to_owned();
    let from_folder = fiddlehead(&["inspect", "--memory", "any", text(&folder)]).succeeded();
    let without_name = |said: &str| said.split_once(": ").map(|(_, rest)| rest.to_owned());
    assert_eq!(without_name(&from_folder), without_name(&built_in));
    let longer = fiddlehead(&["inspect", "--context", "100000"]).succeeded();
    assert!(longer.contains("100000 tokens, made for 4096"), "{longer}");
    let every = fiddlehead(&["inspect", "--tensors"]).succeeded();
    assert!(every.contains("model.layers.1.mlp.up_proj.weight") && !every.contains('*'), "{every}");
}

#[test]
fn json_holds_what_the_text_tells() {
    let said: Value = serde_json::from_str(&fiddlehead(&["inspect", "--json"]).succeeded()).expect("JSON");
    assert_eq!(said["metadata"]["model_type"], "qwen3_5_text");
    assert_eq!((&said["serving"]["architecture"], &said["reason"]), (&"qwen3_5".into(), &Value::Null));
    let embedding = said["tensors"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|tensor| tensor["shape"] == json!([1600, 256]));
    assert_eq!(embedding.expect("there")["format"], "bf16");
    let memory = &said["serving"]["memory"];
    let parts = ["files", "copied_weights", "mirrors", "session", "buffers", "text", "program"];
    let sum: u64 = parts.iter().map(|part| memory[part].as_u64().expect("a number")).sum();
    assert_eq!((memory["total"].as_u64(), &memory["context"]), (Some(sum), &4096.into()));
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), &[("general.architecture", "unheard-of")]);
    let said: Value =
        serde_json::from_str(&fiddlehead(&["inspect", "--json", text(&path)]).succeeded()).expect("JSON");
    assert_eq!(said["serving"], Value::Null);
    assert!(said["reason"].as_str().expect("a text").contains("`unheard-of` is not known"));
}

#[test]
fn names_in_files_cannot_steer_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut metadata = Metadata::default();
    metadata.set("general.architecture", "\u{1b}[2Jqwen3");
    metadata.set("key\u{1b}[31m", "value\u{1b}[31m");
    let tensor = fiddlehead_storage::Tensor::from_f32(vec![1], vec![0.0]).expect("fits");
    let path = folder.path().join("model.gguf");
    let bytes = write(Vec::new(), &metadata, &[("tensor\u{1b}[31m", &tensor)]).expect("valid");
    fs::write(&path, bytes).expect("written");
    let said = fiddlehead(&["inspect", "--tensors", text(&path)]).succeeded();
    assert!(!said.contains('\u{1b}') && said.contains("key\\u{1b}[31m = "), "{said}");
    let run = fiddlehead(&["run", "--model", text(&path), "Hello."]);
    run.failed(1, &["is not known"]);
}

#[test]
fn tensors_without_a_use_are_named() {
    let folder = models::model(|weights| {
        // One more tensor at the end of the file: the header grows by its declaration.
        let length = u64::from_le_bytes(weights[..8].try_into().expect("eight bytes")) as usize;
        let header = std::str::from_utf8(&weights[8..8 + length]).expect("a text").trim_end();
        let end = weights.len() - 8 - length;
        let more =
            format!(r#","vision.patch":{{"dtype":"F32","shape":[1],"data_offsets":[{end},{}]}}}}"#, end + 4);
        let header = format!("{}{more}", header.strip_suffix('}').expect("an object"));
        let length = (header.len() as u64).to_le_bytes();
        [
            &length[..],
            header.as_bytes(),
            &weights[8 + u64::from_le_bytes(weights[..8].try_into().expect("eight")) as usize..],
            &[0; 4],
        ]
        .concat()
    });
    let said = fiddlehead(&["inspect", text(folder.path())]).succeeded();
    assert!(said.contains("no use for (1): vision.patch"), "{said}");
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
    assert!(said.contains("it can be served, as qwen3_5 (steps: main, mtp;"), "{said}");
}
