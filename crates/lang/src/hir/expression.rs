//! Expressions: what has a value.

use super::{
    Arithmetic, Axis, Binary, CallSite, ConstId, Conversion, FieldId, FoldKind, ForLayers, FunctionId,
    HistoryId, LocalId, ParamId, Scan, SingleLayerId, StateId, Statement, StaticId, Type, Unary,
};
use crate::size::Size;
use crate::source::Span;

/// An expression with its type and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Type,
    /// Where it is.
    pub span: Span,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An f32 literal, as written.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// An integer literal, a size symbol, or sums, differences, products and floor quotients of them. Its type is i32.
    Size(Size),
    /// A bound value.
    Local(LocalId),
    /// The forest node's absolute depth in its session, i32. Only in a step, outside `scan`.
    Here,
    /// A weight of the function's model.
    Param(ParamId),
    /// A constant of the function's model, known before planning.
    Const(ConstId),
    /// A static value of the function's model, known before planning.
    Static(StaticId),
    /// A layer outside the list. Its type is a layer.
    SingleLayer(SingleLayerId),
    /// A field of a layer; whether it is a weight, a constant or a static says its declaration.
    LayerField {
        /// The layer: a local or a [`ExprKind::SingleLayer`].
        layer: Box<Expr>,
        /// The field.
        field: FieldId,
    },
    /// The incoming value of a state: the parent's outgoing one.
    State(StateId),
    /// The outgoing value of a state: what this function assigns to it anywhere in its body, else the incoming one.
    StateNext(StateId),
    /// A row of a history at an absolute depth (i32): the node's own at `here`, an ancestor's before, zero (false) below
    /// depth 0. Above `here` it traps; what is provably above is refused by the checker. Indices may be fewer than the
    /// row's dimensions.
    HistoryRead {
        /// The history.
        history: HistoryId,
        /// The depth.
        depth: Box<Expr>,
        /// i32 or id.
        indices: Vec<Expr>,
    },
    /// A change of type without loss of meaning.
    Convert(Conversion, Box<Expr>),
    /// One scalar operand.
    Unary(Unary, Box<Expr>),
    /// Two scalar operands of one type. `and` and `or` evaluate the right side only when needed.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `if`. Only the chosen arm is evaluated. Arms have one type: scalar, array or tuple.
    If {
        /// A bool.
        condition: Box<Expr>,
        /// When true.
        then: Box<Expr>,
        /// When false.
        otherwise: Box<Expr>,
        /// The condition depends on literals, sizes, statics, scalar consts, static parameters and `let`s of these alone:
        /// the arm is chosen before planning, and an arm not chosen leaves no trace (it may hold step calls).
        is_static: bool,
    },
    /// A block: statements in order, then the result.
    Block {
        /// Statements.
        statements: Vec<Statement>,
        /// The value.
        result: Box<Expr>,
    },
    /// Several results.
    Tuple(Vec<Expr>),
    /// An array: for every point of the axes, the body, a scalar or an array (whose dimensions then follow the axes).
    /// Its type is [`Type::Array`] when every range is [`Range::Fixed`], else [`Type::Ragged`] (with a scalar body).
    Each {
        /// The axes, outermost first.
        axes: Vec<Axis>,
        /// A scalar or an array.
        body: Box<Expr>,
    },
    /// A fold in any order.
    Fold {
        /// How values combine.
        kind: FoldKind,
        /// The axes.
        axes: Vec<Axis>,
        /// A scalar.
        body: Box<Expr>,
    },
    /// A fold in order, exactly: the accumulator starts as `init` and becomes `body` at every point.
    OrderedFold {
        /// The axes, the last one the fastest.
        axes: Vec<Axis>,
        /// The accumulator, a scalar of the type of `init`.
        accumulator: LocalId,
        /// Its first value, evaluated outside the axes.
        init: Box<Expr>,
        /// Its next value.
        body: Box<Expr>,
    },
    /// Elements of an array; fewer indices than dimensions give a subarray. Nested indexing is merged. Never of a
    /// history (see [`ExprKind::HistoryRead`]). Out of range traps, unless it was proven and refused.
    Index {
        /// An array, or a ragged array with as many indices as axes.
        base: Box<Expr>,
        /// i32 or id, at least one.
        indices: Vec<Expr>,
    },
    /// A call of a function.
    Call(Call),
    /// The `count` greatest elements along the last axis, greatest first, ties to the lower index. Its type is the tuple
    /// (values f32, indices i32), both of the operand's shape with the last dimension replaced by `count`.
    Top {
        /// How many.
        count: Size,
        /// An f32 array.
        operand: Box<Expr>,
    },
    /// A sequential loop.
    Scan(Box<Scan>),
    /// The loop over a model's layers, in order.
    ForLayers(Box<ForLayers>),
    /// A choice by a layer's kind, made before planning. One arm for every kind, in the order of [`Layers::kinds`];
    /// inside an arm the layer's local has that kind's type.
    MatchKind {
        /// A layer local whose kind is not yet known.
        layer: LocalId,
        /// Arms of one type.
        arms: Vec<Expr>,
    },
    /// Folds inside, also those of functions called inside, may round operands to the listed types. A nested list
    /// replaces this one.
    Compute {
        /// The list; empty for `compute f32`.
        arithmetic: Vec<Arithmetic>,
        /// The body.
        body: Box<Expr>,
    },
}

/// A call. Sizes are in the caller's symbols.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function called.
    pub function: FunctionId,
    /// One size for each of [`Function::sizes`].
    pub sizes: Vec<Size>,
    /// One argument for each of [`Function::parameters`].
    pub arguments: Vec<Expr>,
    /// Which call of the caller this is.
    pub site: CallSite,
}
