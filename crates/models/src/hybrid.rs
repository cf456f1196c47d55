//! Hybrid models, Gated DeltaNet with every fourth layer of full attention: Qwen3.5 with and without experts, Qwen3-Next.
//!
//! Source: the configurations and tensor names of Hugging Face's `qwen3_5`, `qwen3_5_moe` and `qwen3_next`.

use std::sync::Arc;

use crate::architecture::Architecture;
use crate::dense::{fields, frame, layer_count};
use crate::error::ModelError;
use crate::experts::experts;
use crate::mapper::Transform::{NegativeExp, None as Plain, OnePlus};
use crate::mapper::{Mapper, Transform};
use crate::rope::{rope, rotated};

pub(crate) const QWEN3_5: Architecture = Architecture {
    name: "qwen3_5",
    model_types: &["qwen3_5", "qwen3_5_text"],
    program: include_str!("../programs/qwen3_5.fh"),
    map: qwen3_5,
};

pub(crate) const QWEN3_5_MOE: Architecture = Architecture {
    name: "qwen3_5_moe",
    model_types: &["qwen3_5_moe", "qwen3_5_moe_text"],
    program: include_str!("../programs/qwen3_5_moe.fh"),
    map: qwen3_5_moe,
};

pub(crate) const QWEN3_NEXT: Architecture = Architecture {
    name: "qwen3_next",
    model_types: &["qwen3_next"],
    program: include_str!("../programs/qwen3_next.fh"),
    map: qwen3_next,
};

/// Weights of layers: the program's field, the tensor's name in the layer, the change.
type Fields = [(&'static str, &'static str, Transform)];

const NORMS: &Fields =
    &[("norm_in", "input_layernorm", OnePlus), ("norm_post", "post_attention_layernorm", OnePlus)];
const FEED_FORWARD: &Fields =
    &[("gate", "mlp.gate_proj", Plain), ("up", "mlp.up_proj", Plain), ("down", "mlp.down_proj", Plain)];
const DELTA: &Fields = &[
    ("conv", "linear_attn.conv1d", Plain),
    ("norm_out", "linear_attn.norm", Plain),
    ("out", "linear_attn.out_proj", Plain),
];
const DELTA_INPUTS: &Fields = &[
    ("qkv", "linear_attn.in_proj_qkv", Plain),
    ("z", "linear_attn.in_proj_z", Plain),
    ("b", "linear_attn.in_proj_b", Plain),
    ("alpha", "linear_attn.in_proj_a", Plain),
];
const DELTA_FUSED_INPUTS: &Fields =
    &[("qkvz", "linear_attn.in_proj_qkvz", Plain), ("ba", "linear_attn.in_proj_ba", Plain)];
const FULL: &Fields = &[
    ("q", "self_attn.q_proj", Plain),
    ("k", "self_attn.k_proj", Plain),
    ("v", "self_attn.v_proj", Plain),
    ("norm_q", "self_attn.q_norm", OnePlus),
    ("norm_k", "self_attn.k_norm", OnePlus),
    ("o", "self_attn.o_proj", Plain),
];
const SHARED_EXPERT: &Fields = &[
    ("shared_weight", "mlp.shared_expert_gate", Plain),
    ("shared_gate", "mlp.shared_expert.gate_proj", Plain),
    ("shared_up", "mlp.shared_expert.up_proj", Plain),
    ("shared_down", "mlp.shared_expert.down_proj", Plain),
];

/// What differs between the members of the family.
#[derive(Clone, Copy)]
struct Member {
    delta_inputs: &'static Fields,
    experts: bool,
}

fn qwen3_5(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    mapper.dim("F", mapper.config().size("intermediate_size")?);
    mapper.flag("interleaved", false);
    let member = Member { delta_inputs: DELTA_INPUTS, experts: false };
    let inv_freq = layers(mapper, member)?;
    draft(mapper, member, inv_freq)
}

fn qwen3_5_moe(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    mapper.flag("interleaved", false);
    let member = Member { delta_inputs: DELTA_INPUTS, experts: true };
    let inv_freq = layers(mapper, member)?;
    draft(mapper, member, inv_freq)
}

