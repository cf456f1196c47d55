//! Calls of built-in functions and of the program's own.

use std::collections::HashMap;

use super::body::{Binding, Body};
use super::declarations::BUILT_IN;
use super::sizes::solve_sizes;
use super::{Checked, Global, similar};
use crate::ast::{self, Name};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::{
    Axis, Binary, Call, CallInfo, CallSite, Conversion, Expr, ExprKind, FoldKind, FunctionId, Range, Scalar,
    Type, Unary,
};
use crate::parser::Reported;
use crate::size::{Size, SizeSymbol};
use crate::source::Span;

impl Body<'_, '_> {
    pub(super) fn call(
        &mut self,
        callee: &Name,
        sizes: Option<&[ast::Expr]>,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let name = callee.text.as_str();
        if name == "top" {
            return self.top(sizes, arguments, span);
        }
        let operation = unary_named(name);
        let is_built_in =
            operation.is_some() || matches!(name, "f32" | "i32" | "id" | "max" | "min" | "argmax");
        if is_built_in && sizes.is_some() {
            return self.error(Rule::ArgumentCount, span, format!("`{name}` takes no sizes"));
        }
        if let Some(operation) = operation {
            let operand = self.one_argument(name, arguments, span)?;
            return self.lifted(vec![operand], span, &mut |body, mut operands| {
                let operand = operands.remove(0);
                body.apply_unary(operation, operand, span)
            });
        }
        match name {
            "f32" | "i32" | "id" => {
                let operand = self.one_argument(name, arguments, span)?;
                self.lifted(vec![operand], span, &mut |body, mut operands| {
                    let operand = operands.remove(0);
                    body.conversion(name, operand, span)
                })
            }
            "max" | "min" => self.extremum(name, arguments, span),
            "argmax" => {
                let operand = self.one_argument(name, arguments, span)?;
                self.argmax(operand, span)
            }
            _ => self.own_function(callee, sizes, arguments, span),
        }
    }

    fn one_argument(&mut self, name: &str, arguments: &[ast::Expr], span: Span) -> Checked<Expr> {
        match arguments {
            [argument] => self.expression(argument),
            _ => {
                let message = format!("`{name}` takes 1 argument, found {}", arguments.len());
                self.error(Rule::ArgumentCount, span, message)
            }
        }
    }

    fn conversion(&mut self, name: &str, operand: Expr, span: Span) -> Checked<Expr> {
        let target = match name {
            "f32" => Scalar::F32,
            "i32" => Scalar::I32,
            _ => Scalar::Id,
        };
        let conversion = match (&operand.ty, target) {
            (Type::Scalar(same), target) if *same == target => return Ok(operand),
            (Type::Scalar(Scalar::I32), Scalar::F32) => Conversion::IntToFloat,
            (Type::Scalar(Scalar::F32), Scalar::I32) => Conversion::FloatToInt,
            (Type::Scalar(Scalar::Id), Scalar::I32) => Conversion::IdToInt,
            (Type::Scalar(Scalar::I32), Scalar::Id) => Conversion::IntToId,
            (found, _) => {
                let message = format!("{} does not convert to {name}", self.checker.type_text(found));
                let hint = match found {
                    Type::Scalar(Scalar::Bool) => "choose with `if`: if b { 1.0 } else { 0.0 }",
                    Type::Scalar(Scalar::Id) => "an id converts to i32 alone: f32(i32(x))",
                    _ => "conversions take an f32, an i32 or an id",
                };
                return self.error_hint(Rule::TypeMismatch, span, message, hint);
            }
        };
        Ok(self.convert(conversion, operand, Type::Scalar(target), span))
    }

    fn extremum(&mut self, name: &str, arguments: &[ast::Expr], span: Span) -> Checked<Expr> {
        let [left, right] = arguments else {
            let message = format!("`{name}(a, b)` takes 2 arguments, found {}", arguments.len());
            let hint = format!("over an array, fold: {name}[i in N] x[i]");
            return self.error_hint(Rule::ArgumentCount, span, message, hint);
        };
        let operation = if name == "max" { Binary::Max } else { Binary::Min };
        let (left, right) = (self.expression(left), self.expression(right));
        self.lifted(vec![left?, right?], span, &mut |body, mut operands| {
            let (left, right) = (operands.remove(0), operands.remove(0));
            body.apply_binary(operation, left, right, span)
        })
    }

