//! Indices, histories' rows, and fields.

use super::Checked;
use super::body::{Binding, Body};
use super::bounds::{Linear, Variable};
use crate::ast::{self, ExprKind as Syntax};
use crate::diagnostic::Rule;
use crate::hir::{Axis, Conversion, Expr, ExprKind, HistoryId, Range, Scalar, Type};
use crate::parser::Reported;
use crate::size::Size;
use crate::source::Span;

impl Body<'_, '_> {
    /// `base[i, j][k]`, all brackets at once.
    pub(super) fn index(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let mut groups = Vec::new();
        let mut base = expr;
        while let Syntax::Index(inner, indices) = &base.kind {
            groups.push(indices);
            base = inner;
        }
        let indices: Vec<_> =
            groups.into_iter().rev().flatten().map(|index| self.index_value(index)).collect();
        if let Syntax::Name(name) = &base.kind
            && let Some(Binding::History(history)) = self.lookup(name)
        {
            let indices = indices.into_iter().collect::<Checked<Vec<_>>>()?;
            return self.history_row(history, name, indices, expr.span);
        }
        let base = self.expression(base)?;
        let indices = indices.into_iter().collect::<Checked<Vec<_>>>()?;
        let ty = match &base.ty {
            Type::Array(element, dims) => {
                self.check_rank(indices.len(), dims.len(), expr.span)?;
                for (index, dim) in indices.iter().zip(dims) {
                    self.check_in_dimension(index, dim)?;
                }
                Type::of(*element, dims[indices.len()..].to_vec())
            }
            Type::Ragged(element, axes) => {
                if indices.len() != axes.len() {
                    let message = format!(
                        "{} of {} indices of an array with a dependent range",
                        indices.len(),
                        axes.len()
                    );
                    return self.error(Rule::Ragged, expr.span, message);
                }
                self.check_in_ragged(&indices, axes)?;
                Type::Scalar(*element)
            }
            other => {
                let message = format!("{} cannot be indexed", self.checker.type_text(other));
                return self.error(Rule::Index, base.span, message);
            }
        };
        Ok(Expr { kind: merged(base, indices), ty, span: expr.span })
    }

    fn index_value(&mut self, index: &ast::Expr) -> Checked<Expr> {
        let index = self.expression(index)?;
        match index.ty {
            Type::Scalar(Scalar::I32 | Scalar::Id) => Ok(index),
            _ => {
                let message = format!("an index is {}", self.checker.type_text(&index.ty));
                self.error_hint(Rule::Index, index.span, message, "indices are i32 or id")
            }
        }
    }

    fn check_rank(&mut self, given: usize, rank: usize, span: Span) -> Checked<()> {
        if given <= rank {
            return Ok(());
        }
        self.error(Rule::Index, span, format!("{given} indices of an array of rank {rank}"))
    }

    fn check_in_dimension(&mut self, index: &Expr, dim: &Size) -> Checked<()> {
        let range = (Linear::default(), Linear::constant(dim.clone()));
        self.check_inside(index, &range.0, &range.1, &self.checker.size_text(dim))
    }

    /// Refuses an index that is proven outside `start .. end`.
    fn check_inside(&mut self, index: &Expr, start: &Linear, end: &Linear, text: &str) -> Checked<()> {
        let Some(linear) = self.linear(index) else { return Ok(()) };
        if let Some(above) = linear.subtract(end)
            && self.certainly_reaches_zero(&above)
        {
            let reached = self.extreme(&linear, true).map(|size| self.checker.size_text(&size));
            let message = match reached {
                Some(reached) => {
                    format!("an index reaches {reached} in a dimension whose indices end before {text}")
                }
                None => format!("an index is beyond its range, which ends before {text}"),
            };
            let hint = "shorten the range, or guard the access with `if`";
            return self.error_hint(Rule::Index, index.span, message, hint);
        }
        let below = start.subtract(&linear).and_then(|d| d.subtract(&Linear::constant(Size::from(1))));
        if below.is_some_and(|below| self.certainly_reaches_zero(&below)) {
            let message = "an index falls below the start of its dimension";
            let hint = "raise the range's start, or guard the access with `if`";
            return self.error_hint(Rule::Index, index.span, message, hint);
        }
        Ok(())
    }

