//! Building a graph node by node. Lowering, rewrites, tests and random programs all go through here.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ir::*;
use crate::validate::{ValidationError, validate};

/// Collects the parts of a graph; [`GraphBuilder::seal`] ends it.
#[derive(Debug)]
pub struct GraphBuilder {
    graph: Graph,
    params: HashMap<String, NodeId>,
}

impl GraphBuilder {
    /// An empty graph of that name.
    pub fn new(name: impl Into<String>) -> Self {
        GraphBuilder {
            graph: Graph {
                name: name.into(),
                inputs: Vec::new(),
                params: Vec::new(),
                states: Vec::new(),
                histories: Vec::new(),
                nodes: Vec::new(),
                outputs: Vec::new(),
            },
            params: HashMap::new(),
        }
    }

    /// The graph so far, to look at.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    fn push(&mut self, kind: NodeKind, element: Element, origin: Origin) -> NodeId {
        self.graph.nodes.push(Node { kind, element, origin });
        NodeId(self.graph.nodes.len() as u32 - 1)
    }

    /// Adds an input and its node.
    pub fn input(&mut self, input: Input) -> NodeId {
        let id = InputId(self.graph.inputs.len() as u32);
        let (element, name) = (input.element, input.name.clone());
        self.graph.inputs.push(input);
        self.push(NodeKind::Input(id), element, Origin { name, span: None })
    }

    /// Adds a weight and its node, or finds the node of the weight of that name.
    pub fn param(&mut self, param: Param) -> NodeId {
        if let Some(&known) = self.params.get(&param.name) {
            return known;
        }
        let id = ParamId(self.graph.params.len() as u32);
        let (element, name) = (param.element, param.name.clone());
        self.graph.params.push(param);
        let node = self.push(NodeKind::Param(id), element, Origin { name: name.clone(), span: None });
        self.params.insert(name, node);
        node
    }

    /// Adds an array of known values.
    pub fn constant(&mut self, shape: Vec<usize>, values: Arc<[f32]>, origin: Origin) -> NodeId {
        self.push(NodeKind::Constant(Constant { shape, values }), Element::F32, origin)
    }

    /// Adds a state whose first value is `initial`, and the node of its incoming value. Until
    /// [`GraphBuilder::assign`] it is unchanged by the step.
    pub fn state(
        &mut self,
        key: impl Into<String>,
        shape: Vec<usize>,
        element: Element,
        initial: NodeId,
    ) -> (StateId, NodeId) {
        let id = StateId(self.graph.states.len() as u32);
        let key = key.into();
        let node = self.push(NodeKind::State(id), element, Origin { name: key.clone(), span: None });
        self.graph.states.push(State { key, shape, element, initial, next: node });
        (id, node)
    }

    /// Sets a state's outgoing value.
    pub fn assign(&mut self, state: StateId, next: NodeId) {
        self.graph.states[state.index()].next = next;
    }

    /// Adds a history to which this node adds `row`.
    pub fn history(&mut self, key: impl Into<String>, row: NodeId) -> HistoryId {
        self.graph.histories.push(History { key: key.into(), row });
        HistoryId(self.graph.histories.len() as u32 - 1)
    }

    /// Adds a tensor defined element by element.
    pub fn compute(&mut self, compute: Compute, element: Element, origin: Origin) -> NodeId {
        self.push(NodeKind::Compute(compute), element, origin)
    }

    /// Adds any other node.
    pub fn node(&mut self, kind: NodeKind, element: Element, origin: Origin) -> NodeId {
        self.push(kind, element, origin)
    }

    /// Makes a tensor readable from outside.
    pub fn output(&mut self, name: impl Into<String>, node: NodeId) {
        self.output_at(name, node, None);
    }

    /// Declares an output that the program gives at a place of its text.
    pub fn output_at(&mut self, name: impl Into<String>, node: NodeId, span: Option<(usize, usize)>) {
        self.graph.outputs.push(Output { name: name.into(), node, span });
    }

    /// Ends the building: checks the graph and seals it.
    pub fn seal(self) -> Result<Graph, ValidationError> {
        validate(&self.graph)?;
        Ok(self.graph)
    }
}
