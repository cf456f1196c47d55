//! The typed program: what the checker makes of a source text, and what lowering consumes.
//!
//! Names are resolved to ids, conversions are explicit, sizes of calls are solved, elementwise arithmetic on arrays is
//! written out as [`ExprKind::Each`]. Nothing is left to infer: a consumer that inlines calls and substitutes sizes
//! needs no type rules. A typed program comes only from [`crate::compile`] and holds every rule of `docs/language.md`
//! that can be checked before sizes are known.
//!
//! Start reading at [`Program`], then [`Function`], [`ExprKind`] and [`Statement`].

use crate::size::{Size, SizeSymbol};
use crate::source::{Source, Span};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// The place in its list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
ids! {
    /// A function, by its place in [`Program::functions`].
    FunctionId;
    /// A model, by its place in [`Program::models`].
    ModelId;
    /// A value bound once in a function, by its place in [`Function::locals`].
    LocalId;
    /// A state of a function, by its place in [`Function::states`].
    StateId;
    /// A history of a function, by its place in [`Function::histories`].
    HistoryId;
    /// A call in a function's body, by its place in [`Function::calls`].
    CallSite;
    /// A weight of a model, by its place in [`Model::params`].
    ParamId;
    /// A constant of a model, by its place in [`Model::consts`].
    ConstId;
    /// A static value of a model, by its place in [`Model::statics`].
    StaticId;
    /// A kind of a model's layers, by its place in [`Layers::kinds`].
    KindId;
    /// A layer outside the list, by its place in [`Model::single_layers`].
    SingleLayerId;
}

/// A whole source text, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The text, for messages.
    pub source: Source,
    /// Every size symbol of the program: functions' size parameters and models' dims.
    pub symbols: Vec<Symbol>,
    /// Every function, also those inside models, and every step of a model. No function calls itself, directly or
    /// through others.
    pub functions: Vec<Function>,
    /// The models.
    pub models: Vec<Model>,
}

/// What is known of a size symbol. Its value is an integer of at least 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub span: Span,
}

/// A function, or a model's step.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name. Unique among the functions of the top level, or of one model.
    pub name: String,
    /// Where the name is declared.
    pub span: Span,
    /// Whether it is a `step fn` or a model's `step`: runs at every node of a forest and may own state.
    pub is_step: bool,
    /// The model it is declared in: it may use that model's dims, params, consts, statics and layers.
    pub model: Option<ModelId>,
    /// Its size parameters, in the order of [`Call::sizes`].
    pub sizes: Vec<SizeSymbol>,
    /// Its parameters, in the order of [`Call::arguments`].
    pub parameters: Vec<Parameter>,
    /// What it gives: a scalar, an array, or a tuple of these.
    pub result: Type,
    /// The names of the results of a model's step, one an element of `result` (or one alone); else empty.
    pub result_names: Vec<String>,
    /// Everything bound in it: parameters, `let`s, axes, carries, accumulators, layers.
    pub locals: Vec<Local>,
    /// States it declares.
    pub states: Vec<State>,
    /// Histories it declares.
    pub histories: Vec<History>,
    /// Calls in its body, in the order of the text.
    pub calls: Vec<CallInfo>,
    /// What it is.
    pub body: Expr,
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// The local that holds it; the local's type is the parameter's type.
    pub local: LocalId,
    /// Declared `static`: arguments are known before planning, and an `if` on it alone is a static one.
    pub is_static: bool,
}

/// A value bound once.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// Its name; several locals may share one. Made by the checker when it starts with `$`.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where it is bound.
    pub span: Span,
}

/// A value carried along a path.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Its name, unique among the function's states and histories.
    pub name: String,
    /// A scalar or an array.
    pub ty: Type,
    /// Where it is declared.
    pub span: Span,
}

/// A list along a path to which each node adds one row.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Its name, unique among the function's states and histories.
    pub name: String,
    /// The type of one row: a scalar or an array.
    pub row: Type,
    /// Where it is declared.
    pub span: Span,
}

