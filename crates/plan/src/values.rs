//! Values on their way to and from a device: inputs and weights checked against their declarations, outputs collected.

use std::borrow::Cow;

use fiddlehead_graph::{Element, Graph, Input, Param};
use fiddlehead_storage::Tensor;

use crate::device::{DeviceError, Values, Weights};

/// Refuses a graph that is no plain function: one that [`crate::Device::call`] cannot run.
///
/// # Errors
/// [`DeviceError::Input`] for an input of each node, [`DeviceError::Unsupported`] for states and histories.
pub fn plain_function(graph: &Graph) -> Result<(), DeviceError> {
    if let Some(input) = graph.inputs().iter().find(|input| input.per_node) {
        let why = "a plain function has no input of each node: load it as a model's step".into();
        return Err(DeviceError::Input { name: input.name.clone(), why });
    }
    if !graph.states().is_empty() || !graph.histories().is_empty() {
        let why = "it has states or histories: load it as a model's step".into();
        return Err(DeviceError::Unsupported { what: format!("`{}`", graph.name()), why });
    }
    Ok(())
}

/// The weights of a graph's parameters, in their order.
///
/// # Errors
/// [`DeviceError::Weight`] for one that is missing or has another shape than is declared.
pub fn weights_of(graph: &Graph, weights: &Weights) -> Result<Vec<Tensor>, DeviceError> {
    let find = |param: &Param| {
        let wrong = |why: String| DeviceError::Weight { name: param.name.clone(), why };
        let tensor =
            weights.get(&param.name).ok_or_else(|| wrong("the checkpoint does not hold it".into()))?;
        if tensor.shape() != param.shape {
            let (declared, found) = (&param.shape, tensor.shape());
            return Err(wrong(format!("the program declares {declared:?}, the checkpoint holds {found:?}")));
        }
        Ok(tensor.clone())
    };
    graph.params().iter().map(find).collect()
}

/// Inputs of a run, checked: each as words of four bytes, floats as their bits, truth values as zero and one.
#[derive(Debug)]
pub struct InputBuffers<'a> {
    words: Vec<Cow<'a, [u32]>>,
}

impl<'a> InputBuffers<'a> {
    /// Checks `values` against `inputs` for a batch of `rows` nodes.
    ///
    /// # Errors
    /// [`DeviceError::Input`] for a missing or additional input, and for a wrong type or length.
    pub fn new(inputs: &[Input], values: &'a [Values], rows: usize) -> Result<Self, DeviceError> {
        if let Some(missing) = inputs.get(values.len()) {
            let why = format!("it is missing: {} of {} inputs were given", values.len(), inputs.len());
            return Err(DeviceError::Input { name: missing.name.clone(), why });
        }
        if values.len() > inputs.len() {
            let why = format!("{} inputs were given to a step that has {}", values.len(), inputs.len());
            return Err(DeviceError::Input { name: "(the last)".into(), why });
        }
        let mut words = Vec::with_capacity(inputs.len());
        for (input, values) in inputs.iter().zip(values) {
            let wrong = |why: String| DeviceError::Input { name: input.name.clone(), why };
            if values.element() != input.element {
                return Err(wrong(format!("it is {:?}, declared {:?}", values.element(), input.element)));
            }
            let elements: usize = input.shape.iter().product();
            let expected = if input.per_node { elements * rows } else { elements };
            if values.len() != expected {
                return Err(wrong(format!("it has {} elements, {expected} are needed", values.len())));
            }
            words.push(match values {
                Values::F32(values) => Cow::Borrowed(bytemuck::cast_slice(values)),
                Values::I32(values) => Cow::Borrowed(bytemuck::cast_slice(values)),
                Values::Id(values) => Cow::Borrowed(values.as_slice()),
                Values::Bool(values) => Cow::Owned(values.iter().map(|&value| value as u32).collect()),
            });
        }
        Ok(InputBuffers { words })
    }

    /// By input: its words.
    pub fn words(&self) -> &[Cow<'a, [u32]>] {
        &self.words
    }
}

/// Words collected as values of their element.
#[derive(Debug)]
pub struct Collected {
    /// What was collected.
    pub values: Values,
}

impl Collected {
    /// Nothing yet.
    pub fn new(element: Element) -> Collected {
        let values = match element {
            Element::F32 => Values::F32(Vec::new()),
            Element::I32 => Values::I32(Vec::new()),
            Element::Bool => Values::Bool(Vec::new()),
            Element::Id => Values::Id(Vec::new()),
        };
        Collected { values }
    }
    /// Adds words.
    pub fn extend(&mut self, words: &[u32]) {
        match &mut self.values {
            Values::F32(values) => values.extend(words.iter().map(|&word| f32::from_bits(word))),
            Values::I32(values) => values.extend(words.iter().map(|&word| word as i32)),
            Values::Bool(values) => values.extend(words.iter().map(|&word| word != 0)),
            Values::Id(values) => values.extend_from_slice(words),
        }
    }
}
