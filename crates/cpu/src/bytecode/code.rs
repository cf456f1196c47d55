//! What a program is once compiled: loops, and the instructions at each depth of them.

use fiddlehead_graph::HistoryId;

use super::build::Source;
use super::frame::Read;

/// Lanes of a vector register.
pub(super) const BLOCK: usize = 256;
/// Partial results of a fold along the lanes: element `i` of a loop's turn goes to partial `i % PARTIALS`, and the
/// partials meet in one fixed tree. A divisor of [`BLOCK`], so that blocks do not show in the result.
pub(super) const PARTIALS: usize = 64;

/// A register: a place in the table of pointers. Behind a scalar's pointer is one word, behind a vector's as many
/// words as the block has lanes.
pub(super) type Slot = u32;

/// What a lane instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    NegateFloat,
    AbsoluteFloat,
    Floor,
    Sqrt,
    Rsqrt,
    Exp,
    Log,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Silu,
    Gelu,
    Softplus,
    ToFloat,
    ToInt,
    NegateInteger,
    AbsoluteInteger,
    Not,
    AddFloat,
    SubtractFloat,
    MultiplyFloat,
    DivideFloat,
    MinFloat,
    MaxFloat,
    EqualFloat,
    NotEqualFloat,
    LessFloat,
    LessEqualFloat,
    AddInteger,
    SubtractInteger,
    MultiplyInteger,
    DivideInteger,
    RemainderInteger,
    MinInteger,
    MaxInteger,
    /// Of integers or bools.
    EqualWord,
    NotEqualWord,
    LessInteger,
    LessEqualInteger,
    And,
    Or,
    /// `if a { b } else { c }`.
    Select,
    /// The one word of scalar `a` in every lane.
    Fill,
    /// `a + lane`, of scalar `a`.
    Count,
    Copy,
}

/// Which operands of a float operation are vectors, the others being scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Both,
    Left,
    Right,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub op: Op,
    pub form: Form,
    /// Whether it works on a block, or on one word.
    pub vector: bool,
    pub to: Slot,
    pub a: Slot,
    pub b: Slot,
    pub c: Slot,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    Lane(Lane),
    Load(u32),
    Check(u32),
    Store(u32),
    /// Sets partials, or a block's accumulators, to the fold's empty value.
    FoldBegin(u32),
    FoldStep(u32),
    /// Reduces partials to the scalar result.
    FoldEnd(u32),
    /// Lane by lane: an ordered fold along the vector axis.
    Tail(u32),
    /// One word of a vector, in a tail.
    Extract {
        to: Slot,
        from: Slot,
    },
}

/// A number of elements: known, or from the box of a local tensor's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coefficient {
    Known(i64),
    /// `factor` times the stride of an axis of a local source (the output when none).
    Local {
        source: Option<usize>,
        axis: usize,
        factor: i64,
    },
    /// The sum of `count` coefficients from `first` on.
    Sum {
        first: u32,
        count: u32,
    },
}

/// `constant + Σ coefficient * slot`, in elements; coefficients by their place in [`Code::coefficients`].
#[derive(Clone, Debug, Default)]
pub(super) struct Offset {
    pub constant: u32,
    pub terms: Vec<(u32, Slot)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// One element.
    One,
    /// Consecutive elements.
    Contiguous,
    /// Elements a lane's step apart.
    Strided,
    /// Any elements.
    Gathered,
}

#[derive(Clone, Debug)]
pub(super) struct Load {
    pub source: usize,
    pub pattern: Pattern,
    pub to: Slot,
    pub offset: Offset,
    /// The coefficient that is a lane's step, when there is one.
    pub step: Option<u32>,
    /// Vector indices and their coefficients.
    pub vectors: Vec<(u32, Slot)>,
    pub depth: Option<Depth>,
}

