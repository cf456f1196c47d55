//! NVIDIA's driver and compiler, opened at run time: without them CUDA is absent, and that is an error value.

mod compiler;
mod gpu;
mod library;
mod staging;

pub use compiler::{Compiled, Compiler};
pub use gpu::{Gpu, GpuFacts, gpus};
