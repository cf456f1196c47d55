//! Which instruction computes an operation of the graph.

use fiddlehead_graph::{Binary, FoldKind, Unary};

use super::code::{Combine, Op};
use super::value::Type;

/// Whether the operation takes a scalar beside a vector.
pub(super) fn has_forms(op: Op) -> bool {
    matches!(
        op,
        Op::AddFloat | Op::SubtractFloat | Op::MultiplyFloat | Op::DivideFloat | Op::MinFloat | Op::MaxFloat
    )
}

pub(super) fn unary_op(op: Unary, ty: Type) -> Op {
    match (op, ty) {
        (Unary::Negate, Type::Integer) => Op::NegateInteger,
        (Unary::Absolute, Type::Integer) => Op::AbsoluteInteger,
        (Unary::Negate, _) => Op::NegateFloat,
        (Unary::Absolute, _) => Op::AbsoluteFloat,
        (Unary::Exp, _) => Op::Exp,
        (Unary::Log, _) => Op::Log,
        (Unary::Sqrt, _) => Op::Sqrt,
        (Unary::Rsqrt, _) => Op::Rsqrt,
        (Unary::Sin, _) => Op::Sin,
        (Unary::Cos, _) => Op::Cos,
        (Unary::Tanh, _) => Op::Tanh,
        (Unary::Sigmoid, _) => Op::Sigmoid,
        (Unary::Silu, _) => Op::Silu,
        (Unary::Gelu, _) => Op::Gelu,
        (Unary::Softplus, _) => Op::Softplus,
        (Unary::Floor, _) => Op::Floor,
        (Unary::Not, _) => Op::Not,
        (Unary::ToFloat, _) => Op::ToFloat,
        (Unary::ToInt, _) => Op::ToInt,
        // Ids are integers already.
        (Unary::IdToInt | Unary::IntToId, _) => Op::Copy,
    }
}

pub(super) fn binary_op(op: Binary, ty: Type) -> Op {
    let float = ty == Type::Float;
    match op {
        Binary::Add if float => Op::AddFloat,
        Binary::Subtract if float => Op::SubtractFloat,
        Binary::Multiply if float => Op::MultiplyFloat,
        Binary::Divide if float => Op::DivideFloat,
        Binary::Min if float => Op::MinFloat,
        Binary::Max if float => Op::MaxFloat,
        Binary::Equal if float => Op::EqualFloat,
        Binary::NotEqual if float => Op::NotEqualFloat,
        Binary::Less if float => Op::LessFloat,
        Binary::LessEqual if float => Op::LessEqualFloat,
        Binary::Add => Op::AddInteger,
        Binary::Subtract => Op::SubtractInteger,
        Binary::Multiply => Op::MultiplyInteger,
        Binary::Divide => Op::DivideInteger,
        Binary::Remainder => Op::RemainderInteger,
        Binary::Min => Op::MinInteger,
        Binary::Max => Op::MaxInteger,
        Binary::Equal => Op::EqualWord,
        Binary::NotEqual => Op::NotEqualWord,
        Binary::Less => Op::LessInteger,
        Binary::LessEqual => Op::LessEqualInteger,
        Binary::And => Op::And,
        Binary::Or => Op::Or,
    }
}

pub(super) fn combine(kind: &FoldKind, ty: Type) -> Combine {
    let float = ty == Type::Float;
    match kind {
        FoldKind::Sum if float => Combine::SumFloat,
        FoldKind::Product if float => Combine::ProductFloat,
        FoldKind::Max if float => Combine::MaxFloat,
        FoldKind::Min if float => Combine::MinFloat,
        FoldKind::ArgMax if float => Combine::ArgMaxFloat,
        FoldKind::Sum | FoldKind::Ordered { .. } => Combine::SumInteger,
        FoldKind::Product => Combine::ProductInteger,
        FoldKind::Max => Combine::MaxInteger,
        FoldKind::Min => Combine::MinInteger,
        FoldKind::Any => Combine::Any,
        FoldKind::All => Combine::All,
        FoldKind::ArgMax => Combine::ArgMaxInteger,
    }
}
