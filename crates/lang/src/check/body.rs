//! The body of one function: what is in scope, where the checker stands, and the first and last steps.

use std::collections::{HashMap, HashSet};

use super::bounds::{AxisBounds, Linear};
use super::sizes::SizeScope;
use super::{Checked, Checker, Global, similar};
use crate::ast::{self, Name};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::{
    CallInfo, Expr, ExprKind, FunctionId, History, HistoryId, KindId, Local, LocalId, ModelId, State,
    StateId, Type,
};
use crate::parser::Reported;
use crate::size::{Size, SizeSymbol};
use crate::source::Span;

/// What a name in a body stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Binding {
    Local(LocalId),
    State(StateId),
    History(HistoryId),
    /// Bound to something wrong; that was reported.
    Broken,
}

/// Where in the body the checker stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Inside so many arms of run-time `if`s.
    pub runtime_if: u32,
    /// Inside so many `each`es and folds.
    pub iteration: u32,
    /// Inside so many scans.
    pub scan: u32,
    /// Inside so many of any of these, of static `if`s, `match`es and `for`s.
    pub control: u32,
    /// What is here may never be evaluated: an arm, the right side of `&&`, a range that may be empty.
    pub maybe_skipped: u32,
}

/// What is known of a state besides its type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StateUse {
    pub assigned: Option<Span>,
    /// The first read of the outgoing value before its assignment.
    pub read_before: Option<Span>,
}

pub(super) struct Body<'c, 'a> {
    pub checker: &'c mut Checker<'a>,
    pub function: FunctionId,
    pub model: Option<ModelId>,
    pub is_step: bool,
    pub sizes: HashMap<String, SizeSymbol>,
    pub locals: Vec<Local>,
    pub states: Vec<State>,
    pub state_uses: Vec<StateUse>,
    pub histories: Vec<History>,
    /// Names of states and histories.
    pub node_names: HashMap<String, Span>,
    pub calls: Vec<CallInfo>,
    pub ordinals: HashMap<FunctionId, u32>,
    pub scopes: Vec<HashMap<String, Binding>>,
    pub place: Place,
    /// Kinds of layer locals inside `match` arms.
    pub kinds: HashMap<LocalId, KindId>,
    /// i32 locals that are linear in others.
    pub linears: HashMap<LocalId, Linear>,
    /// Ranges of axes.
    pub axes: HashMap<LocalId, AxisBounds>,
    /// Locals whose values are known before planning.
    pub statics: HashSet<LocalId>,
}

/// Checks the body of a function whose signature is known, and stores it.
pub(super) fn check_body(checker: &mut Checker, id: FunctionId) {
    let source = checker.sources[id.index()];
    let is_whole = !checker.facts[id.index()].broken;
    if !is_whole || matches!(source.body.kind, ast::ExprKind::Error) {
        return;
    }
    let signature = &checker.functions[id.index()];
    let sizes = signature.sizes.iter().map(|symbol| (checker.symbol_name(*symbol), *symbol)).collect();
    let parameters = signature.parameters.clone();
    let scope = parameters
        .iter()
        .map(|parameter| (signature.local(parameter.local).name.clone(), Binding::Local(parameter.local)));
    let mut body = Body {
        scopes: vec![scope.collect()],
        function: id,
        model: signature.model,
        is_step: signature.is_step,
        sizes,
        locals: signature.locals.clone(),
        states: Vec::new(),
        state_uses: Vec::new(),
        histories: Vec::new(),
        node_names: HashMap::new(),
        calls: Vec::new(),
        ordinals: HashMap::new(),
        place: Place::default(),
        kinds: HashMap::new(),
        linears: HashMap::new(),
        axes: HashMap::new(),
        statics: parameters.iter().filter(|p| p.is_static).map(|p| p.local).collect(),
        checker,
    };
    let result = body.checker.functions[id.index()].result.clone();
    let checked = body.expect(&source.body, &result, "the function's result");
    body.check_states();
    let Body { locals, states, histories, calls, checker, .. } = body;
    let function = &mut checker.functions[id.index()];
    function.locals = locals;
    function.states = states;
    function.histories = histories;
    function.calls = calls;
    if let Ok(checked) = checked {
        function.body = checked;
    }
}

