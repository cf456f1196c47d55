//! Size expressions as written, and the solving of a call's sizes.

use std::collections::HashMap;

use super::{Checked, Checker, Global, similar};
use crate::ast::{self, BinarySign, ExprKind, UnarySign};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::ModelId;
use crate::parser::Reported;
use crate::size::{Size, SizeError, SizeSymbol};
use crate::source::Span;

/// The size names that a place sees.
#[derive(Clone, Copy)]
pub(super) struct SizeScope<'s> {
    /// A function's size parameters.
    pub own: &'s HashMap<String, SizeSymbol>,
    /// The model around it.
    pub model: Option<ModelId>,
}

impl Checker<'_> {
    pub(super) fn size_symbol(&self, name: &str, scope: SizeScope) -> Option<SizeSymbol> {
        if let Some(symbol) = scope.own.get(name) {
            return Some(*symbol);
        }
        match self.inside.get(scope.model?.index())?.get(name)? {
            (Global::Size(symbol), _) => Some(*symbol),
            _ => None,
        }
    }

    /// The size that an expression in a type or in brackets means.
    pub(super) fn size(&mut self, expr: &ast::Expr, scope: SizeScope) -> Checked<Size> {
        let result = match &expr.kind {
            ExprKind::Int(value) => Ok(Size::from(*value)),
            ExprKind::Name(name) => match self.size_symbol(name, scope) {
                Some(symbol) => Ok(Size::from(symbol)),
                None => return Err(self.unknown_size(name, expr.span, scope)),
            },
            ExprKind::Unary(UnarySign::Minus, operand) => Size::from(0).subtract(&self.size(operand, scope)?),
            ExprKind::Binary(sign, left, right) => {
                let left = self.size(left, scope);
                let (left, right) = (left?, self.size(right, scope)?);
                match sign {
                    BinarySign::Add => left.add(&right),
                    BinarySign::Subtract => left.subtract(&right),
                    BinarySign::Multiply => left.multiply(&right),
                    BinarySign::Divide => left.divide(&right),
                    _ => return Err(self.no_size(expr.span)),
                }
            }
            _ => return Err(self.no_size(expr.span)),
        };
        result.map_err(|error| self.size_error(error, expr.span))
    }

    pub(super) fn size_error(&mut self, error: SizeError, span: Span) -> Reported {
        self.report(Diagnostic::new(Rule::Size, span, error.to_string()))
    }

    fn no_size(&mut self, span: Span) -> Reported {
        self.report(Diagnostic::new(Rule::Size, span, "this is not a size expression"))
    }

    fn unknown_size(&mut self, name: &str, span: Span, scope: SizeScope) -> Reported {
        if self.is_full() {
            return Reported;
        }
        let mut names: Vec<&str> = scope.own.keys().map(String::as_str).collect();
        if let Some(model) = scope.model {
            let inside = self.inside[model.index()].iter();
            names.extend(
                inside.filter(|(_, (global, _))| matches!(global, Global::Size(_))).map(|(n, _)| n.as_str()),
            );
        }
        names.sort_unstable();
        let hint = match similar(name, names.into_iter()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None if scope.model.is_some() => {
                format!("declare it with `dims {name};` in the model, or `fn name[{name}](...)`")
            }
            None => format!("declare it as a size parameter: `fn name[{name}](...)`"),
        };
        let message = format!("`{name}` is not a size here");
        self.report(Diagnostic::new(Rule::UnknownName, span, message).hint(hint))
    }
}

/// Solves a function's sizes from pairs (declared size, given size), the declared ones over `unknowns` and symbols that
/// stand for themselves. Sizes that nothing determines stay absent.
pub(crate) fn solve_sizes(
    unknowns: &[SizeSymbol],
    pairs: &[(Size, Size)],
    mut solved: HashMap<SizeSymbol, Size>,
) -> Result<HashMap<SizeSymbol, Size>, SizeError> {
    let mut progress = true;
    while progress {
        progress = false;
        for (declared, given) in pairs {
            // One unknown that is linear, all others solved: `a * s + b = given`.
            let mut open = Vec::new();
            declared.for_each_symbol(&mut |symbol| {
                if unknowns.contains(&symbol) && !solved.contains_key(&symbol) && !open.contains(&symbol) {
                    open.push(symbol);
                }
            });
            let [symbol] = open[..] else { continue };
            let Some((factor, rest)) = declared.as_linear_in(symbol) else { continue };
            let known = |size: &Size| size.substitute(&|symbol| solved.get(&symbol).cloned());
            let (factor, rest) = (known(&factor)?, known(&rest)?);
            if factor == Size::from(0) {
                continue;
            }
            if let Some(value) = given.subtract(&rest)?.divide_exactly(&factor)? {
                solved.insert(symbol, value);
                progress = true;
            }
        }
    }
    Ok(solved)
}
