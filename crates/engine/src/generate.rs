//! From a prompt to an answer.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fiddlehead_text::{Detokenizer, DetokenizerOptions};

use crate::prefix::PrefixCache;
use crate::{CUT, EngineError, Model, PathCounts, Sampling, Session, TokenChoice, draw_seed};

/// What to answer and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt's tokens, one or more.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The seed of the sampler; `None` draws one.
    pub seed: Option<u64>,
    /// The most tokens to generate; `None` is until the context is full.
    pub max_tokens: Option<usize>,
    /// Texts at which to stop; none is empty. The answer ends before them.
    pub stops: Vec<String>,
}

impl Request {
    /// How the token of a position is chosen, on a path that holds `path`.
    fn choice<'a>(&self, seed: u64, position: usize, path: &'a PathCounts) -> TokenChoice<'a> {
        TokenChoice { sampling: self.sampling, seed, answer: 0, position, path }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop string came.
    Stop,
    /// The most tokens were reached, or the context is full.
    Length,
    /// Somebody cancelled it, or nobody reads it.
    Cancelled,
}

impl FinishReason {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

/// How long an answer took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GenerationTimings {
    /// Tokens of the prompt that were run.
    pub prefill_tokens: usize,
    /// Tokens of the prompt that an earlier path had run already.
    pub reused_tokens: usize,
    /// Seconds from the request to the first token, or to the end of the prompt when none is generated.
    pub prefill_seconds: f64,
    /// Generated tokens that were run: one fewer than were chosen.
    pub decode_tokens: usize,
    /// Seconds from the first token to the end.
    pub decode_seconds: f64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// Every token that was chosen, one that ends the answer included.
    pub tokens: Vec<u32>,
    /// The answer's text; special tokens give none.
    pub text: String,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// The sampler's seed, given or drawn.
    pub seed: u64,
    /// How long it took.
    pub timings: GenerationTimings,
}

/// Answers requests one after the other in one session, going on from what earlier ones have in common with the next.
#[derive(Debug)]
pub struct Generator {
    session: Session,
    prefixes: PrefixCache,
}

