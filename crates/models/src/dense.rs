//! Models of attention and a feed-forward block in every layer: Llama, Qwen3, Qwen3 with experts, Gemma 3.
//!
//! Source: the configurations and tensor names of Hugging Face's `llama`, `qwen3`, `qwen3_moe` and `gemma3_text`; the keys and tensor names
//! of GGUF's `llama`, `qwen3`, `qwen3moe` and `gemma3`.

use crate::architecture::Architecture;
use crate::config::{Config, Json, Key, key};
use crate::error::ModelError;
use crate::experts::experts;
use crate::mapper::Mapper;
use crate::names::{Field, Names};
use crate::rope::{Kind, Rope, head_dim, head_rope};

pub(crate) const LLAMA: Architecture = Architecture {
    name: "llama",
    model_types: &["llama", "mistral"],
    gguf_names: &["llama"],
    program: include_str!("../programs/llama.fh"),
    map: llama,
};

pub(crate) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    model_types: &["qwen3"],
    gguf_names: &["qwen3"],
    program: include_str!("../programs/qwen3.fh"),
    map: qwen3,
};

pub(crate) const QWEN3_MOE: Architecture = Architecture {
    name: "qwen3_moe",
    model_types: &["qwen3_moe"],
    gguf_names: &["qwen3moe"],
    program: include_str!("../programs/qwen3_moe.fh"),
    map: qwen3_moe,
};

pub(crate) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    model_types: &["gemma3_text", "gemma3"],
    gguf_names: &["gemma3"],
    program: include_str!("../programs/gemma3.fh"),
    map: gemma3,
};

const ATTENTION: &[Field] = &[
    Field::plain("norm_in", "input_layernorm.weight", "attn_norm.weight"),
    Field::plain("q", "self_attn.q_proj.weight", "attn_q.weight"),
    Field::plain("k", "self_attn.k_proj.weight", "attn_k.weight"),
    Field::plain("v", "self_attn.v_proj.weight", "attn_v.weight"),
    Field::plain("o", "self_attn.o_proj.weight", "attn_output.weight"),
    Field::plain("norm_post", "post_attention_layernorm.weight", "ffn_norm.weight"),
];
const HEAD_NORMS: &[Field] = &[
    Field::plain("norm_q", "self_attn.q_norm.weight", "attn_q_norm.weight"),
    Field::plain("norm_k", "self_attn.k_norm.weight", "attn_k_norm.weight"),
];
pub(crate) const FEED_FORWARD: &[Field] = &[
    Field::plain("gate", "mlp.gate_proj.weight", "ffn_gate.weight"),
    Field::plain("up", "mlp.up_proj.weight", "ffn_up.weight"),
    Field::plain("down", "mlp.down_proj.weight", "ffn_down.weight"),
];
const GEMMA: &[Field] = &[
    Field::centred("norm_in", "input_layernorm.weight", "attn_norm.weight"),
    Field::plain("q", "self_attn.q_proj.weight", "attn_q.weight"),
    Field::plain("k", "self_attn.k_proj.weight", "attn_k.weight"),
    Field::plain("v", "self_attn.v_proj.weight", "attn_v.weight"),
    Field::centred("norm_q", "self_attn.q_norm.weight", "attn_q_norm.weight"),
    Field::centred("norm_k", "self_attn.k_norm.weight", "attn_k_norm.weight"),
    Field::plain("o", "self_attn.o_proj.weight", "attn_output.weight"),
    Field::centred("norm_attention", "post_attention_layernorm.weight", "post_attention_norm.weight"),
    Field::centred("norm_pre", "pre_feedforward_layernorm.weight", "ffn_norm.weight"),
    Field::centred("norm_post", "post_feedforward_layernorm.weight", "post_ffw_norm.weight"),
];
const EMBEDDING: Field = Field::plain("embed", "embed_tokens.weight", "token_embd.weight");
pub(crate) const PLAIN_NORM: Field = Field::plain("norm", "norm.weight", "output_norm.weight");
pub(crate) const CENTRED_NORM: Field = Field::centred("norm", "norm.weight", "output_norm.weight");
/// Its names are the same in the files' root, whatever stands before the model's other tensors.
const HEAD: Field = Field::plain("head", "lm_head.weight", "output.weight");

