//! Lowering: a typed program and its sizes become graphs.
//!
//! An abstract interpreter runs the program once with sizes as numbers and arrays as views of nodes. Functions are
//! inlined, layers unrolled, what is known before planning is decided. What may never live here: types of the
//! language (the checker settled them) and any rewriting beyond literals.
//!
//! Start reading at [`lower_function`], then `value.rs` (what things are), `expression.rs` (the interpreter), `array.rs`
//! (how tensors are made) and `frame.rs` (which axes a tensor gets).

mod array;
mod bindings;
mod error;
mod expression;
mod frame;
mod layers;
mod scan;
mod sizes;
mod statement;
mod value;

use std::collections::{BTreeMap, HashMap};

use fiddlehead_lang::hir::{self, Program};
use fiddlehead_lang::size::SizeSymbol;

use crate::ir::*;
pub use bindings::{Known, ModelBindings};
pub use error::LowerError;
use expression::Lowerer;
use frame::Frame;
pub use sizes::infer_sizes;
use value::Value;

/// Lowers a function of the top level, its size parameters given by name. The parameters of a plain function are
/// inputs shared by all nodes (it runs on a forest of one); those of a `step fn` are each node's own.
///
/// # Errors
/// When there is no such function, a size is missing or impossible, or the program asks for what a graph cannot say.
pub fn lower_function(
    program: &Program,
    name: &str,
    sizes: &BTreeMap<String, i64>,
) -> Result<Graph, LowerError> {
    let id = program.function(name).ok_or_else(|| LowerError::NoFunction { name: name.into() })?;
    let function = &program.functions[id.index()];
    let mut values = HashMap::new();
    for &symbol in &function.sizes {
        let symbol_name = program.symbol_name(symbol);
        let value = sizes.get(symbol_name).copied();
        let value = value.ok_or_else(|| LowerError::SizeMissing { name: symbol_name.into() })?;
        values.insert(symbol, positive(symbol_name, value)?);
    }
    lower_root(program, id, values, None, Vec::new())
}

/// Lowers every step of a model whose weights are there, `main` first.
///
/// A step other than the first is left out when a weight that it asks for is absent and belongs to the model itself
/// or to a single layer of which the checkpoint has nothing.
///
/// # Errors
/// When there is no such model, a binding is missing or does not fit, or a needed weight is absent.
pub fn lower_model(
    program: &Program,
    name: &str,
    bindings: &ModelBindings,
) -> Result<ModelGraph, LowerError> {
    let model = program.models.iter().find(|model| model.name == name);
    let model = model.ok_or_else(|| LowerError::NoModel { name: name.into() })?;
    let mut sizes = HashMap::new();
    for &symbol in &model.dims {
        let symbol_name = program.symbol_name(symbol);
        let value = bindings.dims.get(symbol_name).copied();
        let value = value.ok_or_else(|| LowerError::SizeMissing { name: symbol_name.into() })?;
        sizes.insert(symbol, positive(symbol_name, value)?);
    }
    let mut order = model.steps.clone();
    order.sort_by_key(|id| program.functions[id.index()].name != "main");
    let mut steps = Vec::new();
    for (place, &id) in order.iter().enumerate() {
        let step = &program.functions[id.index()].name;
        let path = if step == "main" { Vec::new() } else { vec![step.clone()] };
        match lower_root(program, id, sizes.clone(), Some(bindings), path) {
            Ok(graph) => steps.push(graph),
            Err(LowerError::ParamMissing { optional: true, .. }) if place > 0 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ModelGraph { name: name.into(), steps })
}

fn positive(name: &str, value: i64) -> Result<i64, LowerError> {
    if value >= 1 && i32::try_from(value).is_ok() {
        Ok(value)
    } else {
        Err(LowerError::SizeRange { name: name.into(), value })
    }
}

fn lower_root(
    program: &Program,
    id: hir::FunctionId,
    sizes: HashMap<SizeSymbol, i64>,
    bindings: Option<&ModelBindings>,
    path: Vec<String>,
) -> Result<Graph, LowerError> {
    let function = &program.functions[id.index()];
    let mut lowerer = Lowerer::new(program, bindings, Frame::new(&function.name, function.is_step), path);
    let arguments = lowerer.root_inputs(function, &sizes)?;
    let result = lowerer.inlined(id, sizes, arguments)?;
    let results = match result {
        Value::Tuple(parts) => parts,
        one => vec![one],
    };
    let several = results.len() > 1;
    let end = match &function.body.kind {
        hir::ExprKind::Block { result, .. } => result,
        _ => &function.body,
    };
    for (place, value) in results.into_iter().enumerate() {
        let name = match function.result_names.get(place) {
            Some(name) => name.clone(),
            None if several => format!("result.{place}"),
            None => "result".into(),
        };
        let node = lowerer.whole(value, end.span, &name)?;
        lowerer.frame().builder.output(name, node);
    }
    lowerer.finish()
}
