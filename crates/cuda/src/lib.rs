//! CUDA: kernels written from the graph, compiled at run time, and the executor that launches them.
//!
//! Start reading at [`emit`] (a graph becomes kernels), then [`executor`]. What a GPU must be able to do is
//! [`runtime::Runtime`]; [`emulator`] does it on the CPU, for tests.

pub mod build;
pub mod driver;
mod emit;
pub mod emulator;
pub mod error;
pub mod executor;
mod memory;
pub mod runtime;

pub use error::CudaError;
pub use executor::{CudaDevice, KernelTime};
