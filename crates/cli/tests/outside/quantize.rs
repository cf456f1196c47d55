//! `fiddlehead quantize`: the files it writes and those it refuses to.

use std::fs;
use std::path::{Path, PathBuf};

use fiddlehead_checkpoint::gguf::{Metadata, write};
use fiddlehead_checkpoint::{Checkpoint, Description};
use fiddlehead_storage::{Format, Tensor};

use crate::{fiddlehead, stories};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn source() -> PathBuf {
    stories("config.json").parent().expect("a folder").to_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A GGUF file of one matrix and a vector.
fn matrix(folder: &Path, name: &str, values: Vec<f32>) -> PathBuf {
    let mut metadata = Metadata::default();
    metadata.set("general.architecture", "unheard-of");
    metadata.set("general.name", "kept");
    metadata.set("split.count", 1u16);
    metadata.set("tokenizer.ggml.tokens", &["a", "b"][..]);
    let rows = values.len() / 256;
    let tensor = Tensor::from_f32(vec![rows, 256], values).expect("fits");
    let vector = Tensor::from_f32(vec![3], vec![1.0, 2.0, 3.0]).expect("fits");
    let path = folder.join(name);
    let tensors = [("blk.0.ffn_up.weight", &tensor), ("blk.0.bias", &vector)];
    fs::write(&path, write(Vec::new(), &metadata, &tensors).expect("valid")).expect("written");
    path
}

fn waves(rows: usize) -> Vec<f32> {
    (0..rows * 256).map(|at| (at as f32 * 0.37).sin()).collect()
}

#[test]
fn a_folder_becomes_one_file_that_answers_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("stories.gguf");
    let said = fiddlehead(&["quantize", text(&source()), text(&out), "--format", "q8_0"]).succeeded();
    assert!(said.contains("q8_0") && said.contains("f32") && !said.contains("note:"), "{said}");
    assert_eq!(names(folder.path()), ["stories.gguf"]);
    let looked = fiddlehead(&["inspect", text(&out)]).succeeded();
    for words in ["steps: main, mtp", "tokenizer.chat_template", "general.file_type = 7"] {
        assert!(looked.contains(words), "no {words:?} in {looked}");
    }
    let ask = |model: &[&str]| {
        let prompt = "Write a story about a brave fox named Tim who finds a lantern.";
        let flags = ["run", "--temperature", "0", "--max-tokens", "16", prompt];
        fiddlehead(&[&flags[..], model].concat()).succeeded()
    };
    let (original, quantised) = (ask(&[]), ask(&["--model", text(&out)]));
    assert_eq!(original, quantised);
}

/// Formats whose blocks are longer than the rows of the tiny models that the oracle tries.
#[test]
fn the_stories_model_still_tells_stories_in_every_long_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("stories.gguf");
    for format in ["q6_k", "q5_k", "q4_k_m", "iq4_xs", "q3_k", "q2_k"] {
        fiddlehead(&["quantize", text(&source()), text(&out), "--format", format, "--force"]).succeeded();
        let prompt = "Write a story about a brave fox named Tim who finds a lantern.";
        let flags = ["run", "--temperature", "0", "--max-tokens", "14", "--model", text(&out), prompt];
        let said = fiddlehead(&flags).succeeded();
        assert!(said.contains("a brave fox") && said.contains("Tim lived"), "{format}: {said}");
    }
}

#[test]
fn a_file_keeps_its_metadata_and_what_is_no_matrix() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, out) = (matrix(folder.path(), "in.gguf", waves(3)), folder.path().join("out.gguf"));
    let arguments = ["quantize", text(&from), text(&out), "--format", "q4_k", "--threads", "2"];
    fiddlehead(&arguments).succeeded();
    let written = Checkpoint::open(&out).expect("opens");
    let Description::Gguf(metadata) = written.description() else { panic!("a GGUF file") };
    assert_eq!(metadata.get("general.name").and_then(|value| value.as_str()), Some("kept"));
    assert_eq!(metadata.get("general.file_type").and_then(|value| value.as_u64()), Some(14));
    assert_eq!(metadata.get("general.quantization_version").and_then(|value| value.as_u64()), Some(2));
    assert!(metadata.get("split.count").is_none());
    assert!(metadata.get("tokenizer.ggml.tokens").is_some());
    assert_eq!(written.tensors()["blk.0.ffn_up.weight"].format(), Format::Q4_K);
    let vector = written.tensors()["blk.0.bias"].to_f32().expect("values");
    assert_eq!(vector, [1.0, 2.0, 3.0]);

    let other = folder.path().join("other.gguf");
    let said =
        fiddlehead(&["quantize", text(&out), text(&other), "--format", "q8_0", "--tensor", "*up*=q6_k"]);
    assert!(said.succeeded().contains("quantised before"));
    let written = Checkpoint::open(&other).expect("opens");
    assert_eq!(written.tensors()["blk.0.ffn_up.weight"].format(), Format::Q6_K);
}

#[test]
fn rows_that_no_block_fits_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let tensor = Tensor::from_f32(vec![2, 96], waves(1)[..192].to_vec()).expect("fits");
    let mut metadata = Metadata::default();
    metadata.set("general.architecture", "unheard-of");
    let from = folder.path().join("in.gguf");
    let bytes = write(Vec::new(), &metadata, &[("blk.0.ffn_up.weight", &tensor)]).expect("valid");
    fs::write(&from, bytes).expect("written");
    let out = folder.path().join("out.gguf");
    let said = fiddlehead(&["quantize", text(&from), text(&out), "--format", "q4_k"]).succeeded();
    assert!(said.contains("q5_0 instead of q4_k") && said.contains("blk.0.ffn_up.weight"), "{said}");
}

