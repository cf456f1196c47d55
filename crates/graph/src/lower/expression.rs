//! The interpreter itself: one case an expression.

use std::collections::HashMap;

use fiddlehead_lang::hir::{self, ExprKind, Program};
use fiddlehead_lang::size::{Size, SizeSymbol};
use fiddlehead_lang::source::Span;

use super::bindings::ModelBindings;
use super::error::LowerError;
use super::frame::{Frame, TensorFold};
use super::value::{Value, View, length};
use crate::ir::*;

/// Expressions evaluated before a program counts as endless: calls can double at every level.
const MOST_STEPS: usize = 4_000_000;
/// Nodes of one graph: a model of a hundred layers has six thousand.
const MOST_NODES: usize = 100_000;
/// Parts of one scalar that must stay whole, since it depends on an accumulator.
pub(super) const LONGEST: usize = 1_000;
/// Parts of a scalar that is repeated where it is used.
pub(super) const LONGEST_REPEATED: usize = 64;
/// Expressions inside each other, calls included: what the stack of a small thread carries.
const DEEPEST: usize = 400;

/// A function being inlined.
pub(super) struct Instance {
    pub function: hir::FunctionId,
    pub sizes: HashMap<SizeSymbol, i64>,
    /// Values by local, with the frame that they were made in.
    pub locals: Vec<Option<(usize, Value)>>,
    /// States by their place in the function: frame, state, incoming node, outgoing node.
    pub states: HashMap<hir::StateId, (usize, StateId, NodeId, Option<NodeId>)>,
    /// Histories by their place in the function, with their frame.
    pub histories: HashMap<hir::HistoryId, (usize, HistoryId)>,
}

/// The interpreter's state.
pub(super) struct Lowerer<'a> {
    pub program: &'a Program,
    pub bindings: Option<&'a ModelBindings>,
    pub frames: Vec<Frame>,
    pub instances: Vec<Instance>,
    /// The call path and layer, for keys and names.
    pub path: Vec<String>,
    /// The `let` being evaluated, for names.
    pub name: Option<String>,
    pub permissions: Permissions,
    steps: usize,
    depth: usize,
}

pub(super) type Lowered<T> = Result<T, LowerError>;

impl<'a> Lowerer<'a> {
    pub fn new(
        program: &'a Program,
        bindings: Option<&'a ModelBindings>,
        frame: Frame,
        path: Vec<String>,
    ) -> Self {
        Lowerer {
            program,
            bindings,
            frames: vec![frame],
            instances: Vec::new(),
            path,
            name: None,
            permissions: Permissions::default(),
            steps: 0,
            depth: 0,
        }
    }

    /// The graph being made. There is always one: the outermost is taken by `finish` alone.
    pub fn frame(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Seals the outermost graph.
    pub fn finish(mut self) -> Lowered<Graph> {
        let frame = self.frames.swap_remove(0);
        frame.builder.seal().map_err(|error| LowerError::Invalid(Box::new(error)))
    }

    pub fn instance(&self) -> &Instance {
        &self.instances[self.instances.len() - 1]
    }

    pub fn function(&self) -> &'a hir::Function {
        &self.program.functions[self.instance().function.index()]
    }

    /// The path with a last part, as keys and names have it.
    pub fn key(&self, last: &str) -> String {
        let mut key = self.path.join("/");
        if !key.is_empty() && !last.is_empty() {
            key.push('/');
        }
        key + last
    }

    pub fn origin(&self, span: Span) -> Origin {
        let mut name = self.key(self.name.as_deref().unwrap_or(""));
        // What the outermost function makes without a name is told by the function's.
        if name.is_empty() {
            name.clone_from(&self.function().name);
        }
        Origin { name, span: Some((span.start as usize, span.end as usize)) }
    }

    pub fn extent(&self, size: &Size, span: Span) -> Lowered<usize> {
        let value = self.size(size, span)?;
        usize::try_from(value)
            .ok()
            .filter(|_| i32::try_from(value).is_ok())
            .ok_or(LowerError::Extent { span, value })
    }

