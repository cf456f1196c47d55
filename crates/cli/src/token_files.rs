//! Files of tokens: what `run --json` prints, one object or more.

use anyhow::{Result, anyhow};
use serde_json::{Deserializer, Value};

/// A prompt and the tokens that followed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Tokens that are given.
    pub prompt: Vec<u32>,
    /// Tokens after them.
    pub tokens: Vec<u32>,
}

/// The sequences of a text: JSON objects with the keys `prompt_tokens` (absent: none) and `tokens`, one after the other
/// or in lists.
///
/// # Errors
/// What is no JSON or not of that shape, with its place.
pub fn sequences(text: &str) -> Result<Vec<Sequence>> {
    let mut found = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        match value.map_err(|error| anyhow!("it is no JSON: {error}"))? {
            Value::Array(values) => {
                for value in &values {
                    found.push(sequence(value, found.len())?);
                }
            }
            value => found.push(sequence(&value, found.len())?),
        }
    }
    Ok(found)
}

fn sequence(value: &Value, place: usize) -> Result<Sequence> {
    let number = place + 1;
    if !value.is_object() {
        return Err(anyhow!("sequence {number} is no object with the keys `prompt_tokens` and `tokens`"));
    }
    let tokens = |key: &str| {
        let bad = || anyhow!("`{key}` of sequence {number} is no list of tokens");
        match value.get(key) {
            None if key == "tokens" => Err(anyhow!("sequence {number} has no `tokens`")),
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => {
                let token = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
                values.iter().map(|value| token(value).ok_or_else(bad)).collect()
            }
            Some(_) => Err(bad()),
        }
    };
    Ok(Sequence { prompt: tokens("prompt_tokens")?, tokens: tokens("tokens")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_several_and_lists() {
        let one = Sequence { prompt: vec![1, 2], tokens: vec![3] };
        let other = Sequence { prompt: vec![], tokens: vec![4, 5] };
        let (a, b) =
            ("{\"prompt_tokens\": [1, 2], \"tokens\": [3], \"text\": \"x\"}", "{\"tokens\": [4, 5]}");
        for text in [format!("{a}\n{b}\n"), format!("[{a}, {b}]"), format!("{a}[{b}]")] {
            assert_eq!(sequences(&text).expect("sequences"), [one.clone(), other.clone()]);
        }
        assert_eq!(sequences(" \n").expect("none"), []);
    }

    #[test]
    fn what_holds_no_tokens() {
        for (text, words) in [
            ("{\"tokens\": [1]", "no JSON"),
            ("5", "sequence 1 is no object"),
            ("[{\"tokens\": [1]}, [2]]", "sequence 2 is no object"),
            ("{\"prompt_tokens\": [1]}", "sequence 1 has no `tokens`"),
            ("{\"tokens\": \"abc\"}", "`tokens` of sequence 1"),
            ("{\"tokens\": [1.5]}", "`tokens` of sequence 1"),
            ("{\"tokens\": [1], \"prompt_tokens\": [-1]}", "`prompt_tokens` of sequence 1"),
            ("{\"tokens\": [4294967296]}", "`tokens` of sequence 1"),
        ] {
            let error = sequences(text).expect_err("refused").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
