//! Blocks: `let`, states and histories.

use super::Checked;
use super::body::{Binding, Body};
use super::sizes::SizeScope;
use crate::ast::{self, Name, StatementKind as Syntax};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::{
    Expr, ExprKind, History, HistoryId, LocalId, Pattern, Scalar, State, StateId, Statement, Type,
};
use crate::parser::Reported;
use crate::source::Span;

impl Body<'_, '_> {
    pub(super) fn block(&mut self, block: &ast::Block) -> Checked<Expr> {
        self.scoped(|body| {
            let statements: Vec<_> =
                block.statements.iter().map(|statement| body.statement(statement)).collect();
            let Some(result) = &block.result else {
                let end = Span::new(block.span.end.saturating_sub(1), block.span.end);
                let hint = "end it with an expression without `;`";
                return body.error_hint(Rule::Syntax, end, "this block has no value", hint);
            };
            let result = body.expression(result);
            let statements = statements.into_iter().collect::<Checked<Vec<_>>>()?;
            let result = result?;
            if statements.is_empty() {
                return Ok(Expr { span: block.span, ..result });
            }
            let ty = result.ty.clone();
            let kind = ExprKind::Block { statements, result: Box::new(result) };
            Ok(Expr { kind, ty, span: block.span })
        })
    }

    /// A statement of a block; `emit` and `next` belong to loops and are refused here.
    pub(super) fn statement(&mut self, statement: &ast::Statement) -> Checked<Statement> {
        match &statement.kind {
            Syntax::Let { pattern, value } => self.let_statement(pattern, value),
            Syntax::State { name, ty, init } => self.state_statement(name, ty, init),
            Syntax::History { name, row } => self.history_statement(name, row),
            Syntax::Assign { name, value } => self.assign_statement(name, value, statement.span),
            Syntax::Emit { .. } => {
                let message = "`emit` stands outside the body of a scan";
                let hint = "it stands in the scan's own block, not in a block inside it; to emit in some turns use `emit_if`";
                self.error_hint(Rule::Scan, statement.span, message, hint)
            }
            Syntax::Next(_) => {
                let message = "`next` stands outside the body of a scan or of `for layer in layers`";
                self.error(Rule::Scan, statement.span, message)
            }
        }
    }

    fn let_statement(&mut self, pattern: &ast::Pattern, value: &ast::Expr) -> Checked<Statement> {
        let checked = self.expression(value).and_then(|value| match value.ty {
            Type::Layer { .. } => self.storable(value, "bound by `let`"),
            _ => Ok(value),
        });
        let value = match checked {
            Ok(value) => value,
            Err(reported) => {
                self.bind_broken(pattern);
                return Err(reported);
            }
        };
        let pattern = self.bind_pattern(pattern, &value.ty)?;
        if let Pattern::Local(local) = pattern {
            self.remember(local, &value);
        }
        Ok(Statement::Let { pattern, value })
    }

    /// Keeps what is known of a local's value.
    fn remember(&mut self, local: LocalId, value: &Expr) {
        if value.ty == Type::I32
            && let Some(linear) = self.linear(value)
        {
            self.linears.insert(local, linear);
        }
        if self.is_static(value) {
            self.statics.insert(local);
        }
    }

    pub(super) fn bind_broken(&mut self, pattern: &ast::Pattern) {
        match pattern {
            ast::Pattern::Name(name) => self.bind(name, Binding::Broken),
            ast::Pattern::Tuple(parts, _) => parts.iter().for_each(|part| self.bind_broken(part)),
        }
    }

