//! Qwen3.5 text models: where `programs/qwen3_5.fh` finds its sizes and weights.
//!
//! Source: the configuration and tensor names of Hugging Face's `qwen3_5` and `qwen3_5_text` checkpoints.

use std::sync::Arc;

use crate::architecture::Architecture;
use crate::error::ModelError;
use crate::mapper::{Mapper, Transform};

pub(crate) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3_5",
    model_types: &["qwen3_5", "qwen3_5_text"],
    program: include_str!("../programs/qwen3_5.fh"),
    map,
};

/// Weights of any layer: the program's field, the tensor's name in the layer, the change.
const COMMON: &[(&str, &str, Transform)] = &[
    ("norm_in", "input_layernorm", Transform::OnePlus),
    ("norm_post", "post_attention_layernorm", Transform::OnePlus),
    ("gate", "mlp.gate_proj", Transform::None),
    ("up", "mlp.up_proj", Transform::None),
    ("down", "mlp.down_proj", Transform::None),
];

const DELTA: &[(&str, &str, Transform)] = &[
    ("qkv", "linear_attn.in_proj_qkv", Transform::None),
    ("z", "linear_attn.in_proj_z", Transform::None),
    ("b", "linear_attn.in_proj_b", Transform::None),
    ("alpha", "linear_attn.in_proj_a", Transform::None),
    ("conv", "linear_attn.conv1d", Transform::None),
    ("norm_out", "linear_attn.norm", Transform::None),
    ("out", "linear_attn.out_proj", Transform::None),
];

const FULL: &[(&str, &str, Transform)] = &[
    ("q", "self_attn.q_proj", Transform::None),
    ("k", "self_attn.k_proj", Transform::None),
    ("v", "self_attn.v_proj", Transform::None),
    ("norm_q", "self_attn.q_norm", Transform::OnePlus),
    ("norm_k", "self_attn.k_norm", Transform::OnePlus),
    ("o", "self_attn.o_proj", Transform::None),
];

fn map(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    let (heads, head_dim) = (config.size("num_attention_heads")?, config.size("head_dim")?);
    let (key_heads, value_heads) =
        (config.size("linear_num_key_heads")?, config.size("linear_num_value_heads")?);
    let kv_heads = config.size("num_key_value_heads")?;
    if heads % kv_heads != 0 {
        return Err(config.senseless("num_key_value_heads", "a divisor of num_attention_heads"));
    }
    if value_heads % key_heads != 0 {
        return Err(config.senseless("linear_num_key_heads", "a divisor of linear_num_value_heads"));
    }
    if config.size_or("linear_conv_kernel_dim", 4)? != 4 {
        return Err(config.senseless("linear_conv_kernel_dim", "4"));
    }
    let kinds = layer_kinds(mapper)?;
    let inv_freq = inverse_frequencies(mapper, head_dim)?;

    for (name, value) in [
        ("V", config.size("vocab_size")?),
        ("D", config.size("hidden_size")?),
        ("F", config.size("intermediate_size")?),
        ("L", kinds.len()),
        ("H", heads),
        ("G", kv_heads),
        ("K", head_dim),
        ("HK", key_heads),
        ("HV", value_heads),
        ("KD", config.size("linear_key_head_dim")?),
        ("VD", config.size("linear_value_head_dim")?),
        ("R", 2 * inv_freq.len()),
    ] {
        mapper.dim(name, value);
    }
    mapper.number("eps", config.number_or("rms_norm_eps", 1e-6)?);
    mapper.flag("interleaved", false);
    mapper.context(config.size_or("max_position_embeddings", 32768)?);

    let prefix = mapper.prefix(&["model.", "model.language_model.", ""], "embed_tokens.weight");
    mapper.weight("embed", &format!("{prefix}embed_tokens.weight"), Transform::None)?;
    mapper.weight("norm", &format!("{prefix}norm.weight"), Transform::OnePlus)?;
    if !config.flag_or("tie_word_embeddings", false)? || mapper.has("lm_head.weight") {
        mapper.weight("head", "lm_head.weight", Transform::None)?;
    }
    for (index, kind) in kinds.iter().enumerate() {
        mapper.layer(kind);
        let (path, tensors) = (format!("layers.{index}"), format!("{prefix}layers.{index}"));
        match *kind {
            "delta" => delta_layer(mapper, &path, &tensors)?,
            _ => full_layer(mapper, &path, &tensors, &inv_freq)?,
        }
    }
    let draft_layers = config.size_or("mtp_num_hidden_layers", 0).unwrap_or(0);
    if draft_layers == 1 && mapper.has("mtp.fc.weight") {
        full_layer(mapper, "draft", "mtp.layers.0", &inv_freq)?;
        mapper.weight("draft_fc", "mtp.fc.weight", Transform::None)?;
        mapper.weight("draft_norm_token", "mtp.pre_fc_norm_embedding.weight", Transform::OnePlus)?;
        mapper.weight("draft_norm_hidden", "mtp.pre_fc_norm_hidden.weight", Transform::OnePlus)?;
        mapper.weight("draft_norm", "mtp.norm.weight", Transform::OnePlus)?;
    } else {
        mapper.numbers("draft.inv_freq", inv_freq);
    }
    Ok(())
}

