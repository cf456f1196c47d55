//! The Qwen3.5 program becomes graphs: its steps, keys, weights, and how long that takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use fiddlehead_graph::display::draw_svg;
use fiddlehead_graph::lower::{Known, ModelBindings, lower_model};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_graph::*;
use fiddlehead_lang::hir::Program;

fn program() -> Program {
    let text = include_str!("../../models/programs/qwen3_5.fh");
    fiddlehead_lang::compile("qwen3_5.fh", text).expect("a right program")
}

/// A small model with the layers given: `d` for delta, `f` for full.
fn bindings(kinds: &str) -> ModelBindings {
    let dims = [
        ("V", 50),
        ("D", 16),
        ("L", kinds.len() as i64),
        ("H", 4),
        ("G", 2),
        ("K", 8),
        ("HV", 4),
        ("HK", 2),
        ("KD", 8),
        ("VD", 6),
        ("F", 24),
        ("R", 4),
    ];
    let mut params = BTreeSet::from(["embed".to_string(), "norm".to_string()]);
    let mut known = BTreeMap::from([
        ("interleaved".to_string(), Known::Bool(false)),
        ("eps".to_string(), Known::Float(1e-6)),
    ]);
    let common = ["norm_in", "norm_post", "gate", "up", "down"];
    let delta = ["qkv", "z", "b", "alpha", "conv", "a", "dt", "norm_out", "out"];
    let full = ["q", "k", "v", "norm_q", "norm_k", "o"];
    let mut layer_kinds = Vec::new();
    for (place, kind) in kinds.chars().enumerate() {
        let fields = if kind == 'd' { &delta[..] } else { &full[..] };
        layer_kinds.push(if kind == 'd' { "delta".to_string() } else { "full".to_string() });
        params.extend(common.iter().chain(fields).map(|field| format!("layers.{place}.{field}")));
        if kind == 'f' {
            let array = Known::Array { shape: vec![2], values: Arc::from([1.0, 0.1]) };
            known.insert(format!("layers.{place}.inv_freq"), array);
        }
    }
    let dims = dims.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    ModelBindings { dims, layer_kinds, known, params }
}

fn with_draft(mut bindings: ModelBindings) -> ModelBindings {
    let fields = ["norm_in", "norm_post", "gate", "up", "down", "q", "k", "v", "norm_q", "norm_k", "o"];
    bindings.params.extend(fields.iter().map(|field| format!("draft.{field}")));
    for name in ["draft_norm_token", "draft_norm_hidden", "draft_fc", "draft_norm"] {
        bindings.params.insert(name.into());
    }
    let array = Known::Array { shape: vec![2], values: Arc::from([1.0, 0.1]) };
    bindings.known.insert("draft.inv_freq".into(), array);
    bindings
}

#[test]
fn steps_keys_and_weights() {
    let model = lower_model(&program(), "qwen3_5", &with_draft(bindings("dddf"))).expect("lowers");
    let names: Vec<&str> = model.steps.iter().map(Graph::name).collect();
    assert_eq!(names, ["main", "mtp"]);
    let states: Vec<&str> = model.steps[0].states().iter().map(|state| state.key.as_str()).collect();
    assert_eq!(
        states,
        [
            "layers.0/delta_block.0/gated_delta.0/s",
            "layers.1/delta_block.0/gated_delta.0/s",
            "layers.2/delta_block.0/gated_delta.0/s",
        ]
    );
    let histories = |graph: &Graph| -> Vec<String> {
        graph.histories().iter().map(|history| history.key.clone()).collect()
    };
    assert_eq!(
        histories(&model.steps[0]),
        [
            "layers.0/delta_block.0/causal_conv.0/xs",
            "layers.1/delta_block.0/causal_conv.0/xs",
            "layers.2/delta_block.0/causal_conv.0/xs",
            "layers.3/attention_block.0/attend.0/ks",
            "layers.3/attention_block.0/attend.0/vs",
        ]
    );
    // Another step's keys are its own, in the same snapshot.
    assert_eq!(
        histories(&model.steps[1]),
        ["mtp/attention_block.0/attend.0/ks", "mtp/attention_block.0/attend.0/vs"]
    );
    let params: BTreeSet<&str> = model.steps[1].params().iter().map(|param| param.name.as_str()).collect();
    assert!(params.contains("embed") && params.contains("draft_fc") && params.contains("draft.q"));
    let outputs: Vec<&str> = model.steps[0].outputs().iter().map(|output| output.name.as_str()).collect();
    assert_eq!(outputs, ["logits", "hidden"]);
    let inputs: Vec<(&str, bool)> =
        model.steps[1].inputs().iter().map(|input| (input.name.as_str(), input.per_node)).collect();
    assert_eq!(inputs, [("following", true), ("hidden", true), ("at", true)]);
}

#[test]
fn a_tied_head_is_the_embedding() {
    let tied = lower_model(&program(), "qwen3_5", &bindings("d")).expect("lowers");
    assert!(tied.steps[0].params().iter().all(|param| param.name != "head"));
    let mut apart = bindings("d");
    apart.params.insert("head".into());
    let apart = lower_model(&program(), "qwen3_5", &apart).expect("lowers");
    assert!(apart.steps[0].params().iter().any(|param| param.name == "head"));
}

