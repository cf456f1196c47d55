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
    let said = fiddlehead(&["explain", program]).succeeded();
    assert!(said.contains("llama.fh type-checks") && said.contains("--model PATH"), "{said}");
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

const MODEL: &str = "model tiny {
    dims V, D, L;
    const eps: f32;
    param embed: f32[V, D];
    layers[L] {
        kind wide { param up: f32[D, D]; }
        kind plain { const taps: f32[D]; }
    }
    step fn block(x: f32[D], layer: wide) -> f32[D] = each[d in D] sum[e in D] layer.up[d, e] * x[e];
    step main(token: id, at: i32) -> (logits: f32[V]) {
        let x = for layer in layers(x = embed[token]) {
            let y = match layer.kind { wide => block(x, layer), plain => each[d in D] x[d] * layer.taps[d] + eps };
            next x + y
        };
        each[v in V] sum[d in D] embed[v, d] * x[d]
    }
}";

/// A right model program is told to be right, with what it declares; with sizes it is explained whole.
#[test]
fn a_program_with_a_model_is_told_what_it_declares() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tiny.fh");
    fs::write(&path, MODEL).expect("written");
    let path = path.to_str().expect("UTF-8");
    let said = fiddlehead(&["explain", path]).succeeded();
    for word in
        ["type-checks", "dims V, D, L", "kind wide", "step main(token: id, at: i32)", "--model", "--dim"]
    {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
    let sizes = ["--dim", "V=7", "--dim", "D=4", "--dim", "L=3"];
    let said = fiddlehead(&[&["explain", path], &sizes[..]].concat()).succeeded();
    for word in ["type-checks", "turns: wide, plain, wide", "graph main", "contraction", "plan for"] {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
    fiddlehead(&["explain", path, "--dim", "V=7"]).failed(1, &["D", "--dim"]);
    fiddlehead(&["explain", path, "--dim", "W=7"]).failed(1, &["`W` is no size of `tiny`"]);
    fiddlehead(&["explain", path, "--step", "main"]).failed(2, &["--dim"]);
    let huge = ["--dim", "V=2147483647", "--dim", "D=64", "--dim", "L=1"];
    fiddlehead(&[&["explain", path], &huge[..]].concat()).failed(1, &["elements of a"]);
    let deep = ["--dim", "V=7", "--dim", "D=4", "--dim", "L=2147483647"];
    fiddlehead(&[&["explain", path], &deep[..]].concat()).failed(1, &["layers"]);
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/programs/qwen3_5.fh");
    assert!(fiddlehead(&["explain", shipped]).succeeded().contains("step mtp(following: id"));
}

/// A reason why a node is no site is told once.
#[test]
fn a_refusal_is_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("near.fh");
    let text = "step fn main(k: f32[4], v: f32[4]) -> f32[4] {
        history ks = k;
        history vs = v;
        each[i in 4] sum[t in 0..here] exp(sum[j in 4] k[j] * ks[t][j]) * vs[t][i]
    }";
    fs::write(&path, text).expect("written");
    let said = fiddlehead(&["explain", path.to_str().expect("UTF-8")]).succeeded();
    assert_eq!(said.matches("the range does not end at this node").count(), 1, "{said}");
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
