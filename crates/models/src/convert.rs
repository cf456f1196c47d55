//! A model of Hugging Face's files in the words of GGUF files: what each tensor is called there, in which order its rows
//! and columns lie, what is done to its values, and what the metadata says about the model.
//!
//! Nothing is read but small tensors; a tensor is described by pieces of the checkpoint's, and whoever writes the file
//! reads them one after another. A checkpoint with a tensor that no place is known for, or with a configuration that GGUF
//! files have no words for, is refused: a file that says something else than the model would answer wrongly.
//!
//! Source: the keys and tensor names of GGUF's architectures as their files have them; `models/tiny` of the test fixtures
//! holds a file of each, made by llama.cpp's own converter, which the tests compare with.

mod dense;
mod experts;
mod hybrid;
mod writing;

use std::sync::Arc;

use fiddlehead_checkpoint::gguf::Metadata;
use fiddlehead_checkpoint::{Checkpoint, Description};
use fiddlehead_storage::Tensor;

use crate::architecture::find;
use crate::config::{Config, Json};
use crate::error::ModelError;
use crate::names::Transform;
use writing::Writing;

/// A model as a GGUF file would have it.
#[derive(Debug)]
pub struct Converted {
    /// `general.architecture` and the architecture's own values; nothing about the tokenizer.
    pub metadata: Metadata,
    /// The tensors, in no particular order.
    pub tensors: Vec<ConvertedTensor>,
}

/// Some rows or columns in an order of their own, by their places in the source.
pub type Order = Arc<[u32]>;

/// A tensor of the file.
#[derive(Clone, Debug)]
pub struct ConvertedTensor {
    /// Its name there.
    pub name: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Its rows, one piece behind the other.
    pub pieces: Vec<Piece>,
    /// The order of a row's values; as they are when `None`.
    pub columns: Option<Order>,
    /// What is done to the values.
    pub transform: Transform,
}

/// Rows of a tensor of the checkpoint.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Its name in the checkpoint, for messages.
    pub source: String,
    /// The tensor.
    pub tensor: Tensor,
    /// Which rows, in which order; all as they are when `None`.
    pub rows: Option<Order>,
}

impl Piece {
    /// How many rows it gives.
    pub fn count(&self) -> usize {
        self.rows.as_ref().map_or_else(|| self.tensor.rows(), |rows| rows.len())
    }
}

/// What a GGUF file of a checkpoint would hold. The tensors of one that is a GGUF file already are as they are, and so is
/// its metadata.
///
/// # Errors
/// When the architecture is not known, a tensor is missing, left over, stored in a type that cannot be read, or of a
/// wrong shape, or the configuration says what GGUF files cannot.
pub fn convert(checkpoint: &Checkpoint) -> Result<Converted, ModelError> {
    match checkpoint.description() {
        Description::Gguf(metadata) => as_it_is(checkpoint, metadata),
        Description::HuggingFace { config, .. } => {
            let json = Json::of(config);
            let architecture = find(&Config::Json(json))?;
            // Mistral alone has no word of its own.
            let gguf = architecture.gguf_names.first().copied().unwrap_or("llama");
            let mut writing = Writing::new(checkpoint, json, gguf);
            match architecture.name {
                "llama" => dense::llama(&mut writing)?,
                "mistral" => dense::mistral(&mut writing)?,
                "qwen2" => dense::qwen2(&mut writing)?,
                "qwen3" => dense::qwen3(&mut writing)?,
                "qwen3_moe" => dense::qwen3_moe(&mut writing)?,
                "gemma3" => dense::gemma3(&mut writing)?,
                "qwen3_5" => hybrid::qwen3_5(&mut writing, false)?,
                "qwen3_5_moe" => hybrid::qwen3_5(&mut writing, true)?,
                "qwen3_next" => hybrid::qwen3_next(&mut writing)?,
                name => {
                    let why = format!("models of `{name}` cannot be written as GGUF files");
                    return Err(ModelError::Inconvertible { why });
                }
            }
            writing.finish(architecture.name)
        }
    }
}

fn as_it_is(checkpoint: &Checkpoint, metadata: &Metadata) -> Result<Converted, ModelError> {
    if let Some(name) = checkpoint.unserved().keys().next() {
        checkpoint.tensor(name)?;
    }
    let tensors = checkpoint.tensors().iter().map(|(name, tensor)| ConvertedTensor {
        name: name.clone(),
        shape: tensor.shape().to_vec(),
        pieces: vec![Piece { source: name.clone(), tensor: tensor.clone(), rows: None }],
        columns: None,
        transform: Transform::None,
    });
    Ok(Converted { metadata: metadata.clone(), tensors: tensors.collect() })
}
