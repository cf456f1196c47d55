//! The last check before a device gets the weights: every one has the shape that its program declares.

use std::collections::BTreeMap;

use fiddlehead_graph::ModelGraph;
use fiddlehead_storage::Tensor;

use crate::error::ModelError;
use crate::mapper::Bound;

/// The weights that the graphs read, each in its declared shape. Axes of extent one may come and go (a depthwise
/// convolution's weight is `[channels, 1, taps]` in Hugging Face files); nothing else may differ.
///
/// # Errors
/// The first weight whose shape differs, by its names in the checkpoint and in the program.
pub fn fit(bound: &Bound, model: &ModelGraph) -> Result<BTreeMap<String, Tensor>, ModelError> {
    let mut weights = BTreeMap::new();
    for param in model.steps.iter().flat_map(|step| step.params()) {
        if weights.contains_key(&param.name) {
            continue;
        }
        let (Some(tensor), Some(source)) = (bound.weights.get(&param.name), bound.sources.get(&param.name))
        else {
            return Err(ModelError::Unbound {
                param: param.name.clone(),
                architecture: bound.architecture.name,
            });
        };
        let misfit = || ModelError::Shape {
            tensor: source.clone(),
            param: param.name.clone(),
            found: tensor.shape().to_vec(),
            wanted: param.shape.clone(),
        };
        let longer_than_one = |shape: &[usize]| shape.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        if longer_than_one(tensor.shape()) != longer_than_one(&param.shape) {
            return Err(misfit());
        }
        weights.insert(param.name.clone(), tensor.reshape(param.shape.clone()).map_err(|_| misfit())?);
    }
    Ok(weights)
}
