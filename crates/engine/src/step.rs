//! What generation needs of a model: a step from a token to logits.

use fiddlehead_forest::{Forest, Wanted};
use fiddlehead_graph::{Element, Graph, ModelGraph};
use fiddlehead_plan::{OutputRows, Values};

use crate::EngineError;

/// The name of the step that reads a token and gives logits.
const STEP: &str = "main";
/// The name of the output that is sampled.
const LOGITS: &str = "logits";

/// How a model's main step is fed and read.
#[derive(Clone, Debug)]
pub struct StepInterface {
    /// Its place in the model.
    step: usize,
    inputs: Vec<Role>,
    logits: usize,
    vocabulary: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Token,
    Position,
}

impl StepInterface {
    /// Finds the main step of a model and checks that it takes one token (and perhaps its position) a node and gives
    /// `logits`, f32 of one axis.
    ///
    /// # Errors
    /// [`EngineError::Interface`], which says what is missing or strange.
    pub fn of(model: &ModelGraph) -> Result<StepInterface, EngineError> {
        let refuse = |why: String| EngineError::Interface { model: model.name.clone(), why };
        let Some(step) = model.steps.iter().position(|graph| graph.name() == STEP) else {
            return Err(refuse(format!("it has no step `{STEP}`")));
        };
        let graph = &model.steps[step];
        let inputs = roles(graph).map_err(refuse)?;
        if inputs.iter().filter(|role| **role == Role::Token).count() != 1 {
            return Err(refuse(format!("its step `{STEP}` does not take exactly one token (an `id`)")));
        }
        let Some(logits) = graph.outputs().iter().position(|output| output.name == LOGITS) else {
            return Err(refuse(format!("its step `{STEP}` has no result `{LOGITS}`")));
        };
        let node = graph.outputs()[logits].node;
        match graph.shape(node).as_deref() {
            Some(&[vocabulary]) if graph.node(node).element == Element::F32 => {
                Ok(StepInterface { step, inputs, logits, vocabulary })
            }
            _ => Err(refuse(format!("`{LOGITS}` of its step `{STEP}` is not an f32 array of one axis"))),
        }
    }

    /// The step's place in the model.
    pub fn step(&self) -> usize {
        self.step
    }

    /// How many tokens the model knows: the length of a row of logits.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The place of the logits among the step's outputs.
    pub(crate) fn logits_output(&self) -> usize {
        self.logits
    }

    /// The mask of a node whose logits will be read.
    pub(crate) fn wanted(&self) -> Result<Wanted, EngineError> {
        Ok(Wanted::output(self.logits)?)
    }

    /// The step's inputs for the tokens of a forest's nodes.
    pub(crate) fn inputs(&self, forest: &Forest, tokens: &[u32]) -> Vec<Values> {
        let of = |role: &Role| match role {
            Role::Token => Values::Id(tokens.to_vec()),
            Role::Position => Values::I32(forest.depths().to_vec()),
        };
        self.inputs.iter().map(of).collect()
    }

    /// The logits of the `count` nodes that wanted them, one row after the other.
    pub(crate) fn logits(&self, outputs: Vec<OutputRows>, count: usize) -> Result<Vec<f32>, EngineError> {
        let bad = |why: &str| EngineError::BadLogits { why: why.to_owned() };
        let rows = outputs.into_iter().nth(self.logits).ok_or_else(|| bad("the output is missing"))?;
        match rows.values {
            Values::F32(values) if rows.nodes.len() == count && values.len() == count * self.vocabulary => {
                Ok(values)
            }
            Values::F32(values) => Err(bad(&format!(
                "{} rows with {} values in all, for {count} of {}",
                rows.nodes.len(),
                values.len(),
                self.vocabulary
            ))),
            _ => Err(bad("they are not f32")),
        }
    }
}

fn roles(graph: &Graph) -> Result<Vec<Role>, String> {
    let role = |input: &fiddlehead_graph::Input| match input.element {
        Element::Id if input.per_node && input.shape.is_empty() => Ok(Role::Token),
        Element::I32 if input.per_node && input.shape.is_empty() => Ok(Role::Position),
        _ => {
            Err(format!("its step `{STEP}` takes `{}`, which is neither a token nor a position", input.name))
        }
    };
    graph.inputs().iter().map(role).collect()
}
