//! Model programs and the mapping from a checkpoint to what they ask for.
//!
//! An architecture is one program under `programs/` (a page that stands alone) and one mapping beside this file: the mapping names the program's
//! dims, statics, constants and weights in the words of a checkpoint. Nothing else in the system knows an
//! architecture by name. What must never live here: devices, kernels, the arithmetic of a model.
//!
//! Start reading at [`Architecture`], then `dense.rs` and `hybrid.rs`.

mod architecture;
mod config;
mod dense;
mod error;
mod experts;
mod fit;
mod hybrid;
mod mapper;
mod rope;

pub use architecture::{Architecture, architectures, find};
pub use config::Config;
pub use error::ModelError;
pub use fit::fit;
pub use mapper::{Bound, Mapper, Transform};

use fiddlehead_checkpoint::Checkpoint;

/// Finds the architecture of a checkpoint and binds everything its program asks for.
///
/// # Errors
/// When the architecture is not known (the message lists those that are), the configuration lacks a value or holds a
/// senseless one, or a tensor is missing.
pub fn bind(checkpoint: &Checkpoint) -> Result<Bound, ModelError> {
    let config = Config::of(checkpoint);
    let architecture = find(&config)?;
    let mut mapper = Mapper::new(checkpoint, config);
    (architecture.map)(&mut mapper)?;
    Ok(mapper.finish(architecture))
}
