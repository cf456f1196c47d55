//! A tensor's elements as loops: spread over a whole grid, or over one block that goes on when all are there.
//!
//! An element whose fold is long is the work of a warp, any other that of a thread. Which it is follows from the graph
//! alone, so a row's bits do not depend on the rows beside it.

use fiddlehead_graph::{
    Binary, Compute, Element, Expr, Fold, FoldKind, Graph, NodeId, NodeKind, Range, TopPart,
};

use super::expression::{Writer, zero};
use super::kernel::{Grid, Kernel, Rows};
use super::scope::{Scope, elements, type_of};
use super::traps::Traps;

/// How the elements of a tensor are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Over the grid, for every row of the scope's set.
    Grid,
    /// Over one block, for the row that the code stands at.
    Block,
}

/// Folded points from which on a warp takes an element.
const LONG_FOLD: usize = 32;

/// Whether a warp computes an element of the node.
pub(super) fn by_warp(compute: &Compute) -> bool {
    let Some(fold) = &compute.fold else { return false };
    if matches!(fold.kind, FoldKind::Ordered { .. }) {
        return false;
    }
    let mut points = 1usize;
    for range in &fold.axes {
        match range {
            Range::Fixed(extent) => points = points.saturating_mul(*extent),
            Range::Between { .. } => return true,
        }
    }
    points >= LONG_FOLD
}

/// Loops that a kernel opened around an element.
struct Opened {
    braces: usize,
}

/// Writes the kernels of nodes.
pub(crate) struct Elements<'e, 'a> {
    pub kernel: &'e mut Kernel,
    pub scope: &'e Scope<'a>,
    pub traps: &'e mut Traps,
    pub spread: Spread,
}

/// The grid that computes a tensor's elements.
pub(crate) fn grid(graph: &Graph, node: NodeId, rows: Rows) -> Grid {
    let per_row = match &graph.node(node).kind {
        NodeKind::Top { operand, .. } => {
            let shape = graph.shape(*operand).unwrap_or_default();
            return Grid {
                rows,
                per_row: shape.split_last().map_or(1, |(_, outer)| outer.iter().product()),
                per_block: 4,
            };
        }
        _ => elements(graph, node),
    };
    let warp = matches!(&graph.node(node).kind, NodeKind::Compute(compute) if by_warp(compute));
    Grid { rows, per_row, per_block: if warp { 4 } else { 128 } }
}

