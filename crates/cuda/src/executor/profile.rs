//! How long each kernel of a run takes.

use std::time::Instant;

use super::machine::Machine;
use crate::error::CudaError;

/// How long one kernel of a program takes.
#[derive(Clone, Debug)]
pub struct KernelTime {
    /// Its name.
    pub kernel: String,
    /// The family of what it serves.
    pub family: &'static str,
    /// Blocks of its launch.
    pub blocks: u32,
    /// Mean time of a launch.
    pub microseconds: f64,
}

impl Machine {
    /// The time of each kernel of the batch that ran last: the mean of so many launches in a row.
    pub(super) fn profile(&self, repeats: u32) -> Result<Vec<KernelTime>, CudaError> {
        let runtime = &self.pool.runtime;
        let repeats = repeats.max(1);
        let mut times = Vec::with_capacity(self.launched().len());
        for launch in self.launched() {
            let (kernel, function) = self.launched_kernel(launch);
            // A kernel only writes what it made: again it makes the same.
            runtime.launch(function, launch.grid, kernel.block, &launch.arguments)?;
            runtime.synchronise()?;
            let started = Instant::now();
            for _ in 0..repeats {
                runtime.launch(function, launch.grid, kernel.block, &launch.arguments)?;
            }
            runtime.synchronise()?;
            let microseconds = started.elapsed().as_secs_f64() * 1e6 / f64::from(repeats);
            times.push(KernelTime {
                kernel: kernel.name.clone(),
                family: kernel.family,
                blocks: launch.grid,
                microseconds,
            });
        }
        Ok(times)
    }
}
