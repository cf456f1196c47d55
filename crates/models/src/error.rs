//! Why a checkpoint cannot be served by a program.

use fiddlehead_checkpoint::CheckpointError;

/// A checkpoint does not fit any program, or not the one of its architecture.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No program for this architecture.
    #[error("the architecture `{name}` is not known; known are: {known}")]
    UnknownArchitecture {
        /// The file's word for it.
        name: String,
        /// Names of all architectures.
        known: String,
    },
    /// The configuration lacks a value.
    #[error("{place} has no `{key}` ({wanted} is wanted)")]
    ConfigMissing {
        /// `config.json`, or the metadata.
        place: &'static str,
        /// The key.
        key: String,
        /// What kind of value.
        wanted: &'static str,
    },
    /// A value of the configuration is of the wrong kind or senseless.
    #[error("{place}: `{key}` is {found}; {wanted} is wanted")]
    ConfigValue {
        /// `config.json`, or the metadata.
        place: &'static str,
        /// The key.
        key: String,
        /// The value as text.
        found: String,
        /// What kind of value.
        wanted: String,
    },
    /// A tensor is missing or unreadable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A tensor's shape is not what the program declares.
    #[error(
        "tensor `{tensor}` has shape {found:?}; with this configuration `{param}` of the program has {wanted:?}"
    )]
    Shape {
        /// Its name in the checkpoint.
        tensor: String,
        /// The weight's path in the program.
        param: String,
        /// Its shape there.
        found: Vec<usize>,
        /// The declared shape.
        wanted: Vec<usize>,
    },
    /// A tensor of a layer that the program has no weight for: without it the answers would be wrong.
    #[error("tensor `{tensor}` belongs to a layer, and the program of `{architecture}` has no place for it")]
    Unused {
        /// Its name in the checkpoint.
        tensor: String,
        /// The architecture.
        architecture: &'static str,
    },
    /// A weight has no source.
    #[error(
        "the program's weight `{param}` is bound to no tensor: a fault of the mapping of `{architecture}`"
    )]
    Unbound {
        /// The weight's path in the program.
        param: String,
        /// The architecture.
        architecture: &'static str,
    },
    /// A tensor could not be read for a change that its values need.
    #[error("tensor `{tensor}`: {why}")]
    Values {
        /// Its name in the checkpoint.
        tensor: String,
        /// What went wrong.
        why: String,
    },
    /// The checkpoint's kind of model has no words in GGUF files.
    #[error("{why}")]
    Inconvertible {
        /// What cannot be said.
        why: String,
    },
}