    /// `argmax(x)` is `argmax[i in N] x[i]`.
    fn argmax(&mut self, operand: Expr, span: Span) -> Checked<Expr> {
        let size = match &operand.ty {
            Type::Array(Scalar::F32, dims) if dims.len() == 1 => dims[0].clone(),
            other => {
                let message =
                    format!("`argmax` takes an f32 array of rank 1, found {}", self.checker.type_text(other));
                let hint = "over other ranges, fold: argmax[i in N] x[i]";
                return self.error_hint(Rule::TypeMismatch, operand.span, message, hint);
            }
        };
        let mut statements = Vec::new();
        let operand = self.named(operand, &mut statements);
        let local = self.new_local("$axis", Type::I32, span);
        let axes = vec![Axis { local, range: Range::Fixed(size) }];
        let body = Box::new(self.element(operand, &axes, span));
        let kind = ExprKind::Fold { kind: FoldKind::ArgMax, axes, body };
        let fold = Expr { kind, ty: Type::ID, span };
        if statements.is_empty() {
            return Ok(fold);
        }
        Ok(Expr { kind: ExprKind::Block { statements, result: Box::new(fold) }, ty: Type::ID, span })
    }

    fn top(&mut self, sizes: Option<&[ast::Expr]>, arguments: &[ast::Expr], span: Span) -> Checked<Expr> {
        let Some([count]) = sizes else {
            let message = "`top` takes one size: how many";
            return self.error_hint(Rule::ArgumentCount, span, message, "write `top[8](x)`");
        };
        let count_span = count.span;
        let count = self.size(count);
        let operand = self.one_argument("top", arguments, span)?;
        let count = count?;
        let Type::Array(Scalar::F32, dims) = &operand.ty else {
            let message = format!("`top` takes an f32 array, found {}", self.checker.type_text(&operand.ty));
            return self.error(Rule::TypeMismatch, operand.span, message);
        };
        let mut dims = dims.clone();
        let Some(last) = dims.pop() else { return Err(Reported) };
        let excess = count.subtract(&last);
        if excess.is_ok_and(|excess| excess.is_at_least(1)) {
            let (count, last) = (self.checker.size_text(&count), self.checker.size_text(&last));
            let message = format!("`top` of {count} elements where there are {last}");
            return self.error(Rule::Size, count_span, message);
        }
        if count.as_constant().is_some_and(|count| count < 1) {
            return self.error(Rule::Size, count_span, "`top` of no elements");
        }
        dims.push(count.clone());
        let ty = Type::Tuple(vec![Type::Array(Scalar::F32, dims.clone()), Type::Array(Scalar::I32, dims)]);
        Ok(Expr { kind: ExprKind::Top { count, operand: Box::new(operand) }, ty, span })
    }

    fn own_function(
        &mut self,
        callee: &Name,
        sizes: Option<&[ast::Expr]>,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let function = self.function_named(callee);
        let arguments: Vec<_> = arguments.iter().map(|argument| self.expression(argument)).collect();
        let function = function?;
        let arguments = arguments.into_iter().collect::<Checked<Vec<_>>>()?;
        if let Some(argument) = arguments.iter().find(|argument| matches!(argument.ty, Type::Ragged(..))) {
            return Err(self.checker.ragged_used(argument.span, "passed to a function"));
        }
        self.check_call_allowed(function, callee.span)?;
        let signature = &self.checker.functions[function.index()];
        let (declared, unknowns) = (signature.parameters.clone(), signature.sizes.clone());
        if arguments.len() != declared.len() {
            let given = arguments.len();
            let wanted = declared.len();
            let plural = if wanted == 1 { "" } else { "s" };
            let message = format!("`{}` takes {wanted} argument{plural}, found {given}", callee.text);
            let place = self.checker.functions[function.index()].span;
            let diagnostic = Diagnostic::new(Rule::ArgumentCount, span, message);
            return Err(self.report(diagnostic.related(place, "declared here")));
        }
        let types: Vec<Type> =
            declared.iter().map(|parameter| signature.local(parameter.local).ty.clone()).collect();
        let result = signature.result.clone();
        let solved = self.call_sizes(callee, sizes, &unknowns, &types, &arguments, span)?;
        let mut values = Vec::with_capacity(arguments.len());
        let mut failed = None;
        for ((argument, ty), parameter) in arguments.into_iter().zip(&types).zip(&declared) {
            let wanted = self.substituted(ty, &solved, span)?;
            let name = self.checker.functions[function.index()].local(parameter.local).name.clone();
            let place = format!("argument `{name}` of `{}`", callee.text);
            if parameter.is_static && !self.is_static(&argument) {
                let message = format!("{place} is not known before planning");
                let hint = "pass a literal, a size, a static, a const or a static parameter";
                failed = Some(self.report(Diagnostic::new(Rule::Static, argument.span, message).hint(hint)));
            }
            match self.checker.coerce(argument, &wanted, &place) {
                Ok(value) => values.push(value),
                Err(reported) => failed = Some(reported),
            }
        }
        if let Some(reported) = failed {
            return Err(reported);
        }
        let ty = self.substituted(&result, &solved, span)?;
        let sizes = unknowns.iter().filter_map(|symbol| solved.get(symbol).cloned()).collect();
        let ordinal = self.ordinals.entry(function).or_insert(0);
        self.calls.push(CallInfo { function, ordinal: *ordinal, span });
        *ordinal += 1;
        let site = CallSite(self.calls.len() as u32 - 1);
        Ok(Expr { kind: ExprKind::Call(Call { function, sizes, arguments: values, site }), ty, span })
    }

