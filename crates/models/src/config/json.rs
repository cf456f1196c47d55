//! Reading `config.json`.

use serde_json::Value;

use super::{LARGEST, refuse};
use crate::error::ModelError;

const PLACE: &str = "config.json";

/// The configuration of the text model: `text_config` where there is one (published multimodal folders nest it),
/// else the whole file.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a> {
    value: &'a Value,
}

impl<'a> Json<'a> {
    /// The text model's part of a whole file.
    pub(crate) fn of(whole: &'a Value) -> Json<'a> {
        Json { value: whole.get("text_config").filter(|inner| inner.is_object()).unwrap_or(whole) }
    }

    /// A value that may be absent; `null` counts as absent. `key` may be a path with dots.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        key.split('.').try_fold(self.value, |value, part| value.get(part)).filter(|value| !value.is_null())
    }

    fn require(&self, key: &str, wanted: &'static str) -> Result<&'a Value, ModelError> {
        self.get(key).ok_or_else(|| ModelError::ConfigMissing { place: PLACE, key: key.to_owned(), wanted })
    }

    fn refuse(&self, key: &str, value: &Value, wanted: impl Into<String>) -> ModelError {
        refuse(PLACE, key, value.to_string(), wanted)
    }

    /// An error about a value that was read.
    pub fn senseless(&self, key: &str, wanted: impl Into<String>) -> ModelError {
        self.refuse(key, self.get(key).unwrap_or(&Value::Null), wanted)
    }

    /// A whole number of at least 1.
    ///
    /// # Errors
    /// When it is missing or no such number.
    pub fn size(&self, key: &str) -> Result<usize, ModelError> {
        let value = self.require(key, "a whole number")?;
        match value.as_u64() {
            Some(number) if (1..=LARGEST).contains(&number) => Ok(number as usize),
            _ => Err(self.refuse(key, value, format!("a whole number from 1 to {LARGEST}"))),
        }
    }

    /// As [`Json::size`], with a value for when it is absent.
    ///
    /// # Errors
    /// When it is there and no such number.
    pub fn size_or(&self, key: &str, absent: usize) -> Result<usize, ModelError> {
        if self.get(key).is_none() { Ok(absent) } else { self.size(key) }
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
            .ok_or_else(|| self.refuse(key, value, "a finite number"))
    }

    /// As [`Json::number`], with a value for when it is absent.
    ///
    /// # Errors
    /// When it is there and no finite number.
    pub fn number_or(&self, key: &str, absent: f64) -> Result<f64, ModelError> {
        if self.get(key).is_none() { Ok(absent) } else { self.number(key) }
    }

    /// A truth value, with a value for when it is absent.
    ///
    /// # Errors
    /// When it is there and neither true nor false.
    pub fn flag_or(&self, key: &str, absent: bool) -> Result<bool, ModelError> {
        match self.get(key) {
            None => Ok(absent),
            Some(value) => value.as_bool().ok_or_else(|| self.refuse(key, value, "true or false")),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// When it is missing or no text.
    pub fn text(&self, key: &str) -> Result<&'a str, ModelError> {
        let value = self.require(key, "a text")?;
        value.as_str().ok_or_else(|| self.refuse(key, value, "a text"))
    }

    /// A list of texts that may be absent.
    ///
    /// # Errors
    /// When it is there and no list of texts.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>, ModelError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value
            .as_array()
            .and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>())
            .map(Some)
            .ok_or_else(|| self.refuse(key, value, "a list of texts"))
    }
}
