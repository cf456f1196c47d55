//! A model's weights, constants and layers.

use fiddlehead_lang::hir::{self, FieldRole, KindId};
use fiddlehead_lang::source::Span;

use super::bindings::Known;
use super::error::LowerError;
use super::expression::{Lowerer, element_of};
use super::value::{LayerValue, Value, View};
use crate::ir::*;

/// Layers of one model: far above any real one.
const MOST_LAYERS: usize = 100_000;

impl<'a> Lowerer<'a> {
    fn model(&self, span: Span) -> Result<&'a hir::Model, LowerError> {
        let model = self.function().model;
        model
            .map(|model| &self.program.models[model.index()])
            .ok_or(LowerError::Inconsistent { span, what: "a model's name is used outside it" })
    }

    pub(super) fn model_param(&mut self, id: hir::ParamId, span: Span) -> Result<Value, LowerError> {
        let model = self.model(span)?;
        let mut param = &model.params[id.index()];
        while !self.has_param(&param.name)
            && let Some(default) = param.default
        {
            param = &model.params[default.index()];
        }
        self.param(&param.name, &param.ty, true, param.span)
    }

    fn has_param(&self, name: &str) -> bool {
        self.bindings.is_some_and(|bindings| bindings.params.contains(name))
    }

    fn param(&mut self, name: &str, ty: &hir::Type, optional: bool, span: Span) -> Result<Value, LowerError> {
        if !self.has_param(name) {
            return Err(LowerError::ParamMissing { name: name.into(), optional });
        }
        let shape = self.shape(ty, span)?;
        let element = element_of(ty, span)?;
        let node = self.frame().builder.param(Param { name: name.into(), shape: shape.clone(), element });
        Ok(if shape.is_empty() {
            Value::Scalar(Expr::load(node, Vec::new()))
        } else {
            Value::Array(View::whole(node, shape))
        })
    }

    pub(super) fn model_const(&mut self, id: hir::ConstId, span: Span) -> Result<Value, LowerError> {
        let constant = &self.model(span)?.consts[id.index()];
        self.known(&constant.name, &constant.ty, constant.span)
    }

    pub(super) fn model_static(&mut self, id: hir::StaticId, span: Span) -> Result<Value, LowerError> {
        let fixed = &self.model(span)?.statics[id.index()];
        self.known(&fixed.name, &hir::Type::Scalar(fixed.ty), fixed.span)
    }

    fn known(&mut self, name: &str, ty: &hir::Type, span: Span) -> Result<Value, LowerError> {
        let shape = self.shape(ty, span)?;
        let element = element_of(ty, span)?;
        let found = self.bindings.and_then(|bindings| bindings.known.get(name));
        match (found, element) {
            (Some(Known::Bool(value)), Element::Bool) if shape.is_empty() => {
                Ok(Value::Scalar(Expr::Bool(*value)))
            }
            (Some(Known::Int(value)), Element::I32) if shape.is_empty() && i32::try_from(*value).is_ok() => {
                Ok(Value::Scalar(Expr::Int(*value)))
            }
            (Some(Known::Float(value)), Element::F32) if shape.is_empty() => {
                Ok(Value::Scalar(Expr::Float(*value)))
            }
            (Some(Known::Array { shape: found, values }), Element::F32) if *found == shape => {
                if let Some(&node) = self.frame().constants.get(name) {
                    return Ok(Value::Array(View::whole(node, shape)));
                }
                let origin =
                    Origin { name: name.into(), span: Some((span.start as usize, span.end as usize)) };
                let node = self.frame().builder.constant(shape.clone(), values.clone(), origin);
                self.frame().constants.insert(name.into(), node);
                Ok(Value::Array(View::whole(node, shape)))
            }
            (found, _) => Err(LowerError::Binding {
                name: name.into(),
                wanted: if shape.is_empty() { element.to_string() } else { format!("{element} {shape:?}") },
                found: match found {
                    None => "nothing".into(),
                    Some(Known::Bool(_)) => "a bool".into(),
                    Some(Known::Int(value)) => format!("the integer {value}"),
                    Some(Known::Float(_)) => "an f32".into(),
                    Some(Known::Array { shape, .. }) => format!("f32 {shape:?}"),
                },
            }),
        }
    }

    pub(super) fn single_layer(&mut self, id: hir::SingleLayerId, span: Span) -> Result<Value, LowerError> {
        let layer = &self.model(span)?.single_layers[id.index()];
        Ok(Value::Layer(LayerValue { path: layer.name.clone(), kind: layer.kind, single: true }))
    }

    pub(super) fn layer_field(
        &mut self,
        layer: &'a hir::Expr,
        field: hir::FieldId,
        span: Span,
    ) -> Result<Value, LowerError> {
        let Value::Layer(layer) = self.value(layer)? else {
            return Err(LowerError::Inconsistent { span, what: "a layer was expected" });
        };
        let field = self.model(span)?.field(field);
        let field = field.ok_or(LowerError::Inconsistent { span, what: "a layer has no such field" })?;
        let name = format!("{}.{}", layer.path, field.name);
        match field.role {
            FieldRole::Param => {
                let prefix = format!("{}.", layer.path);
                let nothing_there = || {
                    self.bindings.is_none_or(|bindings| {
                        let mut from = bindings.params.range(prefix.clone()..);
                        from.next().is_none_or(|name| !name.starts_with(&prefix))
                    })
                };
                let optional = layer.single && nothing_there();
                self.param(&name, &field.ty, optional, field.span)
            }
            FieldRole::Const | FieldRole::Static => self.known(&name, &field.ty, field.span),
        }
    }

    pub(super) fn for_layers(&mut self, each: &'a hir::ForLayers, span: Span) -> Result<Value, LowerError> {
        let model = self.model(span)?;
        let layers = model.layers.as_ref();
        let layers = layers.ok_or(LowerError::Inconsistent { span, what: "the model has no layers" })?;
        let count = self.extent(&layers.count, layers.span)?;
        if count > MOST_LAYERS {
            return Err(LowerError::TooLarge { what: "layers", limit: MOST_LAYERS });
        }
        let kinds = self.layer_kinds(layers, count)?;
        for carry in &each.carries {
            let value = self.value(&carry.init)?;
            let value = self.settled(value, carry.init.span)?;
            self.bind(carry.local, value);
        }
        for (place, kind) in kinds.into_iter().enumerate() {
            let path = format!("layers.{place}");
            self.path.push(path.clone());
            self.bind(each.layer, Value::Layer(LayerValue { path, kind, single: false }));
            let result = self.layer_turn(each);
            self.path.pop();
            result?;
        }
        let depth = self.frames.len() - 1;
        let mut results = Vec::new();
        for carry in &each.carries {
            match &self.instance().locals[carry.local.index()] {
                Some((frame, value)) if *frame == depth => results.push(value.clone()),
                _ => return Err(LowerError::Inconsistent { span, what: "a carry has no value" }),
            }
        }
        Ok(if results.len() == 1 { results.remove(0) } else { Value::Tuple(results) })
    }

    fn layer_turn(&mut self, each: &'a hir::ForLayers) -> Result<(), LowerError> {
        self.statements(&each.statements)?;
        let mut next = Vec::new();
        for (expr, carry) in each.next.iter().zip(&each.carries) {
            let name = self.function().local(carry.local).name.clone();
            let before = self.name.replace(name);
            let value = self.value(expr).and_then(|value| self.settled(value, expr.span));
            self.name = before;
            next.push(value?);
        }
        for (value, carry) in next.into_iter().zip(&each.carries) {
            self.bind(carry.local, value);
        }
        Ok(())
    }

    fn layer_kinds(&self, layers: &hir::Layers, count: usize) -> Result<Vec<Option<KindId>>, LowerError> {
        let named = self.bindings.map_or(&[][..], |bindings| &bindings.layer_kinds);
        if layers.kinds.is_empty() {
            return Ok(vec![None; count]);
        }
        if named.len() != count {
            return Err(LowerError::Binding {
                name: "layers".into(),
                wanted: format!("{count} layers"),
                found: format!("the kinds of {} layers", named.len()),
            });
        }
        let find = |(place, name): (usize, &String)| {
            let kind = layers.kinds.iter().position(|kind| kind.name == *name);
            kind.map(|kind| Some(KindId(kind as u32))).ok_or_else(|| LowerError::Binding {
                name: format!("layers.{place}"),
                wanted: layers.kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>().join(" or "),
                found: format!("the kind {name}"),
            })
        };
        named.iter().enumerate().map(find).collect()
    }
}
