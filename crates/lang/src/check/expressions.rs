//! Expressions, one kind after the other; the larger kinds have modules of their own.

use super::Checked;
use super::body::Body;
use super::types::is_size_valued;
use crate::ast::{self, ExprKind as Syntax};
use crate::diagnostic::Rule;
use crate::hir::{Expr, ExprKind, FieldRole, Type};
use crate::parser::Reported;
use crate::size::Size;
use crate::source::Span;

impl Body<'_, '_> {
    pub(super) fn expression(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let span = expr.span;
        let value = |kind, ty| Ok(Expr { kind, ty, span });
        match &expr.kind {
            Syntax::Error => Err(Reported),
            Syntax::Int(number) => value(ExprKind::Size(Size::from(*number)), Type::I32),
            Syntax::Float(number) => value(ExprKind::Float(*number), Type::F32),
            Syntax::Bool(truth) => value(ExprKind::Bool(*truth), Type::BOOL),
            Syntax::Name(name) => self.name(name, span),
            Syntax::Prime(name) => self.outgoing_state(name, span),
            Syntax::Field(base, field) => self.field(base, field, span),
            Syntax::Unary(sign, operand) => self.unary(*sign, operand, span),
            Syntax::Binary(sign, left, right) => self.binary(*sign, left, right, span),
            Syntax::Index(..) => self.index(expr),
            Syntax::Call { callee, sizes, arguments } => self.call(callee, sizes.as_deref(), arguments, span),
            Syntax::Tuple(parts) => self.tuple(parts, span),
            Syntax::If { condition, then, otherwise } => self.conditional(condition, then, otherwise, span),
            Syntax::Block(block) => self.block(block),
            Syntax::Each { axes, body } => self.each(axes, body, span),
            Syntax::Fold { kind, axes, body } => self.fold(*kind, axes, body, span),
            Syntax::OrderedFold { axes, carries, body } => self.ordered_fold(axes, carries, body, span),
            Syntax::Scan { axes, carries, body } => self.scan(axes, carries, body, span),
            Syntax::For { layer, carries, body } => self.for_layers(layer, carries, body, span),
            Syntax::Match { subject, arms } => self.match_kind(subject, arms, span),
            Syntax::Compute { arithmetic, body } => {
                let body = Box::new(self.expression(body)?);
                let ty = body.ty.clone();
                value(ExprKind::Compute { arithmetic: arithmetic.clone(), body }, ty)
            }
        }
    }

    /// A value that can be passed, returned or stored: a scalar or an array.
    pub(super) fn storable(&mut self, expr: Expr, place: &str) -> Checked<Expr> {
        match &expr.ty {
            Type::Scalar(_) | Type::Array(..) => Ok(expr),
            Type::Ragged(..) => Err(self.checker.ragged_used(expr.span, place)),
            Type::Tuple(_) => {
                let message = format!("a tuple cannot be {place}");
                let hint = "take it apart first: `let (a, b) = ...;`";
                self.error_hint(Rule::TypeMismatch, expr.span, message, hint)
            }
            Type::Layer { .. } => {
                let message = format!("a layer cannot be {place}");
                self.error_hint(
                    Rule::Layer,
                    expr.span,
                    message,
                    "a layer is only read by its fields or passed",
                )
            }
        }
    }

    fn tuple(&mut self, parts: &[ast::Expr], span: Span) -> Checked<Expr> {
        let checked: Vec<_> = parts.iter().map(|part| self.expression(part)).collect();
        let mut values = Vec::with_capacity(checked.len());
        for part in checked {
            values.push(self.storable(part?, "a part of a tuple")?);
        }
        let ty = Type::Tuple(values.iter().map(|value| value.ty.clone()).collect());
        Ok(Expr { kind: ExprKind::Tuple(values), ty, span })
    }

    fn conditional(
        &mut self,
        condition: &ast::Expr,
        then: &ast::Expr,
        otherwise: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let condition = self.expect(condition, &Type::BOOL, "the condition");
        let is_static = condition.as_ref().is_ok_and(|condition| self.is_static(condition));
        let mut arm = |arm: &ast::Expr| {
            let inside = |place: &mut super::body::Place| {
                place.control += 1;
                place.maybe_skipped += 1;
                place.runtime_if += u32::from(!is_static);
            };
            self.within(inside, |body| body.expression(arm))
        };
        let (then, otherwise) = (arm(then), arm(otherwise));
        let (condition, then, otherwise) = (condition?, then?, otherwise?);
        let (then, otherwise) = self.same_type(then, otherwise, "the other arm of `if`")?;
        let ty = then.ty.clone();
        let (condition, then, otherwise) = (Box::new(condition), Box::new(then), Box::new(otherwise));
        Ok(Expr { kind: ExprKind::If { condition, then, otherwise, is_static }, ty, span })
    }

    /// Both values with one type: a size beside an f32 becomes f32.
    pub(super) fn same_type(&mut self, first: Expr, second: Expr, place: &str) -> Checked<(Expr, Expr)> {
        let first = self.value(first, place)?;
        if first.ty == Type::I32 && second.ty == Type::F32 && is_size_valued(&first) {
            return Ok((self.checker.size_to_float(first)?, second));
        }
        let second = self.checker.coerce(second, &first.ty, place)?;
        Ok((first, second))
    }

    /// A scalar, an array or a tuple.
    pub(super) fn value(&mut self, expr: Expr, place: &str) -> Checked<Expr> {
        if let Type::Tuple(_) = expr.ty { Ok(expr) } else { self.storable(expr, place) }
    }

    /// Whether the value is known before planning.
    pub(super) fn is_static(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Size(_) | ExprKind::Static(_) => true,
            ExprKind::Const(_) => matches!(expr.ty, Type::Scalar(_)),
            ExprKind::Local(local) => self.statics.contains(local),
            ExprKind::LayerField { layer, field } => {
                let Type::Layer { model, .. } = layer.ty else { return false };
                let role = self.checker.models[model.index()].field(*field).map(|field| field.role);
                matches!(expr.ty, Type::Scalar(_)) && role.is_some_and(|role| role != FieldRole::Param)
            }
            ExprKind::Convert(_, operand) | ExprKind::Unary(_, operand) => self.is_static(operand),
            ExprKind::Binary(_, left, right) => self.is_static(left) && self.is_static(right),
            ExprKind::If { condition, then, otherwise, .. } => {
                [condition, then, otherwise].into_iter().all(|part| self.is_static(part))
            }
            ExprKind::Block { statements, result } => statements.is_empty() && self.is_static(result),
            _ => false,
        }
    }
}
