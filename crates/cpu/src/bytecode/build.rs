//! From a node's expressions to [`Values`]: loads with checked or proven indices, masks for what is evaluated only
//! sometimes.
//!
//! Everything is evaluated eagerly; an arm that is not chosen is computed and dropped. That is right because only
//! checks can fail, and each check carries the mask under which its expression counts.

use fiddlehead_graph::{Binary, Compute, Element, Expr, FoldKind, Graph, NodeId, Range, Unary};

use super::MAX_AXES;
use super::frame::Read;
use super::layout::{CompileError, Format, SourceLayout, Strides, row_major_strides};
use super::value::{Extent, Kind, Rule, Type, Value, Values};

/// A tensor or history that the program reads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    pub read: Read,
    pub ty: Type,
    pub ranges: Vec<Range>,
    /// For a history: the strides of its rows, any slot.
    pub layout: SourceLayout,
}

impl Source {
    /// Elements behind the first that some load may reach, when the strides are fixed.
    pub fn reach(&self) -> usize {
        reach(&self.ranges, &self.layout)
    }
}

pub(super) fn reach(ranges: &[Range], layout: &SourceLayout) -> usize {
    let Strides::Fixed(strides) = &layout.strides else { return 0 };
    let mut last = 0;
    for (range, stride) in ranges.iter().zip(strides) {
        match range {
            Range::Fixed(0) => return 0,
            Range::Fixed(n) => last += (n - 1) * stride,
            Range::Between { .. } => {}
        }
    }
    last + 1
}

/// How the loops run over a node's axes: a window of each, perhaps divided into an outer and an inner part.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// First and past-the-last value of a fixed axis.
    pub low: usize,
    pub high: usize,
    /// The inner part's length, when the axis is divided.
    pub divided: Option<usize>,
}

/// A node's expressions as values.
#[derive(Debug)]
pub(super) struct Built {
    pub values: Values,
    pub sources: Vec<Source>,
    /// The value of each of the node's axes, folded ones included.
    pub axes: Vec<Value>,
    /// How many of `axes` are the result's.
    pub rank: usize,
    /// How many loop axes belong to the result.
    pub result_loops: usize,
    pub guard: Option<Value>,
    pub body: Value,
    /// The first value of an ordered fold.
    pub initial: Option<Value>,
}

struct Builder<'a> {
    graph: &'a Graph,
    reader: NodeId,
    layouts: &'a dyn Fn(NodeId) -> SourceLayout,
    values: Values,
    sources: Vec<Source>,
    accumulator: Type,
}

/// Builds the values of `compute`, over `windows` of its axes (one an axis; those of jagged axes are ignored).
pub(super) fn build(
    graph: &Graph,
    reader: NodeId,
    compute: &Compute,
    layouts: &dyn Fn(NodeId) -> SourceLayout,
    windows: &[Window],
) -> Result<Built, CompileError> {
    let accumulator = Type::of(graph.node(reader).element);
    let values = Values::default();
    let mut builder = Builder { graph, reader, layouts, values, sources: Vec::new(), accumulator };
    let mut axes = Vec::new();
    let mut mask = None;
    for (range, window) in compute.axes.iter().zip(windows) {
        builder.axis(range, window, &mut axes, &mut mask)?;
    }
    let result_loops = builder.values.extents.len();
    let guard = match &compute.guard {
        Some(guard) => {
            let guard = builder.expr(guard, mask, &axes)?;
            mask = builder.values.and_mask(mask, guard);
            Some(guard)
        }
        None => None,
    };
    let mut initial = None;
    if let Some(fold) = &compute.fold {
        if let FoldKind::Ordered { init } = &fold.kind {
            initial = Some(builder.expr(init, mask, &axes)?);
        }
        for (range, window) in fold.axes.iter().zip(&windows[compute.axes.len()..]) {
            builder.axis(range, window, &mut axes, &mut mask)?;
        }
    }
    if builder.values.extents.len() > MAX_AXES {
        return Err(CompileError::TooManyAxes(reader));
    }
    let body = builder.expr(&compute.body, mask, &axes)?;
    let Builder { values, sources, .. } = builder;
    Ok(Built { values, sources, axes, rank: compute.axes.len(), result_loops, guard, body, initial })
}

