//! The device and the model that flags name.

use std::path::Path;
use std::thread::available_parallelism;

use anyhow::Result;
use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_engine::{Model, ModelOptions, ModelSource};
use fiddlehead_plan::LoadOptions;

use crate::arguments::{DeviceArguments, ModelArguments};
use crate::{embedded, output};

/// How many threads are used.
pub fn threads(arguments: &DeviceArguments) -> usize {
    match arguments.threads {
        Some(threads) => usize::from(threads),
        None => available_parallelism().map_or(1, usize::from),
    }
}

/// The CPU.
pub fn device(arguments: &DeviceArguments) -> CpuDevice {
    CpuDevice::new(threads(arguments))
}

/// The instructions in use, by name.
pub fn features(arguments: &DeviceArguments) -> Vec<String> {
    let features = device(arguments).features();
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

/// Loads a model on a device.
///
/// # Errors
/// Whatever keeps it from loading.
pub fn load(model: &ModelArguments, device: &DeviceArguments) -> Result<Model> {
    let options =
        ModelOptions { load: load_options(device), context: model.context.map(|context| context as usize) };
    let loaded = Model::load(source(model.model.as_deref()), &self::device(device), &options)?;
    let (context, trained) = (loaded.context(), loaded.trained_context());
    if trained > 0 && context > trained {
        output::remark(&format!(
            "note: --context {context} is longer than the {trained} tokens the model was made for"
        ));
    }
    Ok(loaded)
}
