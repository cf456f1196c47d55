//! What a model says itself about generation.

use serde_json::Value;

use crate::{EngineError, Sampling, SamplingError};

/// Values of `generation_config.json`; `None` where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Defaults {
    /// `temperature`; 0 when `do_sample` is false.
    pub temperature: Option<f32>,
    /// `top_k`.
    pub top_k: Option<usize>,
    /// `top_p`.
    pub top_p: Option<f32>,
    /// `min_p`.
    pub min_p: Option<f32>,
    /// `repetition_penalty`.
    pub repetition_penalty: Option<f32>,
}

impl Defaults {
    /// Reads them; `place` names the file in messages. `null` counts as absent.
    ///
    /// # Errors
    /// [`EngineError::Defaults`] when a value is of the wrong kind or out of its range.
    pub fn from_json(config: &Value, place: &str) -> Result<Defaults, EngineError> {
        let refuse = |key: &'static str, wanted: &'static str| EngineError::Defaults {
            place: place.to_owned(),
            key,
            found: config[key].to_string(),
            wanted,
        };
        let number = |key: &'static str| match &config[key] {
            Value::Null => Ok(None),
            value => match value.as_f64() {
                Some(number) => Ok(Some(number as f32)),
                None => Err(refuse(key, "a number")),
            },
        };
        let top_k = match &config["top_k"] {
            Value::Null => None,
            value => Some(value.as_u64().ok_or_else(|| refuse("top_k", "a whole number"))? as usize),
        };
        let greedy = match &config["do_sample"] {
            Value::Null | Value::Bool(true) => false,
            Value::Bool(false) => true,
            _ => return Err(refuse("do_sample", "true or false")),
        };
        let defaults = Defaults {
            temperature: if greedy { Some(0.0) } else { number("temperature")? },
            top_k,
            top_p: number("top_p")?,
            min_p: number("min_p")?,
            repetition_penalty: number("repetition_penalty")?,
        };
        match defaults.sampling().check() {
            Err(SamplingError::Parameter { name, allowed, .. }) => Err(refuse(name, allowed)),
            _ => Ok(defaults),
        }
    }

    /// Sampling with these values. A model that names any of them gets neutral values for the others; one that names
    /// none gets [`Sampling::default`].
    pub fn sampling(&self) -> Sampling {
        if *self == Defaults::default() {
            return Sampling::default();
        }
        Sampling {
            temperature: self.temperature.unwrap_or(1.0),
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            ..Sampling::GREEDY
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_and_checked() {
        let read = |config: Value| Defaults::from_json(&config, "generation_config.json");
        let found = read(json!({ "do_sample": true, "temperature": 0.7, "min_p": 0.05, "top_k": null }));
        let wanted = Sampling { temperature: 0.7, min_p: 0.05, ..Sampling::GREEDY };
        assert_eq!(found.expect("valid").sampling(), wanted);
        assert_eq!(read(json!({})).expect("valid").sampling(), Sampling::default());
        assert_eq!(read(json!({ "do_sample": false })).expect("valid").sampling(), Sampling::GREEDY);
        for bad in [json!({ "temperature": "hot" }), json!({ "top_p": 3 }), json!({ "top_k": -1 })] {
            assert!(matches!(read(bad), Err(EngineError::Defaults { .. })));
        }
    }
}
