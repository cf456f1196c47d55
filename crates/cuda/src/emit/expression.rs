//! Expressions as C: each becomes one C expression of the element's type, evaluated as lazily as the graph says.

use fiddlehead_graph::queries::{Affine, Atom, Operand};
use fiddlehead_graph::{Binary, Element, Expr, HistoryId, NodeId, Range, Unary};

use super::kernel::{Argument, Kernel};
use super::scope::{HistorySpot, RowsOf, Scope, Spot, elements, type_of};
use super::traps::{TrapKind, Traps};

/// Writes the expressions of one node.
pub(crate) struct Writer<'w, 'a> {
    pub kernel: &'w mut Kernel,
    pub scope: &'w Scope<'a>,
    pub traps: &'w mut Traps,
    /// Whose expressions these are: traps name it.
    pub reader: NodeId,
    /// The names of the axes.
    pub axes: Vec<String>,
    /// The accumulator of an ordered fold, or of a site's chain.
    pub accumulator: Option<(String, Element)>,
    /// Local tensors that are defined where the code stands, with the names of their functions.
    pub locals: Vec<(NodeId, String)>,
    /// Tensors whose element at the place that the code stands at is in a variable: whatever reads one of them, reads it
    /// there.
    pub known: Vec<(NodeId, String)>,
}

/// A C expression and what it gives.
pub(crate) struct Code {
    pub text: String,
    pub element: Element,
}

impl Code {
    fn new(text: impl Into<String>, element: Element) -> Code {
        Code { text: text.into(), element }
    }
}

/// An f32 literal.
pub(crate) fn float(value: f64) -> String {
    let value = value as f32;
    if value.is_finite() {
        let text = format!("{value:?}f");
        if value < 0.0 || (value == 0.0 && value.is_sign_negative()) { format!("({text})") } else { text }
    } else {
        format!("float_of_bits({:#010x}u)", value.to_bits())
    }
}

/// An i32 literal.
pub(crate) fn int(value: i64) -> String {
    match value {
        value if value == i64::from(i32::MIN) => "(-2147483647 - 1)".into(),
        value if value < 0 => format!("({value})"),
        value => value.to_string(),
    }
}

impl<'w, 'a> Writer<'w, 'a> {
    /// A writer that knows no axis yet.
    pub fn new(
        kernel: &'w mut Kernel,
        scope: &'w Scope<'a>,
        traps: &'w mut Traps,
        reader: NodeId,
    ) -> Writer<'w, 'a> {
        let (axes, locals, known) = (Vec::new(), Vec::new(), Vec::new());
        Writer { kernel, scope, traps, reader, axes, accumulator: None, locals, known }
    }

    /// The same with names for its axes.
    pub fn with_axes(self, axes: Vec<String>) -> Writer<'w, 'a> {
        Writer { axes, ..self }
    }

    /// The place of an operand's element in its source. An index is checked unless the extents of the site's axes prove it.
    pub fn place(&mut self, operand: &Operand, source: NodeId, extents: &[usize]) -> String {
        let shape = self.scope.graph.shape(source).unwrap_or_default();
        let read = self.scope.graph.node(source).origin.name.clone();
        let mut indices = Vec::with_capacity(shape.len());
        for (axis, (form, extent)) in operand.indices.iter().zip(&shape).enumerate() {
            let index = self.affine(form);
            if range(form, extents).is_some_and(|(low, high)| low >= 0 && high < *extent as i64) {
                indices.push(index);
                continue;
            }
            let kind = TrapKind::Index { read: read.clone(), axis };
            let code = self.traps.add(self.scope.graph, self.reader, kind);
            indices.push(format!("checked(b, row, (u32)t + {code}, {index}, 0, {extent})"));
        }
        flat(&indices, &shape)
    }

    /// The code of an expression.
    pub fn expr(&mut self, expr: &Expr) -> Code {
        match expr {
            Expr::Float(value) => Code::new(float(*value), Element::F32),
            Expr::Int(value) => Code::new(int(*value), Element::I32),
            Expr::Bool(value) => Code::new(value.to_string(), Element::Bool),
            Expr::Id(value) => Code::new(format!("{value}u"), Element::Id),
            Expr::Axis(axis) => Code::new(self.axes[*axis].clone(), Element::I32),
            Expr::Here => Code::new(self.scope.here.clone(), Element::I32),
            Expr::Load { node, indices } => self.load(*node, indices),
            Expr::History { history, depth, indices } => self.history(*history, depth, indices),
            Expr::Accumulator => {
                let (text, element) = self.accumulator.clone().unwrap_or(("0".into(), Element::F32));
                Code { text, element }
            }
            Expr::Unary(op, operand) => self.unary(*op, operand),
            Expr::Binary(op, left, right) => self.binary(*op, left, right),
            Expr::Select(condition, then, otherwise) => {
                let condition = self.expr(condition).text;
                let then = self.expr(then);
                let otherwise = self.expr(otherwise).text;
                Code::new(format!("({condition} ? {} : {otherwise})", then.text), then.element)
            }
        }
    }

