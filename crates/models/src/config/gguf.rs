//! Reading the metadata of a GGUF file.

use fiddlehead_checkpoint::gguf::{Metadata, Value};

use super::{LARGEST, refuse};
use crate::error::ModelError;

const PLACE: &str = "the file's metadata";

/// The values about the model: those whose keys begin with the architecture's word. Keys are given without it.
#[derive(Clone, Copy, Debug)]
pub struct Gguf<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl<'a> Gguf<'a> {
    pub(super) fn of(metadata: &'a Metadata) -> Gguf<'a> {
        Gguf { metadata, architecture: metadata.architecture().unwrap_or_default() }
    }

    /// The architecture's word.
    pub fn architecture(&self) -> Result<&'a str, ModelError> {
        if self.architecture.is_empty() {
            return Err(ModelError::ConfigMissing {
                place: PLACE,
                key: "general.architecture".to_owned(),
                wanted: "a text",
            });
        }
        Ok(self.architecture)
    }

    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// A value that may be absent. The empty key is that of a value which GGUF files do not have.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        if key.is_empty() { None } else { self.metadata.get(&self.full(key)) }
    }

    fn require(&self, key: &str, wanted: &'static str) -> Result<&'a Value, ModelError> {
        self.get(key).ok_or_else(|| ModelError::ConfigMissing { place: PLACE, key: self.full(key), wanted })
    }

    /// An error about a value.
    pub fn senseless(&self, key: &str, wanted: impl Into<String>) -> ModelError {
        let found = self.get(key).map_or_else(|| "absent".to_owned(), ToString::to_string);
        refuse(PLACE, &self.full(key), found, wanted)
    }

    /// A whole number of at least 1. A list of one number again and again, once a layer, is that number.
    ///
    /// # Errors
    /// When it is missing or no such number.
    pub fn size(&self, key: &str) -> Result<usize, ModelError> {
        let value = self.require(key, "a whole number")?;
        let number = match value.as_array() {
            None => value.as_u64(),
            Some(list) => {
                let mut numbers = list.values().map(|value| value.as_u64());
                let first = numbers.next().flatten();
                first.filter(|_| numbers.all(|number| number == first))
            }
        };
        number.filter(|number| (1..=LARGEST).contains(number)).map(|number| number as usize).ok_or_else(
            || self.senseless(key, format!("a whole number from 1 to {LARGEST}, the same for all layers")),
        )
    }

    /// A finite number.
    ///
    /// # Errors
    /// When it is missing or no finite number.
    pub fn number(&self, key: &str) -> Result<f64, ModelError> {
        let value = self.require(key, "a number")?;
        value
            .as_f64()
            .filter(|number| number.is_finite())
            .ok_or_else(|| self.senseless(key, "a finite number"))
    }

    /// A finite number, with a value for when it is absent.
    ///
    /// # Errors
    /// When it is there and no finite number.
    pub fn number_or(&self, key: &str, absent: f64) -> Result<f64, ModelError> {
        if self.get(key).is_none() { Ok(absent) } else { self.number(key) }
    }

    /// A truth value.
    ///
    /// # Errors
    /// When it is missing or neither true nor false.
    pub fn flag(&self, key: &str) -> Result<bool, ModelError> {
        let value = self.require(key, "true or false")?;
        value.as_bool().ok_or_else(|| self.senseless(key, "true or false"))
    }

    /// A text that may be absent.
    ///
    /// # Errors
    /// When it is there and no text.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, ModelError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.senseless(key, "a text"))
    }

    /// A list of truth values of that length that may be absent, as may a list of another type.
    ///
    /// # Errors
    /// When it is a list of another length or type.
    pub fn flags(&self, key: &str, length: usize) -> Result<Option<Vec<bool>>, ModelError> {
        let Some(list) = self.get(key).and_then(Value::as_array) else { return Ok(None) };
        let flags = (list.len() == length).then(|| list.values().map(|value| value.as_bool()).collect());
        flags.flatten().map(Some).ok_or_else(|| {
            self.senseless(key, format!("a list of true and false for each of {length} layers"))
        })
    }
}
