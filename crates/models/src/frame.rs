//! What is around and alike in the layers of every model: sizes, embedding, output head, the number of layers.
//!
//! Source: the keys of Hugging Face's `config.json` and of GGUF's metadata, alike in all families served here.

use crate::config::{Config, Key, key};
use crate::error::ModelError;
use crate::fields::{EMBEDDING, HEAD, NORM};
use crate::mapper::Mapper;
use crate::names::Field;
use crate::rope::{Kind, head_dim, head_rope};

pub(crate) const HIDDEN: Key = key("hidden_size", "embedding_length");
/// The width of a feed-forward block.
pub(crate) const WIDTH: Key = key("intermediate_size", "feed_forward_length");

/// What `hidden_act` may be where a program says `silu`.
pub(crate) const SILU: &[&str] = &["silu", "swish"];

/// Refuses a model whose feed-forward blocks use another function than the program's. GGUF files do not tell it.
pub(crate) fn activation(config: Config<'_>, key: &'static str, wanted: &[&str]) -> Result<(), ModelError> {
    match config {
        Config::Json(json) if json.get(key).is_some_and(|found| !wanted.iter().any(|name| found == name)) => {
            Err(json.senseless(key, wanted.join(" or ")))
        }
        _ => Ok(()),
    }
}

/// Sizes of the attention, the embedding, the last norm and the output head.
pub(crate) fn frame(mapper: &mut Mapper<'_>, norm: Field, tied: bool) -> Result<(), ModelError> {
    let config = mapper.config();
    let heads = config.size(key("num_attention_heads", "attention.head_count"))?;
    let kv_key = key("num_key_value_heads", "attention.head_count_kv");
    let kv_heads = config.size_or(kv_key, heads)?;
    if heads % kv_heads != 0 {
        return Err(config.senseless(kv_key, format!("a divisor of {heads}, the query heads")));
    }
    for refused in ["attention_bias", "mlp_bias"] {
        let refused = key(refused, "");
        if config.flag_or(refused, false)? {
            return Err(config.senseless(refused, "false"));
        }
    }
    let model = mapper.names().model();
    mapper.fields("", model, &[EMBEDDING, norm])?;
    let (vocabulary, head, tied) = match config {
        Config::Json(json) => {
            (json.size("vocab_size")?, HEAD.hugging_face, json.flag_or("tie_word_embeddings", tied)?)
        }
        // Files may say a size that is not the embedding's, and that it is the head too by having no other.
        Config::Gguf(_) => (mapper.rows(EMBEDDING.gguf.tensor)?, HEAD.gguf, true),
    };
    if !tied || mapper.has(head.tensor) {
        mapper.fields("", "", &[HEAD])?;
    }
    for (name, value) in [
        ("V", vocabulary),
        ("D", config.size(HIDDEN)?),
        ("H", heads),
        ("G", kv_heads),
        ("K", head_dim(config)?),
    ] {
        mapper.dim(name, value);
    }
    let eps = key("rms_norm_eps", "attention.layer_norm_rms_epsilon");
    mapper.number("eps", config.number_or(eps, 1e-6)?);
    mapper.context(config.size_or(key("max_position_embeddings", "context_length"), 32768)?);
    Ok(())
}

/// How many layers, within reason; without those of a draft head.
pub(crate) fn layer_count(mapper: &Mapper<'_>) -> Result<usize, ModelError> {
    let (config, layers) = (mapper.config(), key("num_hidden_layers", "block_count"));
    let count = config.size(layers)?;
    if count > 4096 {
        return Err(config.senseless(layers, "at most 4096"));
    }
    let drafting = key("", "nextn_predict_layers");
    let drafts = config.number_or(drafting, 0.0)?;
    if drafts < 0.0 || drafts >= count as f64 {
        return Err(config.senseless(drafting, format!("fewer than the {count} layers")));
    }
    Ok(count - drafts as usize)
}

/// Everything of a model whose layers are alike: `frame`, rotary positions, and for each layer the weights of `lists`.
/// Binds the dims V, D, H, G, K, R and L and the constants `eps`, `rope_scale` and each layer's `inv_freq`. `theta` is
/// that of rotary positions where a `config.json` does not say it. Gives each layer's path in the program and what
/// stands before its tensors, for weights that lists cannot say.
///
/// # Errors
/// When a value is missing or senseless, or a tensor is missing.
pub(crate) fn every_layer(
    mapper: &mut Mapper<'_>,
    lists: &[&[Field]],
    theta: f64,
) -> Result<Vec<(String, String)>, ModelError> {
    activation(mapper.config(), "hidden_act", SILU)?;
    frame(mapper, NORM, false)?;
    let rope = head_rope(mapper, Kind::all(theta))?;
    mapper.number("rope_scale", rope.scale);
    let count = layer_count(mapper)?;
    mapper.dim("L", count);
    let mut layers = Vec::new();
    for layer in 0..count {
        let (path, tensors) = (format!("layers.{layer}."), mapper.names().layer(layer));
        mapper.numbers(format!("{path}inv_freq"), rope.inv_freq.clone());
        for list in lists {
            mapper.fields(&path, &tensors, list)?;
        }
        layers.push((path, tensors));
    }
    Ok(layers)
}
