//! Hybrid models, Gated DeltaNet with every fourth layer of full attention: Qwen3.5 with and without experts, Qwen3-Next.
//!
//! Source: the configurations and tensor names of Hugging Face's `qwen3_5`, `qwen3_5_moe` and `qwen3_next`; the keys and
//! tensor names of GGUF's `qwen35`, `qwen35moe` and `qwen3next`. Of the latter, `qwen35` and `qwen35moe` reorder value heads.

use std::sync::Arc;

use crate::architecture::Architecture;
use crate::config::{Config, Key, key};
use crate::error::ModelError;
use crate::experts::experts;
use crate::fields::{ATTENTION, CENTRED_HEAD_NORMS, CENTRED_NORM, FEED_FORWARD};
use crate::frame::{SILU, WIDTH, activation, frame, layer_count};
use crate::kinds::Kinds;
use crate::mapper::Mapper;
use crate::names::{Field, Names};
use crate::rope::{Kind, head_rope};

pub(crate) const QWEN3_5: Architecture = Architecture {
    name: "qwen3_5",
    model_types: &["qwen3_5", "qwen3_5_text"],
    gguf_names: &["qwen35"],
    program: include_str!("../../programs/qwen3_5.fh"),
    map: qwen3_5,
};

pub(crate) const QWEN3_5_MOE: Architecture = Architecture {
    name: "qwen3_5_moe",
    model_types: &["qwen3_5_moe", "qwen3_5_moe_text"],
    gguf_names: &["qwen35moe"],
    program: include_str!("../../programs/qwen3_5_moe.fh"),
    map: qwen3_5_moe,
};

pub(crate) const QWEN3_NEXT: Architecture = Architecture {
    name: "qwen3_next",
    model_types: &["qwen3_next"],
    gguf_names: &["qwen3next"],
    program: include_str!("../../programs/qwen3_next.fh"),
    map: qwen3_next,
};

pub(crate) const NORMS: &[Field] = &[
    Field::centred("norm_in", "input_layernorm.weight", "attn_norm.weight"),
    Field::centred("norm_post", "post_attention_layernorm.weight", "post_attention_norm.weight"),
];
pub(crate) const DELTA: &[Field] = &[
    Field::plain("conv", "linear_attn.conv1d.weight", "ssm_conv1d.weight"),
    Field::plain("norm_out", "linear_attn.norm.weight", "ssm_norm.weight"),
    Field::plain("out", "linear_attn.out_proj.weight", "ssm_out.weight"),
    Field::logarithm("a", "linear_attn.A_log", "ssm_a"),
    Field::plain("dt", "linear_attn.dt_bias", "ssm_dt.bias"),
];
pub(crate) const DELTA_INPUTS: &[Field] = &[
    Field::plain("qkv", "linear_attn.in_proj_qkv.weight", "attn_qkv.weight"),
    Field::plain("z", "linear_attn.in_proj_z.weight", "attn_gate.weight"),
    Field::plain("b", "linear_attn.in_proj_b.weight", "ssm_beta.weight"),
    Field::plain("alpha", "linear_attn.in_proj_a.weight", "ssm_alpha.weight"),
];
/// Qwen3-Next as Hugging Face's files have it.
const DELTA_FUSED_INPUTS: &[Field] = &[
    Field::plain("qkvz", "linear_attn.in_proj_qkvz.weight", "ssm_in.weight"),
    Field::plain("ba", "linear_attn.in_proj_ba.weight", "ssm_ba.weight"),
];
/// Qwen3-Next as GGUF files have it.
const DELTA_SPLIT_INPUTS: &[Field] = &[
    Field::plain("qkv", "linear_attn.in_proj_qkv.weight", "attn_qkv.weight"),
    Field::plain("z", "linear_attn.in_proj_z.weight", "attn_gate.weight"),
    Field::plain("ba", "linear_attn.in_proj_ba.weight", "ssm_ba.weight"),
];
pub(crate) const SHARED_EXPERT: &[Field] = &[
    Field::plain("shared_weight", "mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"),
    Field::plain("shared_gate", "mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"),
    Field::plain("shared_up", "mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"),
    Field::plain("shared_down", "mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"),
];
/// What leads into and out of the layer of the draft head.
pub(crate) const DRAFT: &[Field] = &[
    Field::plain("draft_fc", "fc.weight", "nextn.eh_proj.weight"),
    Field::centred("draft_norm_token", "pre_fc_norm_embedding.weight", "nextn.enorm.weight"),
    Field::centred("draft_norm_hidden", "pre_fc_norm_hidden.weight", "nextn.hnorm.weight"),
    Field::centred("draft_norm", "norm.weight", "nextn.shared_head_norm.weight"),
];

const KEY_HEADS: Key = key("linear_num_key_heads", "ssm.group_count");
const VALUE_HEADS: Key = key("linear_num_value_heads", "ssm.time_step_rank");

pub(crate) const KINDS: Kinds = Kinds {
    other: "delta",
    word: "linear_attention",
    list: "attention.recurrent_layers",
    interval: key("full_attention_interval", "full_attention_interval"),
    usual: 4,
};

/// What differs between the members of the family.
#[derive(Clone, Copy)]
struct Member {
    delta_inputs: &'static [Field],
    experts: bool,
}

