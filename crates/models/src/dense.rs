//! Models of attention and a feed-forward block in every layer: Llama, Qwen3, Qwen3 with experts, Gemma 3.
//!
//! Source: the configurations and tensor names of Hugging Face's `llama`, `qwen3`, `qwen3_moe` and `gemma3_text`.

use crate::architecture::Architecture;
use crate::error::ModelError;
use crate::experts::experts;
use crate::mapper::Transform::{None as Plain, OnePlus};
use crate::mapper::{Mapper, Transform};
use crate::rope::{Rope, rope, rotated};

pub(crate) const LLAMA: Architecture = Architecture {
    name: "llama",
    model_types: &["llama", "mistral"],
    program: include_str!("../programs/llama.fh"),
    map: llama,
};

pub(crate) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    model_types: &["qwen3"],
    program: include_str!("../programs/qwen3.fh"),
    map: qwen3,
};

pub(crate) const QWEN3_MOE: Architecture = Architecture {
    name: "qwen3_moe",
    model_types: &["qwen3_moe"],
    program: include_str!("../programs/qwen3_moe.fh"),
    map: qwen3_moe,
};

pub(crate) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    model_types: &["gemma3_text", "gemma3"],
    program: include_str!("../programs/gemma3.fh"),
    map: gemma3,
};

type Fields = [(&'static str, &'static str, Transform)];

const ATTENTION: &Fields = &[
    ("norm_in", "input_layernorm", Plain),
    ("q", "self_attn.q_proj", Plain),
    ("k", "self_attn.k_proj", Plain),
    ("v", "self_attn.v_proj", Plain),
    ("o", "self_attn.o_proj", Plain),
    ("norm_post", "post_attention_layernorm", Plain),
];
const HEAD_NORMS: &Fields = &[("norm_q", "self_attn.q_norm", Plain), ("norm_k", "self_attn.k_norm", Plain)];
const FEED_FORWARD: &Fields =
    &[("gate", "mlp.gate_proj", Plain), ("up", "mlp.up_proj", Plain), ("down", "mlp.down_proj", Plain)];
const GEMMA: &Fields = &[
    ("norm_in", "input_layernorm", OnePlus),
    ("q", "self_attn.q_proj", Plain),
    ("k", "self_attn.k_proj", Plain),
    ("v", "self_attn.v_proj", Plain),
    ("norm_q", "self_attn.q_norm", OnePlus),
    ("norm_k", "self_attn.k_norm", OnePlus),
    ("o", "self_attn.o_proj", Plain),
    ("norm_attention", "post_attention_layernorm", OnePlus),
    ("norm_pre", "pre_feedforward_layernorm", OnePlus),
    ("norm_post", "post_feedforward_layernorm", OnePlus),
];

/// Sizes of the attention, the embedding, the last norm and the output head; gives the tensors' prefix.
pub(crate) fn frame(
    mapper: &mut Mapper<'_>,
    norm: Transform,
    tied: bool,
) -> Result<&'static str, ModelError> {
    let config = mapper.config();
    let (heads, hidden) = (config.size("num_attention_heads")?, config.size("hidden_size")?);
    let kv_heads = config.size_or("num_key_value_heads", heads)?;
    if heads % kv_heads != 0 {
        return Err(config.senseless("num_key_value_heads", "a divisor of num_attention_heads"));
    }
    for refused in ["attention_bias", "mlp_bias"] {
        if config.flag_or(refused, false)? {
            return Err(config.senseless(refused, "false"));
        }
    }
    for (name, value) in [
        ("V", config.size("vocab_size")?),
        ("D", hidden),
        ("H", heads),
        ("G", kv_heads),
        ("K", config.size_or("head_dim", hidden / heads)?),
    ] {
        mapper.dim(name, value);
    }
    mapper.number("eps", config.number_or("rms_norm_eps", 1e-6)?);
    mapper.context(config.size_or("max_position_embeddings", 32768)?);
    let prefix = mapper
        .prefix(&["model.", "model.language_model.", "language_model.model.", ""], "embed_tokens.weight");
    mapper.weight("embed", &format!("{prefix}embed_tokens.weight"), Plain)?;
    mapper.weight("norm", &format!("{prefix}norm.weight"), norm)?;
    if !config.flag_or("tie_word_embeddings", tied)? || mapper.has("lm_head.weight") {
        mapper.weight("head", "lm_head.weight", Plain)?;
    }
    Ok(prefix)
}

/// Binds weights of one layer.
pub(crate) fn fields(
    mapper: &mut Mapper<'_>,
    path: &str,
    tensors: &str,
    fields: &[(&str, &str, Transform)],
) -> Result<(), ModelError> {
    for (field, tensor, transform) in fields {
        mapper.weight(format!("{path}.{field}"), &format!("{tensors}.{tensor}.weight"), *transform)?;
    }
    Ok(())
}

/// How many layers, within reason.
pub(crate) fn layer_count(mapper: &Mapper<'_>) -> Result<usize, ModelError> {
    let count = mapper.config().size("num_hidden_layers")?;
    if count > 4096 {
        return Err(mapper.config().senseless("num_hidden_layers", "at most 4096"));
    }
    Ok(count)
}

fn head_rope(mapper: &mut Mapper<'_>, section: &str, theta: f64) -> Result<Rope, ModelError> {
    let config = mapper.config();
    let heads = config.size("num_attention_heads")?;
    let head_dim = config.size_or("head_dim", config.size("hidden_size")? / heads)?;
    let rotated = rotated(config, section, head_dim)?;
    mapper.dim("R", rotated);
    rope(config, section, rotated, theta)
}

