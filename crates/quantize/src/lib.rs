//! Models quantised into GGUF files.
//!
//! What lives here: which format each tensor gets ([`Recipe`]), the tokenizer of a `tokenizer.json` in the words of GGUF
//! files, and writing the file: tensor by tensor, in parts, under a name of its own until it is whole.
//!
//! What must never live here: the search for blocks (`storage`), what an architecture's tensors are called and how they
//! lie in either kind of file (`models`), how files are laid out (`checkpoint`).
//!
//! Start reading at [`Plan`].

mod error;
mod file;
mod plan;
mod recipe;
mod rows;
mod tokenizer;

pub use error::QuantizeError;
pub use file::{Progress, Target};
pub use plan::{Plan, Planned};
pub use recipe::{Override, Recipe};
