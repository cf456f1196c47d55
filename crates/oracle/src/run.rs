//! The oracle: a graph over a forest, node after node.

use crate::evaluate::Past;
use crate::program::{Evaluation, Incoming, Program};
use crate::{Array, OracleError, Real, Weights};
use fiddlehead_forest::{Accepted, Forest, ForestError, SessionId};
use fiddlehead_graph::{Element, Graph};
use std::collections::HashMap;
use std::sync::Arc;

/// Runs one graph, in the arithmetic `R`.
#[derive(Debug)]
pub struct Oracle<R> {
    program: Program<R>,
}

/// Everything that a session has committed to one step, as plain values.
#[derive(Clone, Debug, PartialEq)]
pub struct OracleSession<R> {
    /// The number of committed tokens.
    pub position: usize,
    /// Each state after them; none where it still has its first value.
    pub states: Vec<Option<Arc<Array<R>>>>,
    /// The rows of each history, one for each committed token.
    pub histories: Vec<Vec<Arc<Array<R>>>>,
}

/// Sessions by name. One that a forest names at position zero may be absent: it is fresh.
pub type OracleSessions<R> = HashMap<SessionId, OracleSession<R>>;

/// What a node of the forest came to.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeValues<R> {
    /// Each output, none where it is not wanted.
    pub outputs: Vec<Option<Arc<Array<R>>>>,
    /// Each state's outgoing value.
    pub states: Vec<Arc<Array<R>>>,
    /// The row added to each history.
    pub rows: Vec<Arc<Array<R>>>,
}

/// A finished run over a forest.
#[derive(Clone, Debug, PartialEq)]
pub struct Run<R> {
    /// The values of each node, in the forest's order.
    pub nodes: Vec<NodeValues<R>>,
}

impl<R: Real> Oracle<R> {
    /// An oracle for a graph with those weights.
    ///
    /// # Errors
    /// The graph is malformed, or a weight is missing or does not fit its declaration.
    pub fn new(graph: &Graph, weights: &Weights) -> Result<Oracle<R>, OracleError> {
        Ok(Oracle { program: Program::new(graph, weights)? })
    }

    /// A session that has committed nothing.
    pub fn session(&self) -> OracleSession<R> {
        OracleSession {
            position: 0,
            states: vec![None; self.program.states.len()],
            histories: vec![Vec::new(); self.program.histories.len()],
        }
    }

    /// Runs a graph without state at a single node: a plain function of its inputs. Gives every output.
    ///
    /// # Errors
    /// As [`run`](Oracle::run).
    pub fn evaluate(&self, inputs: &[Array<R>]) -> Result<Vec<Arc<Array<R>>>, OracleError> {
        let forest = Forest::single_chain(SessionId(0), 0, 1)?;
        let run = self.run(&forest, inputs, &HashMap::new())?;
        Ok(run.nodes.into_iter().flat_map(|node| node.outputs).flatten().collect())
    }

    /// Runs the graph at every node of a forest, parents before children.
    ///
    /// `inputs` holds one array for each of the graph's inputs: of the declared shape where it is shared, with
    /// a leading axis of the forest's nodes where it is per node. Sessions are read and not changed:
    /// [`Run::commit`] does that.
    ///
    /// # Errors
    /// Inputs or sessions do not fit, or the program trapped.
    pub fn run(
        &self,
        forest: &Forest,
        inputs: &[Array<R>],
        sessions: &OracleSessions<R>,
    ) -> Result<Run<R>, OracleError> {
        self.check_inputs(forest.len(), inputs)?;
        let fresh = self.session();
        let mut bases = Vec::with_capacity(forest.segments().len());
        for segment in forest.segments() {
            let session = self.find(segment.session(), segment.base(), sessions)?;
            bases.push(session.unwrap_or(&fresh));
        }
        let shared: Vec<Option<Arc<Array<R>>>> = (self.program.inputs.iter().zip(inputs))
            .map(|(input, array)| (!input.per_node).then(|| Arc::new(array.clone())))
            .collect();
        let mut nodes: Vec<NodeValues<R>> = Vec::with_capacity(forest.len());
        for node in 0..forest.len() {
            let own: Vec<Arc<Array<R>>> = (shared.iter().zip(inputs))
                .map(|(shared, array)| shared.clone().unwrap_or_else(|| Arc::new(array.first_axis(node))))
                .collect();
            let session = bases[forest.segment_indices()[node] as usize];
            let values = self.node(forest, node, &own, session, &nodes)?;
            nodes.push(values);
        }
        Ok(Run { nodes })
    }

