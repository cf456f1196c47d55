//! Walks over typed expressions.

use crate::hir::{Axis, Expr, ExprKind, Range, Statement};

/// Calls `f` for the expression and for every expression inside it, outer ones first, in the order of the text.
/// Types are not entered.
pub fn each_expr<'e>(expr: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
    f(expr);
    each_part(expr, &mut |part| each_expr(part, f));
}

/// Calls `f` for every expression directly inside one, also those of its statements and ranges.
pub fn each_part<'e>(expr: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
    match &expr.kind {
        ExprKind::Float(_)
        | ExprKind::Bool(_)
        | ExprKind::Size(_)
        | ExprKind::Local(_)
        | ExprKind::Here
        | ExprKind::Param(_)
        | ExprKind::Const(_)
        | ExprKind::Static(_)
        | ExprKind::SingleLayer(_)
        | ExprKind::State(_)
        | ExprKind::StateNext(_) => {}
        ExprKind::LayerField { layer: part, .. }
        | ExprKind::Convert(_, part)
        | ExprKind::Unary(_, part)
        | ExprKind::Top { operand: part, .. }
        | ExprKind::Compute { body: part, .. } => f(part),
        ExprKind::HistoryRead { depth, indices, .. } => {
            f(depth);
            indices.iter().for_each(f);
        }
        ExprKind::Binary(_, left, right) => {
            f(left);
            f(right);
        }
        ExprKind::If { condition, then, otherwise, .. } => {
            f(condition);
            f(then);
            f(otherwise);
        }
        ExprKind::Block { statements, result } => {
            each_in_statements(statements, f);
            f(result);
        }
        ExprKind::Tuple(parts) | ExprKind::MatchKind { arms: parts, .. } => parts.iter().for_each(f),
        ExprKind::Each { axes, body } | ExprKind::Fold { axes, body, .. } => {
            each_in_axes(axes, f);
            f(body);
        }
        ExprKind::OrderedFold { axes, init, body, .. } => {
            f(init);
            each_in_axes(axes, f);
            f(body);
        }
        ExprKind::Index { base, indices } => {
            f(base);
            indices.iter().for_each(f);
        }
        ExprKind::Call(call) => call.arguments.iter().for_each(f),
        ExprKind::Scan(scan) => {
            scan.carries.iter().for_each(|carry| f(&carry.init));
            each_in_statements(&scan.statements, f);
            if let Some(emission) = &scan.emission {
                emission.condition.iter().for_each(&mut *f);
                f(&emission.value);
            }
            scan.next.iter().for_each(f);
        }
        ExprKind::ForLayers(layers) => {
            layers.carries.iter().for_each(|carry| f(&carry.init));
            each_in_statements(&layers.statements, f);
            layers.next.iter().for_each(f);
        }
    }
}

fn each_in_axes<'e>(axes: &'e [Axis], f: &mut dyn FnMut(&'e Expr)) {
    for axis in axes {
        if let Range::Between { start, end, .. } = &axis.range {
            f(start);
            f(end);
        }
    }
}

fn each_in_statements<'e>(statements: &'e [Statement], f: &mut dyn FnMut(&'e Expr)) {
    for statement in statements {
        f(match statement {
            Statement::Let { value, .. } | Statement::Assign { value, .. } => value,
            Statement::State { init, .. } => init,
            Statement::History { row, .. } => row,
        });
    }
}
