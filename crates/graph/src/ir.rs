//! The graph itself: what a node is, and nothing about how it is found, changed or run.
//!
//! A [`Graph`] states the work of **one node of a token forest**: its inputs, what it reads from its path, what it
//! hands to its children, and its outputs. The body of a model's `step`, the body of a `scan` and a plain function
//! are all such graphs. A plain function has no state and no per-node input and runs on a forest of a single node.
//!
//! Every tensor is defined by an iteration space, an optional fold, and one scalar expression over loads.
//! Nothing here names a matrix product, an attention or a norm: queries find those.

use std::fmt;
use std::sync::Arc;

/// A node of the graph, by its place in [`Graph::nodes`]; nodes come after everything they load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);
/// A state, by its place in [`Graph::states`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub u32);
/// A history, by its place in [`Graph::histories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HistoryId(pub u32);
/// An input, by its place in [`Graph::inputs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InputId(pub u32);
/// A parameter, by its place in [`Graph::params`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParamId(pub u32);

macro_rules! index {
    ($($name:ident),*) => {$(
        impl $name {
            /// The place in its list.
            pub fn index(self) -> usize { self.0 as usize }
        }
    )*};
}
index!(NodeId, StateId, HistoryId, InputId, ParamId);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// A 32-bit float; which arithmetic a fold of it may use is the node's [`Permissions`].
    F32,
    /// A 32-bit signed integer. Arithmetic is exact; division and remainder round towards minus infinity.
    I32,
    /// True or false.
    Bool,
    /// A token's number. Compared, indexed with and selected, never calculated with.
    Id,
}

/// Where a node came from in the source text: for messages, never for meaning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// A readable name, such as `layers.3/delta_block/u`; may repeat.
    pub name: String,
    /// Byte range in the program's text, when the node came from text.
    pub span: Option<(usize, usize)>,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// The type of its elements.
    pub element: Element,
    /// Where it came from.
    pub origin: Origin,
}

/// What a tensor is.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// A value handed in from outside, with the declared shape of that input.
    Input(InputId),
    /// A weight.
    Param(ParamId),
    /// Values known before planning, such as a layer's rotary frequencies; always f32.
    Constant(Constant),
    /// The incoming value of a state: the parent's outgoing one, or the session's, or the initial value at a root.
    State(StateId),
    /// A tensor defined element by element.
    Compute(Compute),
    /// The `k` greatest elements along the last axis of `operand`, greatest first, ties to the lower index.
    /// The result has the operand's shape with the last axis replaced by `k`.
    Top {
        /// The tensor searched, f32, of rank one or more, all axes [`Range::Fixed`].
        operand: NodeId,
        /// How many, at most the last axis's extent.
        k: usize,
        /// Which of the two results this node is.
        part: TopPart,
    },
    /// A sequential loop. Its value is read through [`NodeKind::ScanResult`] alone.
    Scan(Box<Scan>),
    /// One result of a loop.
    ScanResult {
        /// The loop.
        scan: NodeId,
        /// Which result, by its place in [`Scan::results`].
        result: usize,
    },
}

/// An array of known values. Scalars are literals in expressions instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its elements, the last axis fastest; as many as the product of `shape`.
    pub values: Arc<[f32]>,
}

/// The two results of a top-k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopPart {
    /// The elements themselves, f32.
    Values,
    /// Their indices along the last axis, i32.
    Indices,
}

/// A tensor defined element by element: for every point of `axes`, `body`, or the fold of `body` over `fold.axes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// The iteration space, outermost first: [`Expr::Axis`] 0, 1, … Also the tensor's shape.
    pub axes: Vec<Range>,
    /// The fold, when there is one. Its axes continue the numbering of `axes`.
    pub fold: Option<Fold>,
    /// Evaluated over `axes`. Where it is false the element is zero (false) and `body` is not evaluated: a value
    /// that only one arm of an `if` reads.
    pub guard: Option<Expr>,
    /// The scalar expression.
    pub body: Expr,
    /// Which operand roundings the program allows in this node's fold.
    pub permissions: Permissions,
}

/// The extent of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Range {
    /// `0 .. n`.
    Fixed(usize),
    /// `start .. end` or `start ..= end`, expressions over earlier axes, [`Expr::Here`], and loads. A tensor with such
    /// an axis is local: it is loaded only inside that range, by the absolute value of the axis.
    Between {
        /// First value.
        start: Expr,
        /// One past the last value, or the last value itself when `inclusive`; the range is empty when no value lies
        /// between.
        end: Expr,
        /// Whether `end` belongs to the range: where the value after it may be no i32. Where it is one for certain,
        /// rewrites write the end one greater instead, so that a range that ends at `here` has one form.
        inclusive: bool,
        /// A proven upper bound on the number of values, when one is known without knowing `here`.
        bound: Option<usize>,
    },
}

