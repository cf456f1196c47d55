//! Programs that are no models: a function, its sizes, one call.

use std::collections::BTreeMap;

use fiddlehead_graph::lower::{infer_sizes, lower_function};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_graph::{Graph, Input};
use fiddlehead_lang::hir::Program;
use fiddlehead_lang::source::Source;
use fiddlehead_plan::{Device, DeviceError, LoadOptions, Values};

use crate::EngineError;

/// Compiles a program's text; `name` is what messages call it.
///
/// # Errors
/// [`EngineError::Program`] with everything that is wrong with the text.
pub fn compile(name: &str, text: &str) -> Result<Program, EngineError> {
    fiddlehead_lang::compile(name, text).map_err(|diagnostics| EngineError::Program(Box::new(diagnostics)))
}

/// A function of a program with known sizes, ready to be called.
#[derive(Clone, Debug)]
pub struct Function {
    source: Source,
    graph: Graph,
}

/// A result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedArray {
    /// Its name in the program, `result` for a single one.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its elements, row-major.
    pub values: Values,
}

impl Function {
    /// Makes a function ready: its sizes are solved from the shapes of the inputs in `shapes` (those that are known)
    /// and from `sizes`, given by name.
    ///
    /// # Errors
    /// When there is no such function, a size is missing, two places disagree about one, or the program asks for what
    /// a graph cannot say.
    pub fn prepare(
        program: &Program,
        name: &str,
        shapes: &BTreeMap<String, Vec<usize>>,
        sizes: &BTreeMap<String, i64>,
    ) -> Result<Function, EngineError> {
        let located = |error| EngineError::lowering(&program.source, error);
        let sizes = infer_sizes(program, name, shapes, sizes).map_err(located)?;
        let graph = lower_function(program, name, &sizes).map_err(located)?;
        Ok(Function { source: program.source.clone(), graph: optimise(&graph) })
    }

    /// Its graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What it takes, in order.
    pub fn inputs(&self) -> &[Input] {
        self.graph.inputs()
    }

    /// Calls it with one value an input, in order.
    ///
    /// # Errors
    /// [`EngineError::Trap`] with the program's line when it goes wrong at run time, and what the device refuses.
    pub fn call(
        &self,
        device: &dyn Device,
        inputs: &[Values],
        options: &LoadOptions,
    ) -> Result<Vec<NamedArray>, EngineError> {
        let values = device.call(&self.graph, inputs, options).map_err(|error| self.locate(error))?;
        let named = self.graph.outputs().iter().zip(values).map(|(output, values)| NamedArray {
            name: output.name.clone(),
            shape: self.graph.shape(output.node).unwrap_or_default(),
            values,
        });
        Ok(named.collect())
    }

    fn locate(&self, error: DeviceError) -> EngineError {
        match error {
            DeviceError::Trap { span: Some((start, _)), why, .. } => {
                let (line, column) = self.source.line_and_column(u32::try_from(start).unwrap_or(u32::MAX));
                EngineError::Trap { place: format!("{}:{line}:{column}", self.source.name), why }
            }
            other => other.into(),
        }
    }
}
