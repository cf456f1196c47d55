//! Every program of `docs/language.md` runs, on the CPU as in the oracle.

mod common;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use common::{load, options, to_f64s, values};
use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::shapes::{SplitMix, random_forest};
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::lower::{Known, ModelBindings, lower_function, lower_model};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_graph::{Element, Graph, Input};
use fiddlehead_lang::examples::{Action, Example, examples};
use fiddlehead_lang::hir::{FieldRole, Program, Scalar, Type};
use fiddlehead_oracle::{Array, Oracle, OracleSessions, Weight};
use fiddlehead_plan::{Device, LoadOptions, Values, Weights};
use fiddlehead_storage::Tensor;

const PAGE: &str = include_str!("../../../docs/language.md");

/// Random values for an input of `shape`; integers below the example's bound, or the depths when it is a position.
fn random_input(random: &mut SplitMix, input: &Input, forest: Option<&Forest>, ids: i64) -> Array<f32> {
    let mut shape = input.shape.clone();
    if let (true, Some(forest)) = (input.per_node, forest) {
        shape.insert(0, forest.len());
    }
    let count = shape.iter().product::<usize>();
    let below = ids.max(1) as usize;
    let array = match (input.element, forest) {
        (Element::I32, Some(forest)) if input.name == "at" => Array::ints(forest.depths()),
        (Element::F32, _) => Array::floats(&(0..count).map(|_| random.signed_unit()).collect::<Vec<_>>()),
        (Element::Id, _) => Array::ids(&(0..count).map(|_| random.below(below) as u32).collect::<Vec<_>>()),
        _ => Array::ints(&(0..count).map(|_| random.below(below) as i32).collect::<Vec<_>>()),
    };
    array.reshaped(&shape).expect("as many elements as the shape has")
}

fn close(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (place, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let error = (found - wanted).abs() / (1.0 + wanted.abs());
        assert!(error <= 1e-5, "{what}, element {place}: {found} instead of {wanted}");
    }
}

fn run_function(device: &CpuDevice, graph: &Graph, example: &Example) {
    let mut random = SplitMix::new(example.line as u64);
    let oracle = Oracle::<f64>::new(graph, &HashMap::new()).expect("resolves");
    for round in 0..3 {
        let inputs: Vec<Array<f32>> =
            graph.inputs().iter().map(|input| random_input(&mut random, input, None, example.ids)).collect();
        let wide: Vec<Array<f64>> = inputs.iter().map(Array::converted).collect();
        let wanted = oracle.evaluate(&wide).expect("runs");
        let given: Vec<Values> = inputs.iter().map(values).collect();
        let found = device.call(graph, &given, &LoadOptions::default()).expect("runs");
        for (place, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let what = format!("line {}, round {round}, output {place}", example.line);
            close(&to_f64s(found), &wanted.to_f64s(), &what);
        }
    }
}

fn run_step(device: &CpuDevice, graph: &Graph, example: &Example) {
    let mut random = SplitMix::new(1 + example.line as u64);
    let (mut stored, mut weights) = (Weights::new(), HashMap::new());
    for param in graph.params() {
        let count = param.shape.iter().product::<usize>();
        let content: Vec<f32> = (0..count).map(|_| random.signed_unit()).collect();
        stored.insert(param.name.clone(), Tensor::from_f32(param.shape.clone(), content.clone()).unwrap());
        weights.insert(param.name.clone(), Weight::Float(Arc::from(content)));
    }
    let oracle = Oracle::<f64>::new(graph, &weights).expect("resolves");
    let mut executor = load(device, graph, stored, options(&[]));
    let mut sessions = OracleSessions::new();
    let mut bases = Vec::new();
    for session in 0..3 {
        let id = SessionId(session);
        executor.open(id).expect("a new session");
        sessions.insert(id, oracle.session());
        bases.push((id, 0));
    }
    for round in 0..4 {
        let forest = random_forest(&mut random, &bases, 9).expect("a forest");
        let inputs: Vec<Array<f32>> = graph
            .inputs()
            .iter()
            .map(|input| random_input(&mut random, input, Some(&forest), example.ids))
            .collect();
        let wide: Vec<Array<f64>> = inputs.iter().map(Array::converted).collect();
        let wanted = oracle.run(&forest, &wide, &sessions).expect("runs");
        let given: Vec<Values> = inputs.iter().map(values).collect();
        let found = executor.run(0, &forest, &given).expect("runs");
        for (place, output) in found.iter().enumerate() {
            let rows = output
                .nodes
                .iter()
                .flat_map(|&node| wanted.output(node as usize, place).expect("wanted by both").to_f64s());
            let what = format!("line {}, `{}`, round {round}, output {place}", example.line, graph.name());
            close(&to_f64s(&output.values), &rows.collect::<Vec<_>>(), &what);
        }
        for (segment, place) in forest.segments().iter().zip(0..) {
            let accepted = forest.accept_to(segment.range().end as u32 - 1).expect("a node");
            let session = segment.session();
            wanted.commit(&accepted, sessions.get_mut(&session).expect("open")).expect("continues");
            executor.commit(0, &accepted).expect("continues");
            bases.iter_mut().find(|base| base.0 == session).expect("known").1 = accepted.position();
            assert_eq!(accepted.segment(), place);
        }
    }
}