    fn size(&self, size: &Size, span: Span) -> Lowered<i64> {
        let sizes = &self.instance().sizes;
        size.evaluate(&|symbol| sizes.get(&symbol).copied())
            .map_err(|source| LowerError::Size { span, source })
    }

    pub fn shape(&self, ty: &hir::Type, span: Span) -> Lowered<Vec<usize>> {
        ty.dims().iter().map(|size| self.extent(size, span)).collect()
    }

    /// The inputs of the outermost function, as arguments of its body.
    pub fn root_inputs(
        &mut self,
        function: &hir::Function,
        sizes: &HashMap<SizeSymbol, i64>,
    ) -> Lowered<Vec<Value>> {
        let mut arguments = Vec::new();
        for parameter in &function.parameters {
            let local = function.local(parameter.local);
            if parameter.is_static {
                let what = "a static parameter has no value when the function itself is run";
                return Err(LowerError::Unsupported { span: local.span, what });
            }
            let mut shape = Vec::new();
            for size in local.ty.dims() {
                let value = size
                    .evaluate(&|symbol| sizes.get(&symbol).copied())
                    .map_err(|source| LowerError::Size { span: local.span, source })?;
                let extent = usize::try_from(value).ok().filter(|_| i32::try_from(value).is_ok());
                shape.push(extent.ok_or(LowerError::Extent { span: local.span, value })?);
            }
            let element = element_of(&local.ty, local.span)?;
            let input =
                Input { name: local.name.clone(), shape: shape.clone(), element, per_node: function.is_step };
            let node = self.frame().builder.input(input);
            arguments.push(if shape.is_empty() {
                Value::Scalar(Expr::load(node, Vec::new()))
            } else {
                Value::Array(View::whole(node, shape))
            });
        }
        Ok(arguments)
    }

