//! A node or expression as bytes: equal bytes exactly when the structure is equal, floats compared by their bits.
//! Operands of operations that commute exactly are put in one order first, so `a * b` and `b * a` are equal.

use crate::ir::*;

/// Appends the bytes of an expression.
pub(crate) fn expression(expr: &Expr, out: &mut Vec<u8>) {
    let list = |indices: &[Expr], out: &mut Vec<u8>| {
        number(indices.len(), out);
        indices.iter().for_each(|index| expression(index, out));
    };
    match expr {
        Expr::Float(value) => tagged(0, &value.to_bits().to_le_bytes(), out),
        Expr::Int(value) => tagged(1, &value.to_le_bytes(), out),
        Expr::Bool(value) => tagged(2, &[u8::from(*value)], out),
        Expr::Id(value) => tagged(3, &value.to_le_bytes(), out),
        Expr::Axis(axis) => {
            out.push(4);
            number(*axis, out);
        }
        Expr::Here => out.push(5),
        Expr::Load { node, indices } => {
            tagged(6, &node.0.to_le_bytes(), out);
            list(indices, out);
        }
        Expr::History { history, depth, indices } => {
            tagged(7, &history.0.to_le_bytes(), out);
            expression(depth, out);
            list(indices, out);
        }
        Expr::Accumulator => out.push(8),
        Expr::Unary(op, operand) => {
            tagged(9, &[*op as u8], out);
            expression(operand, out);
        }
        Expr::Binary(op, left, right) => {
            tagged(10, &[*op as u8], out);
            let start = out.len();
            expression(left, out);
            if !commutes(*op) {
                return expression(right, out);
            }
            let mut second = Vec::new();
            expression(right, &mut second);
            if second.as_slice() < &out[start..] {
                second.extend_from_slice(&out[start..]);
                out.truncate(start);
            }
            out.extend_from_slice(&second);
        }
        Expr::Select(condition, then, otherwise) => {
            out.push(11);
            expression(condition, out);
            expression(then, out);
            expression(otherwise, out);
        }
    }
}

/// The bytes of a node, or none for a loop: loops are never compared.
pub(crate) fn node(node: &Node) -> Option<Vec<u8>> {
    let mut out = vec![node.element as u8];
    match &node.kind {
        NodeKind::Input(id) => tagged(0, &id.0.to_le_bytes(), &mut out),
        NodeKind::Param(id) => tagged(1, &id.0.to_le_bytes(), &mut out),
        NodeKind::Constant(constant) => {
            out.push(2);
            number(constant.shape.len(), &mut out);
            constant.shape.iter().for_each(|&n| number(n, &mut out));
            constant.values.iter().for_each(|value| out.extend(value.to_bits().to_le_bytes()));
        }
        NodeKind::State(id) => tagged(3, &id.0.to_le_bytes(), &mut out),
        NodeKind::Compute(compute) => {
            out.push(4);
            self::compute(compute, &mut out);
        }
        NodeKind::Top { operand, k, part } => {
            tagged(5, &operand.0.to_le_bytes(), &mut out);
            number(*k, &mut out);
            out.push(*part as u8);
        }
        NodeKind::Scan(_) => return None,
        NodeKind::ScanResult { scan, result } => {
            tagged(6, &scan.0.to_le_bytes(), &mut out);
            number(*result, &mut out);
        }
    }
    Some(out)
}

fn compute(compute: &Compute, out: &mut Vec<u8>) {
    number(compute.axes.len(), out);
    compute.axes.iter().for_each(|range| self::range(range, out));
    match &compute.fold {
        None => out.push(0),
        Some(fold) => {
            let kind = match &fold.kind {
                FoldKind::Sum => 1,
                FoldKind::Product => 2,
                FoldKind::Max => 3,
                FoldKind::Min => 4,
                FoldKind::Any => 5,
                FoldKind::All => 6,
                FoldKind::ArgMax => 7,
                FoldKind::Ordered { .. } => 8,
            };
            out.push(kind);
            if let FoldKind::Ordered { init } = &fold.kind {
                expression(init, out);
            }
            number(fold.axes.len(), out);
            fold.axes.iter().for_each(|range| self::range(range, out));
        }
    }
    match &compute.guard {
        None => out.push(0),
        Some(guard) => {
            out.push(1);
            expression(guard, out);
        }
    }
    expression(&compute.body, out);
    let allowed = compute.permissions;
    for flag in [allowed.bf16, allowed.f16, allowed.tf32, allowed.fp8, allowed.q8] {
        out.push(u8::from(flag));
    }
}

fn range(range: &Range, out: &mut Vec<u8>) {
    match range {
        Range::Fixed(n) => {
            out.push(0);
            number(*n, out);
        }
        Range::Between { start, end, inclusive, bound } => {
            out.push(1 + u8::from(*inclusive));
            expression(start, out);
            expression(end, out);
            number(bound.map_or(usize::MAX, |bound| bound), out);
        }
    }
}

fn commutes(op: Binary) -> bool {
    matches!(op, Binary::Add | Binary::Multiply | Binary::Equal | Binary::NotEqual)
}

fn tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn number(value: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value as u64).to_le_bytes());
}
