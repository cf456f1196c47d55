//! What can be wrong with a checkpoint: what happened, where, and what to do.

use std::path::PathBuf;

use crate::{gguf, safetensors};

/// Why a checkpoint cannot be opened or a tensor cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The system refused to open, inspect or map a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The path holds nothing that can be opened as a model.
    #[error("{}: {reason}", path.display())]
    NotAModel {
        /// The file or folder.
        path: PathBuf,
        /// What was found, and what to do.
        reason: String,
    },
    /// A file that a model needs beside its weights is missing.
    #[error("{place}: there is no {name}; {advice}")]
    MissingFile {
        /// The folder, or a word for the embedded model.
        place: String,
        /// The file that is missing.
        name: String,
        /// What to do.
        advice: &'static str,
    },
    /// A safetensors file that does not hold together.
    #[error("{}: {source}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong inside.
        source: safetensors::FileError,
    },
    /// A GGUF file that does not hold together.
    #[error("{}: {source}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong inside.
        source: gguf::FileError,
    },
    /// The parts of a GGUF model do not fit each other.
    #[error("{}: {reason}", path.display())]
    Split {
        /// The part.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A JSON file that cannot be read.
    #[error("{place}: {reason}")]
    Json {
        /// The file.
        place: String,
        /// What is wrong, with line and column where known.
        reason: String,
    },
    /// The index of a sharded model and its shards do not agree.
    #[error("{}: {reason}", path.display())]
    Index {
        /// The index file.
        path: PathBuf,
        /// What does not agree.
        reason: String,
    },
    /// No tensor has this name.
    #[error("the checkpoint has no tensor `{name}`{}", nearest.as_ref().map(|near| format!("; the nearest name is `{near}`")).unwrap_or_default())]
    NoSuchTensor {
        /// The name asked for.
        name: String,
        /// The name in the checkpoint that differs least, when one is close.
        nearest: Option<String>,
    },
    /// The tensor is there, but stored in a type that cannot be served.
    #[error(
        "{}: tensor `{name}` is stored as {stored_as}, which cannot be served; convert it to F32, F16 or BF16",
        path.display()
    )]
    UnservedType {
        /// The file that holds it.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The type's name in the file.
        stored_as: String,
    },
    /// Weights that must be copied on loading take more memory than there is.
    #[error(
        "tensor `{name}` must be copied on loading; with it copies take {wanted} bytes, and {most} are available"
    )]
    CopiesTooLarge {
        /// The tensor for which there is no room.
        name: String,
        /// Bytes of all copies up to it.
        wanted: u64,
        /// Bytes that they may take.
        most: u64,
    },
}
