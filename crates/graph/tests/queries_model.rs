//! The cover of a whole hybrid model's graph, and how long it takes to find.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fiddlehead_graph::lower::{Known, ModelBindings, lower_model};
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;

const PROGRAM: &str = include_str!("../../models/programs/qwen3_5.fh");

/// A model of that many layers, every fourth of full attention.
fn model(layers: usize, interleaved: bool) -> ModelGraph {
    let program = fiddlehead_lang::compile("qwen3_5.fh", PROGRAM).expect("the program compiles");
    let mut bindings = ModelBindings::default();
    let dims = [
        ("V", 100),
        ("D", 48),
        ("L", layers as i64),
        ("H", 4),
        ("G", 2),
        ("K", 16),
        ("HV", 4),
        ("HK", 2),
        ("KD", 8),
        ("VD", 12),
        ("F", 64),
        ("R", 8),
    ];
    bindings.dims.extend(dims.map(|(name, value)| (name.to_string(), value)));
    bindings.known.insert("interleaved".into(), Known::Bool(interleaved));
    bindings.known.insert("eps".into(), Known::Float(1e-6));
    let frequencies = || Known::Array { shape: vec![4], values: Arc::from([1.0f32, 0.1, 0.01, 0.001]) };
    let mut add = |prefix: &str, names: &str| {
        bindings.params.extend(names.split(' ').map(|name| format!("{prefix}{name}")));
    };
    add("", "embed norm draft_norm_token draft_norm_hidden draft_fc draft_norm");
    add("draft.", "norm_in norm_post gate up down q k v norm_q norm_k o");
    bindings.known.insert("draft.inv_freq".into(), frequencies());
    for layer in 0..layers {
        let path = format!("layers.{layer}.");
        let mut add = |names: &str| {
            bindings.params.extend(names.split(' ').map(|name| format!("{path}{name}")));
        };
        add("norm_in norm_post gate up down");
        if layer % 4 == 3 {
            add("q k v norm_q norm_k o");
            bindings.known.insert(format!("{path}inv_freq"), frequencies());
            bindings.layer_kinds.push("full".into());
        } else {
            add("qkv z b alpha conv a dt norm_out out");
            bindings.layer_kinds.push("delta".into());
        }
    }
    lower_model(&program, "qwen3_5", &bindings).expect("the model lowers")
}

#[test]
fn every_stateful_part_is_a_site() {
    for interleaved in [false, true] {
        for optimised in [false, true] {
            let model = model(4, interleaved);
            for step in &model.steps {
                let graph = if optimised { rewrite::optimise(step) } else { step.clone() };
                let sites = assign_sites(&graph);
                let count = |is: &dyn Fn(&Site) -> bool| sites.sites.iter().filter(|site| is(site)).count();
                let (full, delta) = if step.name() == "main" { (1, 3) } else { (1, 0) };
                let case = format!("{} {interleaved} {optimised}", step.name());
                assert_eq!(
                    count(&|site| matches!(site, Site::Attention(_))),
                    full,
                    "{case}: {:?}",
                    sites.refusals
                );
                assert_eq!(
                    count(&|site| matches!(site, Site::Recurrence(_))),
                    delta,
                    "{case}: {:?}",
                    sites.refusals
                );
                assert_eq!(
                    count(&|site| matches!(site, Site::Window(_))),
                    delta,
                    "{case}: {:?}",
                    sites.refusals
                );
                assert_eq!(count(&|site| matches!(site, Site::General(_))), 0, "{case}");
                assert_eq!(sites.loops, [], "{case}");
                assert_eq!(sites.refusals, [], "{case}");
            }
        }
    }
}

/// Not a benchmark: a scan that went quadratic would take seconds here.
#[test]
fn large_models_are_quick() {
    let step = rewrite::optimise(&model(48, false).steps[0]);
    let best = (0..10)
        .map(|_| {
            let start = Instant::now();
            let sites = assign_sites(&step);
            let fused = fusions(&step, &sites);
            assert!(sites.sites.len() > 1000 && fused.len() > 300);
            start.elapsed()
        })
        .min();
    assert!(best < Some(Duration::from_millis(500)), "{best:?}");
}
