//! A graph made ready to run at one node, and that run: each tensor once, when it is asked for.

use crate::evaluate::{Frame, Past};
use crate::resolve::{Resolver, Tensor};
use crate::scan::Loop;
use crate::tensor::top;
use crate::weights::{Weights, weight};
use crate::{Array, OracleError, Real, Trap};
use fiddlehead_graph::{
    Element, Graph, History, Input, Node, NodeId, NodeKind, Origin, Output, State, TopPart,
};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Something with a name.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Node(usize),
    History(usize),
}

/// A graph whose expressions are resolved and whose weights are at hand.
#[derive(Debug)]
pub(crate) struct Program<R> {
    steps: Vec<Step<R>>,
    pub inputs: Vec<Input>,
    pub states: Vec<State>,
    pub histories: Vec<History>,
    pub outputs: Vec<Output>,
}

#[derive(Debug)]
struct Step<R> {
    work: Work<R>,
    origin: Origin,
    dependencies: Vec<usize>,
}

#[derive(Debug)]
enum Work<R> {
    Input(usize),
    Weight(Arc<Array<R>>),
    State(usize),
    Tensor(Tensor<R>),
    Top { operand: usize, k: usize, part: TopPart },
    Loop(Box<Loop<R>>),
    LoopResult { scan: usize, result: usize },
}

impl<R: Real> Program<R> {
    /// Resolves a graph.
    ///
    /// # Errors
    /// The graph is malformed, or a weight is missing or of another type or shape.
    pub fn new(graph: &Graph, weights: &Weights) -> Result<Program<R>, OracleError> {
        let step = |id: NodeId| {
            let mut resolver = Resolver::new(graph, id);
            let work = resolve(&mut resolver, weights)?;
            let dependencies = resolver.dependencies;
            Ok(Step { work, origin: graph.node(id).origin.clone(), dependencies })
        };
        let steps = graph.node_ids().map(step).collect::<Result<_, OracleError>>()?;
        check_ends(graph)?;
        Ok(Program {
            steps,
            inputs: graph.inputs().to_vec(),
            states: graph.states().to_vec(),
            histories: graph.histories().to_vec(),
            outputs: graph.outputs().to_vec(),
        })
    }

    pub fn name(&self, place: Place) -> String {
        match place {
            Place::Node(node) => self.steps[node].origin.name.clone(),
            Place::History(history) => self.histories[history].key.clone(),
        }
    }

    /// The graph node of a history's row.
    pub fn row_node(&self, history: usize) -> usize {
        self.histories[history].row.index()
    }
}

fn resolve<R: Real>(resolver: &mut Resolver<'_>, weights: &Weights) -> Result<Work<R>, OracleError> {
    let graph = resolver.graph;
    let Node { kind, element, origin } = graph.node(resolver.node);
    Ok(match kind {
        NodeKind::Input(input) => Work::Input(input.index()),
        NodeKind::Param(param) => Work::Weight(Arc::new(weight(&graph.params()[param.index()], weights)?)),
        NodeKind::State(state) => {
            if graph.states()[state.index()].initial >= resolver.node {
                return Err(resolver.malformed("its initial value does not come before it"));
            }
            Work::State(state.index())
        }
        NodeKind::Compute(compute) => Work::Tensor(resolver.tensor(compute)?),
        NodeKind::Top { operand, k, part } => {
            let width = graph.shape(*operand).and_then(|shape| shape.last().copied());
            if graph.node(*operand).element != Element::F32 || width.is_none_or(|width| *k > width) {
                return Err(resolver.malformed("top needs an f32 tensor with at least k fixed elements"));
            }
            let result = if *part == TopPart::Values { Element::F32 } else { Element::I32 };
            if *element != result {
                return Err(resolver.malformed(format!("its elements are {result:?}")));
            }
            Work::Top { operand: resolver.depend(*operand)?, k: *k, part: *part }
        }
        NodeKind::Scan(scan) => {
            for (captured, input) in scan.captured.iter().zip(scan.body.inputs()) {
                resolver.depend(*captured)?;
                if input.per_node || !fits(graph, *captured, &input.shape, input.element) {
                    return Err(resolver.malformed(format!("`{}` is captured as another type", input.name)));
                }
            }
            if scan.captured.len() != scan.body.inputs().len() {
                return Err(resolver.malformed("its body reads other values than it captures"));
            }
            Work::Loop(Box::new(Loop::new(scan, origin, weights)?))
        }
        NodeKind::ScanResult { scan, result } => {
            let index = resolver.depend(*scan)?;
            match &graph.node(*scan).kind {
                NodeKind::Scan(scan) if *result < scan.results.len() => {}
                _ => return Err(resolver.malformed("a loop's result that does not exist")),
            }
            Work::LoopResult { scan: index, result: *result }
        }
    })
}

fn fits(graph: &Graph, node: NodeId, shape: &[usize], element: Element) -> bool {
    graph.node(node).element == element && graph.shape(node).as_deref() == Some(shape)
}