fn layer_kinds(mapper: &Mapper<'_>) -> Result<Vec<&'static str>, ModelError> {
    let config = mapper.config();
    let count = config.size("num_hidden_layers")?;
    if let Some(types) = config.texts("layer_types")? {
        if types.len() != count {
            return Err(config.senseless("layer_types", format!("a list of {count} (num_hidden_layers)")));
        }
        return types
            .into_iter()
            .map(|kind| match kind {
                "linear_attention" => Ok("delta"),
                "full_attention" => Ok("full"),
                _ => Err(config.senseless("layer_types", "linear_attention or full_attention")),
            })
            .collect();
    }
    if count > 4096 {
        return Err(config.senseless("num_hidden_layers", "at most 4096"));
    }
    let interval = config.size_or("full_attention_interval", 4)?;
    Ok((1..=count).map(|layer| if layer % interval == 0 { "full" } else { "delta" }).collect())
}

/// `theta^(-2i / R)` for the pairs of the rotated part of a head.
fn inverse_frequencies(mapper: &Mapper<'_>, head_dim: usize) -> Result<Arc<[f32]>, ModelError> {
    let config = mapper.config();
    let kind = config.get("rope_parameters.rope_type").and_then(|value| value.as_str()).unwrap_or("default");
    if kind != "default" {
        return Err(config.senseless("rope_parameters.rope_type", "default"));
    }
    let either = |key: &str, absent: f64| {
        let nested = format!("rope_parameters.{key}");
        if config.get(&nested).is_some() { config.number(&nested) } else { config.number_or(key, absent) }
    };
    let theta = either("rope_theta", 10_000_000.0)?;
    let rotated = (either("partial_rotary_factor", 0.25)? * head_dim as f64).round() as usize;
    if rotated == 0 || !rotated.is_multiple_of(2) || rotated > head_dim || theta <= 0.0 {
        return Err(
            config.senseless("rope_parameters", "a positive theta and an even rotated part of a head")
        );
    }
    Ok((0..rotated / 2).map(|pair| theta.powf(-2.0 * pair as f64 / rotated as f64) as f32).collect())
}

fn fields(
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

fn delta_layer(mapper: &mut Mapper<'_>, path: &str, tensors: &str) -> Result<(), ModelError> {
    fields(mapper, path, tensors, COMMON)?;
    fields(mapper, path, tensors, DELTA)?;
    mapper.weight(format!("{path}.a"), &format!("{tensors}.linear_attn.A_log"), Transform::NegativeExp)?;
    mapper.weight(format!("{path}.dt"), &format!("{tensors}.linear_attn.dt_bias"), Transform::None)
}

fn full_layer(
    mapper: &mut Mapper<'_>,
    path: &str,
    tensors: &str,
    inv_freq: &Arc<[f32]>,
) -> Result<(), ModelError> {
    fields(mapper, path, tensors, COMMON)?;
    fields(mapper, path, tensors, FULL)?;
    mapper.numbers(format!("{path}.inv_freq"), inv_freq.clone());
    Ok(())
}
