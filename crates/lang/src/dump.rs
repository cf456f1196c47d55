//! Typed programs as text: the language with everything made explicit, for tests and for people.
//!
//! Conversions are written `f32(...)`, sizes of calls in brackets, incoming and outgoing states `s` and `s'`, fields with
//! their layer. A local whose name another one had before it in its function is written `name#id`.

use std::fmt::Write;

use crate::check::scalar_name;
use crate::hir::{
    Axis, Binary, Carry, Conversion, EmissionCount, Expr, ExprKind, FoldKind, Function, LocalId, Pattern,
    Program, Range, Statement, Type, Unary,
};
use crate::size::Size;

/// The functions of a program, one after the other.
pub fn text(program: &Program) -> String {
    let mut output = String::new();
    for function in &program.functions {
        let mut dump = Dump { program, function, output: String::new(), indent: 0 };
        dump.function();
        output.push_str(&dump.output);
    }
    output
}

struct Dump<'p> {
    program: &'p Program,
    function: &'p Function,
    output: String,
    indent: usize,
}

impl Dump<'_> {
    fn put(&mut self, text: &str) {
        self.output.push_str(text);
    }

    fn line(&mut self) {
        self.output.push('\n');
        self.output.extend(std::iter::repeat_n("    ", self.indent));
    }

    fn size(&mut self, size: &Size) {
        let text = self.program.size_text(size);
        self.put(&text);
    }

    fn local(&mut self, id: LocalId) {
        let name = &self.function.local(id).name;
        let is_first = self.function.locals[..id.index()].iter().all(|local| local.name != *name);
        if is_first {
            self.put(name);
        } else {
            let _ = write!(self.output, "{name}#{}", id.0);
        }
    }

    fn ty(&mut self, ty: &Type) {
        match ty {
            Type::Scalar(scalar) => self.put(scalar_name(*scalar)),
            Type::Array(scalar, dims) => {
                self.put(scalar_name(*scalar));
                self.put("[");
                self.separated(dims, |dump, dim| dump.size(dim));
                self.put("]");
            }
            Type::Ragged(scalar, axes) => {
                self.put("ragged ");
                self.put(scalar_name(*scalar));
                self.put("[");
                self.separated(axes, Self::axis);
                self.put("]");
            }
            Type::Tuple(parts) => {
                self.put("(");
                self.separated(parts, Self::ty);
                self.put(")");
            }
            Type::Layer { model, kind } => {
                let layers = self.program.models[model.index()].layers.as_ref();
                let kind = kind.and_then(|kind| layers.and_then(|layers| layers.kinds.get(kind.index())));
                self.put(kind.map_or("layers", |kind| &kind.name));
            }
        }
    }

    fn separated<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                self.put(", ");
            }
            each(self, item);
        }
    }

    fn function(&mut self) {
        let function = self.function;
        self.put(if function.is_step { "step fn " } else { "fn " });
        if let Some(model) = function.model {
            self.put(&self.program.models[model.index()].name);
            self.put(".");
        }
        self.put(&function.name);
        if !function.sizes.is_empty() {
            self.put("[");
            self.separated(&function.sizes, |dump, symbol| dump.put(dump.program.symbol_name(*symbol)));
            self.put("]");
        }
        self.put("(");
        self.separated(&function.parameters, |dump, parameter| {
            if parameter.is_static {
                dump.put("static ");
            }
            dump.local(parameter.local);
            dump.put(": ");
            dump.ty(&dump.function.local(parameter.local).ty);
        });
        self.put(") -> ");
        self.ty(&function.result);
        self.put(" = ");
        self.expr(&function.body);
        self.put(";\n");
    }

    fn axis(&mut self, axis: &Axis) {
        self.local(axis.local);
        self.put(" in ");
        match &axis.range {
            Range::Fixed(size) => self.size(size),
            Range::Between { start, end, inclusive } => {
                self.expr(start);
                self.put(if *inclusive { "..=" } else { ".." });
                self.expr(end);
            }
            Range::Path => self.put("path"),
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Float(value) => {
                let _ = write!(self.output, "{value:?}");
            }
            ExprKind::Bool(value) => {
                let _ = write!(self.output, "{value}");
            }
            ExprKind::Size(size) => {
                let is_simple = size.as_symbol().is_some() || size.as_constant().is_some_and(|c| c >= 0);
                if is_simple {
                    self.size(size);
                } else {
                    self.put("(");
                    self.size(size);
                    self.put(")");
                }
            }
            ExprKind::Local(local) => self.local(*local),
            ExprKind::Here => self.put("here"),
            ExprKind::State(state) => self.put(&self.function.states[state.index()].name),
            ExprKind::StateNext(state) => {
                self.put(&self.function.states[state.index()].name);
                self.put("'");
            }
            ExprKind::HistoryRead { history, depth, indices } => {
                self.put(&self.function.histories[history.index()].name);
                self.put("[");
                self.expr(depth);
                self.put("]");
                if !indices.is_empty() {
                    self.listed("[", indices, "]");
                }
            }
            ExprKind::Convert(conversion, operand) => {
                self.put(match conversion {
                    Conversion::IntToFloat => "f32",
                    Conversion::FloatToInt | Conversion::IdToInt => "i32",
                    Conversion::IntToId => "id",
                });
                self.listed("(", std::slice::from_ref(operand), ")");
            }
            ExprKind::Unary(operation, operand) => {
                self.put(unary_name(*operation));
                self.listed("(", std::slice::from_ref(operand), ")");
            }
            ExprKind::Binary(operation, left, right) => self.binary(*operation, left, right),
            ExprKind::Tuple(parts) => self.listed("(", parts, ")"),
            ExprKind::Index { base, indices } => {
                self.expr(base);
                self.listed("[", indices, "]");
            }
            _ => self.larger(expr),
        }
    }

    fn listed<E: std::borrow::Borrow<Expr>>(&mut self, open: &str, parts: &[E], close: &str) {
        self.put(open);
        self.separated(parts, |dump, part| dump.expr(part.borrow()));
        self.put(close);
    }

    fn binary(&mut self, operation: Binary, left: &Expr, right: &Expr) {
        let sign = match operation {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::Less => "<",
            Binary::LessEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterEqual => ">=",
            Binary::And => "&&",
            Binary::Or => "||",
            Binary::Min | Binary::Max => {
                self.put(if operation == Binary::Min { "min" } else { "max" });
                return self.listed("(", &[left, right], ")");
            }
        };
        self.put("(");
        self.expr(left);
        self.put(" ");
        self.put(sign);
        self.put(" ");
        self.expr(right);
        self.put(")");
    }

    fn model_name(&mut self, name: impl Fn(&crate::hir::Model) -> Option<&str>) {
        let model = self.function.model.map(|model| &self.program.models[model.index()]);
        let text = model.and_then(name).unwrap_or("?").to_string();
        self.put(&text);
    }

    fn over(&mut self, word: &str, axes: &[Axis]) {
        self.put(word);
        self.put("[");
        self.separated(axes, Self::axis);
        self.put("]");
    }

    fn carries(&mut self, carries: &[Carry]) {
        self.put("(");
        self.separated(carries, |dump, carry| {
            dump.local(carry.local);
            dump.put(" = ");
            dump.expr(&carry.init);
        });
        self.put(") ");
    }

    fn larger(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Param(id) => self.model_name(|model| Some(&model.params.get(id.index())?.name)),
            ExprKind::Const(id) => self.model_name(|model| Some(&model.consts.get(id.index())?.name)),
            ExprKind::Static(id) => self.model_name(|model| Some(&model.statics.get(id.index())?.name)),
            ExprKind::SingleLayer(id) => {
                self.model_name(|model| Some(&model.single_layers.get(id.index())?.name));
            }
            ExprKind::LayerField { layer, field } => {
                self.expr(layer);
                self.put(".");
                self.model_name(|model| Some(&model.field(*field)?.name));
            }
            ExprKind::If { condition, then, otherwise, is_static } => {
                self.put(if *is_static { "static if " } else { "if " });
                self.expr(condition);
                self.listed(" { ", std::slice::from_ref(then), " }");
                self.listed(" else { ", std::slice::from_ref(otherwise), " }");
            }
            ExprKind::Block { statements, result } => self.block(statements, |dump| dump.expr(result)),
            ExprKind::Each { axes, body } => {
                self.over("each", axes);
                self.listed(" ", std::slice::from_ref(body), "");
            }
            ExprKind::Fold { kind, axes, body } => {
                self.put("(");
                self.over(fold_name(*kind), axes);
                self.listed(" ", std::slice::from_ref(body), ")");
            }
            ExprKind::OrderedFold { axes, accumulator, init, body } => {
                self.over("fold", axes);
                self.put("(");
                self.local(*accumulator);
                self.put(" = ");
                self.expr(init);
                self.listed(") ", std::slice::from_ref(body), "");
            }
            ExprKind::Call(call) => {
                self.put(&self.program.functions[call.function.index()].name);
                if !call.sizes.is_empty() {
                    self.put("[");
                    self.separated(&call.sizes, |dump, size| dump.size(size));
                    self.put("]");
                }
                self.listed("(", &call.arguments, ")");
            }
            ExprKind::Top { count, operand } => {
                self.put("top[");
                self.size(count);
                self.listed("](", std::slice::from_ref(operand), ")");
            }
            ExprKind::MatchKind { layer, arms } => {
                self.put("match ");
                self.local(*layer);
                self.listed(".kind { ", arms, " }");
            }
            ExprKind::Compute { arithmetic, body } => {
                let _ = write!(self.output, "compute {arithmetic:?} {{ ");
                self.expr(body);
                self.put(" }");
            }
            _ => self.loops(expr),
        }
    }

    fn loops(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Scan(scan) => {
                self.put("scan[");
                self.local(scan.index);
                self.put(" from ");
                self.size(&scan.first);
                self.put(" turns ");
                self.size(&scan.turns);
                self.put("]");
                self.carries(&scan.carries);
                self.block(&scan.statements, |dump| {
                    if let Some(emission) = &scan.emission {
                        let (word, count) = match &emission.count {
                            EmissionCount::Proven(count) => ("emit exactly ", count),
                            EmissionCount::Declared(count) => ("emit at most ", count),
                        };
                        dump.put(word);
                        dump.size(count);
                        if let Some(condition) = &emission.condition {
                            dump.put(" if ");
                            dump.expr(condition);
                        }
                        dump.put(": ");
                        dump.expr(&emission.value);
                    }
                    if !scan.next.is_empty() {
                        if scan.emission.is_some() {
                            dump.line();
                        }
                        dump.listed("next (", &scan.next, ")");
                    }
                });
            }
            ExprKind::ForLayers(layers) => {
                self.put("for ");
                self.local(layers.layer);
                self.put(" in layers");
                self.carries(&layers.carries);
                self.block(&layers.statements, |dump| dump.listed("next (", &layers.next, ")"));
            }
            _ => {}
        }
    }

    fn block(&mut self, statements: &[Statement], result: impl FnOnce(&mut Self)) {
        self.put("{");
        self.indent += 1;
        for statement in statements {
            self.line();
            self.statement(statement);
            self.put(";");
        }
        self.line();
        result(self);
        self.indent -= 1;
        self.line();
        self.put("}");
    }

    fn statement(&mut self, statement: &Statement) {
        let value = match statement {
            Statement::Let { pattern, value } => {
                self.put("let ");
                self.pattern(pattern);
                value
            }
            Statement::State { state, init } => {
                let declared = &self.function.states[state.index()];
                self.put("state ");
                self.put(&declared.name);
                self.put(": ");
                self.ty(&declared.ty);
                init
            }
            Statement::Assign { state, value } => {
                self.put(&self.function.states[state.index()].name);
                self.put("'");
                value
            }
            Statement::History { history, row } => {
                let declared = &self.function.histories[history.index()];
                self.put("history ");
                self.put(&declared.name);
                self.put(": ");
                self.ty(&declared.row);
                row
            }
        };
        self.put(" = ");
        self.expr(value);
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Local(local) => self.local(*local),
            Pattern::Ignore => self.put("_"),
            Pattern::Tuple(parts) => {
                self.put("(");
                self.separated(parts, Self::pattern);
                self.put(")");
            }
        }
    }
}

fn unary_name(operation: Unary) -> &'static str {
    match operation {
        Unary::Negate => "-",
        Unary::Not => "!",
        Unary::Absolute => "abs",
        Unary::Exp => "exp",
        Unary::Log => "log",
        Unary::Sqrt => "sqrt",
        Unary::Rsqrt => "rsqrt",
        Unary::Sin => "sin",
        Unary::Cos => "cos",
        Unary::Tanh => "tanh",
        Unary::Sigmoid => "sigmoid",
        Unary::Silu => "silu",
        Unary::Gelu => "gelu",
        Unary::Softplus => "softplus",
        Unary::Floor => "floor",
    }
}

fn fold_name(kind: FoldKind) -> &'static str {
    match kind {
        FoldKind::Sum => "sum",
        FoldKind::Product => "prod",
        FoldKind::Max => "max",
        FoldKind::Min => "min",
        FoldKind::Any => "any",
        FoldKind::All => "all",
        FoldKind::ArgMax => "argmax",
    }
}
