//! What the executor needs of a machine with kernels: memory, modules, launches in order on one stream.
//!
//! The driver implements it on a GPU. Tests implement it on the CPU, so that every kernel runs where no GPU is.

use std::sync::Arc;

use crate::error::CudaError;

/// A kernel of a loaded module.
#[derive(Clone)]
pub struct Function {
    /// The runtime's own name for it.
    pub handle: u64,
    /// Keeps its module loaded.
    pub module: Arc<dyn Send + Sync>,
}

/// Work that was recorded and runs again at once.
pub struct Recording {
    /// The runtime's own name for it.
    pub handle: u64,
    /// Frees it.
    pub owner: Arc<dyn Send + Sync>,
}

/// A kernel as text wants it compiled.
#[derive(Clone, Copy, Debug)]
pub struct KernelName<'a> {
    /// Its name in the module.
    pub name: &'a str,
    /// How many arguments it takes, all addresses.
    pub arguments: usize,
}

/// A device's memory and its one stream: everything happens in the order it was asked for.
pub trait Runtime: Send + Sync {
    /// The device, for people.
    fn describe(&self) -> String;
    /// Blocks beyond which a launch gains nothing: kernels walk over what more blocks would do.
    fn most_blocks(&self) -> usize;
    /// Takes memory.
    fn allocate(&self, bytes: usize) -> Result<u64, CudaError>;
    /// Gives memory back.
    fn free(&self, address: u64);
    /// Copies from the host; `bytes` may change as soon as this returns.
    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), CudaError>;
    /// Copies to the host, after everything before it is done.
    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), CudaError>;
    /// Copies within the device.
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError>;
    /// Sets every byte.
    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), CudaError>;
    /// Compiles and loads a module; one function for each name.
    fn compile(&self, source: &str, kernels: &[KernelName<'_>]) -> Result<Vec<Function>, CudaError>;
    /// Launches a kernel over a row of blocks.
    fn launch(&self, function: &Function, grid: u32, block: u32, arguments: &[u64]) -> Result<(), CudaError>;
    /// Waits for everything.
    fn synchronise(&self) -> Result<(), CudaError>;
    /// Starts to record launches instead of running them; false when the device cannot.
    fn record(&self) -> Result<bool, CudaError>;
    /// Ends the recording.
    fn recorded(&self) -> Result<Recording, CudaError>;
    /// Runs a recording.
    fn replay(&self, recording: &Recording) -> Result<(), CudaError>;
}
