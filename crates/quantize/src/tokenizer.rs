//! The tokenizer of a `tokenizer.json` in the words of GGUF files (`tokenizer.ggml.*`).
//!
//! GGUF files have names for the ways to split a text into words, where a `tokenizer.json` spells the way out. The name is
//! found by trying: a tokenizer is made of the parts as they would be written, with each name, and the one is taken that
//! gives the tokens of the original on texts which the ways differ on. When none does, the model is refused.

use std::collections::BTreeMap;

use fiddlehead_checkpoint::Companions;
use fiddlehead_checkpoint::gguf::Metadata;
use fiddlehead_text::{Specials, TokenKind, Tokenizer, TokenizerParts};
use serde_json::Value;

use crate::QuantizeError;

/// Ways to split, by their names in GGUF files. Those that say less come first: where a vocabulary makes no difference
/// between two, either is right.
const WAYS: [&str; 5] = ["smollm", "gpt-2", "qwen2", "qwen35", "llama-bpe"];

/// Texts that every two ways differ on, given a vocabulary that has the words.
const PROBES: [&str; 4] = [
    "It's 1234567890 things, I'LL go\n\n on!  (really)...\r\n\tand\u{a0}on \u{3000}",
    "Ça va? naïve e\u{301}tudes ÜBER straße; Привет, мир! Ελληνικά 12 345,67 ½ ²",
    "हिन्दी में लिखें। ภาษาไทย ครับ العربيّة مرحبًا 你好，世界！こんにちは 한국어 🙂🏽👩‍👩‍👧",
    "fn main() { let x = vec![1, 2]; } // ok\n    return self.__init__(**kw);\n\n\n#include <a.h> != == -> http://a.b/c?d=e&f=g",
];

fn refuse(why: impl Into<String>) -> QuantizeError {
    QuantizeError::Tokenizer { why: why.into() }
}

/// What a `tokenizer.json` holds.
struct Original {
    /// Entry and kind by id; ids up to the embedding's rows that no token has are unused.
    tokens: Vec<(String, TokenKind)>,
    merges: Vec<(String, String)>,
    /// SentencePiece's kind: bytes have tokens of their own, spaces are written `▁`.
    pieces: bool,
    space_prefix: bool,
    unknown: Option<u32>,
}

/// Writes tokenizer, templates and sampling defaults of a model's small files.
///
/// # Errors
/// When files are missing or malformed, or GGUF files have no words for the tokenizer.
pub(crate) fn write(
    metadata: &mut Metadata,
    files: &Companions,
    config: &Value,
    generation: Option<&Value>,
    vocabulary: usize,
) -> Result<(), QuantizeError> {
    let advice = "a GGUF file holds its tokenizer; download the whole folder";
    let json = files.require("tokenizer.json", advice)?;
    let tokenizer = Tokenizer::from_json(&json).map_err(|error| refuse(error.to_string()))?;
    let whole: Value = serde_json::from_slice(&json).map_err(|error| refuse(error.to_string()))?;
    let original = read(&whole, vocabulary)?;
    let settings = files.read_object("tokenizer_config.json")?.unwrap_or(Value::Null);
    let special = |name: &str| {
        let token = &settings[name];
        let text = token.as_str().or_else(|| token["content"].as_str());
        text.and_then(|text| tokenizer.token_id(text))
    };
    let listed = |key: &str| -> Vec<u32> {
        let sources = generation.into_iter().chain([config, &config["text_config"]]);
        let found = sources.map(|source| &source[key]).find(|value| !value.is_null());
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        match found {
            Some(Value::Array(list)) => list.iter().filter_map(id).collect(),
            Some(one) => id(one).into_iter().collect(),
            None => Vec::new(),
        }
    };
    let begin = special("bos_token").or_else(|| listed("bos_token_id").first().copied());
    let begins = begin.is_some_and(|begin| {
        let tokens = tokenizer.encode_prompt("a", Specials::Literal);
        tokens.is_ok_and(|tokens| tokens.first() == Some(&begin))
    });
    write_vocabulary(metadata, &original, &tokenizer, begin, begins)?;
    let ends = listed("eos_token_id");
    let end = special("eos_token").or_else(|| ends.first().copied());
    let other_end = ends.iter().copied().find(|other| Some(*other) != end);
    for (key, id) in [
        ("bos_token_id", begin),
        ("eos_token_id", end),
        ("eot_token_id", other_end),
        ("unknown_token_id", original.unknown),
        ("padding_token_id", special("pad_token").or_else(|| listed("pad_token_id").first().copied())),
    ] {
        if let Some(id) = id.filter(|&id| (id as usize) < original.tokens.len()) {
            metadata.set(format!("tokenizer.ggml.{key}"), id);
        }
    }
    metadata.set("tokenizer.ggml.add_bos_token", begins);
    if original.pieces {
        metadata.set("tokenizer.ggml.add_space_prefix", original.space_prefix);
    }
    write_templates(metadata, files, &settings)?;
    if let Some(generation) = generation {
        write_sampling(metadata, generation);
    }
    Ok(())
}