/// What is known of a call site.
#[derive(Clone, Debug, PartialEq)]
pub struct CallInfo {
    /// The function called.
    pub function: FunctionId,
    /// How many calls of the same function come before it in this function's text: a name for keys of states that
    /// unrelated edits leave alone.
    pub ordinal: u32,
    /// The call.
    pub span: Span,
}

/// The type of a scalar or of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A 32-bit float.
    F32,
    /// A 32-bit signed integer.
    I32,
    /// True or false.
    Bool,
    /// A token's number.
    Id,
}

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// One value.
    Scalar(Scalar),
    /// An array of one dimension or more; the last one is the fastest.
    Array(Scalar, Vec<Size>),
    /// An array with a range that is not `0 .. size` among its axes, as [`ExprKind::Each`] made it. It is only indexed,
    /// with as many indices as axes, each the absolute value of its axis and inside its range (else a trap); it is not
    /// passed, returned or stored. The ranges name the axes' locals.
    Ragged(Scalar, Vec<Axis>),
    /// Several results; elements are scalars or arrays.
    Tuple(Vec<Type>),
    /// A layer of a model: of that kind, or of any kind when `kind` is absent (only the common fields are seen).
    Layer {
        /// The model.
        model: ModelId,
        /// The kind.
        kind: Option<KindId>,
    },
}

/// A variable of an iteration space.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The variable, i32.
    pub local: LocalId,
    /// Its values. May use earlier axes of the same list.
    pub range: Range,
}

/// The values of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Range {
    /// `0 .. size`.
    Fixed(Size),
    /// `start .. end`, the end exclusive, i32 expressions; empty when `end <= start`.
    Between {
        /// The first value.
        start: Box<Expr>,
        /// One past the last value.
        end: Box<Expr>,
    },
    /// `0 ..= here`: every depth of the path. Only in a step.
    Path,
}

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
        /// The condition depends on literals, sizes and statics alone: the arm is chosen before planning, and an arm
        /// not chosen leaves no trace (it may hold step calls).
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

/// A change of type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// i32 to the nearest f32.
    IntToFloat,
    /// f32 to i32, towards zero, saturating; NaN gives 0.
    FloatToInt,
    /// id to i32.
    IdToInt,
    /// i32 to id; a negative value traps.
    IntToId,
}

/// Operations of one operand: f32 where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-x`, f32 or i32.
    Negate,
    /// `!x`, bool.
    Not,
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
    /// `ln(1 + e^x)`.
    Softplus,
    /// The greatest whole number not above x, as f32.
    Floor,
}

/// Operations of two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// f32 or i32 (wraps).
    Add,
    /// f32 or i32 (wraps).
    Subtract,
    /// f32 or i32 (wraps).
    Multiply,
    /// f32, or i32 rounding towards minus infinity (zero traps).
    Divide,
    /// i32, with the divisor's sign: `a - (a / b) * b` (zero traps).
    Remainder,
    /// The lesser, f32 or i32; with one NaN, the other.
    Min,
    /// The greater, f32 or i32; with one NaN, the other.
    Max,
    /// Any scalar type; gives bool, as do the five after it.
    Equal,
    /// Any scalar type.
    NotEqual,
    /// f32 or i32.
    Less,
    /// f32 or i32.
    LessEqual,
    /// f32 or i32.
    Greater,
    /// f32 or i32.
    GreaterEqual,
    /// bool.
    And,
    /// bool.
    Or,
}

/// How a fold in any order combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoldKind {
    /// f32 or i32; 0 when empty.
    Sum,
    /// f32 or i32; 1 when empty.
    Product,
    /// f32 or i32; minus infinity or the least integer when empty.
    Max,
    /// f32 or i32; infinity or the greatest integer when empty.
    Min,
    /// bool; false when empty.
    Any,
    /// bool; true when empty.
    All,
    /// The value of the one axis where an f32 body is greatest, the lowest on ties, as an id; 0 when empty.
    /// `argmax(x)` is written out as this.
    ArgMax,
}

/// A type that a fold's operands may round to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arithmetic {
    /// bfloat16.
    Bf16,
    /// IEEE half.
    F16,
    /// 19-bit tensor float.
    Tf32,
    /// 8-bit float.
    Fp8,
    /// Activations as 8-bit integers with a scale a block.
    Q8,
}

