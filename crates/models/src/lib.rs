//! Model programs and the mapping from a checkpoint to what they ask for.
//!
//! An architecture is one program under `programs/` (a page that stands alone) and one mapping under `src/mappings/`,
//! which names the program's dims, statics, constants and weights in the words of both kinds of checkpoint (Hugging
//! Face's and GGUF's). Nothing else in the system knows an architecture by name. What must never live here: devices,
//! kernels, the arithmetic of a model.
//!
//! Start reading at [`Architecture`], then `names.rs`, then `mappings/llama.rs`.

mod architecture;
mod config;
mod convert;
mod error;
mod experts;
mod fields;
mod fit;
mod frame;
mod kinds;
mod mapper;
mod mappings;
mod names;
mod rope;
mod rope_gguf;

pub use architecture::{Architecture, find};
pub use config::{Config, Gguf, Json, Key, key};
pub use convert::{Converted, ConvertedTensor, Order, Piece, convert};
pub use error::ModelError;
pub use fit::fit;
pub use mapper::{Bound, Mapper};
pub use mappings::architectures;
pub use names::{Field, Names, Source, Transform};

use fiddlehead_checkpoint::Checkpoint;

/// Finds the architecture of a checkpoint and binds everything its program asks for.
///
/// # Errors
/// When the architecture is not known (the message lists those that are), the configuration lacks a value or holds a
/// senseless one, a tensor is missing, or a layer has one that the program has no place for.
pub fn bind(checkpoint: &Checkpoint) -> Result<Bound, ModelError> {
    let config = Config::of(checkpoint);
    let architecture = find(&config)?;
    let mut mapper = Mapper::new(checkpoint, config);
    (architecture.map)(&mut mapper)?;
    mapper.finish(architecture)
}