#[test]
fn files_that_are_in_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = matrix(folder.path(), "in.gguf", waves(2));
    let quantize = |out: &Path, more: &[&str]| {
        let flags = ["quantize", text(&from), text(out), "--format", "q8_0"];
        fiddlehead(&[&flags[..], more].concat())
    };
    let before = fs::read(&from).expect("there");
    quantize(&from, &[]).failed(1, &["belongs to the model that is read"]);
    quantize(&folder.path().join("./in.gguf"), &["--force"]).failed(1, &["belongs to the model"]);
    assert_eq!(fs::read(&from).expect("there"), before);
    let out = folder.path().join("out.gguf");
    fs::write(&out, "mine").expect("written");
    quantize(&out, &[]).failed(1, &["exists", "--force"]);
    assert_eq!(fs::read_to_string(&out).expect("there"), "mine");
    quantize(&out, &["--force"]).succeeded();
    Checkpoint::open(&out).expect("opens");
    let model = folder.path().join("model");
    fs::create_dir(&model).expect("a folder");
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(stories(name), model.join(name)).expect("copied");
    }
    let into = |out: &str| {
        let out = model.join(out);
        fiddlehead(&["quantize", text(&model), text(&out), "--format", "bf16", "--force"])
    };
    into("model.safetensors").failed(1, &["belongs to the model"]);
    into("out.gguf").succeeded();
    into("out.gguf").succeeded();
    quantize(folder.path(), &["--force"]).failed(1, &["it is a folder"]);
    quantize(&folder.path().join("nowhere/out.gguf"), &[]).failed(1, &["its folder must be there"]);
}

/// A limit on the file's size stands for a full disk, which a test cannot make.
#[test]
#[cfg(unix)]
fn a_file_that_does_not_fit_leaves_nothing_and_what_was_there_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.gguf");
    fs::write(&out, "mine").expect("written");
    let binary = env!("CARGO_BIN_EXE_fiddlehead");
    let script = "trap '' XFSZ; ulimit -f 512; exec \"$@\"";
    let from = source();
    let arguments =
        ["-c", script, "sh", binary, "quantize", text(&from), text(&out), "--format", "q8_0", "--force"];
    let ran = std::process::Command::new("sh").args(arguments).output().expect("sh runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be written") && said.contains("nothing of it was left"), "{said}");
    assert_eq!(names(folder.path()), ["out.gguf"]);
    assert_eq!(fs::read_to_string(&out).expect("there"), "mine");
}

#[test]
#[cfg(unix)]
fn only_a_regular_file_is_ever_replaced() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::os::unix::net::UnixListener;
    let folder = tempfile::tempdir().expect("a folder");
    let from = matrix(folder.path(), "in.gguf", waves(2));
    let quantize =
        |out: &Path| fiddlehead(&["quantize", text(&from), text(out), "--format", "q8_0", "--force"]);
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).expect("bound");
    let (link, file, nothing) =
        (folder.path().join("link"), folder.path().join("file"), folder.path().join("nothing"));
    symlink(&socket, &link).expect("linked");
    for out in [&socket, &link] {
        quantize(out).failed(1, &["a device, a pipe or a socket", "name the file"]);
        assert!(fs::metadata(out).expect("there").file_type().is_socket());
    }
    // Of a link, what it leads to is replaced.
    fs::remove_file(&link).expect("there");
    fs::write(&file, "old").expect("written");
    symlink(&file, &link).expect("linked");
    quantize(&link).succeeded();
    assert!(link.is_symlink());
    Checkpoint::open(&file).expect("opens");
    symlink(folder.path().join("gone"), &nothing).expect("linked");
    quantize(&nothing).failed(1, &["it is a link"]);
    assert!(nothing.is_symlink());
}

#[test]
fn values_that_are_no_numbers_are_refused_with_their_tensor_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for (bad, words) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (1e9, "--tensor")] {
        let mut values = waves(4);
        values[700] = bad;
        let from = matrix(folder.path(), "in.gguf", values);
        let out = folder.path().join("out.gguf");
        let arguments = ["quantize", text(&from), text(&out), "--format", "q4_k"];
        fiddlehead(&arguments).failed(1, &["`blk.0.ffn_up.weight`", "element 700", words]);
        assert_eq!(names(folder.path()), ["in.gguf"]);
    }
}

#[test]
fn what_makes_no_sense() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = matrix(folder.path(), "in.gguf", waves(1));
    let out = folder.path().join("out.gguf");
    let quantize = |more: &[&str]| fiddlehead(&[&["quantize", text(&from), text(&out)], more].concat());
    quantize(&["--format", "q9_0"]).failed(2, &["q9_0", "q4_k_m"]);
    quantize(&["--format", "q8_0", "--tensor", "ffn"]).failed(2, &["PATTERN=FORMAT"]);
    quantize(&["--format", "q8_0", "--tensor", "nothing=q6_k"])
        .failed(1, &["no tensor's name fits `nothing`"]);
    quantize(&[]).failed(2, &["--format"]);
    assert_eq!(names(folder.path()), ["in.gguf"]);
}
