//! The reference interpreter: it defines what a graph means, and every executor is compared with it.
//!
//! A graph runs over a token forest node by node, parents before children; a node runs tensor by tensor, a
//! tensor element by element, a fold term by term in the order of its indices. The arithmetic is a type
//! ([`Real`]): `Oracle<f64>` is the reference, `Oracle<f32>` the literal meaning of the exact contract.
//!
//! What lives here: the interpreter, sessions as plain values, and random programs for comparing executors
//! with it ([`random`]). What must never live here: any algorithm that an executor uses. Nothing is reordered,
//! merged, blocked or skipped, except what nobody asks for; `product.rs` walks faster through the same terms in the
//! same order.
//!
//! Start at [`Oracle`]; inside, at `run.rs` (the forest), then `program.rs` (one node), `tensor.rs` (one
//! tensor), `evaluate.rs` (one element).

mod array;
mod error;
mod evaluate;
mod product;
mod program;
pub mod random;
mod real;
mod resolve;
mod run;
mod scan;
mod tensor;
mod weights;

pub use array::{Array, Data};
pub use error::{OracleError, Trap};
pub use real::Real;
pub use run::{NodeValues, Oracle, OracleSession, OracleSessions, Run};
pub use weights::{Weight, Weights};
