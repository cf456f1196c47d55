//! Safetensors models written as GGUF files, against files that llama.cpp's own converter made of the same weights.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fiddlehead_checkpoint::{Checkpoint, Description};
use fiddlehead_models::{architectures, bind};
use fiddlehead_quantize::{Plan, Recipe, Target};

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

/// The model's folder with a tokenizer in it: the tiny ones share that of the stories model.
fn with_tokenizer(folder: &Path, into: &Path) {
    std::fs::create_dir_all(into).expect("a folder");
    for place in [folder, &models().join("stories-11m")] {
        for name in [
            "config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
            "generation_config.json",
        ] {
            if place.join(name).exists() && !into.join(name).exists() {
                std::fs::copy(place.join(name), into.join(name)).expect("copied");
            }
        }
    }
}

fn write(source: &Path, target: &Path, format: &str) {
    let checkpoint = Checkpoint::open(source).expect("opens");
    let plan = Plan::new(&checkpoint, Recipe::from_name(format).expect("known"), &[]).expect("planned");
    let target = Target::new(target, source, false).expect("free");
    plan.write(&target, 2, &mut |_| ControlFlow::Continue(())).expect("written");
}

/// Keys that are not the model's: a name and a size for people, how it is stored, and values that no reader needs.
const OTHERS: [&str; 6] = [
    "general.name",
    "general.basename",
    "general.size_label",
    "general.file_type",
    "general.quantization_version",
    "general.type",
];

fn compare(source: &Path, reference: &Path, format: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    with_tokenizer(source, &folder.path().join("model"));
    let out = folder.path().join("out.gguf");
    write(&folder.path().join("model"), &out, format);
    let (ours, theirs) =
        (Checkpoint::open(&out).expect("opens"), Checkpoint::open(reference).expect("opens"));
    let (Description::Gguf(our_words), Description::Gguf(their_words)) =
        (ours.description(), theirs.description())
    else {
        panic!("GGUF files");
    };
    for (key, value) in their_words.iter().filter(|(key, _)| !OTHERS.contains(key)) {
        let found = our_words.get(key).unwrap_or_else(|| panic!("{key} is missing"));
        let texts = |value: &fiddlehead_checkpoint::gguf::Value| {
            value.as_array().map_or(vec![value.to_string()], |array| {
                array.values().map(|value| value.to_string()).collect()
            })
        };
        // The embedding of the reference is cut to the tokenizer in one of them.
        if !key.starts_with("tokenizer.ggml.token") || texts(found).len() == texts(value).len() {
            assert_eq!(texts(found), texts(value), "{key}");
        }
    }
    let names = |checkpoint: &Checkpoint| checkpoint.tensors().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&ours), names(&theirs));
    for (name, tensor) in theirs.tensors() {
        let found = &ours.tensors()[name];
        if name != "token_embd.weight" {
            assert_eq!(found.shape(), tensor.shape(), "{name}");
        }
        let (found, wanted) = (found.to_f32().expect("values"), tensor.to_f32().expect("values"));
        for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let close = (found - wanted).abs() <= 2e-7 * wanted.abs();
            assert!(close, "{name} at {at}: {found} and {wanted}");
        }
    }
    bind(&ours).expect("can be served");
}

#[test]
fn every_architecture_is_written_as_its_own_converter_writes_it() {
    let Some(fixtures) = std::env::var_os("FIDDLEHEAD_TEST_FIXTURES").map(PathBuf::from) else {
        println!("skipped, the fixtures' folder is not given");
        return;
    };
    for architecture in architectures() {
        let name = architecture.name;
        let reference = fixtures.join("tiny").join(name).join("model-f32.gguf");
        if !reference.exists() {
            println!("{name}: skipped, the fixtures hold no file of it");
            continue;
        }
        compare(&models().join("tiny").join(name), &reference, "f32");
    }
    compare(&models().join("stories-11m"), &fixtures.join("stories-11m/stories-bf16.gguf"), "bf16");
}
