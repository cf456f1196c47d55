//! Integer values as sums: what proves indices in range and turns them into addresses.

use fiddlehead_graph::{Binary, Unary};

use super::value::{Extent, Kind, Type, Value, Values};

/// `constant + Σ coefficient * atom`, atoms ascending, no coefficient zero. It equals the value it was made from: sums
/// that could wrap stay atoms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Affine {
    pub constant: i64,
    pub terms: Vec<(Value, i64)>,
}

impl Affine {
    pub fn constant(constant: i64) -> Affine {
        Affine { constant, terms: Vec::new() }
    }
    fn atom(atom: Value) -> Affine {
        Affine { constant: 0, terms: vec![(atom, 1)] }
    }
    pub fn plus_scaled(&self, other: &Affine, by: i64) -> Affine {
        let mut sum = Affine { constant: self.constant + other.constant * by, terms: self.terms.clone() };
        for &(atom, coefficient) in &other.terms {
            match sum.terms.binary_search_by_key(&atom, |term| term.0) {
                Ok(place) => sum.terms[place].1 += coefficient * by,
                Err(place) => sum.terms.insert(place, (atom, coefficient * by)),
            }
        }
        sum.terms.retain(|term| term.1 != 0);
        sum
    }
    pub fn minus(&self, other: &Affine) -> Affine {
        self.plus_scaled(other, -1)
    }
    /// `(m, r)` with `self = by * m + r`, `r` holding the terms that are no multiples.
    pub fn split_by(&self, by: i64) -> (Affine, Affine) {
        let mut whole = Affine::constant(self.constant.div_euclid(by));
        let mut rest = Affine::constant(self.constant.rem_euclid(by));
        for &(atom, coefficient) in &self.terms {
            if coefficient % by == 0 {
                whole.terms.push((atom, coefficient / by));
            } else {
                rest.terms.push((atom, coefficient));
            }
        }
        (whole, rest)
    }
}

impl Values {
    /// The sum that an integer value is. Whatever is no sum is an atom.
    pub fn affine(&self, value: Value) -> Affine {
        let facts = self.facts(value);
        if let Kind::Constant(word) = facts.kind {
            return Affine::constant(word as i32 as i64);
        }
        match facts.kind {
            Kind::Unary(Unary::Negate, a) if self.exact(value) => {
                Affine::default().plus_scaled(&self.affine(a), -1)
            }
            Kind::Binary(Binary::Add, a, b) if self.exact(value) => {
                self.affine(a).plus_scaled(&self.affine(b), 1)
            }
            Kind::Binary(Binary::Subtract, a, b) if self.exact(value) => {
                self.affine(a).minus(&self.affine(b))
            }
            Kind::Binary(Binary::Multiply, a, b) if self.exact(value) => match (self.only(a), self.only(b)) {
                (_, Some(by)) => Affine::default().plus_scaled(&self.affine(a), by),
                (Some(by), _) => Affine::default().plus_scaled(&self.affine(b), by),
                _ => Affine::atom(value),
            },
            _ => Affine::atom(value),
        }
    }

    /// Whether an integer sum, difference or product never wraps. A result's range is widened to all of i32 exactly
    /// when it might, or when it is that wide by itself.
    fn exact(&self, value: Value) -> bool {
        let facts = self.facts(value);
        facts.ty == Type::Integer && facts.range != (i32::MIN as i64, i32::MAX as i64)
    }

    /// Least and greatest of a sum, over all points of the loops, using how ranges depend on each other
    /// (`0 <= t < here + 1` gives `t - here <= 0`). None when it cannot be bounded in i64.
    pub fn bounds(&self, form: &Affine) -> Option<(i64, i64)> {
        let low = self.extreme(&Affine::default().plus_scaled(form, -1))?;
        Some((-low, self.extreme(form)?))
    }

    fn extreme(&self, form: &Affine) -> Option<i64> {
        // Without relations first: plain interval arithmetic is exact where ranges are fixed.
        let plain = self.plain_extreme(form)?;
        let mut form = form.clone();
        loop {
            let inner = form
                .terms
                .iter()
                .filter_map(|&(atom, coefficient)| match self.facts(atom).kind {
                    Kind::Axis(axis) => match self.extents[axis] {
                        Extent::Between { low, high, inclusive } => {
                            Some((axis, atom, coefficient, low, high, inclusive))
                        }
                        Extent::Fixed { .. } => None,
                    },
                    _ => None,
                })
                .max_by_key(|found| found.0);
            let Some((_, atom, coefficient, low, high, inclusive)) = inner else { break };
            form.terms.retain(|term| term.0 != atom);
            let bound = if coefficient > 0 {
                self.affine(high).minus(&Affine::constant(i64::from(!inclusive)))
            } else {
                self.affine(low)
            };
            form = form.plus_scaled(&bound, coefficient);
        }
        Some(plain.min(self.plain_extreme(&form)?))
    }

    fn plain_extreme(&self, form: &Affine) -> Option<i64> {
        let mut sum = form.constant;
        for &(atom, coefficient) in &form.terms {
            let (low, high) = self.facts(atom).range;
            let term = coefficient.checked_mul(if coefficient > 0 { high } else { low })?;
            sum = sum.checked_add(term)?;
        }
        Some(sum)
    }
}
