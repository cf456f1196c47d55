//! A model made ready on a device.

use fiddlehead_plan::Executor;
use fiddlehead_text::{ChatRequest, ChatTemplate, Specials, Tokenizer};

use crate::{Defaults, EngineError, StepInterface};

/// How long loading took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadTimings {
    /// From the path to a model that answers, in seconds; `plan_seconds` included.
    pub load_seconds: f64,
    /// From the program's text to plans on the device, in seconds.
    pub plan_seconds: f64,
}

/// The parts of a model, for those who do not load it from files.
pub struct ModelParts {
    /// The loaded graphs.
    pub executor: Box<dyn Executor>,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversations to prompts.
    pub template: Option<ChatTemplate>,
    /// Tokens that end an answer.
    pub ends: Vec<u32>,
    /// What the model says about sampling.
    pub defaults: Defaults,
    /// The longest path, in tokens, that the executor was loaded for.
    pub context: usize,
    /// The longest path that the model was made for; 0 when it does not say.
    pub trained_context: usize,
    /// How long loading took.
    pub timings: LoadTimings,
}

/// A model that answers: its executor and everything between text and tokens.
pub struct Model {
    parts: ModelParts,
    interface: StepInterface,
    sessions: u64,
}

impl Model {
    /// Puts a model together.
    ///
    /// # Errors
    /// [`EngineError::Interface`] when its main step does not take a token and give logits.
    pub fn from_parts(parts: ModelParts) -> Result<Model, EngineError> {
        let interface = StepInterface::of(parts.executor.model())?;
        Ok(Model { parts, interface, sessions: 0 })
    }

    /// The loaded graphs on their device.
    pub fn executor(&self) -> &dyn Executor {
        self.parts.executor.as_ref()
    }

    pub(crate) fn executor_mut(&mut self) -> &mut dyn Executor {
        self.parts.executor.as_mut()
    }

    /// How its main step is fed and read.
    pub fn interface(&self) -> &StepInterface {
        &self.interface
    }

    /// Text to tokens and back.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.parts.tokenizer
    }

    /// Whether it can be talked with.
    pub fn has_chat_template(&self) -> bool {
        self.parts.template.is_some()
    }

    /// Tokens that end an answer, ascending.
    pub fn ends(&self) -> &[u32] {
        &self.parts.ends
    }

    /// What the model says about sampling.
    pub fn defaults(&self) -> &Defaults {
        &self.parts.defaults
    }

    /// The longest path of a session, in tokens.
    pub fn context(&self) -> usize {
        self.parts.context
    }

    /// The longest path that the model was made for, in tokens; 0 when it does not say.
    pub fn trained_context(&self) -> usize {
        self.parts.trained_context
    }

    /// How long loading took.
    pub fn timings(&self) -> LoadTimings {
        self.parts.timings
    }

    pub(crate) fn set_load_seconds(&mut self, seconds: f64) {
        self.parts.timings.load_seconds = seconds;
    }

    /// The prompt of a conversation.
    ///
    /// # Errors
    /// [`EngineError::NoChatTemplate`], or what the template or the tokenizer refuses.
    pub fn encode_chat(&self, request: &ChatRequest) -> Result<Vec<u32>, EngineError> {
        let template = self.parts.template.as_ref().ok_or(EngineError::NoChatTemplate)?;
        Ok(self.parts.tokenizer.encode_chat(template, request)?)
    }

    /// The prompt of a text as it stands. Special tokens in it are meant: who writes without a template writes its
    /// words.
    ///
    /// # Errors
    /// What the tokenizer refuses.
    pub fn encode_raw(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        Ok(self.parts.tokenizer.encode_prompt(text, Specials::Parse)?)
    }

    /// A number for a session that no other session of this model has.
    pub(crate) fn next_session(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }
}
