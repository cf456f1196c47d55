//! Interned scalar terms in a normal form, so that equal expressions are equal numbers.
//!
//! An i32 term is a constant plus multiples of atoms; an f32 term is a sum of products of atoms. Products are not
//! distributed over sums unless asked ([`Algebra::distribute`]), nothing is cancelled, and a reciprocal stays an atom, so that
//! a term given back as an expression has the meaning and nearly the rounding of what was written.

use std::collections::HashMap;

use crate::ir::*;

/// An interned term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Term(u32);

/// What a term is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// An axis; its extent is part of its identity. Unknown when the range depends on other values.
    Axis {
        axis: usize,
        extent: Option<usize>,
    },
    Here,
    /// `constant + Σ coefficient * atom`, i32; at least a constant or two atoms or a coefficient.
    Index {
        constant: i64,
        terms: Vec<(Term, i64)>,
    },
    /// Sum of products, f32; never a single bare atom.
    Sum(Vec<Product>),
    Bool(bool),
    Id(u32),
    Load {
        node: NodeId,
        indices: Vec<Term>,
    },
    History {
        history: HistoryId,
        depth: Term,
        indices: Vec<Term>,
    },
    Accumulator,
    Reciprocal(Term),
    Unary(Unary, Term),
    Binary(Binary, Term, Term),
    Select(Term, Term, Term),
}

/// `coefficient * Π factors`; factors are sorted atoms (or whole sums), repeated for powers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    bits: u64,
    pub factors: Vec<Term>,
}

impl Product {
    pub fn new(coefficient: f64, mut factors: Vec<Term>) -> Self {
        factors.sort();
        Product { bits: coefficient.to_bits(), factors }
    }
    pub fn coefficient(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

#[derive(Clone, Copy)]
struct Facts {
    element: Element,
    /// Bit `a`: the term depends on axis `a`.
    axes: u64,
}

/// The set of axes on which a term may depend, as bits; axes from 63 on share the last bit.
pub(super) fn axis_bit(axis: usize) -> u64 {
    1 << axis.min(63)
}

/// The arena.
pub(super) struct Algebra<'g> {
    graph: &'g Graph,
    forms: Vec<Form>,
    facts: Vec<Facts>,
    known: HashMap<Form, Term>,
}

impl<'g> Algebra<'g> {
    pub fn new(graph: &'g Graph) -> Self {
        Algebra { graph, forms: Vec::new(), facts: Vec::new(), known: HashMap::new() }
    }

    pub fn form(&self, term: Term) -> &Form {
        &self.forms[term.0 as usize]
    }
    pub fn element(&self, term: Term) -> Element {
        self.facts[term.0 as usize].element
    }
    /// The axes on which a term depends, as bits.
    pub fn axes(&self, term: Term) -> u64 {
        self.facts[term.0 as usize].axes
    }
    pub fn uses(&self, term: Term, axis: usize) -> bool {
        self.axes(term) & axis_bit(axis) != 0
    }

    fn intern(&mut self, form: Form) -> Term {
        if let Some(&term) = self.known.get(&form) {
            return term;
        }
        let facts = self.facts_of(&form);
        let term = Term(self.forms.len() as u32);
        self.forms.push(form.clone());
        self.facts.push(facts);
        self.known.insert(form, term);
        term
    }

