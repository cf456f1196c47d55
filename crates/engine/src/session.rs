//! One path through the model: tokens committed on a device, and ways to go on from them.

use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_plan::{Chosen, Snapshot, TokenChoice};

use crate::chunks::prompt_chunks;
use crate::{EngineError, Model};

/// The most prompt tokens of one run: enough rows to fill a CPU's matrix kernels, few enough that buffers stay small
/// and an interrupt is seen soon.
pub const PROMPT_CHUNK: usize = 512;

/// The most logits of one run whose every row is read (32 MiB), unless [`crate::CUT`] rows hold more.
const VISITED_LOGITS: usize = 8 << 20;

/// What is done with each row of logits, `[vocabulary]`, and its place among the tokens that were given.
pub type RowVisitor<'a> = dyn FnMut(usize, &[f32]) -> Result<(), EngineError> + 'a;

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

    /// Commits tokens of a prompt. Runs at most [`PROMPT_CHUNK`] tokens at a time, cut at absolute multiples of
    /// [`crate::CUT`]. Asks `go_on` before each run; `false` comes back when it says no, with whole chunks committed.
    ///
    /// # Errors
    /// A token that the model does not know, a path beyond the context, and what the device refuses.
    pub fn prompt(
        &mut self,
        model: &mut Model,
        tokens: &[u32],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, EngineError> {
        let start = self.path.len();
        let total = start + tokens.len();
        check_path(model, tokens, total)?;
        for chunk in prompt_chunks(start, total, PROMPT_CHUNK) {
            if !go_on() {
                return Ok(false);
            }
            let tokens = &tokens[chunk.start - start..chunk.end - start];
            self.run(model, tokens, Class::Prompt, tokens.len())?;
        }
        Ok(true)
    }

    /// Commits one or more tokens of a prompt as [`Session::prompt`] does and chooses the token after them; `None` comes
    /// back when `go_on` says no.
    ///
    /// # Errors
    /// As [`Session::prompt`], and logits from which no token can be chosen.
    pub fn prompt_and_choose(
        &mut self,
        model: &mut Model,
        tokens: &[u32],
        choice: &TokenChoice<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<u32>, EngineError> {
        let start = self.path.len();
        let total = start + tokens.len();
        check_path(model, tokens, total)?;
        let last = prompt_chunks(start, total, PROMPT_CHUNK).last().ok_or(EngineError::EmptyPrompt)?;
        let (head, tail) = tokens.split_at(last.start - start);
        if !self.prompt(model, head, go_on)? || !go_on() {
            return Ok(None);
        }
        self.run_and_choose(model, tail, Class::Prompt, choice).map(Some)
    }

    /// Commits tokens of a prompt and shows the logits after each of them from place `from` on: `visit` gets the place
    /// among `tokens` and the row, `[vocabulary]`. Cut as [`Session::prompt`] cuts, into pieces whose rows of logits stay
    /// within some tens of MiB. Asks `go_on` before each run; `false` comes back when it says no.
    ///
    /// # Errors
    /// As [`Session::prompt`], and what `visit` gives.
    pub fn visit_prompt(
        &mut self,
        model: &mut Model,
        tokens: &[u32],
        from: usize,
        go_on: &mut dyn FnMut() -> bool,
        visit: &mut RowVisitor<'_>,
    ) -> Result<bool, EngineError> {
        let start = self.path.len();
        let total = start + tokens.len();
        check_path(model, tokens, total)?;
        let vocabulary = model.interface().vocabulary().max(1);
        for chunk in prompt_chunks(start, total, PROMPT_CHUNK.min(VISITED_LOGITS / vocabulary)) {
            if !go_on() {
                return Ok(false);
            }
            let places = chunk.start - start..chunk.end - start;
            let unread = from.saturating_sub(places.start).min(places.len());
            let rows = self.run(model, &tokens[places.clone()], Class::Prompt, unread)?;
            for (place, row) in (places.start + unread..).zip(rows.chunks_exact(vocabulary)) {
                visit(place, row)?;
            }
        }
        Ok(true)
    }

    /// Commits one generated token and gives the logits after it.
    ///
    /// # Errors
    /// A token that the model does not know, a path beyond the context, and what the device refuses.
    pub fn step(&mut self, model: &mut Model, token: u32) -> Result<Vec<f32>, EngineError> {
        check_tokens(model, &[token])?;
        self.run(model, &[token], Class::Generated, 0)
    }

    /// Commits one generated token and chooses the one after it.
    ///
    /// # Errors
    /// As [`Session::step`], and logits from which no token can be chosen.
    pub fn step_and_choose(
        &mut self,
        model: &mut Model,
        token: u32,
        choice: &TokenChoice<'_>,
    ) -> Result<u32, EngineError> {
        check_tokens(model, &[token])?;
        self.run_and_choose(model, &[token], Class::Generated, choice)
    }

    /// Commits tokens and gives the logits after each but the first `unread`, one row after the other.
    fn run(
        &mut self,
        model: &mut Model,
        tokens: &[u32],
        class: Class,
        unread: usize,
    ) -> Result<Vec<f32>, EngineError> {
        let forest = self.chain(model, tokens.len(), class, unread)?;
        let inputs = model.interface().inputs(&forest, tokens);
        let step = model.interface().step();
        let outputs = model.executor_mut().run(step, &forest, &inputs)?;
        self.commit(model, &forest, tokens)?;
        match tokens.len() - unread {
            0 => Ok(Vec::new()),
            count => model.interface().logits(outputs, count),
        }
    }

    /// Commits tokens and chooses the one after the last. Where none can be chosen, nothing is committed.
    fn run_and_choose(
        &mut self,
        model: &mut Model,
        tokens: &[u32],
        class: Class,
        choice: &TokenChoice<'_>,
    ) -> Result<u32, EngineError> {
        let forest = self.chain(model, tokens.len(), class, tokens.len() - 1)?;
        let inputs = model.interface().inputs(&forest, tokens);
        let (step, logits) = (model.interface().step(), model.interface().logits_output());
        let chosen = model.executor_mut().run_and_choose(step, &forest, &inputs, logits, &[*choice])?;
        let [chosen]: [Chosen; 1] = chosen.try_into().map_err(|chosen: Vec<_>| EngineError::BadLogits {
            why: format!("{} tokens were chosen instead of one", chosen.len()),
        })?;
        let token = chosen?;
        self.commit(model, &forest, tokens)?;
        Ok(token)
    }

    fn commit(&mut self, model: &mut Model, forest: &Forest, tokens: &[u32]) -> Result<(), EngineError> {
        let step = model.interface().step();
        model.executor_mut().commit(step, &forest.accept_all(0)?)?;
        self.path.extend_from_slice(tokens);
        Ok(())
    }

    fn chain(&self, model: &Model, count: usize, class: Class, unread: usize) -> Result<Forest, EngineError> {
        let wanted = model.interface().wanted()?;
        let mut builder = ForestBuilder::new();
        builder.segment(self.id, self.path.len())?.chain(unread, class, Wanted::NONE, Wanted::NONE)?.chain(
            count - unread,
            class,
            wanted,
            wanted,
        )?;
        Ok(builder.build()?)
    }
}

/// Tokens that may stand on a path of `total` tokens.
fn check_path(model: &Model, tokens: &[u32], total: usize) -> Result<(), EngineError> {
    check_tokens(model, tokens)?;
    if total > model.context() {
        return Err(EngineError::PromptTooLong { tokens: total, context: model.context() });
    }
    Ok(())
}

/// An embedding row outside the table would trap on the device; the message here names the prompt instead.
fn check_tokens(model: &Model, tokens: &[u32]) -> Result<(), EngineError> {
    let vocabulary = model.interface().vocabulary();
    match tokens.iter().find(|&&token| token as usize >= vocabulary) {
        Some(&token) => Err(EngineError::TokenOutOfVocabulary { token, vocabulary }),
        None => Ok(()),
    }
}
