//! What can go wrong between a model's files and its answer.

use fiddlehead_checkpoint::CheckpointError;
use fiddlehead_forest::ForestError;
use fiddlehead_graph::lower::LowerError;
use fiddlehead_lang::diagnostic::Diagnostics;
use fiddlehead_lang::source::Source;
use fiddlehead_models::ModelError;
use fiddlehead_oracle::OracleError;
use fiddlehead_plan::{DeviceError, SamplingError};
use fiddlehead_text::TextError;

use crate::ByteSize;

/// Why a model cannot be loaded or does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A file of the model.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint does not fit a program.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The text of a program.
    #[error("{0}")]
    Program(Box<Diagnostics>),
    /// A program that cannot be lowered with these sizes.
    #[error("{place}: {error}")]
    Lowering {
        /// The program, with line and column where known.
        place: String,
        /// What is wrong.
        error: LowerError,
    },
    /// A program that went wrong at run time.
    #[error("{place}: {why}")]
    Trap {
        /// The program, with line and column.
        place: String,
        /// What happened.
        why: String,
    },
    /// The tokenizer, the chat template, or a text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The reference interpreter.
    #[error("the reference interpreter: {0}")]
    Reference(#[from] OracleError),
    /// A weight cannot be widened.
    #[error("weight `{name}`: {why}")]
    Weight {
        /// Its name in the program.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A sampling parameter, or logits that cannot be sampled.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A batch could not be laid out.
    #[error("the batch could not be laid out: {0}")]
    Forest(#[from] ForestError),
    /// The model's `main` step does not take a token and give logits.
    #[error("the model `{model}` cannot generate text: {why}")]
    Interface {
        /// Its name.
        model: String,
        /// What is missing or strange.
        why: String,
    },
    /// A value of `generation_config.json` that makes no sense.
    #[error("{place}: `{key}` is {found}; {wanted} is wanted")]
    Defaults {
        /// The file.
        place: String,
        /// The key.
        key: &'static str,
        /// The value as text.
        found: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// It would take more memory than there is.
    #[error("the model takes about {wanted} ({parts}) and {available} are {bound}; {advice}")]
    DoesNotFit {
        /// What it takes in all.
        wanted: ByteSize,
        /// The parts that matter, in words.
        parts: String,
        /// What there is.
        available: ByteSize,
        /// Who says so.
        bound: String,
        /// What to do.
        advice: String,
    },
    /// There is nothing to start from.
    #[error("the prompt is empty; a model needs at least one token to go on from")]
    EmptyPrompt,
    /// The prompt does not fit.
    #[error(
        "the prompt has {tokens} tokens and the context holds {context}; shorten it or load with a longer --context"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that fit.
        context: usize,
    },
    /// A prompt may hold only tokens that the model knows.
    #[error("the prompt holds token {token}; the model knows tokens below {vocabulary}")]
    TokenOutOfVocabulary {
        /// The token.
        token: u32,
        /// How many tokens the model knows.
        vocabulary: usize,
    },
    /// Windows that would miss tokens or hold none.
    #[error("windows of {context} tokens cannot begin every {stride}; the stride must be from 1 to {}", context.saturating_sub(1))]
    Windows {
        /// Tokens of a window.
        context: usize,
        /// Tokens from the beginning of one window to that of the next.
        stride: usize,
    },
    /// A conversation needs a template.
    #[error("the model has no chat template; give one prompt with --raw")]
    NoChatTemplate,
    /// The device gave something else than the logits of one row.
    #[error("the device did not give the logits that were asked for: {why}")]
    BadLogits {
        /// What it gave.
        why: String,
    },
}

impl EngineError {
    /// A lowering error with its place in the program's text.
    pub(crate) fn lowering(source: &Source, error: LowerError) -> EngineError {
        let place = match error.span() {
            Some(span) => {
                let (line, column) = source.line_and_column(span.start);
                format!("{}:{line}:{column}", source.name)
            }
            None => source.name.clone(),
        };
        EngineError::Lowering { place, error }
    }
}
