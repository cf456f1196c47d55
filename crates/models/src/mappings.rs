//! One mapping an architecture, and the table of them all.
//!
//! What must never live here: what several families share, which is in `fields.rs`, `frame.rs`, `kinds.rs`, `rope.rs`
//! and `experts.rs`. Start reading at `llama.rs`.

pub(crate) mod gemma3;
pub(crate) mod hybrid;
mod llama;
mod mistral;
pub(crate) mod qwen2;
mod qwen3;

use crate::architecture::Architecture;

/// Every architecture that can be served. Adding one is adding a line here, a program and a mapping.
pub fn architectures() -> &'static [Architecture] {
    &[
        llama::LLAMA,
        mistral::MISTRAL,
        qwen2::QWEN2,
        qwen3::QWEN3,
        qwen3::QWEN3_MOE,
        gemma3::GEMMA3,
        hybrid::QWEN3_5,
        hybrid::QWEN3_5_MOE,
        hybrid::QWEN3_NEXT,
    ]
}
