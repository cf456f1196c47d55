//! The values of one node's expressions: typed, shared where equal, with what is known of their range.

use std::collections::HashMap;

use fiddlehead_graph::{Binary, Element, Unary};

use super::affine::Affine;
use super::frame::Read;
use super::integer::{I32, floor_divide, floor_remainder, integer_range};

/// A value, by its place in [`Values::all`]; parts come before wholes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Value(pub u32);

/// What one word of a value means. Ids are integers here: their bits are read as i32, so a negative one is out of
/// every range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Type {
    Float,
    Integer,
    Bool,
}

impl Type {
    pub fn of(element: Element) -> Type {
        match element {
            Element::F32 => Type::Float,
            Element::I32 | Element::Id => Type::Integer,
            Element::Bool => Type::Bool,
        }
    }
}

/// A rule checked at run time, in the lanes where its mask holds. Its value is the checked one, made harmless in
/// lanes where the rule fails without a mask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// `low <= value < high`, or `value <= high` when `inclusive`.
    Index {
        read: Read,
        axis: usize,
        low: Value,
        high: Value,
        inclusive: bool,
        /// Whether the index is an id, which has no sign.
        id: bool,
    },
    /// `value <= here`; a masked offender becomes depth -1.
    Depth {
        read: Read,
    },
    NonZero,
    NonNegative,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A word.
    Constant(u32),
    /// The value of a loop's axis.
    Axis(usize),
    Here,
    Accumulator,
    Unary(Unary, Value),
    Binary(Binary, Value, Value),
    Select(Value, Value, Value),
    /// An element of a source (a tensor, or a history's row at `depth`). The indices are in range.
    Load {
        source: usize,
        depth: Option<Value>,
        indices: Vec<Value>,
    },
    Check {
        rule: Rule,
        value: Value,
        mask: Option<Value>,
    },
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub kind: Kind,
    pub ty: Type,
    /// Least and greatest, for integers and bools.
    pub range: (i64, i64),
    /// Bit `a`: it varies with loop axis `a`.
    pub axes: u64,
    /// It varies with the accumulator.
    pub accumulates: bool,
}

/// The extent of a loop's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Fixed {
        low: usize,
        high: usize,
    },
    /// `high` is the last value when `inclusive`, else one past it.
    Between {
        low: Value,
        high: Value,
        inclusive: bool,
    },
}

/// All values of one node's program.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub all: Vec<Facts>,
    /// The loop axes, outermost first; a bound varies only with earlier ones.
    pub extents: Vec<Extent>,
    known: HashMap<Kind, Value>,
}

/// Depths stay below this, so that positions never wrap.
pub(super) const HERE_LIMIT: i32 = 1 << 30;

impl Values {
    pub fn facts(&self, value: Value) -> &Facts {
        &self.all[value.0 as usize]
    }
    pub fn ty(&self, value: Value) -> Type {
        self.facts(value).ty
    }

    pub fn intern(&mut self, kind: Kind, ty: Type, range: (i64, i64)) -> Value {
        if let Some(&known) = self.known.get(&kind) {
            return known;
        }
        let (mut axes, mut accumulates) = (0, matches!(kind, Kind::Accumulator));
        if let Kind::Axis(axis) = kind {
            axes |= 1 << axis;
        }
        for_each_part(&kind, &mut |part| {
            let facts = &self.all[part.0 as usize];
            axes |= facts.axes;
            accumulates |= facts.accumulates;
        });
        let value = Value(self.all.len() as u32);
        self.all.push(Facts { kind: kind.clone(), ty, range, axes, accumulates });
        self.known.insert(kind, value);
        value
    }