    fn function_named(&mut self, callee: &Name) -> Checked<FunctionId> {
        let name = callee.text.as_str();
        if let Some(binding) = self.lookup(name) {
            if let Binding::Broken = binding {
                return Err(Reported);
            }
            let message = format!("`{name}` is a value, not a function");
            return self.error_hint(Rule::TypeMismatch, callee.span, message, "index arrays with `[...]`");
        }
        let inside = self.model.and_then(|model| self.checker.inside[model.index()].get(name));
        let global = inside.or_else(|| self.checker.top.get(name)).map(|(global, _)| *global);
        match global {
            Some(Global::Function(function)) => Ok(function),
            Some(Global::Broken) => Err(Reported),
            Some(_) => {
                let message = format!("`{name}` is a value, not a function");
                self.error(Rule::TypeMismatch, callee.span, message)
            }
            None if self.checker.is_full() => Err(Reported),
            None => {
                let mut names: Vec<&str> = self.checker.top.keys().map(String::as_str).collect();
                if let Some(model) = self.model {
                    let inside = self.checker.inside[model.index()].iter();
                    let functions = inside.filter(|(_, (global, _))| matches!(global, Global::Function(_)));
                    names.extend(functions.map(|(name, _)| name.as_str()));
                }
                names.extend(BUILT_IN);
                names.extend(["max", "min", "argmax", "top"]);
                names.sort_unstable();
                let hint = match similar(name, names.into_iter()) {
                    Some(similar) => Some(format!("did you mean `{similar}`?")),
                    None if self.model.is_none() && self.declared_in_a_model(name) => {
                        Some("it is declared inside a model, and seen only there".to_string())
                    }
                    None => None,
                };
                let message = format!("there is no function `{name}` here");
                let mut diagnostic = Diagnostic::new(Rule::UnknownName, callee.span, message);
                diagnostic.hint = hint;
                Err(self.report(diagnostic))
            }
        }
    }

    /// The rules of steps, and what the program's rules need to know of the call.
    fn check_call_allowed(&mut self, function: FunctionId, span: Span) -> Checked<()> {
        let callee = &self.checker.functions[function.index()];
        let name = callee.name.clone();
        let is_entry = callee.model.is_some_and(|m| self.checker.models[m.index()].steps.contains(&function));
        let is_step = callee.is_step;
        let facts = &mut self.checker.facts[self.function.index()];
        let is_singular = self.place.iteration == 0 && self.place.runtime_if == 0;
        facts.calls.push(super::program_rules::CallFact { function, span, is_singular });
        if is_entry {
            let message = format!("`{name}` is a model's step: it is run from outside, not called");
            let hint = "move what is shared to a `step fn` that both call";
            return self.error_hint(Rule::Step, span, message, hint);
        }
        if !is_step {
            return Ok(());
        }
        let (message, hint) = if self.place.iteration > 0 {
            let message = format!("step function `{name}` is called inside `each` or a fold");
            (message, "its state belongs to one call site: call it once outside, on the whole array")
        } else if self.place.runtime_if > 0 {
            let message = format!("step function `{name}` is called under a run-time `if`");
            (
                message,
                "call it outside and choose between the results; a static `if` or a `match` on a layer's kind may hold it",
            )
        } else if !self.is_step && self.place.scan == 0 {
            let message = format!("step function `{name}` is called from a plain function");
            (message, "make the caller a `step fn`, or call it inside a `scan`")
        } else {
            return Ok(());
        };
        self.error_hint(Rule::Step, span, message, hint)
    }

