//! What values an integer expression can take, from the extents of the axes around it.

use crate::ir::*;

/// The greatest depth that proofs reckon with. Sessions are far shorter, and sums with it stay inside i32.
const DEEPEST: i64 = 1 << 30;

/// `low ..= high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub low: i64,
    pub high: i64,
}

impl Interval {
    /// Every i32.
    pub const ALL: Interval = Interval { low: i32::MIN as i64, high: i32::MAX as i64 };
    /// Every depth.
    pub const HERE: Interval = Interval { low: 0, high: DEEPEST };

    pub fn new(low: i64, high: i64) -> Interval {
        Interval { low, high }
    }
    /// Whether every value is an i32, so that no wrapping happened on the way.
    pub fn fits(self) -> bool {
        self.low >= Interval::ALL.low && self.high <= Interval::ALL.high
    }
    pub fn plus(self, other: Interval) -> Interval {
        Interval::new(self.low.saturating_add(other.low), self.high.saturating_add(other.high))
    }
    pub fn times(self, by: i64) -> Interval {
        let (a, b) = (self.low.saturating_mul(by), self.high.saturating_mul(by));
        Interval::new(a.min(b), a.max(b))
    }
    fn join(self, other: Interval) -> Interval {
        Interval::new(self.low.min(other.low), self.high.max(other.high))
    }
}

/// The values of the axes and of `here` around an expression.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub axes: Vec<Interval>,
    pub here: Interval,
}

impl Surroundings {
    /// Adds the axes of a compute, those of its fold after the others.
    pub fn of(compute: &Compute, here: Interval) -> Surroundings {
        let mut around = Surroundings { axes: Vec::new(), here };
        let folded = compute.fold.iter().flat_map(|fold| &fold.axes);
        for range in compute.axes.iter().chain(folded) {
            around.push(range);
        }
        around
    }

    /// Adds one axis.
    pub fn push(&mut self, range: &Range) {
        let interval = match range {
            Range::Fixed(n) => Interval::new(0, (*n as i64 - 1).max(0)),
            Range::Between { start, end, inclusive, .. } => {
                let (start, end) = (self.interval(start), self.interval(end));
                let last = if *inclusive { end.high } else { end.high - 1 };
                Interval::new(start.low, last.max(start.low))
            }
        };
        self.axes.push(interval);
    }

    /// The values of an i32 or id expression; all of them where nothing is known.
    pub fn interval(&self, expr: &Expr) -> Interval {
        let found = self.exact(expr);
        if found.fits() { found } else { Interval::ALL }
    }

    fn exact(&self, expr: &Expr) -> Interval {
        match expr {
            Expr::Int(value) => Interval::new(*value, *value),
            Expr::Id(value) => Interval::new(i64::from(*value), i64::from(*value)),
            Expr::Axis(axis) => self.axes.get(*axis).copied().unwrap_or(Interval::ALL),
            Expr::Here => self.here,
            Expr::Unary(Unary::Negate, operand) => self.interval(operand).times(-1),
            Expr::Unary(Unary::Absolute, operand) => {
                let inner = self.interval(operand);
                let high = inner.low.abs().max(inner.high.abs());
                Interval::new(if inner.low > 0 { inner.low } else { 0 }, high)
            }
            Expr::Unary(Unary::IdToInt | Unary::IntToId, operand) => self.interval(operand),
            Expr::Binary(Binary::Add, left, right) => self.interval(left).plus(self.interval(right)),
            Expr::Binary(Binary::Subtract, left, right) => {
                self.interval(left).plus(self.interval(right).times(-1))
            }
            Expr::Binary(Binary::Multiply, left, right) => {
                let (left, right) = (self.interval(left), self.interval(right));
                left.times(right.low).join(left.times(right.high))
            }
            Expr::Binary(Binary::Divide, left, right) => match **right {
                Expr::Int(by) if by > 0 => {
                    let left = self.interval(left);
                    Interval::new(left.low.div_euclid(by), left.high.div_euclid(by))
                }
                _ => Interval::ALL,
            },
            Expr::Binary(Binary::Remainder, left, right) => match **right {
                Expr::Int(by) if by > 0 => {
                    let left = self.interval(left);
                    if left.low >= 0 && left.high < by { left } else { Interval::new(0, by - 1) }
                }
                _ => Interval::ALL,
            },
            Expr::Binary(Binary::Min, left, right) => {
                let (left, right) = (self.interval(left), self.interval(right));
                Interval::new(left.low.min(right.low), left.high.min(right.high))
            }
            Expr::Binary(Binary::Max, left, right) => {
                let (left, right) = (self.interval(left), self.interval(right));
                Interval::new(left.low.max(right.low), left.high.max(right.high))
            }
            Expr::Select(_, then, otherwise) => self.interval(then).join(self.interval(otherwise)),
            _ => Interval::ALL,
        }
    }
}
