//! Emission of what a node's element becomes: its guard, its fold, and the store.

use fiddlehead_graph::{Binary, FoldKind};

use super::code::*;
use super::emit::{Emitter, Place, Size};
use super::operations::combine;
use super::value::{Kind, Type, Value};

impl Emitter<'_> {
    /// Without a fold: the body where the guard holds, zero elsewhere.
    pub(super) fn store_elements(&mut self) {
        let built = self.built;
        let level = self.nest.results;
        let place = Place::Before(level);
        let vector = self.is_vector(built.body);
        let from = self.operand(built.body, vector, place);
        let (from, vector) = self.guarded(from, vector, place);
        self.store(place, from, vector);
    }

    pub(super) fn guarded(&mut self, from: Slot, from_vector: bool, place: Place) -> (Slot, bool) {
        let Some(guard) = self.built.guard else { return (from, from_vector) };
        let vector = from_vector || self.is_vector(guard);
        let a = self.operand(guard, vector, place);
        let b = if vector && !from_vector {
            let to = self.new_slot(Size::Vector);
            let fill = Lane { op: Op::Fill, form: Form::Both, vector, to, a: from, b: from, c: from };
            self.push(place, Instruction::Lane(fill));
            to
        } else {
            from
        };
        let c = if vector { self.constant_vector(0) } else { self.constant(0) };
        let to = self.new_slot(if vector { Size::Vector } else { Size::Scalar });
        let select = Lane { op: Op::Select, form: Form::Both, vector, to, a, b, c };
        self.push(place, Instruction::Lane(select));
        (to, vector)
    }

    /// The loops of a fold are skipped where the guard is false for all lanes.
    pub(super) fn skip_folding(&mut self) {
        let level = self.nest.results;
        if let Some(guard) = self.built.guard
            && !self.is_vector(guard)
        {
            let slot = self.scalar(guard, Place::Before(level));
            self.code.levels[level].unless = Some(slot);
        }
    }

    /// The factors of a product that is summed.
    pub(super) fn fused_product(&self, fold: Option<&FoldKind>) -> Option<(Value, Value)> {
        let values = &self.built.values;
        match values.facts(self.built.body).kind {
            Kind::Binary(Binary::Multiply, a, b)
                if fold == Some(&FoldKind::Sum)
                    && values.ty(a) == Type::Float
                    && (self.is_vector(a) || self.is_vector(b)) =>
            {
                Some((a, b))
            }
            _ => None,
        }
    }

    pub(super) fn fold(&mut self, kind: &FoldKind, fused: Option<(Value, Value)>) {
        let built = self.built;
        let level = self.nest.results;
        let along_lanes = self.nest.folds_lanes();
        let innermost = Place::Before(self.nest.order.len());
        let combine =
            if fused.is_some() { Combine::SumOfProducts } else { combine(kind, built.values.ty(built.body)) };
        let keeps_vector = along_lanes || self.stores_vector();
        let size = if keeps_vector { Size::Kept } else { Size::Scalar };
        let accumulator = self.new_slot(size);
        let indices = self.new_slot(size);
        let (a, b, form) = match fused {
            Some((a, b)) => {
                let form = self.form(a, b);
                let a_slot = self.operand(a, form != Form::Right, innermost);
                let b_slot = self.operand(b, form != Form::Left, innermost);
                // The vector first, when only one is.
                match form {
                    Form::Right => (b_slot, a_slot, Form::Left),
                    form => (a_slot, b_slot, form),
                }
            }
            None => {
                let a = self.operand(built.body, keeps_vector, innermost);
                (a, a, Form::Both)
            }
        };
        let to = self.new_slot(Size::Scalar);
        let axis = self.axis_slots[built.values.extents.len() - 1];
        let place = self.code.folds.len() as u32;
        let code = FoldCode { combine, along_lanes, accumulator, indices, a, b, form, axis, to };
        self.code.folds.push(code);
        self.push(Place::Before(level), Instruction::FoldBegin(place));
        self.push(innermost, Instruction::FoldStep(place));
        self.push(Place::After(level), Instruction::FoldEnd(place));
        self.skip_folding();
        let arg = matches!(combine, Combine::ArgMaxFloat | Combine::ArgMaxInteger);
        let (from, vector) = match along_lanes {
            true => (to, false),
            false => (if arg { indices } else { accumulator }, self.stores_vector()),
        };
        let (from, vector) = self.guarded(from, vector, Place::After(level));
        self.store(Place::After(level), from, vector);
    }

    pub(super) fn ordered(&mut self) {
        let built = self.built;
        let level = self.nest.results;
        let vector = self.stores_vector();
        let kept = built.values.all.iter().position(|facts| facts.kind == Kind::Accumulator);
        let accumulator = match kept.and_then(|place| self.natural.get(&Value(place as u32))) {
            Some(&slot) => slot,
            None => self.new_slot(if vector { Size::Kept } else { Size::Scalar }),
        };
        let copy = |to: Slot, a: Slot, vector: bool| {
            Instruction::Lane(Lane { op: Op::Copy, form: Form::Both, vector, to, a, b: a, c: a })
        };
        if let Some(initial) = built.initial {
            let from = self.operand(initial, vector, Place::Before(level));
            self.push(Place::Before(level), copy(accumulator, from, vector));
        }
        let innermost = Place::Before(self.nest.order.len());
        if self.nest.folds_lanes() {
            let addend = self.plain_addend();
            let body = self.scalar(built.body, Place::Tail);
            self.tail.push(copy(accumulator, body, false));
            let axis = self.axis_slots[built.values.extents.len() - 1];
            let instructions = if addend.is_some() { Vec::new() } else { std::mem::take(&mut self.tail) };
            let addend = addend.unwrap_or(accumulator);
            self.code.tails.push(TailCode { instructions, axis, accumulator, addend });
            self.push(innermost, Instruction::Tail(self.code.tails.len() as u32 - 1));
        } else {
            let from = self.operand(built.body, vector, innermost);
            self.push(innermost, copy(accumulator, from, vector));
        }
        self.skip_folding();
        let (from, vector) = self.guarded(accumulator, vector, Place::After(level));
        self.store(Place::After(level), from, vector);
    }

    /// `x` when the body is `accumulator + x` with `x` a vector of floats: the common ordered fold.
    pub(super) fn plain_addend(&self) -> Option<Slot> {
        let values = &self.built.values;
        let Kind::Binary(Binary::Add, a, b) = values.facts(self.built.body).kind else { return None };
        let is_accumulator = |value: Value| values.facts(value).kind == Kind::Accumulator;
        let other = match (is_accumulator(a), is_accumulator(b)) {
            (true, false) => b,
            (false, true) => a,
            _ => return None,
        };
        let plain = values.is_float(other) && self.is_vector(other);
        plain.then(|| self.natural[&other])
    }
}
