//! Why a token cannot be chosen.

/// Why a token cannot be chosen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A parameter is out of its range.
    #[error("{name} is {value}; it must be {allowed}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f32,
        /// The range.
        allowed: &'static str,
    },
    /// The model gave a logit that is no number.
    #[error(
        "the model gave {value} as the logit of token {token} at position {position}; the weights may be damaged"
    )]
    NotANumber {
        /// The token.
        token: usize,
        /// NaN or infinity.
        value: f32,
        /// The position of the token to be chosen.
        position: usize,
    },
    /// No token has a chance.
    #[error("the model rules out every token at position {position}; the weights may be damaged")]
    NoCandidate {
        /// The position of the token to be chosen.
        position: usize,
    },
}
