//! Layers: their fields, the loop over them, the choice by kind.

use super::body::Body;
use super::scan::carried_type;
use super::{Checked, similar};
use crate::ast::{self, ExprKind as Syntax, Name};
use crate::diagnostic::Rule;
use crate::hir::{Expr, ExprKind, FieldId, ForLayers, KindId, LocalId, ModelId, Type};
use crate::source::Span;

impl Body<'_, '_> {
    /// `layer.field`.
    pub(super) fn field(&mut self, base: &ast::Expr, field: &Name, span: Span) -> Checked<Expr> {
        let layer = self.expression(base)?;
        let Type::Layer { model, kind } = layer.ty else {
            let message = format!("{} has no fields", self.checker.type_text(&layer.ty));
            return self.error_hint(Rule::Layer, span, message, "only a layer has fields");
        };
        if field.text == "kind" {
            let message = "a layer's kind is not a value";
            let hint = "choose by it: match layer.kind { kind => ..., other => ... }";
            return self.error_hint(Rule::Layer, span, message, hint);
        }
        let Some(layers) = self.checker.models[model.index()].layers.as_ref() else {
            return self.error(Rule::Layer, span, "this model has no layers");
        };
        let place = |fields: &[crate::hir::Field]| fields.iter().position(|f| f.name == field.text);
        if let Some(place) = place(&layers.common) {
            let ty = layers.common[place].ty.clone();
            return Ok(field_expr(layer, FieldId::Common(place as u32), ty, span));
        }
        if let Some(kind) = kind {
            let fields = &layers.kinds[kind.index()].fields;
            if let Some(place) = place(fields) {
                let ty = fields[place].ty.clone();
                return Ok(field_expr(layer, FieldId::Kind(kind, place as u32), ty, span));
            }
        }
        let message = format!("{} has no field `{}`", self.checker.type_text(&layer.ty), field.text);
        let own = layers.kinds.iter().find(|k| place(&k.fields).is_some());
        let visible = kind.iter().flat_map(|kind| &layers.kinds[kind.index()].fields).chain(&layers.common);
        let hint = match (own, similar(&field.text, visible.map(|field| field.name.as_str()))) {
            (Some(own), _) => {
                format!("it is a field of kind `{}`: match on layer.kind first", own.name)
            }
            (None, Some(similar)) => format!("did you mean `{similar}`?"),
            (None, None) => "declare it in `layers`, or in a `kind`".to_string(),
        };
        self.error_hint(Rule::Layer, field.span, message, hint)
    }

    pub(super) fn for_layers(
        &mut self,
        layer: &Name,
        carries: &[(Name, ast::Expr)],
        block: &ast::Block,
        span: Span,
    ) -> Checked<Expr> {
        let model = self.model.filter(|model| self.checker.models[model.index()].layers.is_some());
        let Some(model) = model else {
            let message = "there are no layers here";
            let hint = "`for layer in layers` stands inside a model that declares `layers[L] { ... }`";
            return self.error_hint(Rule::Layer, span, message, hint);
        };
        let carries = self.carries(carries)?;
        if carries.is_empty() {
            let message = "the loop over layers carries at least one value";
            return self.error_hint(
                Rule::Layer,
                span,
                message,
                "write `for layer in layers(x = init) { ... }`",
            );
        }
        self.within(
            |place| place.control += 1,
            |body| {
                body.scoped(|body| {
                    let layer = body.bind_local(layer, Type::Layer { model, kind: None });
                    let carries = body.bind_carries(carries);
                    let turn = body.turn(block, &carries, false);
                    let (statements, next) = body.finish_layers(turn, &carries, block)?;
                    let ty = carried_type(&carries);
                    let kind = ExprKind::ForLayers(Box::new(ForLayers { layer, carries, statements, next }));
                    Ok(Expr { kind, ty, span })
                })
            },
        )
    }

