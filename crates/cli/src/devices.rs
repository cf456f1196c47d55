//! `fiddlehead devices`: where programs and models can run.

use std::fmt::Write;
use std::process::ExitCode;
use std::thread::available_parallelism;

use anyhow::Result;
use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_cuda::driver::gpus;
use fiddlehead_plan::Device;

use crate::output;

/// Lists devices.
///
/// # Errors
/// Standard output that cannot be written.
pub fn devices() -> Result<ExitCode> {
    let threads = available_parallelism().map_or(1, usize::from);
    let mut text = format!("cpu     {}\n", CpuDevice::new(threads).describe());
    match gpus() {
        Ok(found) if found.is_empty() => text.push_str("cuda    a driver, but no GPU\n"),
        Ok(found) => {
            for gpu in found {
                let ((major, minor), (driver, point)) = (gpu.capability, gpu.driver);
                let _ = writeln!(
                    text,
                    "cuda:{}  {}, compute capability {major}.{minor}, {} multiprocessors, {:.1} GiB, driver for CUDA \
                     {driver}.{point}",
                    gpu.index,
                    gpu.name,
                    gpu.multiprocessors,
                    gpu.memory as f64 / f64::from(1 << 30),
                );
            }
        }
        Err(error) => {
            let _ = writeln!(text, "cuda    none: {error}");
        }
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