    fn facts_of(&self, form: &Form) -> Facts {
        let union = |terms: &[Term]| terms.iter().fold(0, |bits, &term| bits | self.axes(term));
        let (element, axes) = match form {
            Form::Axis { axis, .. } => (Element::I32, axis_bit(*axis)),
            Form::Here => (Element::I32, 0),
            Form::Index { terms, .. } => {
                (Element::I32, terms.iter().fold(0, |bits, (term, _)| bits | self.axes(*term)))
            }
            Form::Sum(products) => {
                (Element::F32, products.iter().fold(0, |bits, product| bits | union(&product.factors)))
            }
            Form::Bool(_) => (Element::Bool, 0),
            Form::Id(_) => (Element::Id, 0),
            Form::Load { node, indices } => (self.graph.node(*node).element, union(indices)),
            Form::History { history, depth, indices } => {
                let row = self.graph.histories()[history.index()].row;
                (self.graph.node(row).element, union(indices) | self.axes(*depth))
            }
            Form::Accumulator => (Element::F32, 0),
            Form::Reciprocal(term) => (Element::F32, self.axes(*term)),
            Form::Unary(op, term) => {
                let element = match op {
                    Unary::Negate | Unary::Absolute => self.element(*term),
                    Unary::Not => Element::Bool,
                    Unary::ToInt | Unary::IdToInt => Element::I32,
                    Unary::IntToId => Element::Id,
                    _ => Element::F32,
                };
                (element, self.axes(*term))
            }
            Form::Binary(op, left, right) => {
                let element = match op {
                    Binary::Equal
                    | Binary::NotEqual
                    | Binary::Less
                    | Binary::LessEqual
                    | Binary::And
                    | Binary::Or => Element::Bool,
                    _ => self.element(*left),
                };
                (element, self.axes(*left) | self.axes(*right))
            }
            Form::Select(condition, then, otherwise) => {
                (self.element(*then), self.axes(*condition) | self.axes(*then) | self.axes(*otherwise))
            }
        };
        Facts { element, axes }
    }

    // ---- leaves ----

    pub fn axis(&mut self, axis: usize, extent: Option<usize>) -> Term {
        self.intern(Form::Axis { axis, extent })
    }
    pub fn here(&mut self) -> Term {
        self.intern(Form::Here)
    }
    pub fn int(&mut self, value: i64) -> Term {
        self.intern(Form::Index { constant: value, terms: Vec::new() })
    }
    pub fn float(&mut self, value: f64) -> Term {
        self.intern(Form::Sum(vec![Product::new(value, Vec::new())]))
    }
    pub fn load(&mut self, node: NodeId, indices: Vec<Term>) -> Term {
        self.intern(Form::Load { node, indices })
    }
    pub fn history(&mut self, history: HistoryId, depth: Term, indices: Vec<Term>) -> Term {
        self.intern(Form::History { history, depth, indices })
    }
    pub fn atom(&mut self, form: Form) -> Term {
        self.intern(form)
    }

    /// The literal, when the term is one.
    pub fn as_float(&self, term: Term) -> Option<f64> {
        match self.form(term) {
            Form::Sum(products) => match &products[..] {
                [product] if product.factors.is_empty() => Some(product.coefficient()),
                _ => None,
            },
            _ => None,
        }
    }
    /// The literal, when the term is one.
    pub fn as_int(&self, term: Term) -> Option<i64> {
        match self.form(term) {
            Form::Index { constant, terms } if terms.is_empty() => Some(*constant),
            _ => None,
        }
    }

    // ---- f32 ----

