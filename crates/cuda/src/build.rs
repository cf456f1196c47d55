//! Kernels compiled ahead: the text of a graph's module, and what the compiler says of it.

use fiddlehead_graph::Graph;
use fiddlehead_plan::{DeviceError, LoadOptions, Policy, Weights};

use crate::driver::Compiled;
use crate::emit::{Context, lower};

/// The text of the module that serves a graph with these weights; only their formats matter.
///
/// # Errors
/// What keeps the graph from being lowered.
pub fn module_text(graph: &Graph, weights: &Weights, options: &LoadOptions) -> Result<String, DeviceError> {
    let policy: Policy = crate::CudaDevice::policy(options)?;
    Ok(lower(graph, Context { weights, policy: &policy })?.source())
}

/// The text of the module that chooses tokens, the same for every model.
pub const SAMPLING: &str = crate::executor::SAMPLING;

/// What one kernel takes of the machine, as the compiler says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Its name.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: usize,
    /// Bytes that a thread spills to memory, stores and loads.
    pub spills: usize,
    /// Bytes of a thread's stack.
    pub stack: usize,
    /// Bytes of shared memory of a block.
    pub shared: usize,
}

/// The resources of each kernel of a compiled module; none when it came from the cache.
pub fn resources(compiled: &Compiled) -> Vec<Resources> {
    let mut found: Vec<Resources> = Vec::new();
    for line in compiled.log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_string();
            found.push(Resources { kernel, ..Resources::default() });
        }
        let Some(last) = found.last_mut() else { continue };
        let before = |word: &str| {
            let (front, _) = line.split_once(word)?;
            front.rsplit(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse::<usize>().ok()
        };
        if let Some(bytes) = before(" bytes stack frame") {
            last.stack = bytes;
        }
        last.spills += before(" bytes spill stores").unwrap_or(0) + before(" bytes spill loads").unwrap_or(0);
        if let Some(registers) = before(" registers") {
            last.registers = registers;
        }
        if let Some(bytes) = before(" bytes smem") {
            last.shared = bytes;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_the_log() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'k0_x' for 'sm_90a'\n\
                   ptxas info    : Function properties for k0_x\n\
                   ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
                   ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem\n";
        let compiled = Compiled { code: Vec::new(), log: log.into(), cached: false };
        let wanted = Resources { kernel: "k0_x".into(), registers: 40, spills: 12, stack: 16, shared: 1024 };
        assert_eq!(resources(&compiled), [wanted]);
    }
}