    /// The same for a ragged array: an axis' range with earlier axes replaced by their indices.
    fn check_in_ragged(&mut self, indices: &[Expr], axes: &[Axis]) -> Checked<()> {
        for (place, (index, axis)) in indices.iter().zip(axes).enumerate() {
            let at = |linear: Option<Linear>| -> Option<Linear> {
                let mut linear = linear?;
                for (axis, index) in axes[..place].iter().zip(indices) {
                    let (factor, rest) = linear.split(Variable::Local(axis.local));
                    if factor != Size::default() {
                        linear = rest.add(&self.linear(index)?.scale(&factor)?)?;
                    }
                }
                Some(linear)
            };
            let (start, end) = match &axis.range {
                Range::Fixed(size) => (Some(Linear::default()), Some(Linear::constant(size.clone()))),
                Range::Between { start, end, inclusive } => {
                    let past = Linear::constant(Size::from(i64::from(*inclusive)));
                    (at(self.linear(start)), at(self.linear(end)).and_then(|end| end.add(&past)))
                }
                Range::Path => {
                    let end = Linear::variable(Variable::Here).add(&Linear::constant(Size::from(1)));
                    (Some(Linear::default()), end)
                }
            };
            if let (Some(start), Some(end)) = (start, end) {
                self.check_inside(index, &start, &end, "the end of its dependent range")?;
            }
        }
        Ok(())
    }

    fn history_row(
        &mut self,
        history: HistoryId,
        name: &str,
        mut indices: Vec<Expr>,
        span: Span,
    ) -> Checked<Expr> {
        if self.place.scan > 0 {
            let message =
                format!("history `{name}` is read inside a scan, whose turns are a path of their own");
            let hint = "read it before the scan, or move the body to a `step fn`";
            return self.error_hint(Rule::Scan, span, message, hint);
        }
        let depth = indices.remove(0);
        let depth = match depth.ty {
            Type::I32 => depth,
            _ => {
                let message = "a depth is i32";
                return self.error(Rule::Index, depth.span, message);
            }
        };
        let ahead = self.linear(&depth).and_then(|linear| {
            linear.subtract(&Linear::variable(Variable::Here))?.subtract(&Linear::constant(Size::from(1)))
        });
        if ahead.is_some_and(|ahead| self.certainly_reaches_zero(&ahead)) {
            let message = format!("history `{name}` is read above depth `here`, which no node has yet");
            let hint = "the node's own row is at `here`, its parent's at `here - 1`";
            return self.error_hint(Rule::State, depth.span, message, hint);
        }
        let row = self.histories[history.index()].row.clone();
        let dims = row.dims().to_vec();
        if indices.len() > dims.len() {
            let message = format!(
                "history `{name}` has rows of rank {}, and {} indices follow the depth",
                dims.len(),
                indices.len()
            );
            return self.error(Rule::Index, span, message);
        }
        for (index, dim) in indices.iter().zip(&dims) {
            self.check_in_dimension(index, dim)?;
        }
        let Some(element) = row.element() else { return Err(Reported) };
        let ty = Type::of(element, dims[indices.len()..].to_vec());
        Ok(Expr { kind: ExprKind::HistoryRead { history, depth: Box::new(depth), indices }, ty, span })
    }

    /// A value as an index of the other integer type.
    pub(super) fn convert(&self, conversion: Conversion, operand: Expr, ty: Type, span: Span) -> Expr {
        Expr { kind: ExprKind::Convert(conversion, Box::new(operand)), ty, span }
    }
}

/// An index of an index is one index.
fn merged(base: Expr, mut indices: Vec<Expr>) -> ExprKind {
    match base.kind {
        ExprKind::Index { base, indices: mut before } => {
            before.append(&mut indices);
            ExprKind::Index { base, indices: before }
        }
        ExprKind::HistoryRead { history, depth, indices: mut before } => {
            before.append(&mut indices);
            ExprKind::HistoryRead { history, depth, indices: before }
        }
        kind => ExprKind::Index { base: Box::new(Expr { kind, ..base }), indices },
    }
}