    /// The term as a sum of products.
    pub fn products(&self, term: Term) -> Vec<Product> {
        match self.form(term) {
            Form::Sum(products) => products.clone(),
            _ => vec![Product::new(1.0, vec![term])],
        }
    }
    /// The term as one product; a sum of several is its own single factor.
    pub fn product(&self, term: Term) -> Product {
        match self.form(term) {
            Form::Sum(products) if products.len() == 1 => products[0].clone(),
            _ => Product::new(1.0, vec![term]),
        }
    }
    /// The sum of products.
    pub fn sum(&mut self, products: Vec<Product>) -> Term {
        let mut merged: Vec<Product> = Vec::with_capacity(products.len());
        let mut sorted = products;
        sorted.sort_by(|a, b| a.factors.cmp(&b.factors));
        for product in sorted {
            match merged.last_mut() {
                Some(last) if last.factors == product.factors => {
                    last.bits = (last.coefficient() + product.coefficient()).to_bits();
                }
                _ => merged.push(product),
            }
        }
        if merged.len() > 1 {
            merged.retain(|product| !(product.factors.is_empty() && product.coefficient() == 0.0));
        }
        match &merged[..] {
            [] => self.float(0.0),
            [only] if only.coefficient() == 1.0 && only.factors.len() == 1 => only.factors[0],
            _ => self.intern(Form::Sum(merged)),
        }
    }
    pub fn term_of(&mut self, product: Product) -> Term {
        self.sum(vec![product])
    }
    pub fn multiply_products(&mut self, left: &Product, right: &Product) -> Product {
        let factors = left.factors.iter().chain(&right.factors).copied().collect();
        Product::new(left.coefficient() * right.coefficient(), factors)
    }
    pub fn multiply(&mut self, left: Term, right: Term) -> Term {
        if let Some(by) = self.as_float(left) {
            return self.scale(right, by);
        }
        if let Some(by) = self.as_float(right) {
            return self.scale(left, by);
        }
        let (left, right) = (self.product(left), self.product(right));
        let product = self.multiply_products(&left, &right);
        self.term_of(product)
    }
    pub fn add(&mut self, left: Term, right: Term) -> Term {
        if self.element(left) == Element::I32 {
            return self.index_combination(&[(left, 1), (right, 1)]);
        }
        let mut products = self.products(left);
        products.extend(self.products(right));
        self.sum(products)
    }
    pub fn scale(&mut self, term: Term, by: f64) -> Term {
        let products = self
            .products(term)
            .into_iter()
            .map(|product| Product::new(product.coefficient() * by, product.factors))
            .collect();
        self.sum(products)
    }
    pub fn reciprocal(&mut self, term: Term) -> Term {
        let product = self.product(term);
        if product.coefficient() == 0.0 {
            return self.intern(Form::Reciprocal(term));
        }
        let mut factors = Vec::with_capacity(product.factors.len());
        for &factor in &product.factors {
            factors.push(match self.form(factor) {
                Form::Reciprocal(inner) => *inner,
                _ => self.intern(Form::Reciprocal(factor)),
            });
        }
        // A reciprocal of a reciprocal may be a sum or a product again.
        let mut result = Product::new(1.0 / product.coefficient(), Vec::new());
        for factor in factors {
            let factor = self.product(factor);
            result = self.multiply_products(&result, &factor);
        }
        self.term_of(result)
    }

    /// The term as a sum of products in which no factor for which `open` holds is a sum. `None` beyond `limit` products.
    pub fn distribute(
        &mut self,
        term: Term,
        open: &mut dyn FnMut(&Self, Term) -> bool,
        limit: usize,
    ) -> Option<Vec<Product>> {
        let mut done = Vec::new();
        let mut pending = self.products(term);
        while let Some(product) = pending.pop() {
            let place = product
                .factors
                .iter()
                .position(|&factor| matches!(self.form(factor), Form::Sum(_)) && open(self, factor));
            match place {
                None => done.push(product),
                Some(place) => {
                    let mut rest = product.clone();
                    let sum = rest.factors.remove(place);
                    for part in self.products(sum) {
                        pending.push(self.multiply_products(&rest, &part));
                    }
                }
            }
            if done.len() + pending.len() > limit {
                return None;
            }
        }
        // Merged and in a fixed order.
        let sum = self.sum(done);
        Some(self.products(sum))
    }

    // ---- i32 ----

    fn index_parts(&self, term: Term) -> (i64, Vec<(Term, i64)>) {
        match self.form(term) {
            Form::Index { constant, terms } => (*constant, terms.clone()),
            _ => (0, vec![(term, 1)]),
        }
    }

