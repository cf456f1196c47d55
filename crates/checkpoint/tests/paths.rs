//! What a path may name: a file under any name, a folder, any part of several, and what lies there instead of a model.

use std::fs;
use std::path::{Path, PathBuf};

use fiddlehead_checkpoint::gguf::{Metadata, write};
use fiddlehead_checkpoint::{Checkpoint, CheckpointError};
use fiddlehead_storage::Tensor;

/// A GGUF file of one vector.
fn gguf(name: &str, number: u16, count: u16) -> Vec<u8> {
    let mut metadata = Metadata::default();
    metadata.set("split.no", number);
    metadata.set("split.count", count);
    let tensor = Tensor::from_f32(vec![4], vec![1.0; 4]).expect("fits");
    write(Vec::new(), &metadata, &[(name, &tensor)]).expect("valid")
}

/// A safetensors file of one vector.
fn safetensors(name: &str) -> Vec<u8> {
    let bytes = 1f32.to_le_bytes().repeat(4);
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![4], &bytes).expect("fits");
    safetensors::serialize([(name, view)], None).expect("serializes")
}

fn save(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("written");
    path
}

fn names(path: &Path) -> Vec<String> {
    Checkpoint::open(path).expect("opens").tensors().keys().cloned().collect()
}

fn refused(path: &Path, words: &[&str]) -> CheckpointError {
    let error = Checkpoint::open(path).expect_err("refused");
    for word in words {
        assert!(error.to_string().contains(word), "{error} should hold {word:?}");
    }
    error
}

#[test]
fn a_file_is_known_by_its_first_bytes_when_its_name_says_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    save(folder.path(), "config.json", b"{}");
    for name in ["sha256-0a1b", "model.GGUF", "model.bin", "model"] {
        assert_eq!(names(&save(folder.path(), name, &gguf("a", 0, 1))), ["a"], "{name}");
    }
    for name in ["weights.SafeTensors", "weights.bin", "weights"] {
        assert_eq!(names(&save(folder.path(), name, &safetensors("a"))), ["a"], "{name}");
    }
    refused(&save(folder.path(), "pytorch_model.bin", b"PK\x03\x04rest"), &["PyTorch", "convert"]);
    refused(&save(folder.path(), "model.pt", &[0x80, 2, b'}', b'q']), &["PyTorch"]);
    refused(&save(folder.path(), "old.bin", b"tjggrest of it"), &["before GGUF"]);
    refused(&save(folder.path(), "notes.txt", b"words"), &["neither", ".safetensors", ".gguf"]);
    refused(&save(folder.path(), "nothing", b""), &["neither"]);
}

#[test]
fn what_stands_in_for_weights_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";
    for name in ["model.gguf", "model.safetensors"] {
        refused(&save(folder.path(), name, pointer), &[name, "git lfs pull"]);
        refused(&save(folder.path(), name, b"<!DOCTYPE html><html>"), &[name, "a web page"]);
    }
}

#[test]
fn a_folder_of_one_gguf_model() {
    let folder = tempfile::tempdir().expect("a folder");
    save(folder.path(), "m.gguf", &gguf("a", 0, 1));
    save(folder.path(), "mmproj-m.gguf", &gguf("picture", 0, 1));
    assert_eq!(names(folder.path()), ["a"]);
    save(folder.path(), "n.gguf", &gguf("a", 0, 1));
    refused(folder.path(), &["several .gguf files", "m.gguf, n.gguf"]);
}

#[test]
fn a_missing_part_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for (extension, part) in [
        ("gguf", &(|name: &str, number| gguf(name, number, 3)) as &dyn Fn(&str, u16) -> Vec<u8>),
        ("safetensors", &|name, _| safetensors(name)),
    ] {
        save(folder.path(), "config.json", b"{}");
        let name = |number: u16| format!("m-{number:05}-of-00003.{extension}");
        let parts: Vec<PathBuf> = ["a", "b", "c"]
            .iter()
            .zip(0..)
            .map(|(tensor, number)| save(folder.path(), &name(number + 1), &part(tensor, number)))
            .collect();
        for path in parts.iter().map(PathBuf::as_path).chain([folder.path()]) {
            assert_eq!(names(path), ["a", "b", "c"], "{}", path.display());
        }
        for missing in 0..3 {
            let aside = folder.path().join("aside");
            fs::rename(&parts[missing], &aside).expect("moved");
            let words = format!("there is no {}", name(missing as u16 + 1));
            refused(&parts[(missing + 1) % 3], &[&words, "download all of them"]);
            refused(folder.path(), &[&words]);
            fs::rename(&aside, &parts[missing]).expect("moved back");
        }
        parts.iter().for_each(|path| fs::remove_file(path).expect("removed"));
    }
}

