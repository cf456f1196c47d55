//! What a model declares, besides its functions.

use std::collections::HashMap;

use super::sizes::SizeScope;
use super::{Checked, Checker, Global, Namespace, similar};
use crate::ast::{self, Name};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::{
    Const, ConstId, Field, FieldRole, Kind, KindId, Layers, Model, ModelId, Param, ParamId, Scalar,
    SingleLayer, SingleLayerId, Static, StaticId, Type,
};
use crate::source::Span;

impl Checker<'_> {
    pub(super) fn collect_model(&mut self, model: &ast::Model) {
        let id = ModelId(self.models.len() as u32);
        self.models.push(Model {
            name: model.name.text.clone(),
            span: model.name.span,
            dims: Vec::new(),
            statics: Vec::new(),
            params: Vec::new(),
            consts: Vec::new(),
            layers: None,
            single_layers: Vec::new(),
            functions: Vec::new(),
            steps: Vec::new(),
        });
        self.inside.push(Namespace::new());
        for name in &model.dims {
            let symbol = self.new_symbol(name);
            self.models[id.index()].dims.push(symbol);
            self.declare_in_model(id, name, Global::Size(symbol));
        }
        for field in &model.fields {
            self.model_field(id, field);
        }
        if let [_, second, ..] = model.layers.as_slice() {
            let message = "a model has one list of layers";
            let hint =
                "put its layers in one list of several kinds; a layer outside it is `layer name: kind;`";
            self.report(Diagnostic::new(Rule::Model, second.span, message).hint(hint));
        }
        if let Some(layers) = model.layers.first() {
            self.layer_list(id, layers);
        }
        for (name, kind) in &model.single_layers {
            self.single_layer(id, name, kind);
        }
        let has_step = model.functions.iter().any(|f| f.role == ast::FunctionRole::ModelStep);
        if !has_step {
            let message = format!("model `{}` has no step", model.name.text);
            let hint = "write `step main(token: id, at: i32) -> (logits: f32[V]) { ... }`";
            self.report(Diagnostic::new(Rule::Model, model.name.span, message).hint(hint));
        }
    }

    fn declare_in_model(&mut self, model: ModelId, name: &Name, global: Global) {
        self.check_not_built_in(name);
        let before = self.inside[model.index()].insert(name.text.clone(), (global, name.span));
        if let Some((_, first)) = before {
            self.duplicate(name, first);
        }
    }

    fn model_field(&mut self, model: ModelId, field: &ast::Field) {
        let Ok(ty) = self.field_type(model, field) else {
            return self.declare_in_model(model, &field.name, Global::Broken);
        };
        let (name, span) = (field.name.text.clone(), field.name.span);
        let default = match &field.default {
            Some(default) => match self.default_param(model, field, default, &ty) {
                Ok(default) => Some(default),
                Err(_) => return self.declare_in_model(model, &field.name, Global::Broken),
            },
            None => None,
        };
        let known = &mut self.models[model.index()];
        let global = match field.role {
            FieldRole::Param => {
                known.params.push(Param { name, ty, default, span });
                Global::Param(ParamId(known.params.len() as u32 - 1))
            }
            FieldRole::Const => {
                known.consts.push(Const { name, ty, span });
                Global::Const(ConstId(known.consts.len() as u32 - 1))
            }
            FieldRole::Static => {
                let ty = ty.element().unwrap_or(Scalar::Bool);
                known.statics.push(Static { name, ty, span });
                Global::Static(StaticId(known.statics.len() as u32 - 1))
            }
        };
        self.declare_in_model(model, &field.name, global);
    }

    fn field_type(&mut self, model: ModelId, field: &ast::Field) -> Checked<Type> {
        let own = HashMap::new();
        let ty = self.resolve_type(&field.ty, SizeScope { own: &own, model: Some(model) }, false, false)?;
        let (fits, rule) = match (field.role, &ty) {
            (FieldRole::Param, Type::Scalar(Scalar::F32 | Scalar::I32)) => (true, ""),
            (FieldRole::Param, Type::Array(Scalar::F32 | Scalar::I32, _)) => (true, ""),
            (FieldRole::Param, _) => (false, "a param is f32 or i32, or an array of one"),
            (FieldRole::Const, Type::Scalar(Scalar::F32 | Scalar::I32 | Scalar::Bool)) => (true, ""),
            (FieldRole::Const, Type::Array(Scalar::F32, _)) => (true, ""),
            (FieldRole::Const, _) => (false, "a const is f32, i32 or bool, or an array of f32"),
            (FieldRole::Static, Type::Scalar(Scalar::Bool | Scalar::I32)) => (true, ""),
            (FieldRole::Static, _) => (false, "a static is bool or i32"),
        };
        if fits { Ok(ty) } else { Err(self.report(Diagnostic::new(Rule::Model, field.ty.span, rule))) }
    }

    fn default_param(
        &mut self,
        model: ModelId,
        field: &ast::Field,
        default: &Name,
        ty: &Type,
    ) -> Checked<ParamId> {
        let known = self.inside[model.index()].get(&default.text).map(|(global, _)| *global);
        let id = match (field.role, known) {
            (FieldRole::Param, Some(Global::Param(id))) => id,
            (FieldRole::Param, _) => {
                let names: Vec<_> =
                    self.models[model.index()].params.iter().map(|p| p.name.clone()).collect();
                let hint = match similar(&default.text, names.iter().map(String::as_str)) {
                    Some(similar) => format!("did you mean `{similar}`?"),
                    None => "name a param of this model that is declared above".to_string(),
                };
                let message = format!("`{}` is not a param declared before this one", default.text);
                let diagnostic = Diagnostic::new(Rule::UnknownName, default.span, message);
                return Err(self.report(diagnostic.hint(hint)));
            }
            _ => {
                let message = "only a param of the model has an `else`";
                return Err(self.report(Diagnostic::new(Rule::Model, default.span, message)));
            }
        };
        let stands_in = self.models[model.index()].params[id.index()].ty.clone();
        if stands_in != *ty {
            return Err(self.mismatch(&stands_in, ty, default.span, &format!("`{}`", default.text)));
        }
        Ok(id)
    }

    fn layer_list(&mut self, model: ModelId, layers: &ast::Layers) {
        let own = HashMap::new();
        let count = self.size(&layers.count, SizeScope { own: &own, model: Some(model) });
        let mut names = HashMap::new();
        let common = self.layer_fields(model, &layers.common, &mut names, &HashMap::new());
        let mut kind_names: HashMap<&str, Span> = HashMap::new();
        let mut kinds = Vec::new();
        for (name, fields) in &layers.kinds {
            self.check_not_built_in(name);
            if let Some(first) = kind_names.insert(&name.text, name.span) {
                self.duplicate(name, first);
            }
            let fields = self.layer_fields(model, fields, &mut HashMap::new(), &names);
            kinds.push(Kind { name: name.text.clone(), fields, span: name.span });
        }
        let count = count.unwrap_or_default();
        self.models[model.index()].layers = Some(Layers { count, common, kinds, span: layers.span });
    }

    fn layer_fields<'f>(
        &mut self,
        model: ModelId,
        fields: &'f [ast::Field],
        names: &mut HashMap<&'f str, Span>,
        common: &HashMap<&str, Span>,
    ) -> Vec<Field> {
        let mut known = Vec::new();
        for field in fields {
            let name = field.name.text.as_str();
            if let Some(first) = names.insert(name, field.name.span).or(common.get(name).copied()) {
                self.duplicate(&field.name, first);
            }
            if field.name.text == "kind" {
                let message = "a layer's `kind` is given by its list and cannot be a field";
                self.report(Diagnostic::new(Rule::DuplicateName, field.name.span, message));
            }
            if let Some(default) = &field.default {
                let message = "only a param of the model has an `else`";
                self.report(Diagnostic::new(Rule::Model, default.span, message));
            }
            if let Ok(ty) = self.field_type(model, field) {
                let name = field.name.text.clone();
                known.push(Field { name, role: field.role, ty, span: field.name.span });
            }
        }
        known
    }

    fn single_layer(&mut self, model: ModelId, name: &Name, kind: &Name) {
        let Some(layers) = &self.models[model.index()].layers else {
            let message = "a single layer needs a list of layers that declares its kind";
            self.report(Diagnostic::new(Rule::Layer, name.span, message));
            return self.declare_in_model(model, name, Global::Broken);
        };
        let names: Vec<String> = layers.kinds.iter().map(|kind| kind.name.clone()).collect();
        let found = names.iter().position(|other| *other == kind.text);
        if found.is_none() && !(names.is_empty() && kind.text == "layers") {
            let hint = match similar(&kind.text, names.iter().map(String::as_str)) {
                Some(similar) => format!("did you mean `{similar}`?"),
                None if names.is_empty() => "the list has no kinds: write `layers`".to_string(),
                None => format!("the kinds are {}", names.join(", ")),
            };
            let message = format!("`{}` is not a kind of this model's layers", kind.text);
            self.report(Diagnostic::new(Rule::UnknownName, kind.span, message).hint(hint));
            return self.declare_in_model(model, name, Global::Broken);
        }
        let layer = SingleLayer {
            name: name.text.clone(),
            kind: found.map(|place| KindId(place as u32)),
            span: name.span,
        };
        self.models[model.index()].single_layers.push(layer);
        let id = SingleLayerId(self.models[model.index()].single_layers.len() as u32 - 1);
        self.declare_in_model(model, name, Global::SingleLayer(id));
    }
}
