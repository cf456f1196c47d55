//! Goes through a template's statements.
//!
//! `minijinja` reads the template; this is what a template *does*. Every step is paid for ([`Meter`]) before it is taken,
//! which no engine that evaluates by itself offers.

use std::borrow::Cow;
use std::collections::HashMap;

use minijinja::machinery::ast::{self, Expr, Stmt};

use super::functions;
use super::meter::{Fault, Meter, Outcome};
use super::python;
use super::value::{Entries, Value};

/// What a rendering is told besides the template.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// The variables: `messages` and the like.
    pub variables: HashMap<String, Value>,
    /// A character that `tojson` leaves alone.
    pub mark: Option<char>,
    /// The time, in seconds since 1970.
    pub now: i64,
}

/// Where a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

/// A rendering.
pub(super) struct Renderer<'a> {
    pub meter: Meter,
    pub given: Given,
    text: String,
    scopes: Vec<Scope<'a>>,
    pub(super) scope: usize,
    pub(super) macros: Vec<Macro<'a>>,
    pub(super) loops: Vec<Loop<'a>>,
    pub(super) namespaces: Vec<Entries>,
}

/// The names that are set within a block.
struct Scope<'a> {
    names: HashMap<Cow<'a, str>, Value>,
    outer: Option<usize>,
    /// A macro refers to it, so that it stays.
    kept: bool,
}

/// A macro and the scope in which it was declared.
#[derive(Clone, Copy)]
pub(super) struct Macro<'a> {
    pub declaration: &'a ast::Macro<'a>,
    pub scope: usize,
}

/// A loop that runs.
pub(super) struct Loop<'a> {
    pub items: Vec<Value>,
    pub index: usize,
    pub depth: usize,
    /// What `loop(…)` runs again.
    pub statement: Option<&'a ast::ForLoop<'a>>,
    pub scope: usize,
    pub changed: Option<Vec<Value>>,
}

