//! The device that tests run on.

use std::sync::Arc;

use fiddlehead_cuda::CudaDevice;
use fiddlehead_cuda::emulator::Emulator;
use tempfile::TempDir;

/// Emulated CUDA, with the folder that keeps its modules; `None`, and a word about it, without a C++ compiler.
pub fn device() -> Option<(CudaDevice, TempDir)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(emulator) = Emulator::new(folder.path()) else {
        println!("skipped: there is no g++ for x86-64 to emulate CUDA with");
        return None;
    };
    Some((CudaDevice::new(Arc::new(emulator)), folder))
}
