//! What can be proven of an index before sizes are known: linear forms of i32 expressions and their extremes.

use std::collections::BTreeMap;

use super::body::Body;
use crate::hir::{Binary, Expr, ExprKind, LocalId, Range, Type, Unary};
use crate::size::Size;

/// What a linear form is over. `here` comes before every local, so that it is eliminated last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Variable {
    Here,
    Local(LocalId),
}

/// A sum of variables times sizes, and a size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Linear {
    terms: BTreeMap<Variable, Size>,
    pub constant: Size,
}

/// The least and the greatest value of an axis, where they are linear.
#[derive(Clone, Debug, Default)]
pub(super) struct AxisBounds {
    pub least: Option<Linear>,
    pub greatest: Option<Linear>,
}

impl Linear {
    pub(super) fn constant(size: Size) -> Linear {
        Linear { terms: BTreeMap::new(), constant: size }
    }

    pub(super) fn variable(variable: Variable) -> Linear {
        Linear { terms: BTreeMap::from([(variable, Size::from(1))]), constant: Size::default() }
    }

    pub(super) fn add(&self, other: &Linear) -> Option<Linear> {
        let mut terms = self.terms.clone();
        for (variable, factor) in &other.terms {
            let sum = terms.get(variable).cloned().unwrap_or_default().add(factor).ok()?;
            if sum == Size::default() {
                terms.remove(variable);
            } else {
                terms.insert(*variable, sum);
            }
        }
        // More variables than this prove nothing in practice and would cost time.
        (terms.len() <= 16).then_some(Linear { terms, constant: self.constant.add(&other.constant).ok()? })
    }

    pub(super) fn scale(&self, factor: &Size) -> Option<Linear> {
        let mut scaled = Linear::constant(self.constant.multiply(factor).ok()?);
        for (variable, own) in &self.terms {
            let product = own.multiply(factor).ok()?;
            if product != Size::default() {
                scaled.terms.insert(*variable, product);
            }
        }
        Some(scaled)
    }

    pub(super) fn subtract(&self, other: &Linear) -> Option<Linear> {
        self.add(&other.scale(&Size::from(-1))?)
    }

    /// The value, when it depends on no variable.
    pub(super) fn as_constant(&self) -> Option<&Size> {
        self.terms.is_empty().then_some(&self.constant)
    }

    /// The factor of a variable and the rest.
    pub(super) fn split(&self, variable: Variable) -> (Size, Linear) {
        let mut rest = self.clone();
        (rest.terms.remove(&variable).unwrap_or_default(), rest)
    }
}

impl Body<'_, '_> {
    /// The linear form of an i32 expression, when it has one.
    pub(super) fn linear(&self, expr: &Expr) -> Option<Linear> {
        match &expr.kind {
            ExprKind::Size(size) => Some(Linear::constant(size.clone())),
            ExprKind::Here => Some(Linear::variable(Variable::Here)),
            ExprKind::Local(local) if expr.ty == Type::I32 => Some(match self.linears.get(local) {
                Some(linear) => linear.clone(),
                None => Linear::variable(Variable::Local(*local)),
            }),
            ExprKind::Unary(Unary::Negate, operand) => self.linear(operand)?.scale(&Size::from(-1)),
            ExprKind::Binary(Binary::Add, left, right) => self.linear(left)?.add(&self.linear(right)?),
            ExprKind::Binary(Binary::Subtract, left, right) => {
                self.linear(left)?.subtract(&self.linear(right)?)
            }
            ExprKind::Binary(Binary::Multiply, left, right) => {
                let (left, right) = (self.linear(left)?, self.linear(right)?);
                match (left.as_constant(), right.as_constant()) {
                    (Some(factor), _) => right.scale(factor),
                    (_, Some(factor)) => left.scale(factor),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The extreme of a form over its variables' ranges. `here` is at least 0 and has no greatest value.
    pub(super) fn extreme(&self, linear: &Linear, greatest: bool) -> Option<Size> {
        let mut rest = linear.clone();
        // Later variables' ranges may depend on earlier ones, never the other way.
        for _ in 0..64 {
            let Some((variable, factor)) = rest.terms.pop_last() else { return Some(rest.constant) };
            let rises = if factor.is_at_least(0) {
                true
            } else if Size::from(0).subtract(&factor).ok()?.is_at_least(0) {
                false
            } else {
                return None;
            };
            let bound = match variable {
                Variable::Here if rises == greatest => return None,
                Variable::Here => Linear::default(),
                Variable::Local(local) => {
                    let bounds = self.axes.get(&local)?;
                    if rises == greatest { bounds.greatest.clone()? } else { bounds.least.clone()? }
                }
            };
            rest = rest.add(&bound.scale(&factor)?)?;
        }
        None
    }

    /// The ranges of an axis, and whether it is proven to hold a value.
    pub(super) fn bounds_of(&self, range: &Range) -> (AxisBounds, bool) {
        let one = Linear::constant(Size::from(1));
        let (least, greatest) = match range {
            Range::Fixed(size) => (Some(Linear::default()), Linear::constant(size.clone()).subtract(&one)),
            Range::Between { start, end, inclusive: true } => (self.linear(start), self.linear(end)),
            Range::Between { start, end, inclusive: false } => {
                (self.linear(start), self.linear(end).and_then(|end| end.subtract(&one)))
            }
            Range::Path => (Some(Linear::default()), Some(Linear::variable(Variable::Here))),
        };
        let length = match (&least, &greatest) {
            (Some(least), Some(greatest)) => greatest.subtract(least),
            _ => None,
        };
        let shortest = length.and_then(|length| self.extreme(&length, false));
        let never_empty = shortest.is_some_and(|shortest| shortest.is_at_least(0));
        (AxisBounds { least, greatest }, never_empty)
    }

    /// Whether `linear` reaches a value of at least 0 for certain: at some point when this place is evaluated for
    /// certain, else at every point.
    pub(super) fn certainly_reaches_zero(&self, linear: &Linear) -> bool {
        let some_point = self.place.maybe_skipped == 0;
        self.extreme(linear, some_point).is_some_and(|extreme| extreme.is_at_least(0))
    }
}
