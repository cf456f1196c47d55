//! The typed program: what the checker makes of a source text, and what lowering consumes.
//!
//! Names are resolved to ids, conversions are explicit, sizes of calls are solved, elementwise arithmetic on arrays is
//! written out as [`ExprKind::Each`]. Nothing is left to infer: a consumer that inlines calls and substitutes sizes
//! needs no type rules. A typed program comes only from [`crate::compile`] and holds every rule of `docs/language.md`
//! that can be checked before sizes are known.
//!
//! Start reading at [`Program`], then [`Function`], [`ExprKind`] and [`Statement`].

mod expression;
mod model;
mod operations;
mod statement;

pub use expression::*;
pub use model::*;
pub use operations::*;
pub use statement::*;

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
    /// `start .. end` or `start ..= end`, i32 expressions; empty when no value lies between.
    Between {
        /// The first value.
        start: Box<Expr>,
        /// One past the last value, or the last value when `inclusive`.
        end: Box<Expr>,
        /// Whether `end` belongs to the range. Not the same as an end one greater, which may be no i32.
        inclusive: bool,
    },
    /// `0 ..= here`: every depth of the path. Only in a step.
    Path,
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