/// A fold of a body over axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    /// How elements combine.
    pub kind: FoldKind,
    /// Folded axes, outermost first; numbered on from the compute's `axes`.
    pub axes: Vec<Range>,
}

/// How a fold combines.
#[derive(Clone, Debug, PartialEq)]
pub enum FoldKind {
    /// Sum, any association; zero when empty.
    Sum,
    /// Product, any association; one when empty.
    Product,
    /// Greatest; minus infinity (i32: the least integer) when empty.
    Max,
    /// Least; infinity (i32: the greatest integer) when empty.
    Min,
    /// Or; false when empty.
    Any,
    /// And; true when empty.
    All,
    /// The index (value of the one folded axis) of the greatest element, the lowest on ties; zero when empty. The
    /// node's element is [`Element::Id`].
    ArgMax,
    /// In order, exactly: [`Expr::Accumulator`] starts as `init` (over the compute's axes) and becomes `body`.
    Ordered {
        /// The first value of the accumulator.
        init: Box<Expr>,
    },
}

/// A scalar expression. Its type follows from its parts; the validator checks it.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An f32 literal, held in f64 so that the f64 oracle reads it whole.
    Float(f64),
    /// An i32 literal.
    Int(i64),
    /// A bool literal.
    Bool(bool),
    /// An id literal.
    Id(u32),
    /// The value of an axis of the node's iteration space (i32), folded axes after the others.
    Axis(usize),
    /// The forest node's absolute depth in its session, from zero (i32).
    Here,
    /// One element of a tensor; as many indices as the tensor has axes. Indices are i32 or id expressions.
    Load {
        /// The tensor.
        node: NodeId,
        /// One index an axis.
        indices: Vec<Expr>,
    },
    /// One element of a history's row at an absolute depth of this path: the node's own row at `here`, an
    /// ancestor's before it, zero below depth zero. Never above `here`.
    History {
        /// The history.
        history: HistoryId,
        /// The depth (i32).
        depth: Box<Expr>,
        /// One index an axis of the row.
        indices: Vec<Expr>,
    },
    /// The accumulator of an ordered fold.
    Accumulator,
    /// One operand.
    Unary(Unary, Box<Expr>),
    /// Two operands of one type.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `if condition { then } else { otherwise }`; only the chosen arm is evaluated.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Operations of one operand. All but the last five take and give f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-x`, f32 or i32.
    Negate,
    /// Absolute value, f32 or i32.
    Absolute,
    /// e^x.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// `1 / sqrt(x)`.
    Rsqrt,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `x * sigmoid(x)`.
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    Gelu,
    /// `ln(1 + e^x)`, without overflow.
    Softplus,
    /// Greatest integer not above x, as f32.
    Floor,
    /// bool to bool.
    Not,
    /// i32 to f32, to the nearest.
    ToFloat,
    /// f32 to i32, towards zero, saturating; NaN gives zero.
    ToInt,
    /// id to i32.
    IdToInt,
    /// i32 to id; a negative value traps.
    IntToId,
}

/// Operations of two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// Sum; i32 wraps.
    Add,
    /// Difference; i32 wraps.
    Subtract,
    /// Product; i32 wraps.
    Multiply,
    /// Quotient; i32 rounds towards minus infinity and traps on zero.
    Divide,
    /// Remainder of the floor division, with the divisor's sign, i32 only; traps on zero.
    Remainder,
    /// The lesser; with one NaN, the other.
    Min,
    /// The greater; with one NaN, the other.
    Max,
    /// Equality, any type; gives bool like the comparisons after it.
    Equal,
    /// Inequality.
    NotEqual,
    /// Less, f32 or i32.
    Less,
    /// Less or equal.
    LessEqual,
    /// And, bool; the right side is evaluated only when needed.
    And,
    /// Or, bool; the right side is evaluated only when needed.
    Or,
}

/// Operand roundings that the source permits in a fold (`compute` lists); f32 is always allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Permissions {
    /// Operands may round to bf16.
    pub bf16: bool,
    /// Operands may round to f16.
    pub f16: bool,
    /// Operands may round to tf32.
    pub tf32: bool,
    /// Operands may round to fp8.
    pub fp8: bool,
    /// An activation may round to 8-bit blocks.
    pub q8: bool,
}

/// A value handed in from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Its name in the source.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub element: Element,
    /// Whether every forest node has its own (a token), or all share one (an argument of `fn main`, a value that a
    /// loop's body captures from around it).
    pub per_node: bool,
}

/// A weight: the same for every node and every run.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its path in the model, such as `layers.3.qkv` or `embed`. The same name is the same weight in every step.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// The type of its elements: f32 (stored in any format), or i32.
    pub element: Element,
}

/// A value carried along a path.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The call path and layer that own it; unique within the graph.
    pub key: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub element: Element,
    /// Its value before a session's first node: a node that depends on no per-node input, state or history.
    pub initial: NodeId,
    /// Its outgoing value; the state's own node when the step leaves it unchanged.
    pub next: NodeId,
}

