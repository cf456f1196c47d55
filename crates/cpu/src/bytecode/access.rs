//! Emission of what touches memory: addresses, loads and stores.

use super::choose::{Address, address, pattern};
use super::code::*;
use super::emit::{Emitter, Place, Size};
use super::frame::Read;
use super::layout::{Format, Strides};
use super::value::Value;

impl Emitter<'_> {
    pub(super) fn coefficient(&mut self, coefficient: Coefficient) -> u32 {
        let known = self.code.coefficients.iter().position(|known| *known == coefficient);
        known.unwrap_or_else(|| {
            self.code.coefficients.push(coefficient);
            self.code.coefficients.len() - 1
        }) as u32
    }

    /// The coefficient of `by` steps along an axis.
    pub(super) fn scaled(
        &self,
        strides: &Strides,
        source: Option<usize>,
        axis: usize,
        by: i64,
    ) -> Coefficient {
        match strides {
            Strides::Fixed(strides) => Coefficient::Known(strides[axis] as i64 * by),
            Strides::Local => Coefficient::Local { source, axis, factor: by },
        }
    }

    /// The scalar part of an address, and the step from lane to lane.
    pub(super) fn offset(
        &mut self,
        strides: &Strides,
        source: Option<usize>,
        address: &Address,
        place: Place,
    ) -> (Offset, Option<u32>) {
        let mut constant = 0;
        let mut known: Vec<(Slot, i64)> = Vec::new();
        let mut terms = Vec::new();
        for &(axis, by, atom) in &address.terms {
            let slot = match atom {
                Some(atom) => self.scalar(atom, place),
                None => self.constant(1),
            };
            match self.scaled(strides, source, axis, by) {
                Coefficient::Known(elements) if atom.is_none() => constant += elements,
                Coefficient::Known(elements) => match known.iter_mut().find(|term| term.0 == slot) {
                    Some(term) => term.1 += elements,
                    None => known.push((slot, elements)),
                },
                local => terms.push((self.coefficient(local), slot)),
            }
        }
        for (slot, elements) in known {
            if elements != 0 {
                terms.push((self.coefficient(Coefficient::Known(elements)), slot));
            }
        }
        let constant = self.coefficient(Coefficient::Known(constant));
        let mut known = 0;
        let mut local = Vec::new();
        for &(axis, by) in &address.step {
            match self.scaled(strides, source, axis, by) {
                Coefficient::Known(elements) => known += elements,
                coefficient => local.push(coefficient),
            }
        }
        let step = match local.as_slice() {
            [] if address.step.is_empty() => None,
            [] => Some(self.coefficient(Coefficient::Known(known))),
            [one] => Some(self.coefficient(*one)),
            // Several local axes moving together, a diagonal: the machine adds them up.
            many => {
                let many = many.to_vec();
                let first = self.code.coefficients.len() as u32;
                self.code.coefficients.extend(many);
                self.code.coefficients.push(Coefficient::Sum { first, count: address.step.len() as u32 });
                Some(self.code.coefficients.len() as u32 - 1)
            }
        };
        (Offset { constant, terms }, step)
    }

    pub(super) fn emit_load(
        &mut self,
        value: Value,
        source: usize,
        depth: Option<Value>,
        indices: &[Value],
        vector: bool,
        place: Place,
    ) {
        let built = self.built;
        let strides = built.sources[source].layout.strides.clone();
        let address = address(&built.values, &self.nest, indices, vector);
        let rank = built.sources[source].ranges.len();
        let mut pattern = pattern(&address, &strides, rank, vector);
        let (offset, step) = self.offset(&strides, Some(source), &address, place);
        let vectors = address
            .vectors
            .iter()
            .map(|&(axis, index)| {
                let coefficient = self.scaled(&strides, Some(source), axis, 1);
                (self.coefficient(coefficient), self.vector(index))
            })
            .collect();
        let history = match built.sources[source].read {
            Read::History(history) => Some(history),
            Read::Node(_) => None,
        };
        let depth = depth.zip(history).map(|(depth, history)| {
            let deep = vector && self.is_vector(depth);
            if deep {
                pattern = Pattern::Gathered;
            }
            Depth { history, slot: self.operand(depth, deep, place), vector: deep }
        });
        let words = built.sources[source].layout.format == Format::Words;
        let size = match (pattern, vector) {
            (Pattern::Contiguous, _) if words => Size::Pointer,
            (_, true) => Size::Vector,
            (_, false) => Size::Scalar,
        };
        let to = self.new_slot(size);
        self.code.loads.push(Load { source, pattern, to, offset, step, vectors, depth });
        self.push(place, Instruction::Load(self.code.loads.len() as u32 - 1));
        self.natural.insert(value, to);
    }

    pub(super) fn store(&mut self, place: Place, from: Slot, from_vector: bool) {
        let built = self.built;
        let vector = self.stores_vector();
        let address = address(&built.values, &self.nest, &built.axes[..built.rank], vector);
        let strides = self.output.strides.clone();
        let contiguous = pattern(&address, &strides, built.rank, vector) == Pattern::Contiguous;
        let (offset, step) = self.offset(&strides, None, &address, place);
        let spread = vector && !from_vector;
        self.code.stores.push(Store { from, vector, spread, offset, step, contiguous });
        self.push(place, Instruction::Store(self.code.stores.len() as u32 - 1));
    }
}