impl Body<'_, '_> {
    pub(super) fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        self.checker.report(diagnostic)
    }

    pub(super) fn error<T>(&mut self, rule: Rule, span: Span, message: impl Into<String>) -> Checked<T> {
        Err(self.report(Diagnostic::new(rule, span, message)))
    }

    pub(super) fn error_hint<T>(
        &mut self,
        rule: Rule,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Checked<T> {
        Err(self.report(Diagnostic::new(rule, span, message).hint(hint)))
    }

    /// Runs `check` somewhere deeper: `change` says where.
    pub(super) fn within<T>(
        &mut self,
        change: impl FnOnce(&mut Place),
        check: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = self.place;
        change(&mut self.place);
        let checked = check(self);
        self.place = before;
        checked
    }

    /// Runs `check` with names of its own.
    pub(super) fn scoped<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let checked = check(self);
        self.scopes.pop();
        checked
    }

    pub(super) fn new_local(&mut self, name: &str, ty: Type, span: Span) -> LocalId {
        self.locals.push(Local { name: name.to_string(), ty, span });
        LocalId(self.locals.len() as u32 - 1)
    }

    /// Binds a name in the innermost scope.
    pub(super) fn bind(&mut self, name: &Name, binding: Binding) {
        self.checker.check_not_built_in(name);
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.text.clone(), binding);
        }
    }

    pub(super) fn bind_local(&mut self, name: &Name, ty: Type) -> LocalId {
        let local = self.new_local(&name.text, ty, name.span);
        self.bind(name, Binding::Local(local));
        local
    }

    pub(super) fn lookup(&self, name: &str) -> Option<Binding> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    pub(super) fn size(&mut self, expr: &ast::Expr) -> Checked<Size> {
        self.checker.size(expr, SizeScope { own: &self.sizes, model: self.model })
    }

    pub(super) fn local_expr(&self, local: LocalId, span: Span) -> Expr {
        let ty = match (&self.locals[local.index()].ty, self.kinds.get(&local)) {
            (Type::Layer { model, .. }, Some(kind)) => Type::Layer { model: *model, kind: Some(*kind) },
            (ty, _) => ty.clone(),
        };
        Expr { kind: ExprKind::Local(local), ty, span }
    }

    /// What a name means as a value.
    pub(super) fn name(&mut self, name: &str, span: Span) -> Checked<Expr> {
        let expr = |kind, ty| Ok(Expr { kind, ty, span });
        match self.lookup(name) {
            Some(Binding::Local(local)) => return Ok(self.local_expr(local, span)),
            Some(Binding::State(state)) => {
                return expr(ExprKind::State(state), self.states[state.index()].ty.clone());
            }
            Some(Binding::History(_)) => {
                let message = format!("history `{name}` is a list along the path, not a value");
                let hint = format!("read a row: `{name}[here]`, `{name}[t]` for t in path");
                return self.error_hint(Rule::State, span, message, hint);
            }
            Some(Binding::Broken) => return Err(Reported),
            None => {}
        }
        let scope = SizeScope { own: &self.sizes, model: self.model };
        if let Some(symbol) = self.checker.size_symbol(name, scope) {
            return expr(ExprKind::Size(Size::from(symbol)), Type::I32);
        }
        if name == "here" {
            return self.here(span);
        }
        let inside = self.model.and_then(|model| self.checker.inside[model.index()].get(name));
        let global = inside.or_else(|| self.checker.top.get(name)).map(|(global, _)| *global);
        let model = self.model.map(|model| &self.checker.models[model.index()]);
        match (global, model) {
            (Some(Global::Broken), _) => Err(Reported),
            (Some(Global::Param(id)), Some(model)) => {
                expr(ExprKind::Param(id), model.params[id.index()].ty.clone())
            }
            (Some(Global::Const(id)), Some(model)) => {
                expr(ExprKind::Const(id), model.consts[id.index()].ty.clone())
            }
            (Some(Global::Static(id)), Some(model)) => {
                expr(ExprKind::Static(id), Type::Scalar(model.statics[id.index()].ty))
            }
            (Some(Global::SingleLayer(id)), Some(model)) => {
                let kind = model.single_layers[id.index()].kind;
                let ty = Type::Layer { model: self.model.unwrap_or(ModelId(0)), kind };
                expr(ExprKind::SingleLayer(id), ty)
            }
            (Some(Global::Function(_)), _) => {
                let message = format!("function `{name}` is called, not passed");
                self.error_hint(Rule::TypeMismatch, span, message, format!("write `{name}(...)`"))
            }
            _ => Err(self.unknown_name(name, span)),
        }
    }

    fn here(&mut self, span: Span) -> Checked<Expr> {
        self.check_path_allowed("here", span)?;
        Ok(Expr { kind: ExprKind::Here, ty: Type::I32, span })
    }

    /// `here` and `path` belong to a step's node.
    pub(super) fn check_path_allowed(&mut self, word: &str, span: Span) -> Checked<()> {
        if !self.is_step {
            let message = format!("`{word}` stands outside a step");
            let hint = "only a `step fn` or a model's `step` runs at a node of a path";
            return self.error_hint(Rule::Step, span, message, hint);
        }
        if self.place.scan > 0 {
            let message = format!("`{word}` stands inside a scan, whose turns are a path of their own");
            let hint = "bind what you need with `let` before the scan, or move the body to a `step fn`";
            return self.error_hint(Rule::Scan, span, message, hint);
        }
        Ok(())
    }

    fn unknown_name(&mut self, name: &str, span: Span) -> Reported {
        if self.checker.is_full() {
            return Reported;
        }
        let mut names: Vec<&str> = self.scopes.iter().flat_map(HashMap::keys).map(String::as_str).collect();
        names.extend(self.sizes.keys().map(String::as_str));
        names.push("here");
        if let Some(model) = self.model {
            names.extend(self.checker.inside[model.index()].keys().map(String::as_str));
        }
        names.sort_unstable();
        let similar = similar(name, names.into_iter()).map(str::to_string);
        let mut diagnostic =
            Diagnostic::new(Rule::UnknownName, span, format!("`{name}` is not declared here"));
        if let Some(similar) = similar {
            diagnostic = diagnostic.hint(format!("did you mean `{similar}`?"));
        } else if self.model.is_none() && self.declared_in_a_model(name) {
            let hint =
                "a function of the top level sees no model: move it inside the model, or pass the value";
            diagnostic = diagnostic.hint(hint);
        }
        self.report(diagnostic)
    }

    pub(super) fn declared_in_a_model(&self, name: &str) -> bool {
        self.checker.inside.iter().any(|inside| inside.contains_key(name))
    }

    /// The expression as a value of that type.
    pub(super) fn expect(&mut self, expr: &ast::Expr, ty: &Type, place: &str) -> Checked<Expr> {
        let checked = self.expression(expr)?;
        self.checker.coerce(checked, ty, place)
    }
}