    fn unary(&mut self, op: Unary, operand: &Expr) -> Code {
        let Code { text, element } = self.expr(operand);
        let integer = element == Element::I32;
        let (text, element) = match op {
            Unary::Negate if integer => (format!("wrap_neg({text})"), element),
            Unary::Negate => (format!("(-{text})"), element),
            Unary::Absolute if integer => (format!("wrap_abs({text})"), element),
            Unary::Absolute => (format!("fabsf({text})"), element),
            Unary::Exp => (format!("expf({text})"), element),
            Unary::Log => (format!("logf({text})"), element),
            Unary::Sqrt => (format!("sqrtf({text})"), element),
            Unary::Rsqrt => (format!("(1.0f / sqrtf({text}))"), element),
            Unary::Sin => (format!("sinf({text})"), element),
            Unary::Cos => (format!("cosf({text})"), element),
            Unary::Tanh => (format!("tanhf({text})"), element),
            Unary::Sigmoid => (format!("sigmoid({text})"), element),
            Unary::Silu => (format!("silu({text})"), element),
            Unary::Gelu => (format!("gelu({text})"), element),
            Unary::Softplus => (format!("softplus({text})"), element),
            Unary::Floor => (format!("floorf({text})"), element),
            Unary::Not => (format!("(!{text})"), element),
            Unary::ToFloat => (format!("((float){text})"), Element::F32),
            Unary::ToInt => (format!("to_int({text})"), Element::I32),
            Unary::IdToInt => (format!("((int){text})"), Element::I32),
            Unary::IntToId => {
                let code = self.traps.add(self.scope.graph, self.reader, TrapKind::NegativeId);
                (format!("to_id(b, row, (u32)t + {code}, {text})"), Element::Id)
            }
        };
        Code { text, element }
    }

    fn binary(&mut self, op: Binary, left: &Expr, right: &Expr) -> Code {
        let Code { text: left, element } = self.expr(left);
        let right = self.expr(right).text;
        let integer = element == Element::I32;
        let called = |name: &str| format!("{name}({left}, {right})");
        let infix = |op: &str| format!("({left} {op} {right})");
        let (text, element) = match op {
            Binary::Add if integer => (called("wrap_add"), element),
            Binary::Add => (infix("+"), element),
            Binary::Subtract if integer => (called("wrap_sub"), element),
            Binary::Subtract => (infix("-"), element),
            Binary::Multiply if integer => (called("wrap_mul"), element),
            Binary::Multiply => (infix("*"), element),
            Binary::Divide if !integer => (infix("/"), element),
            Binary::Divide | Binary::Remainder => {
                let code = self.traps.add(self.scope.graph, self.reader, TrapKind::DivisionByZero);
                let name = if op == Binary::Divide { "floor_div" } else { "floor_mod" };
                (format!("{name}(b, row, (u32)t + {code}, {left}, {right})"), element)
            }
            Binary::Min => (called(if integer { "min_int" } else { "fminf" }), element),
            Binary::Max => (called(if integer { "max_int" } else { "fmaxf" }), element),
            Binary::Equal => (infix("=="), Element::Bool),
            Binary::NotEqual => (infix("!="), Element::Bool),
            Binary::Less => (infix("<"), Element::Bool),
            Binary::LessEqual => (infix("<="), Element::Bool),
            Binary::And => (infix("&&"), Element::Bool),
            Binary::Or => (infix("||"), Element::Bool),
        };
        Code { text, element }
    }

    /// An index, checked against an axis unless it plainly lies in it.
    fn index(&mut self, expr: &Expr, extent: usize, axis: usize, read: &str) -> String {
        let text = self.expr(expr).text;
        if let Expr::Int(value) = expr
            && (0..extent as i64).contains(value)
        {
            return text;
        }
        let kind = TrapKind::Index { read: read.to_string(), axis };
        let code = self.traps.add(self.scope.graph, self.reader, kind);
        format!("checked(b, row, (u32)t + {code}, (long long){text}, 0, {extent})")
    }

