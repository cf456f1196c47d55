//! One random case: a program on a device and in the oracle, fed alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_forest::{Accepted, Forest, ForestError, SessionId};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_graph::{Graph, ModelGraph};
use fiddlehead_oracle::random::{Motif, RandomProgram, inputs};
use fiddlehead_oracle::{Array, Data, Oracle, OracleSessions, Run, Weight};
use fiddlehead_plan::{Device, DeviceError, Executor, LoadOptions, Numerics, OutputRows, Values, Weights};
use fiddlehead_storage::Tensor;

/// A program's weights as a checkpoint would hold them.
///
/// # Panics
/// Never for a [`RandomProgram`], whose weights have their shapes.
pub fn stored(program: &RandomProgram) -> Weights {
    let mut weights = Weights::new();
    for param in program.graph.params() {
        let values: Vec<f32> = match &program.weights[&param.name] {
            Weight::Float(values) => values.to_vec(),
            Weight::Int(values) => values.iter().map(|&value| value as f32).collect(),
        };
        weights.insert(param.name.clone(), Tensor::from_f32(param.shape.clone(), values).expect("fits"));
    }
    weights
}

/// Options with families of kernels switched off or on.
pub fn options(dispatch: &[(&str, &str)]) -> LoadOptions {
    let dispatch: BTreeMap<String, String> =
        dispatch.iter().map(|(family, choice)| (family.to_string(), choice.to_string())).collect();
    LoadOptions { numerics: Numerics::F32, dispatch, ..LoadOptions::default() }
}

/// Loads a graph as a model of one step.
///
/// # Errors
/// What the device says.
pub fn load(
    device: &dyn Device,
    graph: &Graph,
    weights: Weights,
    options: LoadOptions,
) -> Result<Box<dyn Executor>, DeviceError> {
    let model = ModelGraph { name: graph.name().into(), steps: vec![graph.clone()] };
    device.load(Arc::new(model), weights, options)
}

/// An array's elements as values.
pub fn values(array: &Array<f32>) -> Values {
    match array.data() {
        Data::Float(values) => Values::F32(values.clone()),
        Data::Weight(values) => Values::F32(values.to_vec()),
        Data::Int(values) => Values::I32(values.clone()),
        Data::Bool(values) => Values::Bool(values.clone()),
        Data::Id(values) => Values::Id(values.clone()),
    }
}

/// The values as f64, bools as zero and one.
pub fn to_f64s(values: &Values) -> Vec<f64> {
    match values {
        Values::F32(values) => values.iter().map(|&value| value as f64).collect(),
        Values::I32(values) => values.iter().map(|&value| value as f64).collect(),
        Values::Bool(values) => values.iter().map(|&value| f64::from(u8::from(value))).collect(),
        Values::Id(values) => values.iter().map(|&value| value as f64).collect(),
    }
}

/// The bits of outputs, to compare runs of one device.
pub fn bits(outputs: &[OutputRows]) -> Vec<(Vec<u32>, Vec<u32>)> {
    let words = |values: &Values| match values {
        Values::F32(values) => values.iter().map(|value| value.to_bits()).collect(),
        Values::I32(values) => values.iter().map(|&value| value as u32).collect(),
        Values::Bool(values) => values.iter().map(|&value| value as u32).collect(),
        Values::Id(values) => values.clone(),
    };
    outputs.iter().map(|output| (output.nodes.clone(), words(&output.values))).collect()
}

/// The bits of one node's outputs, none where it wants none.
pub fn node_bits(outputs: &[OutputRows], node: u32) -> Vec<Option<Vec<u32>>> {
    bits(outputs)
        .into_iter()
        .map(|(nodes, words)| {
            let place = nodes.iter().position(|&other| other == node)?;
            let size = words.len() / nodes.len();
            Some(words[place * size..(place + 1) * size].to_vec())
        })
        .collect()
}

/// A program in the oracle and on the device, with the same sessions.
pub struct Case {
    /// The program.
    pub program: RandomProgram,
    /// The oracle's part.
    pub oracle: Oracle<f64>,
    /// The oracle's sessions.
    pub sessions: OracleSessions<f64>,
    /// The device's part.
    pub executor: Box<dyn Executor>,
    /// What the program and its inputs are drawn from.
    pub seed: u64,
    fed: u64,
}

