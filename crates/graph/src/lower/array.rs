//! Arrays: how tensors come from `each`, folds, choices and views, and how scalars become tensors.

use fiddlehead_lang::hir;
use fiddlehead_lang::size::Size;
use fiddlehead_lang::source::Span;

use super::error::LowerError;
use super::expression::{LONGEST, LONGEST_REPEATED, Lowered, Lowerer, element_of};
use super::frame::{Tensor, TensorFold};
use super::value::{Base, Value, View, is_plain, length};
use crate::ir::*;
use crate::rewrite::affine::Affine;
use crate::rewrite::simplify::past;

impl<'a> Lowerer<'a> {
    pub(super) fn chosen(
        &mut self,
        condition: &Expr,
        then: Value,
        otherwise: Value,
        span: Span,
    ) -> Lowered<Value> {
        match (then, otherwise) {
            (Value::Scalar(then), Value::Scalar(otherwise)) => {
                Ok(Value::Scalar(self.frame().simplifier().choice(condition.clone(), then, otherwise)))
            }
            (Value::Array(then), Value::Array(otherwise)) if then.shape == otherwise.shape => {
                let shape = then.shape.clone();
                let element = self.element(&then);
                let own: Vec<usize> = shape.iter().map(|&n| self.frame().variable(Range::Fixed(n))).collect();
                let at: Vec<Expr> = own.iter().map(|&variable| Expr::Axis(variable)).collect();
                let body = self.chosen(condition, then.at(at.clone()), otherwise.at(at), span)?;
                let Value::Scalar(body) = body else {
                    return Err(LowerError::Inconsistent { span, what: "an element is no scalar" });
                };
                self.over(own, body, element, shape, span)
            }
            (Value::Tuple(then), Value::Tuple(otherwise)) if then.len() == otherwise.len() => {
                let parts: Lowered<Vec<Value>> = then
                    .into_iter()
                    .zip(otherwise)
                    .map(|(then, otherwise)| self.chosen(condition, then, otherwise, span))
                    .collect();
                Ok(Value::Tuple(parts?))
            }
            _ => Err(LowerError::Inconsistent { span, what: "the arms of an if differ" }),
        }
    }

    /// The type of a view's elements.
    pub(super) fn element(&mut self, view: &View) -> Element {
        let graph = self.frame().builder.graph();
        match &view.base {
            Base::Node(node) => graph.node(*node).element,
            Base::History(history, _) => graph.node(graph.histories()[history.index()].row).element,
        }
    }

    /// The array whose element at the variables `own` is `body`.
    fn over(
        &mut self,
        own: Vec<usize>,
        body: Expr,
        element: Element,
        shape: Vec<usize>,
        span: Span,
    ) -> Lowered<Value> {
        if let Some((node, prefix)) = self.frame().as_element(&body, &own) {
            return Ok(Value::Array(View { base: Base::Node(node), prefix, shape }));
        }
        let (node, outer) = self.tensor(own, None, body, element, span)?;
        let prefix = outer.into_iter().map(Expr::Axis).collect();
        Ok(Value::Array(View { base: Base::Node(node), prefix, shape }))
    }

    fn tensor(
        &mut self,
        own: Vec<usize>,
        fold: Option<TensorFold>,
        body: Expr,
        element: Element,
        span: Span,
    ) -> Lowered<(NodeId, Vec<usize>)> {
        let tensor =
            Tensor { own, fold, body, element, permissions: self.permissions, origin: self.origin(span) };
        self.frame().make(tensor, span)
    }

