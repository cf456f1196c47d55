//! Why a model cannot be quantised.

use std::path::PathBuf;

use fiddlehead_checkpoint::CheckpointError;
use fiddlehead_checkpoint::gguf::WriteError;
use fiddlehead_models::ModelError;
use fiddlehead_storage::{Format, StorageError};

/// A model cannot be quantised, or the file not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// A name that is no format and no mixture.
    #[error("`{name}` is no format; there are: {known}")]
    UnknownFormat {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// Not `PATTERN=FORMAT`.
    #[error("`{text}` is not PATTERN=FORMAT, such as `ffn_down=q6_k` or `blk.*.attn_v.weight=q8_0`")]
    BadOverride {
        /// The text.
        text: String,
    },
    /// An override that no tensor is meant by.
    #[error("no tensor's name fits `{pattern}`; `fiddlehead inspect` lists the names of a GGUF file")]
    UnusedOverride {
        /// The pattern.
        pattern: String,
    },
    /// The model cannot be described as a GGUF file.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's files.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The tokenizer cannot be said in the words of a GGUF file.
    #[error("the tokenizer cannot be written into a GGUF file: {why}")]
    Tokenizer {
        /// Why.
        why: String,
    },
    /// A tensor's values do not fit its format.
    #[error("tensor `{tensor}`: {source}{advice}")]
    Values {
        /// Its name in the file to be written.
        tensor: String,
        /// What is wrong.
        source: StorageError,
        /// What to do; begins with a separator, or is empty.
        advice: &'static str,
    },
    /// A tensor whose parts do not make its shape.
    #[error("tensor `{tensor}` has {found} rows where its shape {shape:?} has {wanted}")]
    Rows {
        /// Its name.
        tensor: String,
        /// Rows of its parts.
        found: usize,
        /// Rows of the shape.
        wanted: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The file is there already.
    #[error("{path} exists; give --force to replace it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file to write is one that is read.
    #[error("{path} belongs to the model that is read; give another name")]
    Same {
        /// The file.
        path: PathBuf,
    },
    /// Writing failed. Nothing is left of the file.
    #[error("{path} cannot be written: {source}{advice}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
        /// What to do; begins with a separator, or is empty.
        advice: String,
    },
    /// What should be written would be no valid file.
    #[error(transparent)]
    Gguf(#[from] WriteError),
    /// Somebody asked to stop. Nothing is left of the file.
    #[error("stopped; nothing was written")]
    Stopped,
}

/// Advice about values that a format cannot hold.
pub(crate) fn values(tensor: &str, format: Format, source: StorageError) -> QuantizeError {
    let advice = match &source {
        StorageError::Unstorable { value, .. } if value.parse::<f32>().is_ok_and(f32::is_finite) => {
            "; give this tensor another format with --tensor NAME=f32 or NAME=bf16"
        }
        StorageError::Unstorable { .. } if format != Format::F32 => {
            "; the model is damaged, or was trained into infinity: download it again"
        }
        _ => "",
    };
    QuantizeError::Values { tensor: tensor.to_owned(), source, advice }
}