/// What a checkpoint would bind for the example's model: random constants, every weight present.
fn bindings(program: &Program, model: &str, example: &Example) -> ModelBindings {
    let model = program.models.iter().find(|known| known.name == model).expect("the model");
    let mut random = SplitMix::new(example.line as u64);
    let mut constant = |ty: &Type| match ty {
        Type::Scalar(Scalar::F32) => Known::Float(0.25),
        Type::Scalar(Scalar::Bool) => Known::Bool(true),
        Type::Array(_, dims) => {
            let size = |name| example.sizes.get(program.symbol_name(name)).copied();
            let shape: Vec<usize> =
                dims.iter().map(|dim| dim.evaluate(&size).expect("known") as usize).collect();
            let values = (0..shape.iter().product()).map(|_| random.signed_unit()).collect();
            Known::Array { shape, values }
        }
        _ => Known::Int(1),
    };
    let mut bound = ModelBindings {
        dims: example.sizes.clone(),
        layer_kinds: example.kinds.clone(),
        known: example.statics.iter().map(|(name, value)| (name.clone(), Known::Bool(*value))).collect(),
        params: model.params.iter().map(|param| param.name.clone()).collect(),
    };
    for value in &model.consts {
        bound.known.insert(value.name.clone(), constant(&value.ty));
    }
    let Some(layers) = &model.layers else { return bound };
    let list =
        example.kinds.iter().enumerate().map(|(place, kind)| (format!("layers.{place}"), kind.as_str()));
    let single = model.single_layers.iter().map(|layer| {
        let kind = layer.kind.map_or("", |kind| layers.kinds[kind.index()].name.as_str());
        (layer.name.clone(), kind)
    });
    for (path, kind) in list.chain(single).collect::<Vec<_>>() {
        let own = layers.kinds.iter().find(|known| known.name == kind).map_or(&[][..], |kind| &kind.fields);
        for field in layers.common.iter().chain(own) {
            let path = format!("{path}.{}", field.name);
            match field.role {
                FieldRole::Param => drop(bound.params.insert(path)),
                FieldRole::Const | FieldRole::Static => drop(bound.known.insert(path, constant(&field.ty))),
            }
        }
    }
    bound
}

#[test]
fn every_example_runs_as_in_the_oracle() {
    let device = CpuDevice::new(2);
    let mut ran = BTreeSet::new();
    for example in &examples(PAGE).expect("info strings") {
        let name = format!("docs/language.md:{}", example.line);
        let compile = || fiddlehead_lang::compile(&name, &example.text).expect("a right program");
        match &example.action {
            Action::Refused(_) => {}
            Action::Function(function) => {
                let graph = lower_function(&compile(), function, &example.sizes).expect("lowers");
                run_function(&device, &optimise(&graph), example);
                run_function(&device, &graph, example);
                ran.insert("function");
            }
            Action::Step(function) => {
                let graph = lower_function(&compile(), function, &example.sizes).expect("lowers");
                run_step(&device, &optimise(&graph), example);
                ran.insert("step");
            }
            Action::Model(model) => {
                let program = compile();
                let bound = bindings(&program, model, example);
                for step in &lower_model(&program, model, &bound).expect("lowers").steps {
                    run_step(&device, &optimise(step), example);
                }
                ran.insert("model");
            }
        }
    }
    assert_eq!(ran, BTreeSet::from(["function", "model", "step"]));
}
