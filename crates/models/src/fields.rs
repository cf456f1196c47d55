//! Weights that several architectures have under the same names, in lists for [`crate::Mapper::fields`].
//!
//! Source: the tensor names of Hugging Face's `llama`, `qwen3`, `gemma3_text` and `qwen3_5`, and of GGUF's `llama`,
//! `qwen3`, `gemma3` and `qwen35`. A norm's name says its place in the program; files of different families use one
//! name for norms at different places, so those of Gemma and of the hybrid models stand in their mappings.

use crate::names::Field;

pub(crate) const EMBEDDING: Field = Field::plain("embed", "embed_tokens.weight", "token_embd.weight");
/// Its names are the same in the files' root, whatever stands before the model's other tensors.
pub(crate) const HEAD: Field = Field::plain("head", "lm_head.weight", "output.weight");
pub(crate) const NORM: Field = Field::plain("norm", "norm.weight", "output_norm.weight");
pub(crate) const CENTRED_NORM: Field = Field::centred("norm", "norm.weight", "output_norm.weight");

/// Norms before the attention and before the feed-forward block.
pub(crate) const NORMS: &[Field] = &[
    Field::plain("norm_in", "input_layernorm.weight", "attn_norm.weight"),
    Field::plain("norm_post", "post_attention_layernorm.weight", "ffn_norm.weight"),
];
pub(crate) const ATTENTION: &[Field] = &[
    Field::plain("q", "self_attn.q_proj.weight", "attn_q.weight"),
    Field::plain("k", "self_attn.k_proj.weight", "attn_k.weight"),
    Field::plain("v", "self_attn.v_proj.weight", "attn_v.weight"),
    Field::plain("o", "self_attn.o_proj.weight", "attn_output.weight"),
];
/// Norms of each head of the queries and of the keys.
pub(crate) const HEAD_NORMS: &[Field] = &[
    Field::plain("norm_q", "self_attn.q_norm.weight", "attn_q_norm.weight"),
    Field::plain("norm_k", "self_attn.k_norm.weight", "attn_k_norm.weight"),
];
pub(crate) const CENTRED_HEAD_NORMS: &[Field] = &[
    Field::centred("norm_q", "self_attn.q_norm.weight", "attn_q_norm.weight"),
    Field::centred("norm_k", "self_attn.k_norm.weight", "attn_k_norm.weight"),
];
pub(crate) const FEED_FORWARD: &[Field] = &[
    Field::plain("gate", "mlp.gate_proj.weight", "ffn_gate.weight"),
    Field::plain("up", "mlp.up_proj.weight", "ffn_up.weight"),
    Field::plain("down", "mlp.down_proj.weight", "ffn_down.weight"),
];