    pub(super) fn each(
        &mut self,
        axes: &'a [hir::Axis],
        body: &'a hir::Expr,
        ty: &hir::Type,
        span: Span,
    ) -> Lowered<Value> {
        let mut own = self.axes(axes, span)?;
        let element = element_of(ty, span)?;
        let body = match self.value(body)? {
            Value::Scalar(body) => body,
            Value::Array(view) => {
                let inner: Vec<usize> =
                    view.shape.iter().map(|&n| self.frame().variable(Range::Fixed(n))).collect();
                let at = inner.iter().map(|&variable| Expr::Axis(variable)).collect();
                own.extend(inner);
                match view.at(at) {
                    Value::Scalar(body) => body,
                    _ => return Err(LowerError::Inconsistent { span, what: "an element is no scalar" }),
                }
            }
            _ => return Err(LowerError::Inconsistent { span, what: "each makes scalars or arrays" }),
        };
        match ty {
            hir::Type::Ragged(..) => {
                let rank = own.len();
                if let Some((node, prefix)) = self.frame().as_element(&body, &own) {
                    return Ok(Value::Ragged { node, prefix, rank });
                }
                let (node, outer) = self.tensor(own, None, body, element, span)?;
                Ok(Value::Ragged { node, prefix: outer.into_iter().map(Expr::Axis).collect(), rank })
            }
            ty => {
                let shape = self.shape(ty, span)?;
                self.over(own, body, element, shape, span)
            }
        }
    }

    pub(super) fn folded(
        &mut self,
        fold: TensorFold,
        body: Expr,
        ty: &hir::Type,
        span: Span,
    ) -> Lowered<Value> {
        let element = element_of(ty, span)?;
        let (node, outer) = self.tensor(Vec::new(), Some(fold), body, element, span)?;
        Ok(Value::Scalar(Expr::load(node, outer.into_iter().map(Expr::Axis).collect())))
    }

    /// New variables for axes, bound to their locals.
    pub(super) fn axes(&mut self, axes: &'a [hir::Axis], span: Span) -> Lowered<Vec<usize>> {
        let mut variables = Vec::new();
        for axis in axes {
            let range = match &axis.range {
                hir::Range::Fixed(size) => Range::Fixed(self.extent(size, span)?),
                hir::Range::Path => {
                    let end = Expr::binary(Binary::Add, Expr::Here, Expr::Int(1));
                    Range::Between { start: Expr::Int(0), end, inclusive: false, bound: None }
                }
                hir::Range::Between { start, end, inclusive } => {
                    let start = self.scalar(start)?;
                    let start = self.settled_scalar(start, Element::I32, span)?;
                    let end = self.scalar(end)?;
                    let end = self.settled_scalar(end, Element::I32, span)?;
                    let past = if *inclusive { past(&end, &self.frame().around) } else { None };
                    let (end, inclusive) = past.map_or((end, *inclusive), |past| (past, false));
                    let bound = self.bound(&start, &end, inclusive);
                    Range::Between { start, end, inclusive, bound }
                }
            };
            let variable = self.frame().variable(range);
            self.bind(axis.local, Value::Scalar(Expr::Axis(variable)));
            variables.push(variable);
        }
        Ok(variables)
    }

    /// The most values that a range can have, when that is known whatever the depth.
    fn bound(&mut self, start: &Expr, end: &Expr, inclusive: bool) -> Option<usize> {
        let around = &self.frame().around;
        let (first, last) = (Affine::of(start), Affine::of(end));
        if !first.interval(around).fits() || !last.interval(around).fits() {
            return None;
        }
        let most = last.plus(first.scaled(-1)).interval(around).high.saturating_add(i64::from(inclusive));
        // Proofs take depths up to 2^30 into account: a bound near it says nothing.
        usize::try_from(most.max(0)).ok().filter(|&most| most < 1 << 29)
    }

    /// A value that may be used many times: scalars that cost something become nodes.
    pub(super) fn settled(&mut self, value: Value, span: Span) -> Lowered<Value> {
        Ok(match value {
            Value::Scalar(expr) => {
                let element = self.scalar_element(&expr);
                Value::Scalar(self.settled_scalar(expr, element, span)?)
            }
            Value::Tuple(parts) => {
                let parts: Lowered<Vec<Value>> =
                    parts.into_iter().map(|part| self.settled(part, span)).collect();
                Value::Tuple(parts?)
            }
            other => other,
        })
    }