/// At which depth a history is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth {
    pub history: HistoryId,
    pub slot: Slot,
    pub vector: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CheckRule {
    Index { read: Read, axis: usize, low: Slot, high: Slot, inclusive: bool, id: bool },
    Depth { history: HistoryId },
    NonZero,
    NonNegative,
}

#[derive(Clone, Debug)]
pub(super) struct Check {
    pub rule: CheckRule,
    pub vector: bool,
    pub value: Slot,
    pub mask: Option<Slot>,
    pub to: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combine {
    SumFloat,
    /// A sum of products `a * b`, each rounded.
    SumOfProducts,
    ProductFloat,
    MaxFloat,
    MinFloat,
    SumInteger,
    ProductInteger,
    MaxInteger,
    MinInteger,
    Any,
    All,
    ArgMaxFloat,
    ArgMaxInteger,
}

#[derive(Clone, Debug)]
pub(super) struct FoldCode {
    pub combine: Combine,
    /// Partials along the lanes (true), or an accumulator a lane.
    pub along_lanes: bool,
    /// Partials or accumulators; [`PARTIALS`] or [`BLOCK`] words.
    pub accumulator: Slot,
    /// The second half of an arg-max: indices, -1 for none yet.
    pub indices: Slot,
    /// The folded element; a vector when `along_lanes`.
    pub a: Slot,
    /// The other factor of a product.
    pub b: Slot,
    /// Which of the factors are vectors.
    pub form: Form,
    /// The scalar that holds the folded axis's value (the block's first, when along the lanes).
    pub axis: Slot,
    /// The scalar result, when along the lanes.
    pub to: Slot,
}

/// An ordered fold along the vector axis.
#[derive(Clone, Debug)]
pub(super) struct TailCode {
    /// Per lane; ends by writing the accumulator. Empty when it is just `accumulator + addend`.
    pub instructions: Vec<Instruction>,
    pub axis: Slot,
    pub accumulator: Slot,
    pub addend: Slot,
}

#[derive(Clone, Debug)]
pub(super) struct Store {
    pub from: Slot,
    /// Whether a block is stored, or one word.
    pub vector: bool,
    /// Whether `from` is a scalar to be spread over the block.
    pub spread: bool,
    pub offset: Offset,
    pub step: Option<u32>,
    pub contiguous: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Known(i64),
    Slot(Slot),
    /// One more than the slot holds, which may be no i32.
    Past(Slot),
}

#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub low: Bound,
    pub high: Bound,
    /// The scalar that holds the axis's value, a block's first one.
    pub axis: Slot,
    pub vector: bool,
    /// `(times, by)` when it runs over the node's outermost axis: one value of that axis is `times / by` turns.
    pub outermost: Option<(usize, usize)>,
}

/// What happens inside the first loops: instructions, then the next loop, then more instructions.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub before: Vec<Instruction>,
    pub next: Option<Loop>,
    pub after: Vec<Instruction>,
    /// The next loop is skipped when this scalar is false.
    pub unless: Option<Slot>,
}

/// One window of a node's iteration space, compiled.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub sources: Vec<Source>,
    /// Where each slot's words lie in storage; none for those that point into sources.
    pub slots: Vec<Option<u32>>,
    /// Words of storage.
    pub storage: usize,
    /// Scalars, and vectors of one word, that never change.
    pub constants: Vec<(Slot, u32, bool)>,
    pub here: Option<Slot>,
    pub levels: Vec<Level>,
    pub loads: Vec<Load>,
    pub checks: Vec<Check>,
    pub stores: Vec<Store>,
    pub folds: Vec<FoldCode>,
    pub tails: Vec<TailCode>,
    pub coefficients: Vec<Coefficient>,
    /// A scalar, known before any loop, without which the whole output is zero.
    pub guard: Option<Slot>,
    /// `(stride, extent)` of the outermost axis, when the output's row is dense in memory.
    pub dense: Option<(usize, usize)>,
    /// Rough nanoseconds for one row.
    pub cost: f64,
}