fn read(whole: &Value, vocabulary: usize) -> Result<Original, QuantizeError> {
    let model = &whole["model"];
    let kind = model["type"].as_str().unwrap_or("BPE");
    if kind != "BPE" {
        return Err(refuse(format!("its model is `{kind}`; BPE can be written")));
    }
    let pieces = model["byte_fallback"].as_bool().unwrap_or(false);
    let entries = model["vocab"].as_object().ok_or_else(|| refuse("it has no vocabulary"))?;
    let mut tokens: Vec<Option<(String, TokenKind)>> = vec![None; vocabulary];
    let mut put = |id: &Value, text: &str, kind: TokenKind| -> Result<(), QuantizeError> {
        let place = id.as_u64().and_then(|id| usize::try_from(id).ok());
        let place = place.and_then(|id| tokens.get_mut(id)).ok_or_else(|| {
            refuse(format!("its token {id} is past the {vocabulary} rows of the embedding"))
        })?;
        *place = Some((text.to_owned(), kind));
        Ok(())
    };
    let unknown_text = model["unk_token"].as_str();
    for (text, id) in entries {
        let kind = match text.as_str() {
            text if Some(text) == unknown_text => TokenKind::Unknown,
            text if pieces && is_byte(text) => TokenKind::Byte,
            _ => TokenKind::Normal,
        };
        put(id, text, kind)?;
    }
    for added in whole["added_tokens"].as_array().into_iter().flatten() {
        let text = added["content"].as_str().unwrap_or_default();
        let special = added["special"].as_bool().unwrap_or(false);
        let kind = match special {
            _ if Some(text) == unknown_text => TokenKind::Unknown,
            true => TokenKind::Control,
            false => TokenKind::UserDefined,
        };
        put(&added["id"], text, kind)?;
    }
    let unknown = unknown_text.and_then(|text| entries.get(text)?.as_u64()).map(|id| id as u32);
    let filled = tokens.into_iter().enumerate();
    Ok(Original {
        tokens: filled
            .map(|(id, token)| token.unwrap_or_else(|| (format!("[PAD{id}]"), TokenKind::Unused)))
            .collect(),
        merges: merges(&model["merges"])?,
        pieces,
        space_prefix: prepends_space(whole),
        unknown,
    })
}

/// Pairs, which files write as one text with a space or as a list of two.
fn merges(list: &Value) -> Result<Vec<(String, String)>, QuantizeError> {
    let pair = |merge: &Value| match merge {
        Value::String(text) => text.split_once(' ').map(|(left, right)| (left.to_owned(), right.to_owned())),
        Value::Array(parts) => match &parts[..] {
            [left, right] => Some((left.as_str()?.to_owned(), right.as_str()?.to_owned())),
            _ => None,
        },
        _ => None,
    };
    let merges: Option<_> = list.as_array().into_iter().flatten().map(pair).collect();
    merges.ok_or_else(|| refuse("a merge is not two entries"))
}

fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|text| text.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}

/// Whether the file puts a space before a text, in its normaliser or its pre-tokenizer.
fn prepends_space(whole: &Value) -> bool {
    let steps = |part: &Value, list: &str| -> Vec<Value> {
        part[list].as_array().cloned().unwrap_or_else(|| vec![part.clone()])
    };
    let normalisers = steps(&whole["normalizer"], "normalizers");
    let splitters = steps(&whole["pre_tokenizer"], "pretokenizers");
    normalisers.iter().any(|step| step["type"] == "Prepend")
        || splitters.iter().any(|step| {
            step["type"] == "Metaspace"
                && step["prepend_scheme"]
                    .as_str()
                    .map_or(step["add_prefix_space"] == true, |scheme| scheme != "never")
        })
}

