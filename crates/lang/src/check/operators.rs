//! Unary and binary operators.

use super::Checked;
use super::body::Body;
use super::types::is_size_valued;
use crate::ast::{self, BinarySign, UnarySign};
use crate::diagnostic::Rule;
use crate::hir::{Binary, Expr, ExprKind, Scalar, Type, Unary};
use crate::size::Size;
use crate::source::Span;

impl Body<'_, '_> {
    pub(super) fn unary(&mut self, sign: UnarySign, operand: &ast::Expr, span: Span) -> Checked<Expr> {
        let operand = self.expression(operand)?;
        let operation = match sign {
            UnarySign::Minus => Unary::Negate,
            UnarySign::Not => Unary::Not,
        };
        self.lifted(vec![operand], span, &mut |body, mut operands| {
            let operand = operands.remove(0);
            body.apply_unary(operation, operand, span)
        })
    }

    /// An operation of one scalar.
    pub(super) fn apply_unary(&mut self, operation: Unary, operand: Expr, span: Span) -> Checked<Expr> {
        if let (Unary::Negate, ExprKind::Size(size)) = (operation, &operand.kind) {
            return match Size::from(0).subtract(size) {
                Ok(size) => Ok(Expr { kind: ExprKind::Size(size), ty: Type::I32, span }),
                Err(error) => Err(self.checker.size_error(error, span)),
            };
        }
        let wanted = match operation {
            Unary::Not => Type::BOOL,
            Unary::Negate | Unary::Absolute if operand.ty == Type::I32 => Type::I32,
            _ => Type::F32,
        };
        let operand = self.checker.coerce(operand, &wanted, "the operand")?;
        Ok(Expr { kind: ExprKind::Unary(operation, Box::new(operand)), ty: wanted, span })
    }

    pub(super) fn binary(
        &mut self,
        sign: BinarySign,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let operation = match sign {
            BinarySign::Add => Binary::Add,
            BinarySign::Subtract => Binary::Subtract,
            BinarySign::Multiply => Binary::Multiply,
            BinarySign::Divide => Binary::Divide,
            BinarySign::Remainder => Binary::Remainder,
            BinarySign::Equal => Binary::Equal,
            BinarySign::NotEqual => Binary::NotEqual,
            BinarySign::Less => Binary::Less,
            BinarySign::LessEqual => Binary::LessEqual,
            BinarySign::Greater => Binary::Greater,
            BinarySign::GreaterEqual => Binary::GreaterEqual,
            BinarySign::And => Binary::And,
            BinarySign::Or => Binary::Or,
        };
        let left = self.expression(left);
        // The right side of `&&` and `||` is guarded by the left one.
        let skipped = u32::from(matches!(operation, Binary::And | Binary::Or));
        let right = self.within(|place| place.maybe_skipped += skipped, |body| body.expression(right));
        let (left, right) = (left?, right?);
        if is_arithmetic(operation) {
            return self.lifted(vec![left, right], span, &mut |body, mut operands| {
                let (left, right) = (operands.remove(0), operands.remove(0));
                body.apply_binary(operation, left, right, span)
            });
        }
        self.apply_binary(operation, left, right, span)
    }

    /// An operation of two scalars: of sizes a size, of a size and an f32 an f32.
    pub(super) fn apply_binary(
        &mut self,
        operation: Binary,
        left: Expr,
        right: Expr,
        span: Span,
    ) -> Checked<Expr> {
        if let (ExprKind::Size(left), ExprKind::Size(right)) = (&left.kind, &right.kind) {
            let size = match operation {
                Binary::Add => Some(left.add(right)),
                Binary::Subtract => Some(left.subtract(right)),
                Binary::Multiply => Some(left.multiply(right)),
                Binary::Divide => Some(left.divide(right)),
                _ => None,
            };
            match size {
                Some(Ok(size)) => return Ok(Expr { kind: ExprKind::Size(size), ty: Type::I32, span }),
                Some(Err(error)) => return Err(self.checker.size_error(error, span)),
                None => {}
            }
        }
        let (left, right) = self.operands(operation, left, right, span)?;
        let result = if is_arithmetic(operation) { left.ty.clone() } else { Type::BOOL };
        Ok(Expr { kind: ExprKind::Binary(operation, Box::new(left), Box::new(right)), ty: result, span })
    }

    fn operands(&mut self, operation: Binary, left: Expr, right: Expr, span: Span) -> Checked<(Expr, Expr)> {
        if let Binary::And | Binary::Or = operation {
            let left = self.checker.coerce(left, &Type::BOOL, "the left side")?;
            return Ok((left, self.checker.coerce(right, &Type::BOOL, "the right side")?));
        }
        let (left, right) = if left.ty == Type::F32 && is_size_valued(&right) {
            (left, self.checker.size_to_float(right)?)
        } else if right.ty == Type::F32 && is_size_valued(&left) {
            (self.checker.size_to_float(left)?, right)
        } else {
            (left, right)
        };
        let right = match (&left.ty, &right.ty) {
            (Type::Array(..) | Type::Ragged(..), _) | (_, Type::Array(..) | Type::Ragged(..)) => {
                let message = "arrays are not compared as a whole";
                let hint = "compare elements: each[i in N] a[i] == b[i], or all[i in N] (a[i] == b[i])";
                return self.error_hint(Rule::TypeMismatch, span, message, hint);
            }
            (Type::Scalar(a), Type::Scalar(b)) if a == b => right,
            (Type::Scalar(Scalar::I32), Type::Scalar(Scalar::F32)) => {
                let message = "an i32 and an f32 in one operation";
                let hint =
                    "write f32(...) around the i32; only sizes and integer literals convert by themselves";
                return self.error_hint(Rule::TypeMismatch, left.span, message, hint);
            }
            (Type::Scalar(Scalar::F32), Type::Scalar(Scalar::I32)) => {
                let message = "an f32 and an i32 in one operation";
                let hint =
                    "write f32(...) around the i32; only sizes and integer literals convert by themselves";
                return self.error_hint(Rule::TypeMismatch, right.span, message, hint);
            }
            _ => self.checker.coerce(right, &left.ty, "the right side")?,
        };
        let element = left.ty.element();
        let fits = match operation {
            Binary::Equal | Binary::NotEqual => matches!(left.ty, Type::Scalar(_)),
            Binary::Remainder => element == Some(Scalar::I32),
            _ => matches!(left.ty, Type::Scalar(Scalar::F32 | Scalar::I32)),
        };
        if !fits {
            let message = format!("this operation is not defined for {}", self.checker.type_text(&left.ty));
            let hint = match (operation, element) {
                (Binary::Remainder, Some(Scalar::F32)) => {
                    "`%` is for i32; for f32 write x - floor(x / y) * y"
                }
                (_, Some(Scalar::Id)) => "ids are compared and used as indices; for arithmetic write i32(x)",
                _ => "it takes f32 or i32",
            };
            return self.error_hint(Rule::TypeMismatch, span, message, hint);
        }
        Ok((left, right))
    }
}

fn is_arithmetic(operation: Binary) -> bool {
    use Binary::{Add, Divide, Max, Min, Multiply, Remainder, Subtract};
    matches!(operation, Add | Subtract | Multiply | Divide | Remainder | Min | Max)
}