    fn node(
        &self,
        forest: &Forest,
        node: usize,
        inputs: &[Arc<Array<R>>],
        session: &OracleSession<R>,
        earlier: &[NodeValues<R>],
    ) -> Result<NodeValues<R>, OracleError> {
        let states: Vec<Option<Arc<Array<R>>>> = match forest.parent(node as u32) {
            Some(parent) => earlier[parent as usize].states.iter().cloned().map(Some).collect(),
            None => session.states.clone(),
        };
        let ancestors = forest.ancestors(node as u32).filter(|&ancestor| ancestor as usize != node);
        let past = Past {
            stored: &session.histories,
            ancestors: ancestors.map(|ancestor| earlier[ancestor as usize].rows.as_slice()).collect(),
            base: session.position,
        };
        let here = i64::from(forest.depths()[node]);
        let mut evaluation = Evaluation::new(&self.program, Incoming { here, inputs, states: &states, past });
        let wanted = forest.wanted()[node];
        let outputs = (0..self.program.outputs.len())
            .map(|index| wanted.contains(index).then(|| evaluation.output(index)).transpose())
            .collect::<Result<_, _>>()?;
        Ok(NodeValues { outputs, states: evaluation.states()?, rows: evaluation.rows()? })
    }

    fn find<'run>(
        &self,
        name: SessionId,
        base: usize,
        sessions: &'run OracleSessions<R>,
    ) -> Result<Option<&'run OracleSession<R>>, OracleError> {
        let Some(session) = sessions.get(&name) else {
            return if base == 0 {
                Ok(None)
            } else {
                Err(OracleError::UnknownSession { session: name, base })
            };
        };
        if session.position != base {
            return Err(ForestError::WrongPosition { base, position: session.position }.into());
        }
        let rows_fit = session.histories.iter().all(|rows| rows.len() == base);
        let states = &self.program.states;
        if session.states.len() != states.len()
            || session.histories.len() != self.program.histories.len()
            || !rows_fit
        {
            return Err(OracleError::ForeignSession { session: name });
        }
        for (state, value) in states.iter().zip(&session.states) {
            if let Some(value) = value {
                check(&state.key, state.element, &state.shape, value)?;
            }
        }
        Ok(Some(session))
    }

    fn check_inputs(&self, nodes: usize, inputs: &[Array<R>]) -> Result<(), OracleError> {
        let (expected, found) = (self.program.inputs.len(), inputs.len());
        if expected != found {
            return Err(OracleError::InputCount { expected, found });
        }
        for (input, array) in self.program.inputs.iter().zip(inputs) {
            let mut shape = input.shape.clone();
            if input.per_node {
                shape.insert(0, nodes);
            }
            check(&input.name, input.element, &shape, array)?;
        }
        Ok(())
    }
}

fn check<R: Real>(
    name: &str,
    element: Element,
    shape: &[usize],
    found: &Array<R>,
) -> Result<(), OracleError> {
    if found.element() == element && found.shape() == shape {
        return Ok(());
    }
    Err(OracleError::Mismatch {
        name: name.to_owned(),
        expected_element: element,
        expected: shape.to_vec(),
        found_element: found.element(),
        found: found.shape(),
    })
}

impl<R: Real> OracleSession<R> {
    /// The same session in another arithmetic.
    pub fn converted<Other: Real>(&self) -> OracleSession<Other> {
        let convert = |array: &Arc<Array<R>>| Arc::new(array.converted());
        let rows = |rows: &Vec<Arc<Array<R>>>| rows.iter().map(convert).collect();
        OracleSession {
            position: self.position,
            states: self.states.iter().map(|state| state.as_ref().map(convert)).collect(),
            histories: self.histories.iter().map(rows).collect(),
        }
    }
}

impl<R: Real> Run<R> {
    /// Output `index` of `node`, none where it was not wanted or there is no such.
    pub fn output(&self, node: usize, index: usize) -> Option<&Array<R>> {
        self.nodes.get(node)?.outputs.get(index)?.as_deref()
    }

    /// Advances a session along an accepted path of the forest that this run went over.
    ///
    /// # Errors
    /// The path does not continue the session, or it is not of this run's forest.
    pub fn commit(&self, accepted: &Accepted, session: &mut OracleSession<R>) -> Result<(), OracleError> {
        if session.position != accepted.base() {
            let (base, position) = (accepted.base(), session.position);
            return Err(ForestError::WrongPosition { base, position }.into());
        }
        if let Some(last) = accepted.last()
            && last as usize >= self.nodes.len()
        {
            return Err(ForestError::NoSuchNode { node: last, count: self.nodes.len() }.into());
        }
        for &node in accepted.nodes() {
            let values = &self.nodes[node as usize];
            for (history, row) in session.histories.iter_mut().zip(&values.rows) {
                history.push(row.clone());
            }
            session.states = values.states.iter().cloned().map(Some).collect();
        }
        session.position = accepted.position();
        Ok(())
    }
}
