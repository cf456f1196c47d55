//! What a GGUF file says about text and sampling, in the words that the other crates know.

use fiddlehead_checkpoint::gguf::{Metadata, Value};
use fiddlehead_text::{TextError, TokenKind, Tokenizer, TokenizerParts};
use serde_json::{Map, Value as Json, json};

/// Signs that end a turn in the models there are. Files name one or two ends and leave the others to the reader.
const TURN_ENDS: [&str; 6] =
    ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>"];

/// The tokenizer that a GGUF file holds in its metadata.
///
/// # Errors
/// When there is none, it is of a kind that is not known, or its parts do not fit each other.
pub fn tokenizer(metadata: &Metadata) -> Result<Tokenizer, TextError> {
    let model =
        text(metadata, "model").ok_or_else(|| bad("there is none; put its tokenizer.json beside it"))?;
    let numbers = |name: &str| array(metadata, name).into_iter().flat_map(|array| array.values());
    let kinds =
        numbers("token_type").map(|kind| kind.as_i64().and_then(TokenKind::from_id)).collect::<Option<_>>();
    let scores =
        numbers("scores").map(|score| score.as_f64().map(|score| score as f32)).collect::<Option<_>>();
    let parts = TokenizerParts {
        model,
        pre_tokenizer: text(metadata, "pre"),
        tokens: texts(metadata, "tokens")?,
        kinds: kinds.ok_or_else(|| bad("a token is of an unknown type"))?,
        merges: texts(metadata, "merges")?,
        scores: scores.ok_or_else(|| bad("a token's score is no number"))?,
        begin: id(metadata, "bos_token_id"),
        begins: get(metadata, "add_bos_token").and_then(Value::as_bool),
        unknown: id(metadata, "unknown_token_id"),
        space_prefix: get(metadata, "add_space_prefix").and_then(Value::as_bool).unwrap_or(true),
    };
    Tokenizer::from_parts(&parts)
}

/// As a `tokenizer_config.json` would say it: the templates and the texts of special tokens.
pub(crate) fn tokenizer_config(metadata: &Metadata) -> Json {
    let mut config = Map::new();
    let entry = |name: &str| {
        let id = id(metadata, &format!("{name}_token_id"))? as usize;
        let token = array(metadata, "tokens")?.texts()?.nth(id)?;
        Some(std::str::from_utf8(token).ok()?.to_owned())
    };
    for (name, key) in
        [("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token"), ("unknown", "unk_token")]
    {
        if let Some(token) = entry(name) {
            config.insert(key.to_owned(), token.into());
        }
    }
    let prefix = "tokenizer.chat_template";
    let named = metadata.iter().filter_map(|(key, value)| {
        let name = match key.strip_prefix(prefix)? {
            "" => "default",
            other => other.strip_prefix('.')?,
        };
        Some(json!({"name": name, "template": value.as_str()?}))
    });
    let templates: Vec<Json> = named.collect();
    if !templates.is_empty() {
        config.insert("chat_template".to_owned(), templates.into());
    }
    config.into()
}

/// As a `generation_config.json` would say it.
pub(crate) fn generation_config(metadata: &Metadata) -> Json {
    let mut config = Map::new();
    for (name, key) in [
        ("temp", "temperature"),
        ("top_k", "top_k"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("penalty_repeat", "repetition_penalty"),
    ] {
        let Some(value) = metadata.get(&format!("general.sampling.{name}")) else { continue };
        let number = match value.as_u64() {
            Some(whole) => Json::from(whole),
            None => value.as_f64().map_or_else(|| Json::from(value.to_string()), Json::from),
        };
        config.insert(key.to_owned(), number);
    }
    config.into()
}

/// The tokens that end an answer, ascending.
pub(crate) fn ends(metadata: &Metadata, tokenizer: &Tokenizer) -> Vec<u32> {
    let named =
        ["eos_token_id", "eot_token_id", "eom_token_id"].into_iter().filter_map(|key| id(metadata, key));
    let usual = TURN_ENDS.iter().filter_map(|end| tokenizer.token_id(end));
    let mut ends: Vec<u32> = named.chain(usual.filter(|&end| tokenizer.is_special(end))).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

fn get<'a>(metadata: &'a Metadata, name: &str) -> Option<&'a Value> {
    metadata.get(&format!("tokenizer.ggml.{name}"))
}

fn text<'a>(metadata: &'a Metadata, name: &str) -> Option<&'a str> {
    get(metadata, name).and_then(Value::as_str)
}

fn id(metadata: &Metadata, name: &str) -> Option<u32> {
    get(metadata, name).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok())
}

fn array<'a>(metadata: &'a Metadata, name: &str) -> Option<&'a fiddlehead_checkpoint::gguf::Array> {
    get(metadata, name).and_then(Value::as_array)
}

/// A list of texts; empty when there is none.
fn texts<'a>(metadata: &'a Metadata, name: &str) -> Result<Vec<&'a str>, TextError> {
    let Some(value) = get(metadata, name) else { return Ok(Vec::new()) };
    let texts = value.as_array().and_then(|array| array.texts());
    texts
        .ok_or_else(|| bad(format!("its {name} are no list of texts")))?
        .enumerate()
        .map(|(index, text)| {
            std::str::from_utf8(text).map_err(|_| bad(format!("entry {index} of its {name} is not UTF-8")))
        })
        .collect()
}

fn bad(reason: impl Into<String>) -> TextError {
    TextError::BadVocabulary { reason: reason.into() }
}
