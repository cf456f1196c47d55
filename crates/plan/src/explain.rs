//! A plan told to people and to tools.

use fiddlehead_graph::Graph;
use fiddlehead_storage::Tensor;

use crate::device::{DeviceError, Weights};

/// One kernel call of a plan and why it was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The site's family: `contraction`, `attention`, `recurrence`, `rows`, …
    pub family: String,
    /// What it computes: names of the graph's nodes.
    pub nodes: Vec<String>,
    /// The candidate that serves it.
    pub candidate: String,
    /// Extents, bytes and costs behind the choice.
    pub detail: String,
    /// Predicted microseconds for the regime reported.
    pub microseconds: f64,
}

/// How a graph is run in one regime.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanReport {
    /// The regime, in words.
    pub regime: String,
    /// Kernel calls in order.
    pub steps: Vec<StepReport>,
    /// What nearly matched a site and was refused: the node's name and the reason.
    pub refusals: Vec<(String, String)>,
    /// Bytes of buffers under the liveness plan, and without sharing.
    pub planned_bytes: usize,
    /// Bytes the buffers would take without sharing.
    pub unshared_bytes: usize,
}

/// Weights of the declared shapes, all zero: a plan depends on no weight's value.
///
/// # Errors
/// [`DeviceError::Weight`] when a declared shape is too large.
pub fn placeholder_weights(graph: &Graph) -> Result<Weights, DeviceError> {
    let mut weights = Weights::new();
    for param in graph.params() {
        let elements: usize = param.shape.iter().product();
        let tensor = Tensor::from_f32(param.shape.clone(), vec![0.0; elements])
            .map_err(|error| DeviceError::Weight { name: param.name.clone(), why: error.to_string() })?;
        weights.insert(param.name.clone(), tensor);
    }
    Ok(weights)
}
