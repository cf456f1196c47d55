//! Types as written and as text; conversions that a place asks for.

use super::sizes::SizeScope;
use super::{Checked, Checker, similar};
use crate::ast::{self, TypeKind};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::{Conversion, Expr, ExprKind, KindId, Scalar, Type};
use crate::parser::Reported;
use crate::source::Span;

impl Checker<'_> {
    /// The type as written. Layers only where `layers_allowed`, tuples only where `tuple_allowed`.
    pub(super) fn resolve_type(
        &mut self,
        ty: &ast::TypeExpr,
        scope: SizeScope,
        layers_allowed: bool,
        tuple_allowed: bool,
    ) -> Checked<Type> {
        match &ty.kind {
            TypeKind::Tuple(parts) => {
                if !tuple_allowed || parts.len() < 2 {
                    let message = "a tuple of two or more types stands only in a function's result";
                    return Err(self.report(Diagnostic::new(Rule::TypeMismatch, ty.span, message)));
                }
                let parts: Vec<_> =
                    parts.iter().map(|part| self.resolve_type(part, scope, false, false)).collect();
                Ok(Type::Tuple(parts.into_iter().collect::<Checked<_>>()?))
            }
            TypeKind::Named { word, dims } => {
                let Some(scalar) = scalar_named(&word.text) else {
                    return self.layer_type(word, dims, scope, layers_allowed);
                };
                let dims: Vec<_> = dims.iter().map(|dim| (dim.span, self.size(dim, scope))).collect();
                let mut sizes = Vec::with_capacity(dims.len());
                for (span, size) in dims {
                    let size = size?;
                    if size.as_constant().is_some_and(|constant| constant < 0) {
                        let message = format!("a dimension of {}", self.size_text(&size));
                        return Err(self.report(Diagnostic::new(Rule::Size, span, message)));
                    }
                    sizes.push(size);
                }
                Ok(Type::of(scalar, sizes))
            }
        }
    }

    fn layer_type(
        &mut self,
        word: &ast::Name,
        dims: &[ast::Expr],
        scope: SizeScope,
        layers_allowed: bool,
    ) -> Checked<Type> {
        let kinds: Vec<String> = scope
            .model
            .and_then(|model| self.models[model.index()].layers.as_ref())
            .map(|layers| layers.kinds.iter().map(|kind| kind.name.clone()).collect())
            .unwrap_or_default();
        let has_layers = scope.model.is_some_and(|model| self.models[model.index()].layers.is_some());
        if let (Some(model), true) = (scope.model, has_layers) {
            let kind = kinds.iter().position(|kind| *kind == word.text);
            if kind.is_some() || word.text == "layers" {
                if !layers_allowed || !dims.is_empty() {
                    let message = "a layer is only a parameter: it is not stored, returned or put in arrays";
                    return Err(self.report(Diagnostic::new(Rule::Layer, word.span, message)));
                }
                return Ok(Type::Layer { model, kind: kind.map(|kind| KindId(kind as u32)) });
            }
        }
        let names = ["f32", "i32", "bool", "id"].into_iter().chain(kinds.iter().map(String::as_str));
        let hint = match similar(&word.text, names) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None if matches!(word.text.as_str(), "bf16" | "f16" | "fp8" | "q8" | "tf32") => {
                "storage types are a fact of the checkpoint: write f32; arithmetic is permitted by `compute`"
                    .to_string()
            }
            None => {
                "types are f32, i32, bool, id, arrays of them such as f32[N, M], and a model's layer kinds"
                    .to_string()
            }
        };
        let message = format!("`{}` is not a type here", word.text);
        Err(self.report(Diagnostic::new(Rule::UnknownName, word.span, message).hint(hint)))
    }

    /// A type as messages show it.
    pub(super) fn type_text(&self, ty: &Type) -> String {
        match ty {
            Type::Scalar(scalar) => scalar_name(*scalar).to_string(),
            Type::Array(scalar, dims) => {
                let dims: Vec<_> = dims.iter().map(|dim| self.size_text(dim)).collect();
                format!("{}[{}]", scalar_name(*scalar), dims.join(", "))
            }
            Type::Ragged(scalar, axes) => {
                format!("a ragged {} array of rank {}", scalar_name(*scalar), axes.len())
            }
            Type::Tuple(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.type_text(part)).collect();
                format!("({})", parts.join(", "))
            }
            Type::Layer { model, kind } => {
                let layers = self.models[model.index()].layers.as_ref();
                match kind.and_then(|kind| layers.and_then(|layers| layers.kinds.get(kind.index()))) {
                    Some(kind) => format!("layer `{}`", kind.name),
                    None => "layer of any kind".to_string(),
                }
            }
        }
    }

    /// The expression as a value of that type: the same, or a size made f32.
    pub(super) fn coerce(&mut self, expr: Expr, target: &Type, place: &str) -> Checked<Expr> {
        if let Type::Ragged(..) = expr.ty {
            return Err(self.ragged_used(expr.span, place));
        }
        if let (Type::Layer { model, kind: Some(_) }, Type::Layer { model: wanted, kind: None }) =
            (&expr.ty, target)
            && model == wanted
        {
            return Ok(expr);
        }
        if expr.ty == *target {
            return Ok(expr);
        }
        if *target == Type::F32 && is_size_valued(&expr) {
            return self.size_to_float(expr);
        }
        Err(self.mismatch(&expr.ty, target, expr.span, place))
    }

    /// A size made f32, also through blocks and arms.
    pub(super) fn size_to_float(&mut self, expr: Expr) -> Checked<Expr> {
        let span = expr.span;
        let kind = match expr.kind {
            ExprKind::Block { statements, result } => {
                let result = Box::new(self.size_to_float(*result)?);
                ExprKind::Block { statements, result }
            }
            ExprKind::If { condition, then, otherwise, is_static } => {
                let then = Box::new(self.size_to_float(*then)?);
                let otherwise = Box::new(self.size_to_float(*otherwise)?);
                ExprKind::If { condition, then, otherwise, is_static }
            }
            ExprKind::Size(size) if size.has_quotient() => {
                let message = format!("`{}` rounds down before it becomes f32", self.size_text(&size));
                let hint = "make one operand f32 for a true quotient, as in f32(a) / b, or write f32(a / b) to round";
                return Err(self.report(Diagnostic::new(Rule::TypeMismatch, span, message).hint(hint)));
            }
            kind => ExprKind::Convert(Conversion::IntToFloat, Box::new(Expr { kind, ty: expr.ty, span })),
        };
        Ok(Expr { kind, ty: Type::F32, span })
    }

    pub(super) fn ragged_used(&mut self, span: Span, place: &str) -> Reported {
        let message = format!("an array with a dependent range cannot be {place}");
        let hint = "index it where it is used, or give every axis a fixed range and select with `if` inside";
        self.report(Diagnostic::new(Rule::Ragged, span, message).hint(hint))
    }

    pub(super) fn mismatch(&mut self, found: &Type, wanted: &Type, span: Span, place: &str) -> Reported {
        let (found_text, wanted_text) = (self.type_text(found), self.type_text(wanted));
        let shapes = found.element() == wanted.element()
            && !found.dims().is_empty()
            && !wanted.dims().is_empty()
            && found.dims() != wanted.dims();
        let rule = if shapes { Rule::ShapeMismatch } else { Rule::TypeMismatch };
        let message = format!("{place} is {found_text}, expected {wanted_text}");
        let mut diagnostic = Diagnostic::new(rule, span, message);
        let hint = match (found, wanted) {
            (Type::Scalar(Scalar::I32), Type::Scalar(Scalar::F32)) => {
                Some("write f32(...), or 0.0 instead of 0")
            }
            (Type::Scalar(Scalar::F32), Type::Scalar(Scalar::I32)) => Some("write i32(...), which truncates"),
            (Type::Scalar(Scalar::Id), Type::Scalar(Scalar::I32)) => Some("write i32(...)"),
            (Type::Scalar(Scalar::I32), Type::Scalar(Scalar::Id)) => Some("write id(...)"),
            (Type::Array(_, dims), Type::Array(_, wanted)) if dims.len() == wanted.len() && shapes => {
                let mut reversed = dims.clone();
                reversed.reverse();
                (reversed == *wanted).then_some("the dimensions are in another order")
            }
            (Type::Layer { kind: None, .. }, Type::Layer { kind: Some(_), .. }) => {
                Some("match on the layer's kind first: match layer.kind { kind => ... }")
            }
            _ => None,
        };
        if let Some(hint) = hint {
            diagnostic = diagnostic.hint(hint);
        }
        self.report(diagnostic)
    }
}

/// Whether its value is a size expression, perhaps behind blocks and `if`s.
pub(super) fn is_size_valued(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Size(_) => true,
        ExprKind::Block { result, .. } => is_size_valued(result),
        ExprKind::If { then, otherwise, .. } => is_size_valued(then) && is_size_valued(otherwise),
        _ => false,
    }
}

pub(super) fn scalar_named(word: &str) -> Option<Scalar> {
    Some(match word {
        "f32" => Scalar::F32,
        "i32" => Scalar::I32,
        "bool" => Scalar::Bool,
        "id" => Scalar::Id,
        _ => return None,
    })
}

pub(crate) fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::F32 => "f32",
        Scalar::I32 => "i32",
        Scalar::Bool => "bool",
        Scalar::Id => "id",
    }
}
