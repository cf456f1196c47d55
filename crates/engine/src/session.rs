//! One path through the model: tokens committed on a device, and ways to go on from them.

use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_plan::Snapshot;

use crate::chunks::prompt_chunks;
use crate::{EngineError, Model};

/// The most prompt tokens of one run: enough rows to fill a CPU's matrix kernels, few enough that buffers stay small
/// and an interrupt is seen soon.
pub const PROMPT_CHUNK: usize = 512;

/// A session of a model. Every method takes the model it was opened on.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    path: Vec<u32>,
}

impl Session {
    /// Starts a session without a token.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn open(model: &mut Model) -> Result<Session, EngineError> {
        let id = SessionId(model.next_session());
        model.executor_mut().open(id)?;
        Ok(Session { id, path: Vec::new() })
    }

    /// Ends the session and frees what it held on the device.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn close(self, model: &mut Model) -> Result<(), EngineError> {
        Ok(model.executor_mut().close(self.id)?)
    }

    /// The tokens committed so far.
    pub fn path(&self) -> &[u32] {
        &self.path
    }

    /// Goes back to the beginning.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn restart(&mut self, model: &mut Model) -> Result<(), EngineError> {
        if !self.path.is_empty() {
            model.executor_mut().close(self.id)?;
            model.executor_mut().open(self.id)?;
            self.path.clear();
        }
        Ok(())
    }

    /// Everything committed, to come back to with [`Session::restore`].
    ///
    /// # Errors
    /// What the device refuses.
    pub fn snapshot(&self, model: &mut Model) -> Result<Snapshot, EngineError> {
        Ok(model.executor_mut().snapshot(self.id)?)
    }

    /// Goes to where a snapshot was taken; `path` are the tokens that were committed there.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn restore(
        &mut self,
        model: &mut Model,
        snapshot: &Snapshot,
        path: &[u32],
    ) -> Result<(), EngineError> {
        model.executor_mut().restore(self.id, snapshot)?;
        self.path.clear();
        self.path.extend_from_slice(path);
        Ok(())
    }

    /// Commits tokens of a prompt; gives the logits after the last one when `wanted`. Runs at most [`PROMPT_CHUNK`]
    /// tokens at a time, cut at absolute multiples of [`crate::CUT`]. Asks `go_on` before each run; `None` comes back
    /// when it says no, with whole chunks committed.
    ///
    /// # Errors
    /// A token that the model does not know, a path beyond the context, and what the device refuses.
    pub fn prompt(
        &mut self,
        model: &mut Model,
        tokens: &[u32],
        wanted: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<f32>>, EngineError> {
        let start = self.path.len();
        let total = start + tokens.len();
        check_tokens(model, tokens)?;
        if total > model.context() {
            return Err(EngineError::PromptTooLong { tokens: total, context: model.context() });
        }
        let mut logits = None;
        for chunk in prompt_chunks(start, total, PROMPT_CHUNK) {
            if !go_on() {
                return Ok(None);
            }
            let last = wanted && chunk.end == total;
            logits = self.run(model, &tokens[chunk.start - start..chunk.end - start], Class::Prompt, last)?;
        }
        Ok(logits)
    }

    /// Commits one generated token and gives the logits after it.
    ///
    /// # Errors
    /// A token that the model does not know, a path beyond the context, and what the device refuses.
    pub fn step(&mut self, model: &mut Model, token: u32) -> Result<Vec<f32>, EngineError> {
        check_tokens(model, &[token])?;
        let logits = self.run(model, &[token], Class::Generated, true)?;
        logits.ok_or_else(|| EngineError::BadLogits { why: "none came".to_owned() })
    }

    fn run(
        &mut self,
        model: &mut Model,
        tokens: &[u32],
        class: Class,
        wanted: bool,
    ) -> Result<Option<Vec<f32>>, EngineError> {
        let forest = self.chain(model, tokens.len(), class, wanted)?;
        let inputs = model.interface().inputs(&forest, tokens);
        let step = model.interface().step();
        let outputs = model.executor_mut().run(step, &forest, &inputs)?;
        model.executor_mut().commit(step, &forest.accept_all(0)?)?;
        self.path.extend_from_slice(tokens);
        if wanted { model.interface().logits(outputs).map(Some) } else { Ok(None) }
    }

    fn chain(&self, model: &Model, count: usize, class: Class, wanted: bool) -> Result<Forest, EngineError> {
        let last = if wanted { model.interface().wanted()? } else { Wanted::NONE };
        let mut builder = ForestBuilder::new();
        builder.segment(self.id, self.path.len())?.chain(count, class, Wanted::NONE, last)?;
        Ok(builder.build()?)
    }
}

/// An embedding row outside the table would trap on the device; the message here names the prompt instead.
fn check_tokens(model: &Model, tokens: &[u32]) -> Result<(), EngineError> {
    let vocabulary = model.interface().vocabulary();
    match tokens.iter().find(|&&token| token as usize >= vocabulary) {
        Some(&token) => Err(EngineError::TokenOutOfVocabulary { token, vocabulary }),
        None => Ok(()),
    }
}
