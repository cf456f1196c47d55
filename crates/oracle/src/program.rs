//! A graph made ready to run at one node, and that run: each tensor once, when it is asked for.

use crate::evaluate::{Frame, Past};
use crate::resolve::{Resolver, Tensor};
use crate::scan::Loop;
use crate::tensor::top;
use crate::weights::{Weights, weight};
use crate::{Array, Data, OracleError, Real, Trap};
use fiddlehead_graph::{Graph, History, Input, Node, NodeId, NodeKind, Origin, Output, State, TopPart};
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
    let Node { kind, origin, .. } = graph.node(resolver.node);
    Ok(match kind {
        NodeKind::Input(input) => Work::Input(input.index()),
        NodeKind::Param(param) => Work::Weight(Arc::new(weight(&graph.params()[param.index()], weights)?)),
        NodeKind::Constant(constant) => {
            let data = Data::Weight(constant.values.clone());
            Work::Weight(Arc::new(Array::new(&constant.shape, data)?))
        }
        NodeKind::State(state) => Work::State(state.index()),
        NodeKind::Compute(compute) => Work::Tensor(resolver.tensor(compute)?),
        NodeKind::Top { operand, k, part } => {
            Work::Top { operand: resolver.depend(*operand)?, k: *k, part: *part }
        }
        NodeKind::Scan(scan) => {
            for captured in &scan.captured {
                resolver.depend(*captured)?;
            }
            Work::Loop(Box::new(Loop::new(scan, origin, weights)?))
        }
        NodeKind::ScanResult { scan, result } => {
            Work::LoopResult { scan: resolver.depend(*scan)?, result: *result }
        }
    })
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
                let dependencies = &self.program.steps[node].dependencies;
                dependencies.iter().for_each(|&dependency| needed[dependency] = true);
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
                None => self.value(program.states[*state].initial.index())?,
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
