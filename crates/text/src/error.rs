//! What can go wrong between text and tokens.

/// Why a tokenizer or a template cannot be loaded, or a text cannot be made into tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The tokenizer file cannot be read.
    #[error("tokenizer.json cannot be read: {reason}")]
    BadTokenizer {
        /// What is wrong.
        reason: String,
    },
    /// The parts of a tokenizer do not make one.
    #[error("the tokenizer in the file cannot be used: {reason}")]
    BadVocabulary {
        /// What is wrong.
        reason: String,
    },
    /// The tokenizer's decoder is of a kind that cannot be undone token by token.
    #[error("tokenizer.json has the decoder `{decoder}`, which is not supported")]
    UnsupportedDecoder {
        /// The decoder, as the file describes it.
        decoder: String,
    },
    /// A token's id is far beyond any vocabulary.
    #[error("tokenizer.json gives token {token:?} the id {id}; ids up to {maximum} are supported")]
    TokenIdTooLarge {
        /// The token's text.
        token: String,
        /// Its id.
        id: u32,
        /// The largest id supported.
        maximum: u32,
    },
    /// The tokenizer refused a text.
    #[error("the text cannot be encoded: {reason}")]
    Encode {
        /// What the tokenizer says.
        reason: String,
    },
    /// The text uses up every character that could mark its literal parts.
    #[error("the text uses every private-use character there is; remove some of them")]
    NoFreeCharacter,
    /// A chat template that is not a template.
    #[error("the chat template `{name}` cannot be read: {reason}")]
    TemplateSyntax {
        /// The template's name.
        name: String,
        /// What is wrong, with the line where known.
        reason: String,
    },
    /// The template itself refused the conversation.
    #[error("the chat template refuses these messages: {message}")]
    TemplateRaised {
        /// The template's own words.
        message: String,
    },
    /// The template used more time or memory than a conversation can need.
    #[error("the chat template takes far more work or memory than these messages can need; it was stopped")]
    TemplateExhausted,
    /// The template failed on this conversation.
    #[error("the chat template failed: {reason}")]
    TemplateFailed {
        /// What is wrong, with the line where known.
        reason: String,
    },
    /// No template of the name asked for.
    #[error("there is no chat template `{name}`; there are: {known}")]
    NoSuchTemplate {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A message that no template could use.
    #[error("message {index}: {reason}")]
    BadMessage {
        /// Its position, from 0.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// A stop string without a character would stop everything.
    #[error("a stop string is empty")]
    EmptyStop,
}
