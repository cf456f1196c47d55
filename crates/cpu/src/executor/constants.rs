//! What is computed when a program is made: nodes that depend on weights and literals alone, and weights in a form that
//! can be read word by word.

use fiddlehead_graph::queries::Variance;
use fiddlehead_graph::{Element, NodeId, NodeKind, ParamId};
use fiddlehead_plan::DeviceError;
use fiddlehead_storage::Format as StoredFormat;

use super::blocks::readable_in_place;
use super::lower::{Lowering, weight_slot};
use super::memory::Words;
use super::program::{BufferIndex, Place};
use crate::bytecode::{Frame, NoHistories, Scratch, Slot};
use fiddlehead_plan::order::SetIndex;
use fiddlehead_plan::order::state_of;

impl Lowering<'_> {
    /// A buffer whose rows can be copied word by word: a weight is decoded.
    pub(super) fn readable(
        &mut self,
        node: NodeId,
        set: Option<SetIndex>,
    ) -> Result<BufferIndex, DeviceError> {
        let buffer = self.buffer(node, set)?;
        if let Place::Weight(param) = self.program.buffers[buffer].place {
            let place = self.decoded(param)?;
            // Readers compiled before read the weight as it is stored; those that come get the copy.
            return self.new_buffer(node, None, place);
        }
        Ok(buffer)
    }

    pub(super) fn weight_place(&mut self, param: ParamId) -> Result<Place, DeviceError> {
        let tensor = &self.program.weights[param.index()];
        let in_place = match tensor.format() {
            StoredFormat::F32 => tensor.as_f32().is_some(),
            _ => readable_in_place(tensor),
        };
        let float = self.program.graph.params()[param.index()].element == Element::F32;
        if in_place && float { Ok(Place::Weight(param)) } else { self.decoded(param) }
    }

    fn decoded(&mut self, param: ParamId) -> Result<Place, DeviceError> {
        let tensor = &self.program.weights[param.index()];
        let declared = &self.program.graph.params()[param.index()];
        let mut words = Words::allocate(tensor.elements(), format!("the weight `{}`", declared.name))?;
        if self.context.dry {
            self.program.constants.push(words);
            return Ok(Place::Constant(self.program.constants.len() - 1));
        }
        let values = tensor
            .to_f32()
            .map_err(|error| DeviceError::Weight { name: declared.name.clone(), why: error.to_string() })?;
        for (word, value) in words.as_mut_slice().iter_mut().zip(values) {
            *word = match declared.element {
                Element::F32 => value.to_bits(),
                _ => value as i32 as u32,
            };
        }
        self.program.constants.push(words);
        Ok(Place::Constant(self.program.constants.len() - 1))
    }

    /// Computes the nodes that depend on weights and literals alone.
    pub(super) fn constants(&mut self) -> Result<(), DeviceError> {
        let graph = self.program.graph.clone();
        for node in graph.node_ids() {
            let constant = self.facts.variance[node.index()] == Variance::Constant;
            if !constant || self.facts.demand[node.index()].is_none() || state_of(&graph, node).is_some() {
                continue;
            }
            match &graph.node(node).kind {
                NodeKind::Constant(constant) => {
                    let mut words = Words::zeroed(constant.values.len());
                    let bits = constant.values.iter().map(|value| value.to_bits());
                    words.as_mut_slice().iter_mut().zip(bits).for_each(|(word, bits)| *word = bits);
                    self.add_constant(node, words)?;
                }
                NodeKind::Compute(_) | NodeKind::Top { .. } if graph.shape(node).is_some() => {
                    let words = self.evaluate(node)?;
                    self.add_constant(node, words)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add_constant(&mut self, node: NodeId, words: Words) -> Result<(), DeviceError> {
        self.program.constants.push(words);
        self.new_buffer(node, None, Place::Constant(self.program.constants.len() - 1)).map(|_| ())
    }

    fn evaluate(&mut self, node: NodeId) -> Result<Words, DeviceError> {
        let program = self.compile(node, node, None)?;
        // The compiled program's own buffer becomes the constant's.
        self.index.remove(&(node, None));
        let mut words = Words::allocate(self.program.buffers[program.to].elements, "a constant")?;
        let mut slots = Vec::with_capacity(self.program.buffers.len());
        for (index, buffer) in self.program.buffers.iter().enumerate() {
            slots.push(match buffer.place {
                // SAFETY: the words are exclusive to this evaluation and hold the node's elements.
                _ if index == program.to => unsafe {
                    Slot::words(words.as_mut_ptr(), words.len(), words.len())
                },
                Place::Constant(place) => {
                    let constant = &self.program.constants[place];
                    // SAFETY: a program only reads the slots of its sources.
                    unsafe { Slot::words(constant.as_ptr().cast_mut(), constant.len(), constant.len()) }
                }
                Place::Weight(param) => weight_slot(&self.program.weights[param.index()]),
                _ => Slot::EMPTY,
            });
        }
        let frame = Frame { slots: &slots, here: &[0], histories: &NoHistories };
        let result = program.code.run(&frame, 0..1, None, &mut Scratch::default());
        drop(slots);
        result.map_err(|trap| super::run::trap_error(&self.program.graph, &trap))?;
        self.program.buffers[program.to].elements = 0;
        Ok(words)
    }
}
