//! Between expressions and terms: reading a node's body with chosen producers seen through, and writing terms back.

use std::collections::HashMap;

use super::affine::{Affine, Atom};
use super::algebra::{Algebra, Form, Product, Term};
use super::feedback::feedback_loops;
use super::liveness::{Liveness, liveness};
use super::operand::{Operand, Source};
use super::variance::{Variance, variances};
use crate::ir::*;

/// What every query shares about one graph.
pub(super) struct Analysis<'g> {
    pub graph: &'g Graph,
    pub algebra: Algebra<'g>,
    pub liveness: Liveness,
    pub variances: Vec<Variance>,
    /// By node: the loop through states and histories to which it belongs, by its place.
    pub feedback: Vec<Option<u32>>,
}

/// The ends of a range. Of two ranges with one and the same values these may still differ: `n ..= m` is never
/// written as `n .. m + 1` where that sum may be no i32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ends {
    pub start: Term,
    /// One past the last value, or the last value when `inclusive`.
    pub end: Term,
    pub inclusive: bool,
}

/// How far a reading of a body may go before it gives up: terms looked at.
const READING_LIMIT: usize = 20_000;

/// A reading of bodies in which the nodes chosen by `inline` are replaced by their definitions.
pub(super) struct Reader<'a> {
    inline: &'a dyn Fn(NodeId) -> bool,
    cache: HashMap<(NodeId, Vec<Term>), Term>,
    /// Nodes that were seen through, in the order found, each once.
    pub inlined: Vec<NodeId>,
    steps: usize,
}

impl<'a> Reader<'a> {
    pub fn new(inline: &'a dyn Fn(NodeId) -> bool) -> Self {
        Reader { inline, cache: HashMap::new(), inlined: Vec::new(), steps: 0 }
    }
    /// Whether the reading stayed within its limit; terms of one that did not are incomplete but not wrong.
    pub fn complete(&self) -> bool {
        self.steps < READING_LIMIT
    }
}

impl<'g> Analysis<'g> {
    pub fn new(graph: &'g Graph) -> Self {
        let mut feedback = vec![None; graph.nodes().len()];
        for (place, members) in feedback_loops(graph).into_iter().enumerate() {
            for node in members.nodes {
                feedback[node.index()] = Some(place as u32);
            }
        }
        Analysis {
            feedback,
            graph,
            algebra: Algebra::new(graph),
            liveness: liveness(graph),
            variances: variances(graph),
        }
    }

