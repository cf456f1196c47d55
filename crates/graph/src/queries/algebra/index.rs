//! Whole-number terms: linear combinations, derived axes, and what is known of their range.

use super::*;

impl Algebra<'_> {
    pub(in crate::queries) fn index_parts(&self, term: Term) -> (i64, Vec<(Term, i64)>) {
        match self.form(term) {
            Form::Index { constant, terms } => (*constant, terms.clone()),
            _ => (0, vec![(term, 1)]),
        }
    }

    /// `Σ coefficient * term` of i32 terms.
    pub(in crate::queries) fn index_combination(&mut self, parts: &[(Term, i64)]) -> Term {
        let mut constant = 0i64;
        let mut terms: Vec<(Term, i64)> = Vec::new();
        for &(term, by) in parts {
            let (inner_constant, inner) = self.index_parts(term);
            constant = constant.wrapping_add(inner_constant.wrapping_mul(by));
            for (atom, coefficient) in inner {
                let coefficient = coefficient.wrapping_mul(by);
                match terms.iter_mut().find(|(known, _)| *known == atom) {
                    Some((_, total)) => *total = total.wrapping_add(coefficient),
                    None => terms.push((atom, coefficient)),
                }
            }
        }
        terms.retain(|(_, coefficient)| *coefficient != 0);
        if let Some(rejoined) = self.rejoin(constant, &terms) {
            return rejoined;
        }
        terms.sort();
        match (&terms[..], constant) {
            ([(atom, 1)], 0) => *atom,
            _ => self.intern(Form::Index { constant, terms }),
        }
    }

    /// `k c (x / c) + k (x % c)` is `k x`.
    pub(in crate::queries) fn rejoin(&mut self, constant: i64, terms: &[(Term, i64)]) -> Option<Term> {
        for (place, &(atom, factor)) in terms.iter().enumerate() {
            let Form::Binary(Binary::Remainder, inner, divisor) = *self.form(atom) else { continue };
            let Some(value) = self.as_int(divisor) else { continue };
            let quotient = self.divide(inner, divisor);
            let wanted = factor.checked_mul(value)?;
            let Some(other) = terms.iter().position(|&(t, c)| t == quotient && c == wanted) else { continue };
            let constant = self.int(constant);
            let mut parts: Vec<(Term, i64)> = terms
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != place && *at != other)
                .map(|(_, &part)| part)
                .collect();
            parts.push((inner, factor));
            parts.push((constant, 1));
            return Some(self.index_combination(&parts));
        }
        None
    }

    /// Proven least and greatest value of an i32 term; an absent side is unknown.
    pub(in crate::queries) fn bounds(&self, term: Term) -> (Option<i64>, Option<i64>) {
        match self.form(term) {
            Form::Axis { extent: Some(n), .. } => (Some(0), Some((*n as i64 - 1).max(0))),
            Form::Here => (Some(0), None),
            Form::Load { node, .. } => self.value_bounds(*node),
            Form::Unary(Unary::IdToInt | Unary::IntToId, inner) => self.bounds(*inner),
            Form::Index { constant, terms } => {
                let (mut low, mut high) = (Some(*constant), Some(*constant));
                for &(atom, coefficient) in terms {
                    let (mut least, mut greatest) = self.bounds(atom);
                    if coefficient < 0 {
                        std::mem::swap(&mut least, &mut greatest);
                    }
                    let plus = |total: Option<i64>, bound: Option<i64>| {
                        total?.checked_add(bound?.checked_mul(coefficient)?)
                    };
                    low = plus(low, least);
                    high = plus(high, greatest);
                }
                (low, high)
            }
            Form::Binary(Binary::Divide, inner, divisor) => match self.as_int(*divisor) {
                Some(divisor) if divisor > 0 => {
                    let (low, high) = self.bounds(*inner);
                    (low.map(|v| v.div_euclid(divisor)), high.map(|v| v.div_euclid(divisor)))
                }
                _ => (None, None),
            },
            Form::Binary(Binary::Remainder, _, divisor) => match self.as_int(*divisor) {
                Some(divisor) if divisor > 0 => (Some(0), Some(divisor - 1)),
                _ => (None, None),
            },
            Form::Binary(Binary::Min, left, right) => {
                let ((a, b), (c, d)) = (self.bounds(*left), self.bounds(*right));
                (a.zip(c).map(|(x, y)| x.min(y)), [b, d].into_iter().flatten().min())
            }
            Form::Binary(Binary::Max, left, right) => {
                let ((a, b), (c, d)) = (self.bounds(*left), self.bounds(*right));
                ([a, c].into_iter().flatten().max(), b.zip(d).map(|(x, y)| x.max(y)))
            }
            Form::Select(_, then, otherwise) => {
                let ((a, b), (c, d)) = (self.bounds(*then), self.bounds(*otherwise));
                (a.zip(c).map(|(x, y)| x.min(y)), b.zip(d).map(|(x, y)| x.max(y)))
            }
            _ => (None, None),
        }
    }

    /// Bounds of a whole node's elements, for those that are places along an axis.
    pub(in crate::queries) fn value_bounds(&self, node: NodeId) -> (Option<i64>, Option<i64>) {
        let last = |range: Option<&Range>| match range {
            Some(Range::Fixed(n)) => (Some(0), Some((*n as i64 - 1).max(0))),
            _ => (None, None),
        };
        match &self.graph.node(node).kind {
            NodeKind::Top { operand, part: TopPart::Indices, .. } => last(self.graph.axes(*operand).last()),
            NodeKind::Compute(Compute { fold: Some(fold), .. }) if fold.kind == FoldKind::ArgMax => {
                last(fold.axes.first())
            }
            _ => (None, None),
        }
    }

    /// Whether the term's exact value is known to fit in an i32, so that no part of it wrapped.
    pub(in crate::queries) fn fits(&self, term: Term) -> bool {
        matches!(self.bounds(term), (Some(low), Some(high)) if low >= i32::MIN as i64 && high <= i32::MAX as i64)
    }

    pub(in crate::queries) fn divide(&mut self, inner: Term, divisor: Term) -> Term {
        let Some(value) = self.as_int(divisor).filter(|&value| value > 0) else {
            return self.intern(Form::Binary(Binary::Divide, inner, divisor));
        };
        if value == 1 {
            return inner;
        }
        if let Form::Binary(Binary::Divide, nested, by) = *self.form(inner)
            && let Some(by) = self.as_int(by).filter(|&by| by > 0)
            && let Some(both) = by.checked_mul(value)
        {
            let both = self.int(both);
            return self.divide(nested, both);
        }
        if !self.fits(inner) {
            return self.intern(Form::Binary(Binary::Divide, inner, divisor));
        }
        let (whole, rest) = self.split(inner, value);
        if let (Some(low), Some(high)) = self.bounds(rest)
            && low >= 0
            && high < value
        {
            return whole;
        }
        let (rest, value) = self.reduce(rest, value);
        let divisor = self.int(value);
        let quotient = self.intern(Form::Binary(Binary::Divide, rest, divisor));
        self.index_combination(&[(whole, 1), (quotient, 1)])
    }

    pub(in crate::queries) fn remainder(&mut self, inner: Term, divisor: Term) -> Term {
        let Some(value) = self.as_int(divisor).filter(|&value| value > 0) else {
            return self.intern(Form::Binary(Binary::Remainder, inner, divisor));
        };
        if !self.fits(inner) {
            return self.intern(Form::Binary(Binary::Remainder, inner, divisor));
        }
        let (_, rest) = self.split(inner, value);
        if let (Some(low), Some(high)) = self.bounds(rest)
            && low >= 0
            && high < value
        {
            return rest;
        }
        let divisor = self.int(value);
        self.intern(Form::Binary(Binary::Remainder, rest, divisor))
    }

    /// `term = value * whole + rest`, by coefficients.
    pub(in crate::queries) fn split(&mut self, term: Term, value: i64) -> (Term, Term) {
        let (constant, terms) = self.index_parts(term);
        let (mut whole, mut rest) = (Vec::new(), Vec::new());
        for (atom, coefficient) in terms {
            let (times, left) = (coefficient.div_euclid(value), coefficient.rem_euclid(value));
            // Splitting one atom's coefficient helps nothing unless it goes whole.
            if left == 0 { whole.push((atom, times)) } else { rest.push((atom, coefficient)) }
        }
        let (times, left) =
            if rest.is_empty() || constant.rem_euclid(value) == 0 || constant >= value || constant < 0 {
                (constant.div_euclid(value), constant.rem_euclid(value))
            } else {
                (0, constant)
            };
        let (times, left) = (self.int(times), self.int(left));
        whole.push((times, 1));
        rest.push((left, 1));
        (self.index_combination(&whole), self.index_combination(&rest))
    }

    /// Divides a quotient's parts by what they share.
    pub(in crate::queries) fn reduce(&mut self, rest: Term, value: i64) -> (Term, i64) {
        let (constant, terms) = self.index_parts(rest);
        let shared =
            terms.iter().fold(gcd(constant, value), |shared, &(_, coefficient)| gcd(shared, coefficient));
        if shared <= 1 {
            return (rest, value);
        }
        let constant = self.int(constant / shared);
        let mut parts: Vec<(Term, i64)> = terms.into_iter().map(|(atom, c)| (atom, c / shared)).collect();
        parts.push((constant, 1));
        (self.index_combination(&parts), value / shared)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}
