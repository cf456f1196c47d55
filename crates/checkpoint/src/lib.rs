//! Checkpoint files: safetensors and GGUF, their validation, and the files beside them.
//!
//! What lives here: finding a model's files in a folder, mapping them into memory, checking every range and size
//! before anything uses it, and handing weights out as [`fiddlehead_storage::Tensor`]; writing GGUF files.
//!
//! What must never live here: what a tensor means to a model (`models`), kernels, tokenizers.
//!
//! Start reading at [`Checkpoint`]; the file formats themselves are [`safetensors`] and [`gguf`].
//!
//! A file that another process cuts short after it was opened is out of scope: its mapped pages are gone, and the
//! system ends the program when it reads them. Everything that is wrong at the time of opening is an error.

mod checkpoint;
mod companions;
mod description;
mod error;
pub mod gguf;
mod locate;
mod mapped;
pub mod safetensors;
mod split;

pub use checkpoint::{Checkpoint, Unserved};
pub use companions::Companions;
pub use description::Description;
pub use error::CheckpointError;
