//! Opening models: the one in the repository, sharded copies of it, and folders that lack something.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fiddlehead_checkpoint::{Checkpoint, CheckpointError, Copying, Description};
use fiddlehead_storage::Format;

fn stories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories-11m")
}

/// A safetensors file of f32 vectors of four elements, all of them the tensor's value.
fn vectors(values: &[(&str, f32)]) -> Vec<u8> {
    let data: Vec<(&str, Vec<u8>)> =
        values.iter().map(|(name, value)| (*name, value.to_le_bytes().repeat(4))).collect();
    let views = data.iter().map(|(name, bytes)| {
        let view =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![4], bytes).expect("fits");
        (*name, view)
    });
    safetensors::serialize(views, None).expect("serializes")
}

fn sharded(folder: &Path, weight_map: &[(&str, &str)]) {
    fs::write(folder.join("config.json"), r#"{"model_type": "test"}"#).expect("written");
    fs::write(folder.join("model-00001-of-00002.safetensors"), vectors(&[("a", 1.0), ("b", 2.0)]))
        .expect("written");
    fs::write(folder.join("model-00002-of-00002.safetensors"), vectors(&[("c", 3.0)])).expect("written");
    let map: BTreeMap<_, _> = weight_map.iter().copied().collect();
    let index = serde_json::json!({"metadata": {"total_size": 48}, "weight_map": map});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).expect("written");
}

const GOOD_MAP: [(&str, &str); 3] = [
    ("a", "model-00001-of-00002.safetensors"),
    ("b", "model-00001-of-00002.safetensors"),
    ("c", "model-00002-of-00002.safetensors"),
];

fn refused(path: &Path, words: &str) -> CheckpointError {
    let error = Checkpoint::open(path).expect_err(words);
    assert!(error.to_string().contains(words), "{error} should hold {words:?}");
    error
}

#[test]
fn the_stories_model_agrees_with_the_formats_own_crate() {
    let checkpoint = Checkpoint::open(stories()).expect("opens");
    let Description::HuggingFace { config, generation_config } = checkpoint.description() else {
        panic!("a safetensors model has JSON files");
    };
    assert_eq!(config["model_type"], "qwen3_5_text");
    assert_eq!(generation_config.as_ref().expect("there")["eos_token_id"], 2);
    assert_eq!(checkpoint.folder(), Some(stories().as_path()));
    let bytes = fs::read(stories().join("model.safetensors")).expect("there");
    let reference = safetensors::SafeTensors::deserialize(&bytes).expect("good");
    assert_eq!(checkpoint.tensors().len(), reference.len());
    assert_eq!(checkpoint.bytes(), bytes.len() as u64);
    for (name, view) in reference.iter() {
        let tensor = checkpoint.tensor(name).expect("there");
        assert_eq!((tensor.shape(), tensor.bytes()), (view.shape(), view.data()), "{name}");
        let format = if view.dtype() == safetensors::Dtype::F32 { Format::F32 } else { Format::BF16 };
        assert_eq!(tensor.format(), format);
    }
    let error = checkpoint.tensor("model.layers.0.mlp.up_proj.weights").expect_err("misspelt").to_string();
    assert!(error.contains("the nearest name is `model.layers.0.mlp.up_proj.weight`"), "{error}");
}

#[test]
fn a_file_and_its_folder_are_the_same_model() {
    let folder = Checkpoint::open(stories()).expect("opens");
    let file = Checkpoint::open(stories().join("model.safetensors")).expect("opens");
    assert_eq!(folder.tensors().keys().collect::<Vec<_>>(), file.tensors().keys().collect::<Vec<_>>());
    assert_eq!(folder.bytes(), file.bytes());
}

#[test]
fn an_embedded_model_opens_without_files() {
    let weights: &'static [u8] = vectors(&[("a", 1.5)]).leak();
    const FILES: &[(&str, &[u8])] =
        &[("config.json", br#"{"model_type": "test"}"#), ("tokenizer.json", b"{}")];
    let checkpoint = Checkpoint::embedded(weights, FILES).expect("opens");
    assert_eq!(checkpoint.tensor("a").expect("there").to_f32().expect("values"), [1.5; 4]);
    assert_eq!(checkpoint.tensor("a").expect("there").bytes().as_ptr_range().end, weights.as_ptr_range().end);
    assert_eq!(
        checkpoint.companions().read("tokenizer.json").expect("reads").as_deref(),
        Some(b"{}".as_slice())
    );
    let Description::HuggingFace { config, generation_config: None } = checkpoint.description() else {
        panic!("it has config.json only");
    };
    assert_eq!(config["model_type"], "test");
    let error = Checkpoint::embedded(weights, &[]).expect_err("no configuration");
    assert!(error.to_string().contains("no config.json"), "{error}");
}

#[test]
fn a_sharded_folder_opens_from_any_of_its_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    sharded(folder.path(), &GOOD_MAP);
    for path in ["", "model.safetensors.index.json", "model-00002-of-00002.safetensors"] {
        let checkpoint = Checkpoint::open(folder.path().join(path)).expect("opens");
        for (name, value) in [("a", 1.0), ("b", 2.0), ("c", 3.0)] {
            assert_eq!(checkpoint.tensor(name).expect("there").to_f32().expect("values"), [value; 4]);
        }
    }
}

#[test]
fn an_index_that_contradicts_its_shards_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut map = GOOD_MAP;
    map[2].1 = "model-00001-of-00002.safetensors";
    sharded(folder.path(), &map);
    refused(folder.path(), "tensor `c` should be in");
    map[2] = ("c", "model-00003-of-00003.safetensors");
    sharded(folder.path(), &map);
    refused(folder.path(), "no model-00003-of-00003.safetensors");
    map[2] = ("c", "../model-00002-of-00002.safetensors");
    sharded(folder.path(), &map);
    refused(folder.path(), "not a plain file name");
    sharded(folder.path(), &[]);
    refused(folder.path(), "names no tensors");
    fs::write(folder.path().join("model.safetensors.index.json"), "{").expect("written");
    refused(folder.path(), "index.json");
    sharded(folder.path(), &GOOD_MAP);
    fs::write(folder.path().join("model-00002-of-00002.safetensors"), vectors(&[("c", 3.0), ("a", 1.0)]))
        .expect("written");
    refused(folder.path(), "also in");
}

