//! Whether a history is read above `here`: decided where the depth is affine in `here` and the axes.

use super::{Broken, Validator};
use crate::ir::*;

/// `constant + here * depth + Σ coefficient * axis`.
struct Affine {
    constant: i64,
    here: i64,
    axes: Vec<(usize, i64)>,
}

impl Affine {
    fn constant(constant: i64) -> Affine {
        Affine { constant, here: 0, axes: Vec::new() }
    }

    fn scaled(mut self, by: i64) -> Option<Affine> {
        self.constant = self.constant.checked_mul(by)?;
        self.here = self.here.checked_mul(by)?;
        for (_, coefficient) in &mut self.axes {
            *coefficient = coefficient.checked_mul(by)?;
        }
        Some(self)
    }

    fn plus(mut self, other: Affine) -> Option<Affine> {
        self.constant = self.constant.checked_add(other.constant)?;
        self.here = self.here.checked_add(other.here)?;
        for (axis, coefficient) in other.axes {
            match self.axes.iter_mut().find(|(known, _)| *known == axis) {
                Some((_, known)) => *known = known.checked_add(coefficient)?,
                None => self.axes.push((axis, coefficient)),
            }
        }
        Some(self)
    }

    fn of(expr: &Expr) -> Option<Affine> {
        match expr {
            Expr::Int(value) => Some(Affine::constant(*value)),
            Expr::Here => Some(Affine { constant: 0, here: 1, axes: Vec::new() }),
            Expr::Axis(axis) => Some(Affine { constant: 0, here: 0, axes: vec![(*axis, 1)] }),
            Expr::Unary(Unary::Negate, operand) => Affine::of(operand)?.scaled(-1),
            Expr::Binary(Binary::Add, left, right) => Affine::of(left)?.plus(Affine::of(right)?),
            Expr::Binary(Binary::Subtract, left, right) => {
                Affine::of(left)?.plus(Affine::of(right)?.scaled(-1)?)
            }
            Expr::Binary(Binary::Multiply, left, right) => {
                let (left, right) = (Affine::of(left)?, Affine::of(right)?);
                if left.here == 0 && left.axes.is_empty() {
                    right.scaled(left.constant)
                } else if right.here == 0 && right.axes.is_empty() {
                    left.scaled(right.constant)
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    /// The greatest value over the axes, as an affine form of `here` alone. None when an axis is empty or its
    /// extent is not affine: then nothing is decided.
    fn greatest(mut self, ranges: &[&Range]) -> Option<Affine> {
        while let Some(place) = (0..self.axes.len()).max_by_key(|&place| self.axes[place].0) {
            let (axis, coefficient) = self.axes.swap_remove(place);
            if coefficient == 0 {
                continue;
            }
            let value = match ranges.get(axis)? {
                Range::Fixed(0) => return None,
                Range::Fixed(n) if coefficient > 0 => Affine::constant(*n as i64 - 1),
                Range::Fixed(_) => Affine::constant(0),
                Range::Between { end, inclusive, .. } if coefficient > 0 => {
                    Affine::of(end)?.plus(Affine::constant(i64::from(*inclusive) - 1))?
                }
                Range::Between { start, .. } => Affine::of(start)?,
            };
            self = self.plus(value.scaled(coefficient)?)?;
        }
        Some(self)
    }
}

impl Validator<'_> {
    /// Refuses a read of a history that certainly happens above `here`. A read under a condition is left to the
    /// run, and so is one whose depth is no affine form.
    pub(super) fn depths(&self, compute: &Compute) -> Result<(), Broken> {
        let folded = compute.fold.iter().flat_map(|fold| &fold.axes);
        let ranges: Vec<&Range> = compute.axes.iter().chain(folded).collect();
        if compute.guard.is_some() {
            return Ok(());
        }
        self.depths_in(&compute.body, &ranges)
    }

    fn depths_in(&self, expr: &Expr, ranges: &[&Range]) -> Result<(), Broken> {
        if let Expr::History { history, depth, .. } = expr
            && let Some(greatest) = Affine::of(depth).and_then(|depth| depth.greatest(ranges))
            && (greatest.here > 1 || (greatest.here == 1 && greatest.constant > 0))
        {
            let key = &self.graph.histories[history.index()].key;
            let detail = format!("`{key}` is read up to here + {}, above here", greatest.constant);
            return Err(("depth", detail));
        }
        let mut result = Ok(());
        match expr {
            Expr::Select(condition, ..) => result = self.depths_in(condition, ranges),
            Expr::Binary(Binary::And | Binary::Or, left, _) => result = self.depths_in(left, ranges),
            _ => expr.for_each_part(&mut |part| {
                if result.is_ok() {
                    result = self.depths_in(part, ranges);
                }
            }),
        }
        result
    }
}