const HIDDEN: Key = key("hidden_size", "embedding_length");
const WIDTH: Key = key("intermediate_size", "feed_forward_length");

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

fn every_layer(
    mapper: &mut Mapper<'_>,
    lists: &[&[Field]],
    theta: f64,
) -> Result<Vec<(String, String)>, ModelError> {
    activation(mapper.config(), "hidden_act", SILU)?;
    frame(mapper, PLAIN_NORM, false)?;
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

fn llama(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    mapper.dim("F", config.size(WIDTH)?);
    // The converter to GGUF reorders the rows of queries and keys.
    mapper.flag("adjacent", mapper.names() == Names::Gguf);
    every_layer(mapper, &[ATTENTION, FEED_FORWARD], 10_000.0)?;
    Ok(())
}

fn qwen3(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    mapper.dim("F", config.size(WIDTH)?);
    let windows = key("use_sliding_window", "");
    if config.flag_or(windows, false)? {
        return Err(config.senseless(windows, "false"));
    }
    every_layer(mapper, &[ATTENTION, HEAD_NORMS, FEED_FORWARD], 1_000_000.0)?;
    Ok(())
}

fn qwen3_moe(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    if let Config::Json(json) = config {
        if json.size_or("decoder_sparse_step", 1)? != 1 {
            return Err(json.senseless("decoder_sparse_step", "1"));
        }
        let dense = json.get("mlp_only_layers");
        if dense.is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty())) {
            return Err(json.senseless("mlp_only_layers", "an empty list"));
        }
    }
    for (path, tensors) in every_layer(mapper, &[ATTENTION, HEAD_NORMS], 1_000_000.0)? {
        experts(mapper, &path, &tensors)?;
    }
    Ok(())
}

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
    let kinds = sliding_kinds(config, count)?;
    for (layer, kind) in kinds.into_iter().enumerate() {
        let (path, tensors) = (format!("layers.{layer}."), mapper.names().layer(layer));
        mapper.layer(kind);
        let inv_freq = if kind == "full" { &full.inv_freq } else { &near.inv_freq };
        mapper.numbers(format!("{path}inv_freq"), inv_freq.clone());
        mapper.fields(&path, &tensors, GEMMA)?;
        mapper.fields(&path, &tensors, FEED_FORWARD)?;
    }
    Ok(())
}

/// What scores are divided by the square root of. GGUF files do not say it: it is a head's size, and in the largest
/// model, which alone has 62 layers, an equal part of the hidden size.
fn score_scalar(config: Config<'_>, layers: usize) -> Result<f64, ModelError> {
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

fn sliding_kinds(config: Config<'_>, count: usize) -> Result<Vec<&'static str>, ModelError> {
    let pattern = match config {
        Config::Json(json) => {
            if let Some(kinds) = layer_types(json, count, ("sliding_attention", "sliding"))? {
                return Ok(kinds);
            }
            key(
                if json.get("sliding_window_pattern").is_some() {
                    "sliding_window_pattern"
                } else {
                    "_sliding_window_pattern"
                },
                "",
            )
        }
        Config::Gguf(gguf) => {
            let pattern = "attention.sliding_window_pattern";
            if let Some(windows) = gguf.flags(pattern, count)? {
                return Ok(windows.into_iter().map(|near| if near { "sliding" } else { "full" }).collect());
            }
            key("", pattern)
        }
    };
    let interval = config.size_or(pattern, 6)?;
    Ok((1..=count).map(|layer| if layer % interval == 0 { "full" } else { "sliding" }).collect())
}

/// The kinds of `layer_types`, where a `config.json` has it: `full`, or what `other` translates to.
pub(crate) fn layer_types(
    config: Json<'_>,
    count: usize,
    other: (&'static str, &'static str),
) -> Result<Option<Vec<&'static str>>, ModelError> {
    let Some(types) = config.texts("layer_types")? else { return Ok(None) };
    if types.len() != count {
        return Err(config.senseless("layer_types", format!("a list of {count} (num_hidden_layers)")));
    }
    let kind = |name: &str| match name {
        "full_attention" => Ok("full"),
        _ if name == other.0 => Ok(other.1),
        _ => Err(config.senseless("layer_types", format!("{} or full_attention", other.0))),
    };
    types.into_iter().map(kind).collect::<Result<_, _>>().map(Some)
}
