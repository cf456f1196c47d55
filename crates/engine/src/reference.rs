//! A model in the reference interpreter: what its logits are, in f64, whatever a device makes of them.

use std::sync::Arc;

use fiddlehead_checkpoint::Copying;
use fiddlehead_forest::{Class, ForestBuilder, SessionId, Wanted};
use fiddlehead_oracle::{Array, Oracle, OracleSessions, Weight, Weights};
use fiddlehead_plan::Values;

use crate::{EngineError, ModelSource, Prepared, StepInterface};

/// The main step of a model in the reference interpreter, on the very weights that its files store, widened. Slow by
/// design, and four bytes of memory a weight; it settles whether two tokens are a near-tie.
#[derive(Debug)]
pub struct Reference {
    oracle: Oracle<f64>,
    interface: StepInterface,
}

impl Reference {
    /// Opens a model's files.
    ///
    /// # Errors
    /// When they are missing, damaged, or do not fit a program that gives logits.
    pub fn load(source: ModelSource<'_>) -> Result<Reference, EngineError> {
        let Prepared { graphs, weights: stored, .. } =
            Prepared::new(&source.open(Copying::Within(u64::MAX))?)?;
        let interface = StepInterface::of(&graphs)?;
        let graph = &graphs.steps[interface.step()];
        let mut weights = Weights::new();
        for param in graph.params() {
            let Some(tensor) = stored.get(&param.name) else { continue };
            let values = tensor
                .to_f32()
                .map_err(|error| EngineError::Weight { name: param.name.clone(), why: error.to_string() })?;
            weights.insert(param.name.clone(), Weight::Float(Arc::from(values)));
        }
        Ok(Reference { oracle: Oracle::new(graph, &weights)?, interface })
    }

    /// The logits after some tokens of a path: a row, `[vocabulary]`, for each of `places`, ascending, which count from
    /// the first token.
    ///
    /// # Errors
    /// A token that the model does not know, or a program that traps.
    pub fn logits(&self, tokens: &[u32], places: &[usize]) -> Result<Vec<Vec<f64>>, EngineError> {
        let vocabulary = self.interface.vocabulary();
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(EngineError::TokenOutOfVocabulary { token, vocabulary });
        }
        let Some(&last) = places.last() else { return Ok(Vec::new()) };
        let tokens = tokens.get(..=last).unwrap_or(tokens);
        let mut builder = ForestBuilder::new();
        builder.segment(SessionId(0), 0)?;
        let wanted = self.interface.wanted()?;
        for place in 0..tokens.len() {
            let read = if places.contains(&place) { wanted } else { Wanted::NONE };
            builder.chain(1, Class::Prompt, read, read)?;
        }
        let forest = builder.build()?;
        let inputs: Vec<Array<f64>> =
            self.interface.inputs(&forest, tokens).iter().map(array).collect::<Result<_, _>>()?;
        let run = self.oracle.run(&forest, &inputs, &OracleSessions::default())?;
        let row = |place: &usize| {
            let row = run.output(*place, self.interface.logits_output());
            row.map(Array::to_f64s).ok_or_else(|| EngineError::BadLogits {
                why: format!("there is no row {place} of {}", tokens.len()),
            })
        };
        places.iter().map(row).collect()
    }
}

fn array(values: &Values) -> Result<Array<f64>, EngineError> {
    match values {
        Values::Id(values) => Ok(Array::ids(values)),
        Values::I32(values) => Ok(Array::ints(values)),
        Values::F32(_) | Values::Bool(_) => {
            Err(EngineError::BadLogits { why: "a step takes tokens and positions".to_owned() })
        }
    }
}
