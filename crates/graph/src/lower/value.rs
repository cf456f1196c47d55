//! What an expression of the program is while it is lowered.

use fiddlehead_lang::hir::KindId;

use crate::ir::*;

/// The value of an expression. Scalars in it mention the axes around them by the frame's variables: `Expr::Axis(v)`
/// is variable `v`, whatever node it ends up in.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// One element, not yet a node.
    Scalar(Expr),
    /// An array that exists, or part of one.
    Array(View),
    /// A tensor with a dependent axis: it takes `rank` more indices at once.
    Ragged { node: NodeId, prefix: Vec<Expr>, rank: usize },
    /// Several results.
    Tuple(Vec<Value>),
    /// A layer of the model.
    Layer(LayerValue),
}

/// The elements of `base` whose first indices are `prefix`.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub base: Base,
    pub prefix: Vec<Expr>,
    /// The extents of the axes that are left.
    pub shape: Vec<usize>,
}

/// What a view looks at.
#[derive(Clone, Debug)]
pub(super) enum Base {
    Node(NodeId),
    /// The row at a depth.
    History(HistoryId, Expr),
}

/// A layer: where its fields are found.
#[derive(Clone, Debug)]
pub(super) struct LayerValue {
    /// `layers.3`, or the name of a single layer.
    pub path: String,
    pub kind: Option<KindId>,
    pub single: bool,
}

impl View {
    /// A whole tensor of that shape.
    pub fn whole(node: NodeId, shape: Vec<usize>) -> View {
        View { base: Base::Node(node), prefix: Vec::new(), shape }
    }

    /// The part with these next indices: a scalar when no axis is left.
    pub fn at(&self, indices: Vec<Expr>) -> Value {
        let taken = indices.len();
        let mut prefix = self.prefix.clone();
        prefix.extend(indices);
        if taken < self.shape.len() {
            let shape = self.shape[taken..].to_vec();
            return Value::Array(View { base: self.base.clone(), prefix, shape });
        }
        Value::Scalar(match &self.base {
            Base::Node(node) => Expr::Load { node: *node, indices: prefix },
            Base::History(history, depth) => {
                Expr::History { history: *history, depth: Box::new(depth.clone()), indices: prefix }
            }
        })
    }
}

/// Whether a scalar is so plain that repeating it costs nothing: a literal, one load, or index arithmetic.
pub(super) fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Float(_) | Expr::Bool(_) | Expr::Id(_) => true,
        Expr::Load { indices, .. } => indices.iter().all(is_plain),
        Expr::History { depth, indices, .. } => is_plain(depth) && indices.iter().all(is_plain),
        Expr::Binary(Binary::Less | Binary::LessEqual | Binary::Equal | Binary::NotEqual, left, right) => {
            is_index(left) && is_index(right)
        }
        other => is_index(other),
    }
}

/// Whether a scalar is an integer made of axes, literals and `here` alone.
fn is_index(expr: &Expr) -> bool {
    match expr {
        Expr::Int(_) | Expr::Axis(_) | Expr::Here => true,
        Expr::Unary(Unary::Negate, operand) => is_index(operand),
        Expr::Binary(op, left, right) => {
            let arithmetic = matches!(
                op,
                Binary::Add
                    | Binary::Subtract
                    | Binary::Multiply
                    | Binary::Divide
                    | Binary::Remainder
                    | Binary::Min
                    | Binary::Max
            );
            arithmetic && is_index(left) && is_index(right)
        }
        _ => false,
    }
}

/// How many parts an expression has.
pub(super) fn length(expr: &Expr) -> usize {
    let mut count = 0;
    expr.visit(&mut |_| count += 1);
    count
}
