//! The part of a session's snapshot that no device holds: how far each step of the model has come.

use crate::{Accepted, ForestError};

/// The committed length of a session, for each step of its model apart: a drafting step runs behind or
/// beside the main one and has its own states and histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions(Vec<usize>);

impl Positions {
    /// A fresh session of a model with `steps` steps.
    pub fn new(steps: usize) -> Positions {
        Positions(vec![0; steps])
    }

    /// The number of tokens that step `step` has committed: the `base` of the session's next segment.
    ///
    /// # Errors
    /// There is no such step.
    pub fn get(&self, step: usize) -> Result<usize, ForestError> {
        self.0.get(step).copied().ok_or(ForestError::NoSuchStep { step, count: self.0.len() })
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.0.len()
    }

    /// Moves step `step` along an accepted path.
    ///
    /// # Errors
    /// There is no such step, or the path does not continue where the step stands.
    pub fn advance(&mut self, step: usize, accepted: &Accepted) -> Result<(), ForestError> {
        let position = self.get(step)?;
        if position != accepted.base() {
            return Err(ForestError::WrongPosition { base: accepted.base(), position });
        }
        self.0[step] = accepted.position();
        Ok(())
    }
}