/// What a block holds before its result.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `let`.
    Let {
        /// What is bound.
        pattern: Pattern,
        /// To what.
        value: Expr,
    },
    /// `state s: T = init;`. A scalar `init` of an array state fills it. `init` depends on no input, state or history.
    State {
        /// The state.
        state: StateId,
        /// Its value before a session's first node.
        init: Expr,
    },
    /// `s' = value;`, at most once for each state, in the outermost block of the function's body.
    Assign {
        /// The state.
        state: StateId,
        /// Its outgoing value.
        value: Expr,
    },
    /// `history h = row;`: the node's own row.
    History {
        /// The history.
        history: HistoryId,
        /// The row.
        row: Expr,
    },
}

/// What a `let` binds.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// One name.
    Local(LocalId),
    /// The parts of a tuple.
    Tuple(Vec<Pattern>),
    /// `_`.
    Ignore,
}

/// `name = init` of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Carry {
    /// Its value in a turn: a scalar or an array.
    pub local: LocalId,
    /// Its value in the first turn, evaluated outside the loop.
    pub init: Expr,
}

/// `scan[index in range](carries) { ... }`. Step calls in it live along its turns. Its value: with an emission, what
/// [`Emission`] says; else the last value of the carry, or the tuple of the carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The loop's variable, i32.
    pub index: LocalId,
    /// Its value in the first turn.
    pub first: Size,
    /// How many turns; not below zero.
    pub turns: Size,
    /// The carries.
    pub carries: Vec<Carry>,
    /// `let`s of a turn, in order.
    pub statements: Vec<Statement>,
    /// What a turn emits.
    pub emission: Option<Emission>,
    /// The carries' values in the next turn, one for each.
    pub next: Vec<Expr>,
}

/// `emit value`, `emit_if(condition, value)` or `emit_if[bound](condition, value)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Emission {
    /// Emits only when true (a bool); always, when absent.
    pub condition: Option<Expr>,
    /// A scalar or an array.
    pub value: Expr,
    /// How many are emitted.
    pub count: EmissionCount,
}

/// How many values a scan emits.
#[derive(Clone, Debug, PartialEq)]
pub enum EmissionCount {
    /// Exactly this many. The scan's value is the array `[count, ...value]`.
    Proven(Size),
    /// At most this many, else a trap. The scan's value is the tuple (`[bound, ...value]` with zeros at the end, how
    /// many as i32).
    Declared(Size),
}

/// `for layer in layers(carries) { ... next ... }`. Its value: the carry, or the tuple of the carries, after the last
/// layer.
#[derive(Clone, Debug, PartialEq)]
pub struct ForLayers {
    /// The layer of a turn.
    pub layer: LocalId,
    /// The carries, at least one.
    pub carries: Vec<Carry>,
    /// `let`s of a turn, in order.
    pub statements: Vec<Statement>,
    /// The carries' values for the next layer, one for each.
    pub next: Vec<Expr>,
}

/// A model: sizes, values and weights bound from a checkpoint, and steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub span: Span,
    /// Its sizes.
    pub dims: Vec<SizeSymbol>,
    /// Values known before planning that choose between forms.
    pub statics: Vec<Static>,
    /// Weights.
    pub params: Vec<Param>,
    /// Numbers known before planning.
    pub consts: Vec<Const>,
    /// Its list of layers.
    pub layers: Option<Layers>,
    /// Layers outside the list.
    pub single_layers: Vec<SingleLayer>,
    /// Functions declared in it, steps included.
    pub functions: Vec<FunctionId>,
    /// Its named steps, in the order of the text.
    pub steps: Vec<FunctionId>,
}

/// `static name: bool;`.
#[derive(Clone, Debug, PartialEq)]
pub struct Static {
    /// Its name.
    pub name: String,
    /// Bool or I32.
    pub ty: Scalar,
    /// Where it is declared.
    pub span: Span,
}