impl Builder<'_> {
    /// Adds an axis's loops, its value to `axes`, and "it is not empty" to `mask`: a check that is moved out of a loop
    /// must not fail when the loop never turns.
    fn axis(
        &mut self,
        range: &Range,
        window: &Window,
        axes: &mut Vec<Value>,
        mask: &mut Option<Value>,
    ) -> Result<(), CompileError> {
        match range {
            Range::Fixed(_) => {
                let &Window { low, high, divided } = window;
                if low >= high {
                    let never = self.values.boolean(false);
                    *mask = self.values.and_mask(*mask, never);
                }
                let place = self.values.extents.len();
                let value = match divided {
                    None => {
                        self.values.extents.push(Extent::Fixed { low, high });
                        self.values.axis(place)
                    }
                    Some(inner) => {
                        self.values.extents.push(Extent::Fixed { low: low / inner, high: high / inner });
                        self.values.extents.push(Extent::Fixed { low: 0, high: inner });
                        let outer_value = self.values.axis(place);
                        let inner_value = self.values.axis(place + 1);
                        let by = self.values.integer(inner as i64);
                        let scaled = self.values.binary(Binary::Multiply, outer_value, by);
                        self.values.binary(Binary::Add, scaled, inner_value)
                    }
                };
                axes.push(value);
            }
            Range::Between { start, end, inclusive, .. } => {
                let inclusive = *inclusive;
                let low = self.expr(start, *mask, axes)?;
                let high = self.expr(end, *mask, axes)?;
                let place = self.values.extents.len();
                self.values.extents.push(Extent::Between { low, high, inclusive });
                let value = self.values.axis(place);
                axes.push(value);
                let inhabited = self.values.binary(below(inclusive), low, high);
                *mask = self.values.and_mask(*mask, inhabited);
            }
        }
        Ok(())
    }

    fn invalid(&self, problem: &'static str) -> CompileError {
        CompileError::Invalid { node: self.reader, problem }
    }

    fn expr(&mut self, expr: &Expr, mask: Option<Value>, axes: &[Value]) -> Result<Value, CompileError> {
        Ok(match expr {
            Expr::Float(value) => self.values.float(*value as f32),
            Expr::Int(value) => self.values.integer(*value),
            Expr::Bool(value) => self.values.boolean(*value),
            Expr::Id(value) => self.values.integer(*value as i32 as i64),
            Expr::Axis(axis) => {
                *axes.get(*axis).ok_or_else(|| self.invalid("it mentions an axis it does not have"))?
            }
            Expr::Here => self.values.here(),
            Expr::Accumulator => self.values.accumulator(self.accumulator),
            Expr::Load { node, indices } => self.load(*node, indices, mask, axes)?,
            Expr::History { history, depth, indices } => {
                let source = self.history(*history)?;
                let depth = self.expr(depth, mask, axes)?;
                let here = self.values.here();
                let depth = if self.values.decide(Binary::LessEqual, depth, here) == Some(true) {
                    depth
                } else {
                    self.check(Rule::Depth { read: Read::History(*history) }, depth, mask)
                };
                self.element(source, Some(depth), indices, mask, axes)?
            }
            Expr::Unary(op, operand) => {
                let a = self.expr(operand, mask, axes)?;
                if *op == Unary::IntToId && self.values.facts(a).range.0 < 0 {
                    self.check(Rule::NonNegative, a, mask)
                } else {
                    self.values.unary(*op, a)
                }
            }
            Expr::Binary(op @ (Binary::And | Binary::Or), left, right) => {
                let a = self.expr(left, mask, axes)?;
                let needed = if *op == Binary::And { a } else { self.values.not(a) };
                let inner = self.values.and_mask(mask, needed);
                let b = self.expr(right, inner, axes)?;
                self.values.binary(*op, a, b)
            }
            Expr::Binary(op, left, right) => {
                let a = self.expr(left, mask, axes)?;
                let mut b = self.expr(right, mask, axes)?;
                let (low, high) = self.values.facts(b).range;
                if self.values.ty(a) == Type::Integer
                    && matches!(op, Binary::Divide | Binary::Remainder)
                    && low <= 0
                    && high >= 0
                {
                    b = self.check(Rule::NonZero, b, mask);
                }
                self.values.binary(*op, a, b)
            }
            Expr::Select(condition, then, otherwise) => {
                let condition = self.expr(condition, mask, axes)?;
                let chosen = self.values.and_mask(mask, condition);
                let then = self.expr(then, chosen, axes)?;
                let not = self.values.not(condition);
                let chosen = self.values.and_mask(mask, not);
                let otherwise = self.expr(otherwise, chosen, axes)?;
                self.values.select(condition, then, otherwise)
            }
        })
    }

    fn check(&mut self, rule: Rule, value: Value, mask: Option<Value>) -> Value {
        let everything = (i32::MIN as i64, i32::MAX as i64);
        let range = match rule {
            Rule::Index { low, high, inclusive, .. } => {
                let past = i64::from(!inclusive);
                let (low, high) = (self.values.facts(low).range.0, self.values.facts(high).range.1 - past);
                // Of an empty axis nothing is known, or the check would fold away.
                if low <= high { (low, high) } else { everything }
            }
            Rule::NonNegative => (0, i32::MAX as i64),
            _ => everything,
        };
        self.values.intern(Kind::Check { rule, value, mask }, Type::Integer, range)
    }

    fn load(
        &mut self,
        node: NodeId,
        indices: &[Expr],
        mask: Option<Value>,
        axes: &[Value],
    ) -> Result<Value, CompileError> {
        let read = Read::Node(node);
        let known = self.sources.iter().position(|source| source.read == read);
        let source = match known {
            Some(source) => source,
            None => {
                let layout = (self.layouts)(node);
                let ranges = self.graph.axes(node);
                let ty = Type::of(self.graph.node(node).element);
                check_layout(self.reader, node, ty, &ranges, &layout)?;
                self.sources.push(Source { read, ty, ranges, layout });
                self.sources.len() - 1
            }
        };
        self.element(source, None, indices, mask, axes)
    }

    fn history(&mut self, history: fiddlehead_graph::HistoryId) -> Result<usize, CompileError> {
        let read = Read::History(history);
        if let Some(known) = self.sources.iter().position(|source| source.read == read) {
            return Ok(known);
        }
        let reader = self.reader;
        let held = self.graph.histories().get(history.index());
        let row = held.ok_or(CompileError::History { reader, history })?.row;
        let shape = self.graph.shape(row).ok_or(CompileError::History { reader, history })?;
        let ty = Type::of(self.graph.node(row).element);
        let layout = SourceLayout {
            slot: usize::MAX,
            format: Format::Words,
            strides: Strides::Fixed(row_major_strides(&shape)),
            per_node: true,
        };
        let ranges = shape.into_iter().map(Range::Fixed).collect();
        self.sources.push(Source { read, ty, ranges, layout });
        Ok(self.sources.len() - 1)
    }

    fn element(
        &mut self,
        source: usize,
        depth: Option<Value>,
        indices: &[Expr],
        mask: Option<Value>,
        axes: &[Value],
    ) -> Result<Value, CompileError> {
        let Source { read, ty, ranges, .. } = self.sources[source].clone();
        if indices.len() != ranges.len() {
            return Err(self.invalid("it loads with a wrong number of indices"));
        }
        let empty = ranges.contains(&Range::Fixed(0));
        let mut checked: Vec<Value> = Vec::with_capacity(indices.len());
        for (axis, (index, range)) in indices.iter().zip(&ranges).enumerate() {
            let id = index.element_in(self.graph, self.graph.node(self.reader).element) == Element::Id;
            let index = self.expr(index, mask, axes)?;
            let (low, high, inclusive) = match range {
                Range::Fixed(n) => (self.values.integer(0), self.values.integer(*n as i64), false),
                Range::Between { start, end, inclusive, .. } => {
                    let outer = checked.clone();
                    (self.expr(start, mask, &outer)?, self.expr(end, mask, &outer)?, *inclusive)
                }
            };
            let proven = self.values.decide(Binary::LessEqual, low, index) == Some(true)
                && self.values.decide(below(inclusive), index, high) == Some(true);
            checked.push(if proven {
                index
            } else {
                self.check(Rule::Index { read, axis, low, high, inclusive, id }, index, mask)
            });
        }
        if empty {
            // Nothing can be read, so some check fails wherever the mask holds; elsewhere any value will do, as long
            // as it keeps the checks alive.
            let mut sum = self.values.integer(0);
            for index in checked {
                sum = self.values.binary(Binary::Add, sum, index);
            }
            return Ok(match ty {
                Type::Integer => sum,
                Type::Float => self.values.unary(Unary::ToFloat, sum),
                Type::Bool => {
                    let zero = self.values.integer(0);
                    self.values.binary(Binary::Equal, sum, zero)
                }
            });
        }
        Ok(self.values.load(source, depth, checked, ty))
    }
}