impl<'a> Elements<'_, 'a> {
    /// Computes `node` by the definition of `definition`.
    pub fn node(&mut self, definition: NodeId, node: NodeId) {
        let graph = self.scope.graph;
        match &graph.node(definition).kind {
            NodeKind::Compute(compute) => self.compute(compute, definition, node),
            NodeKind::Top { operand, k, part } => self.top(*operand, *k, *part, node),
            _ => {}
        }
        self.end();
    }

    fn end(&mut self) {
        if self.spread == Spread::Block {
            self.kernel.line("__syncthreads();");
        }
    }

    /// Copies words of each row: `to` and `from` are C lvalues over `e`.
    pub fn copy(&mut self, words: usize, assign: &dyn Fn(&mut Writer<'_, '_>) -> String, reader: NodeId) {
        let opened = self.open(words, false);
        let mut writer = self.writer(reader);
        let line = assign(&mut writer);
        self.kernel.line(line);
        self.close(opened);
        self.end();
    }

    fn writer(&mut self, reader: NodeId) -> Writer<'_, 'a> {
        Writer::new(self.kernel, self.scope, self.traps, reader)
    }

    /// Opens the loop over elements; inside, `e` is the element's place in its row.
    fn open(&mut self, per_row: usize, warp: bool) -> Opened {
        let kernel = &mut *self.kernel;
        let i = kernel.fresh("i");
        let (first, step) = match (self.spread, warp) {
            (Spread::Grid, false) => {
                ("(long long)blockIdx.x * blockDim.x + threadIdx.x", "(long long)gridDim.x * blockDim.x")
            }
            (Spread::Grid, true) => (
                "((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32",
                "(long long)gridDim.x * blockDim.x / 32",
            ),
            (Spread::Block, false) => ("threadIdx.x", "blockDim.x"),
            (Spread::Block, true) => ("threadIdx.x / 32", "blockDim.x / 32"),
        };
        let wide = if per_row > i32::MAX as usize { "long long" } else { "int" };
        if self.spread == Spread::Block {
            kernel.line(format!("for (long long {i} = {first}; {i} < {per_row}ll; {i} += {step}) {{"));
            kernel.line(format!("const {wide} e = ({wide}){i};"));
            return Opened { braces: 1 };
        }
        match self.scope.set {
            Some(set) => {
                kernel.line(format!("const long long rows = b->set_count[{}];", set.0));
                kernel
                    .line(format!("for (long long {i} = {first}; {i} < rows * {per_row}; {i} += {step}) {{"));
                kernel.line(format!("const int row = (int)({i} / {per_row});"));
                kernel.line(format!("const {wide} e = ({wide})({i} % {per_row});"));
                kernel.line(format!("const int node = set_node(b, {}, row), here = b->depth[node];", set.0));
            }
            None => {
                kernel.line(format!("for (long long {i} = {first}; {i} < {per_row}ll; {i} += {step}) {{"));
                kernel.line(format!("const int row = 0, node = 0, here = 0; const {wide} e = ({wide}){i};"));
            }
        }
        kernel.line("(void)row; (void)node; (void)here;");
        Opened { braces: 1 }
    }

    fn close(&mut self, opened: Opened) {
        for _ in 0..opened.braces {
            self.kernel.line("}");
        }
    }

    fn compute(&mut self, compute: &Compute, definition: NodeId, node: NodeId) {
        let graph = self.scope.graph;
        let shape = graph.shape(definition).unwrap_or_default();
        let warp = by_warp(compute);
        let opened = self.open(shape.iter().product(), warp);
        let element = graph.node(definition).element;
        let locals = define_locals(self.kernel, self.scope, self.traps, definition);
        let axes = decode(self.kernel, "e", &shape);
        let mut writer = self.writer(definition);
        writer.locals = locals;
        writer.axes = axes;
        let value = value(&mut writer, compute, element, warp);
        let target = writer.element_of(node, "e");
        let store = assign(&target, element, &value);
        self.kernel.line(if warp { format!("if (threadIdx.x % 32 == 0) {store}") } else { store });
        self.close(opened);
    }

    fn top(&mut self, operand: NodeId, k: usize, part: TopPart, node: NodeId) {
        let graph = self.scope.graph;
        let shape = graph.shape(operand).unwrap_or_default();
        let Some((&last, outer)) = shape.split_last() else { return };
        let opened = self.open(outer.iter().product(), true);
        self.kernel.line("const int lane = threadIdx.x % 32;");
        self.kernel.line("Ranked kept; kept.value = 0.0f; kept.index = -1;");
        self.kernel.line(format!("for (int place = 0; place < {k}; place++) {{"));
        self.kernel.line("Ranked best; best.value = 0.0f; best.index = -1;");
        self.kernel.line(format!("for (int x = lane; x < {last}; x += 32) {{"));
        let mut writer = self.writer(node);
        let read = writer.element_of(operand, &format!("(long long)e * {last} + x"));
        self.kernel.line(format!("Ranked here_; here_.value = {read}; here_.index = x;"));
        self.kernel.line(
            "const bool after = kept.index < 0 || outranks(kept.value, here_.value) || \
             (!outranks(here_.value, kept.value) && x > kept.index);",
        );
        self.kernel.line("if (after) best = better(best, here_);");
        self.kernel.line("}");
        self.kernel.line("kept = warp_best(best);");
        let mut writer = self.writer(node);
        let target = writer.element_of(node, &format!("(long long)e * {k} + place"));
        let (element, value) = match part {
            TopPart::Values => (Element::F32, "kept.value"),
            TopPart::Indices => (Element::I32, "kept.index"),
        };
        let store = assign(&target, element, value);
        self.kernel.line(format!("if (lane == 0) {store}"));
        self.kernel.line("}");
        self.close(opened);
    }
}

/// A store to what a read of a word names.
pub(crate) fn assign(read: &str, element: Element, value: &str) -> String {
    match element {
        // A bool is read as a comparison of its word.
        Element::Bool => {
            let word = read.strip_prefix('(').and_then(|read| read.strip_suffix(" != 0)")).unwrap_or(read);
            format!("{word} = {value} ? 1u : 0u;")
        }
        _ => format!("{} = {value};", read.replacen("(const ", "(", 1)),
    }
}

/// Names the axes of a place in a box of fixed extents.
pub(crate) fn decode(kernel: &mut Kernel, place: &str, shape: &[usize]) -> Vec<String> {
    let names: Vec<String> = shape.iter().map(|_| kernel.fresh("a")).collect();
    let mut inner = 1usize;
    for (axis, name) in names.iter().enumerate().rev() {
        let quotient = if inner == 1 { place.to_string() } else { format!("{place} / {inner}") };
        let value = if axis == 0 { quotient } else { format!("{quotient} % {}", shape[axis].max(1)) };
        kernel.line(format!("const int {name} = (int)({value}); (void){name};"));
        inner = inner.saturating_mul(shape[axis]).max(1);
    }
    names
}

