//! The value of a scalar expression at one point.

use crate::program::{Place, Program};
use crate::resolve::{Bool, Float, Int, Load, Row};
use crate::{Array, Real, Trap};
use fiddlehead_graph::{Binary, Unary};
use std::cell::OnceCell;
use std::sync::Arc;

/// The rows that a node's ancestors left: those the session has stored, then those of this run.
pub(crate) struct Past<'run, R> {
    /// `[history][depth]`, from the session's first token on.
    pub stored: &'run [Vec<Arc<Array<R>>>],
    /// `[ancestor][history]`, root first; the root's depth is the number of stored rows.
    pub ancestors: Vec<&'run [Arc<Array<R>>]>,
    /// The number of stored rows.
    pub base: usize,
}

impl<R> Past<'_, R> {
    fn row(&self, history: usize, depth: usize) -> &Array<R> {
        match depth.checked_sub(self.base) {
            None => &self.stored[history][depth],
            Some(ancestor) => &self.ancestors[ancestor][history],
        }
    }
}

/// Where in an iteration space an expression is evaluated.
pub(crate) struct Point<R> {
    pub axes: Vec<i64>,
    pub float: R,
    pub int: i64,
    pub bool: bool,
}

/// Everything an expression may read at one node of the forest.
pub(crate) struct Frame<'run, R> {
    pub here: i64,
    /// The tensors computed so far at this node, by graph node.
    pub values: &'run [Option<Arc<Array<R>>>],
    pub past: &'run Past<'run, R>,
    pub program: &'run Program<R>,
    /// The first rule that was broken. Evaluation goes on with zeros, and whoever asked looks here.
    pub trap: OnceCell<Trap>,
}

