//! Random programs, with weights, inputs and sessions to run them on: what executors are compared with the
//! oracle over.
//!
//! A program is a few [`Motif`]s strung together: each reads vectors that earlier ones made and adds its own.
//! Everything follows from a seed. Values stay within a few units, so that f32 and f64 runs may be compared; a
//! choice that rounding could flip (an arg-max, a top, a comparison) is made on values that both hold exactly.
//!
//! ```
//! use fiddlehead_forest::{Forest, SessionId};
//! use fiddlehead_oracle::random::{Motif, RandomProgram, inputs};
//! use fiddlehead_oracle::{Oracle, OracleSessions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let program = RandomProgram::new(7, Motif::ALL, 5)?;
//! let oracle = Oracle::<f32>::new(&program.graph, &program.weights)?;
//! let forest = Forest::single_chain(SessionId(1), 0, 4)?;
//! let run = oracle.run(&forest, &inputs(&program.graph, 4, 7)?, &OracleSessions::new())?;
//! assert!(run.output(3, 0).is_some());
//! # Ok(())
//! # }
//! ```

mod contract;
mod path;
mod pointwise;
mod recur;
mod sketch;
mod turns;

use crate::{Array, Data, OracleError, OracleSession, Real, Weights};
use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_graph::validate::ValidationError;
use fiddlehead_graph::{Element, Graph};
use sketch::Sketch;
use std::sync::Arc;

/// One kind of computation that a random program may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Motif {
    /// A chain of scalar operations over vectors, constants included.
    Elementwise,
    /// A vector read through derived indices: reversed, strided, divided, by a table of integers.
    IndexArithmetic,
    /// `if` and guards whose unchosen arm would be out of range.
    Branches,
    /// A matrix times a vector, either way round.
    Contraction,
    /// Contractions over several axes, grouped by `h / (H / G)` or `h % G`, or over derived axes.
    GroupedContraction,
    /// A small convolution.
    Convolution,
    /// Rows of a table by ids.
    Gather,
    /// Experts chosen by a top-k.
    Experts,
    /// Sum, product, maximum and minimum of a vector, and rms and softmax norms made of them.
    Reduction,
    /// Arg-max, top-k, any and all.
    Selection,
    /// A dependent range and a local array.
    Triangle,
    /// An ordered fold.
    OrderedFold,
    /// A loop of its own, with a carry, emissions and a history inside.
    Loop,
    /// A bounded tail of a history.
    Window,
    /// Attention over the whole path or a sliding part of it.
    Attention,
    /// Tokens read back from a history of ids.
    PastTokens,
    /// A state with a decay for each element.
    DiagonalRecurrence,
    /// The delta rule, in several equal spellings.
    DeltaRule,
    /// A state that goes through a nonlinear function.
    GeneralRecurrence,
    /// States of integers, ids and bools, and a running maximum.
    Registers,
}

impl Motif {
    /// Every motif.
    pub const ALL: &'static [Motif] = &[
        Motif::Elementwise,
        Motif::IndexArithmetic,
        Motif::Branches,
        Motif::Contraction,
        Motif::GroupedContraction,
        Motif::Convolution,
        Motif::Gather,
        Motif::Experts,
        Motif::Reduction,
        Motif::Selection,
        Motif::Triangle,
        Motif::OrderedFold,
        Motif::Loop,
        Motif::Window,
        Motif::Attention,
        Motif::PastTokens,
        Motif::DiagonalRecurrence,
        Motif::DeltaRule,
        Motif::GeneralRecurrence,
        Motif::Registers,
    ];

    fn add(self, sketch: &mut Sketch) {
        match self {
            Motif::Elementwise => pointwise::elementwise(sketch),
            Motif::IndexArithmetic => pointwise::index_arithmetic(sketch),
            Motif::Branches => pointwise::branches(sketch),
            Motif::Contraction => contract::contraction(sketch),
            Motif::GroupedContraction => contract::grouped(sketch),
            Motif::Convolution => contract::convolution(sketch),
            Motif::Gather => contract::gather(sketch),
            Motif::Experts => contract::experts(sketch),
            Motif::Reduction => pointwise::reduction(sketch),
            Motif::Selection => pointwise::selection(sketch),
            Motif::Triangle => turns::triangle(sketch),
            Motif::OrderedFold => turns::ordered_fold(sketch),
            Motif::Loop => turns::inner_loop(sketch),
            Motif::Window => path::window(sketch),
            Motif::Attention => path::attention(sketch),
            Motif::PastTokens => path::past_tokens(sketch),
            Motif::DiagonalRecurrence => recur::diagonal(sketch),
            Motif::DeltaRule => recur::delta_rule(sketch),
            Motif::GeneralRecurrence => recur::general(sketch),
            Motif::Registers => recur::registers(sketch),
        }
    }
}

