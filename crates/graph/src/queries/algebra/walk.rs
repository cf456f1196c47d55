//! Walking terms and replacing their parts.

use super::*;

impl Algebra<'_> {
    /// The direct parts of a term.
    pub(in crate::queries) fn parts(&self, term: Term) -> Vec<Term> {
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
    pub(in crate::queries) fn visit(&self, term: Term, f: &mut dyn FnMut(Term) -> bool) {
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
    pub(in crate::queries) fn any(&self, term: Term, f: &mut dyn FnMut(&Form) -> bool) -> bool {
        let mut found = false;
        self.visit(term, &mut |part| {
            found = found || f(self.form(part));
            !found
        });
        found
    }

    /// The term with every part for which `f` gives another replaced, outermost first.
    pub(in crate::queries) fn replace(
        &mut self,
        term: Term,
        f: &mut dyn FnMut(&Self, Term) -> Option<Term>,
    ) -> Term {
        let mut memo = HashMap::new();
        self.replace_memo(term, f, &mut memo)
    }

    pub(in crate::queries) fn replace_memo(
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
    pub(in crate::queries) fn substitute(&mut self, term: Term, map: &[(Term, Term)]) -> Term {
        self.replace(term, &mut |_, part| map.iter().find(|(from, _)| *from == part).map(|(_, to)| *to))
    }
}