fn qwen3_next(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    mapper.flag("fused", true);
    layers(mapper, Member { delta_inputs: DELTA_FUSED_INPUTS, experts: true })?;
    Ok(())
}

fn layers(mapper: &mut Mapper<'_>, member: Member) -> Result<Arc<[f32]>, ModelError> {
    let config = mapper.config();
    let (key_heads, value_heads) =
        (config.size("linear_num_key_heads")?, config.size("linear_num_value_heads")?);
    if value_heads % key_heads != 0 {
        return Err(config.senseless("linear_num_key_heads", "a divisor of linear_num_value_heads"));
    }
    if config.size_or("linear_conv_kernel_dim", 4)? != 4 {
        return Err(config.senseless("linear_conv_kernel_dim", "4"));
    }
    let prefix = frame(mapper, OnePlus, false)?;
    let heads = config.size("num_attention_heads")?;
    let head_dim = config.size_or("head_dim", config.size("hidden_size")? / heads)?;
    let rotated = rotated(config, "rope_parameters", head_dim)?;
    let inv_freq = rope(config, "rope_parameters", rotated, 10_000_000.0)?.inv_freq;
    let kinds = layer_kinds(mapper)?;
    for (name, value) in [
        ("L", kinds.len()),
        ("HK", key_heads),
        ("HV", value_heads),
        ("KD", config.size("linear_key_head_dim")?),
        ("VD", config.size("linear_value_head_dim")?),
        ("R", rotated),
    ] {
        mapper.dim(name, value);
    }
    for (index, kind) in kinds.into_iter().enumerate() {
        mapper.layer(kind);
        let (path, tensors) = (format!("layers.{index}"), format!("{prefix}layers.{index}"));
        if kind == "delta" {
            fields(mapper, &path, &tensors, DELTA)?;
            fields(mapper, &path, &tensors, member.delta_inputs)?;
            mapper.weight(format!("{path}.a"), &format!("{tensors}.linear_attn.A_log"), NegativeExp)?;
            mapper.weight(format!("{path}.dt"), &format!("{tensors}.linear_attn.dt_bias"), Plain)?;
        } else {
            fields(mapper, &path, &tensors, FULL)?;
            mapper.numbers(format!("{path}.inv_freq"), inv_freq.clone());
        }
        around(mapper, member, &path, &tensors)?;
    }
    Ok(inv_freq)
}

/// Norms and the feed-forward block of a layer.
fn around(mapper: &mut Mapper<'_>, member: Member, path: &str, tensors: &str) -> Result<(), ModelError> {
    fields(mapper, path, tensors, NORMS)?;
    if !member.experts {
        return fields(mapper, path, tensors, FEED_FORWARD);
    }
    let width = mapper.config().size("shared_expert_intermediate_size")?;
    mapper.dim("S", width);
    experts(mapper, path, tensors)?;
    fields(mapper, path, tensors, SHARED_EXPERT)
}

/// The multi-token-prediction head, when the checkpoint has one.
fn draft(mapper: &mut Mapper<'_>, member: Member, inv_freq: Arc<[f32]>) -> Result<(), ModelError> {
    mapper.numbers("draft.inv_freq", inv_freq);
    if mapper.config().get("mtp_num_hidden_layers").and_then(|count| count.as_u64()) != Some(1)
        || !mapper.has("mtp.fc.weight")
    {
        return Ok(());
    }
    fields(mapper, "draft", "mtp.layers.0", FULL)?;
    around(mapper, member, "draft", "mtp.layers.0")?;
    for (path, tensor, transform) in [
        ("draft_fc", "fc", Plain),
        ("draft_norm_token", "pre_fc_norm_embedding", OnePlus),
        ("draft_norm_hidden", "pre_fc_norm_hidden", OnePlus),
        ("draft_norm", "norm", OnePlus),
    ] {
        mapper.weight(path, &format!("mtp.{tensor}.weight"), transform)?;
    }
    Ok(())
}

fn layer_kinds(mapper: &Mapper<'_>) -> Result<Vec<&'static str>, ModelError> {
    let config = mapper.config();
    let count = layer_count(mapper)?;
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
    let interval = config.size_or("full_attention_interval", 4)?;
    Ok((1..=count).map(|layer| if layer % interval == 0 { "full" } else { "delta" }).collect())
}