impl Case {
    /// A random program of motifs, in the oracle and loaded on a device.
    ///
    /// # Errors
    /// In words, whatever stops it.
    pub fn new(
        device: &dyn Device,
        seed: u64,
        motifs: &[Motif],
        count: usize,
        dispatch: &[(&str, &str)],
    ) -> Result<Case, String> {
        let program = RandomProgram::new(seed, motifs, count).map_err(|error| format!("graph: {error}"))?;
        let oracle = Oracle::<f64>::new(&program.graph, &program.weights)
            .map_err(|error| format!("oracle: {error}"))?;
        // Every other program as the rewrites leave it, which is what models run.
        let graph = if seed.is_multiple_of(2) { program.graph.clone() } else { optimise(&program.graph) };
        let executor = load(device, &graph, stored(&program), options(dispatch))
            .map_err(|error| format!("load: {error}"))?;
        Ok(Case { program, oracle, sessions: OracleSessions::new(), executor, seed, fed: 0 })
    }

    /// Opens a session in both.
    ///
    /// # Errors
    /// What the executor says.
    pub fn open(&mut self, session: SessionId) -> Result<(), String> {
        self.sessions.insert(session, self.oracle.session());
        self.executor.open(session).map_err(|error| error.to_string())
    }

    /// Fresh random inputs for a forest.
    ///
    /// # Errors
    /// When the oracle refuses their sizes.
    pub fn inputs(&mut self, nodes: usize) -> Result<Vec<Array<f32>>, String> {
        self.fed += 1;
        inputs::<f32>(&self.program.graph, nodes, self.seed.wrapping_add(self.fed * 7919))
            .map_err(|error| error.to_string())
    }

    /// Runs both and compares the wanted outputs; gives the oracle's run.
    ///
    /// # Errors
    /// The first difference, or whatever stops either.
    pub fn run(&mut self, forest: &Forest) -> Result<Run<f64>, String> {
        let given = self.inputs(forest.len())?;
        let wide: Vec<Array<f64>> = given.iter().map(Array::converted).collect();
        let expected =
            self.oracle.run(forest, &wide, &self.sessions).map_err(|error| format!("oracle: {error}"))?;
        let given: Vec<Values> = given.iter().map(values).collect();
        let found = self.executor.run(0, forest, &given).map_err(|error| format!("executor: {error}"))?;
        for (place, output) in found.iter().enumerate() {
            let wanted: Vec<u32> = (0..forest.len() as u32)
                .filter(|&node| forest.wanted()[node as usize].contains(place))
                .collect();
            if wanted != output.nodes {
                return Err(format!("output {place}: rows {:?} instead of {wanted:?}", output.nodes));
            }
            let found = to_f64s(&output.values);
            let mut at = 0;
            for &node in &output.nodes {
                let expected =
                    expected.output(node as usize, place).ok_or("the oracle has no such row")?.to_f64s();
                for (index, &expected) in expected.iter().enumerate() {
                    let found = found[at + index];
                    let difference = (found - expected).abs() / (1.0 + expected.abs());
                    let same = found == expected || (found.is_nan() && expected.is_nan());
                    if !same && (difference.is_nan() || difference > 1e-4) {
                        return Err(format!(
                            "output {place}, node {node}, element {index}: {found} instead of {expected}"
                        ));
                    }
                }
                at += expected.len();
            }
        }
        Ok(expected)
    }

    /// Commits a path in both.
    ///
    /// # Errors
    /// What either says.
    pub fn commit(&mut self, run: &Run<f64>, accepted: &Accepted) -> Result<(), String> {
        let session = self.sessions.get_mut(&accepted.session()).ok_or("the session is not open")?;
        run.commit(accepted, session).map_err(|error| error.to_string())?;
        self.executor.commit(0, accepted).map_err(|error| error.to_string())
    }

    /// Opens a session and feeds it `count` nodes.
    ///
    /// # Errors
    /// As [`Case::run`].
    pub fn feed(&mut self, session: SessionId, count: usize) -> Result<(), String> {
        self.open(session)?;
        if count > 0 {
            let forest = Forest::single_chain(session, 0, count).map_err(|error| error.to_string())?;
            let run = self.run(&forest)?;
            self.commit(&run, &forest.accept_all(0).map_err(|error| error.to_string())?)?;
        }
        Ok(())
    }
}

/// A random leaf's path of a segment, or a part of it.
///
/// # Errors
/// When there is no such segment.
pub fn random_path(random: &mut SplitMix, forest: &Forest, segment: usize) -> Result<Accepted, ForestError> {
    let range = forest.segments()[segment].range();
    let node = range.start + random.below(range.len());
    if random.one_in(8) {
        return forest.accept(segment, &[]);
    }
    forest.accept_to(node as u32)
}
