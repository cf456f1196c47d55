//! A function of the language as a model's step. Language functions have no weights: all inputs but those of each node
//! become parameters.

use std::collections::BTreeMap;

use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::{Graph, Input, NodeKind, Param};

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The graph of `step fn main` with these sizes; inputs of the names in `per_node` are each node's own. States are not
/// taken over.
///
/// # Errors
/// When the text does not compile, or has states.
pub fn step(text: &str, sizes: &[(&str, usize)], per_node: &[&str]) -> Result<Graph, String> {
    let program = fiddlehead_lang::compile("gate.fh", text)
        .map_err(|errors| format!("the program has errors: {errors:?}"))?;
    let sizes: BTreeMap<String, i64> =
        sizes.iter().map(|(name, size)| (name.to_string(), *size as i64)).collect();
    let lowered = lower_function(&program, "main", &sizes).map_err(words)?;
    if !lowered.states().is_empty() {
        return Err("the program has states".into());
    }
    let mut builder = GraphBuilder::new("main");
    for node in lowered.nodes() {
        match &node.kind {
            NodeKind::Input(input) => {
                let Input { name, shape, element, .. } = lowered.inputs()[input.index()].clone();
                match per_node.contains(&name.as_str()) {
                    true => builder.input(Input { name, shape, element, per_node: true }),
                    false => builder.param(Param { name, shape, element }),
                }
            }
            kind => builder.node(kind.clone(), node.element, node.origin.clone()),
        };
    }
    for history in lowered.histories() {
        builder.history(history.key.clone(), history.row);
    }
    for output in lowered.outputs() {
        builder.output(output.name.clone(), output.node);
    }
    builder.seal().map_err(words)
}
