//! Functions' names and signatures.

use std::collections::HashMap;

use super::sizes::SizeScope;
use super::{Checked, Checker, Global, program_rules};
use crate::ast::{self, FunctionRole, Name};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::{
    Expr, ExprKind, Function, FunctionId, Local, LocalId, ModelId, Parameter, Scalar, Symbol, Type,
};
use crate::size::SizeSymbol;
use crate::source::Span;

/// Names of built-in functions and types: they cannot be declared.
pub(super) const BUILT_IN: &[&str] = &[
    "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "silu", "gelu", "softplus", "abs",
    "floor", "f32", "i32", "bool", "id", "layers",
];

/// Solving a call's sizes costs the square of their number.
const MOST_SIZES: usize = 64;

impl<'a> Checker<'a> {
    /// Collects every declaration of the file.
    pub(super) fn collect(&mut self, file: &'a ast::File) {
        let mut names: HashMap<&str, Span> = HashMap::new();
        for model in &file.models {
            if let Some(first) = names.insert(&model.name.text, model.name.span) {
                self.duplicate(&model.name, first);
            }
            self.collect_model(model);
        }
        for name in &file.broken {
            self.top.insert(name.text.clone(), (Global::Broken, name.span));
        }
        for function in &file.functions {
            self.declare_function(function, None);
        }
        for (place, model) in file.models.iter().enumerate() {
            for function in &model.functions {
                self.declare_function(function, Some(ModelId(place as u32)));
            }
        }
        for (place, (function, source)) in self.functions.iter().zip(&self.sources).enumerate() {
            let Some(model) = function.model else { continue };
            let model = &mut self.models[model.index()];
            model.functions.push(FunctionId(place as u32));
            if source.role == FunctionRole::ModelStep {
                model.steps.push(FunctionId(place as u32));
            }
        }
    }

    pub(super) fn duplicate(&mut self, name: &Name, first: Span) {
        let message = format!("`{}` is declared twice", name.text);
        let diagnostic = Diagnostic::new(Rule::DuplicateName, name.span, message);
        self.report(diagnostic.related(first, "first here"));
    }

    pub(super) fn check_not_built_in(&mut self, name: &Name) {
        if BUILT_IN.contains(&name.text.as_str()) {
            let message = format!("`{}` is built in and cannot be declared", name.text);
            self.report(Diagnostic::new(Rule::DuplicateName, name.span, message));
        }
    }

    pub(super) fn new_symbol(&mut self, name: &Name) -> SizeSymbol {
        self.symbols.push(Symbol { name: name.text.clone(), span: name.span });
        SizeSymbol(self.symbols.len() as u32 - 1)
    }

    fn declare_function(&mut self, function: &'a ast::Function, model: Option<ModelId>) {
        self.check_not_built_in(&function.name);
        let id = FunctionId(self.functions.len() as u32);
        let (signature, is_whole) = self.signature(function, model);
        self.functions.push(signature);
        self.sources.push(function);
        self.facts.push(program_rules::Facts { broken: !is_whole, ..Default::default() });
        let space = match model {
            Some(model) => &mut self.inside[model.index()],
            None => &mut self.top,
        };
        let global = if is_whole { Global::Function(id) } else { Global::Broken };
        let before = space.insert(function.name.text.clone(), (global, function.name.span));
        if let Some((_, first)) = before {
            self.duplicate(&function.name, first);
        }
    }

    /// The function without its body, and whether all of its signature could be understood.
    fn signature(&mut self, function: &ast::Function, model: Option<ModelId>) -> (Function, bool) {
        let mut own = HashMap::new();
        let mut spans: HashMap<&str, Span> = HashMap::new();
        let mut sizes = Vec::new();
        let mut is_whole = true;
        if let Some(name) = function.sizes.get(MOST_SIZES) {
            let message = format!("a function has at most {MOST_SIZES} size parameters");
            self.report(Diagnostic::new(Rule::Size, name.span, message));
            is_whole = false;
        }
        for name in function.sizes.iter().take(MOST_SIZES) {
            if let Some(first) = spans.insert(&name.text, name.span) {
                self.duplicate(name, first);
                is_whole = false;
            }
            let symbol = self.new_symbol(name);
            own.insert(name.text.clone(), symbol);
            sizes.push(symbol);
        }
        if function.role == FunctionRole::ModelStep && !sizes.is_empty() {
            let message = "a model's step has no size parameters: its sizes are the model's dims";
            self.report(Diagnostic::new(Rule::Model, function.sizes[0].span, message));
            is_whole = false;
        }
        let scope = SizeScope { own: &own, model };
        let mut parameters = Vec::new();
        let mut locals = Vec::new();
        for parameter in &function.parameters {
            if let Some(first) = spans.insert(&parameter.name.text, parameter.name.span) {
                self.duplicate(&parameter.name, first);
                is_whole = false;
            }
            match self.parameter_type(parameter, scope, function.role) {
                Ok(ty) => {
                    let local = LocalId(locals.len() as u32);
                    let name = parameter.name.text.clone();
                    locals.push(Local { name, ty, span: parameter.name.span });
                    parameters.push(Parameter { local, is_static: parameter.is_static });
                }
                Err(_) => is_whole = false,
            }
        }
        let result = self.resolve_type(&function.result, scope, false, true);
        is_whole &= result.is_ok();
        let mut result_names: HashMap<&str, Span> = HashMap::new();
        for name in &function.result_names {
            if let Some(first) = result_names.insert(&name.text, name.span) {
                self.duplicate(name, first);
            }
        }
        let placeholder = Expr { kind: ExprKind::Bool(false), ty: Type::BOOL, span: function.body.span };
        let signature = Function {
            name: function.name.text.clone(),
            span: function.name.span,
            is_step: function.role != FunctionRole::Plain,
            model,
            sizes,
            parameters,
            result: result.unwrap_or(Type::BOOL),
            result_names: function.result_names.iter().map(|name| name.text.clone()).collect(),
            locals,
            states: Vec::new(),
            histories: Vec::new(),
            calls: Vec::new(),
            body: placeholder,
        };
        (signature, is_whole)
    }

    fn parameter_type(
        &mut self,
        parameter: &ast::Parameter,
        scope: SizeScope,
        role: FunctionRole,
    ) -> Checked<Type> {
        let is_step = role == FunctionRole::ModelStep;
        let ty = self.resolve_type(&parameter.ty, scope, !is_step, false)?;
        let static_type = matches!(ty, Type::Scalar(Scalar::Bool | Scalar::I32 | Scalar::F32));
        if parameter.is_static && (!static_type || is_step) {
            let message = "a static parameter is a bool, i32 or f32 of a function";
            return Err(self.report(Diagnostic::new(Rule::Static, parameter.name.span, message)));
        }
        Ok(ty)
    }
}