impl<R: Real> Frame<'_, R> {
    fn trap(&self, trap: Trap) {
        // Only the first counts: what follows may come of the zeros.
        let _ = self.trap.set(trap);
    }

    pub(crate) fn tensor(&self, node: usize) -> &Array<R> {
        self.values[node].as_ref().expect("dependencies are computed first")
    }

    /// The place of an element among an array's data.
    #[inline]
    fn locate(&self, array: &Array<R>, indices: &[Int<R>], point: &Point<R>, place: Place) -> Option<usize> {
        let mut row = 0;
        for (axis, (level, index)) in array.levels.iter().zip(indices).enumerate() {
            // A contraction indexes by axes alone, so they are worth sparing the call.
            let index = if let Int::Axis(axis) = index { point.axes[*axis] } else { self.int(index, point) };
            let (start, end, offset) = level.row(row);
            if index < start || index >= end {
                self.trap(Trap::OutOfRange { tensor: self.program.name(place), axis, index, start, end });
                return None;
            }
            row = offset + (index - start) as usize;
        }
        Some(row)
    }

    #[inline]
    fn load(&self, load: &Load<R>, point: &Point<R>) -> Option<(&Array<R>, usize)> {
        let array = self.tensor(load.node);
        Some((array, self.locate(array, &load.indices, point, Place::Node(load.node))?))
    }

    /// The element of a history's row, none above the root, where every row is zero.
    fn history(&self, row: &Row<R>, point: &Point<R>) -> Option<(&Array<R>, usize)> {
        let depth = self.int(&row.depth, point);
        if depth > self.here {
            let history = self.program.name(Place::History(row.history));
            self.trap(Trap::FutureRow { history, depth, here: self.here });
            return None;
        }
        let own = self.tensor(self.program.row_node(row.history));
        let array =
            if depth < 0 || depth == self.here { own } else { self.past.row(row.history, depth as usize) };
        let element = self.locate(array, &row.indices, point, Place::History(row.history))?;
        (depth >= 0).then_some((array, element))
    }

    pub fn float(&self, expression: &Float<R>, point: &Point<R>) -> R {
        match expression {
            Float::Literal(value) => *value,
            Float::Load(load) => {
                self.load(load, point).map_or(R::default(), |(array, i)| array.data.float(i))
            }
            Float::History(row) => {
                self.history(row, point).map_or(R::default(), |(array, i)| array.data.float(i))
            }
            Float::Accumulator => point.float,
            Float::FromInt(operand) => R::from_int(self.int(operand, point)),
            Float::Unary(operation, operand) => float_unary(*operation, self.float(operand, point)),
            Float::Binary(operation, left, right) => {
                let (a, b) = (self.float(left, point), self.float(right, point));
                match operation {
                    Binary::Add => a + b,
                    Binary::Subtract => a - b,
                    Binary::Multiply => a * b,
                    Binary::Divide => a / b,
                    Binary::Min => a.min(b),
                    Binary::Max => a.max(b),
                    _ => unreachable!("resolved to f32 operations"),
                }
            }
            Float::Select(condition, then, otherwise) => {
                self.float(if self.bool(condition, point) { then } else { otherwise }, point)
            }
        }
    }

    pub fn int(&self, expression: &Int<R>, point: &Point<R>) -> i64 {
        match expression {
            Int::Literal(value) => *value,
            Int::Axis(axis) => point.axes[*axis],
            Int::Here => self.here,
            Int::Load(load) => self.load(load, point).map_or(0, |(array, i)| array.data.int(i)),
            Int::History(row) => self.history(row, point).map_or(0, |(array, i)| array.data.int(i)),
            Int::Accumulator => point.int,
            Int::FromFloat(operand) => i64::from(self.float(operand, point).to_i32()),
            Int::FromId(operand) => wrap(self.int(operand, point)),
            Int::ToId(operand) => {
                let value = self.int(operand, point);
                if value < 0 {
                    self.trap(Trap::NegativeId { value });
                }
                value.max(0)
            }
            Int::Unary(Unary::Negate, operand) => wrap(-self.int(operand, point)),
            Int::Unary(_, operand) => wrap(self.int(operand, point).abs()),
            Int::Binary(operation, left, right) => {
                self.int_binary(*operation, self.int(left, point), self.int(right, point))
            }
            Int::Select(condition, then, otherwise) => {
                self.int(if self.bool(condition, point) { then } else { otherwise }, point)
            }
        }
    }

    fn int_binary(&self, operation: Binary, a: i64, b: i64) -> i64 {
        match operation {
            Binary::Add => wrap(a + b),
            Binary::Subtract => wrap(a - b),
            Binary::Multiply => wrap(a.wrapping_mul(b)),
            Binary::Divide | Binary::Remainder if b == 0 => {
                self.trap(Trap::DivisionByZero);
                0
            }
            // Euclid's quotient is the floor for a positive divisor; a negative one turns both signs.
            Binary::Divide if b > 0 => a.div_euclid(b),
            Binary::Divide => wrap((-a).div_euclid(-b)),
            Binary::Remainder if b > 0 => a.rem_euclid(b),
            Binary::Remainder => -(-a).rem_euclid(-b),
            Binary::Min => a.min(b),
            Binary::Max => a.max(b),
            _ => unreachable!("resolved to i32 operations"),
        }
    }

    pub fn bool(&self, expression: &Bool<R>, point: &Point<R>) -> bool {
        match expression {
            Bool::Literal(value) => *value,
            Bool::Load(load) => self.load(load, point).is_some_and(|(array, i)| array.data.bool(i)),
            Bool::History(row) => self.history(row, point).is_some_and(|(array, i)| array.data.bool(i)),
            Bool::Accumulator => point.bool,
            Bool::Not(operand) => !self.bool(operand, point),
            Bool::CompareFloats(operation, left, right) => {
                compare(*operation, self.float(left, point), self.float(right, point))
            }
            Bool::CompareInts(operation, left, right) => {
                compare(*operation, self.int(left, point), self.int(right, point))
            }
            Bool::Binary(Binary::And, left, right) => self.bool(left, point) && self.bool(right, point),
            Bool::Binary(Binary::Or, left, right) => self.bool(left, point) || self.bool(right, point),
            Bool::Binary(operation, left, right) => {
                compare(*operation, self.bool(left, point), self.bool(right, point))
            }
            Bool::Select(condition, then, otherwise) => {
                self.bool(if self.bool(condition, point) { then } else { otherwise }, point)
            }
        }
    }
}

/// An i32 operation's result modulo 2^32.
pub(crate) fn wrap(value: i64) -> i64 {
    i64::from(value as i32)
}

fn compare<T: PartialOrd>(operation: Binary, a: T, b: T) -> bool {
    match operation {
        Binary::Equal => a == b,
        Binary::NotEqual => a != b,
        Binary::Less => a < b,
        Binary::LessEqual => a <= b,
        _ => unreachable!("resolved to comparisons"),
    }
}

fn float_unary<R: Real>(operation: Unary, x: R) -> R {
    let sigmoid = |x: R| R::ONE / (R::ONE + (-x).exp());
    match operation {
        Unary::Negate => -x,
        Unary::Absolute => x.abs(),
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => R::ONE / x.sqrt(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tanh => x.tanh(),
        Unary::Sigmoid => sigmoid(x),
        Unary::Silu => x * sigmoid(x),
        Unary::Gelu => {
            let cubic = x + R::from_f64(0.044715) * x * x * x;
            let slope = R::from_f64((2.0 / std::f64::consts::PI).sqrt());
            R::from_f64(0.5) * x * (R::ONE + (slope * cubic).tanh())
        }
        Unary::Softplus => x.max(R::default()) + (-x.abs()).exp().ln_1p(),
        Unary::Floor => x.floor(),
        _ => unreachable!("resolved to f32 operations"),
    }
}