    fn bind_pattern(&mut self, pattern: &ast::Pattern, ty: &Type) -> Checked<Pattern> {
        match (pattern, ty) {
            (ast::Pattern::Name(name), _) if name.text == "_" => Ok(Pattern::Ignore),
            (ast::Pattern::Name(name), ty) => Ok(Pattern::Local(self.bind_local(name, ty.clone()))),
            (ast::Pattern::Tuple(parts, _), Type::Tuple(types)) if parts.len() == types.len() => {
                let parts: Vec<_> =
                    parts.iter().zip(types).map(|(part, ty)| self.bind_pattern(part, ty)).collect();
                Ok(Pattern::Tuple(parts.into_iter().collect::<Checked<_>>()?))
            }
            (ast::Pattern::Tuple(parts, span), ty) => {
                self.bind_broken(pattern);
                let found = self.checker.type_text(ty);
                let message = format!("{} names for {found}", parts.len());
                self.error(Rule::TypeMismatch, *span, message)
            }
        }
    }

    /// States and histories belong to every node: they stand in the function's own block.
    fn check_belongs_to_node(&mut self, what: &str, span: Span) -> Checked<()> {
        if !self.is_step {
            let message = format!("{what} in a plain function");
            return self.error_hint(Rule::Step, span, message, "declare the function `step fn`");
        }
        if self.place.control > 0 {
            let message = format!("{what} inside a loop, an arm or a fold");
            let hint = "states and histories stand in the function's own block";
            return self.error_hint(Rule::Step, span, message, hint);
        }
        Ok(())
    }

    fn check_new_node_name(&mut self, name: &Name) -> Checked<()> {
        match self.node_names.insert(name.text.clone(), name.span) {
            Some(first) => {
                self.checker.duplicate(name, first);
                Err(Reported)
            }
            None => Ok(()),
        }
    }

    fn state_statement(&mut self, name: &Name, ty: &ast::TypeExpr, init: &ast::Expr) -> Checked<Statement> {
        let checked = self.state_parts(name, ty, init);
        match checked {
            Ok((ty, init)) => {
                let state = StateId(self.states.len() as u32);
                self.states.push(State { name: name.text.clone(), ty, span: name.span });
                self.state_uses.push(Default::default());
                self.bind(name, Binding::State(state));
                Ok(Statement::State { state, init })
            }
            Err(reported) => {
                self.bind(name, Binding::Broken);
                Err(reported)
            }
        }
    }

    fn state_parts(&mut self, name: &Name, ty: &ast::TypeExpr, init: &ast::Expr) -> Checked<(Type, Expr)> {
        self.check_belongs_to_node("a state is declared", name.span)?;
        self.check_new_node_name(name)?;
        let scope = SizeScope { own: &self.sizes, model: self.model };
        let ty = self.checker.resolve_type(ty, scope, false, false);
        let first_local = self.locals.len();
        let init = self.expression(init);
        let (ty, init) = (ty?, init?);
        let fills = matches!((&ty, &init.ty), (Type::Array(..), Type::Scalar(_)));
        let wanted = match (&ty, fills) {
            (Type::Array(element, _), true) => Type::Scalar(*element),
            _ => ty.clone(),
        };
        let init = self.checker.coerce(init, &wanted, "the state's initial value")?;
        if let Some(span) = self.depends_on_node(&init, first_local) {
            let message = "a state's initial value depends on an input, a state or a history";
            let hint = "it is the value before a session's first node: literals, sizes, params and consts";
            return self.error_hint(Rule::State, span, message, hint);
        }
        Ok((ty, init))
    }

    /// Where an expression uses a value of the node: a local bound before it, a state, a history, `here`, or a call of a
    /// step.
    fn depends_on_node(&self, expr: &Expr, first_local: usize) -> Option<Span> {
        let mut found = None;
        crate::visit::each_expr(expr, &mut |part| {
            let depends = match &part.kind {
                ExprKind::Local(local) => {
                    let is_outer = local.index() < first_local;
                    is_outer && !matches!(part.ty, Type::Layer { .. }) && !self.statics.contains(local)
                }
                ExprKind::State(_) | ExprKind::StateNext(_) | ExprKind::HistoryRead { .. } => true,
                ExprKind::Here => true,
                ExprKind::Call(call) => self.checker.functions[call.function.index()].is_step,
                _ => false,
            };
            if depends && found.is_none() {
                found = Some(part.span);
            }
        });
        found
    }

