//! Integer expressions as sums of multiples. Everything is modulo 2^32, as i32 arithmetic is, so the form is exact
//! whatever the values; only division asks for a proof that nothing wrapped.

use super::encode;
use super::interval::{Interval, Surroundings};
use crate::ir::*;

/// `constant + Σ coefficient * atom`, atoms distinct and in one order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Affine {
    pub constant: i64,
    pub terms: Vec<(Expr, i64)>,
}

fn wrap(value: i64) -> i64 {
    i64::from(value as i32)
}

impl Affine {
    fn constant(value: i64) -> Affine {
        Affine { constant: wrap(value), terms: Vec::new() }
    }

    /// The form of an i32 expression whose parts are already simplified.
    pub fn of(expr: &Expr) -> Affine {
        match expr {
            Expr::Int(value) => Affine::constant(*value),
            Expr::Unary(Unary::Negate, operand) => Affine::of(operand).scaled(-1),
            Expr::Binary(Binary::Add, left, right) => Affine::of(left).plus(Affine::of(right)),
            Expr::Binary(Binary::Subtract, left, right) => {
                Affine::of(left).plus(Affine::of(right).scaled(-1))
            }
            Expr::Binary(Binary::Multiply, left, right) => {
                let (left, right) = (Affine::of(left), Affine::of(right));
                match (left.literal(), right.literal()) {
                    (Some(value), _) => right.scaled(value),
                    (_, Some(value)) => left.scaled(value),
                    _ => Affine::atom(Expr::binary(Binary::Multiply, left.into_expr(), right.into_expr())),
                }
            }
            other => Affine::atom(other.clone()),
        }
    }

    fn atom(expr: Expr) -> Affine {
        Affine { constant: 0, terms: vec![(expr, 1)] }
    }

    /// The value, when nothing varies.
    pub fn literal(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    pub fn scaled(mut self, by: i64) -> Affine {
        self.constant = wrap(self.constant * wrap(by));
        for (_, coefficient) in &mut self.terms {
            *coefficient = wrap(*coefficient * wrap(by));
        }
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        self
    }

    pub fn plus(mut self, other: Affine) -> Affine {
        self.constant = wrap(self.constant + other.constant);
        for (atom, coefficient) in other.terms {
            match self.terms.iter_mut().find(|(known, _)| *known == atom) {
                Some((_, known)) => *known = wrap(*known + coefficient),
                None => self.terms.push((atom, coefficient)),
            }
        }
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        self
    }

    /// The values of the sum over the integers. Where they [`Interval::fits`], the i32 value is that very number.
    pub fn interval(&self, around: &Surroundings) -> Interval {
        let start = Interval::new(self.constant, self.constant);
        self.terms
            .iter()
            .fold(start, |sum, (atom, coefficient)| sum.plus(around.interval(atom).times(*coefficient)))
    }

    /// Whether the sum over the integers is never zero because the coefficients have a divisor that the constant
    /// lacks.
    pub fn misses_zero(&self) -> bool {
        let divisor = self.terms.iter().fold(0, |divisor, (_, coefficient)| gcd(divisor, coefficient.abs()));
        divisor > 1 && self.constant % divisor != 0
    }

    /// `by * quotient + rest` with `rest` holding what `by` does not divide.
    fn split(self, by: i64) -> (Affine, Affine) {
        let quotient = self.constant.div_euclid(by);
        let mut whole = Affine::constant(quotient);
        let mut rest = Affine::constant(self.constant - quotient * by);
        for (atom, coefficient) in self.terms {
            if coefficient % by == 0 {
                whole.terms.push((atom, coefficient / by));
            } else {
                rest.terms.push((atom, coefficient));
            }
        }
        (whole, rest)
    }

    /// The floor division by a positive literal.
    pub fn divided(self, by: i64, around: &Surroundings) -> Expr {
        if by == 1 {
            return self.into_expr();
        }
        if let [(Expr::Binary(Binary::Divide, inner, divisor), 1)] = self.terms.as_slice()
            && let Expr::Int(first) = **divisor
            && self.constant == 0
            && first > 0
            && i32::try_from(first * by).is_ok()
        {
            return Affine::of(inner).divided(first * by, around);
        }
        if self.interval(around).fits() {
            let (whole, rest) = self.clone().split(by);
            let interval = rest.interval(around);
            if interval.fits() && whole.interval(around).fits() {
                let (low, high) = (interval.low.div_euclid(by), interval.high.div_euclid(by));
                if low == high {
                    return whole.plus(Affine::constant(low)).into_expr();
                }
                let inner = Expr::binary(Binary::Divide, rest.into_expr(), Expr::Int(by));
                return whole.plus(Affine::atom(inner)).into_expr();
            }
        }
        Expr::binary(Binary::Divide, self.into_expr(), Expr::Int(by))
    }

    /// The remainder by a positive literal.
    pub fn remainder(self, by: i64, around: &Surroundings) -> Expr {
        if by == 1 {
            return Expr::Int(0);
        }
        if self.interval(around).fits() {
            let (_, rest) = self.clone().split(by);
            let interval = rest.interval(around);
            if interval.low >= 0 && interval.high < by {
                return rest.into_expr();
            }
            if interval.fits() {
                return Expr::binary(Binary::Remainder, rest.into_expr(), Expr::Int(by));
            }
        }
        Expr::binary(Binary::Remainder, self.into_expr(), Expr::Int(by))
    }

    /// The expression in one form: atoms in order, subtractions last, then the constant.
    pub fn into_expr(mut self) -> Expr {
        self.terms.sort_by_cached_key(|(atom, coefficient)| {
            let mut bytes = vec![u8::from(*coefficient < 0)];
            encode::expression(atom, &mut bytes);
            bytes
        });
        let mut sum: Option<Expr> = None;
        for (atom, coefficient) in self.terms {
            let minus = coefficient < 0 && sum.is_some();
            let size = if minus { wrap(-coefficient) } else { coefficient };
            let term = if size == 1 { atom } else { Expr::binary(Binary::Multiply, atom, Expr::Int(size)) };
            sum = Some(match sum {
                None => term,
                Some(sum) if minus => Expr::binary(Binary::Subtract, sum, term),
                Some(sum) => Expr::binary(Binary::Add, sum, term),
            });
        }
        match (sum, self.constant) {
            (None, constant) => Expr::Int(constant),
            (Some(sum), 0) => sum,
            (Some(sum), constant) if constant < 0 && constant > Interval::ALL.low => {
                Expr::binary(Binary::Subtract, sum, Expr::Int(-constant))
            }
            (Some(sum), constant) => Expr::binary(Binary::Add, sum, Expr::Int(constant)),
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
