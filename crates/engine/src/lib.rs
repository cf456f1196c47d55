//! Models that answer: loading, sessions, sampling and generation.
//!
//! What lives here: a model made ready on a device ([`Model`]), the path of a conversation ([`Session`]), the loop that
//! goes from token to token ([`Generator`]), and how likely a model finds a text ([`score()`], [`perplexity()`]).
//!
//! What must never live here: kernels and devices (an engine is handed a `&dyn Device`), files' formats, HTTP, and
//! anything that knows an architecture by name.
//!
//! Start reading at [`Generator::generate`]; `session.rs` says how a prompt is cut. How a token is chosen is said in
//! [`fiddlehead_plan::sampling`], since devices do it.

mod chunks;
mod companions;
mod defaults;
mod error;
mod generate;
mod gguf;
mod inspect;
mod load;
mod memory;
mod model;
mod observer;
mod perplexity;
mod prefix;
mod program;
mod reference;
mod score;
mod seed;
mod session;
mod stand_in;
mod step;

pub use chunks::{CUT, prompt_chunks};
pub use defaults::Defaults;
pub use error::EngineError;
pub use fiddlehead_lang::hir::Program;
pub use fiddlehead_lang::outline::outline;
pub use fiddlehead_plan::{PathCounts, Sampling, SamplingError, TokenChoice};
pub use generate::{FinishReason, Generation, GenerationTimings, Generator, Request};
pub use gguf::tokenizer as gguf_tokenizer;
pub use inspect::{Inspection, MetadataEntry, Serving, TensorEntry, inspect};
pub use load::{ModelOptions, ModelSource, Prepared};
pub use memory::{AvailableMemory, ByteSize, MemoryBound, MemoryEstimate};
pub use model::{LoadTimings, Model, ModelParts};
pub use observer::{LoadObserver, LoadStage};
pub use perplexity::{Document, Likelihood, Windows, perplexity};
pub use program::{Function, NamedArray, compile};
pub use reference::Reference;
pub use score::{ScoredPath, TokenScore, score};
pub use seed::draw_seed;
pub use session::{PROMPT_CHUNK, RowVisitor, Session};
pub use stand_in::{StandIn, stand_in};
pub use step::StepInterface;