fn every_layer(
    mapper: &mut Mapper<'_>,
    lists: &[&Fields],
    theta: f64,
) -> Result<Vec<(String, String)>, ModelError> {
    let prefix = frame(mapper, Plain, false)?;
    let rope = head_rope(mapper, "rope_parameters", theta)?;
    mapper.number("rope_scale", rope.scale);
    let count = layer_count(mapper)?;
    mapper.dim("L", count);
    let mut layers = Vec::new();
    for layer in 0..count {
        let (path, tensors) = (format!("layers.{layer}"), format!("{prefix}layers.{layer}"));
        mapper.numbers(format!("{path}.inv_freq"), rope.inv_freq.clone());
        for list in lists {
            fields(mapper, &path, &tensors, list)?;
        }
        layers.push((path, tensors));
    }
    Ok(layers)
}

fn llama(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    mapper.dim("F", config.size("intermediate_size")?);
    mapper.flag("adjacent", false);
    every_layer(mapper, &[ATTENTION, FEED_FORWARD], 10_000.0)?;
    Ok(())
}

fn qwen3(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    mapper.dim("F", config.size("intermediate_size")?);
    if config.flag_or("use_sliding_window", false)? {
        return Err(config.senseless("use_sliding_window", "false"));
    }
    every_layer(mapper, &[ATTENTION, HEAD_NORMS, FEED_FORWARD], 1_000_000.0)?;
    Ok(())
}

fn qwen3_moe(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    if config.size_or("decoder_sparse_step", 1)? != 1 {
        return Err(config.senseless("decoder_sparse_step", "1"));
    }
    if config.get("mlp_only_layers").is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty())) {
        return Err(config.senseless("mlp_only_layers", "an empty list"));
    }
    for (path, tensors) in every_layer(mapper, &[ATTENTION, HEAD_NORMS], 1_000_000.0)? {
        experts(mapper, &path, &tensors)?;
    }
    Ok(())
}

fn gemma3(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    let prefix = frame(mapper, OnePlus, true)?;
    let count = layer_count(mapper)?;
    mapper.dim("L", count);
    mapper.dim("F", config.size("intermediate_size")?);
    mapper.dim("W", config.size_or("sliding_window", 4096)?);
    let heads = config.size("num_attention_heads")?;
    let head_dim = config.size_or("head_dim", config.size("hidden_size")? / heads)?;
    let scalar = config.number_or("query_pre_attn_scalar", head_dim as f64)?;
    if scalar <= 0.0 {
        return Err(config.senseless("query_pre_attn_scalar", "a number above zero"));
    }
    mapper.number("score_scale", scalar.powf(-0.5));
    mapper.number("embed_scale", (config.size("hidden_size")? as f64).sqrt());
    for (flag, constant, key) in [
        ("capped", "score_cap", "attn_logit_softcapping"),
        ("capped_logits", "logit_cap", "final_logit_softcapping"),
    ] {
        let cap = config.number_or(key, 0.0)?;
        mapper.flag(flag, cap > 0.0);
        mapper.number(constant, if cap > 0.0 { cap } else { 1.0 });
    }
    let split = config.get("rope_parameters.full_attention").is_some();
    let (full, near) = if split {
        (
            head_rope(mapper, "rope_parameters.full_attention", 1_000_000.0)?,
            head_rope(mapper, "rope_parameters.sliding_attention", 10_000.0)?,
        )
    } else {
        // Older files: one theta and its scaling for full layers, a plain local theta for the others.
        let full = head_rope(mapper, "rope_parameters", 1_000_000.0)?;
        let theta = config.number_or("rope_local_base_freq", 10_000.0)?;
        let pairs = full.inv_freq.len();
        let inv_freq = (0..pairs).map(|pair| theta.powf(-(pair as f64) / pairs as f64) as f32).collect();
        (full, Rope { inv_freq, scale: 1.0 })
    };
    let kinds = sliding_kinds(mapper, count)?;
    for (layer, kind) in kinds.into_iter().enumerate() {
        let (path, tensors) = (format!("layers.{layer}"), format!("{prefix}layers.{layer}"));
        mapper.layer(kind);
        let inv_freq = if kind == "full" { &full.inv_freq } else { &near.inv_freq };
        mapper.numbers(format!("{path}.inv_freq"), inv_freq.clone());
        fields(mapper, &path, &tensors, GEMMA)?;
        fields(mapper, &path, &tensors, FEED_FORWARD)?;
    }
    Ok(())
}

fn sliding_kinds(mapper: &Mapper<'_>, count: usize) -> Result<Vec<&'static str>, ModelError> {
    let config = mapper.config();
    if let Some(types) = config.texts("layer_types")? {
        if types.len() != count {
            return Err(config.senseless("layer_types", format!("a list of {count} (num_hidden_layers)")));
        }
        return types
            .into_iter()
            .map(|kind| match kind {
                "sliding_attention" => Ok("sliding"),
                "full_attention" => Ok("full"),
                _ => Err(config.senseless("layer_types", "sliding_attention or full_attention")),
            })
            .collect();
    }
    let interval = config.size_or("sliding_window_pattern", config.size_or("_sliding_window_pattern", 6)?)?;
    Ok((1..=count).map(|layer| if layer % interval == 0 { "full" } else { "sliding" }).collect())
}