    pub(super) fn match_kind(
        &mut self,
        subject: &ast::Expr,
        arms: &[(Name, ast::Expr)],
        span: Span,
    ) -> Checked<Expr> {
        let (layer, model) = self.matched_layer(subject)?;
        let kinds: Vec<String> = self.checker.models[model.index()]
            .layers
            .as_ref()
            .map(|layers| layers.kinds.iter().map(|kind| kind.name.clone()).collect())
            .unwrap_or_default();
        let mut checked: Vec<Option<(Span, Checked<Expr>)>> = kinds.iter().map(|_| None).collect();
        let mut failed = None;
        for (name, arm) in arms {
            let Some(place) = kinds.iter().position(|kind| *kind == name.text) else {
                let hint = match similar(&name.text, kinds.iter().map(String::as_str)) {
                    Some(similar) => format!("did you mean `{similar}`?"),
                    None => format!("the kinds are {}", kinds.join(", ")),
                };
                let message = format!("`{}` is not a kind of this model's layers", name.text);
                failed = self.error_hint::<()>(Rule::UnknownName, name.span, message, hint).err();
                continue;
            };
            if let Some((first, _)) = &checked[place] {
                let first = *first;
                self.checker.duplicate(name, first);
                continue;
            }
            self.kinds.insert(layer, KindId(place as u32));
            let inside = |place: &mut super::body::Place| {
                place.control += 1;
                place.maybe_skipped += 1;
            };
            let value = self.within(inside, |body| body.expression(arm));
            self.kinds.remove(&layer);
            checked[place] = Some((name.span, value));
        }
        let missing: Vec<&str> = kinds
            .iter()
            .zip(&checked)
            .filter(|(_, arm)| arm.is_none())
            .map(|(kind, _)| kind.as_str())
            .collect();
        if !missing.is_empty() && failed.is_none() {
            let message = format!("`match` has no arm for {}", missing.join(", "));
            return self.error(Rule::Layer, span, message);
        }
        if let Some(reported) = failed {
            return Err(reported);
        }
        let mut arms = Vec::with_capacity(checked.len());
        for (_, arm) in checked.into_iter().flatten() {
            let arm = self.value(arm?, "an arm of `match`")?;
            arms.push(match arms.first() {
                None => arm,
                Some(first) => {
                    let first: &Expr = first;
                    self.checker.coerce(arm, &first.ty.clone(), "another arm of `match`")?
                }
            });
        }
        let Some(first) = arms.first() else {
            return self.error(Rule::Layer, span, "`match` on layers without kinds");
        };
        let ty = first.ty.clone();
        Ok(Expr { kind: ExprKind::MatchKind { layer, arms }, ty, span })
    }

    /// The layer local of `layer.kind`, whose kind is not yet known.
    fn matched_layer(&mut self, subject: &ast::Expr) -> Checked<(LocalId, ModelId)> {
        let base = match &subject.kind {
            Syntax::Field(base, field) if field.text == "kind" => base,
            _ => {
                let message = "`match` chooses by a layer's kind";
                return self.error_hint(
                    Rule::Layer,
                    subject.span,
                    message,
                    "write `match layer.kind { ... }`",
                );
            }
        };
        let layer = self.expression(base)?;
        match (&layer.kind, &layer.ty) {
            (ExprKind::Local(local), Type::Layer { model, kind: None }) => Ok((*local, *model)),
            (_, Type::Layer { kind, .. }) => {
                let known =
                    if kind.is_some() { "is known here" } else { "does not exist: its list has none" };
                let message = format!("this layer's kind {known}");
                self.error(Rule::Layer, subject.span, message)
            }
            (_, other) => {
                let message = format!("{} has no kind", self.checker.type_text(other));
                self.error(Rule::Layer, subject.span, message)
            }
        }
    }
}

fn field_expr(layer: Expr, field: FieldId, ty: Type, span: Span) -> Expr {
    Expr { kind: ExprKind::LayerField { layer: Box::new(layer), field }, ty, span }
}
