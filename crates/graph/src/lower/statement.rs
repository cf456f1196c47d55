//! Statements: what a block binds, the states and histories of a step.

use fiddlehead_lang::hir::{self, Pattern, Statement};
use fiddlehead_lang::source::Span;

use super::error::LowerError;
use super::expression::{Lowerer, element_of};
use super::value::{Base, Value, View};
use crate::ir::*;

impl<'a> Lowerer<'a> {
    pub(super) fn statements(&mut self, statements: &'a [Statement]) -> Result<(), LowerError> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'a Statement) -> Result<(), LowerError> {
        match statement {
            Statement::Let { pattern, value } => {
                let before = self.name.clone();
                if let Pattern::Local(local) = pattern {
                    let name = &self.function().local(*local).name;
                    self.name = Some(name.trim_start_matches('$').to_string());
                }
                let span = value.span;
                let value = self.value(value).and_then(|value| self.settled(value, span));
                self.name = before;
                self.matched(pattern, value?, span)
            }
            Statement::State { state, init } => self.declare_state(*state, init),
            Statement::Assign { state, value } => {
                let span = value.span;
                let name = self.function().states[state.index()].name.clone();
                let value = self.value(value)?;
                let next = self.whole(value, span, &name)?;
                let last = self.instances.len() - 1;
                let depth = self.frames.len() - 1;
                match self.instances[last].states.get_mut(state) {
                    Some((frame, id, _, outgoing)) if *frame == depth => {
                        *outgoing = Some(next);
                        let id = *id;
                        self.frame().builder.assign(id, next);
                        Ok(())
                    }
                    _ => Err(LowerError::Inconsistent { span, what: "a state is assigned out of its place" }),
                }
            }
            Statement::History { history, row } => {
                let span = row.span;
                let name = self.function().histories[history.index()].name.clone();
                let value = self.value(row)?;
                let row = self.whole(value, span, &name)?;
                let key = self.key(&name);
                let id = self.frame().builder.history(key, row);
                let depth = self.frames.len() - 1;
                let last = self.instances.len() - 1;
                self.instances[last].histories.insert(*history, (depth, id));
                Ok(())
            }
        }
    }

    /// Binds the names of a pattern.
    pub(super) fn matched(&mut self, pattern: &Pattern, value: Value, span: Span) -> Result<(), LowerError> {
        match (pattern, value) {
            (Pattern::Local(local), value) => self.bind(*local, value),
            (Pattern::Ignore, _) => {}
            (Pattern::Tuple(patterns), Value::Tuple(values)) if patterns.len() == values.len() => {
                for (pattern, value) in patterns.iter().zip(values) {
                    self.matched(pattern, value, span)?;
                }
            }
            _ => return Err(LowerError::Inconsistent { span, what: "a pattern does not fit its value" }),
        }
        Ok(())
    }

    fn declare_state(&mut self, state: hir::StateId, init: &'a hir::Expr) -> Result<(), LowerError> {
        let declared = &self.function().states[state.index()];
        let shape = self.shape(&declared.ty, declared.span)?;
        let element = element_of(&declared.ty, declared.span)?;
        let initial = match self.value(init)? {
            Value::Scalar(expr) if !shape.is_empty() => {
                let axes = shape.iter().map(|&n| Range::Fixed(n)).collect();
                if !self.frame().free(&expr).is_empty() {
                    let what = "a state's first value cannot depend on a loop's variable";
                    return Err(LowerError::Unsupported { span: init.span, what });
                }
                let permissions = Permissions::default();
                let compute = Compute { axes, fold: None, guard: None, body: expr, permissions };
                let mut origin = self.origin(init.span);
                origin.name = self.key(&declared.name);
                self.frame().builder.compute(compute, element, origin)
            }
            value => self.whole(value, init.span, &declared.name)?,
        };
        let key = self.key(&declared.name);
        let (id, node) = self.frame().builder.state(key, shape, element, initial);
        let depth = self.frames.len() - 1;
        let last = self.instances.len() - 1;
        self.instances[last].states.insert(state, (depth, id, node, None));
        Ok(())
    }

    /// The incoming value of a state, or the outgoing one.
    pub(super) fn state_value(
        &mut self,
        state: hir::StateId,
        outgoing: bool,
        span: Span,
    ) -> Result<Value, LowerError> {
        let found = self.instance().states.get(&state).copied();
        let (depth, id, incoming, next) =
            found.ok_or(LowerError::Inconsistent { span, what: "a state is used before it is declared" })?;
        let node = match next {
            Some(next) if outgoing => next,
            None if outgoing && assigns(&self.function().body, state) => {
                let what = "the outgoing value of a state is read before the statement that assigns it";
                return Err(LowerError::Unsupported { span, what });
            }
            _ => incoming,
        };
        let shape = self.frames[depth].builder.graph().states()[id.index()].shape.clone();
        let value = if shape.is_empty() {
            Value::Scalar(Expr::load(node, Vec::new()))
        } else {
            Value::Array(View::whole(node, shape))
        };
        self.carried_in(depth, value, span)
    }

    pub(super) fn history_read(
        &mut self,
        history: hir::HistoryId,
        depth: &'a hir::Expr,
        indices: &'a [hir::Expr],
        span: Span,
    ) -> Result<Value, LowerError> {
        let found = self.instance().histories.get(&history).copied();
        let (frame, id) =
            found.ok_or(LowerError::Inconsistent { span, what: "a history is read before its own row" })?;
        if frame != self.frames.len() - 1 {
            let what =
                "a scan cannot read the history of the step around it; copy the rows that it needs first";
            return Err(LowerError::Unsupported { span, what });
        }
        let depth = self.scalar(depth)?;
        let indices: Result<Vec<Expr>, LowerError> = indices.iter().map(|index| self.scalar(index)).collect();
        let graph = self.frame().builder.graph();
        let shape = graph.shape(graph.histories()[id.index()].row).unwrap_or_default();
        Ok(View { base: Base::History(id, depth), prefix: Vec::new(), shape }.at(indices?))
    }
}

/// Whether the outermost block of a function's body assigns the state.
fn assigns(body: &hir::Expr, state: hir::StateId) -> bool {
    match &body.kind {
        hir::ExprKind::Block { statements, .. } => statements.iter().any(
            |statement| matches!(statement, Statement::Assign { state: assigned, .. } if *assigned == state),
        ),
        _ => false,
    }
}
