//! Gemma 3, its text model.
//!
//! Source: the configuration and tensor names of Hugging Face's `gemma3_text`; the keys and tensor names of GGUF's
//! `gemma3`.

use crate::architecture::Architecture;
use crate::config::{Config, key};
use crate::error::ModelError;
use crate::fields::{ATTENTION, CENTRED_HEAD_NORMS, CENTRED_NORM, FEED_FORWARD};
use crate::frame::{HIDDEN, WIDTH, activation, frame, layer_count};
use crate::kinds::Kinds;
use crate::mapper::Mapper;
use crate::names::Field;
use crate::rope::{Kind, Rope, head_dim, head_rope};

pub(crate) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    model_types: &["gemma3_text", "gemma3"],
    gguf_names: &["gemma3"],
    program: include_str!("../../programs/gemma3.fh"),
    map: gemma3,
};

/// Norms before and behind both the attention and the feed-forward block.
pub(crate) const NORMS: &[Field] = &[
    Field::centred("norm_in", "input_layernorm.weight", "attn_norm.weight"),
    Field::centred("norm_attention", "post_attention_layernorm.weight", "post_attention_norm.weight"),
    Field::centred("norm_pre", "pre_feedforward_layernorm.weight", "ffn_norm.weight"),
    Field::centred("norm_post", "post_feedforward_layernorm.weight", "post_ffw_norm.weight"),
];

fn gemma3(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    activation(config, "hidden_activation", &["gelu_pytorch_tanh"])?;
    frame(mapper, CENTRED_NORM, true)?;
    let count = layer_count(mapper)?;
    mapper.dim("L", count);
    mapper.dim("F", config.size(WIDTH)?);
    mapper.dim("W", config.size_or(key("sliding_window", "attention.sliding_window"), 4096)?);
    mapper.number("score_scale", score_scalar(config, count)?.powf(-0.5));
    mapper.number("embed_scale", (config.size(HIDDEN)? as f64).sqrt());
    for (flag, constant, key) in [
        ("capped", "score_cap", key("attn_logit_softcapping", "attn_logit_softcapping")),
        ("capped_logits", "logit_cap", key("final_logit_softcapping", "final_logit_softcapping")),
    ] {
        let cap = config.number_or(key, 0.0)?;
        mapper.flag(flag, cap > 0.0);
        mapper.number(constant, if cap > 0.0 { cap } else { 1.0 });
    }
    let (full, near) = gemma_ropes(mapper)?;
    let kinds = kinds(config).of(mapper)?;
    for (layer, kind) in kinds.into_iter().enumerate() {
        let (path, tensors) = (format!("layers.{layer}."), mapper.names().layer(layer));
        mapper.layer(kind);
        let inv_freq = if kind == "full" { &full.inv_freq } else { &near.inv_freq };
        mapper.numbers(format!("{path}inv_freq"), inv_freq.clone());
        for list in [NORMS, ATTENTION, CENTRED_HEAD_NORMS, FEED_FORWARD] {
            mapper.fields(&path, &tensors, list)?;
        }
    }
    Ok(())
}

/// What scores are divided by the square root of. GGUF files do not say it: it is a head's size, and in the largest
/// model, which alone has 62 layers, an equal part of the hidden size.
pub(crate) fn score_scalar(config: Config<'_>, layers: usize) -> Result<f64, ModelError> {
    const LAYERS_OF_THE_LARGEST: usize = 62;
    let absent = match config {
        Config::Gguf(_) if layers == LAYERS_OF_THE_LARGEST => {
            config.size(HIDDEN)? / config.size(key("num_attention_heads", "attention.head_count"))?
        }
        _ => head_dim(config)?,
    };
    let scalar = key("query_pre_attn_scalar", "");
    let value = config.number_or(scalar, absent as f64)?;
    if value > 0.0 { Ok(value) } else { Err(config.senseless(scalar, "a number above zero")) }
}

/// The rotary positions of full layers and of those with a window.
fn gemma_ropes(mapper: &mut Mapper<'_>) -> Result<(Rope, Rope), ModelError> {
    let mut full = Kind::all(1_000_000.0);
    let near = Kind {
        section: "rope_parameters.sliding_attention",
        base: "rope.freq_base_swa",
        theta: 10_000.0,
        scaled: false,
    };
    if let Config::Json(json) = mapper.config() {
        if json.get("rope_parameters.full_attention").is_none() {
            // Older files: one theta and its scaling for full layers, a plain local theta for the others.
            let full = head_rope(mapper, full)?;
            let theta = json.number_or("rope_local_base_freq", near.theta)?;
            let pairs = full.inv_freq.len();
            let inv_freq = (0..pairs).map(|pair| theta.powf(-(pair as f64) / pairs as f64) as f32).collect();
            return Ok((full, Rope { inv_freq, scale: 1.0 }));
        }
        full.section = "rope_parameters.full_attention";
    }
    Ok((head_rope(mapper, full)?, head_rope(mapper, near)?))
}

/// Which layers have a window.
pub(crate) fn kinds(config: Config<'_>) -> Kinds {
    let pattern = "sliding_window_pattern";
    let named = matches!(config, Config::Json(json) if json.get(pattern).is_some());
    let json = if named { pattern } else { "_sliding_window_pattern" };
    // One key of GGUF files, a list or an interval.
    let list = "attention.sliding_window_pattern";
    Kinds { other: "sliding", word: "sliding_attention", list, interval: key(json, list), usual: 6 }
}