    pub(super) fn settled_scalar(&mut self, expr: Expr, element: Element, span: Span) -> Lowered<Expr> {
        if is_plain(&expr) && length(&expr) <= LONGEST_REPEATED {
            return Ok(expr);
        }
        if self.frame().has_accumulator(&expr) {
            if length(&expr) > LONGEST {
                return Err(LowerError::TooLarge { what: "parts of one expression", limit: LONGEST });
            }
            return Ok(expr);
        }
        let (node, outer) = self.tensor(Vec::new(), None, expr, element, span)?;
        Ok(Expr::load(node, outer.into_iter().map(Expr::Axis).collect()))
    }

    fn scalar_element(&mut self, expr: &Expr) -> Element {
        expr.element_in(self.frame().builder.graph(), Element::F32)
    }

    /// The node of a whole value of this frame: an array or scalar that depends on no loop variable.
    pub(super) fn whole(&mut self, value: Value, span: Span, name: &str) -> Lowered<NodeId> {
        let before = self.name.replace(name.to_string());
        let result = self.whole_node(value, span);
        self.name = before;
        result
    }

    fn whole_node(&mut self, value: Value, span: Span) -> Lowered<NodeId> {
        let (node, outer) = self.leading_node(value, span)?;
        if outer.is_empty() {
            Ok(node)
        } else {
            let what = "this value is stored or looped over, so it cannot depend on the variable of an each \
                        or a fold around it";
            Err(LowerError::Unsupported { span, what })
        }
    }

    /// A node that holds a value for all the loop variables that it depends on; those are its first axes.
    pub(super) fn leading_node(&mut self, value: Value, span: Span) -> Lowered<(NodeId, Vec<usize>)> {
        match value {
            Value::Scalar(expr) => {
                if let Expr::Load { node, indices } = &expr
                    && indices.is_empty()
                {
                    return Ok((*node, Vec::new()));
                }
                let element = self.scalar_element(&expr);
                self.tensor(Vec::new(), None, expr, element, span)
            }
            Value::Array(View { base: Base::Node(node), prefix, .. }) if prefix.is_empty() => {
                Ok((node, Vec::new()))
            }
            Value::Array(view) => {
                let element = self.element(&view);
                let own: Vec<usize> =
                    view.shape.iter().map(|&n| self.frame().variable(Range::Fixed(n))).collect();
                let at = own.iter().map(|&variable| Expr::Axis(variable)).collect();
                let Value::Scalar(body) = view.at(at) else {
                    return Err(LowerError::Inconsistent { span, what: "an element is no scalar" });
                };
                self.tensor(own, None, body, element, span)
            }
            _ => Err(LowerError::Inconsistent { span, what: "an array or a scalar was expected" }),
        }
    }

    pub(super) fn top(&mut self, count: &Size, operand: &'a hir::Expr, span: Span) -> Lowered<Value> {
        let k = self.extent(count, span)?;
        let view = self.array(operand)?;
        let mut shape = view.shape.clone();
        if let Some(last) = shape.last_mut() {
            if k > *last {
                return Err(LowerError::Top { span, k, of: *last });
            }
            *last = k;
        }
        let (operand, outer) = self.leading_node(Value::Array(view), span)?;
        if self.frame().builder.graph().shape(operand).is_none() {
            let what = "top[k] cannot stand inside a range that depends on other variables";
            return Err(LowerError::Unsupported { span, what });
        }
        let origin = self.origin(span);
        let parts = [(TopPart::Values, Element::F32), (TopPart::Indices, Element::I32)];
        let parts = parts.map(|(part, element)| {
            let kind = NodeKind::Top { operand, k, part };
            let node = self.frame().builder.node(kind, element, origin.clone());
            let prefix = outer.iter().map(|&variable| Expr::Axis(variable)).collect();
            Value::Array(View { base: Base::Node(node), prefix, shape: shape.clone() })
        });
        Ok(Value::Tuple(parts.into()))
    }
}
