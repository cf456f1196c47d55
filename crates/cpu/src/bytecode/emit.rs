//! From values and a nest of loops to instructions.

use std::collections::HashMap;

use fiddlehead_graph::{Binary, FoldKind, Unary};

use super::build::Built;
use super::choose::{Nest, address, live, pattern};
use super::code::*;
use super::frame::Read;
use super::layout::{SourceLayout, Strides};
use super::merge::merge;
use super::registers;
use super::value::{Extent, Kind, Rule, Type, Value, for_each_part};

/// What the window's outermost axis means for a run that is restricted to a part of it.
pub(super) struct Emission<'a> {
    pub built: &'a Built,
    pub nest: Nest,
    pub fold: Option<&'a FoldKind>,
    pub output: &'a SourceLayout,
    /// The inner part of the node's outermost axis, when it is divided.
    pub outermost_divided: Option<usize>,
    pub cost: f64,
}

struct Emitter<'a> {
    built: &'a Built,
    nest: Nest,
    output: &'a SourceLayout,
    code: Code,
    /// Natural slots of values: a scalar or a vector.
    natural: HashMap<Value, Slot>,
    /// Vectors filled with a scalar value.
    filled: HashMap<Value, Slot>,
    /// Scalars extracted from a vector, in the tail.
    extracted: HashMap<Value, Slot>,
    axis_slots: Vec<Slot>,
    tail: Vec<Instruction>,
    sizes: Vec<Size>,
}

/// What a slot needs of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Scalar,
    /// A block that lives for one turn where it is written, if nothing deeper reads it.
    Vector,
    /// A block that keeps its value.
    Kept,
    /// Points into a source.
    Pointer,
}

/// Where instructions go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Before(usize),
    After(usize),
    Tail,
}

/// Compiles one window.
pub(super) fn emit(emission: Emission<'_>) -> Code {
    let Emission { built, nest, fold, output, outermost_divided, cost } = emission;
    let mut emitter = Emitter {
        built,
        nest,
        output,
        code: Code { sources: built.sources.clone(), cost, ..Code::default() },
        natural: HashMap::new(),
        filled: HashMap::new(),
        extracted: HashMap::new(),
        axis_slots: Vec::new(),
        tail: Vec::new(),
        sizes: Vec::new(),
    };
    emitter.code.levels = vec![Level::default(); emitter.nest.order.len() + 1];
    emitter.axis_slots = built.values.extents.iter().map(|_| emitter.new_slot(Size::Scalar)).collect();
    let needed = emitter.needed();
    let fused = emitter.fused_product(fold);
    for value in live(built) {
        let skip = fused.is_some() && value == built.body;
        if needed.contains(&value) && !skip {
            emitter.emit_value(value);
        }
    }
    emitter.loops(outermost_divided);
    match fold {
        None => emitter.store_elements(),
        Some(FoldKind::Ordered { .. }) => emitter.ordered(),
        Some(kind) => emitter.fold(kind, fused),
    }
    let Emitter { mut code, nest, sizes, .. } = emitter;
    if fold.is_none() {
        merge(&mut code, &nest);
    }
    registers::allocate(&mut code, &sizes);
    code
}

