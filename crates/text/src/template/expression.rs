//! Evaluates a template's expressions.

use std::cmp::Ordering;

use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, Expr, UnaryOpKind};

use super::arguments::Arguments;
use super::meter::{Fault, Outcome};
use super::render::Renderer;
use super::value::{Entries, Key, Value};
use super::{compare, filters, functions, methods, operators, tests};

impl<'a> Renderer<'a> {
    pub(super) fn expression(&mut self, expression: &'a Expr<'a>) -> Outcome<Value> {
        self.meter.steps(1)?;
        self.meter.enter()?;
        let value = self.evaluate(expression).map_err(|fault| fault.at(expression.span().start_line));
        self.meter.leave();
        value
    }

    fn expressions(&mut self, expressions: &'a [Expr<'a>]) -> Outcome<Vec<Value>> {
        expressions.iter().map(|expression| self.expression(expression)).collect()
    }

    fn evaluate(&mut self, expression: &'a Expr<'a>) -> Outcome<Value> {
        match expression {
            Expr::Var(name) => self.lookup(name.id),
            Expr::Const(constant) => Value::constant(&self.meter, &constant.value),
            Expr::List(list) => {
                let items = self.expressions(&list.items)?;
                Value::list(&self.meter, items)
            }
            Expr::Tuple(tuple) => {
                let items = self.expressions(&tuple.items)?;
                Value::tuple(&self.meter, items)
            }
            Expr::Map(map) => {
                let mut entries = Entries::new();
                for (key, value) in map.keys.iter().zip(&map.values) {
                    let key = self.expression(key)?.key()?;
                    self.meter.read(if let Key::Text(text) = &key { text.len() } else { 0 })?;
                    entries.insert(key, self.expression(value)?);
                }
                Value::map(&self.meter, entries)
            }
            Expr::UnaryOp(unary) => {
                let value = self.expression(&unary.expr)?;
                match unary.op {
                    UnaryOpKind::Not => Ok(Value::Bool(!value.is_true())),
                    UnaryOpKind::Neg => operators::negate(&value),
                }
            }
            Expr::BinOp(binary) => self.binary(binary),
            Expr::Compare(chain) => {
                let mut left = self.expression(&chain.expr)?;
                for link in &chain.ops {
                    let right = self.expression(&link.expr)?;
                    if !self.compares(link.op, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            Expr::IfExpr(choice) => {
                if self.expression(&choice.test_expr)?.is_true() {
                    self.expression(&choice.true_expr)
                } else {
                    choice.false_expr.as_ref().map_or(Ok(Value::Undefined), |other| self.expression(other))
                }
            }
            Expr::Slice(slice) => {
                let value = self.expression(&slice.expr)?;
                let mut bound = |bound: &'a Option<Expr<'a>>| match bound {
                    Some(bound) => self.expression(bound),
                    None => Ok(Value::None),
                };
                let (start, stop, step) = (bound(&slice.start)?, bound(&slice.stop)?, bound(&slice.step)?);
                operators::slice(&self.meter, &value, &start, &stop, &step)
            }
            Expr::GetAttr(attribute) => {
                let value = self.expression(&attribute.expr)?;
                self.attribute(&value, attribute.name)
            }
            Expr::GetItem(item) => {
                let value = self.expression(&item.expr)?;
                let key = self.expression(&item.subscript_expr)?;
                self.item(&value, &key)
            }
            Expr::Filter(filter) => match &filter.expr {
                Some(inner) => {
                    let value = self.expression(inner)?;
                    let arguments = self.arguments(&filter.args)?;
                    filters::apply(self, filter.name, value, arguments)
                }
                None => Err(Fault::failed("a filter has nothing to work on")),
            },
            Expr::Test(test) => {
                let value = self.expression(&test.expr)?;
                let arguments = self.arguments(&test.args)?;
                Ok(Value::Bool(tests::holds(self, test.name, &value, arguments)?))
            }
            Expr::Call(call) => self.call(call, None),
        }
    }

    /// A chain of filters, as blocks have it, on a value.
    pub(super) fn filtered(&mut self, chain: Option<&'a Expr<'a>>, value: Value) -> Outcome<Value> {
        let Some(Expr::Filter(filter)) = chain else { return Ok(value) };
        let line = filter.span().start_line;
        self.meter.enter()?;
        let inner = self.filtered(filter.expr.as_ref(), value);
        self.meter.leave();
        let arguments = self.arguments(&filter.args)?;
        filters::apply(self, filter.name, inner?, arguments).map_err(|fault| fault.at(line))
    }

    fn binary(&mut self, binary: &'a ast::BinOp<'a>) -> Outcome<Value> {
        let left = self.expression(&binary.left)?;
        match binary.op {
            BinOpKind::ScAnd if !left.is_true() => return Ok(left),
            BinOpKind::ScOr if left.is_true() => return Ok(left),
            _ => {}
        }
        let right = self.expression(&binary.right)?;
        let op = match binary.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => return Ok(right),
            BinOpKind::Eq => CompareOpKind::Eq,
            BinOpKind::Ne => CompareOpKind::Ne,
            BinOpKind::Lt => CompareOpKind::Lt,
            BinOpKind::Lte => CompareOpKind::Lte,
            BinOpKind::Gt => CompareOpKind::Gt,
            BinOpKind::Gte => CompareOpKind::Gte,
            BinOpKind::In => CompareOpKind::In,
            BinOpKind::Concat => return operators::join(&self.meter, &left, &right),
            other => return operators::calculate(&self.meter, other, &left, &right),
        };
        Ok(Value::Bool(self.compares(op, &left, &right)?))
    }

    fn compares(&self, op: CompareOpKind, left: &Value, right: &Value) -> Outcome<bool> {
        let order = || compare::order(&self.meter, left, right);
        Ok(match op {
            CompareOpKind::Eq => compare::equal(&self.meter, left, right)?,
            CompareOpKind::Ne => !compare::equal(&self.meter, left, right)?,
            CompareOpKind::Lt => order()? == Ordering::Less,
            CompareOpKind::Lte => order()? != Ordering::Greater,
            CompareOpKind::Gt => order()? == Ordering::Greater,
            CompareOpKind::Gte => order()? != Ordering::Less,
            CompareOpKind::In => operators::contains(&self.meter, right, left)?,
            CompareOpKind::NotIn => !operators::contains(&self.meter, right, left)?,
        })
    }

    /// `value.name`.
    pub(super) fn attribute(&self, value: &Value, name: &str) -> Outcome<Value> {
        self.meter.steps(1)?;
        match value {
            Value::Undefined => {
                Err(Fault::failed(format!("an undefined value has no attribute `{}`", shown(name))))
            }
            Value::Map(map) => {
                Ok(map.entries.get(&Key::Text(name.into())).cloned().unwrap_or(Value::Undefined))
            }
            Value::Namespace(id) => {
                let entries = self.namespaces.get(*id);
                let value = entries.and_then(|entries| entries.get(&Key::Text(name.into())));
                Ok(value.cloned().unwrap_or(Value::Undefined))
            }
            Value::Loop(id) => functions::loop_attribute(self, *id, name),
            Value::Macro(id) if name == "name" => {
                let name = self.macros.get(*id).map(|known| known.declaration.name);
                Ok(name.map_or(Value::Undefined, Value::text))
            }
            _ => Ok(Value::Undefined),
        }
    }

    /// `value[key]`.
    pub(super) fn item(&self, value: &Value, key: &Value) -> Outcome<Value> {
        self.meter.steps(1)?;
        match value {
            Value::Undefined => Err(Fault::failed("an undefined value has no items")),
            Value::Map(map) => Ok(map.entries.get(&key.key()?).cloned().unwrap_or(Value::Undefined)),
            Value::List(list) => {
                let index = key.as_int().and_then(|index| operators::position(index, list.items.len()));
                Ok(index.and_then(|index| list.items.get(index)).cloned().unwrap_or(Value::Undefined))
            }
            Value::Text(text) => {
                let Some(index) = key.as_int() else { return Ok(Value::Undefined) };
                self.meter.read(text.len())?;
                let character = operators::position(index, text.chars().count())
                    .and_then(|index| text.chars().nth(index));
                Ok(character
                    .map_or(Value::Undefined, |character| Value::text(&*character.encode_utf8(&mut [0; 4]))))
            }
            other => match key {
                Value::Text(name) => self.attribute(other, name),
                _ => Ok(Value::Undefined),
            },
        }
    }

    fn arguments(&mut self, given: &'a [CallArg<'a>]) -> Outcome<Arguments> {
        let mut arguments = Arguments::default();
        for argument in given {
            match argument {
                CallArg::Pos(value) => arguments.positional.push(self.expression(value)?),
                CallArg::Kwarg(name, value) => {
                    let value = self.expression(value)?;
                    arguments.named.push(((*name).into(), value));
                }
                CallArg::PosSplat(values) => {
                    let values = self.expression(values)?.items(&self.meter)?;
                    arguments.positional.extend(values);
                }
                CallArg::KwargSplat(values) => match self.expression(values)? {
                    Value::Map(map) => {
                        self.meter.entries(map.entries.len())?;
                        for (name, value) in &map.entries {
                            let Key::Text(name) = name else {
                                return Err(Fault::failed("an argument's name must be a string"));
                            };
                            arguments.named.push((name.clone(), value.clone()));
                        }
                    }
                    other => {
                        return Err(Fault::failed(format!("{} cannot be named arguments", other.kind())));
                    }
                },
            }
        }
        Ok(arguments)
    }

    pub(super) fn call(&mut self, call: &'a ast::Call<'a>, caller: Option<Value>) -> Outcome<Value> {
        if let Expr::GetAttr(attribute) = &call.expr {
            let value = self.expression(&attribute.expr)?;
            let arguments = self.arguments(&call.args)?;
            if methods::has(&value, attribute.name) {
                return methods::call(self, &value, attribute.name, arguments);
            }
            let callee = self.attribute(&value, attribute.name)?;
            if matches!(callee, Value::Undefined) {
                let reason = format!("{} has no method `{}`", value.kind(), shown(attribute.name));
                return Err(Fault::failed(reason));
            }
            return self.call_value(&callee, arguments, caller);
        }
        let callee = self.expression(&call.expr)?;
        if let (Value::Undefined, Expr::Var(name)) = (&callee, &call.expr) {
            return Err(Fault::failed(format!("there is no function `{}`", shown(name.id))));
        }
        let arguments = self.arguments(&call.args)?;
        self.call_value(&callee, arguments, caller)
    }

    pub(super) fn call_value(
        &mut self,
        callee: &Value,
        arguments: Arguments,
        caller: Option<Value>,
    ) -> Outcome<Value> {
        match callee {
            Value::Function(name) => functions::call(self, name, arguments),
            Value::Loop(id) => {
                let mut arguments = arguments;
                let items = arguments.required("items")?;
                arguments.finish()?;
                self.loop_again(*id, items)
            }
            Value::Macro(id) => {
                let Some(declaration) = self.macros.get(*id).map(|known| known.declaration) else {
                    return Err(Fault::failed("this macro is gone"));
                };
                let mut arguments = arguments;
                let mut values = Vec::with_capacity(declaration.args.len());
                for parameter in &declaration.args {
                    let Expr::Var(name) = parameter else { continue };
                    values.push(arguments.optional(name.id));
                }
                arguments.finish()?;
                self.call_macro(*id, values, caller)
            }
            other => Err(Fault::failed(format!("{} cannot be called", other.kind()))),
        }
    }
}

/// A name short enough for a message.
pub(super) fn shown(name: &str) -> &str {
    name.char_indices().nth(60).map_or(name, |(end, _)| &name[..end])
}
