//! `scan`: the sequential loop, and how many values it emits.

use std::collections::HashMap;

use super::Checked;
use super::body::Body;
use super::bounds::Variable;
use crate::ast::{self, AxisRange, Name, StatementKind as Syntax};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::{
    Binary, Carry, Emission, EmissionCount, Expr, ExprKind, LocalId, Pattern, Scalar, Scan, Statement, Type,
};
use crate::parser::Reported;
use crate::size::Size;
use crate::source::Span;

/// The parts of a loop's body.
pub(super) struct Turn<'b> {
    statements: Vec<Checked<Statement>>,
    emission: Option<(Option<&'b ast::Expr>, Checked<Emission>)>,
    next: Option<Checked<Vec<Expr>>>,
}

impl Body<'_, '_> {
    pub(super) fn scan(
        &mut self,
        axes: &[ast::Axis],
        carries: &[(Name, ast::Expr)],
        block: &ast::Block,
        span: Span,
    ) -> Checked<Expr> {
        if self.place.iteration > 0 || self.place.runtime_if > 0 {
            let message = "a scan stands inside `each`, a fold or a run-time `if`";
            let hint = "a scan runs once: move it out, or write an ordered `fold`";
            return self.error_hint(Rule::Scan, span, message, hint);
        }
        self.checker.facts[self.function.index()].has_scan = true;
        let range = self.scan_range(axes, span);
        let carries = self.carries(carries);
        let (first, turns) = range?;
        let carries = carries?;
        let inside = |place: &mut super::body::Place| {
            place.scan += 1;
            place.control += 1;
        };
        let name = &axes[0].name;
        self.within(inside, |body| {
            body.scoped(|body| {
                let index = body.bind_scan_index(name, &first, &turns);
                let carries = body.bind_carries(carries);
                let turn = body.turn(block, &carries, true);
                let count = turn.emission.as_ref().map(|(bound, emission)| {
                    let emission = emission.as_ref().map_err(|_| Reported)?;
                    body.emission_count(*bound, emission, index, &first, &turns)
                });
                let (statements, next) = body.finished_turn(turn.statements, turn.next, &carries, block)?;
                let emission = match (turn.emission, count) {
                    (Some((_, emission)), Some(count)) => Some(Emission { count: count?, ..emission? }),
                    _ => None,
                };
                if emission.is_none() && carries.is_empty() {
                    let message = "this scan emits nothing and carries nothing";
                    return body.error_hint(Rule::Scan, span, message, "emit a value: `emit value;`");
                }
                let ty = match &emission {
                    Some(emission) => emission_type(emission),
                    None => carried_type(&carries),
                };
                let scan = Scan { index, first, turns, carries, statements, emission, next };
                Ok(Expr { kind: ExprKind::Scan(Box::new(scan)), ty, span })
            })
        })
    }

    /// The first value and the number of turns.
    fn scan_range(&mut self, axes: &[ast::Axis], span: Span) -> Checked<(Size, Size)> {
        let [axis] = axes else {
            return self.error(Rule::Scan, span, "a scan has one variable: its turns are one chain");
        };
        let one = Size::from(1);
        let (first, end, place) = match &axis.range {
            AxisRange::Count(count) => (Ok(Size::default()), self.size(count), count.span),
            AxisRange::Between { start, end, inclusive } => {
                let (first, mut last) = (self.size(start), self.size(end));
                if *inclusive {
                    last = match last.map(|last| last.add(&one)) {
                        Ok(Err(error)) => Err(self.checker.size_error(error, end.span)),
                        Ok(Ok(last)) => Ok(last),
                        Err(reported) => Err(reported),
                    };
                }
                (first, last, end.span)
            }
            AxisRange::Path(path) => {
                let hint = "over a path, read histories with a fold";
                return self.error_hint(Rule::Scan, *path, "a scan's turns are known from sizes", hint);
            }
        };
        let (first, end) = (first?, end?);
        match end.subtract(&first) {
            Ok(turns) if turns.as_constant().is_some_and(|turns| turns < 0) => {
                self.error(Rule::Scan, place, "a scan ends before its start")
            }
            Ok(turns) => Ok((first, turns)),
            Err(error) => Err(self.checker.size_error(error, place)),
        }
    }

    fn bind_scan_index(&mut self, name: &Name, first: &Size, turns: &Size) -> LocalId {
        use super::bounds::{AxisBounds, Linear};
        let index = self.bind_local(name, Type::I32);
        let last = first.add(turns).and_then(|end| end.subtract(&Size::from(1)));
        let bounds = AxisBounds {
            least: Some(Linear::constant(first.clone())),
            greatest: last.ok().map(Linear::constant),
        };
        self.axes.insert(index, bounds);
        self.place.maybe_skipped += u32::from(!turns.is_at_least(1));
        index
    }

