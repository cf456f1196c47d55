//! The syntax tree: what the parser makes of tokens, names unresolved.

use crate::hir::{Arithmetic, FieldRole, FoldKind};
use crate::source::Span;

/// A name with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub text: String,
    pub span: Span,
}

/// A whole text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct File {
    pub functions: Vec<Function>,
    pub models: Vec<Model>,
    /// Names of functions and models that could not be parsed; what is wrong with them was reported.
    pub broken: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    pub name: Name,
    pub role: FunctionRole,
    pub sizes: Vec<Name>,
    pub parameters: Vec<Parameter>,
    pub result: TypeExpr,
    /// Names of a model step's results; empty when the result is a plain type.
    pub result_names: Vec<Name>,
    pub body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunctionRole {
    /// `fn`
    Plain,
    /// `step fn`
    StepFunction,
    /// `step` in a model
    ModelStep,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub name: Name,
    pub is_static: bool,
    pub ty: TypeExpr,
}

/// A type as written: a word with dimensions, or a tuple.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypeExpr {
    pub kind: TypeKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypeKind {
    Named { word: Name, dims: Vec<Expr> },
    Tuple(Vec<TypeExpr>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub name: Name,
    pub dims: Vec<Name>,
    pub fields: Vec<Field>,
    pub layers: Vec<Layers>,
    pub single_layers: Vec<(Name, Name)>,
    pub functions: Vec<Function>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub role: FieldRole,
    pub name: Name,
    pub ty: TypeExpr,
    pub default: Option<Name>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layers {
    pub span: Span,
    pub count: Expr,
    pub common: Vec<Field>,
    pub kinds: Vec<(Name, Vec<Field>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// Levels of expressions below and including this one; bounded by the parser.
    pub height: u16,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    /// What could not be parsed; already reported.
    Error,
    Int(i64),
    Float(f64),
    Bool(bool),
    Name(String),
    /// `name'`
    Prime(Name),
    Field(Box<Expr>, Name),
    Unary(UnarySign, Box<Expr>),
    Binary(BinarySign, Box<Expr>, Box<Expr>),
    Index(Box<Expr>, Vec<Expr>),
    Call {
        callee: Name,
        sizes: Option<Vec<Expr>>,
        arguments: Vec<Expr>,
    },
    Tuple(Vec<Expr>),
    If {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    Block(Block),
    Each {
        axes: Vec<Axis>,
        body: Box<Expr>,
    },
    Fold {
        kind: FoldKind,
        axes: Vec<Axis>,
        body: Box<Expr>,
    },
    OrderedFold {
        axes: Vec<Axis>,
        carries: Vec<(Name, Expr)>,
        body: Box<Expr>,
    },
    Scan {
        axes: Vec<Axis>,
        carries: Vec<(Name, Expr)>,
        body: Block,
    },
    For {
        layer: Name,
        carries: Vec<(Name, Expr)>,
        body: Block,
    },
    Match {
        subject: Box<Expr>,
        arms: Vec<(Name, Expr)>,
    },
    Compute {
        arithmetic: Vec<Arithmetic>,
        body: Box<Expr>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnarySign {
    Minus,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinarySign {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub name: Name,
    pub range: AxisRange,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AxisRange {
    /// `path`
    Path(Span),
    /// `n`, meaning `0 .. n`
    Count(Expr),
    /// `a .. b`, or `a ..= b`
    Between { start: Expr, end: Expr, inclusive: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub statements: Vec<Statement>,
    pub result: Option<Box<Expr>>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub kind: StatementKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatementKind {
    Let { pattern: Pattern, value: Expr },
    State { name: Name, ty: TypeExpr, init: Expr },
    History { name: Name, row: Expr },
    Assign { name: Name, value: Expr },
    Emit { bound: Option<Expr>, condition: Option<Expr>, value: Expr },
    Next(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    Name(Name),
    Tuple(Vec<Pattern>, Span),
}
