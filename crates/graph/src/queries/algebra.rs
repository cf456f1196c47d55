//! Interned scalar terms in a normal form, so that equal expressions are equal numbers.
//!
//! An i32 term is a constant plus multiples of atoms; an f32 term is a sum of products of atoms. Products are not
//! distributed over sums unless asked ([`Algebra::distribute`]), nothing is cancelled, and a reciprocal stays an atom, so that
//! a term given back as an expression has the meaning and nearly the rounding of what was written.

mod index;
mod walk;

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
}
