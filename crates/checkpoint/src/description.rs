//! What a checkpoint says about its model, apart from the weights.

use serde_json::Value;

use crate::gguf::Metadata;

/// The description that comes with the weights; each kind of file has its own words, and whoever reads it knows both.
#[derive(Debug, Clone)]
pub enum Description {
    /// Of a safetensors model: JSON files beside the weights.
    HuggingFace {
        /// `config.json`, a JSON object.
        config: Value,
        /// `generation_config.json`, a JSON object, when there is one.
        generation_config: Option<Value>,
    },
    /// Of a GGUF model: the metadata within its (first) file.
    Gguf(Metadata),
}