#[test]
fn folders_that_lack_something() {
    let folder = tempfile::tempdir().expect("a folder");
    refused(folder.path(), "no model.safetensors");
    refused(&folder.path().join("absent"), "absent");
    fs::write(folder.path().join("model.gguf"), b"GGUF").expect("written");
    refused(folder.path(), "the file is truncated");
    refused(&folder.path().join("model.gguf"), "the file is truncated");
    fs::write(folder.path().join("other.safetensors"), vectors(&[("a", 1.0)])).expect("written");
    refused(folder.path(), "there is no config.json");
    fs::write(folder.path().join("config.json"), "[1]").expect("written");
    refused(folder.path(), "not a JSON object");
    fs::write(folder.path().join("config.json"), "{\"a\":").expect("written");
    refused(folder.path(), "not valid JSON");
    fs::write(folder.path().join("config.json"), "{}").expect("written");
    Checkpoint::open(folder.path()).expect("the only file is the model");
    fs::write(folder.path().join("another.safetensors"), vectors(&[("a", 1.0)])).expect("written");
    refused(folder.path(), "several .safetensors files");
    fs::write(folder.path().join("another.safetensors"), b"").expect("written");
    refused(&folder.path().join("another.safetensors"), "not a safetensors file");
}

#[test]
fn a_tensor_of_an_unserved_type_is_refused_only_when_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = 7i64.to_le_bytes();
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::I64, vec![1], &bytes).expect("fits");
    let file = safetensors::serialize([("ids", view)], None).expect("serializes");
    fs::write(folder.path().join("model.safetensors"), file).expect("written");
    fs::write(folder.path().join("config.json"), "{}").expect("written");
    let checkpoint = Checkpoint::open(folder.path()).expect("opens");
    let error = checkpoint.tensor("ids").expect_err("unserved").to_string();
    assert!(error.contains("`ids` is stored as I64"), "{error}");
}

#[test]
fn eight_bit_weights_are_joined_with_their_scales() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("config.json"), "{}").expect("written");
    let values = [0x38u8, 0xb8].repeat(128);
    let write = |scales: &[f32], shape: [usize; 2]| {
        let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let view = |kind, shape: [usize; 2], bytes| {
            safetensors::tensor::TensorView::new(kind, shape.to_vec(), bytes).expect("fits")
        };
        let weight = view(safetensors::Dtype::F8_E4M3, [2, 128], &values);
        let scales = view(safetensors::Dtype::F32, shape, &scales);
        let alone = weight.clone();
        let tensors = [("a.weight", weight), ("a.weight_scale_inv", scales), ("b.weight", alone)];
        let file = safetensors::serialize(tensors, None).expect("serializes");
        fs::write(folder.path().join("model.safetensors"), file).expect("written");
    };
    write(&[0.5], [1, 1]);
    let checkpoint = Checkpoint::open(folder.path()).expect("opens");
    assert_eq!(
        checkpoint.tensor("a.weight").expect("there").to_f32().expect("values"),
        [0.5, -0.5].repeat(128)
    );
    assert_eq!(checkpoint.tensors().len(), 1);
    assert_eq!(checkpoint.copied_bytes(), 2 * (4 + 128));
    let planned = Checkpoint::open_with(folder.path(), Copying::Planned).expect("opens");
    assert_eq!(planned.tensor("a.weight").expect("there").to_f32().expect("zeros"), [0.0; 256]);
    assert_eq!(planned.copied_bytes(), checkpoint.copied_bytes());
    Checkpoint::open_with(folder.path(), Copying::Within(264)).expect("room for all of it");
    let error =
        Checkpoint::open_with(folder.path(), Copying::Within(263)).expect_err("too little").to_string();
    assert!(error.contains("`a.weight` must be copied") && error.contains("264"), "{error}");
    let error = checkpoint.tensor("b.weight").expect_err("no scales").to_string();
    assert!(error.contains("F8_E4M3"), "{error}");
    write(&[0.5, 1.0], [1, 2]);
    refused(folder.path(), "tensor `a.weight`: with its scales `a.weight_scale_inv`");
}

#[cfg(unix)]
#[test]
fn a_device_is_no_model() {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("model.safetensors")).expect("a link");
    fs::write(folder.path().join("config.json"), "{}").expect("written");
    refused(folder.path(), "not a regular file");
}
