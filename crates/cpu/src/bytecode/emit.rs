//! From values and a nest of loops to instructions.

use std::collections::HashMap;

use fiddlehead_graph::FoldKind;

use super::build::Built;
use super::choose::{Nest, address, live};
use super::code::*;
use super::frame::Read;
use super::layout::SourceLayout;
use super::merge::merge;
use super::operations::{binary_op, has_forms, unary_op};
use super::registers;
use super::value::{Extent, Kind, Rule, Value, for_each_part};

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

pub(super) struct Emitter<'a> {
    pub(super) built: &'a Built,
    pub(super) nest: Nest,
    pub(super) output: &'a SourceLayout,
    pub(super) code: Code,
    /// Natural slots of values: a scalar or a vector.
    pub(super) natural: HashMap<Value, Slot>,
    /// Vectors filled with a scalar value.
    pub(super) filled: HashMap<Value, Slot>,
    /// Scalars extracted from a vector, in the tail.
    pub(super) extracted: HashMap<Value, Slot>,
    pub(super) axis_slots: Vec<Slot>,
    pub(super) tail: Vec<Instruction>,
    pub(super) sizes: Vec<Size>,
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
pub(super) enum Place {
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
    pub(super) fn new_slot(&mut self, size: Size) -> Slot {
        self.sizes.push(size);
        self.sizes.len() as Slot - 1
    }

    pub(super) fn is_vector(&self, value: Value) -> bool {
        self.nest.is_vector(&self.built.values, value)
    }
    pub(super) fn in_tail(&self, value: Value) -> bool {
        self.built.values.facts(value).accumulates && self.nest.folds_lanes()
    }
    pub(super) fn place(&self, value: Value) -> Place {
        if self.in_tail(value) {
            Place::Tail
        } else {
            Place::Before(self.nest.level(&self.built.values, value))
        }
    }
    pub(super) fn push(&mut self, place: Place, instruction: Instruction) {
        match place {
            Place::Before(level) => self.code.levels[level].before.push(instruction),
            Place::After(level) => self.code.levels[level].after.push(instruction),
            Place::Tail => self.tail.push(instruction),
        }
    }

    /// Values that instructions read, beyond those that only occur in addresses as sums.
    pub(super) fn needed(&self) -> std::collections::HashSet<Value> {
        let built = self.built;
        let mut needed = std::collections::HashSet::new();
        let mut stack = vec![built.body];
        stack.extend(built.guard.iter().chain(&built.initial));
        for extent in &built.values.extents {
            if let Extent::Between { low, high, .. } = *extent {
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

    pub(super) fn stores_vector(&self) -> bool {
        self.nest.vector.is_some() && !self.nest.folds_lanes()
    }

    /// A constant scalar.
    pub(super) fn constant(&mut self, word: u32) -> Slot {
        let known = self.code.constants.iter().find(|known| known.1 == word && !known.2);
        if let Some(known) = known {
            return known.0;
        }
        let slot = self.new_slot(Size::Scalar);
        self.code.constants.push((slot, word, false));
        slot
    }
    pub(super) fn constant_vector(&mut self, word: u32) -> Slot {
        let known = self.code.constants.iter().find(|known| known.1 == word && known.2);
        if let Some(known) = known {
            return known.0;
        }
        let slot = self.new_slot(Size::Kept);
        self.code.constants.push((slot, word, true));
        slot
    }

    /// The slot of a value that is scalar where it is used.
    pub(super) fn scalar(&mut self, value: Value, place: Place) -> Slot {
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
    pub(super) fn vector(&mut self, value: Value) -> Slot {
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
    pub(super) fn vector_level(&self) -> usize {
        let place = self.nest.order.iter().position(|axis| Some(*axis) == self.nest.vector);
        place.map_or(0, |place| place + 1)
    }

    pub(super) fn operand(&mut self, value: Value, vector: bool, place: Place) -> Slot {
        if vector { self.vector(value) } else { self.scalar(value, place) }
    }

    pub(super) fn emit_value(&mut self, value: Value) {
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
                    Rule::Index { read, axis, low, high, inclusive, id } => CheckRule::Index {
                        read,
                        axis,
                        low: self.operand(low, vector, place),
                        high: self.operand(high, vector, place),
                        inclusive,
                        id,
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

    pub(super) fn form(&self, a: Value, b: Value) -> Form {
        match (self.is_vector(a), self.is_vector(b)) {
            (true, false) => Form::Left,
            (false, true) => Form::Right,
            _ => Form::Both,
        }
    }

    pub(super) fn lane(&mut self, value: Value, op: Op, form: Form, [a, b, c]: [Slot; 3]) {
        let vector = self.is_vector(value);
        let to = self.new_slot(if vector { Size::Vector } else { Size::Scalar });
        let place = self.place(value);
        self.push(place, Instruction::Lane(Lane { op, form, vector, to, a, b, c }));
        self.natural.insert(value, to);
    }

    pub(super) fn loops(&mut self, outermost_divided: Option<usize>) {
        let built = self.built;
        for (place, &axis) in self.nest.order.clone().iter().enumerate() {
            let (low, high) = match built.values.extents[axis] {
                Extent::Fixed { low, high } => (Bound::Known(low as i64), Bound::Known(high as i64)),
                Extent::Between { low, high, inclusive } => {
                    let at = Place::Before(place);
                    let (low, high) = (self.scalar(low, at), self.scalar(high, at));
                    (Bound::Slot(low), if inclusive { Bound::Past(high) } else { Bound::Slot(high) })
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
}
