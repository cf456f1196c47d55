//! Llama, Mistral, Qwen2, Qwen3 with and without experts, Gemma 3.

use super::writing::Writing;
use super::{Order, experts};
use crate::config::Config;
use crate::error::ModelError;
use crate::fields::{ATTENTION, CENTRED_HEAD_NORMS, CENTRED_NORM, FEED_FORWARD, HEAD_NORMS, NORM, NORMS};
use crate::frame::{activation, layer_count};
use crate::kinds::no_windows;
use crate::mappings::gemma3::{self as gemma, score_scalar};
use crate::mappings::qwen2::BIASES;
use crate::names::{Field, Names};
use crate::rope::head_dim;

/// Every layer's names in the checkpoint and in the file, from lists of fields.
fn layers(writing: &mut Writing<'_>, lists: &[&[Field]]) -> Result<Vec<(String, String)>, ModelError> {
    let count = layer_count(&writing.mapper)?;
    writing.set("block_count", count as u32);
    let mut names = Vec::with_capacity(count);
    for layer in 0..count {
        let (from, to) = (writing.names().layer(layer), Names::Gguf.layer(layer));
        for list in lists {
            writing.fields(&from, &to, list)?;
        }
        names.push((from, to));
    }
    Ok(names)
}

pub(super) fn llama(writing: &mut Writing<'_>) -> Result<(), ModelError> {
    writing.frame(NORM, false)?;
    writing.rope("rope_parameters", 10_000.0)?;
    let head = head_dim(Config::Json(writing.json))?;
    writing.set("rope.dimension_count", head as u32);
    let heads = writing.json.size("num_attention_heads")?;
    let kv_heads = writing.json.size_or("num_key_value_heads", heads)?;
    let (queries, keys) = (adjacent(heads, head), adjacent(kv_heads, head));
    for (_, to) in layers(writing, &[NORMS, ATTENTION, FEED_FORWARD])? {
        writing.order_rows(&format!("{to}attn_q.weight"), &queries)?;
        writing.order_rows(&format!("{to}attn_k.weight"), &keys)?;
    }
    Ok(())
}

/// GGUF files call it Llama, and have no word for a window.
pub(super) fn mistral(writing: &mut Writing<'_>) -> Result<(), ModelError> {
    if writing.json.get("sliding_window").is_some() {
        return Err(writing
            .json
            .senseless("sliding_window", "null: GGUF files of this kind have no windows"));
    }
    llama(writing)
}

pub(super) fn qwen2(writing: &mut Writing<'_>) -> Result<(), ModelError> {
    no_windows(Config::Json(writing.json))?;
    writing.frame(NORM, false)?;
    writing.rope("rope_parameters", 10_000.0)?;
    layers(writing, &[NORMS, ATTENTION, BIASES, FEED_FORWARD])?;
    Ok(())
}

/// The rows of heads whose value i turns with value i + half, so that it turns with the one beside it.
fn adjacent(heads: usize, head: usize) -> Order {
    let half = head / 2;
    (0..heads * head).map(|row| (row / head * head + row % 2 * half + row % head / 2) as u32).collect()
}

pub(super) fn qwen3(writing: &mut Writing<'_>) -> Result<(), ModelError> {
    no_windows(Config::Json(writing.json))?;
    writing.frame(NORM, false)?;
    writing.rope("rope_parameters", 1_000_000.0)?;
    layers(writing, &[NORMS, ATTENTION, HEAD_NORMS, FEED_FORWARD])?;
    Ok(())
}

pub(super) fn qwen3_moe(writing: &mut Writing<'_>) -> Result<(), ModelError> {
    no_windows(Config::Json(writing.json))?;
    let json = writing.json;
    if json.size_or("decoder_sparse_step", 1)? != 1 {
        return Err(json.senseless("decoder_sparse_step", "1"));
    }
    let dense = json.get("mlp_only_layers");
    if dense.is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty())) {
        return Err(json.senseless("mlp_only_layers", "an empty list"));
    }
    writing.frame(NORM, false)?;
    writing.rope("rope_parameters", 1_000_000.0)?;
    experts::sizes(writing)?;
    for (from, to) in layers(writing, &[NORMS, ATTENTION, HEAD_NORMS])? {
        experts::layer(writing, &from, &to)?;
    }
    Ok(())
}

pub(super) fn gemma3(writing: &mut Writing<'_>) -> Result<(), ModelError> {
    let json = writing.json;
    activation(Config::Json(json), "hidden_activation", &["gelu_pytorch_tanh"])?;
    writing.frame(CENTRED_NORM, true)?;
    let nested = json.get("rope_parameters.full_attention").is_some();
    writing.rope(if nested { "rope_parameters.full_attention" } else { "rope_parameters" }, 1_000_000.0)?;
    let near = if nested { "rope_parameters.sliding_attention.rope_theta" } else { "rope_local_base_freq" };
    writing.set("rope.freq_base_swa", json.number_or(near, 10_000.0)? as f32);
    writing.set("attention.sliding_window", json.size_or("sliding_window", 4096)? as u32);
    for cap in ["attn_logit_softcapping", "final_logit_softcapping"] {
        let value = json.number_or(cap, 0.0)?;
        if value > 0.0 {
            writing.set(cap, value as f32);
        }
    }
    let count = layers(writing, &[gemma::NORMS, ATTENTION, CENTRED_HEAD_NORMS, FEED_FORWARD])?.len();
    // GGUF files say neither which layers have windows nor what scores are divided by; readers know the usual ones.
    let kinds = gemma::kinds(Config::Json(json)).of(&writing.mapper)?;
    let usual = (1..=count).map(|layer| if layer % 6 == 0 { "full" } else { "sliding" });
    if !kinds.into_iter().eq(usual) {
        return Err(json.senseless("layer_types", "every sixth layer of full attention"));
    }
    let scalar = score_scalar(Config::Json(json), count)?;
    let implied = if count == 62 {
        json.size("hidden_size")? / json.size("num_attention_heads")?
    } else {
        head_dim(Config::Json(json))?
    };
    if scalar != implied as f64 {
        return Err(json.senseless("query_pre_attn_scalar", implied.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halves_of_a_head_are_interleaved() {
        assert_eq!(&adjacent(2, 6)[..], &[0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]);
    }
}
