//! Elementwise operations on whole arrays, written out as `each`.

use super::Checked;
use super::body::Body;
use crate::diagnostic::Rule;
use crate::hir::{Axis, Expr, ExprKind, LocalId, Pattern, Range, Statement, Type};
use crate::source::Span;

/// Makes the operation of scalars.
type Scalars<'f, 'c, 'a> = &'f mut dyn FnMut(&mut Body<'c, 'a>, Vec<Expr>) -> Checked<Expr>;

impl<'c, 'a> Body<'c, 'a> {
    /// The operation on the operands: itself when all are scalars; when some are arrays, all of one shape, the array of
    /// its results, scalars being the same for every element.
    pub(super) fn lifted(
        &mut self,
        operands: Vec<Expr>,
        span: Span,
        operation: Scalars<'_, 'c, 'a>,
    ) -> Checked<Expr> {
        let mut shape = None;
        for operand in &operands {
            match (&operand.ty, &shape) {
                (Type::Scalar(_), _) => {}
                (Type::Array(_, dims), None) => shape = Some(dims.clone()),
                (Type::Array(_, dims), Some(shape)) if dims == shape => {}
                (Type::Array(element, dims), Some(shape)) => {
                    let found = self.checker.type_text(&Type::Array(*element, dims.clone()));
                    let wanted = self.checker.type_text(&Type::Array(*element, shape.clone()));
                    let message = format!("elementwise operands have shapes {wanted} and {found}");
                    let hint = "operands have one shape, or are scalars; say which axes meet with `each`";
                    return self.error_hint(Rule::ShapeMismatch, span, message, hint);
                }
                _ => {
                    let operand = operand.clone();
                    self.storable(operand, "an operand")?;
                }
            }
        }
        let Some(shape) = shape else { return operation(self, operands) };
        let axes: Vec<Axis> = shape
            .iter()
            .map(|size| {
                let local = self.new_local("$axis", Type::I32, span);
                Axis { local, range: Range::Fixed(size.clone()) }
            })
            .collect();
        let mut statements = Vec::new();
        let mut elements = Vec::with_capacity(operands.len());
        for operand in operands {
            let operand = self.named(operand, &mut statements);
            elements.push(match operand.ty {
                Type::Array(..) => self.element(operand, &axes, span),
                _ => operand,
            });
        }
        let body = Box::new(operation(self, elements)?);
        let Type::Scalar(element) = body.ty else {
            return self.error(Rule::TypeMismatch, span, "this operation has no elementwise form");
        };
        let ty = Type::Array(element, shape);
        let each = Expr { kind: ExprKind::Each { axes, body }, ty: ty.clone(), span };
        if statements.is_empty() {
            return Ok(each);
        }
        Ok(Expr { kind: ExprKind::Block { statements, result: Box::new(each) }, ty, span })
    }

    /// The operand, bound to a local unless naming it again costs nothing.
    pub(super) fn named(&mut self, operand: Expr, statements: &mut Vec<Statement>) -> Expr {
        let is_name = matches!(
            operand.kind,
            ExprKind::Local(_)
                | ExprKind::Size(_)
                | ExprKind::Float(_)
                | ExprKind::Bool(_)
                | ExprKind::Param(_)
                | ExprKind::Const(_)
                | ExprKind::Static(_)
                | ExprKind::LayerField { .. }
                | ExprKind::State(_)
                | ExprKind::StateNext(_)
        );
        if is_name {
            return operand;
        }
        let local: LocalId = self.new_local("$operand", operand.ty.clone(), operand.span);
        let named = Expr { kind: ExprKind::Local(local), ty: operand.ty.clone(), span: operand.span };
        statements.push(Statement::Let { pattern: Pattern::Local(local), value: operand });
        named
    }

    /// The element of an array at the axes.
    pub(super) fn element(&self, array: Expr, axes: &[Axis], span: Span) -> Expr {
        let ty = array.ty.element().map_or(Type::F32, Type::Scalar);
        let indices = axes.iter().map(|axis| self.local_expr(axis.local, span)).collect();
        Expr { kind: ExprKind::Index { base: Box::new(array), indices }, ty, span }
    }
}