    /// The place of an element in a row of fixed shape, row-major.
    fn flat(&mut self, shape: &[usize], indices: &[Expr], read: &str) -> String {
        let indices: Vec<String> = shape
            .iter()
            .zip(indices)
            .enumerate()
            .map(|(axis, (&extent, index))| self.index(index, extent, axis, read))
            .collect();
        flat(&indices, shape)
    }

    fn load(&mut self, node: NodeId, indices: &[Expr]) -> Code {
        let graph = self.scope.graph;
        let element = graph.node(node).element;
        if let Some((_, name)) = self.known.iter().find(|(known, _)| *known == node) {
            return Code::new(name.clone(), element);
        }
        let name = graph.node(node).origin.name.clone();
        let Some(shape) = graph.shape(node) else { return self.local(node, indices) };
        let flat = self.flat(&shape, indices, &name);
        Code { text: self.element_of(node, &flat), element }
    }

    /// The element at a flat place of a node's row.
    pub fn element_of(&mut self, node: NodeId, flat: &str) -> String {
        let words = elements(self.scope.graph, node);
        let element = self.scope.graph.node(node).element;
        let spot = self.scope.spots[node.index()].clone();
        match spot {
            Spot::Weight(argument, format) => {
                let pointer = self.kernel.argument(argument);
                let value = format!("read_{}({pointer}, {flat})", format.name());
                if element == Element::F32 { value } else { format!("((int){value})") }
            }
            Spot::Words(argument, rows) => {
                let pointer = self.kernel.argument(argument);
                let place = match self.row_of(rows) {
                    None => flat.to_string(),
                    Some(row) => format!("(long long){row} * {words} + {flat}"),
                };
                typed(&pointer, &place, element)
            }
            Spot::At(pointer) => typed(&pointer, flat, element),
            Spot::State(state) => {
                let state = self.kernel.argument(Argument::State(state));
                typed(&format!("state_in(b, (int){state}, node)"), flat, element)
            }
            // A graph's sealed order lets nothing be read that was not placed.
            Spot::Local | Spot::Nowhere => "0".into(),
        }
    }

    fn row_of(&self, rows: RowsOf) -> Option<String> {
        match rows {
            RowsOf::Shared => None,
            RowsOf::Node => Some("node".into()),
            RowsOf::Set(set) if self.scope.set == Some(set) => Some("row".into()),
            RowsOf::Set(set) => Some(format!("row_in(b, {}, node)", set.0)),
        }
    }

    fn local(&mut self, node: NodeId, indices: &[Expr]) -> Code {
        let graph = self.scope.graph;
        let name = graph.node(node).origin.name.clone();
        let element = graph.node(node).element;
        let Some((_, function)) = self.locals.iter().find(|(known, _)| *known == node).cloned() else {
            return Code::new("0", element);
        };
        // One number an axis, the first of which the function is given.
        let first = self.traps.next();
        for axis in 0..indices.len() {
            self.traps.add_new(graph, self.reader, TrapKind::Index { read: name.clone(), axis });
        }
        let indices: Vec<String> =
            indices.iter().map(|index| format!("(long long){}", self.expr(index).text)).collect();
        Code::new(format!("{function}((u32)t + {first}, {})", indices.join(", ")), element)
    }

    fn history(&mut self, history: HistoryId, depth: &Expr, indices: &[Expr]) -> Code {
        let graph = self.scope.graph;
        let declared = &graph.histories()[history.index()];
        let element = graph.node(declared.row).element;
        let key = declared.key.clone();
        let shape = graph.shape(declared.row).unwrap_or_default();
        let words: usize = shape.iter().product();
        let flat = self.flat(&shape, indices, &key);
        let here = self.scope.here.clone();
        let own = matches!(depth, Expr::Here);
        let depth = self.expr(depth).text;
        let spot = match self.scope.histories[history.index()].clone() {
            HistorySpot::Pages(id) => Err(self.kernel.argument(Argument::History(id))),
            HistorySpot::At(pointer) => Ok(pointer),
        };
        let row = |depth: &str| match &spot {
            Err(number) => format!("history_row(b, (int){number}, node, {depth}, {words})"),
            Ok(pointer) => format!("({pointer} + (long long)({depth}) * {words})"),
        };
        if own {
            return Code::new(typed(&row(&here), &flat, element), element);
        }
        let value = typed(&row("at"), &flat, element);
        let zero = zero(element);
        let code = self.traps.add(graph, self.reader, TrapKind::FutureRow { history: key });
        let ty = type_of(element);
        // The depth is used twice, so it gets a name of its own.
        Code::new(
            format!(
                "[&]() -> {ty} {{ const int at = (int)checked(b, row, (u32)t + {code}, (long long){depth}, -2147483648ll, \
                 (long long){here} + 1); return at < 0 ? {zero} : {value}; }}()"
            ),
            element,
        )
    }

