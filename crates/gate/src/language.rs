//! Every program of the language's page runs on a device as in the oracle.

use std::collections::HashMap;
use std::sync::Arc;

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

use crate::case::{load, options, to_f64s, values};

/// Random values for an input of `shape`; integers below the example's bound, or the depths when it is a position.
fn random_input(
    random: &mut SplitMix,
    input: &Input,
    forest: Option<&Forest>,
    ids: i64,
) -> Result<Array<f32>, String> {
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
    array.reshaped(&shape).map_err(words)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn close(found: &[f64], wanted: &[f64], what: &str) -> Result<(), String> {
    if found.len() != wanted.len() {
        return Err(format!("{what}: {} elements instead of {}", found.len(), wanted.len()));
    }
    for (place, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let error = (found - wanted).abs() / (1.0 + wanted.abs());
        if error.is_nan() || error > 1e-5 {
            return Err(format!("{what}, element {place}: {found} instead of {wanted}"));
        }
    }
    Ok(())
}

fn run_function(device: &dyn Device, graph: &Graph, example: &Example) -> Result<(), String> {
    let mut random = SplitMix::new(example.line as u64);
    let oracle = Oracle::<f64>::new(graph, &HashMap::new()).map_err(words)?;
    for round in 0..3 {
        let inputs: Vec<Array<f32>> = graph
            .inputs()
            .iter()
            .map(|input| random_input(&mut random, input, None, example.ids))
            .collect::<Result<_, _>>()?;
        let wide: Vec<Array<f64>> = inputs.iter().map(Array::converted).collect();
        let wanted = oracle.evaluate(&wide).map_err(words)?;
        let given: Vec<Values> = inputs.iter().map(values).collect();
        let found = device.call(graph, &given, &LoadOptions::default()).map_err(words)?;
        for (place, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let what = format!("line {}, round {round}, output {place}", example.line);
            close(&to_f64s(found), &wanted.to_f64s(), &what)?;
        }
    }
    Ok(())
}

fn run_step(device: &dyn Device, graph: &Graph, example: &Example) -> Result<(), String> {
    let mut random = SplitMix::new(1 + example.line as u64);
    let (mut stored, mut weights) = (Weights::new(), HashMap::new());
    for param in graph.params() {
        let count = param.shape.iter().product::<usize>();
        let content: Vec<f32> = (0..count).map(|_| random.signed_unit()).collect();
        stored.insert(
            param.name.clone(),
            Tensor::from_f32(param.shape.clone(), content.clone()).map_err(words)?,
        );
        weights.insert(param.name.clone(), Weight::Float(Arc::from(content)));
    }
    let oracle = Oracle::<f64>::new(graph, &weights).map_err(words)?;
    let mut executor = load(device, graph, stored, options(&[])).map_err(words)?;
    let mut sessions = OracleSessions::new();
    let mut bases = Vec::new();
    for session in 0..3 {
        let id = SessionId(session);
        executor.open(id).map_err(words)?;
        sessions.insert(id, oracle.session());
        bases.push((id, 0));
    }
    for round in 0..4 {
        let forest = random_forest(&mut random, &bases, 9).map_err(words)?;
        let inputs: Vec<Array<f32>> = graph
            .inputs()
            .iter()
            .map(|input| random_input(&mut random, input, Some(&forest), example.ids))
            .collect::<Result<_, _>>()?;
        let wide: Vec<Array<f64>> = inputs.iter().map(Array::converted).collect();
        let wanted = oracle.run(&forest, &wide, &sessions).map_err(words)?;
        let given: Vec<Values> = inputs.iter().map(values).collect();
        let found = executor.run(0, &forest, &given).map_err(words)?;
        for (place, output) in found.iter().enumerate() {
            let rows = output.nodes.iter().flat_map(|&node| {
                wanted.output(node as usize, place).map(Array::to_f64s).unwrap_or_default()
            });
            let what = format!("line {}, `{}`, round {round}, output {place}", example.line, graph.name());
            close(&to_f64s(&output.values), &rows.collect::<Vec<_>>(), &what)?;
        }
        for segment in forest.segments() {
            let accepted = forest.accept_to(segment.range().end as u32 - 1).map_err(words)?;
            let session = segment.session();
            wanted
                .commit(&accepted, sessions.get_mut(&session).ok_or("the session is not open")?)
                .map_err(words)?;
            executor.commit(0, &accepted).map_err(words)?;
            bases.iter_mut().filter(|base| base.0 == session).for_each(|base| base.1 = accepted.position());
        }
    }
    Ok(())
}

/// What a checkpoint would bind for the example's model: random constants, every weight present.
fn bindings(program: &Program, model: &str, example: &Example) -> Option<ModelBindings> {
    let model = program.models.iter().find(|known| known.name == model)?;
    let mut random = SplitMix::new(example.line as u64);
    let mut constant = |ty: &Type| match ty {
        Type::Scalar(Scalar::F32) => Known::Float(0.25),
        Type::Scalar(Scalar::Bool) => Known::Bool(true),
        Type::Array(_, dims) => {
            let size = |name| example.sizes.get(program.symbol_name(name)).copied();
            let shape: Vec<usize> =
                dims.iter().map(|dim| dim.evaluate(&size).unwrap_or(1) as usize).collect();
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
    let Some(layers) = &model.layers else { return Some(bound) };
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
    Some(bound)
}

/// One program of the page on one device.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The line of the page at which it begins.
    pub line: usize,
    /// `function`, `step` or `model`.
    pub kind: &'static str,
    /// What went wrong, if anything.
    pub result: Result<(), String>,
}

/// Runs every right program of a page, as lowered and as the rewrites leave it.
///
/// # Errors
/// When the page's own marks cannot be read.
pub fn run_page(device: &dyn Device, page: &str) -> Result<Vec<Ran>, String> {
    let mut ran = Vec::new();
    for example in &examples(page).map_err(|error| format!("{error:?}"))? {
        let compile = || {
            fiddlehead_lang::compile(&format!("line {}", example.line), &example.text)
                .map_err(|errors| format!("line {}: {} errors", example.line, errors.items.len()))
        };
        let (kind, result) = match &example.action {
            Action::Refused(_) => continue,
            Action::Function(function) => {
                let run = || {
                    let graph = lower_function(&compile()?, function, &example.sizes).map_err(words)?;
                    run_function(device, &optimise(&graph), example)?;
                    run_function(device, &graph, example)
                };
                ("function", run())
            }
            Action::Step(function) => {
                let run = || {
                    let graph = lower_function(&compile()?, function, &example.sizes).map_err(words)?;
                    run_step(device, &optimise(&graph), example)?;
                    run_step(device, &graph, example)
                };
                ("step", run())
            }
            Action::Model(model) => {
                let run = || {
                    let program = compile()?;
                    let bound = bindings(&program, model, example).ok_or("there is no such model")?;
                    let lowered = lower_model(&program, model, &bound).map_err(words)?;
                    lowered.steps.iter().try_for_each(|step| run_step(device, &optimise(step), example))
                };
                ("model", run())
            }
        };
        ran.push(Ran { line: example.line, kind, result });
    }
    Ok(ran)
}
