//! Index expressions in a normal form: a constant, a multiple of `here`, and multiples of atoms.

use crate::ir::Expr;

/// `constant + here * depth + Σ coefficient * atom`: the normal form of an i32 index expression. Atoms are distinct
/// and in a fixed order, coefficients are not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Affine {
    /// The constant part.
    pub constant: i64,
    /// How often the node's depth is added.
    pub here: i64,
    /// The other parts.
    pub terms: Vec<(Atom, i64)>,
}

/// An indivisible part of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum Atom {
    /// An axis of the site's iteration space.
    Axis(usize),
    /// A derived axis `inner / divisor`, rounded down; the divisor is positive.
    Quotient(Box<Affine>, i64),
    /// A derived axis `inner % divisor`, never negative; the divisor is positive.
    Remainder(Box<Affine>, i64),
    /// Any other whole number or id, mostly one read from data: a gather. What it is written over is the site's axes.
    Gathered(Box<Expr>),
}

impl Affine {
    /// A constant.
    pub fn constant(value: i64) -> Self {
        Affine { constant: value, ..Affine::default() }
    }
    /// An axis alone.
    pub fn axis(axis: usize) -> Self {
        Affine { terms: vec![(Atom::Axis(axis), 1)], ..Affine::default() }
    }
    /// The axis, when the form is that axis and nothing else.
    pub fn as_axis(&self) -> Option<usize> {
        match (&self.terms[..], self.constant, self.here) {
            ([(Atom::Axis(axis), 1)], 0, 0) => Some(*axis),
            _ => None,
        }
    }
    /// The value, when the form is a constant.
    pub fn as_constant(&self) -> Option<i64> {
        (self.terms.is_empty() && self.here == 0).then_some(self.constant)
    }
    /// The gather's index expression, when the form is one gather and nothing else.
    pub fn as_gathered(&self) -> Option<&Expr> {
        match (&self.terms[..], self.constant, self.here) {
            ([(Atom::Gathered(expr), 1)], 0, 0) => Some(expr),
            _ => None,
        }
    }
    /// The coefficients of plain axes as `(axis, coefficient)`, when the form has no other atom and no `here`.
    pub fn as_strides(&self) -> Option<Vec<(usize, i64)>> {
        if self.here != 0 {
            return None;
        }
        self.terms
            .iter()
            .map(|(atom, coefficient)| match atom {
                Atom::Axis(axis) => Some((*axis, *coefficient)),
                _ => None,
            })
            .collect()
    }
    /// Adds `times` times another form.
    pub fn add(&mut self, other: &Affine, times: i64) {
        self.constant += other.constant * times;
        self.here += other.here * times;
        for (atom, coefficient) in &other.terms {
            match self.terms.iter_mut().find(|(known, _)| known == atom) {
                Some((_, total)) => *total += coefficient * times,
                None => self.terms.push((atom.clone(), coefficient * times)),
            }
        }
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        self.rejoin();
    }

    /// Puts together what a flattened index took apart: `k d (x / d) + k (x % d)` is `k x`.
    fn rejoin(&mut self) {
        let joined = self.terms.iter().enumerate().find_map(|(place, (atom, factor))| {
            let Atom::Remainder(inner, divisor) = atom else { return None };
            let whole = factor.checked_mul(*divisor)?;
            let quotient = self.terms.iter().position(|(other, coefficient)| {
                *coefficient == whole
                    && matches!(other, Atom::Quotient(of, by) if is_quotient(of, *by, inner, *divisor))
            })?;
            Some((place, quotient, (**inner).clone(), *factor))
        });
        if let Some((remainder, quotient, inner, factor)) = joined {
            self.terms.remove(remainder.max(quotient));
            self.terms.remove(remainder.min(quotient));
            self.add(&inner, factor);
        }
    }

    /// Whether the value depends on that axis.
    pub fn uses(&self, axis: usize) -> bool {
        self.terms.iter().any(|(atom, _)| match atom {
            Atom::Axis(found) => *found == axis,
            Atom::Quotient(inner, _) | Atom::Remainder(inner, _) => inner.uses(axis),
            Atom::Gathered(expr) => expr_uses(expr, axis),
        })
    }
}

/// Whether `of / by` is `inner / divisor`, which may itself be a quotient.
fn is_quotient(of: &Affine, by: i64, inner: &Affine, divisor: i64) -> bool {
    if by == divisor && of == inner {
        return true;
    }
    match (&inner.terms[..], inner.constant, inner.here) {
        ([(Atom::Quotient(nested, nested_by), 1)], 0, 0) => {
            nested_by.checked_mul(divisor) == Some(by) && of == &**nested
        }
        _ => false,
    }
}

/// Whether a scalar expression depends on an axis.
pub fn expr_uses(expr: &Expr, axis: usize) -> bool {
    match expr {
        Expr::Axis(found) => *found == axis,
        Expr::Load { indices, .. } => indices.iter().any(|index| expr_uses(index, axis)),
        Expr::History { depth, indices, .. } => {
            expr_uses(depth, axis) || indices.iter().any(|index| expr_uses(index, axis))
        }
        Expr::Unary(_, a) => expr_uses(a, axis),
        Expr::Binary(_, a, b) => expr_uses(a, axis) || expr_uses(b, axis),
        Expr::Select(a, b, c) => expr_uses(a, axis) || expr_uses(b, axis) || expr_uses(c, axis),
        _ => false,
    }
}
