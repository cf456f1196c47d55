//! Loading checkpoints and golden files for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::lower::lower_model;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_models::{bind, fit};
use fiddlehead_oracle::{Weight, Weights};

/// A folder of `models/`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name)
}

/// The folder of fixtures that are not tracked, where it is given.
pub fn fixtures() -> Option<PathBuf> {
    std::env::var_os("FIDDLEHEAD_TEST_FIXTURES").map(PathBuf::from)
}

/// A checkpoint's graphs, rewritten, and its weights for the oracle.
pub fn load(path: &Path) -> (ModelGraph, Weights) {
    let checkpoint = Checkpoint::open(path).unwrap();
    let bound = bind(&checkpoint).unwrap();
    let program = fiddlehead_lang::compile("model.fh", bound.architecture.program).unwrap_or_else(|errors| {
        panic!("{}", errors.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join("\n"))
    });
    let model = lower_model(&program, bound.architecture.name, &bound.bindings).unwrap();
    let model = ModelGraph { name: model.name, steps: model.steps.iter().map(optimise).collect() };
    let weights = fit(&bound, &model)
        .unwrap()
        .into_iter()
        .map(|(name, tensor)| (name, Weight::Float(Arc::from(tensor.to_f32().unwrap()))))
        .collect();
    (model, weights)
}

/// An array of an `.npz` file and its shape.
pub fn array<T: npyz::Deserialize>(file: &Path, name: &str) -> (Vec<T>, Vec<usize>) {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(file).unwrap()).unwrap();
    let array = npyz::NpyFile::new(archive.by_name(&format!("{name}.npy")).unwrap()).unwrap();
    let shape = array.shape().iter().map(|&extent| extent as usize).collect();
    (array.into_vec().unwrap(), shape)
}

/// The greatest difference, infinite when something is no number, and the greatest wanted magnitude.
pub fn worst(found: &[f64], wanted: &[f32]) -> (f64, f64) {
    let errors = found.iter().zip(wanted).map(|(a, b)| (a - f64::from(*b)).abs());
    let error = errors.map(|error| if error.is_nan() { f64::INFINITY } else { error }).fold(0.0, f64::max);
    let scale = wanted.iter().map(|b| f64::from(b.abs())).fold(0.0, f64::max);
    (error, scale)
}
