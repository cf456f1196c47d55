//! A graph as text, for people and for tests that hold a wanted form.

mod svg;

use std::fmt::{self, Display, Formatter, Write};

use crate::ir::*;
pub use svg::draw_svg;

impl Display for Graph {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_graph(self, "graph", "", f)
    }
}

fn write_graph(graph: &Graph, word: &str, indent: &str, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "{indent}{word} {}", graph.name)?;
    for input in &graph.inputs {
        let sharing = if input.per_node { "" } else { "shared " };
        writeln!(f, "{indent}  {sharing}input {}: {}", input.name, shaped(input.element, &input.shape))?;
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        write_node(graph, NodeId(index as u32), node, indent, f)?;
    }
    for state in &graph.states {
        let form = shaped(state.element, &state.shape);
        writeln!(f, "{indent}  state {}: {form} = {}, then {}", state.key, state.initial, state.next)?;
    }
    for history in &graph.histories {
        writeln!(f, "{indent}  history {}: {}", history.key, history.row)?;
    }
    for output in &graph.outputs {
        writeln!(f, "{indent}  output {}: {}", output.name, output.node)?;
    }
    Ok(())
}

fn write_node(graph: &Graph, id: NodeId, node: &Node, indent: &str, f: &mut Formatter<'_>) -> fmt::Result {
    let text = Text { graph };
    write!(f, "{indent}  {id}: {} = ", shape_text(graph, id))?;
    match &node.kind {
        NodeKind::Input(input) => write!(f, "input {}", graph.inputs[input.index()].name)?,
        NodeKind::Param(param) => write!(f, "param {}", graph.params[param.index()].name)?,
        NodeKind::State(state) => write!(f, "state {}", graph.states[state.index()].key)?,
        NodeKind::Constant(constant) => {
            let shown: Vec<_> = constant.values.iter().take(4).map(|value| format!("{value:?}")).collect();
            let more = if constant.values.len() > 4 { ", ..." } else { "" };
            write!(f, "[{}{more}]", shown.join(", "))?;
        }
        NodeKind::Compute(compute) => f.write_str(&text.compute(compute))?,
        NodeKind::Top { operand, k, part } => {
            let part = if *part == TopPart::Values { "values" } else { "indices" };
            write!(f, "top[{k}]({operand}).{part}")?;
        }
        NodeKind::ScanResult { scan, result } => write!(f, "result {result} of {scan}")?,
        NodeKind::Scan(scan) => {
            let captured: Vec<_> = scan.captured.iter().map(ToString::to_string).collect();
            let last = scan.first + scan.trips as i64;
            writeln!(f, "scan {}..{last} of ({})", scan.first, captured.join(", "))?;
            for (place, result) in scan.results.iter().enumerate() {
                write!(f, "{indent}    result {place}: ")?;
                match result {
                    ScanResult::Emitted { output, condition, capacity } => {
                        write!(f, "emit {}", scan.body.outputs[*output].name)?;
                        if let Some(condition) = condition {
                            write!(f, " if {}", scan.body.outputs[*condition].name)?;
                        }
                        writeln!(f, ", at most {capacity}")?;
                    }
                    ScanResult::Length { emission } => writeln!(f, "length of result {emission}")?,
                    ScanResult::Carry(state) => {
                        writeln!(f, "last {}", scan.body.states[state.index()].key)?;
                    }
                }
            }
            return write_graph(&scan.body, "body", &format!("{indent}    "), f);
        }
    }
    let named = match node.kind {
        NodeKind::Input(_) | NodeKind::Param(_) | NodeKind::State(_) => "",
        _ => node.origin.name.as_str(),
    };
    if named.is_empty() { writeln!(f) } else { writeln!(f, "  // {named}") }
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Element::F32 => "f32",
            Element::I32 => "i32",
            Element::Bool => "bool",
            Element::Id => "id",
        })
    }
}

fn shaped(element: Element, shape: &[usize]) -> String {
    ranges_form(element, &shape.iter().map(|&n| Range::Fixed(n)).collect::<Vec<_>>())
}

fn ranges_form(element: Element, ranges: &[Range]) -> String {
    if ranges.is_empty() {
        return element.to_string();
    }
    let extents: Vec<_> = ranges
        .iter()
        .map(|range| match range {
            Range::Fixed(n) => n.to_string(),
            Range::Between { .. } => "..".into(),
        })
        .collect();
    format!("{element}[{}]", extents.join(", "))
}

/// The name of an axis: `i`, `j`, `k` ...
fn axis_name(axis: usize) -> String {
    const NAMES: [&str; 8] = ["i", "j", "k", "l", "m", "n", "o", "p"];
    NAMES.get(axis).map_or_else(|| format!("i{axis}"), |name| (*name).into())
}

/// A tensor's element and extents, such as `f32[8, 64]`; a dependent extent is `..`.
pub fn shape_text(graph: &Graph, id: NodeId) -> String {
    ranges_form(graph.node(id).element, &graph.axes(id))
}

/// A node's whole expression as the language would write it, loads by node number.
pub fn compute_text(graph: &Graph, compute: &Compute) -> String {
    Text { graph }.compute(compute)
}

struct Text<'a> {
    graph: &'a Graph,
}

/// How tightly an expression binds; a part that binds looser than its place asks gets parentheses.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Whole,
    Or,
    And,
    Comparison,
    Sum,
    Term,
    Unary,
    Atom,
}