impl Generator {
    /// A generator that keeps at most `prefix_bytes` bytes of snapshots of earlier paths; 0 keeps none.
    ///
    /// A kept path may hold generated tokens, whose rows other kernels may have computed than a prompt's: an answer that
    /// goes on from it may then differ from a cold one within the model's numerics.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn new(model: &mut Model, prefix_bytes: usize) -> Result<Generator, EngineError> {
        Ok(Generator { session: Session::open(model)?, prefixes: PrefixCache::new(prefix_bytes) })
    }

    /// Forgets every earlier path.
    pub fn forget(&mut self) {
        self.prefixes.clear();
    }

    /// Answers a request. `on_text` gets the answer piece by piece and may end it; `cancel` is looked at between runs.
    ///
    /// # Errors
    /// When the request does not hold together, a logit is no number, or the device refuses. The generator can be used
    /// again after any of them.
    pub fn generate(
        &mut self,
        model: &mut Model,
        request: &Request,
        cancel: &AtomicBool,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, EngineError> {
        request.sampling.check()?;
        let seed = request.seed.unwrap_or_else(draw_seed);
        let options = DetokenizerOptions { stops: request.stops.clone(), ..DetokenizerOptions::default() };
        let mut answer = Answer::new(model.tokenizer().detokenizer(options)?, on_text);
        let mut timings = GenerationTimings::default();
        let finish_reason = self.answer(model, request, cancel, seed, &mut answer, &mut timings)?;
        let (tokens, text) = answer.finish();
        Ok(Generation { tokens, text, finish_reason, seed, timings })
    }

    fn answer(
        &mut self,
        model: &mut Model,
        request: &Request,
        cancel: &AtomicBool,
        seed: u64,
        answer: &mut Answer<'_>,
        timings: &mut GenerationTimings,
    ) -> Result<FinishReason, EngineError> {
        let limit = request.max_tokens.unwrap_or(usize::MAX);
        let started = Instant::now();
        let mut counts = PathCounts::of_prompt(&request.prompt);
        let mut position = request.prompt.len();
        let first = request.choice(seed, position, &counts);
        let prefilled = self.prefill(model, &request.prompt, (limit > 0).then_some(&first), cancel, timings);
        timings.prefill_seconds = started.elapsed().as_secs_f64();
        let mut token = match prefilled? {
            Prefilled::Cancelled => return Ok(FinishReason::Cancelled),
            Prefilled::Unread => {
                self.keep(model)?;
                return Ok(FinishReason::Length);
            }
            Prefilled::Token(token) => token,
        };
        let started = Instant::now();
        let reason = loop {
            counts.push(token);
            let ended = model.ends().binary_search(&token).is_ok();
            match answer.push(token) {
                _ if ended => break FinishReason::Stop,
                Pushed::Stopped => break FinishReason::Stop,
                Pushed::Unread => break FinishReason::Cancelled,
                Pushed::GoOn => {}
            }
            if answer.tokens.len() >= limit || position >= model.context() {
                break FinishReason::Length;
            }
            if cancel.load(Ordering::Relaxed) {
                break FinishReason::Cancelled;
            }
            position += 1;
            token = self.session.step_and_choose(model, token, &request.choice(seed, position, &counts))?;
            timings.decode_tokens += 1;
        };
        timings.decode_seconds = started.elapsed().as_secs_f64();
        self.keep(model)?;
        Ok(reason)
    }

    /// Runs the prompt, and chooses the token after it.
    fn prefill(
        &mut self,
        model: &mut Model,
        prompt: &[u32],
        choice: Option<&TokenChoice<'_>>,
        cancel: &AtomicBool,
        timings: &mut GenerationTimings,
    ) -> Result<Prefilled, EngineError> {
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        match self.prefixes.longest(prompt) {
            Some((path, snapshot)) => self.session.restore(model, snapshot, path)?,
            None => self.session.restart(model)?,
        }
        let reused = self.session.path().len();
        timings.reused_tokens = reused;
        timings.prefill_tokens = prompt.len() - reused;
        let mut go_on = || !cancel.load(Ordering::Relaxed);
        // A later prompt that shares this one's beginning goes on from the last cut, as a cold one would be cut there.
        let cut = (prompt.len() - 1) / CUT * CUT;
        let mut rest = &prompt[reused..];
        if self.prefixes.is_enabled() && cut > reused {
            let (head, tail) = rest.split_at(cut - reused);
            if !self.session.prompt(model, head, &mut go_on)? {
                return Ok(Prefilled::Cancelled);
            }
            self.keep(model)?;
            rest = tail;
        }
        let Some(choice) = choice else {
            let whole = self.session.prompt(model, rest, &mut go_on)?;
            return Ok(if whole { Prefilled::Unread } else { Prefilled::Cancelled });
        };
        let token = self.session.prompt_and_choose(model, rest, choice, &mut go_on)?;
        Ok(token.map_or(Prefilled::Cancelled, Prefilled::Token))
    }

    fn keep(&mut self, model: &mut Model) -> Result<(), EngineError> {
        if self.prefixes.is_enabled() && !self.session.path().is_empty() {
            let snapshot = self.session.snapshot(model)?;
            self.prefixes.keep(self.session.path(), snapshot);
        }
        Ok(())
    }
}

/// What became of a prompt.
enum Prefilled {
    /// The token after it.
    Token(u32),
    /// It was run, and no token was asked for.
    Unread,
    Cancelled,
}

/// What became of a token's text.
enum Pushed {
    GoOn,
    Stopped,
    Unread,
}

/// The answer so far and who reads it.
struct Answer<'a> {
    detokenizer: Detokenizer,
    on_text: &'a mut dyn FnMut(&str) -> ControlFlow<()>,
    tokens: Vec<u32>,
    text: String,
}

impl<'a> Answer<'a> {
    fn new(detokenizer: Detokenizer, on_text: &'a mut dyn FnMut(&str) -> ControlFlow<()>) -> Answer<'a> {
        Answer { detokenizer, on_text, tokens: Vec::new(), text: String::new() }
    }

    fn push(&mut self, token: u32) -> Pushed {
        self.tokens.push(token);
        let piece = self.detokenizer.push(token);
        let read = self.show(&piece.text);
        match piece.stop {
            Some(_) => Pushed::Stopped,
            None if read.is_break() => Pushed::Unread,
            None => Pushed::GoOn,
        }
    }

    fn show(&mut self, text: &str) -> ControlFlow<()> {
        if text.is_empty() {
            return ControlFlow::Continue(());
        }
        self.text.push_str(text);
        (self.on_text)(text)
    }

    /// Shows what was held back. Nobody needs to be told any more when it is not read.
    fn finish(mut self) -> (Vec<u32>, String) {
        let held = self.detokenizer.finish();
        let _ = self.show(&held);
        (self.tokens, self.text)
    }
}