/// How a value of a range compares with the range's end.
fn below(inclusive: bool) -> Binary {
    if inclusive { Binary::LessEqual } else { Binary::Less }
}

pub(super) fn check_layout(
    reader: NodeId,
    node: NodeId,
    ty: Type,
    ranges: &[Range],
    layout: &SourceLayout,
) -> Result<(), CompileError> {
    let wrong = |problem| Err(CompileError::Layout { reader, node, problem });
    if layout.format != Format::Words && ty != Type::Float {
        return wrong("stores integers or bools as a float format");
    }
    let local = ranges.iter().any(|range| matches!(range, Range::Between { .. }));
    match &layout.strides {
        Strides::Local if !local => wrong("is local, but its shape is fixed"),
        Strides::Local if ranges.len() > MAX_AXES => wrong("has too many axes"),
        Strides::Local => Ok(()),
        Strides::Fixed(_) if local => wrong("has strides, but its shape is not fixed"),
        Strides::Fixed(strides) if strides.len() != ranges.len() => wrong("has a stride too few or too many"),
        Strides::Fixed(strides) => {
            let shape: Vec<usize> = ranges
                .iter()
                .map(|range| match range {
                    Range::Fixed(n) => *n,
                    Range::Between { .. } => 0,
                })
                .collect();
            if layout.format == Format::Blocks && *strides != row_major_strides(&shape) {
                return wrong("stores blocks in another order than row-major");
            }
            Ok(())
        }
    }
}