#[cfg(unix)]
#[test]
fn shards_may_be_links_and_never_lie_elsewhere() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let blob = save(outside.path(), "0a1b2c", &safetensors("a"));
    save(folder.path(), "config.json", b"{}");
    let index = |shard: &str| {
        let text = serde_json::json!({ "metadata": { "total_size": 1 }, "weight_map": { "a": shard } });
        save(folder.path(), "model.safetensors.index.json", text.to_string().as_bytes());
    };
    // Download caches keep files elsewhere and link to them. Their total is often wrong, so nothing relies on it.
    symlink(&blob, folder.path().join("model-00001-of-00001.safetensors")).expect("a link");
    index("model-00001-of-00001.safetensors");
    assert_eq!(names(folder.path()), ["a"]);
    for shard in ["../../etc/passwd", "/etc/passwd", blob.to_str().expect("UTF-8"), "..", "", "a/../b", "./a"]
    {
        index(shard);
        refused(folder.path(), &["not a plain file name"]);
    }
    index("absent.safetensors");
    refused(folder.path(), &["there is no absent.safetensors"]);
    save(folder.path(), "model.safetensors.index.json", br#"{"weight_map": {"a": 3}}"#);
    refused(&folder.path().join("model.safetensors.index.json"), &["not an index of shards"]);
    save(folder.path(), "model.safetensors.index.json", br#"{"weight_map": {"a": "b", "a": "c"}}"#);
    refused(folder.path(), &["tensor `a` is in `b` and in `c`"]);
}

#[cfg(unix)]
#[test]
fn pipes_devices_and_folders_are_no_files() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe.gguf");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    refused(&pipe, &["not a regular file"]);
    refused(Path::new("/dev/zero"), &["/dev/zero", "not a regular file"]);
    for name in ["zero.gguf", "zero.safetensors", "zero"] {
        let link = folder.path().join(name);
        symlink("/dev/zero", &link).expect("a link");
        refused(&link, &[name, "not a regular file"]);
    }
    let inner = folder.path().join("folder.gguf");
    fs::create_dir(&inner).expect("made");
    refused(&inner, &["no model.safetensors"]);
    let dangling = folder.path().join("dangling.gguf");
    symlink("absent.gguf", &dangling).expect("a link");
    refused(&dangling, &["dangling.gguf", "No such file"]);
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = save(folder.path(), "m.gguf", &gguf("a", 0, 1));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("set");
    if fs::File::open(&path).is_ok() {
        println!("skipped: whoever runs this may read everything");
        return;
    }
    refused(&path, &["m.gguf", "ermission denied"]);
}

#[test]
fn configurations_in_other_encodings() {
    let folder = tempfile::tempdir().expect("a folder");
    save(folder.path(), "model.safetensors", &safetensors("a"));
    save(folder.path(), "config.json", b"\xef\xbb\xbf{\"model_type\": \"test\"}");
    assert_eq!(names(folder.path()), ["a"]);
    for mark in [[0xff, 0xfe], [0xfe, 0xff]] {
        save(folder.path(), "config.json", &[&mark[..], &[b'{', 0, b'}', 0]].concat());
        refused(folder.path(), &["config.json", "UTF-16"]);
    }
    save(folder.path(), "config.json", &[b'{'; 100_000]);
    refused(folder.path(), &["config.json", "not valid JSON"]);
    save(folder.path(), "config.json", b"{\"a\": \"\xff\"}");
    refused(folder.path(), &["config.json", "not valid JSON"]);
    save(folder.path(), "config.json", &[b' '; (4 << 20) + 1]);
    refused(folder.path(), &["config.json", "4194305 bytes", "at most 4194304"]);
}

#[test]
fn weights_are_read_ahead_and_a_file_cut_short_meanwhile_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let tensor = Tensor::from_f32(vec![5 << 20], vec![1.0; 5 << 20]).expect("fits");
    let bytes = write(Vec::new(), &Metadata::default(), &[("a", &tensor)]).expect("valid");
    let path = save(folder.path(), "m.gguf", &bytes);
    let checkpoint = Checkpoint::open(&path).expect("opens");
    assert_eq!(checkpoint.mapped_bytes(), bytes.len() as u64);
    let mut heard = Vec::new();
    let mut hear = |done: u64| {
        heard.push(done);
        true
    };
    checkpoint.read_ahead(&mut hear).expect("reads");
    assert_eq!(heard, [16 << 20, bytes.len() as u64]);
    let mut calls = 0;
    let mut stop = |_| {
        calls += 1;
        false
    };
    checkpoint.read_ahead(&mut stop).expect("stops");
    assert_eq!(calls, 1);
    if cfg!(target_os = "linux") {
        fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(4096)).expect("cut");
        let error = checkpoint.read_ahead(&mut |_| true).expect_err("cut short").to_string();
        assert!(error.contains("m.gguf") && error.contains("became shorter"), "{error}");
    }
}