    pub fn compute(&self, node: NodeId) -> Option<&'g Compute> {
        match &self.graph.node(node).kind {
            NodeKind::Compute(compute) => Some(compute),
            _ => None,
        }
    }

    /// The definition of a node without fold or guard.
    pub fn elementwise(&self, node: NodeId) -> Option<&'g Compute> {
        self.compute(node).filter(|compute| compute.fold.is_none() && compute.guard.is_none())
    }

    /// The definition of a node with an unguarded sum.
    pub fn summed(&self, node: NodeId) -> Option<(&'g Compute, &'g Fold)> {
        let compute = self.compute(node)?;
        match &compute.fold {
            Some(fold) if fold.kind == FoldKind::Sum => Some((compute, fold)),
            _ => None,
        }
    }

    /// Fresh axis terms for the ranges, numbered from `first`.
    pub fn axes(&mut self, ranges: &[Range], first: usize) -> Vec<Term> {
        ranges
            .iter()
            .enumerate()
            .map(|(place, range)| self.algebra.axis(first + place, extent(range)))
            .collect()
    }

    /// Reads an expression whose axes have the given values.
    pub fn read(&mut self, reader: &mut Reader<'_>, expr: &Expr, axes: &[Term]) -> Term {
        reader.steps += 1;
        match expr {
            Expr::Float(value) => self.algebra.float(*value),
            Expr::Int(value) => self.algebra.int(*value),
            Expr::Bool(value) => self.algebra.atom(Form::Bool(*value)),
            Expr::Id(value) => self.algebra.atom(Form::Id(*value)),
            // A malformed graph is the validator's to report.
            Expr::Axis(axis) => match axes.get(*axis) {
                Some(&term) => term,
                None => self.algebra.axis(*axis, None),
            },
            Expr::Here => self.algebra.here(),
            Expr::Accumulator => self.algebra.atom(Form::Accumulator),
            Expr::Load { node, indices } => {
                let indices: Vec<Term> = indices.iter().map(|index| self.read(reader, index, axes)).collect();
                if reader.complete()
                    && (reader.inline)(*node)
                    && let Some(compute) = self.elementwise(*node)
                {
                    let key = (*node, indices);
                    if let Some(&known) = reader.cache.get(&key) {
                        return known;
                    }
                    if !reader.inlined.contains(node) {
                        reader.inlined.push(*node);
                    }
                    let term = self.read(reader, &compute.body, &key.1);
                    reader.cache.insert(key, term);
                    return term;
                }
                self.algebra.load(*node, indices)
            }
            Expr::History { history, depth, indices } => {
                let depth = self.read(reader, depth, axes);
                let indices = indices.iter().map(|index| self.read(reader, index, axes)).collect();
                self.algebra.history(*history, depth, indices)
            }
            Expr::Unary(op, operand) => {
                let operand = self.read(reader, operand, axes);
                self.algebra.unary(*op, operand)
            }
            Expr::Binary(op, left, right) => {
                let left = self.read(reader, left, axes);
                let right = self.read(reader, right, axes);
                self.algebra.binary(*op, left, right)
            }
            Expr::Select(condition, then, otherwise) => {
                let condition = self.read(reader, condition, axes);
                let then = self.read(reader, then, axes);
                let otherwise = self.read(reader, otherwise, axes);
                self.algebra.select(condition, then, otherwise)
            }
        }
    }

    /// The ends of a range as terms.
    pub fn range(&mut self, reader: &mut Reader<'_>, range: &Range, axes: &[Term]) -> Ends {
        match range {
            Range::Fixed(n) => {
                Ends { start: self.algebra.int(0), end: self.algebra.int(*n as i64), inclusive: false }
            }
            Range::Between { start, end, inclusive, .. } => {
                let (start, end) = (self.read(reader, start, axes), self.read(reader, end, axes));
                Ends { start, end, inclusive: *inclusive }
            }
        }
    }

    // ---- back to expressions ----

    /// The term as an expression; `axis` renumbers axes. `None` when an axis has no number.
    pub fn write(&self, term: Term, axis: &dyn Fn(usize) -> Option<usize>) -> Option<Expr> {
        let write = |term| self.write(term, axis);
        Some(match self.algebra.form(term) {
            Form::Axis { axis: found, .. } => Expr::Axis(axis(*found)?),
            Form::Here => Expr::Here,
            Form::Index { constant, terms } => {
                let mut sum: Option<Expr> = None;
                for &(atom, coefficient) in terms {
                    let atom = write(atom)?;
                    let part = if coefficient == 1 {
                        atom
                    } else {
                        Expr::binary(Binary::Multiply, atom, Expr::Int(coefficient))
                    };
                    sum = Some(match sum {
                        None => part,
                        Some(sum) => Expr::binary(Binary::Add, sum, part),
                    });
                }
                match sum {
                    None => Expr::Int(*constant),
                    Some(sum) if *constant == 0 => sum,
                    Some(sum) => Expr::binary(Binary::Add, sum, Expr::Int(*constant)),
                }
            }
            Form::Sum(products) => {
                let mut sum: Option<Expr> = None;
                for product in products {
                    let part = |product: &Product| self.write_product(product, axis);
                    sum = Some(match sum {
                        None => part(product)?,
                        Some(sum) if product.coefficient() < 0.0 => {
                            let positive = Product::new(-product.coefficient(), product.factors.clone());
                            Expr::binary(Binary::Subtract, sum, part(&positive)?)
                        }
                        Some(sum) => Expr::binary(Binary::Add, sum, part(product)?),
                    });
                }
                sum.unwrap_or(Expr::Float(0.0))
            }
            Form::Bool(value) => Expr::Bool(*value),
            Form::Id(value) => Expr::Id(*value),
            Form::Load { node, indices } => {
                Expr::load(*node, indices.iter().map(|&index| write(index)).collect::<Option<_>>()?)
            }
            Form::History { history, depth, indices } => Expr::History {
                history: *history,
                depth: Box::new(write(*depth)?),
                indices: indices.iter().map(|&index| write(index)).collect::<Option<_>>()?,
            },
            Form::Accumulator => Expr::Accumulator,
            Form::Reciprocal(inner) => Expr::binary(Binary::Divide, Expr::Float(1.0), write(*inner)?),
            Form::Unary(op, inner) => Expr::unary(*op, write(*inner)?),
            Form::Binary(op, left, right) => Expr::binary(*op, write(*left)?, write(*right)?),
            Form::Select(condition, then, otherwise) => {
                Expr::select(write(*condition)?, write(*then)?, write(*otherwise)?)
            }
        })
    }

    fn write_product(&self, product: &Product, axis: &dyn Fn(usize) -> Option<usize>) -> Option<Expr> {
        let coefficient = product.coefficient();
        let (mut above, mut below): (Option<Expr>, Option<Expr>) = (None, None);
        let times = |total: Option<Expr>, factor: Expr| {
            Some(match total {
                None => factor,
                Some(total) => Expr::binary(Binary::Multiply, total, factor),
            })
        };
        if coefficient.abs() != 1.0 || product.factors.is_empty() {
            above = Some(Expr::Float(coefficient));
        }
        for &factor in &product.factors {
            match self.algebra.form(factor) {
                Form::Reciprocal(inner) => below = times(below, self.write(*inner, axis)?),
                _ => above = times(above, self.write(factor, axis)?),
            }
        }
        let above = above.unwrap_or(Expr::Float(1.0));
        let above = if coefficient == -1.0 && !product.factors.is_empty() {
            Expr::unary(Unary::Negate, above)
        } else {
            above
        };
        Some(match below {
            None => above,
            Some(below) => Expr::binary(Binary::Divide, above, below),
        })
    }

    /// The index form of an i32 or id term.
    pub fn affine(&self, term: Term, axis: &dyn Fn(usize) -> Option<usize>) -> Option<Affine> {
        let mut form = Affine::default();
        let parts = match self.algebra.form(term) {
            Form::Index { constant, terms } => {
                form.constant = *constant;
                terms.clone()
            }
            _ => vec![(term, 1)],
        };
        for (atom, coefficient) in parts {
            let atom = match self.algebra.form(atom) {
                Form::Here => {
                    form.here += coefficient;
                    continue;
                }
                Form::Axis { axis: found, .. } => Atom::Axis(axis(*found)?),
                Form::Binary(op @ (Binary::Divide | Binary::Remainder), inner, divisor)
                    if self.algebra.as_int(*divisor).is_some_and(|divisor| divisor > 0) =>
                {
                    let inner = Box::new(self.affine(*inner, axis)?);
                    let divisor = self.algebra.as_int(*divisor)?;
                    if *op == Binary::Divide {
                        Atom::Quotient(inner, divisor)
                    } else {
                        Atom::Remainder(inner, divisor)
                    }
                }
                _ => Atom::Gathered(Box::new(self.write(atom, axis)?)),
            };
            form.terms.push((atom, coefficient));
        }
        Some(form)
    }

    /// How often a term changes, gathers' indices left aside: what its *values* depend on.
    pub fn value_variance(&self, term: Term) -> Variance {
        match self.algebra.form(term) {
            Form::Load { node, .. } => self.variances[node.index()],
            Form::History { .. } | Form::Here => Variance::PerNode,
            _ => self
                .algebra
                .parts(term)
                .into_iter()
                .map(|part| self.value_variance(part))
                .max()
                .unwrap_or(Variance::Constant),
        }
    }

    /// A product of terms as one operand over the axes that `number` numbers: the load itself when it is one, else a
    /// chain. `extents` gives each numbered axis's extent, which a chain needs.
    pub fn operand(
        &self,
        term: Term,
        number: &dyn Fn(usize) -> Option<usize>,
        extents: &[Option<usize>],
    ) -> Option<Operand> {
        let forms = |indices: &[Term]| {
            indices.iter().map(|&index| self.affine(index, number)).collect::<Option<Vec<_>>>()
        };
        match self.algebra.form(term) {
            Form::Load { node, indices } => {
                return Some(Operand {
                    source: Source::Node(*node),
                    depth: None,
                    indices: forms(indices)?,
                    variance: self.variances[node.index()],
                });
            }
            Form::History { history, depth, indices } => {
                return Some(Operand {
                    source: Source::History(*history),
                    depth: Some(self.affine(*depth, number)?),
                    indices: forms(indices)?,
                    variance: Variance::PerNode,
                });
            }
            _ => {}
        }
        // The chain has the axes it uses, in the site's order.
        let body = self.write(term, number)?;
        let used: Vec<usize> =
            (0..extents.len()).filter(|&axis| super::affine::expr_uses(&body, axis)).collect();
        let axes = used.iter().map(|&axis| extents[axis].map(Range::Fixed)).collect::<Option<Vec<_>>>()?;
        let body = self.write(term, &|axis| used.iter().position(|&used| Some(used) == number(axis)))?;
        Some(Operand {
            source: Source::Chain(Box::new(Compute {
                axes,
                fold: None,
                guard: None,
                body,
                permissions: Permissions::default(),
            })),
            depth: None,
            indices: used.into_iter().map(Affine::axis).collect(),
            variance: self.value_variance(term),
        })
    }
}