/// `param name: type else other;`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// A scalar or an array, of f32 or i32.
    pub ty: Type,
    /// The param of the same type that stands in when the checkpoint has none; declared before this one.
    pub default: Option<ParamId>,
    /// Where it is declared.
    pub span: Span,
}

/// `const name: type;`.
#[derive(Clone, Debug, PartialEq)]
pub struct Const {
    /// Its name.
    pub name: String,
    /// A scalar (f32, i32 or bool) or an array of f32.
    pub ty: Type,
    /// Where it is declared.
    pub span: Span,
}

/// `layers[count] { ... }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// How many.
    pub count: Size,
    /// Fields that every layer has.
    pub common: Vec<Field>,
    /// Kinds; none when every layer has the common fields alone.
    pub kinds: Vec<Kind>,
    /// Where it is declared.
    pub span: Span,
}

/// `kind name { ... }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Its fields, besides the common ones; no name is in both.
    pub fields: Vec<Field>,
    /// Where it is declared.
    pub span: Span,
}

/// A field of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Weight, constant or static.
    pub role: FieldRole,
    /// Its type, by the rules of [`Param`], [`Const`] or [`Static`].
    pub ty: Type,
    /// Where it is declared.
    pub span: Span,
}

/// What a layer's field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldRole {
    /// A weight.
    Param,
    /// A number known before planning.
    Const,
    /// A value known before planning that chooses between forms.
    Static,
}

/// A field, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldId {
    /// In [`Layers::common`].
    Common(u32),
    /// In the fields of a kind.
    Kind(KindId, u32),
}

/// `layer name: kind;`: one more layer, outside the list.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleLayer {
    /// Its name; its weights are `name.field`.
    pub name: String,
    /// Its kind; absent when the model's layers have no kinds.
    pub kind: Option<KindId>,
    /// Where it is declared.
    pub span: Span,
}

impl Program {
    /// The function of the top level with that name, such as `main`.
    pub fn function(&self, name: &str) -> Option<FunctionId> {
        let place = self.functions.iter().position(|f| f.model.is_none() && f.name == name)?;
        Some(FunctionId(place as u32))
    }

    /// The name of a size symbol.
    pub fn symbol_name(&self, symbol: SizeSymbol) -> &str {
        self.symbols.get(symbol.0 as usize).map_or("?", |symbol| symbol.name.as_str())
    }

    /// A size as text.
    pub fn size_text(&self, size: &Size) -> String {
        size.display(&|symbol| self.symbol_name(symbol).to_string()).to_string()
    }
}

impl Function {
    /// One local.
    pub fn local(&self, id: LocalId) -> &Local {
        &self.locals[id.index()]
    }
}

impl Model {
    /// A field of its layers.
    pub fn field(&self, id: FieldId) -> Option<&Field> {
        let layers = self.layers.as_ref()?;
        match id {
            FieldId::Common(place) => layers.common.get(place as usize),
            FieldId::Kind(kind, place) => layers.kinds.get(kind.index())?.fields.get(place as usize),
        }
    }
}

impl Type {
    /// The f32 scalar.
    pub const F32: Type = Type::Scalar(Scalar::F32);
    /// The i32 scalar.
    pub const I32: Type = Type::Scalar(Scalar::I32);
    /// The bool scalar.
    pub const BOOL: Type = Type::Scalar(Scalar::Bool);
    /// The id scalar.
    pub const ID: Type = Type::Scalar(Scalar::Id);

    /// The scalar or element type of a scalar or an array.
    pub fn element(&self) -> Option<Scalar> {
        match self {
            Type::Scalar(scalar) | Type::Array(scalar, _) | Type::Ragged(scalar, _) => Some(*scalar),
            Type::Tuple(_) | Type::Layer { .. } => None,
        }
    }

    /// The dimensions of an array; none for a scalar.
    pub fn dims(&self) -> &[Size] {
        match self {
            Type::Array(_, dims) => dims,
            _ => &[],
        }
    }

    /// A scalar when there are no dimensions, else an array.
    pub fn of(element: Scalar, dims: Vec<Size>) -> Type {
        if dims.is_empty() { Type::Scalar(element) } else { Type::Array(element, dims) }
    }
}