    fn call_sizes(
        &mut self,
        callee: &Name,
        sizes: Option<&[ast::Expr]>,
        unknowns: &[SizeSymbol],
        types: &[Type],
        arguments: &[Expr],
        span: Span,
    ) -> Checked<HashMap<SizeSymbol, Size>> {
        let mut given = HashMap::new();
        if let Some(sizes) = sizes {
            let values: Vec<_> = sizes.iter().map(|size| self.size(size)).collect();
            if sizes.len() != unknowns.len() {
                let message =
                    format!("`{}` takes {} sizes, found {}", callee.text, unknowns.len(), sizes.len());
                return self.error(Rule::ArgumentCount, span, message);
            }
            for (symbol, value) in unknowns.iter().zip(values) {
                given.insert(*symbol, value?);
            }
        }
        let pairs: Vec<(Size, Size)> = types
            .iter()
            .zip(arguments)
            .filter(|(declared, argument)| declared.dims().len() == argument.ty.dims().len())
            .flat_map(|(declared, argument)| {
                declared.dims().iter().cloned().zip(argument.ty.dims().iter().cloned())
            })
            .collect();
        let solved = match solve_sizes(unknowns, &pairs, given) {
            Ok(solved) => solved,
            Err(error) => return Err(self.checker.size_error(error, span)),
        };
        let open = unknowns.iter().find(|symbol| !solved.contains_key(symbol));
        if let Some(open) = open {
            // An argument of the wrong rank or type explains it better.
            for (declared, argument) in types.iter().zip(arguments) {
                if declared.dims().len() != argument.ty.dims().len() {
                    let place = format!("an argument of `{}`", callee.text);
                    return Err(self.checker.mismatch(&argument.ty, declared, argument.span, &place));
                }
            }
            let name = self.checker.symbol_name(*open);
            let message = format!("size `{name}` of `{}` does not follow from the arguments", callee.text);
            let all: Vec<_> = unknowns.iter().map(|symbol| self.checker.symbol_name(*symbol)).collect();
            let hint = format!("give all sizes: `{}[{}](...)`", callee.text, all.join(", "));
            return self.error_hint(Rule::Size, span, message, hint);
        }
        Ok(solved)
    }

    fn substituted(&mut self, ty: &Type, sizes: &HashMap<SizeSymbol, Size>, span: Span) -> Checked<Type> {
        Ok(match ty {
            Type::Array(element, dims) => {
                let dims: Result<Vec<_>, _> =
                    dims.iter().map(|dim| dim.substitute(&|symbol| sizes.get(&symbol).cloned())).collect();
                match dims {
                    Ok(dims) => Type::Array(*element, dims),
                    Err(error) => return Err(self.checker.size_error(error, span)),
                }
            }
            Type::Tuple(parts) => {
                let parts: Checked<Vec<_>> =
                    parts.iter().map(|part| self.substituted(part, sizes, span)).collect();
                Type::Tuple(parts?)
            }
            other => other.clone(),
        })
    }
}

fn unary_named(name: &str) -> Option<Unary> {
    Some(match name {
        "exp" => Unary::Exp,
        "log" => Unary::Log,
        "sqrt" => Unary::Sqrt,
        "rsqrt" => Unary::Rsqrt,
        "sin" => Unary::Sin,
        "cos" => Unary::Cos,
        "tanh" => Unary::Tanh,
        "sigmoid" => Unary::Sigmoid,
        "silu" => Unary::Silu,
        "gelu" => Unary::Gelu,
        "softplus" => Unary::Softplus,
        "abs" => Unary::Absolute,
        "floor" => Unary::Floor,
        _ => return None,
    })
}
