//! Llama 2 and 3, and Mistral's GGUF files.
//!
//! Source: the configuration and tensor names of Hugging Face's `llama`; the keys and tensor names of GGUF's `llama`.

use crate::architecture::Architecture;
use crate::error::ModelError;
use crate::fields::{ATTENTION, FEED_FORWARD, NORMS};
use crate::frame::{WIDTH, every_layer};
use crate::mapper::Mapper;
use crate::names::Names;

pub(crate) const LLAMA: Architecture = Architecture {
    name: "llama",
    model_types: &["llama"],
    gguf_names: &["llama"],
    program: include_str!("../../programs/llama.fh"),
    map: llama,
};

fn llama(mapper: &mut Mapper<'_>) -> Result<(), ModelError> {
    let config = mapper.config();
    mapper.dim("F", config.size(WIDTH)?);
    // The converter to GGUF reorders the rows of queries and keys.
    mapper.flag("adjacent", mapper.names() == Names::Gguf);
    every_layer(mapper, &[NORMS, ATTENTION, FEED_FORWARD], 10_000.0)?;
    Ok(())
}
