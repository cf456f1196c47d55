//! The device and the model that flags name.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::Result;
use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_cuda::CudaDevice;
use fiddlehead_cuda::driver::{Compiler, Gpu, gpus};
use fiddlehead_engine::{AvailableMemory, LoadObserver, Model, ModelOptions, ModelSource};
use fiddlehead_plan::{Device, LoadOptions};

use crate::arguments::{DeviceArguments, DeviceName, MemoryChoice, ModelArguments};
use crate::progress::{LoadBar, remark};
use crate::{embedded, output};

/// How many threads are used.
pub fn threads(arguments: &DeviceArguments) -> usize {
    match arguments.threads {
        Some(threads) => usize::from(threads),
        None => available_parallelism().map_or(1, usize::from),
    }
}

/// The CPU.
pub fn cpu(arguments: &DeviceArguments) -> CpuDevice {
    CpuDevice::new(threads(arguments))
}

/// The device that flags name.
///
/// # Errors
/// A GPU that was asked for and cannot be used.
pub fn device(arguments: &DeviceArguments) -> Result<Box<dyn Device>> {
    match arguments.device {
        DeviceName::Cpu => Ok(Box::new(cpu(arguments))),
        DeviceName::Cuda(index) => Ok(Box::new(CudaDevice::new(Arc::new(gpu(arguments, index)?)))),
        DeviceName::Auto => match gpus() {
            Err(_) => Ok(Box::new(cpu(arguments))),
            Ok(found) if found.is_empty() => Ok(Box::new(cpu(arguments))),
            Ok(_) => match gpu(arguments, 0) {
                Ok(gpu) => Ok(Box::new(CudaDevice::new(Arc::new(gpu)))),
                Err(error) => {
                    output::remark(&format!("note: there is a GPU, and the CPU serves: {error}"));
                    Ok(Box::new(cpu(arguments)))
                }
            },
        },
    }
}

/// The GPU that flags name, the first one when they name none.
///
/// # Errors
/// As [`gpu`].
pub fn cuda(arguments: &DeviceArguments) -> Result<CudaDevice> {
    let index = if let DeviceName::Cuda(index) = arguments.device { index } else { 0 };
    Ok(CudaDevice::new(Arc::new(gpu(arguments, index)?)))
}

/// The GPU of a number, with the compiler for its kernels.
///
/// # Errors
/// A missing driver or compiler, a missing GPU.
pub fn gpu(arguments: &DeviceArguments, index: usize) -> Result<Gpu> {
    let home = || Some(std::env::home_dir()?.join(".cache/fiddlehead/kernels"));
    let cache = arguments.kernel_cache.clone().or_else(home);
    // Who has no driver is told so before he goes and installs a compiler.
    gpus()?;
    let compiler = Compiler::open(arguments.compiler.nvrtc.as_deref(), cache)?;
    let compiler = compiler.announce(|kernels| {
        remark(&format!("compiling {kernels} GPU kernels; they are kept for the next time"));
    });
    Ok(Gpu::open(index, compiler)?)
}

/// The instructions in use, by name.
pub fn features(arguments: &DeviceArguments) -> Vec<String> {
    let features = cpu(arguments).features();
    let extensions = [("avx512_vnni", features.avx512_vnni), ("avx512_bf16", features.avx512_bf16)];
    let extensions = extensions.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned());
    std::iter::once(format!("{:?}", features.isa).to_lowercase()).chain(extensions).collect()
}

/// How programs and models are run.
pub fn load_options(arguments: &DeviceArguments) -> LoadOptions {
    LoadOptions { numerics: arguments.numerics, dispatch: arguments.dispatch(), ..LoadOptions::default() }
}

/// Where the model is that a path names: the built-in one without a path.
pub fn source(path: Option<&Path>) -> ModelSource<'_> {
    match path {
        Some(path) => ModelSource::Path(path),
        None => embedded::source(),
    }
}

/// The model's name for people.
pub fn name(path: Option<&Path>) -> String {
    path.map_or_else(|| embedded::NAME.to_owned(), |path| path.display().to_string())
}

/// Memory that may be taken: what the flag says, else what the system says. `None` does not ask.
pub fn available(asked: Option<MemoryChoice>) -> Option<AvailableMemory> {
    match asked {
        Some(MemoryChoice::Any) => None,
        Some(MemoryChoice::AtMost(size)) => Some(AvailableMemory::asked(size.0)),
        None => AvailableMemory::now(),
    }
}

/// Loads a model on the device that flags name, with a progress bar where somebody looks on.
///
/// # Errors
/// Whatever keeps it from loading.
pub fn load(model: &ModelArguments, arguments: &DeviceArguments) -> Result<Model> {
    load_on(device(arguments)?.as_ref(), model, arguments, false)
}

/// As [`load`], without a progress bar.
///
/// # Errors
/// As [`load`].
pub fn load_quietly(model: &ModelArguments, arguments: &DeviceArguments) -> Result<Model> {
    load_on(device(arguments)?.as_ref(), model, arguments, true)
}

/// As [`load`] or [`load_quietly`], on a device.
///
/// # Errors
/// As [`load`].
pub fn load_on(
    device: &dyn Device,
    model: &ModelArguments,
    arguments: &DeviceArguments,
    quietly: bool,
) -> Result<Model> {
    let bar = (!quietly && std::io::stderr().is_terminal()).then(LoadBar::on_terminal);
    let options = ModelOptions {
        load: load_options(arguments),
        context: model.context.map(|context| context as usize),
        available: available(model.memory),
        observer: bar.clone().map(|bar| bar as Arc<dyn LoadObserver>),
    };
    let loaded = Model::load(source(model.model.as_deref()), device, &options);
    if let Some(bar) = bar {
        bar.end();
    }
    let loaded = loaded?;
    let (context, trained) = (loaded.context(), loaded.trained_context());
    if trained > 0 && context > trained {
        output::remark(&format!(
            "note: --context {context} is longer than the {trained} tokens the model was made for"
        ));
    }
    Ok(loaded)
}