/// Checks what leaves the graph: states, rows and outputs.
fn check_ends(graph: &Graph) -> Result<(), OracleError> {
    let malformed =
        |name: &str, reason: &str| OracleError::Malformed { origin: named(name), reason: reason.into() };
    for state in graph.states() {
        for node in [state.initial, state.next] {
            if node.index() >= graph.nodes().len() || !fits(graph, node, &state.shape, state.element) {
                return Err(malformed(&state.key, "its first or next value has another type"));
            }
        }
    }
    let rows = graph.histories().iter().map(|history| (&history.key, history.row));
    let outputs = graph.outputs().iter().map(|output| (&output.name, output.node));
    for (name, node) in rows.chain(outputs) {
        if node.index() >= graph.nodes().len() || graph.shape(node).is_none() {
            return Err(malformed(name, "its extents are not fixed"));
        }
    }
    Ok(())
}

fn named(name: &str) -> Origin {
    Origin { name: name.to_owned(), span: None }
}

/// What a node of the forest is given.
pub(crate) struct Incoming<'run, R> {
    /// The node's absolute depth.
    pub here: i64,
    /// The node's inputs, without an axis of nodes.
    pub inputs: &'run [Arc<Array<R>>],
    /// The parent's outgoing states, none before the session's first token.
    pub states: &'run [Option<Arc<Array<R>>>],
    pub past: Past<'run, R>,
}

/// The run of a program at one node of the forest.
pub(crate) struct Evaluation<'run, R> {
    program: &'run Program<R>,
    incoming: Incoming<'run, R>,
    values: Vec<Option<Arc<Array<R>>>>,
    loops: BTreeMap<usize, Vec<Arc<Array<R>>>>,
}

impl<'run, R: Real> Evaluation<'run, R> {
    pub fn new(program: &'run Program<R>, incoming: Incoming<'run, R>) -> Evaluation<'run, R> {
        let values = vec![None; program.steps.len()];
        Evaluation { program, incoming, values, loops: BTreeMap::new() }
    }

    /// The value of output `index`.
    pub fn output(&mut self, index: usize) -> Result<Arc<Array<R>>, OracleError> {
        self.value(self.program.outputs[index].node.index())
    }

    /// The outgoing value of every state.
    pub fn states(&mut self) -> Result<Vec<Arc<Array<R>>>, OracleError> {
        self.program.states.iter().map(|state| self.value(state.next.index())).collect()
    }

    /// The value of every state before the first token.
    pub fn initial_states(&mut self) -> Result<Vec<Arc<Array<R>>>, OracleError> {
        self.program.states.iter().map(|state| self.value(state.initial.index())).collect()
    }

    /// The row that the node adds to every history.
    pub fn rows(&mut self) -> Result<Vec<Arc<Array<R>>>, OracleError> {
        self.program.histories.iter().map(|history| self.value(history.row.index())).collect()
    }

    /// The value of a tensor: it and everything it reads is computed unless it was.
    fn value(&mut self, node: usize) -> Result<Arc<Array<R>>, OracleError> {
        let mut needed = vec![false; node + 1];
        needed[node] = true;
        for node in (0..=node).rev() {
            let known = self.values[node].is_some() || self.loops.contains_key(&node);
            if needed[node] && !known {
                let step = &self.program.steps[node];
                step.dependencies.iter().for_each(|&dependency| needed[dependency] = true);
                if let Work::State(state) = step.work
                    && self.incoming.states[state].is_none()
                {
                    needed[self.program.states[state].initial.index()] = true;
                }
            }
        }
        for (node, _) in needed.iter().enumerate().filter(|(_, needed)| **needed) {
            if self.values[node].is_none() && !self.loops.contains_key(&node) {
                self.run(node)?;
            }
        }
        Ok(self.known(node))
    }

    fn known(&self, node: usize) -> Arc<Array<R>> {
        self.values[node].clone().expect("dependencies are computed first")
    }

    fn run(&mut self, node: usize) -> Result<(), OracleError> {
        let program = self.program;
        let step = &program.steps[node];
        let trapped = |trap: Trap| OracleError::Trap { origin: step.origin.clone(), trap };
        let value = match &step.work {
            Work::Input(input) => self.incoming.inputs[*input].clone(),
            Work::Weight(weight) => weight.clone(),
            Work::State(state) => match &self.incoming.states[*state] {
                Some(value) => value.clone(),
                None => self.known(program.states[*state].initial.index()),
            },
            Work::Tensor(tensor) => {
                let frame = Frame {
                    here: self.incoming.here,
                    values: &self.values,
                    past: &self.incoming.past,
                    program,
                    trap: OnceCell::new(),
                };
                Arc::new(frame.compute(tensor).map_err(trapped)?)
            }
            Work::Top { operand, k, part } => Arc::new(top(&self.known(*operand), *k, *part)),
            Work::Loop(body) => {
                let captured: Vec<_> = step.dependencies.iter().map(|&node| self.known(node)).collect();
                self.loops.insert(node, body.run(&captured)?);
                return Ok(());
            }
            Work::LoopResult { scan, result } => self.loops[scan][*result].clone(),
        };
        self.values[node] = Some(value);
        Ok(())
    }
}
