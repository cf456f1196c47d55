//! Mistral. Its GGUF files call themselves `llama` and say nothing of a window.
//!
//! Source: the configuration and tensor names of Hugging Face's `mistral`.

use crate::architecture::Architecture;
use crate::config::key;
use crate::error::ModelError;
use crate::fields::{ATTENTION, FEED_FORWARD, NORMS};
use crate::frame::{WIDTH, every_layer};
use crate::mapper::Mapper;

pub(crate) const MISTRAL: Architecture = Architecture {
    name: "mistral",
    model_types: &["mistral"],
    gguf_names: &[],
    program: include_str!("../../programs/mistral.fh"),
    map: mistral,
};

fn mistral(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    mapper.dim("F", config.size(WIDTH)?);
    let window = key("sliding_window", "");
    let kind = if config.has(window) { "sliding" } else { "full" };
    // Without a window no layer reads its size.
    mapper.dim("W", config.size_or(window, 1)?);
    for _ in every_layer(mapper, &[NORMS, ATTENTION, FEED_FORWARD], 10_000.0)? {
        mapper.layer(kind);
    }
    Ok(())
}