    pub fn integer(&mut self, value: i64) -> Value {
        // The type is part of a constant's meaning but not of its key: a float's word is only read as a float, so
        // words of equal bits may be one value if they are of one type; integers and floats are kept apart here.
        let word = value as i32;
        self.constant(word as u32, Type::Integer)
    }
    pub fn float(&mut self, value: f32) -> Value {
        self.constant(value.to_bits(), Type::Float)
    }
    pub fn boolean(&mut self, value: bool) -> Value {
        self.constant(u32::from(value), Type::Bool)
    }
    fn constant(&mut self, word: u32, ty: Type) -> Value {
        let found = self
            .all
            .iter()
            .position(|facts| facts.ty == ty && matches!(facts.kind, Kind::Constant(known) if known == word));
        if let Some(found) = found {
            return Value(found as u32);
        }
        let range = if ty == Type::Float { (0, 0) } else { (word as i32 as i64, word as i32 as i64) };
        self.all.push(Facts { kind: Kind::Constant(word), ty, range, axes: 0, accumulates: false });
        Value(self.all.len() as u32 - 1)
    }
    pub fn axis(&mut self, axis: usize) -> Value {
        let range = match self.extents[axis] {
            Extent::Fixed { low, high } => (low as i64, (high as i64 - 1).max(low as i64)),
            Extent::Between { low, high, inclusive } => {
                let past = i64::from(!inclusive);
                let (low, high) = (self.facts(low).range.0, self.facts(high).range.1.saturating_sub(past));
                (low, high.max(low))
            }
        };
        self.intern(Kind::Axis(axis), Type::Integer, range)
    }
    pub fn here(&mut self) -> Value {
        self.intern(Kind::Here, Type::Integer, (0, HERE_LIMIT as i64 - 1))
    }
    /// A source's element.
    pub fn load(&mut self, source: usize, depth: Option<Value>, indices: Vec<Value>, ty: Type) -> Value {
        let range = if ty == Type::Bool { (0, 1) } else { I32 };
        self.intern(Kind::Load { source, depth, indices }, ty, range)
    }
    pub fn accumulator(&mut self, ty: Type) -> Value {
        let range = if ty == Type::Bool { (0, 1) } else { I32 };
        self.intern(Kind::Accumulator, ty, range)
    }

    pub fn word(&self, value: Value) -> Option<u32> {
        match self.facts(value).kind {
            Kind::Constant(word) => Some(word),
            _ => None,
        }
    }
    /// The only value that an integer or bool can have.
    pub fn only(&self, value: Value) -> Option<i64> {
        let facts = self.facts(value);
        (facts.ty != Type::Float && facts.range.0 == facts.range.1).then_some(facts.range.0)
    }
    fn known_bool(&self, value: Value) -> Option<bool> {
        self.only(value).map(|word| word != 0)
    }

    pub fn not(&mut self, value: Value) -> Value {
        self.unary(Unary::Not, value)
    }
    /// Both masks.
    pub fn and_mask(&mut self, mask: Option<Value>, more: Value) -> Option<Value> {
        match mask {
            None if self.known_bool(more) == Some(true) => None,
            None => Some(more),
            Some(mask) => Some(self.binary(Binary::And, mask, more)),
        }
    }

    pub fn unary(&mut self, op: Unary, a: Value) -> Value {
        let facts = self.facts(a).clone();
        let (low, high) = facts.range;
        let integer = facts.ty == Type::Integer;
        match op {
            Unary::IdToInt | Unary::IntToId => return a,
            Unary::Negate if integer => {
                if let Some(only) = self.only(a) {
                    return self.integer((only as i32).wrapping_neg() as i64);
                }
                let range = if low == I32.0 { I32 } else { (-high, -low) };
                return self.intern(Kind::Unary(op, a), Type::Integer, range);
            }
            Unary::Absolute if integer => {
                let range = if low == I32.0 {
                    I32
                } else {
                    (
                        if low <= 0 && high >= 0 { 0 } else { low.abs().min(high.abs()) },
                        low.abs().max(high.abs()),
                    )
                };
                return self.intern(Kind::Unary(op, a), Type::Integer, range);
            }
            Unary::Not => {
                if let Some(known) = self.known_bool(a) {
                    return self.boolean(!known);
                }
                if let Kind::Unary(Unary::Not, inner) = facts.kind {
                    return inner;
                }
                return self.intern(Kind::Unary(op, a), Type::Bool, (0, 1));
            }
            Unary::ToInt => return self.intern(Kind::Unary(op, a), Type::Integer, I32),
            Unary::ToFloat => {
                if let Some(only) = self.only(a) {
                    return self.float(only as i32 as f32);
                }
            }
            _ => {}
        }
        self.intern(Kind::Unary(op, a), Type::Float, (0, 0))
    }