    fn history_statement(&mut self, name: &Name, row: &ast::Expr) -> Checked<Statement> {
        let checked = self.check_belongs_to_node("a history is declared", name.span);
        let checked = checked.and_then(|()| self.check_new_node_name(name));
        let row = self.expression(row).and_then(|row| self.storable(row, "a row of a history"));
        let checked = checked.and(row).and_then(|row| self.sized_row(row));
        match checked {
            Ok(row) => {
                let history = HistoryId(self.histories.len() as u32);
                let ty = row.ty.clone();
                self.histories.push(History { name: name.text.clone(), row: ty, span: name.span });
                self.bind(name, Binding::History(history));
                Ok(Statement::History { history, row })
            }
            Err(reported) => {
                self.bind(name, Binding::Broken);
                Err(reported)
            }
        }
    }

    fn sized_row(&mut self, row: Expr) -> Checked<Expr> {
        match row.ty.element() {
            Some(Scalar::F32 | Scalar::I32 | Scalar::Bool | Scalar::Id) => Ok(row),
            None => Err(Reported),
        }
    }

    fn assign_statement(&mut self, name: &Name, value: &ast::Expr, span: Span) -> Checked<Statement> {
        let state = self.state_named(name);
        let value = self.expression(value);
        let (state, value) = (state?, value?);
        self.check_belongs_to_node("a state is assigned", span)?;
        let wanted = self.states[state.index()].ty.clone();
        let value = self.checker.coerce(value, &wanted, &format!("the outgoing `{}`", name.text))?;
        let state_use = self.state_uses[state.index()];
        if let Some(first) = state_use.assigned {
            let message = format!("state `{}` is assigned twice", name.text);
            let diagnostic = Diagnostic::new(Rule::State, span, message).related(first, "first here");
            return Err(self.report(diagnostic.hint("compute the whole outgoing value in one expression")));
        }
        self.state_uses[state.index()].assigned = Some(span);
        if let Some(read) = state_use.read_before {
            let message = format!("`{}'` is read before it is assigned", name.text);
            let diagnostic = Diagnostic::new(Rule::State, read, message).related(span, "assigned here");
            let hint = format!("assign it first; `{}` is the incoming value", name.text);
            return Err(self.report(diagnostic.hint(hint)));
        }
        Ok(Statement::Assign { state, value })
    }

    fn state_named(&mut self, name: &Name) -> Checked<StateId> {
        match self.lookup(&name.text) {
            Some(Binding::State(state)) => Ok(state),
            Some(Binding::Broken) => Err(Reported),
            _ => {
                let message = format!("`{}` is not a state", name.text);
                let hint = format!("declare it: `state {}: f32[...] = 0.0;`", name.text);
                self.error_hint(Rule::State, name.span, message, hint)
            }
        }
    }

    /// `s'` as a value.
    pub(super) fn outgoing_state(&mut self, name: &Name, span: Span) -> Checked<Expr> {
        let state = self.state_named(name)?;
        let state_use = &mut self.state_uses[state.index()];
        if state_use.assigned.is_none() && state_use.read_before.is_none() {
            state_use.read_before = Some(span);
        }
        let ty = self.states[state.index()].ty.clone();
        Ok(Expr { kind: ExprKind::StateNext(state), ty, span })
    }

    /// What is wrong with states once the whole body is known.
    pub(super) fn check_states(&mut self) {
        for place in 0..self.states.len() {
            let state_use = self.state_uses[place];
            if let (None, Some(read)) = (state_use.assigned, state_use.read_before) {
                let name = self.states[place].name.clone();
                let message = format!("`{name}'` is read, and nothing assigns it");
                let hint = format!("the incoming value is `{name}`; assign `{name}' = ...;` before this");
                let _ = self.error_hint::<()>(Rule::State, read, message, hint);
            }
        }
    }
}
