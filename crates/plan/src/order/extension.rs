//! A graph with nodes added at its end, every node of it keeping its place.

use crate::DeviceError;
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{Compute, Element, Graph, NodeId, NodeKind, Origin};

/// Nodes to add.
#[derive(Debug, Default)]
pub struct Extension {
    first: u32,
    nodes: Vec<(Compute, Element, Origin)>,
}

impl Extension {
    /// No nodes yet.
    pub fn new(graph: &Graph) -> Extension {
        Extension { first: graph.nodes().len() as u32, nodes: Vec::new() }
    }

    /// Adds a tensor that `reader` reads or is, with its element and origin; the same tensor is added once.
    pub fn add(&mut self, graph: &Graph, reader: NodeId, compute: &Compute) -> NodeId {
        self.add_of(graph, reader, compute, graph.node(reader).element)
    }

    /// The same, of another element than the reader.
    pub fn add_of(&mut self, graph: &Graph, reader: NodeId, compute: &Compute, element: Element) -> NodeId {
        let known = self.nodes.iter().position(|(other, of, _)| other == compute && *of == element);
        let place = known.unwrap_or_else(|| {
            self.nodes.push((compute.clone(), element, graph.node(reader).origin.clone()));
            self.nodes.len() - 1
        });
        NodeId(self.first + place as u32)
    }

    /// The extended graph.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when an added node is not valid: a mistake of whoever added it.
    pub fn seal(self, graph: &Graph) -> Result<Graph, DeviceError> {
        if self.nodes.is_empty() {
            return Ok(graph.clone());
        }
        let mut builder = GraphBuilder::new(graph.name());
        for node in graph.nodes() {
            match &node.kind {
                NodeKind::Input(input) => builder.input(graph.inputs()[input.index()].clone()),
                NodeKind::Param(param) => builder.param(graph.params()[param.index()].clone()),
                NodeKind::State(state) => {
                    let state = &graph.states()[state.index()];
                    builder.state(state.key.clone(), state.shape.clone(), state.element, state.initial).1
                }
                kind => builder.node(kind.clone(), node.element, node.origin.clone()),
            };
        }
        for history in graph.histories() {
            builder.history(history.key.clone(), history.row);
        }
        for (index, state) in graph.states().iter().enumerate() {
            builder.assign(fiddlehead_graph::StateId(index as u32), state.next);
        }
        for (compute, element, origin) in self.nodes {
            builder.compute(compute, element, origin);
        }
        for output in graph.outputs() {
            builder.output_at(output.name.clone(), output.node, output.span);
        }
        builder.seal().map_err(|error| DeviceError::Unsupported {
            what: format!("`{}`", graph.name()),
            why: format!("its graph with the operands of its sites is not valid: {error}"),
        })
    }
}