/// A graph and the weights it names.
#[derive(Clone, Debug)]
pub struct RandomProgram {
    /// The graph. Its first input is a token (id, per node); the others are f32.
    pub graph: Graph,
    /// Its weights.
    pub weights: Weights,
    /// The motifs in it, in order.
    pub motifs: Vec<Motif>,
}

impl RandomProgram {
    /// A program of `count` motifs, each drawn from `motifs`.
    ///
    /// # Errors
    /// The graph broke a rule: a fault of the generator or of the validator.
    pub fn new(seed: u64, motifs: &[Motif], count: usize) -> Result<RandomProgram, ValidationError> {
        let mut sketch = Sketch::new(seed);
        let chosen: Vec<Motif> = match motifs {
            [] => Vec::new(),
            _ => (0..count).map(|_| motifs[sketch.random.below(motifs.len())]).collect(),
        };
        for motif in &chosen {
            motif.add(&mut sketch);
        }
        let (graph, weights) = sketch.finish()?;
        Ok(RandomProgram { graph, weights, motifs: chosen })
    }
}

/// Random inputs for a graph over a forest of `nodes` nodes, as [`Oracle::run`](crate::Oracle::run) takes them:
/// f32 in [-1, 1), integers and ids below [`VOCABULARY`].
///
/// # Errors
/// An input's shape holds more elements than memory could.
pub fn inputs<R: Real>(graph: &Graph, nodes: usize, seed: u64) -> Result<Vec<Array<R>>, OracleError> {
    let mut random = SplitMix::new(seed ^ 0x1f0e);
    let array = |input: &fiddlehead_graph::Input| {
        let mut shape = input.shape.clone();
        if input.per_node {
            shape.insert(0, nodes);
        }
        random_array(&mut random, &shape, input.element, 1.0)
    };
    graph.inputs().iter().map(array).collect()
}

/// Random values of a session that has committed `position` tokens: states of scale 0.3 and history rows of
/// scale 1, as if any tokens had led there.
///
/// # Errors
/// A shape holds more elements than memory could.
pub fn session<R: Real>(graph: &Graph, position: usize, seed: u64) -> Result<OracleSession<R>, OracleError> {
    let mut random = SplitMix::new(seed ^ 0x5e55);
    let mut states = Vec::new();
    for state in graph.states() {
        let value = random_array(&mut random, &state.shape, state.element, 0.3)?;
        states.push((position > 0).then(|| Arc::new(value)));
    }
    let mut histories = Vec::new();
    for history in graph.histories() {
        let shape = graph.shape(history.row).unwrap_or_default();
        let element = graph.node(history.row).element;
        let row = |_| Ok(Arc::new(random_array(&mut random, &shape, element, 1.0)?));
        histories.push((0..position).map(row).collect::<Result<Vec<_>, OracleError>>()?);
    }
    Ok(OracleSession { position, states, histories })
}

/// Random ids and integers are below this.
pub const VOCABULARY: usize = 11;

fn random_array<R: Real>(
    random: &mut SplitMix,
    shape: &[usize],
    element: Element,
    scale: f32,
) -> Result<Array<R>, OracleError> {
    let count = shape.iter().product();
    let data = match element {
        Element::F32 => Data::Float((0..count).map(|_| R::from_f32(scale * random.signed_unit())).collect()),
        Element::I32 => Data::Int((0..count).map(|_| random.below(VOCABULARY) as i32).collect()),
        Element::Bool => Data::Bool((0..count).map(|_| random.one_in(2)).collect()),
        Element::Id => Data::Id((0..count).map(|_| random.below(VOCABULARY) as u32).collect()),
    };
    Array::new(shape, data)
}
