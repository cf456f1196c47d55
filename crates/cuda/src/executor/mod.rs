//! The executor: sessions and batches in device memory, and the launches of a run.
//!
//! A graph's kernels ([`crate::emit`]) are compiled once. A run takes a forest and one session a segment, describes both
//! to the kernels ([`batch`]), and launches them in order ([`machine`]); a regime's buffers and launches are kept. Tokens are
//! chosen where their logits lie ([`sampler`]).
//!
//! What must never live here: the text of kernels, and the name of any model. Start reading at [`machine`].

mod batch;
mod device;
mod history;
mod machine;
mod profile;
mod replay;
mod sampler;
mod session;
mod states;

pub use device::CudaDevice;
pub use profile::KernelTime;
pub(crate) use sampler::SOURCE as SAMPLING;
