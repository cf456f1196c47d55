//! What a checkpoint says about its model, in the words of either kind of file, with errors that name the key.

mod gguf;
mod json;

use fiddlehead_checkpoint::{Checkpoint, Description};

use crate::error::ModelError;

pub use gguf::Gguf;
pub use json::Json;

/// Sizes above this are refused: no array that a file can hold has such an extent.
const LARGEST: u64 = i32::MAX as u64;

/// A value's name in each kind of file; empty where that kind does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// In `config.json`; a path with dots.
    pub json: &'static str,
    /// In the metadata of a GGUF file, without the architecture's word before it.
    pub gguf: &'static str,
}

/// A key by its two names.
pub const fn key(json: &'static str, gguf: &'static str) -> Key {
    Key { json, gguf }
}

/// The configuration of the text model.
#[derive(Clone, Copy, Debug)]
pub enum Config<'a> {
    /// `config.json`.
    Json(Json<'a>),
    /// The metadata of a GGUF file.
    Gguf(Gguf<'a>),
}

impl<'a> Config<'a> {
    /// The text model's configuration in a checkpoint.
    pub fn of(checkpoint: &'a Checkpoint) -> Config<'a> {
        match checkpoint.description() {
            Description::HuggingFace { config, .. } => Config::Json(Json::of(config)),
            Description::Gguf(metadata) => Config::Gguf(Gguf::of(metadata)),
        }
    }

    /// The file's word for its architecture.
    ///
    /// # Errors
    /// When there is none.
    pub fn architecture(&self) -> Result<&'a str, ModelError> {
        match self {
            Config::Json(json) => json.text("model_type"),
            Config::Gguf(gguf) => gguf.architecture(),
        }
    }

    /// Whether a value is there.
    pub fn has(&self, key: Key) -> bool {
        match self {
            Config::Json(json) => json.get(key.json).is_some(),
            Config::Gguf(gguf) => gguf.get(key.gguf).is_some(),
        }
    }

    /// An error about a value.
    pub fn senseless(&self, key: Key, wanted: impl Into<String>) -> ModelError {
        match self {
            Config::Json(json) => json.senseless(key.json, wanted),
            Config::Gguf(gguf) => gguf.senseless(key.gguf, wanted),
        }
    }

    /// A whole number of at least 1.
    ///
    /// # Errors
    /// When it is missing or no such number.
    pub fn size(&self, key: Key) -> Result<usize, ModelError> {
        match self {
            Config::Json(json) => json.size(key.json),
            Config::Gguf(gguf) => gguf.size(key.gguf),
        }
    }

    /// As [`Config::size`], with a value for when it is absent.
    ///
    /// # Errors
    /// When it is there and no such number.
    pub fn size_or(&self, key: Key, absent: usize) -> Result<usize, ModelError> {
        if self.has(key) { self.size(key) } else { Ok(absent) }
    }

    /// A finite number, with a value for when it is absent.
    ///
    /// # Errors
    /// When it is there and no finite number.
    pub fn number_or(&self, key: Key, absent: f64) -> Result<f64, ModelError> {
        match self {
            _ if !self.has(key) => Ok(absent),
            Config::Json(json) => json.number(key.json),
            Config::Gguf(gguf) => gguf.number(key.gguf),
        }
    }

    /// A truth value, with a value for when it is absent.
    ///
    /// # Errors
    /// When it is there and neither true nor false.
    pub fn flag_or(&self, key: Key, absent: bool) -> Result<bool, ModelError> {
        match self {
            _ if !self.has(key) => Ok(absent),
            Config::Json(json) => json.flag_or(key.json, absent),
            Config::Gguf(gguf) => gguf.flag(key.gguf),
        }
    }
}

fn refuse(place: &'static str, key: &str, mut found: String, wanted: impl Into<String>) -> ModelError {
    if found.chars().count() > 80 {
        found = found.chars().take(77).chain("...".chars()).collect();
    }
    ModelError::ConfigValue { place, key: key.to_owned(), found, wanted: wanted.into() }
}
