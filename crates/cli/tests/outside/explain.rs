//! `fiddlehead explain`, help and completions.

use std::fs;

use crate::fiddlehead;

#[test]
fn a_program_is_explained_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("norm.fh");
    let text =
        "fn main[N, K](x: f32[K], w: f32[N, K]) -> f32[N] =\n    each[n in N] sum[k in K] w[n, k] * x[k];\n";
    fs::write(&path, text).expect("written");
    let svg = folder.path().join("norm.svg");
    let (path, svg) = (path.to_str().expect("UTF-8"), svg.to_str().expect("UTF-8"));
    let said = fiddlehead(&["explain", path, "--dim", "N=4", "--dim", "K=8", "--svg", svg]).succeeded();
    for word in ["graph main", "sites of main", "contraction", "refusals of main", "plan for"] {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
    let drawing = fs::read_to_string(svg).expect("written");
    assert!(drawing.starts_with("<svg") && drawing.contains("contraction"));
    fiddlehead(&["explain", path]).failed(1, &["N", "--dim"]);
    fiddlehead(&["explain", path, "--dim", "N=4", "--dim", "K=8", "--svg", "no/such/x.svg"])
        .failed(1, &["no/such/x.svg"]);
}

#[test]
fn a_models_program_is_checked() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/programs/llama.fh");
    fiddlehead(&["explain", program]).failed(2, &["llama.fh", "holds a model", "--model PATH"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("llama.fh");
    let text = fs::read_to_string(program).expect("a program");
    fs::write(&path, text.replace("layer.norm_in", "layer.norm_out")).expect("written");
    fiddlehead(&["explain", path.to_str().expect("UTF-8")]).failed(1, &["llama.fh", "norm_out"]);
}

#[test]
fn a_model_is_explained() {
    let said = fiddlehead(&["explain", "--embedded", "--step", "main"]).succeeded();
    for word in ["graph main", "attention", "recurrence", "contraction", "plan for"] {
        assert!(said.contains(word), "no `{word}`");
    }
    assert!(!said.contains("graph mtp"));
    fiddlehead(&["explain", "--embedded", "--step", "side"]).failed(2, &["side", "main, mtp"]);
}

#[test]
fn help_has_examples_for_every_command() {
    let help = fiddlehead(&["help"]).succeeded();
    assert!(help.contains("Exit codes"));
    for command in ["run", "exec", "explain", "bench", "completions"] {
        assert!(help.contains(command));
        assert!(fiddlehead(&["help", command]).succeeded().contains("Examples:"), "{command}");
    }
    assert!(fiddlehead(&["--version"]).succeeded().starts_with("fiddlehead "));
}

#[test]
fn completions_know_the_flags() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(fiddlehead(&["completions", shell]).succeeded().contains("temperature"), "{shell}");
    }
}