    pub fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        if let Some(known) = self.known_bool(condition) {
            return if known { then } else { otherwise };
        }
        if then == otherwise {
            return then;
        }
        let ((a, b), (c, d)) = (self.facts(then).range, self.facts(otherwise).range);
        self.intern(Kind::Select(condition, then, otherwise), self.ty(then), (a.min(c), b.max(d)))
    }

    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        match self.ty(a) {
            Type::Float => self.float_binary(op, a, b),
            Type::Integer => self.integer_binary(op, a, b),
            Type::Bool => self.bool_binary(op, a, b),
        }
    }

    fn float_binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        if let (Some(x), Some(y)) = (self.word(a), self.word(b)) {
            let (x, y) = (f32::from_bits(x), f32::from_bits(y));
            match op {
                Binary::Add => return self.float(x + y),
                Binary::Subtract => return self.float(x - y),
                Binary::Multiply => return self.float(x * y),
                Binary::Divide => return self.float(x / y),
                _ => {}
            }
        }
        let ty = if compares(op) { Type::Bool } else { Type::Float };
        self.intern(Kind::Binary(op, a, b), ty, (0, 1))
    }

    fn bool_binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        let (x, y) = (self.known_bool(a), self.known_bool(b));
        match (op, x, y) {
            (Binary::And, Some(false), _) | (Binary::Or, Some(true), _) => return a,
            (Binary::And, Some(true), _) | (Binary::Or, Some(false), _) => return b,
            (Binary::And, _, Some(false)) | (Binary::Or, _, Some(true)) => return b,
            (Binary::And, _, Some(true)) | (Binary::Or, _, Some(false)) => return a,
            (Binary::Equal, Some(x), Some(y)) => return self.boolean(x == y),
            (Binary::NotEqual, Some(x), Some(y)) => return self.boolean(x != y),
            _ => {}
        }
        if a == b && matches!(op, Binary::And | Binary::Or) {
            return a;
        }
        self.intern(Kind::Binary(op, a, b), Type::Bool, (0, 1))
    }

    fn integer_binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        if compares(op) {
            if let Some(known) = self.decide(op, a, b) {
                return self.boolean(known);
            }
            return self.intern(Kind::Binary(op, a, b), Type::Bool, (0, 1));
        }
        if let (Some(x), Some(y)) = (self.only(a), self.only(b)) {
            let (x, y) = (x as i32, y as i32);
            let result = match op {
                Binary::Add => Some(x.wrapping_add(y)),
                Binary::Subtract => Some(x.wrapping_sub(y)),
                Binary::Multiply => Some(x.wrapping_mul(y)),
                Binary::Divide if y != 0 => Some(floor_divide(x, y)),
                Binary::Remainder if y != 0 => Some(floor_remainder(x, y)),
                Binary::Min => Some(x.min(y)),
                Binary::Max => Some(x.max(y)),
                _ => None,
            };
            if let Some(result) = result {
                return self.integer(result as i64);
            }
        }
        match (op, self.only(a), self.only(b)) {
            (Binary::Add, Some(0), _) | (Binary::Multiply, Some(1), _) => return b,
            (Binary::Add | Binary::Subtract, _, Some(0))
            | (Binary::Multiply | Binary::Divide, _, Some(1)) => {
                return a;
            }
            (Binary::Divide | Binary::Remainder, _, Some(by)) if by > 0 => {
                if let Some(simple) = self.divide_affine(op, a, by) {
                    return simple;
                }
            }
            (Binary::Min | Binary::Max, ..) => {
                let below = self.decide(Binary::LessEqual, a, b);
                let above = self.decide(Binary::LessEqual, b, a);
                match (op == Binary::Min, below, above) {
                    (true, Some(true), _) | (false, _, Some(true)) => return a,
                    (true, _, Some(true)) | (false, Some(true), _) => return b,
                    _ => {}
                }
            }
            _ => {}
        }
        let range = integer_range(op, self.facts(a).range, self.facts(b).range);
        let (a, b) = if commutes(op) && b < a { (b, a) } else { (a, b) };
        self.intern(Kind::Binary(op, a, b), Type::Integer, range)
    }

    /// `(d m + r) / d = m` and `(d m + r) % d = r` for `0 <= r < d`.
    fn divide_affine(&mut self, op: Binary, a: Value, by: i64) -> Option<Value> {
        let form = self.affine(a);
        let (whole, rest) = form.split_by(by);
        let (low, high) = self.bounds(&rest)?;
        if low < 0 || high >= by {
            return None;
        }
        Some(match op {
            Binary::Divide => self.sum_of(&whole),
            _ => self.sum_of(&rest),
        })
    }

    fn sum_of(&mut self, form: &Affine) -> Value {
        let mut sum: Option<Value> = None;
        for &(atom, coefficient) in &form.terms {
            let factor = self.integer(coefficient);
            let term = self.binary(Binary::Multiply, atom, factor);
            sum = Some(match sum {
                Some(sum) => self.binary(Binary::Add, sum, term),
                None => term,
            });
        }
        let constant = self.integer(form.constant);
        match sum {
            Some(sum) => self.binary(Binary::Add, sum, constant),
            None => constant,
        }
    }

    /// The outcome of an integer comparison, when it is the same everywhere.
    pub fn decide(&self, op: Binary, a: Value, b: Value) -> Option<bool> {
        let (low, high) = self.bounds(&self.affine(a).minus(&self.affine(b)))?;
        match op {
            Binary::Less if high < 0 => Some(true),
            Binary::Less if low >= 0 => Some(false),
            Binary::LessEqual if high <= 0 => Some(true),
            Binary::LessEqual if low > 0 => Some(false),
            Binary::Equal if low == 0 && high == 0 => Some(true),
            Binary::Equal if low > 0 || high < 0 => Some(false),
            Binary::NotEqual if low == 0 && high == 0 => Some(false),
            Binary::NotEqual if low > 0 || high < 0 => Some(true),
            _ => None,
        }
    }
}

pub(super) fn for_each_part(kind: &Kind, f: &mut dyn FnMut(Value)) {
    match kind {
        Kind::Constant(_) | Kind::Axis(_) | Kind::Here | Kind::Accumulator => {}
        Kind::Unary(_, a) => f(*a),
        Kind::Binary(_, a, b) => {
            f(*a);
            f(*b);
        }
        Kind::Select(a, b, c) => {
            f(*a);
            f(*b);
            f(*c);
        }
        Kind::Load { depth, indices, .. } => {
            depth.iter().chain(indices).for_each(|&part| f(part));
        }
        Kind::Check { rule, value, mask } => {
            f(*value);
            if let Rule::Index { low, high, .. } = rule {
                f(*low);
                f(*high);
            }
            mask.iter().for_each(|&part| f(part));
        }
    }
}

pub(super) fn compares(op: Binary) -> bool {
    matches!(op, Binary::Equal | Binary::NotEqual | Binary::Less | Binary::LessEqual)
}

fn commutes(op: Binary) -> bool {
    matches!(op, Binary::Add | Binary::Multiply | Binary::Min | Binary::Max)
}