/// The extent of a fixed range.
pub(super) fn extent(range: &Range) -> Option<usize> {
    match range {
        Range::Fixed(n) => Some(*n),
        Range::Between { .. } => None,
    }
}

/// The numbering that keeps every axis below `count` as it is.
pub(super) fn identity(count: usize) -> impl Fn(usize) -> Option<usize> {
    move |axis| (axis < count).then_some(axis)
}

/// The nodes of `seen` that no one needs but one another and `kept`, and that are not among `needed`: those need no
/// buffer. In graph order.
pub(super) fn absorbable(
    analysis: &Analysis<'_>,
    seen: &[NodeId],
    kept: &[NodeId],
    needed: &[NodeId],
) -> Vec<NodeId> {
    let mut candidates: Vec<NodeId> = seen
        .iter()
        .copied()
        .filter(|node| !kept.contains(node) && !needed.contains(node) && analysis.compute(*node).is_some())
        .collect();
    candidates.sort();
    candidates.dedup();
    let mut absorbed: Vec<NodeId> = Vec::new();
    // Readers first: a node that stays in memory keeps what it reads there too.
    for &node in candidates.iter().rev() {
        let users = &analysis.liveness.users[node.index()];
        let inside = users.iter().all(|user| kept.contains(user) || absorbed.contains(user));
        if inside && !users.is_empty() && !analysis.liveness.escapes[node.index()] {
            absorbed.push(node);
        }
    }
    absorbed.reverse();
    absorbed
}

/// Whether a node only reads another tensor or a history at other places.
pub(super) fn is_view(graph: &Graph, node: NodeId) -> bool {
    match &graph.node(node).kind {
        NodeKind::Compute(compute) => {
            compute.fold.is_none()
                && compute.guard.is_none()
                && matches!(compute.body, Expr::Load { .. } | Expr::History { .. })
        }
        _ => false,
    }
}
