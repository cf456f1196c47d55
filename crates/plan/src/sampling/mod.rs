//! The choice of the next token: its definition, which every device keeps to the bit.
//!
//! [`TokenChoice`] says how a token is chosen from a row of logits, [`Chooser`] does it on the host. What decides is made
//! of comparisons, whole numbers, and f64 sums, products and quotients alone ([`real`]), so that a device that rounds
//! these as IEEE 754 says chooses the same token from the same logits.
//!
//! What must never live here: models, text, devices. Start reading at [`Chooser::choose`]; [`noise`] says why a sampled
//! answer never depends on the batch.

mod chooser;
mod counts;
mod error;
pub mod noise;
mod parameters;
pub mod real;

pub use chooser::{Chooser, TokenChoice, choose_rows, greatest};
pub(crate) use chooser::{check_choices, no_logits};
pub use counts::PathCounts;
pub use error::SamplingError;
pub use parameters::Sampling;

/// What became of one choice. A row from which no token can be chosen fails alone.
pub type Chosen = Result<u32, SamplingError>;