    /// `Σ coefficient * term` of i32 terms.
    pub fn index_combination(&mut self, parts: &[(Term, i64)]) -> Term {
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
    fn rejoin(&mut self, constant: i64, terms: &[(Term, i64)]) -> Option<Term> {
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
    pub fn bounds(&self, term: Term) -> (Option<i64>, Option<i64>) {
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
    fn value_bounds(&self, node: NodeId) -> (Option<i64>, Option<i64>) {
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
    fn fits(&self, term: Term) -> bool {
        matches!(self.bounds(term), (Some(low), Some(high)) if low >= i32::MIN as i64 && high <= i32::MAX as i64)
    }

    fn divide(&mut self, inner: Term, divisor: Term) -> Term {
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

    fn remainder(&mut self, inner: Term, divisor: Term) -> Term {
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
    fn split(&mut self, term: Term, value: i64) -> (Term, Term) {
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
    fn reduce(&mut self, rest: Term, value: i64) -> (Term, i64) {
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

    // ---- operations ----

    pub fn unary(&mut self, op: Unary, operand: Term) -> Term {
        match op {
            Unary::Negate if self.element(operand) == Element::I32 => {
                return self.index_combination(&[(operand, -1)]);
            }
            Unary::Negate => return self.scale(operand, -1.0),
            Unary::ToFloat => {
                if let Some(value) = self.as_int(operand) {
                    return self.float(value as f64);
                }
            }
            _ => {}
        }
        if let Some(value) = self.as_float(operand) {
            let folded = match op {
                Unary::Exp => Some(value.exp()),
                Unary::Log => Some(value.ln()),
                Unary::Sqrt => Some(value.sqrt()),
                Unary::Rsqrt => Some(1.0 / value.sqrt()),
                Unary::Absolute => Some(value.abs()),
                Unary::Tanh => Some(value.tanh()),
                _ => None,
            };
            if let Some(folded) = folded.filter(|folded| folded.is_finite()) {
                return self.float(folded);
            }
        }
        self.intern(Form::Unary(op, operand))
    }

    pub fn binary(&mut self, op: Binary, left: Term, right: Term) -> Term {
        let integer = self.element(left) == Element::I32;
        match (op, integer) {
            (Binary::Add, _) => self.add(left, right),
            (Binary::Subtract, true) => self.index_combination(&[(left, 1), (right, -1)]),
            (Binary::Subtract, false) => {
                let right = self.scale(right, -1.0);
                self.add(left, right)
            }
            (Binary::Multiply, true) => match (self.as_int(left), self.as_int(right)) {
                (Some(value), _) => self.index_combination(&[(right, value)]),
                (_, Some(value)) => self.index_combination(&[(left, value)]),
                _ => {
                    let (left, right) = (left.min(right), left.max(right));
                    self.intern(Form::Binary(Binary::Multiply, left, right))
                }
            },
            (Binary::Multiply, false) => self.multiply(left, right),
            (Binary::Divide, true) => self.divide(left, right),
            (Binary::Divide, false) => {
                let right = self.reciprocal(right);
                self.multiply(left, right)
            }
            (Binary::Remainder, _) => self.remainder(left, right),
            (Binary::Min | Binary::Max | Binary::Equal | Binary::NotEqual, _) => {
                let (left, right) = (left.min(right), left.max(right));
                if left == right && matches!(op, Binary::Min | Binary::Max) {
                    return left;
                }
                if integer && matches!(op, Binary::Min | Binary::Max) {
                    let difference = self.index_combination(&[(left, 1), (right, -1)]);
                    let (low, high) = self.bounds(difference);
                    if low.is_some_and(|low| low >= 0) {
                        return if op == Binary::Max { left } else { right };
                    }
                    if high.is_some_and(|high| high <= 0) {
                        return if op == Binary::Max { right } else { left };
                    }
                }
                self.intern(Form::Binary(op, left, right))
            }
            _ => self.intern(Form::Binary(op, left, right)),
        }
    }

    pub fn select(&mut self, condition: Term, then: Term, otherwise: Term) -> Term {
        match self.form(condition) {
            Form::Bool(true) => return then,
            Form::Bool(false) => return otherwise,
            _ => {}
        }
        // `if a < b { b } else { a }` and its kin are the greater or lesser of two whole numbers.
        if self.element(then) == Element::I32
            && let Form::Binary(Binary::Less | Binary::LessEqual, a, b) = *self.form(condition)
        {
            if (then, otherwise) == (b, a) {
                return self.binary(Binary::Max, a, b);
            }
            if (then, otherwise) == (a, b) {
                return self.binary(Binary::Min, a, b);
            }
        }
        self.intern(Form::Select(condition, then, otherwise))
    }

    // ---- walking ----

    /// The direct parts of a term.
    pub fn parts(&self, term: Term) -> Vec<Term> {
        match self.form(term) {
            Form::Index { terms, .. } => terms.iter().map(|(term, _)| *term).collect(),
            Form::Sum(products) => products.iter().flat_map(|product| product.factors.clone()).collect(),
            Form::Load { indices, .. } => indices.clone(),
            Form::History { depth, indices, .. } => {
                std::iter::once(*depth).chain(indices.iter().copied()).collect()
            }
            Form::Reciprocal(a) | Form::Unary(_, a) => vec![*a],
            Form::Binary(_, a, b) => vec![*a, *b],
            Form::Select(a, b, c) => vec![*a, *b, *c],
            _ => Vec::new(),
        }
    }

    /// Calls `f` on each distinct term in `term`, itself first; goes below it where `f` says so.
    pub fn visit(&self, term: Term, f: &mut dyn FnMut(Term) -> bool) {
        let mut seen = Vec::new();
        let mut pending = vec![term];
        while let Some(term) = pending.pop() {
            if seen.contains(&term) {
                continue;
            }
            seen.push(term);
            if f(term) {
                pending.extend(self.parts(term));
            }
        }
    }

    /// Whether `f` holds for any term in `term`.
    pub fn any(&self, term: Term, f: &mut dyn FnMut(&Form) -> bool) -> bool {
        let mut found = false;
        self.visit(term, &mut |part| {
            found = found || f(self.form(part));
            !found
        });
        found
    }

    /// The term with every part for which `f` gives another replaced, outermost first.
    pub fn replace(&mut self, term: Term, f: &mut dyn FnMut(&Self, Term) -> Option<Term>) -> Term {
        let mut memo = HashMap::new();
        self.replace_memo(term, f, &mut memo)
    }

    fn replace_memo(
        &mut self,
        term: Term,
        f: &mut dyn FnMut(&Self, Term) -> Option<Term>,
        memo: &mut HashMap<Term, Term>,
    ) -> Term {
        if let Some(&known) = memo.get(&term) {
            return known;
        }
        let result = if let Some(other) = f(self, term) {
            other
        } else {
            match self.form(term).clone() {
                Form::Index { constant, terms } => {
                    let mut parts = Vec::with_capacity(terms.len() + 1);
                    for (atom, coefficient) in terms {
                        parts.push((self.replace_memo(atom, f, memo), coefficient));
                    }
                    parts.push((self.int(constant), 1));
                    self.index_combination(&parts)
                }
                Form::Sum(products) => {
                    let mut replaced = Vec::with_capacity(products.len());
                    for product in products {
                        let mut result = Product::new(product.coefficient(), Vec::new());
                        for factor in product.factors {
                            let factor = self.replace_memo(factor, f, memo);
                            let factor = self.product(factor);
                            result = self.multiply_products(&result, &factor);
                        }
                        replaced.push(result);
                    }
                    // A product that became a whole sum opens into it.
                    let mut opened = Vec::with_capacity(replaced.len());
                    for product in replaced {
                        let term = self.term_of(product);
                        opened.extend(self.products(term));
                    }
                    self.sum(opened)
                }
                Form::Load { node, indices } => {
                    let indices =
                        indices.into_iter().map(|index| self.replace_memo(index, f, memo)).collect();
                    self.load(node, indices)
                }
                Form::History { history, depth, indices } => {
                    let depth = self.replace_memo(depth, f, memo);
                    let indices =
                        indices.into_iter().map(|index| self.replace_memo(index, f, memo)).collect();
                    self.history(history, depth, indices)
                }
                Form::Reciprocal(inner) => {
                    let inner = self.replace_memo(inner, f, memo);
                    self.reciprocal(inner)
                }
                Form::Unary(op, inner) => {
                    let inner = self.replace_memo(inner, f, memo);
                    self.unary(op, inner)
                }
                Form::Binary(op, left, right) => {
                    let left = self.replace_memo(left, f, memo);
                    let right = self.replace_memo(right, f, memo);
                    self.binary(op, left, right)
                }
                Form::Select(condition, then, otherwise) => {
                    let condition = self.replace_memo(condition, f, memo);
                    let then = self.replace_memo(then, f, memo);
                    let otherwise = self.replace_memo(otherwise, f, memo);
                    self.select(condition, then, otherwise)
                }
                _ => term,
            }
        };
        memo.insert(term, result);
        result
    }

    /// The term with each axis term of `map` replaced by another.
    pub fn substitute(&mut self, term: Term, map: &[(Term, Term)]) -> Term {
        self.replace(term, &mut |_, part| map.iter().find(|(from, _)| *from == part).map(|(_, to)| *to))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}