/// A list along a path to which each node adds one row.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The call path and layer that own it; unique within the graph.
    pub key: String,
    /// The row this node adds; its shape is the row's shape.
    pub row: NodeId,
}

/// A value that somebody outside may read.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its name in the source (`logits`), or `result`.
    pub name: String,
    /// The tensor, all axes fixed.
    pub node: NodeId,
    /// Where the program gives it, a byte range in its text; the node may have been made elsewhere.
    pub span: Option<(usize, usize)>,
}

/// A sequential loop: its body runs along one chain of `trips` forest nodes, its carries are the body's states.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The body. `here` counts turns from zero. Its inputs are all shared: the captured values, in order.
    pub body: Graph,
    /// How many turns.
    pub trips: usize,
    /// Outer nodes, one for each shared input of the body, in the order of the body's inputs.
    pub captured: Vec<NodeId>,
    /// The value of the loop's variable in the first turn; turn `i` sees `first + i`. The body reads it as
    /// `here + first`.
    pub first: i64,
    /// What the loop gives.
    pub results: Vec<ScanResult>,
}

/// One result of a loop.
#[derive(Clone, Debug, PartialEq)]
pub enum ScanResult {
    /// The emitted values in order, `[capacity, ...value]`; rows past the emitted ones are zero.
    Emitted {
        /// The body's output that is emitted.
        output: usize,
        /// The body's bool output that says whether this turn emits; always, when absent.
        condition: Option<usize>,
        /// Rows of the result: the proven count, or the declared bound.
        capacity: usize,
    },
    /// How many rows the emission at the given place in `results` has, i32 scalar.
    Length {
        /// The place of the emission.
        emission: usize,
    },
    /// The value of a carry after the last turn.
    Carry(StateId),
}

/// The sealed graph of one step, loop body or function. Built by [`crate::builder::GraphBuilder`], checked by
/// [`crate::validate`], never changed: rewrites make a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) inputs: Vec<Input>,
    pub(crate) params: Vec<Param>,
    pub(crate) states: Vec<State>,
    pub(crate) histories: Vec<History>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<Output>,
}

impl Graph {
    /// The step's or function's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Values handed in.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }
    /// Weights.
    pub fn params(&self) -> &[Param] {
        &self.params
    }
    /// Values carried along a path.
    pub fn states(&self) -> &[State] {
        &self.states
    }
    /// Lists along a path.
    pub fn histories(&self) -> &[History] {
        &self.histories
    }
    /// Tensors, each after everything it loads.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
    /// Values that may be read.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }
    /// One tensor.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
    /// All node ids in order.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }
    /// The iteration space of a tensor's result, outermost first.
    pub fn axes(&self, id: NodeId) -> Vec<Range> {
        let fixed = |shape: &[usize]| shape.iter().map(|&n| Range::Fixed(n)).collect();
        match &self.node(id).kind {
            NodeKind::Input(input) => fixed(&self.inputs[input.index()].shape),
            NodeKind::Param(param) => fixed(&self.params[param.index()].shape),
            NodeKind::State(state) => fixed(&self.states[state.index()].shape),
            NodeKind::Constant(constant) => fixed(&constant.shape),
            NodeKind::Compute(compute) => compute.axes.clone(),
            NodeKind::Top { operand, k, .. } => {
                let mut axes = self.axes(*operand);
                axes.pop();
                axes.push(Range::Fixed(*k));
                axes
            }
            NodeKind::Scan(_) => Vec::new(),
            NodeKind::ScanResult { scan, result } => match &self.node(*scan).kind {
                NodeKind::Scan(scan) => scan.result_axes(*result),
                _ => Vec::new(),
            },
        }
    }
    /// The extents of a tensor, when all its axes are fixed.
    pub fn shape(&self, id: NodeId) -> Option<Vec<usize>> {
        self.axes(id)
            .iter()
            .map(|range| match range {
                Range::Fixed(n) => Some(*n),
                Range::Between { .. } => None,
            })
            .collect()
    }
}

impl Scan {
    fn result_axes(&self, result: usize) -> Vec<Range> {
        match &self.results[result] {
            ScanResult::Emitted { output, capacity, .. } => {
                let mut axes = vec![Range::Fixed(*capacity)];
                axes.extend(self.body.axes(self.body.outputs[*output].node));
                axes
            }
            ScanResult::Length { .. } => Vec::new(),
            ScanResult::Carry(state) => {
                self.body.states[state.index()].shape.iter().map(|&n| Range::Fixed(n)).collect()
            }
        }
    }
}

/// A model: one graph a named step. Steps share weights by name and live in one snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelGraph {
    /// The model's name in its source.
    pub name: String,
    /// Its steps, `main` first when there is one.
    pub steps: Vec<Graph>,
}

impl ModelGraph {
    /// The step of that name.
    pub fn step(&self, name: &str) -> Option<&Graph> {
        self.steps.iter().find(|graph| graph.name == name)
    }
}
