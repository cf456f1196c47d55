//! Checkpoint files: safetensors and GGUF, their validation, and the files beside them.
//!
//! What lives here: finding a model's files in a folder, mapping them into memory, checking every range and size
//! before anything uses it, and handing weights out as [`fiddlehead_storage::Tensor`]; writing GGUF files.
//!
//! What must never live here: what a tensor means to a model (`models`), kernels, tokenizers.
//!
//! Start reading at [`Checkpoint`]; the file formats themselves are [`safetensors`] and [`gguf`].
//!
//! Everything that is wrong at the time of opening is an error, and so is what [`Checkpoint::read_ahead`] meets. A file
//! that another process cuts short after that cannot be helped here: its mapped pages are gone, and the system sends
//! SIGBUS when they are read. A file that is replaced by another of its name stays whole: the old one is mapped.

mod checkpoint;
mod companions;
mod copies;
mod description;
mod error;
pub mod gguf;
mod locate;
mod mapped;
pub mod safetensors;
mod split;

pub use checkpoint::{Checkpoint, Unserved};
pub use companions::Companions;
pub use copies::Copying;
pub use description::Description;
pub use error::CheckpointError;
