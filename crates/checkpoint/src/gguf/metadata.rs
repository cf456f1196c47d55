//! A file's metadata: values by key, in the order of the file.

use std::collections::HashMap;

use super::Value;

/// What a GGUF file says about itself. Keys are unique and keep their order.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    places: HashMap<String, usize>,
}

impl Metadata {
    /// A value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.places.get(key).and_then(|&place| self.entries.get(place)).map(|(_, value)| value)
    }

    /// Puts a value under a key, in the place of an earlier one.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.places.get(&key).and_then(|&place| self.entries.get_mut(place)) {
            Some(entry) => entry.1 = value,
            None => {
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }

    /// All values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// `general.architecture`: the word that begins the keys about the model.
    pub fn architecture(&self) -> Option<&str> {
        self.get("general.architecture").and_then(Value::as_str)
    }
}