/// Writes elementwise nodes one after another at one place, counted row-major, which all have in common; gives the name
/// of the last one's value. Each reads those before it, and what the writer knows, at its own place.
pub(crate) fn chain(writer: &mut Writer<'_, '_>, nodes: &[NodeId], place: &str) -> Option<String> {
    let graph = writer.scope.graph;
    let mut shape = None;
    for &node in nodes {
        let NodeKind::Compute(compute) = &graph.node(node).kind else { return None };
        let own = graph.shape(node)?;
        if shape.as_ref() != Some(&own) {
            writer.axes = decode(writer.kernel, place, &own);
            shape = Some(own);
        }
        writer.reader = node;
        let name = value(writer, compute, graph.node(node).element, false);
        writer.known.push((node, name));
    }
    writer.known.last().map(|(_, name)| name.clone())
}

/// Writes what computes one element, the axes known; gives the name of the value.
fn value(writer: &mut Writer<'_, '_>, compute: &Compute, element: Element, warp: bool) -> String {
    let name = writer.kernel.fresh("v");
    let ty = type_of(element);
    writer.kernel.line(format!("{ty} {name} = {};", zero(element)));
    if let Some(guard) = &compute.guard {
        let guard = writer.expr(guard).text;
        writer.kernel.line(format!("if ({guard}) {{"));
    }
    match &compute.fold {
        None => {
            let body = writer.expr(&compute.body).text;
            writer.kernel.line(format!("{name} = {body};"));
        }
        Some(fold) => folded(writer, fold, &compute.body, element, &name, warp),
    }
    if compute.guard.is_some() {
        writer.kernel.line("}");
    }
    name
}

/// How a fold combines: its first value, and the statement that takes in `x`.
fn combine(kind: &FoldKind, element: Element) -> (&'static str, &'static str) {
    let float = element == Element::F32;
    match kind {
        FoldKind::Sum if float => ("0.0f", "acc += x;"),
        FoldKind::Sum => ("0", "acc = wrap_add(acc, x);"),
        FoldKind::Product if float => ("1.0f", "acc *= x;"),
        FoldKind::Product => ("1", "acc = wrap_mul(acc, x);"),
        FoldKind::Max if float => ("float_of_bits(0xff800000u)", "acc = fmaxf(acc, x);"),
        FoldKind::Max => ("(-2147483647 - 1)", "acc = max_int(acc, x);"),
        FoldKind::Min if float => ("float_of_bits(0x7f800000u)", "acc = fminf(acc, x);"),
        FoldKind::Min => ("2147483647", "acc = min_int(acc, x);"),
        FoldKind::Any => ("false", "acc = acc || x;"),
        FoldKind::All => ("true", "acc = acc && x;"),
        FoldKind::ArgMax | FoldKind::Ordered { .. } => ("", ""),
    }
}

fn folded(writer: &mut Writer<'_, '_>, fold: &Fold, body: &Expr, element: Element, name: &str, warp: bool) {
    let acc = writer.kernel.fresh("acc");
    let ty = type_of(element);
    let ordered = match &fold.kind {
        FoldKind::Ordered { init } => Some(writer.expr(init).text),
        _ => None,
    };
    let (first, step) = combine(&fold.kind, element);
    match (&fold.kind, &ordered) {
        (_, Some(init)) => writer.kernel.line(format!("{ty} {acc} = {init};")),
        (FoldKind::ArgMax, _) => {
            // An i32 is compared as itself; its rank as a float would lose bits.
            writer.kernel.line(format!("long long {acc} = -1; int {acc}_i = 0; float {acc}_f = 0.0f;"));
            writer.kernel.line(format!("(void){acc}_i; (void){acc}_f;"));
        }
        _ => writer.kernel.line(format!("{ty} {acc} = {first};")),
    }
    let outer_axes = writer.axes.len();
    let opened = open_fold(writer, &fold.axes, warp);
    if ordered.is_some() {
        writer.accumulator = Some((acc.clone(), element));
        let next = writer.expr(body).text;
        writer.accumulator = None;
        writer.kernel.line(format!("{acc} = {next};"));
    } else if fold.kind == FoldKind::ArgMax {
        let found = writer.expr(body);
        let axis = writer.axes[outer_axes].clone();
        let side = if found.element == Element::F32 { "f" } else { "i" };
        let ty = type_of(found.element);
        writer.kernel.line(format!("const {ty} x = {};", found.text));
        writer.kernel.line(format!(
            "if ({acc} < 0 || outranks(x, {acc}_{side})) {{ {acc} = {axis}; {acc}_{side} = x; }}"
        ));
    } else {
        match (&fold.kind, body) {
            (FoldKind::Sum, Expr::Binary(Binary::Multiply, left, right)) if element == Element::F32 => {
                let left = writer.expr(left).text;
                let right = writer.expr(right).text;
                writer.kernel.line(format!("{acc} = fmaf({left}, {right}, {acc});"));
            }
            _ => {
                let body = writer.expr(body).text;
                writer.kernel.line(format!("const {ty} x = {body}; {}", step.replace("acc", &acc)));
            }
        }
    }
    (0..opened).for_each(|_| writer.kernel.line("}"));
    writer.axes.truncate(outer_axes);
    if !warp {
        let result = if fold.kind == FoldKind::ArgMax { format!("{acc} < 0 ? 0u : (u32){acc}") } else { acc };
        writer.kernel.line(format!("{name} = {result};"));
        return;
    }
    let reduce = match &fold.kind {
        FoldKind::Sum => "warp_sum",
        FoldKind::Product => "warp_product",
        FoldKind::Max => "warp_max",
        FoldKind::Min => "warp_min",
        FoldKind::Any => "warp_any",
        FoldKind::All => "warp_all",
        FoldKind::ArgMax | FoldKind::Ordered { .. } => {
            writer.kernel.line(format!("{name} = warp_argmax({acc}, {acc}_f, {acc}_i);"));
            return;
        }
    };
    writer.kernel.line(format!("{name} = {reduce}({acc});"));
}