impl Emitter<'_> {
    fn new_slot(&mut self, size: Size) -> Slot {
        self.sizes.push(size);
        self.sizes.len() as Slot - 1
    }

    fn is_vector(&self, value: Value) -> bool {
        self.nest.is_vector(&self.built.values, value)
    }
    fn in_tail(&self, value: Value) -> bool {
        self.built.values.facts(value).accumulates && self.nest.folds_lanes()
    }
    fn place(&self, value: Value) -> Place {
        if self.in_tail(value) {
            Place::Tail
        } else {
            Place::Before(self.nest.level(&self.built.values, value))
        }
    }
    fn push(&mut self, place: Place, instruction: Instruction) {
        match place {
            Place::Before(level) => self.code.levels[level].before.push(instruction),
            Place::After(level) => self.code.levels[level].after.push(instruction),
            Place::Tail => self.tail.push(instruction),
        }
    }

    /// Values that instructions read, beyond those that only occur in addresses as sums.
    fn needed(&self) -> std::collections::HashSet<Value> {
        let built = self.built;
        let mut needed = std::collections::HashSet::new();
        let mut stack = vec![built.body];
        stack.extend(built.guard.iter().chain(&built.initial));
        for extent in &built.values.extents {
            if let Extent::Between { low, high } = *extent {
                stack.extend([low, high]);
            }
        }
        let atoms = |indices: &[Value], vector: bool, stack: &mut Vec<Value>| {
            let address = address(&built.values, &self.nest, indices, vector);
            let named = address.terms.iter().filter_map(|term| term.2);
            // Axes have scalars anyway; counted out as a vector only where an instruction reads them.
            stack.extend(named.filter(|&atom| !matches!(built.values.facts(atom).kind, Kind::Axis(_))));
            stack.extend(address.vectors.iter().map(|vector| vector.1));
        };
        atoms(&built.axes[..built.rank], self.stores_vector(), &mut stack);
        while let Some(value) = stack.pop() {
            if !needed.insert(value) {
                continue;
            }
            match &built.values.facts(value).kind {
                Kind::Load { indices, depth, .. } => {
                    stack.extend(depth);
                    atoms(indices, self.is_vector(value), &mut stack);
                }
                kind => for_each_part(kind, &mut |part| stack.push(part)),
            }
        }
        needed
    }

    fn stores_vector(&self) -> bool {
        self.nest.vector.is_some() && !self.nest.folds_lanes()
    }

    /// A constant scalar.
    fn constant(&mut self, word: u32) -> Slot {
        let known = self.code.constants.iter().find(|known| known.1 == word && !known.2);
        if let Some(known) = known {
            return known.0;
        }
        let slot = self.new_slot(Size::Scalar);
        self.code.constants.push((slot, word, false));
        slot
    }
    fn constant_vector(&mut self, word: u32) -> Slot {
        let known = self.code.constants.iter().find(|known| known.1 == word && known.2);
        if let Some(known) = known {
            return known.0;
        }
        let slot = self.new_slot(Size::Kept);
        self.code.constants.push((slot, word, true));
        slot
    }

    /// The slot of a value that is scalar where it is used.
    fn scalar(&mut self, value: Value, place: Place) -> Slot {
        if let Kind::Axis(axis) = self.built.values.facts(value).kind {
            return self.axis_slots[axis];
        }
        if let Some(word) = self.built.values.word(value) {
            return self.constant(word);
        }
        if !self.is_vector(value) {
            return self.natural[&value];
        }
        debug_assert!(place == Place::Tail, "a vector where a scalar is wanted");
        if let Some(&known) = self.extracted.get(&value) {
            return known;
        }
        let (to, from) = (self.new_slot(Size::Scalar), self.natural[&value]);
        self.push(place, Instruction::Extract { to, from });
        self.extracted.insert(value, to);
        to
    }

    /// The slot of a value as a vector.
    fn vector(&mut self, value: Value) -> Slot {
        if let Some(word) = self.built.values.word(value) {
            return self.constant_vector(word);
        }
        if self.is_vector(value) {
            return self.natural[&value];
        }
        if let Some(&known) = self.filled.get(&value) {
            return known;
        }
        let level = self.nest.level(&self.built.values, value).max(self.vector_level());
        let to = self.new_slot(Size::Vector);
        let a = self.scalar(value, Place::Before(level));
        let fill = Lane { op: Op::Fill, form: Form::Both, vector: true, to, a, b: a, c: a };
        self.push(Place::Before(level), Instruction::Lane(fill));
        self.filled.insert(value, to);
        to
    }

    /// The level inside the loop of the lanes.
    fn vector_level(&self) -> usize {
        let place = self.nest.order.iter().position(|axis| Some(*axis) == self.nest.vector);
        place.map_or(0, |place| place + 1)
    }

    fn operand(&mut self, value: Value, vector: bool, place: Place) -> Slot {
        if vector { self.vector(value) } else { self.scalar(value, place) }
    }

    fn emit_value(&mut self, value: Value) {
        let built = self.built;
        let facts = built.values.facts(value);
        let (vector, place) = (self.is_vector(value), self.place(value));
        let size = if vector { Size::Vector } else { Size::Scalar };
        let ty = facts.ty;
        match facts.kind.clone() {
            Kind::Constant(_) => {}
            Kind::Axis(axis) => {
                // As a vector: counted up from the block's first value.
                if vector {
                    let (to, a) = (self.new_slot(size), self.axis_slots[axis]);
                    let count = Lane { op: Op::Count, form: Form::Both, vector, to, a, b: a, c: a };
                    self.push(place, Instruction::Lane(count));
                    self.natural.insert(value, to);
                }
            }
            Kind::Here => {
                let slot = self.new_slot(Size::Scalar);
                self.code.here = Some(slot);
                self.natural.insert(value, slot);
            }
            Kind::Accumulator => {
                let slot = self.new_slot(if vector { Size::Kept } else { Size::Scalar });
                self.natural.insert(value, slot);
            }
            Kind::Unary(op, a) => {
                let a_slot = self.operand(a, vector, place);
                let op = unary_op(op, built.values.ty(a));
                self.lane(value, op, Form::Both, [a_slot; 3]);
            }
            Kind::Binary(op, a, b) => {
                let op = binary_op(op, built.values.ty(a));
                if !vector {
                    let (a, b) = (self.scalar(a, place), self.scalar(b, place));
                    self.lane(value, op, Form::Both, [a, b, b]);
                    return;
                }
                let form = if has_forms(op) { self.form(a, b) } else { Form::Both };
                let a_slot = self.operand(a, form != Form::Right, place);
                let b_slot = self.operand(b, form != Form::Left, place);
                self.lane(value, op, form, [a_slot, b_slot, b_slot]);
            }
            Kind::Select(a, b, c) => {
                let slots = [a, b, c].map(|part| self.operand(part, vector, place));
                self.lane(value, Op::Select, Form::Both, slots);
            }
            Kind::Check { rule, value: checked, mask } => {
                let rule = match rule {
                    Rule::Index { read, axis, low, high } => CheckRule::Index {
                        read,
                        axis,
                        low: self.operand(low, vector, place),
                        high: self.operand(high, vector, place),
                    },
                    Rule::Depth { read: Read::History(history) } => CheckRule::Depth { history },
                    Rule::Depth { .. } | Rule::NonNegative => CheckRule::NonNegative,
                    Rule::NonZero => CheckRule::NonZero,
                };
                let checked = self.operand(checked, vector, place);
                let mask = mask.map(|mask| self.operand(mask, vector, place));
                let to = self.new_slot(size);
                self.code.checks.push(Check { rule, vector, value: checked, mask, to });
                self.push(place, Instruction::Check(self.code.checks.len() as u32 - 1));
                self.natural.insert(value, to);
            }
            Kind::Load { source, depth, indices } => {
                self.emit_load(value, source, depth, &indices, vector, place);
            }
        }
        debug_assert!(ty == self.built.values.ty(value));
    }

    fn form(&self, a: Value, b: Value) -> Form {
        match (self.is_vector(a), self.is_vector(b)) {
            (true, false) => Form::Left,
            (false, true) => Form::Right,
            _ => Form::Both,
        }
    }

    fn lane(&mut self, value: Value, op: Op, form: Form, [a, b, c]: [Slot; 3]) {
        let vector = self.is_vector(value);
        let to = self.new_slot(if vector { Size::Vector } else { Size::Scalar });
        let place = self.place(value);
        self.push(place, Instruction::Lane(Lane { op, form, vector, to, a, b, c }));
        self.natural.insert(value, to);
    }

    fn coefficient(&mut self, coefficient: Coefficient) -> u32 {
        let known = self.code.coefficients.iter().position(|known| *known == coefficient);
        known.unwrap_or_else(|| {
            self.code.coefficients.push(coefficient);
            self.code.coefficients.len() - 1
        }) as u32
    }

    /// The coefficient of `by` steps along an axis.
    fn scaled(&self, strides: &Strides, source: Option<usize>, axis: usize, by: i64) -> Coefficient {
        match strides {
            Strides::Fixed(strides) => Coefficient::Known(strides[axis] as i64 * by),
            Strides::Local => Coefficient::Local { source, axis, factor: by },
        }
    }

    /// The scalar part of an address, and the step from lane to lane.
    fn offset(
        &mut self,
        strides: &Strides,
        source: Option<usize>,
        address: &super::choose::Address,
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

    fn emit_load(
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
        let depth = depth.map(|depth| {
            let deep = vector && self.is_vector(depth);
            if deep {
                pattern = Pattern::Gathered;
            }
            let history = match built.sources[source].read {
                Read::History(history) => history,
                Read::Node(_) => unreachable!("only histories have depths"),
            };
            Depth { history, slot: self.operand(depth, deep, place), vector: deep }
        });
        let words = built.sources[source].layout.format == super::layout::Format::Words;
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

    fn loops(&mut self, outermost_divided: Option<usize>) {
        let built = self.built;
        for (place, &axis) in self.nest.order.clone().iter().enumerate() {
            let (low, high) = match built.values.extents[axis] {
                Extent::Fixed { low, high } => (Bound::Known(low as i64), Bound::Known(high as i64)),
                Extent::Between { low, high } => {
                    let at = Place::Before(place);
                    (Bound::Slot(self.scalar(low, at)), Bound::Slot(self.scalar(high, at)))
                }
            };
            let fixed = matches!(built.values.extents[axis], Extent::Fixed { .. });
            let outermost =
                (axis == 0 && built.rank > 0 && fixed).then_some((1, outermost_divided.unwrap_or(1)));
            let vector = Some(axis) == self.nest.vector;
            let axis = self.axis_slots[axis];
            self.code.levels[place].next = Some(Loop { low, high, axis, vector, outermost });
        }
        // A guard known before the loops decides for all of them at once.
        if let Some(guard) = built.guard
            && built.values.word(guard).is_none()
            && built.values.facts(guard).axes == 0
        {
            self.code.guard = Some(self.natural[&guard]);
        }
    }

    fn store(&mut self, place: Place, from: Slot, from_vector: bool) {
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

    /// Without a fold: the body where the guard holds, zero elsewhere.
    fn store_elements(&mut self) {
        let built = self.built;
        let level = self.nest.results;
        let place = Place::Before(level);
        let vector = self.is_vector(built.body);
        let from = self.operand(built.body, vector, place);
        let (from, vector) = self.guarded(from, vector, place);
        self.store(place, from, vector);
    }

    fn guarded(&mut self, from: Slot, from_vector: bool, place: Place) -> (Slot, bool) {
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
    fn skip_folding(&mut self) {
        let level = self.nest.results;
        if let Some(guard) = self.built.guard
            && !self.is_vector(guard)
        {
            let slot = self.scalar(guard, Place::Before(level));
            self.code.levels[level].unless = Some(slot);
        }
    }

    /// The factors of a product that is summed.
    fn fused_product(&self, fold: Option<&FoldKind>) -> Option<(Value, Value)> {
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

    fn fold(&mut self, kind: &FoldKind, fused: Option<(Value, Value)>) {
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

    fn ordered(&mut self) {
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
    fn plain_addend(&self) -> Option<Slot> {
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

fn has_forms(op: Op) -> bool {
    matches!(
        op,
        Op::AddFloat | Op::SubtractFloat | Op::MultiplyFloat | Op::DivideFloat | Op::MinFloat | Op::MaxFloat
    )
}

fn unary_op(op: Unary, ty: Type) -> Op {
    match (op, ty) {
        (Unary::Negate, Type::Integer) => Op::NegateInteger,
        (Unary::Absolute, Type::Integer) => Op::AbsoluteInteger,
        (Unary::Negate, _) => Op::NegateFloat,
        (Unary::Absolute, _) => Op::AbsoluteFloat,
        (Unary::Exp, _) => Op::Exp,
        (Unary::Log, _) => Op::Log,
        (Unary::Sqrt, _) => Op::Sqrt,
        (Unary::Rsqrt, _) => Op::Rsqrt,
        (Unary::Sin, _) => Op::Sin,
        (Unary::Cos, _) => Op::Cos,
        (Unary::Tanh, _) => Op::Tanh,
        (Unary::Sigmoid, _) => Op::Sigmoid,
        (Unary::Silu, _) => Op::Silu,
        (Unary::Gelu, _) => Op::Gelu,
        (Unary::Softplus, _) => Op::Softplus,
        (Unary::Floor, _) => Op::Floor,
        (Unary::Not, _) => Op::Not,
        (Unary::ToFloat, _) => Op::ToFloat,
        (Unary::ToInt, _) => Op::ToInt,
        // Ids are integers already.
        (Unary::IdToInt | Unary::IntToId, _) => Op::Copy,
    }
}

fn binary_op(op: Binary, ty: Type) -> Op {
    let float = ty == Type::Float;
    match op {
        Binary::Add if float => Op::AddFloat,
        Binary::Subtract if float => Op::SubtractFloat,
        Binary::Multiply if float => Op::MultiplyFloat,
        Binary::Divide if float => Op::DivideFloat,
        Binary::Min if float => Op::MinFloat,
        Binary::Max if float => Op::MaxFloat,
        Binary::Equal if float => Op::EqualFloat,
        Binary::NotEqual if float => Op::NotEqualFloat,
        Binary::Less if float => Op::LessFloat,
        Binary::LessEqual if float => Op::LessEqualFloat,
        Binary::Add => Op::AddInteger,
        Binary::Subtract => Op::SubtractInteger,
        Binary::Multiply => Op::MultiplyInteger,
        Binary::Divide => Op::DivideInteger,
        Binary::Remainder => Op::RemainderInteger,
        Binary::Min => Op::MinInteger,
        Binary::Max => Op::MaxInteger,
        Binary::Equal => Op::EqualWord,
        Binary::NotEqual => Op::NotEqualWord,
        Binary::Less => Op::LessInteger,
        Binary::LessEqual => Op::LessEqualInteger,
        Binary::And => Op::And,
        Binary::Or => Op::Or,
    }
}

fn combine(kind: &FoldKind, ty: Type) -> Combine {
    let float = ty == Type::Float;
    match kind {
        FoldKind::Sum if float => Combine::SumFloat,
        FoldKind::Product if float => Combine::ProductFloat,
        FoldKind::Max if float => Combine::MaxFloat,
        FoldKind::Min if float => Combine::MinFloat,
        FoldKind::ArgMax if float => Combine::ArgMaxFloat,
        FoldKind::Sum | FoldKind::Ordered { .. } => Combine::SumInteger,
        FoldKind::Product => Combine::ProductInteger,
        FoldKind::Max => Combine::MaxInteger,
        FoldKind::Min => Combine::MinInteger,
        FoldKind::Any => Combine::Any,
        FoldKind::All => Combine::All,
        FoldKind::ArgMax => Combine::ArgMaxInteger,
    }
}