impl Text<'_> {
    fn compute(&self, compute: &Compute) -> String {
        let mut out = String::new();
        if !compute.axes.is_empty() {
            out += &format!("each[{}] ", self.axes(&compute.axes, 0));
        }
        if let Some(guard) = &compute.guard {
            out += &format!("when ({}) ", self.whole(guard));
        }
        let Some(fold) = &compute.fold else { return out + &self.whole(&compute.body) };
        let allowed = compute.permissions;
        let lists = [
            (allowed.bf16, "bf16"),
            (allowed.f16, "f16"),
            (allowed.tf32, "tf32"),
            (allowed.fp8, "fp8"),
            (allowed.q8, "q8"),
        ];
        let lists: Vec<_> = lists.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        if !lists.is_empty() {
            out += &format!("compute {} ", lists.join(" | "));
        }
        let axes = self.axes(&fold.axes, compute.axes.len());
        out += &match &fold.kind {
            FoldKind::Sum => format!("sum[{axes}] "),
            FoldKind::Product => format!("prod[{axes}] "),
            FoldKind::Max => format!("max[{axes}] "),
            FoldKind::Min => format!("min[{axes}] "),
            FoldKind::Any => format!("any[{axes}] "),
            FoldKind::All => format!("all[{axes}] "),
            FoldKind::ArgMax => format!("argmax[{axes}] "),
            FoldKind::Ordered { init } => format!("fold[{axes}](acc = {}) ", self.whole(init)),
        };
        out + &self.whole(&compute.body)
    }

    fn axes(&self, ranges: &[Range], first: usize) -> String {
        let mut out = String::new();
        for (place, range) in ranges.iter().enumerate() {
            if place > 0 {
                out += ", ";
            }
            out += &axis_name(first + place);
            out += " in ";
            match range {
                Range::Fixed(n) => out += &n.to_string(),
                Range::Between { start, end, inclusive, .. } => {
                    out += &self.expr(start, Binding::Sum);
                    out += if *inclusive { "..=" } else { ".." };
                    out += &self.expr(end, Binding::Sum);
                }
            }
        }
        out
    }

    fn whole(&self, expr: &Expr) -> String {
        self.expr(expr, Binding::Whole)
    }

    fn list(&self, indices: &[Expr]) -> String {
        if indices.is_empty() {
            return String::new();
        }
        let shown: Vec<_> = indices.iter().map(|index| self.whole(index)).collect();
        format!("[{}]", shown.join(", "))
    }

    fn expr(&self, expr: &Expr, place: Binding) -> String {
        let (text, binding) = self.bound(expr);
        if binding < place { format!("({text})") } else { text }
    }

    fn bound(&self, expr: &Expr) -> (String, Binding) {
        let text = match expr {
            Expr::Float(value) => format!("{value:?}"),
            Expr::Int(value) => {
                let binding = if *value < 0 { Binding::Unary } else { Binding::Atom };
                return (value.to_string(), binding);
            }
            Expr::Bool(value) => value.to_string(),
            Expr::Id(value) => format!("id({value})"),
            Expr::Axis(axis) => axis_name(*axis),
            Expr::Here => "here".into(),
            Expr::Accumulator => "acc".into(),
            Expr::Load { node, indices } => format!("{node}{}", self.list(indices)),
            Expr::History { history, depth, indices } => {
                let key = &self.graph.histories[history.index()].key;
                format!("{key}[{}]{}", self.whole(depth), self.list(indices))
            }
            Expr::Unary(Unary::Negate, operand) => {
                return (format!("-{}", self.expr(operand, Binding::Unary)), Binding::Unary);
            }
            Expr::Unary(Unary::Not, operand) => {
                return (format!("!{}", self.expr(operand, Binding::Unary)), Binding::Unary);
            }
            Expr::Unary(op, operand) => format!("{}({})", unary_name(*op), self.whole(operand)),
            Expr::Binary(Binary::Min, left, right) => {
                format!("min({}, {})", self.whole(left), self.whole(right))
            }
            Expr::Binary(Binary::Max, left, right) => {
                format!("max({}, {})", self.whole(left), self.whole(right))
            }
            Expr::Binary(op, left, right) => {
                let (sign, binding, left_place, right_place) = match op {
                    Binary::Add => ("+", Binding::Sum, Binding::Sum, Binding::Term),
                    Binary::Subtract => ("-", Binding::Sum, Binding::Sum, Binding::Term),
                    Binary::Multiply => ("*", Binding::Term, Binding::Term, Binding::Unary),
                    Binary::Divide => ("/", Binding::Term, Binding::Term, Binding::Unary),
                    Binary::Remainder => ("%", Binding::Term, Binding::Term, Binding::Unary),
                    Binary::Equal => ("==", Binding::Comparison, Binding::Sum, Binding::Sum),
                    Binary::NotEqual => ("!=", Binding::Comparison, Binding::Sum, Binding::Sum),
                    Binary::Less => ("<", Binding::Comparison, Binding::Sum, Binding::Sum),
                    Binary::LessEqual => ("<=", Binding::Comparison, Binding::Sum, Binding::Sum),
                    Binary::And => ("&&", Binding::And, Binding::And, Binding::Comparison),
                    _ => ("||", Binding::Or, Binding::Or, Binding::And),
                };
                let text =
                    format!("{} {sign} {}", self.expr(left, left_place), self.expr(right, right_place));
                return (text, binding);
            }
            Expr::Select(condition, then, otherwise) => {
                let mut text = String::new();
                let _ = write!(
                    text,
                    "if {} {{ {} }} else {{ {} }}",
                    self.whole(condition),
                    self.whole(then),
                    self.whole(otherwise)
                );
                return (text, Binding::Atom);
            }
        };
        (text, Binding::Atom)
    }
}

fn unary_name(op: Unary) -> &'static str {
    match op {
        Unary::Negate => "-",
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
        Unary::Not => "!",
        Unary::ToFloat => "f32",
        Unary::ToInt | Unary::IdToInt => "i32",
        Unary::IntToId => "id",
    }
}