    /// An index form of a site.
    pub fn affine(&mut self, form: &Affine) -> String {
        let mut sum = match form.constant {
            0 => String::new(),
            constant => {
                format!("{}ll", if constant < 0 { format!("({constant})") } else { constant.to_string() })
            }
        };
        let mut add = |text: String| {
            sum = if sum.is_empty() { text } else { format!("{sum} + {text}") };
        };
        if form.here != 0 {
            add(format!("{} * (long long){}", int(form.here), self.scope.here));
        }
        for (atom, coefficient) in &form.terms {
            let text = match atom {
                Atom::Axis(axis) => format!("(long long){}", self.axes[*axis]),
                Atom::Quotient(inner, divisor) => {
                    format!("floor_quotient({}, {divisor})", self.affine(inner))
                }
                Atom::Remainder(inner, divisor) => {
                    format!("floor_remainder({}, {divisor})", self.affine(inner))
                }
                Atom::Gathered(expr) => format!("(long long){}", self.expr(expr).text),
            };
            match coefficient {
                1 => add(text),
                coefficient => add(format!("{} * {text}", int(*coefficient))),
            }
        }
        if sum.is_empty() { "0".into() } else { format!("({sum})") }
    }

    /// The bounds of an axis: `(start, end)`, the end one past the last value and perhaps no 32-bit number.
    pub fn bounds(&mut self, range: &Range) -> (String, String) {
        match range {
            Range::Fixed(extent) => ("0".into(), extent.to_string()),
            Range::Between { start, end, inclusive, .. } => {
                let (start, end) = (self.expr(start).text, self.expr(end).text);
                (start, if *inclusive { format!("(long long)({end}) + 1") } else { end })
            }
        }
    }
}

/// The least and the greatest value of an index form over axes of those extents; none when it depends on anything else.
fn range(form: &Affine, extents: &[usize]) -> Option<(i64, i64)> {
    if form.here != 0 {
        return None;
    }
    let (mut low, mut high) = (form.constant, form.constant);
    for (atom, coefficient) in &form.terms {
        let (from, to) = match atom {
            Atom::Axis(axis) => (0, i64::try_from(*extents.get(*axis)?).ok()?.checked_sub(1)?),
            Atom::Quotient(inner, divisor) => {
                let (from, to) = range(inner, extents)?;
                (from.div_euclid(*divisor), to.div_euclid(*divisor))
            }
            Atom::Remainder(_, divisor) => (0, divisor - 1),
            Atom::Gathered(_) => return None,
        };
        let ends = [coefficient.checked_mul(from)?, coefficient.checked_mul(to)?];
        low = low.checked_add(ends[0].min(ends[1]))?;
        high = high.checked_add(ends[0].max(ends[1]))?;
    }
    Some((low, high))
}

/// The row-major place of an element of a tensor of that shape, by the code of its indices.
pub(crate) fn flat(indices: &[String], shape: &[usize]) -> String {
    let mut place = String::new();
    for (index, extent) in indices.iter().zip(shape) {
        place = if place.is_empty() { index.clone() } else { format!("(({place}) * {extent}ll + {index})") };
    }
    if place.is_empty() { "0".into() } else { place }
}

/// The zero of an element.
pub(crate) fn zero(element: Element) -> &'static str {
    match element {
        Element::F32 => "0.0f",
        Element::I32 => "0",
        Element::Bool => "false",
        Element::Id => "0u",
    }
}

/// One word read as its element.
pub(crate) fn typed(pointer: &str, place: &str, element: Element) -> String {
    match element {
        Element::F32 => format!("((const float*){pointer})[{place}]"),
        Element::I32 => format!("((const int*){pointer})[{place}]"),
        Element::Id => format!("{pointer}[{place}]"),
        Element::Bool => format!("({pointer}[{place}] != 0)"),
    }
}
