//! Qwen2 and Qwen2.5 (also Qwen1.5, whose files bear the same names).
//!
//! Source: the configuration and tensor names of Hugging Face's `qwen2`; the keys and tensor names of GGUF's `qwen2`.

use crate::architecture::Architecture;
use crate::error::ModelError;
use crate::fields::{ATTENTION, FEED_FORWARD, NORMS};
use crate::frame::{WIDTH, every_layer};
use crate::kinds::no_windows;
use crate::mapper::Mapper;
use crate::names::Field;

pub(crate) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    model_types: &["qwen2"],
    gguf_names: &["qwen2"],
    program: include_str!("../../programs/qwen2.fh"),
    map: qwen2,
};

pub(crate) const BIASES: &[Field] = &[
    Field::plain("bias_q", "self_attn.q_proj.bias", "attn_q.bias"),
    Field::plain("bias_k", "self_attn.k_proj.bias", "attn_k.bias"),
    Field::plain("bias_v", "self_attn.v_proj.bias", "attn_v.bias"),
];

fn qwen2(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    mapper.dim("F", config.size(WIDTH)?);
    no_windows(config)?;
    every_layer(mapper, &[NORMS, ATTENTION, BIASES, FEED_FORWARD], 10_000.0)?;
    Ok(())
}