/// Opens the loops over folded axes and names them; a warp's lanes share the outermost loop, or all of a fixed box.
fn open_fold(writer: &mut Writer<'_, '_>, axes: &[Range], warp: bool) -> usize {
    let shape: Option<Vec<usize>> = axes
        .iter()
        .map(|range| match range {
            Range::Fixed(extent) => Some(*extent),
            Range::Between { .. } => None,
        })
        .collect();
    if let (true, Some(shape)) = (warp, &shape) {
        let points: usize = shape.iter().product();
        let f = writer.kernel.fresh("f");
        writer.kernel.line(format!("for (long long {f} = threadIdx.x % 32; {f} < {points}ll; {f} += 32) {{"));
        let names = decode(writer.kernel, &f, shape);
        writer.axes.extend(names);
        return 1;
    }
    for (place, range) in axes.iter().enumerate() {
        let (start, end) = writer.bounds(range);
        let (name, wide) = (writer.kernel.fresh("a"), writer.kernel.fresh("w"));
        let (lane, step) = if warp && place == 0 { (" + threadIdx.x % 32", 32) } else { ("", 1) };
        writer.kernel.line(format!(
            "for (long long {wide} = (long long)({start}){lane}, {wide}_end = (long long)({end}); {wide} < {wide}_end; {wide} += {step}) {{"
        ));
        writer.kernel.line(format!("const int {name} = (int){wide}; (void){name};"));
        writer.axes.push(name);
    }
    axes.len()
}

/// Local tensors that a node reads, and those that they read, in the graph's order.
fn locals_of(graph: &Graph, node: NodeId) -> Vec<NodeId> {
    let (mut found, mut open) = (Vec::new(), vec![node]);
    while let Some(reader) = open.pop() {
        graph.node(reader).kind.for_each_read(
            &mut |read| {
                if graph.shape(read).is_none() && !found.contains(&read) {
                    found.push(read);
                    open.push(read);
                }
            },
            &mut |_| {},
        );
    }
    found.sort();
    found
}

/// Defines functions for the local tensors that a node reads: `(first trap code, index…) -> element`.
pub(crate) fn define_locals(
    kernel: &mut Kernel,
    scope: &Scope<'_>,
    traps: &mut Traps,
    node: NodeId,
) -> Vec<(NodeId, String)> {
    let graph = scope.graph;
    let mut defined: Vec<(NodeId, String)> = Vec::new();
    for local in locals_of(graph, node) {
        let NodeKind::Compute(compute) = &graph.node(local).kind else { continue };
        let element = graph.node(local).element;
        let function = kernel.fresh("local");
        let names: Vec<String> = compute.axes.iter().map(|_| kernel.fresh("a")).collect();
        let given: Vec<String> = names.iter().map(|name| format!("long long {name}_")).collect();
        let ty = type_of(element);
        kernel.line(format!("auto {function} = [&](u32 code, {}) -> {ty} {{", given.join(", ")));
        kernel.line("(void)code;");
        let mut writer = Writer::new(kernel, scope, traps, local);
        writer.locals = defined.clone();
        for (axis, (range, name)) in compute.axes.iter().zip(&names).enumerate() {
            let (start, end) = writer.bounds(range);
            writer.kernel.line(format!(
                "const int {name} = (int)checked(b, row, code + {axis}, {name}_, (long long)({start}), (long long)({end})); (void){name};"
            ));
            writer.kernel.line(format!("if ({name} != {name}_) return {};", zero(element)));
            writer.axes.push(name.clone());
        }
        let value = value(&mut writer, compute, element, false);
        writer.kernel.line(format!("return {value};"));
        writer.kernel.line("};");
        defined.push((local, function));
    }
    defined
}
