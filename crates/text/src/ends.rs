//! The tokens that end an answer.

use serde_json::Value;

use crate::Tokenizer;

/// The ids that end generation, sorted, each once: those of `generation_config.json` (`eos_token_id`, a number or a
/// list), with the tokenizer's own `eos_token` (`tokenizer_config.json`) added, since chat models often name the end of
/// a turn only there. `config.json` is asked when neither says anything.
pub fn end_tokens(
    tokenizer: &Tokenizer,
    generation_config: Option<&Value>,
    tokenizer_config: Option<&Value>,
    config: &Value,
) -> Vec<u32> {
    let mut ends = generation_config.map(ids).unwrap_or_default();
    let token = tokenizer_config.and_then(|config| token_text(&config["eos_token"]));
    ends.extend(token.and_then(|token| tokenizer.token_id(token)));
    if ends.is_empty() {
        ends = ids(config);
        ends.extend(ids(&config["text_config"]));
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// A token in a configuration: its text, or an object that holds it.
pub(crate) fn token_text(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token["content"].as_str())
}

fn ids(config: &Value) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match &config["eos_token_id"] {
        Value::Array(list) => list.iter().filter_map(id).collect(),
        one => id(one).into_iter().collect(),
    }
}
