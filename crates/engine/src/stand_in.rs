//! A model without a checkpoint: its sizes as somebody gives them, all else made up, so that it can be looked at.

use std::collections::{BTreeMap, BTreeSet};

use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::lower::{Known, LowerError, ModelBindings, lower_model};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_lang::hir::{Field, FieldRole, Model, Program, Scalar, Type};

use crate::EngineError;

/// A model whose sizes are given and whose other bindings are made up.
#[derive(Clone, Debug)]
pub struct StandIn {
    /// Its steps.
    pub graphs: ModelGraph,
    /// The kind of each layer of the list: the kinds in the order of their declaration, again and again.
    pub layer_kinds: Vec<String>,
}

/// Lowers a model of a program with the sizes given. Every weight is there; statics are false or 1, constants 1, and
/// layers take turns through the kinds.
///
/// # Errors
/// When a size is missing, unknown or out of range, or the model asks for what the graph cannot state.
pub fn stand_in(
    program: &Program,
    model: &Model,
    sizes: &BTreeMap<String, i64>,
) -> Result<StandIn, EngineError> {
    let located = |error| EngineError::lowering(&program.source, error);
    let names: Vec<&str> = model.dims.iter().map(|&dim| program.symbol_name(dim)).collect();
    if let Some(name) = sizes.keys().find(|name| !names.contains(&name.as_str())) {
        let function = model.name.clone();
        return Err(located(LowerError::Unknown { name: name.clone(), what: "size", function }));
    }
    let mut made = MadeUp { program, model, sizes, bindings: ModelBindings::default() };
    made.bindings.dims = sizes.clone();
    made.model().map_err(located)?;
    let layer_kinds = made.bindings.layer_kinds.clone();
    let mut graphs = lower_model(program, &model.name, &made.bindings).map_err(located)?;
    let weights = graphs.steps.iter().flat_map(|step| step.params());
    for weight in weights {
        let count = weight.shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
        if count.is_none_or(|count| count > MOST_IN_A_WEIGHT) {
            let error = LowerError::TooLarge { what: "elements of a weight", limit: MOST_IN_A_WEIGHT };
            return Err(located(error));
        }
    }
    graphs.steps = graphs.steps.iter().map(optimise).collect();
    Ok(StandIn { graphs, layer_kinds })
}

struct MadeUp<'p> {
    program: &'p Program,
    model: &'p Model,
    sizes: &'p BTreeMap<String, i64>,
    bindings: ModelBindings,
}

impl MadeUp<'_> {
    fn model(&mut self) -> Result<(), LowerError> {
        let model = self.model;
        self.bindings.params = model.params.iter().map(|param| param.name.clone()).collect::<BTreeSet<_>>();
        for value in &model.statics {
            self.bindings.known.insert(value.name.clone(), scalar(value.ty));
        }
        for value in &model.consts {
            let known = self.known(&value.ty)?;
            self.bindings.known.insert(value.name.clone(), known);
        }
        let Some(layers) = &model.layers else { return Ok(()) };
        let count = self.evaluate(&layers.count)?;
        if count > MOST_LAYERS {
            return Err(LowerError::TooLarge { what: "layers", limit: MOST_LAYERS });
        }
        for place in 0..count {
            let kind = (!layers.kinds.is_empty()).then(|| &layers.kinds[place % layers.kinds.len()]);
            self.bindings.layer_kinds.extend(kind.map(|kind| kind.name.clone()));
            let own = kind.map_or(&[][..], |kind| &kind.fields);
            self.fields(&format!("layers.{place}"), layers.common.iter().chain(own))?;
        }
        for layer in &model.single_layers {
            let kind = layer.kind.and_then(|kind| layers.kinds.get(kind.index()));
            let own = kind.map_or(&[][..], |kind| &kind.fields);
            self.fields(&layer.name, layers.common.iter().chain(own))?;
        }
        Ok(())
    }

    fn fields<'f>(&mut self, layer: &str, fields: impl Iterator<Item = &'f Field>) -> Result<(), LowerError> {
        for field in fields {
            let path = format!("{layer}.{}", field.name);
            match field.role {
                FieldRole::Param => drop(self.bindings.params.insert(path)),
                FieldRole::Const | FieldRole::Static => {
                    let known = self.known(&field.ty)?;
                    self.bindings.known.insert(path, known);
                }
            }
        }
        Ok(())
    }

    fn known(&self, ty: &Type) -> Result<Known, LowerError> {
        Ok(match ty {
            Type::Array(_, dims) => {
                let shape: Vec<usize> =
                    dims.iter().map(|dim| self.evaluate(dim)).collect::<Result<_, _>>()?;
                let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
                let count = count.filter(|&count| count <= MOST_MADE_UP);
                let count = count
                    .ok_or(LowerError::TooLarge { what: "elements of a constant", limit: MOST_MADE_UP })?;
                Known::Array { shape, values: vec![1.0; count].into() }
            }
            Type::Scalar(element) => scalar(*element),
            _ => Known::Int(1),
        })
    }

    fn evaluate(&self, size: &fiddlehead_lang::Size) -> Result<usize, LowerError> {
        let missing = |name: &str| LowerError::SizeMissing { name: name.to_owned() };
        for &dim in &self.model.dims {
            let name = self.program.symbol_name(dim);
            if !self.sizes.contains_key(name) {
                return Err(missing(name));
            }
        }
        let known = |dim| self.sizes.get(self.program.symbol_name(dim)).copied();
        let span = self.model.span;
        let value = size.evaluate(&known).map_err(|source| LowerError::Size { span, source })?;
        let fits = usize::try_from(value).ok().filter(|_| i32::try_from(value).is_ok());
        fits.ok_or(LowerError::Extent { span, value })
    }
}

/// Constants with more elements than this are not made up.
const MOST_MADE_UP: usize = 1 << 24;
/// Models with more layers than this are not made up.
const MOST_LAYERS: usize = 4096;
/// Models with a weight of more elements than this are not made up.
const MOST_IN_A_WEIGHT: usize = 1 << 30;

fn scalar(element: Scalar) -> Known {
    match element {
        Scalar::Bool => Known::Bool(false),
        Scalar::F32 => Known::Float(1.0),
        _ => Known::Int(1),
    }
}
