//! Every program of `docs/language.md` lowers, runs, and means the same when it is optimised.

use std::collections::BTreeSet;
use std::sync::Arc;

use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::lower::{Known, ModelBindings, lower_function, lower_model};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_graph::{Element, Graph, Input};
use fiddlehead_lang::examples::{Action, Example, examples};
use fiddlehead_lang::hir::{FieldRole, Model, Program, Scalar, Type};
use fiddlehead_oracle::{Array, Data, Oracle, OracleSessions, Weight, Weights};

const PAGE: &str = include_str!("../../../docs/language.md");
const NODES: usize = 5;

/// A value in [-1, 1) that looks random.
fn value(place: usize) -> f64 {
    ((place * 2654435761 + 12345) % 1009) as f64 / 504.5 - 1.0
}

fn array(input: &Input, example: &Example) -> Array<f64> {
    let mut shape = input.shape.clone();
    if input.per_node {
        shape.insert(0, NODES);
    }
    let count: usize = shape.iter().product();
    let salt = input.name.len() * 31;
    let data = match input.element {
        Element::F32 => Data::Float((0..count).map(|i| value(i + salt)).collect()),
        // By custom `at` is the node's depth.
        Element::I32 if input.name == "at" && input.per_node => Data::Int((0..count as i32).collect()),
        Element::I32 => Data::Int((0..count).map(|i| (i as i64 % example.ids) as i32).collect()),
        Element::Bool => Data::Bool((0..count).map(|i| i % 2 == 0).collect()),
        Element::Id => Data::Id((0..count).map(|i| ((i as i64 * 3 + 1) % example.ids) as u32).collect()),
    };
    Array::new(&shape, data).expect("fits")
}

/// Everything that the graph gives over a chain, or over one node when it is a plain function's.
fn run(graph: &Graph, example: &Example) -> Vec<f64> {
    let weight = |param: &fiddlehead_graph::Param| {
        let count: usize = param.shape.iter().product();
        let salt = param.name.bytes().map(usize::from).sum::<usize>();
        let values: Vec<f32> = (0..count).map(|i| value(i + salt) as f32).collect();
        (param.name.clone(), Weight::Float(Arc::from(values)))
    };
    let weights: Weights = graph.params().iter().map(weight).collect();
    let inputs: Vec<Array<f64>> = graph.inputs().iter().map(|input| array(input, example)).collect();
    let oracle = Oracle::<f64>::new(graph, &weights).expect("resolves");
    let nodes = if matches!(example.action, Action::Function(_)) { 1 } else { NODES };
    let chain = Forest::single_chain(SessionId(0), 0, nodes).expect("a chain");
    let run = match oracle.run(&chain, &inputs, &OracleSessions::new()) {
        Ok(run) => run,
        Err(error) => panic!("docs/language.md:{}: {error}\n{graph}", example.line),
    };
    let mut found = Vec::new();
    for node in &run.nodes {
        node.outputs.iter().flatten().for_each(|output| found.extend(output.to_f64s()));
        node.states.iter().chain(&node.rows).for_each(|value| found.extend(value.to_f64s()));
    }
    found
}

fn check(graph: &Graph, example: &Example) {
    let (plain, optimised) = (run(graph, example), run(&optimise(graph), example));
    assert!(!plain.is_empty() && plain.iter().all(|x| x.is_finite()), "line {}: {plain:?}", example.line);
    assert_eq!(plain.len(), optimised.len(), "line {}", example.line);
    for (x, y) in plain.iter().zip(&optimised) {
        assert!((x - y).abs() <= 1e-12 * (1.0 + x.abs()), "line {}: {x} {y}", example.line);
    }
}

/// Made-up values for all that a model asks for.
fn bindings(example: &Example, program: &Program, model: &Model) -> ModelBindings {
    let size = |size: &fiddlehead_lang::Size| {
        let value = size.evaluate(&|symbol| example.sizes.get(program.symbol_name(symbol)).copied());
        value.expect("a size") as usize
    };
    let known = |ty: &Type| match ty {
        Type::Scalar(Scalar::Bool) => Known::Bool(true),
        Type::Scalar(Scalar::I32) => Known::Int(1),
        Type::Scalar(_) => Known::Float(1e-3),
        array => {
            let shape: Vec<usize> = array.dims().iter().map(size).collect();
            let values = (0..shape.iter().product()).map(|i| value(i) as f32).collect();
            Known::Array { shape, values }
        }
    };
    let mut bindings = ModelBindings {
        dims: example.sizes.clone(),
        layer_kinds: example.kinds.clone(),
        known: example.statics.iter().map(|(name, value)| (name.clone(), Known::Bool(*value))).collect(),
        params: model.params.iter().map(|param| param.name.clone()).collect::<BTreeSet<_>>(),
    };
    bindings.known.extend(model.consts.iter().map(|value| (value.name.clone(), known(&value.ty))));
    let layers = model.layers.as_ref().expect("layers");
    let kinds = example.kinds.iter().enumerate();
    let listed = kinds.map(|(place, kind)| {
        let kind = layers.kinds.iter().find(|declared| declared.name == *kind).expect("a kind");
        (format!("layers.{place}"), Some(kind))
    });
    let single = model
        .single_layers
        .iter()
        .map(|layer| (layer.name.clone(), layer.kind.map(|kind| &layers.kinds[kind.index()])));
    for (path, kind) in listed.chain(single) {
        for field in layers.common.iter().chain(kind.iter().flat_map(|kind| &kind.fields)) {
            let name = format!("{path}.{}", field.name);
            match field.role {
                FieldRole::Param => {
                    bindings.params.insert(name);
                }
                FieldRole::Const | FieldRole::Static => {
                    bindings.known.insert(name, known(&field.ty));
                }
            }
        }
    }
    bindings
}

#[test]
fn every_example_runs() {
    let mut ran = 0;
    for example in examples(PAGE).expect("info strings") {
        let name = format!("docs/language.md:{}", example.line);
        let program = match (&example.action, fiddlehead_lang::compile(&name, &example.text)) {
            (Action::Refused(_), _) => continue,
            (_, Ok(program)) => program,
            (_, Err(messages)) => panic!("{}", messages.render(false)),
        };
        match &example.action {
            Action::Function(function) | Action::Step(function) => {
                match lower_function(&program, function, &example.sizes) {
                    Ok(graph) => check(&graph, &example),
                    Err(error) => panic!("{name}: {error}"),
                }
            }
            Action::Model(model) => {
                let declared = program.models.iter().find(|known| known.name == *model).expect("the model");
                let lowered = lower_model(&program, model, &bindings(&example, &program, declared));
                let lowered = lowered.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(lowered.steps.len(), declared.steps.len());
                lowered.steps.iter().for_each(|step| check(step, &example));
            }
            Action::Refused(_) => {}
        }
        ran += 1;
    }
    assert!(ran > 15, "{ran} examples");
}