#[test]
fn a_step_without_its_weights_is_left_out() {
    let model = lower_model(&program(), "qwen3_5", &bindings("df")).expect("lowers");
    assert_eq!(model.steps.len(), 1);
    // A head that is half there is a broken checkpoint, not an absent one.
    let mut broken = with_draft(bindings("df"));
    broken.params.remove("draft.up");
    let error = lower_model(&program(), "qwen3_5", &broken).unwrap_err();
    assert_eq!(error.to_string(), "the checkpoint has no weight `draft.up`");
}

#[test]
fn what_the_mapping_lacks_is_said() {
    let said = |change: fn(&mut ModelBindings)| {
        let mut bindings = bindings("df");
        change(&mut bindings);
        lower_model(&program(), "qwen3_5", &bindings).unwrap_err().to_string()
    };
    assert_eq!(
        said(|b| {
            b.params.remove("layers.1.o");
        }),
        "the checkpoint has no weight `layers.1.o`"
    );
    assert_eq!(
        said(|b| {
            b.known.remove("eps");
        }),
        "the checkpoint's mapping gives nothing for `eps`; the model declares f32"
    );
    assert_eq!(
        said(|b| {
            let array = Known::Array { shape: vec![3], values: Arc::from([1.0, 0.1, 0.2]) };
            b.known.insert("layers.1.inv_freq".into(), array);
        }),
        "the checkpoint's mapping gives f32 [3] for `layers.1.inv_freq`; the model declares f32 [2]"
    );
    assert_eq!(
        said(|b| b.layer_kinds[0] = "mamba".into()),
        "the checkpoint's mapping gives the kind mamba for `layers.0`; the model declares delta or full"
    );
    assert_eq!(
        said(|b| {
            b.layer_kinds.pop();
        }),
        "the checkpoint's mapping gives the kinds of 1 layers for `layers`; the model declares 2 layers"
    );
    assert_eq!(
        said(|b| {
            b.dims.remove("F");
        }),
        "the size F is not known: no input tells it; give it with --dim F=NUMBER"
    );
    let error = lower_model(&program(), "llama", &bindings("d")).unwrap_err();
    assert_eq!(error.to_string(), "the program has no model `llama`");
}

#[test]
fn the_static_head_order_leaves_no_trace() {
    let text = |interleaved: bool| {
        let mut bindings = bindings("d");
        bindings.known.insert("interleaved".into(), Known::Bool(interleaved));
        let model = lower_model(&program(), "qwen3_5", &bindings).expect("lowers");
        optimise(&model.steps[0]).to_string()
    };
    let (side, apart) = (text(false), text(true));
    assert!(side.contains("[i / 2, k]") && !side.contains("[i % 2, k]"), "{side}");
    assert!(apart.contains("[i % 2, k]") && !apart.contains("[i / 2, k]"), "{apart}");
}

#[test]
fn rewrites_leave_the_contractions_plain() {
    let model = lower_model(&program(), "qwen3_5", &bindings("df")).expect("lowers");
    let text = optimise(&model.steps[0]).to_string();
    // Slices of the merged projection are read where they lie.
    assert!(text.contains("%11[i * 8 + j + 16] * %11[i * 8 + j + 16]"), "{text}");
    let contractions = text.lines().filter(|line| line.contains("compute bf16 | q8 sum")).count();
    assert_eq!(contractions, 5 + 4 + 2 * 3 + 1, "{text}");
    let plain = text.lines().filter(|line| line.contains("compute bf16 | q8 sum")).all(|line| {
        let body = line.split("] ").last().unwrap_or("");
        let body = line.find("sum[").map_or(body, |at| &line[at..]);
        body.matches(" * ").count() == 1
    });
    assert!(plain, "{text}");
}

#[test]
fn a_whole_model_takes_milliseconds() {
    let program = program();
    let bindings = with_draft(bindings(&"dddf".repeat(8)));
    // The least of several runs: the machine may be busy.
    let mut least = std::time::Duration::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        let model = lower_model(&program, "qwen3_5", &bindings).expect("lowers");
        let steps: Vec<Graph> = model.steps.iter().map(optimise).collect();
        least = least.min(start.elapsed());
        assert!(steps[0].nodes().len() > 1000);
    }
    let limit = if cfg!(debug_assertions) { 2000 } else { 250 };
    assert!(least.as_millis() < limit, "{least:?}");
}

#[test]
fn a_model_can_be_drawn() {
    let model = lower_model(&program(), "qwen3_5", &bindings("dddf")).expect("lowers");
    let graph = optimise(&model.steps[0]);
    let last = NodeId(graph.nodes().len() as u32 - 1);
    let drawing = draw_svg(&graph, &BTreeMap::from([(last, "contraction <head>".to_string())]));
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
    assert_eq!(drawing.matches("<g><title>").count(), graph.nodes().len());
    for layer in ["layers.0", "layers.3", "after the layers", "contraction &lt;head&gt;"] {
        assert!(drawing.contains(&format!(">{layer}</text>")), "{layer}");
    }
    assert!(!drawing.contains("<head>"));
    // The font's characters are 7 wide at most, and a box 190.
    let texts =
        drawing.split("<text ").skip(1).filter_map(|text| Some(text.split_once('>')?.1.split_once('<')?.0));
    let headings: Vec<&str> = texts.filter(|text| text.starts_with('%')).collect();
    assert_eq!(headings.len(), graph.nodes().len());
    assert!(headings.iter().all(|text| text.chars().count() * 7 + 12 <= 190), "{headings:?}");
}