impl<'a> Renderer<'a> {
    pub(super) fn new(meter: Meter, given: Given) -> Renderer<'a> {
        let outermost = Scope { names: HashMap::new(), outer: None, kept: true };
        Renderer {
            meter,
            given,
            text: String::new(),
            scopes: vec![outermost],
            scope: 0,
            macros: Vec::new(),
            loops: Vec::new(),
            namespaces: Vec::new(),
        }
    }

    /// The text of a whole template.
    pub(super) fn render(mut self, template: &'a Stmt<'a>) -> Outcome<String> {
        match template {
            Stmt::Template(template) => self.block(&template.children)?,
            other => self.statement(other)?,
        };
        Ok(self.text)
    }

    pub(super) fn block(&mut self, statements: &'a [Stmt<'a>]) -> Outcome<Flow> {
        for statement in statements {
            match self.statement(statement)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &'a Stmt<'a>) -> Outcome<Flow> {
        self.meter.steps(1)?;
        self.meter.enter()?;
        let flow = self.execute(statement);
        self.meter.leave();
        flow
    }

    fn execute(&mut self, statement: &'a Stmt<'a>) -> Outcome<Flow> {
        match statement {
            Stmt::Template(template) => return self.block(&template.children),
            Stmt::EmitRaw(raw) => self.emit(raw.raw)?,
            Stmt::EmitExpr(emit) => {
                let value = self.expression(&emit.expr)?;
                python::write(&mut self.text, &self.meter, &value)?;
            }
            Stmt::ForLoop(each) => {
                let items = self.expression(&each.iter)?;
                self.run_loop(each, items, 0)?;
            }
            Stmt::IfCond(condition) => {
                let holds = self.expression(&condition.expr)?.is_true();
                return self.block(if holds { &condition.true_body } else { &condition.false_body });
            }
            Stmt::WithBlock(with) => {
                self.within(self.scope, |renderer| {
                    for (target, value) in &with.assignments {
                        let value = renderer.expression(value)?;
                        renderer.assign(target, value)?;
                    }
                    renderer.block(&with.body)
                })?;
            }
            Stmt::Set(set) => {
                let value = self.expression(&set.expr)?;
                self.assign(&set.target, value)?;
            }
            Stmt::SetBlock(set) => {
                let text = self.capture(&set.body)?;
                let value = self.filtered(set.filter.as_ref(), Value::text(text))?;
                self.assign(&set.target, value)?;
            }
            Stmt::FilterBlock(block) => {
                let text = self.capture(&block.body)?;
                let value = self.filtered(Some(&block.filter), Value::text(text))?;
                python::write(&mut self.text, &self.meter, &value)?;
            }
            Stmt::AutoEscape(escape) => {
                if self.expression(&escape.enabled)?.is_true() {
                    return Err(Fault::failed("autoescape is not supported"));
                }
                return self.block(&escape.body);
            }
            Stmt::Macro(declaration) => {
                let value = self.declare(declaration)?;
                self.set(Cow::Borrowed(declaration.name), value)?;
            }
            Stmt::CallBlock(call) => {
                let caller = self.declare(&call.macro_decl)?;
                let value = self.call(&call.call, Some(caller))?;
                python::write(&mut self.text, &self.meter, &value)?;
            }
            Stmt::Do(call) => {
                self.call(&call.call, None)?;
            }
            Stmt::Continue(_) => return Ok(Flow::Continue),
            Stmt::Break(_) => return Ok(Flow::Break),
        }
        Ok(Flow::Next)
    }

    fn emit(&mut self, text: &str) -> Outcome<()> {
        self.meter.bytes(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// What `statements` write.
    fn capture(&mut self, statements: &'a [Stmt<'a>]) -> Outcome<String> {
        let outside = std::mem::take(&mut self.text);
        let scope = self.scope;
        let flow = self.within(scope, |renderer| renderer.block(statements));
        let text = std::mem::replace(&mut self.text, outside);
        flow?;
        // The text is copied once more when it becomes a value.
        self.meter.bytes(text.len())?;
        Ok(text)
    }

    /// Runs `work` in a new scope within `outer`.
    fn within<T>(&mut self, outer: usize, work: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.meter.bytes(64)?;
        let scope = self.scopes.len();
        self.scopes.push(Scope { names: HashMap::new(), outer: Some(outer), kept: false });
        let before = std::mem::replace(&mut self.scope, scope);
        let result = work(self);
        self.scope = before;
        while self.scopes.len() > scope && self.scopes.last().is_some_and(|last| !last.kept) {
            self.scopes.pop();
        }
        result
    }

    /// The value of a name.
    pub(super) fn lookup(&self, name: &str) -> Outcome<Value> {
        let mut scope = Some(self.scope);
        while let Some(inner) = scope.and_then(|scope| self.scopes.get(scope)) {
            self.meter.steps(1)?;
            if let Some(value) = inner.names.get(name) {
                return Ok(value.clone());
            }
            scope = inner.outer;
        }
        if let Some(value) = self.given.variables.get(name) {
            return Ok(value.clone());
        }
        Ok(functions::NAMES
            .iter()
            .find(|known| **known == name)
            .map_or(Value::Undefined, |name| Value::Function(name)))
    }

    fn set(&mut self, name: Cow<'a, str>, value: Value) -> Outcome<()> {
        self.meter.bytes(name.len() + 96)?;
        if let Some(scope) = self.scopes.get_mut(self.scope) {
            scope.names.insert(name, value);
        }
        Ok(())
    }

    /// Sets a name, a namespace's attribute, or several names from a list.
    fn assign(&mut self, target: &'a Expr<'a>, value: Value) -> Outcome<()> {
        let line = target.span().start_line;
        match target {
            Expr::Var(name) => self.set(Cow::Borrowed(name.id), value),
            Expr::GetAttr(attribute) => match self.expression(&attribute.expr)? {
                Value::Namespace(id) => self.set_attribute(id, attribute.name, value),
                other => Err(Fault::failed(format!(
                    "only a namespace's attributes can be set, not those of {}",
                    other.kind()
                ))),
            },
            Expr::List(list) => self.unpack(&list.items, &value),
            Expr::Tuple(tuple) => self.unpack(&tuple.items, &value),
            _ => Err(Fault::failed("this cannot be set")),
        }
        .map_err(|fault| fault.at(line))
    }

    pub(super) fn set_attribute(&mut self, namespace: usize, name: &str, value: Value) -> Outcome<()> {
        self.meter.bytes(name.len() + 128)?;
        if let Some(entries) = self.namespaces.get_mut(namespace) {
            entries.insert(super::value::Key::Text(name.into()), value);
        }
        Ok(())
    }

    fn unpack(&mut self, targets: &'a [Expr<'a>], value: &Value) -> Outcome<()> {
        let items = value.items(&self.meter)?;
        if items.len() != targets.len() {
            return Err(Fault::failed(format!("{} names for {} values", targets.len(), items.len())));
        }
        targets.iter().zip(items).try_for_each(|(target, item)| self.assign(target, item))
    }

    /// Runs a loop over `items`.
    pub(super) fn run_loop(&mut self, each: &'a ast::ForLoop<'a>, items: Value, depth: usize) -> Outcome<()> {
        let mut items = items.items(&self.meter).map_err(|fault| fault.at(each.iter.span().start_line))?;
        let outer = self.scope;
        if let Some(filter) = &each.filter_expr {
            let mut kept = Vec::new();
            for item in items {
                let keep = self.within(outer, |renderer| {
                    renderer.assign(&each.target, item.clone())?;
                    renderer.expression(filter)
                })?;
                if keep.is_true() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        if items.is_empty() {
            self.within(outer, |renderer| renderer.block(&each.else_body))?;
            return Ok(());
        }
        let id = self.loops.len();
        let statement = each.recursive.then_some(each);
        self.meter.bytes(128)?;
        self.loops.push(Loop { items, index: 0, depth, statement, scope: outer, changed: None });
        let result = self.turns(each, id);
        self.loops.truncate(id);
        result
    }

    fn turns(&mut self, each: &'a ast::ForLoop<'a>, id: usize) -> Outcome<()> {
        let (count, outer) = self.loops.get(id).map_or((0, 0), |turns| (turns.items.len(), turns.scope));
        for index in 0..count {
            let item = self.loops.get_mut(id).and_then(|turns| {
                turns.index = index;
                turns.items.get(index).cloned()
            });
            let flow = self.within(outer, |renderer| {
                renderer.assign(&each.target, item.unwrap_or(Value::Undefined))?;
                renderer.set(Cow::Borrowed("loop"), Value::Loop(id))?;
                renderer.block(&each.body)
            })?;
            if flow == Flow::Break {
                break;
            }
        }
        Ok(())
    }

    /// What a loop that is called again with other items writes.
    pub(super) fn loop_again(&mut self, id: usize, items: Value) -> Outcome<Value> {
        let Some((each, scope, depth)) =
            self.loops.get(id).and_then(|turns| Some((turns.statement?, turns.scope, turns.depth)))
        else {
            return Err(Fault::failed("only the loop of a recursive `for` that runs can be called"));
        };
        let outside = std::mem::take(&mut self.text);
        let before = std::mem::replace(&mut self.scope, scope);
        let result = self.run_loop(each, items, depth + 1);
        self.scope = before;
        let text = std::mem::replace(&mut self.text, outside);
        result?;
        self.meter.bytes(text.len())?;
        Ok(Value::text(text))
    }

    fn declare(&mut self, declaration: &'a ast::Macro<'a>) -> Outcome<Value> {
        self.meter.bytes(64)?;
        let mut scope = Some(self.scope);
        while let Some(inner) = scope.and_then(|scope| self.scopes.get_mut(scope)) {
            if std::mem::replace(&mut inner.kept, true) {
                break;
            }
            scope = inner.outer;
        }
        self.macros.push(Macro { declaration, scope: self.scope });
        Ok(Value::Macro(self.macros.len() - 1))
    }

    /// Calls a macro with its arguments in order; what it writes is its value.
    pub(super) fn call_macro(
        &mut self,
        id: usize,
        values: Vec<Option<Value>>,
        caller: Option<Value>,
    ) -> Outcome<Value> {
        let Some(&Macro { declaration, scope }) = self.macros.get(id) else {
            return Err(Fault::failed("this macro is gone"));
        };
        let outside = std::mem::take(&mut self.text);
        let required = declaration.args.len().saturating_sub(declaration.defaults.len());
        let result = self.within(scope, |renderer| {
            if let Some(caller) = caller {
                renderer.set(Cow::Borrowed("caller"), caller)?;
            }
            for (index, (parameter, value)) in declaration.args.iter().zip(values).enumerate() {
                let default = index.checked_sub(required).and_then(|index| declaration.defaults.get(index));
                let value = match (value, default) {
                    (Some(value), _) => value,
                    (None, Some(default)) => renderer.expression(default)?,
                    (None, None) => Value::Undefined,
                };
                renderer.assign(parameter, value)?;
            }
            renderer.block(&declaration.body)
        });
        let text = std::mem::replace(&mut self.text, outside);
        result?;
        self.meter.bytes(text.len())?;
        Ok(Value::text(text))
    }
}