    /// A function's body with these arguments.
    pub fn inlined(
        &mut self,
        id: hir::FunctionId,
        sizes: HashMap<SizeSymbol, i64>,
        arguments: Vec<Value>,
    ) -> Lowered<Value> {
        let function = &self.program.functions[id.index()];
        let depth = self.frames.len() - 1;
        let mut locals = vec![None; function.locals.len()];
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            locals[parameter.local.index()] = Some((depth, argument));
        }
        let (states, histories) = (HashMap::new(), HashMap::new());
        self.instances.push(Instance { function: id, sizes, locals, states, histories });
        let name = self.name.take();
        let result = self.value(&function.body);
        self.name = name;
        self.instances.pop();
        result
    }

    pub fn bind(&mut self, local: hir::LocalId, value: Value) {
        let depth = self.frames.len() - 1;
        let last = self.instances.len() - 1;
        self.instances[last].locals[local.index()] = Some((depth, value));
    }

    /// A scalar's expression.
    pub fn scalar(&mut self, expr: &'a hir::Expr) -> Lowered<Expr> {
        match self.value(expr)? {
            Value::Scalar(expr) => Ok(expr),
            _ => Err(LowerError::Inconsistent { span: expr.span, what: "a scalar was expected" }),
        }
    }

    pub(super) fn array(&mut self, expr: &'a hir::Expr) -> Lowered<View> {
        match self.value(expr)? {
            Value::Array(view) => Ok(view),
            _ => Err(LowerError::Inconsistent { span: expr.span, what: "an array was expected" }),
        }
    }

    /// The value of an expression.
    pub fn value(&mut self, expr: &'a hir::Expr) -> Lowered<Value> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(LowerError::TooLarge { what: "expressions", limit: MOST_STEPS });
        }
        if self.frame().builder.graph().nodes().len() > MOST_NODES {
            return Err(LowerError::TooLarge { what: "tensors", limit: MOST_NODES });
        }
        if self.depth == DEEPEST {
            return Err(LowerError::TooLarge { what: "levels of nesting", limit: DEEPEST });
        }
        self.depth += 1;
        let value = self.evaluated(expr);
        self.depth -= 1;
        value
    }

    fn evaluated(&mut self, expr: &'a hir::Expr) -> Lowered<Value> {
        let span = expr.span;
        Ok(match &expr.kind {
            ExprKind::Float(value) => Value::Scalar(Expr::Float(*value)),
            ExprKind::Bool(value) => Value::Scalar(Expr::Bool(*value)),
            ExprKind::Size(size) => {
                let value = self.size(size, span)?;
                if i32::try_from(value).is_err() {
                    return Err(LowerError::Extent { span, value });
                }
                Value::Scalar(Expr::Int(value))
            }
            ExprKind::Local(local) => self.local(*local, span)?,
            ExprKind::Here => Value::Scalar(Expr::Here),
            ExprKind::Param(param) => self.model_param(*param, span)?,
            ExprKind::Const(id) => self.model_const(*id, span)?,
            ExprKind::Static(id) => self.model_static(*id, span)?,
            ExprKind::SingleLayer(id) => self.single_layer(*id, span)?,
            ExprKind::LayerField { layer, field } => self.layer_field(layer, *field, span)?,
            ExprKind::State(state) => self.state_value(*state, false, span)?,
            ExprKind::StateNext(state) => self.state_value(*state, true, span)?,
            ExprKind::HistoryRead { history, depth, indices } => {
                self.history_read(*history, depth, indices, span)?
            }
            ExprKind::Convert(conversion, operand) => {
                let element = element_of(&operand.ty, span)?;
                let operand = self.scalar(operand)?;
                let op = match conversion {
                    hir::Conversion::IntToFloat => Unary::ToFloat,
                    hir::Conversion::FloatToInt => Unary::ToInt,
                    hir::Conversion::IdToInt => Unary::IdToInt,
                    hir::Conversion::IntToId => Unary::IntToId,
                };
                Value::Scalar(self.frame().simplifier().unary(op, operand, element).0)
            }
            ExprKind::Unary(op, operand) => {
                let element = element_of(&operand.ty, span)?;
                let operand = self.scalar(operand)?;
                Value::Scalar(self.frame().simplifier().unary(unary(*op), operand, element).0)
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, span)?,
            ExprKind::If { condition, then, otherwise, .. } => {
                self.choice(condition, then, otherwise, span)?
            }
            ExprKind::Block { statements, result } => {
                self.statements(statements)?;
                self.value(result)?
            }
            ExprKind::Tuple(parts) => {
                let parts: Lowered<Vec<Value>> = parts.iter().map(|part| self.value(part)).collect();
                Value::Tuple(parts?)
            }
            ExprKind::Each { axes, body } => self.each(axes, body, &expr.ty, span)?,
            ExprKind::Fold { kind, axes, body } => {
                let kind = match kind {
                    hir::FoldKind::Sum => FoldKind::Sum,
                    hir::FoldKind::Product => FoldKind::Product,
                    hir::FoldKind::Max => FoldKind::Max,
                    hir::FoldKind::Min => FoldKind::Min,
                    hir::FoldKind::Any => FoldKind::Any,
                    hir::FoldKind::All => FoldKind::All,
                    hir::FoldKind::ArgMax => FoldKind::ArgMax,
                };
                let axes = self.axes(axes, span)?;
                let body = self.scalar(body)?;
                let fold = TensorFold { kind, axes, accumulator: None };
                self.folded(fold, body, &expr.ty, span)?
            }
            ExprKind::OrderedFold { axes, accumulator, init, body } => {
                let init = self.scalar(init)?;
                let axes = self.axes(axes, span)?;
                let variable = self.frame().accumulator();
                self.bind(*accumulator, Value::Scalar(Expr::Axis(variable)));
                let body = self.scalar(body)?;
                let kind = FoldKind::Ordered { init: Box::new(init) };
                let fold = TensorFold { kind, axes, accumulator: Some(variable) };
                self.folded(fold, body, &expr.ty, span)?
            }
            ExprKind::Index { base, indices } => {
                let base = self.value(base)?;
                let indices: Lowered<Vec<Expr>> = indices.iter().map(|index| self.scalar(index)).collect();
                let indices = indices?;
                match base {
                    Value::Array(view) if indices.len() <= view.shape.len() => view.at(indices),
                    Value::Ragged { node, mut prefix, rank } if indices.len() == rank => {
                        prefix.extend(indices);
                        Value::Scalar(Expr::load(node, prefix))
                    }
                    _ => return Err(LowerError::Inconsistent { span, what: "an array was expected" }),
                }
            }
            ExprKind::Call(call) => self.call(call, span)?,
            ExprKind::Top { count, operand } => self.top(count, operand, span)?,
            ExprKind::Scan(scan) => self.scan(scan, span)?,
            ExprKind::ForLayers(layers) => self.for_layers(layers, span)?,
            ExprKind::MatchKind { layer, arms } => {
                let Value::Layer(layer) = self.local(*layer, span)? else {
                    return Err(LowerError::Inconsistent { span, what: "a layer was expected" });
                };
                let arm = layer.kind.and_then(|kind| arms.get(kind.index()));
                let arm =
                    arm.ok_or(LowerError::Inconsistent { span, what: "a layer's kind is not known" })?;
                self.value(arm)?
            }
            ExprKind::Compute { arithmetic, body } => {
                let before = self.permissions;
                self.permissions = Permissions {
                    bf16: arithmetic.contains(&hir::Arithmetic::Bf16),
                    f16: arithmetic.contains(&hir::Arithmetic::F16),
                    tf32: arithmetic.contains(&hir::Arithmetic::Tf32),
                    fp8: arithmetic.contains(&hir::Arithmetic::Fp8),
                    q8: arithmetic.contains(&hir::Arithmetic::Q8),
                };
                let result = self.value(body);
                self.permissions = before;
                result?
            }
        })
    }

    fn local(&mut self, local: hir::LocalId, span: Span) -> Lowered<Value> {
        let found = self.instance().locals[local.index()].clone();
        let (depth, value) =
            found.ok_or(LowerError::Inconsistent { span, what: "a name is used before it is bound" })?;
        self.carried_in(depth, value, span)
    }

    fn binary(
        &mut self,
        op: hir::Binary,
        left: &'a hir::Expr,
        right: &'a hir::Expr,
        span: Span,
    ) -> Lowered<Value> {
        let element = element_of(&left.ty, span)?;
        let left = self.scalar(left)?;
        let lazy = match op {
            hir::Binary::And => Some(left.clone()),
            hir::Binary::Or => Some(Expr::unary(Unary::Not, left.clone())),
            _ => None,
        };
        let right = self.under(lazy, |this| this.scalar(right))?;
        let (op, left, right) = match op {
            hir::Binary::Add => (Binary::Add, left, right),
            hir::Binary::Subtract => (Binary::Subtract, left, right),
            hir::Binary::Multiply => (Binary::Multiply, left, right),
            hir::Binary::Divide => (Binary::Divide, left, right),
            hir::Binary::Remainder => (Binary::Remainder, left, right),
            hir::Binary::Min => (Binary::Min, left, right),
            hir::Binary::Max => (Binary::Max, left, right),
            hir::Binary::Equal => (Binary::Equal, left, right),
            hir::Binary::NotEqual => (Binary::NotEqual, left, right),
            hir::Binary::Less => (Binary::Less, left, right),
            hir::Binary::LessEqual => (Binary::LessEqual, left, right),
            hir::Binary::Greater => (Binary::Less, right, left),
            hir::Binary::GreaterEqual => (Binary::LessEqual, right, left),
            hir::Binary::And => (Binary::And, left, right),
            hir::Binary::Or => (Binary::Or, left, right),
        };
        Ok(Value::Scalar(self.frame().simplifier().binary(op, left, right, element).0))
    }

    /// Runs `body` where `condition` holds.
    fn under<T>(
        &mut self,
        condition: Option<Expr>,
        body: impl FnOnce(&mut Self) -> Lowered<T>,
    ) -> Lowered<T> {
        let Some(condition) = condition else { return body(self) };
        self.frame().guards.push(condition);
        let result = body(self);
        self.frame().guards.pop();
        result
    }

    fn choice(
        &mut self,
        condition: &'a hir::Expr,
        then: &'a hir::Expr,
        otherwise: &'a hir::Expr,
        span: Span,
    ) -> Lowered<Value> {
        let mut condition = self.scalar(condition)?;
        match condition {
            Expr::Bool(true) => return self.value(then),
            Expr::Bool(false) => return self.value(otherwise),
            _ => {}
        }
        if length(&condition) > 16 {
            condition = self.settled_scalar(condition, Element::Bool, span)?;
        }
        let opposite = self.frame().simplifier().unary(Unary::Not, condition.clone(), Element::Bool).0;
        let then = self.under(Some(condition.clone()), |this| this.value(then))?;
        let otherwise = self.under(Some(opposite), |this| this.value(otherwise))?;
        self.chosen(&condition, then, otherwise, span)
    }

    fn call(&mut self, call: &'a hir::Call, span: Span) -> Lowered<Value> {
        let callee = &self.program.functions[call.function.index()];
        let mut sizes = HashMap::new();
        if let Some(model) = callee.model {
            // A model's function is called from the same model: its dims are known here.
            for &symbol in &self.program.models[model.index()].dims {
                if let Some(&value) = self.instance().sizes.get(&symbol) {
                    sizes.insert(symbol, value);
                }
            }
        }
        for (&symbol, size) in callee.sizes.iter().zip(&call.sizes) {
            sizes.insert(symbol, self.size(size, span)?);
        }
        let mut arguments = Vec::new();
        for argument in &call.arguments {
            let value = self.value(argument)?;
            arguments.push(self.settled(value, argument.span)?);
        }
        let ordinal = self.function().calls[call.site.index()].ordinal;
        self.path.push(format!("{}.{ordinal}", callee.name));
        let result = self.inlined(call.function, sizes, arguments);
        // Calls of calls would else double an expression at every level.
        let result = match result {
            Ok(Value::Scalar(expr)) if length(&expr) > LONGEST_REPEATED => {
                self.settled(Value::Scalar(expr), span)
            }
            other => other,
        };
        self.path.pop();
        result
    }
}

