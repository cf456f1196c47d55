//! Qwen3, and Qwen3 with experts.
//!
//! Source: the configurations and tensor names of Hugging Face's `qwen3` and `qwen3_moe`; the keys and tensor names of
//! GGUF's `qwen3` and `qwen3moe`.

use crate::architecture::Architecture;
use crate::config::Config;
use crate::error::ModelError;
use crate::experts::experts;
use crate::fields::{ATTENTION, FEED_FORWARD, HEAD_NORMS, NORMS};
use crate::frame::{WIDTH, every_layer};
use crate::kinds::no_windows;
use crate::mapper::Mapper;

pub(crate) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    model_types: &["qwen3"],
    gguf_names: &["qwen3"],
    program: include_str!("../../programs/qwen3.fh"),
    map: qwen3,
};

pub(crate) const QWEN3_MOE: Architecture = Architecture {
    name: "qwen3_moe",
    model_types: &["qwen3_moe"],
    gguf_names: &["qwen3moe"],
    program: include_str!("../../programs/qwen3_moe.fh"),
    map: qwen3_moe,
};

fn qwen3(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    mapper.dim("F", config.size(WIDTH)?);
    no_windows(config)?;
    every_layer(mapper, &[NORMS, ATTENTION, HEAD_NORMS, FEED_FORWARD], 1_000_000.0)?;
    Ok(())
}

fn qwen3_moe(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    no_windows(config)?;
    if let Config::Json(json) = config {
        if json.size_or("decoder_sparse_step", 1)? != 1 {
            return Err(json.senseless("decoder_sparse_step", "1"));
        }
        let dense = json.get("mlp_only_layers");
        if dense.is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty())) {
            return Err(json.senseless("mlp_only_layers", "an empty list"));
        }
    }
    for (path, tensors) in every_layer(mapper, &[NORMS, ATTENTION, HEAD_NORMS], 1_000_000.0)? {
        experts(mapper, &path, &tensors)?;
    }
    Ok(())
}