fn qwen3_5(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    mapper.dim("F", mapper.config().size(WIDTH)?);
    drafting(mapper, Member { delta_inputs: DELTA_INPUTS, experts: false })
}

fn qwen3_5_moe(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    drafting(mapper, Member { delta_inputs: DELTA_INPUTS, experts: true })
}

fn drafting(mapper: &mut Mapper<'_>, member: Member) -> Result<(), ModelError> {
    mapper.flag("interleaved", mapper.names() == Names::Gguf);
    let inv_freq = layers(mapper, member)?;
    draft(mapper, member, inv_freq)
}

fn qwen3_next(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let fused = mapper.names() != Names::Gguf;
    mapper.flag("fused", fused);
    let delta_inputs = if fused { DELTA_FUSED_INPUTS } else { DELTA_SPLIT_INPUTS };
    layers(mapper, Member { delta_inputs, experts: true })?;
    Ok(())
}

fn layers(mapper: &mut Mapper<'_>, member: Member) -> Result<Arc<[f32]>, ModelError> {
    activation(mapper.config(), "hidden_act", SILU)?;
    frame(mapper, CENTRED_NORM, false)?;
    delta_sizes(mapper)?;
    let inv_freq = head_rope(mapper, Kind::all(10_000_000.0))?.inv_freq;
    let kinds = KINDS.of(mapper)?;
    mapper.dim("L", kinds.len());
    for (index, kind) in kinds.into_iter().enumerate() {
        mapper.layer(kind);
        let (path, tensors) = (format!("layers.{index}."), mapper.names().layer(index));
        if kind == "delta" {
            mapper.fields(&path, &tensors, DELTA)?;
            mapper.fields(&path, &tensors, member.delta_inputs)?;
        } else {
            attention(mapper, &path, &tensors)?;
            mapper.numbers(format!("{path}inv_freq"), inv_freq.clone());
        }
        around(mapper, member, &path, &tensors)?;
    }
    Ok(inv_freq)
}

/// Heads of the delta rule and their sizes.
fn delta_sizes(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    let (key_heads, value_heads) = (config.size(KEY_HEADS)?, config.size(VALUE_HEADS)?);
    if value_heads % key_heads != 0 {
        return Err(config.senseless(KEY_HEADS, format!("a divisor of {value_heads}, the value heads")));
    }
    let taps = key("linear_conv_kernel_dim", "ssm.conv_kernel");
    if config.size_or(taps, 4)? != 4 {
        return Err(config.senseless(taps, "4"));
    }
    let value_dim = match config {
        Config::Json(json) => json.size("linear_value_head_dim")?,
        Config::Gguf(gguf) => {
            let all = gguf.size("ssm.inner_size")?;
            if all % value_heads != 0 {
                let wanted = format!("a multiple of {value_heads}, the value heads");
                return Err(gguf.senseless("ssm.inner_size", wanted));
            }
            all / value_heads
        }
    };
    for (name, value) in [
        ("HK", key_heads),
        ("HV", value_heads),
        ("KD", config.size(key("linear_key_head_dim", "ssm.state_size"))?),
        ("VD", value_dim),
    ] {
        mapper.dim(name, value);
    }
    Ok(())
}

/// The weights of a layer's full attention.
fn attention(mapper: &mut Mapper<'_>, path: &str, tensors: &str) -> Result<(), ModelError> {
    mapper.fields(path, tensors, ATTENTION)?;
    mapper.fields(path, tensors, CENTRED_HEAD_NORMS)
}

/// Norms and the feed-forward block of a layer.
fn around(mapper: &mut Mapper<'_>, member: Member, path: &str, tensors: &str) -> Result<(), ModelError> {
    mapper.fields(path, tensors, NORMS)?;
    if !member.experts {
        return mapper.fields(path, tensors, FEED_FORWARD);
    }
    let width = key("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
    mapper.dim("S", mapper.config().size(width)?);
    experts(mapper, path, tensors)?;
    mapper.fields(path, tensors, SHARED_EXPERT)
}

/// The multi-token-prediction head, when the checkpoint has one that shares the embedding and the output head.
fn draft(mapper: &mut Mapper<'_>, member: Member, inv_freq: Arc<[f32]>) -> Result<(), ModelError> {
    mapper.numbers("draft.inv_freq", inv_freq);
    let (there, around_layer, layer) = match mapper.config() {
        Config::Json(json) => {
            let one = json.get("mtp_num_hidden_layers").and_then(|count| count.as_u64()) == Some(1);
            (one && mapper.has("mtp.fc.weight"), "mtp.".to_owned(), "mtp.layers.0.".to_owned())
        }
        Config::Gguf(gguf) => {
            let block = mapper.names().layer(layer_count(mapper)?);
            let own = ["embed_tokens", "shared_head_head"]
                .iter()
                .any(|tensor| mapper.has(&format!("{block}nextn.{tensor}.weight")));
            let one = gguf.number_or("nextn_predict_layers", 0.0)? == 1.0;
            let needed = DRAFT.iter().all(|field| mapper.has(&format!("{block}{}", field.gguf.tensor)));
            (one && needed && !own, block.clone(), block)
        }
    };
    if !there {
        return Ok(());
    }
    attention(mapper, "draft.", &layer)?;
    around(mapper, member, "draft.", &layer)?;
    mapper.fields("", &around_layer, DRAFT)
}