    /// Names and first values, evaluated outside the loop.
    pub(super) fn carries<'n>(&mut self, carries: &'n [(Name, ast::Expr)]) -> Checked<Vec<(&'n Name, Expr)>> {
        let mut checked = Vec::with_capacity(carries.len());
        let mut failed = None;
        let mut names: HashMap<&str, Span> = HashMap::new();
        for (name, init) in carries {
            if let Some(first) = names.insert(&name.text, name.span) {
                self.checker.duplicate(name, first);
            }
            let init = self.expression(init).and_then(|init| self.storable(init, "carried by a loop"));
            match init {
                Ok(init) => checked.push((name, init)),
                Err(reported) => failed = Some(reported),
            }
        }
        match failed {
            Some(reported) => Err(reported),
            None => Ok(checked),
        }
    }

    pub(super) fn bind_carries(&mut self, carries: Vec<(&Name, Expr)>) -> Vec<Carry> {
        carries
            .into_iter()
            .map(|(name, init)| Carry { local: self.bind_local(name, init.ty.clone()), init })
            .collect()
    }

    /// Checks what a turn does, in order.
    pub(super) fn turn<'b>(&mut self, block: &'b ast::Block, carries: &[Carry], may_emit: bool) -> Turn<'b> {
        let mut turn = Turn { statements: Vec::new(), emission: None, next: None };
        for statement in &block.statements {
            match &statement.kind {
                Syntax::Emit { bound, condition, value } if may_emit => {
                    let emission = self.emission(condition.as_ref(), value);
                    if turn.emission.is_some() {
                        let message = "a turn emits at most once";
                        let hint = "emit a row of several values, or use two scans";
                        turn.statements.push(self.error_hint(Rule::Scan, statement.span, message, hint));
                    } else {
                        turn.emission = Some((bound.as_ref(), emission));
                    }
                }
                Syntax::Next(value) => {
                    if turn.next.is_some() {
                        let message = "a turn has one `next`";
                        let hint = "several carries: next (a, b)";
                        turn.statements.push(self.error_hint(Rule::Scan, statement.span, message, hint));
                    } else {
                        let mut extra = Vec::new();
                        let next = self.next_values(value, carries, &mut extra);
                        turn.next = Some(next);
                        turn.statements.extend(extra.into_iter().map(Ok));
                    }
                }
                _ => {
                    let checked = self.statement(statement);
                    turn.statements.push(checked);
                }
            }
        }
        turn
    }

    /// The same for a loop without emissions.
    pub(super) fn finish_layers(
        &mut self,
        turn: Turn,
        carries: &[Carry],
        block: &ast::Block,
    ) -> Checked<(Vec<Statement>, Vec<Expr>)> {
        self.finished_turn(turn.statements, turn.next, carries, block)
    }

    /// The turn's statements and next values, when all of it is right.
    fn finished_turn(
        &mut self,
        statements: Vec<Checked<Statement>>,
        next: Option<Checked<Vec<Expr>>>,
        carries: &[Carry],
        block: &ast::Block,
    ) -> Checked<(Vec<Statement>, Vec<Expr>)> {
        let mut failed = None;
        if let Some(result) = &block.result {
            let message = "the body of a loop has no value of its own";
            let hint = "write `next value` for a carry, `emit value` for an element of the result";
            failed = Some(self.report(Diagnostic::new(Rule::Scan, result.span, message).hint(hint)));
        }
        if next.is_none() && !carries.is_empty() && failed.is_none() {
            let end = Span::new(block.span.end.saturating_sub(1), block.span.end);
            let message = "this loop carries a value and has no `next`";
            failed =
                Some(self.report(Diagnostic::new(Rule::Scan, end, message).hint("end it with `next value`")));
        }
        let statements = statements.into_iter().collect::<Checked<Vec<_>>>()?;
        let next = next.unwrap_or_else(|| Ok(Vec::new()))?;
        match failed {
            Some(reported) => Err(reported),
            None => Ok((statements, next)),
        }
    }

    /// One value for each carry: the value itself for one carry, the parts of a tuple for several.
    fn next_values(
        &mut self,
        value: &ast::Expr,
        carries: &[Carry],
        extra: &mut Vec<Statement>,
    ) -> Checked<Vec<Expr>> {
        let checked = self.expression(value)?;
        let parts = match (checked.kind, carries.len()) {
            (_, 0) => {
                let message = "`next` in a loop that carries nothing";
                let hint = "name the carried value and its first value: scan[t in T](carry = init) { ... }";
                return self.error_hint(Rule::Scan, value.span, message, hint);
            }
            (ExprKind::Tuple(parts), count) if count > 1 && parts.len() == count => parts,
            (kind, 1) => vec![Expr { kind, ty: checked.ty, span: checked.span }],
            (kind, count) => match &checked.ty {
                Type::Tuple(types) if types.len() == count => {
                    let locals: Vec<LocalId> =
                        types.iter().map(|ty| self.new_local("$next", ty.clone(), value.span)).collect();
                    let parts = locals.iter().map(|local| self.local_expr(*local, value.span)).collect();
                    let pattern = Pattern::Tuple(locals.into_iter().map(Pattern::Local).collect());
                    let value = Expr { kind, ty: checked.ty, span: checked.span };
                    extra.push(Statement::Let { pattern, value });
                    parts
                }
                other => {
                    let message = format!(
                        "`next` gives {}, and the loop carries {count} values",
                        self.checker.type_text(other)
                    );
                    return self.error_hint(Rule::Scan, value.span, message, "give a tuple: next (a, b)");
                }
            },
        };
        let mut next = Vec::with_capacity(parts.len());
        for (part, carry) in parts.into_iter().zip(carries) {
            let local = &self.locals[carry.local.index()];
            let (ty, place) = (local.ty.clone(), format!("the next `{}`", local.name));
            next.push(self.checker.coerce(part, &ty, &place)?);
        }
        Ok(next)
    }

    fn emission(&mut self, condition: Option<&ast::Expr>, value: &ast::Expr) -> Checked<Emission> {
        let condition =
            condition.map(|condition| self.expect(condition, &Type::BOOL, "the condition of `emit_if`"));
        let value = self.within(
            |place| place.maybe_skipped += u32::from(condition.is_some()),
            |body| body.expression(value).and_then(|value| body.storable(value, "emitted")),
        );
        let condition = condition.transpose()?;
        Ok(Emission { condition, value: value?, count: EmissionCount::Proven(Size::default()) })
    }

    fn emission_count(
        &mut self,
        bound: Option<&ast::Expr>,
        emission: &Emission,
        index: LocalId,
        first: &Size,
        turns: &Size,
    ) -> Checked<EmissionCount> {
        if let Some(bound) = bound {
            return Ok(EmissionCount::Declared(self.size(bound)?));
        }
        let Some(condition) = &emission.condition else { return Ok(EmissionCount::Proven(turns.clone())) };
        match self.proven_count(condition, index, first, turns) {
            Some(count) => Ok(EmissionCount::Proven(count)),
            None => {
                let message = "how many values this emits does not follow from sizes";
                let hint = format!(
                    "state a bound: `emit_if[{}](...)`; the result is then (values, how many)",
                    self.checker.size_text(turns)
                );
                self.error_hint(Rule::Scan, condition.span, message, hint)
            }
        }
    }

    /// In how many turns a comparison of the loop's variable with a size is true, where that is a size.
    fn proven_count(&self, condition: &Expr, index: LocalId, first: &Size, turns: &Size) -> Option<Size> {
        let ExprKind::Binary(operation, left, right) = &condition.kind else { return None };
        let difference = self.linear(left)?.subtract(&self.linear(right)?)?;
        let (factor, rest) = difference.split(Variable::Local(index));
        let offset = rest.as_constant()?;
        // `index OP edge`, in turns counted from the first.
        let (operation, edge) = match factor.as_constant()? {
            1 => (*operation, Size::from(0).subtract(offset).ok()?),
            -1 => (mirrored(*operation)?, offset.clone()),
            _ => return None,
        };
        let edge = edge.subtract(first).ok()?;
        let after = edge.add(&Size::from(1)).ok()?;
        let within = |size: &Size, most: &Size| {
            size.is_at_least(0) && most.subtract(size).is_ok_and(|rest| rest.is_at_least(0))
        };
        let before = |cut: &Size| within(cut, turns).then(|| cut.clone());
        match operation {
            Binary::GreaterEqual => turns.subtract(&before(&edge)?).ok(),
            Binary::Greater => turns.subtract(&before(&after)?).ok(),
            Binary::Less => before(&edge),
            Binary::LessEqual => before(&after),
            Binary::Equal => (edge.is_at_least(0) && before(&after).is_some()).then(|| Size::from(1)),
            Binary::NotEqual => {
                before(&after)?;
                if edge.is_at_least(0) { turns.subtract(&Size::from(1)).ok() } else { None }
            }
            _ => None,
        }
    }
}

/// The comparison with its sides exchanged.
fn mirrored(operation: Binary) -> Option<Binary> {
    Some(match operation {
        Binary::Less => Binary::Greater,
        Binary::LessEqual => Binary::GreaterEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterEqual => Binary::LessEqual,
        Binary::Equal | Binary::NotEqual => operation,
        _ => return None,
    })
}

fn emission_type(emission: &Emission) -> Type {
    let element = emission.value.ty.element().unwrap_or(Scalar::F32);
    let array = |size: &Size| {
        let mut dims = vec![size.clone()];
        dims.extend(emission.value.ty.dims().iter().cloned());
        Type::Array(element, dims)
    };
    match &emission.count {
        EmissionCount::Proven(count) => array(count),
        EmissionCount::Declared(bound) => Type::Tuple(vec![array(bound), Type::I32]),
    }
}

/// The type of a loop's carries after it.
pub(super) fn carried_type(carries: &[Carry]) -> Type {
    match carries {
        [carry] => carry.init.ty.clone(),
        _ => Type::Tuple(carries.iter().map(|carry| carry.init.ty.clone()).collect()),
    }
}
