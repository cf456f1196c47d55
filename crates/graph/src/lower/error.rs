//! Why a program could not be lowered.

use fiddlehead_lang::size::SizeError;
use fiddlehead_lang::source::Span;

use crate::validate::ValidationError;

/// A program could not be lowered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// No function of the top level has that name.
    #[error("the program has no function `{name}`")]
    NoFunction {
        /// The name.
        name: String,
    },
    /// No model has that name.
    #[error("the program has no model `{name}`")]
    NoModel {
        /// The name.
        name: String,
    },
    /// A size has no value.
    #[error("the size {name} is not known: no input tells it; give it with --dim {name}=NUMBER")]
    SizeMissing {
        /// Its symbol.
        name: String,
    },
    /// A size is no possible extent.
    #[error("the size {name} is {value}; a size is from 1 to {}", i32::MAX)]
    SizeRange {
        /// Its symbol.
        name: String,
        /// The value asked for.
        value: i64,
    },
    /// Two places disagree about a size.
    #[error("the size {name} is {first} by {first_place}, and {second} by {second_place}")]
    SizeConflict {
        /// Its symbol, or the size's text.
        name: String,
        /// One value.
        first: i64,
        /// Who says so.
        first_place: String,
        /// The other value.
        second: i64,
        /// Who says so.
        second_place: String,
    },
    /// An input's extent is one that the declared size never has.
    #[error("{place} is {value}, and no {name} from 1 makes {size} that")]
    SizeUnsolvable {
        /// The input and its axis.
        place: String,
        /// Its extent.
        value: i64,
        /// The symbol to solve for.
        name: String,
        /// The declared size.
        size: String,
    },
    /// An input has another number of axes than declared.
    #[error("input `{input}` has {found} axes, the program declares {wanted}")]
    InputRank {
        /// The input.
        input: String,
        /// Axes declared.
        wanted: usize,
        /// Axes given.
        found: usize,
    },
    /// A name that was given is no input or size of the function.
    #[error("`{name}` is no {what} of `{function}`")]
    Unknown {
        /// The name given.
        name: String,
        /// What it was given as.
        what: &'static str,
        /// The function.
        function: String,
    },
    /// A size expression has no value.
    #[error("{source}")]
    Size {
        /// Where it is.
        span: Span,
        /// Why.
        source: SizeError,
    },
    /// A size expression's value is no extent.
    #[error("this size is {value} here; an extent is from 0 to {}", i32::MAX)]
    Extent {
        /// Where it is.
        span: Span,
        /// Its value.
        value: i64,
    },
    /// More of the greatest elements are asked for than there are elements.
    #[error("`top[{k}]` of {of} elements: the size is too small")]
    Top {
        /// Where.
        span: Span,
        /// How many are asked for.
        k: usize,
        /// How many there are.
        of: usize,
    },
    /// A binding of the model is missing or does not fit its declaration.
    #[error("the checkpoint's mapping gives {found} for `{name}`; the model declares {wanted}")]
    Binding {
        /// The static, constant or layer.
        name: String,
        /// What the model declares.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// A weight that a step asks for is not in the checkpoint.
    #[error("the checkpoint has no weight `{name}`")]
    ParamMissing {
        /// Its name.
        name: String,
        /// Whether a step may be left out for want of it.
        optional: bool,
    },
    /// The program is legal, but a graph cannot say it.
    #[error("{what}")]
    Unsupported {
        /// Where.
        span: Span,
        /// What, and what to write instead.
        what: &'static str,
    },
    /// Inlining grew past any sensible size.
    #[error("the program grows past {limit} {what} with these sizes, its calls inlined")]
    TooLarge {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The program and what it is lowered to disagree: a fault of this system, not of the program.
    #[error("internal error: {what}")]
    Inconsistent {
        /// Where.
        span: Span,
        /// What was found.
        what: &'static str,
    },
    /// The graph that came out is not legal: a size that makes the program senseless, or a fault of this system.
    #[error("with these sizes the program makes no legal graph: {0}")]
    Invalid(#[from] Box<ValidationError>),
}

impl LowerError {
    /// The place in the program's text, when there is one.
    pub fn span(&self) -> Option<Span> {
        match self {
            LowerError::Size { span, .. }
            | LowerError::Extent { span, .. }
            | LowerError::Top { span, .. }
            | LowerError::Unsupported { span, .. }
            | LowerError::Inconsistent { span, .. } => Some(*span),
            LowerError::Invalid(error) => {
                error.origin.span.map(|(start, end)| Span::new(start as u32, end as u32))
            }
            _ => None,
        }
    }
}