/// The element of a scalar's or an array's type.
pub(super) fn element_of(ty: &hir::Type, span: Span) -> Lowered<Element> {
    match ty.element() {
        Some(hir::Scalar::F32) => Ok(Element::F32),
        Some(hir::Scalar::I32) => Ok(Element::I32),
        Some(hir::Scalar::Bool) => Ok(Element::Bool),
        Some(hir::Scalar::Id) => Ok(Element::Id),
        None => Err(LowerError::Inconsistent { span, what: "a scalar or an array was expected" }),
    }
}

fn unary(op: hir::Unary) -> Unary {
    match op {
        hir::Unary::Negate => Unary::Negate,
        hir::Unary::Not => Unary::Not,
        hir::Unary::Absolute => Unary::Absolute,
        hir::Unary::Exp => Unary::Exp,
        hir::Unary::Log => Unary::Log,
        hir::Unary::Sqrt => Unary::Sqrt,
        hir::Unary::Rsqrt => Unary::Rsqrt,
        hir::Unary::Sin => Unary::Sin,
        hir::Unary::Cos => Unary::Cos,
        hir::Unary::Tanh => Unary::Tanh,
        hir::Unary::Sigmoid => Unary::Sigmoid,
        hir::Unary::Silu => Unary::Silu,
        hir::Unary::Gelu => Unary::Gelu,
        hir::Unary::Softplus => Unary::Softplus,
        hir::Unary::Floor => Unary::Floor,
    }
}