/// Writes the vocabulary once a tokenizer of it is known to give the original's tokens.
fn write_vocabulary(
    metadata: &mut Metadata,
    original: &Original,
    tokenizer: &Tokenizer,
    begin: Option<u32>,
    begins: bool,
) -> Result<(), QuantizeError> {
    let kinds: Vec<TokenKind> = original.tokens.iter().map(|(_, kind)| *kind).collect();
    let joined: Vec<String>;
    let mut parts = TokenizerParts {
        model: "llama",
        tokens: original.tokens.iter().map(|(text, _)| text.as_str()).collect(),
        kinds,
        begin,
        begins: Some(begins),
        unknown: original.unknown,
        space_prefix: original.space_prefix,
        ..TokenizerParts::default()
    };
    let ways: &[Option<&str>] = if original.pieces {
        parts.scores = scores(original);
        &[None]
    } else {
        joined = original.merges.iter().map(|(left, right)| format!("{left} {right}")).collect();
        parts.model = "gpt2";
        parts.merges = joined.iter().map(String::as_str).collect();
        &WAYS.map(Some)
    };
    let mut found = None;
    for way in ways {
        parts.pre_tokenizer = *way;
        if Tokenizer::from_parts(&parts).is_ok_and(|made| same_tokens(tokenizer, &made)) {
            found = Some(*way);
            break;
        }
    }
    let Some(way) = found else {
        return Err(refuse(format!(
            "none of the ways to split a text that GGUF files have names for ({}) gives the tokens of tokenizer.json",
            if original.pieces { "SentencePiece's".to_owned() } else { WAYS.join(", ") }
        )));
    };
    metadata.set("tokenizer.ggml.model", parts.model);
    metadata.set("tokenizer.ggml.pre", way.unwrap_or("default"));
    metadata.set("tokenizer.ggml.tokens", &parts.tokens[..]);
    let kinds: Vec<i32> = parts.kinds.iter().map(|&kind| number(kind)).collect();
    metadata.set("tokenizer.ggml.token_type", &kinds[..]);
    if original.pieces {
        metadata.set("tokenizer.ggml.scores", &parts.scores[..]);
    } else {
        metadata.set("tokenizer.ggml.merges", &parts.merges[..]);
    }
    Ok(())
}

fn same_tokens(original: &Tokenizer, made: &Tokenizer) -> bool {
    PROBES.iter().all(|probe| {
        let tokens = |tokenizer: &Tokenizer| tokenizer.encode_prompt(probe, Specials::Literal).ok();
        tokens(original).is_some_and(|tokens_there| tokens(made) == Some(tokens_there))
    })
}

/// A kind's number in SentencePiece's and GGUF's files.
fn number(kind: TokenKind) -> i32 {
    (1..=6).find(|&id| TokenKind::from_id(i64::from(id)) == Some(kind)).unwrap_or(1)
}

/// A score for every token, so that pieces are put together in the order of the merges: the earlier, the higher.
fn scores(original: &Original) -> Vec<f32> {
    let mut ranks: BTreeMap<String, usize> = BTreeMap::new();
    for (left, right) in &original.merges {
        let next = ranks.len();
        ranks.entry(format!("{left}{right}")).or_insert(next);
    }
    let last = ranks.len();
    original
        .tokens
        .iter()
        .map(|(text, kind)| match kind {
            TokenKind::Normal => -(ranks.get(text).copied().unwrap_or(last) as f32),
            _ => 0.0,
        })
        .collect()
}

/// The chat templates: one, or several by name.
fn write_templates(
    metadata: &mut Metadata,
    files: &Companions,
    settings: &Value,
) -> Result<(), QuantizeError> {
    const KEY: &str = "tokenizer.chat_template";
    let file = files.read("chat_template.jinja")?;
    if let Some(text) = file.as_deref().map(String::from_utf8_lossy) {
        metadata.set(KEY, &*text);
        return Ok(());
    }
    match &settings["chat_template"] {
        Value::String(text) => metadata.set(KEY, text.as_str()),
        Value::Array(named) => {
            for template in named {
                let (Some(name), Some(text)) = (template["name"].as_str(), template["template"].as_str())
                else {
                    continue;
                };
                let key = if name == "default" { KEY.to_owned() } else { format!("{KEY}.{name}") };
                metadata.set(key, text);
            }
        }
        _ => {}
    }
    Ok(())
}

/// The sampling that the model's `generation_config.json` recommends.
fn write_sampling(metadata: &mut Metadata, generation: &Value) {
    for (key, name) in [
        ("temperature", "temp"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("repetition_penalty", "penalty_repeat"),
    ] {
        if let Some(value) = generation[key].as_f64() {
            metadata.set(format!("general.sampling.{name}"), value as f32);
        }
    }
    if let Some(value) = generation["top_k"].as_i64().and_then(|value| i32::try_from(value).ok()) {
        metadata.set("general.sampling.top_k", value);
    }
}
