//! The covers of whole models' graphs, and how long one takes to find.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fiddlehead_graph::lower::{Known, ModelBindings, lower_model};
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;
use fiddlehead_lang::hir::{Field, FieldRole, Scalar, Type};

/// Every program that is shipped, by name.
fn programs() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/programs");
    let paths = fs::read_dir(folder).expect("the programs").map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("a text"))
    };
    let mut programs: Vec<_> = paths.map(read).collect();
    programs.sort();
    programs
}

const DIMS: [(&str, i64); 17] = [
    ("V", 100),
    ("D", 48),
    ("H", 4),
    ("G", 2),
    ("K", 16),
    ("HV", 4),
    ("HK", 2),
    ("KD", 8),
    ("VD", 12),
    ("F", 64),
    ("R", 8),
    ("E", 6),
    ("T", 2),
    ("S", 20),
    ("W", 9),
    ("A", 3),
    ("B", 3),
];

/// What stands for a number of a checkpoint, by its type. Arrays are rotary frequencies, R / 2 of them.
fn known(ty: &Type, flag: bool) -> Known {
    match ty {
        Type::Scalar(Scalar::Bool) => Known::Bool(flag),
        Type::Scalar(Scalar::I32) => Known::Int(1),
        Type::Scalar(_) => Known::Float(0.5),
        _ => Known::Array { shape: vec![4], values: Arc::from([1.0f32, 0.1, 0.01, 0.001]) },
    }
}

/// A model of that many layers, every fourth of its second kind when it has two; all statics are `flag`.
fn model(name: &str, text: &str, layers: usize, flag: bool) -> ModelGraph {
    let program = fiddlehead_lang::compile(name, text).expect("the program compiles");
    let declared = program.models.iter().find(|model| model.name == name).expect("its model");
    let mut bindings = ModelBindings::default();
    bindings.dims.extend(DIMS.map(|(name, value)| (name.to_string(), value)));
    bindings.dims.insert("L".into(), layers as i64);
    for found in &declared.statics {
        bindings.known.insert(found.name.clone(), known(&Type::Scalar(found.ty), flag));
    }
    for found in &declared.consts {
        bindings.known.insert(found.name.clone(), known(&found.ty, flag));
    }
    // The head is tied to the embedding.
    bindings
        .params
        .extend(declared.params.iter().map(|param| param.name.clone()).filter(|name| name != "head"));
    let mut add = |path: String, fields: &[Field]| {
        for field in fields {
            let path = format!("{path}.{}", field.name);
            match field.role {
                FieldRole::Param => drop(bindings.params.insert(path)),
                _ => drop(bindings.known.insert(path, known(&field.ty, flag))),
            }
        }
    };
    let list = declared.layers.as_ref().expect("a list of layers");
    for layer in 0..layers {
        add(format!("layers.{layer}"), &list.common);
        if let [first, second] = &list.kinds[..] {
            let kind = if layer % 4 == 3 { second } else { first };
            add(format!("layers.{layer}"), &kind.fields);
        }
    }
    for single in &declared.single_layers {
        add(single.name.clone(), &list.common);
        if let Some(kind) = single.kind {
            add(single.name.clone(), &list.kinds[kind.index()].fields);
        }
    }
    if let [first, second] = &list.kinds[..] {
        let kind = |layer| if layer % 4 == 3 { second } else { first };
        bindings.layer_kinds = (0..layers).map(|layer| kind(layer).name.clone()).collect();
    }
    lower_model(&program, name, &bindings).expect("the model lowers")
}

#[test]
fn every_stateful_part_is_a_site() {
    for (name, text) in programs() {
        for flag in [false, true] {
            for optimised in [false, true] {
                for step in &model(&name, &text, 4, flag).steps {
                    let graph = if optimised { rewrite::optimise(step) } else { step.clone() };
                    let sites = assign_sites(&graph);
                    let count =
                        |is: &dyn Fn(&Site) -> bool| sites.sites.iter().filter(|site| is(site)).count();
                    let case = format!("{name} {} {flag} {optimised}: {:?}", step.name(), sites.refusals);
                    let (delta, full) = match (step.name(), graph.states().len()) {
                        ("main", 0) => (0, 4),
                        ("main", _) => (3, 1),
                        _ => (0, 1),
                    };
                    assert_eq!(count(&|site| matches!(site, Site::Attention(_))), full, "{case}");
                    assert_eq!(count(&|site| matches!(site, Site::Recurrence(_))), delta, "{case}");
                    assert_eq!(count(&|site| matches!(site, Site::Window(_))), delta, "{case}");
                    let general = sites.sites.iter().filter(|site| matches!(site, Site::General(_)));
                    assert_eq!(general.count(), 0, "{case}");
                    assert_eq!(sites.loops, [], "{case}");
                    assert_eq!(sites.refusals, [], "{case}");
                }
            }
        }
    }
}

/// Every weight is read by a row kernel's view, and what reads the same vector merges.
#[test]
fn weights_are_read_by_rows() {
    for (name, text) in programs() {
        let graph = rewrite::optimise(&model(&name, &text, 4, false).steps[0]);
        let sites = assign_sites(&graph);
        let found: Vec<Contraction> = sites
            .sites
            .iter()
            .filter_map(|site| match site {
                Site::Contraction(site) => Some((**site).clone()),
                _ => None,
            })
            .collect();
        for site in &found {
            if site.operands.iter().any(|operand| operand.variance == Variance::Constant) {
                let view = site.as_rows_times_weight(&graph);
                assert!(view.is_ok(), "{name}: {view:?}");
            }
        }
        // At least the queries, keys and values of each layer of attention, or the four products of a delta layer.
        let merged = merges(&graph, &found);
        assert!(merged.iter().filter(|merge| merge.nodes.len() >= 3).count() >= 3, "{name}: {merged:?}");
        let groups = found.iter().filter_map(|site| site.as_rows_times_weight(&graph).ok()?.group).count();
        // The token's row of the embedding is a gather, no group; three weights of experts a layer are.
        let experts = if name.contains("moe") || name == "qwen3_next" { 12 } else { 0 };
        assert_eq!(groups, experts, "{name}");
    }
}

/// Not a benchmark: a scan that went quadratic would take seconds here.
#[test]
fn large_models_are_quick() {
    let text = include_str!("../../models/programs/qwen3_5.fh");
    let step = rewrite::optimise(&model("qwen3_5", text, 48, false).steps[0]);
    let best = (0..10)
        .map(|_| {
            let start = Instant::now();
            let sites = assign_sites(&step);
            let (fused, _) = fusions(&step, &sites);
            assert!(sites.sites.len() > 1000 && fused.len() > 300);
            start.elapsed()
        })
        .min();
    assert!(best < Some(Duration::from_millis(500)), "{best:?}");
}
