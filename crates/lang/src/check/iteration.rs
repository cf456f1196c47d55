//! Axes, `each` and folds.

use super::Checked;
use super::body::Body;
use crate::ast::{self, AxisRange, Name};
use crate::diagnostic::Rule;
use crate::hir::{Axis, Expr, ExprKind, FoldKind, Range, Scalar, Type};
use crate::size::Size;
use crate::source::Span;

impl Body<'_, '_> {
    /// Checks the axes, binds their variables in a scope of their own, and runs `check` there.
    fn over_axes<T>(
        &mut self,
        axes: &[ast::Axis],
        check: impl FnOnce(&mut Self, Vec<Axis>) -> Checked<T>,
    ) -> Checked<T> {
        let inside = |place: &mut super::body::Place| {
            place.iteration += 1;
            place.control += 1;
        };
        self.within(inside, |body| {
            body.scoped(|body| {
                let mut checked = Vec::with_capacity(axes.len());
                let mut failed = None;
                for axis in axes {
                    match body.axis(axis) {
                        Ok(axis) => checked.push(axis),
                        Err(reported) => {
                            failed = Some(reported);
                            body.bind(&axis.name, super::body::Binding::Broken);
                        }
                    }
                }
                match failed {
                    Some(reported) => Err(reported),
                    None => check(body, checked),
                }
            })
        })
    }

    fn axis(&mut self, axis: &ast::Axis) -> Checked<Axis> {
        let range = match &axis.range {
            AxisRange::Path(span) => {
                self.check_path_allowed("path", *span)?;
                Range::Path
            }
            AxisRange::Count(count) => {
                let count = self.range_end(count)?;
                match count.kind {
                    ExprKind::Size(size) => Range::Fixed(size),
                    _ => {
                        let start = self.size_expr(Size::from(0), count.span);
                        Range::Between { start: Box::new(start), end: Box::new(count), inclusive: false }
                    }
                }
            }
            AxisRange::Between { start, end, inclusive } => {
                let start = self.range_end(start);
                let (start, end) = (start?, self.range_end(end)?);
                match (&start.kind, &end.kind) {
                    (ExprKind::Size(first), ExprKind::Size(last)) if first.as_constant() == Some(0) => {
                        let size = if *inclusive { last.add(&Size::from(1)) } else { Ok(last.clone()) };
                        Range::Fixed(size.map_err(|error| self.checker.size_error(error, end.span))?)
                    }
                    _ => Range::Between { start: Box::new(start), end: Box::new(end), inclusive: *inclusive },
                }
            }
        };
        if let Range::Fixed(size) = &range
            && size.as_constant().is_some_and(|size| size < 0)
        {
            return self.error(Rule::Size, axis.name.span, "a range ends below its start");
        }
        let (bounds, never_empty) = self.bounds_of(&range);
        self.place.maybe_skipped += u32::from(!never_empty);
        let local = self.bind_local(&axis.name, Type::I32);
        self.axes.insert(local, bounds);
        Ok(Axis { local, range })
    }

    fn range_end(&mut self, end: &ast::Expr) -> Checked<Expr> {
        self.expect(end, &Type::I32, "a range's end")
    }

    pub(super) fn size_expr(&self, size: Size, span: Span) -> Expr {
        Expr { kind: ExprKind::Size(size), ty: Type::I32, span }
    }

    pub(super) fn each(&mut self, axes: &[ast::Axis], body: &ast::Expr, span: Span) -> Checked<Expr> {
        self.over_axes(axes, |this, axes| {
            let body = this.expression(body)?;
            let body = this.storable(body, "an element of `each`")?;
            let sizes: Option<Vec<Size>> = axes
                .iter()
                .map(|axis| match &axis.range {
                    Range::Fixed(size) => Some(size.clone()),
                    _ => None,
                })
                .collect();
            let ty = match (&body.ty, sizes) {
                (Type::Array(element, inner), Some(mut dims)) => {
                    dims.extend(inner.iter().cloned());
                    Type::Array(*element, dims)
                }
                (Type::Scalar(element), Some(dims)) => Type::Array(*element, dims),
                (Type::Scalar(element), None) => Type::Ragged(*element, axes.clone()),
                _ => {
                    let message = "arrays as elements of an `each` with a dependent range";
                    let hint = "name all axes: each[t in T, u in 0..=t, d in D] ...";
                    return this.error_hint(Rule::Ragged, span, message, hint);
                }
            };
            Ok(Expr { kind: ExprKind::Each { axes, body: Box::new(body) }, ty, span })
        })
    }

    pub(super) fn fold(
        &mut self,
        kind: FoldKind,
        axes: &[ast::Axis],
        body: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        self.over_axes(axes, |this, axes| {
            let body = this.expression(body)?;
            if let Type::Array(..) = body.ty {
                let message = "a fold's body is a scalar, and this is an array";
                let hint = "fold every element: each[d in D] sum[i in N] x[i, d]";
                return this.error_hint(Rule::TypeMismatch, body.span, message, hint);
            }
            let mut body = this.storable(body, "a fold's body")?;
            if kind == FoldKind::ArgMax {
                if axes.len() != 1 {
                    let message = "`argmax` folds one axis: its value is that axis' index";
                    return this.error(Rule::TypeMismatch, span, message);
                }
                body = this.checker.coerce(body, &Type::F32, "the body of `argmax`")?;
            }
            let fits = match kind {
                FoldKind::Any | FoldKind::All => body.ty == Type::BOOL,
                _ => matches!(body.ty, Type::Scalar(Scalar::F32 | Scalar::I32)),
            };
            if !fits {
                let found = this.checker.type_text(&body.ty);
                let wanted = match kind {
                    FoldKind::Any | FoldKind::All => "bool",
                    _ => "f32 or i32",
                };
                let message = format!("the body of this fold is {found}, expected {wanted}");
                let hint =
                    "a fold's body is one multiplicative term: put comparisons and sums in parentheses";
                return this.error_hint(Rule::TypeMismatch, body.span, message, hint);
            }
            let ty = if kind == FoldKind::ArgMax { Type::ID } else { body.ty.clone() };
            Ok(Expr { kind: ExprKind::Fold { kind, axes, body: Box::new(body) }, ty, span })
        })
    }

    pub(super) fn ordered_fold(
        &mut self,
        axes: &[ast::Axis],
        carries: &[(Name, ast::Expr)],
        body: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let [(name, init)] = carries else {
            let message = "`fold` has one accumulator";
            let hint = "write fold[k in K](acc = init) expr; several values are carried by `scan`";
            return self.error_hint(Rule::ArgumentCount, span, message, hint);
        };
        let init = self.expression(init)?;
        let init = self.storable(init, "an accumulator")?;
        if !matches!(init.ty, Type::Scalar(_)) {
            let message = "the accumulator of `fold` is a scalar";
            return self.error_hint(Rule::TypeMismatch, init.span, message, "arrays are carried by `scan`");
        }
        self.over_axes(axes, |this, axes| {
            let accumulator = this.bind_local(name, init.ty.clone());
            let body = this.expect(body, &init.ty, "the next value of the accumulator")?;
            let ty = init.ty.clone();
            let kind =
                ExprKind::OrderedFold { axes, accumulator, init: Box::new(init), body: Box::new(body) };
            Ok(Expr { kind, ty, span })
        })
    }
}
