//! Types, ranks, scopes and literal bounds of one expression.

use super::{Broken, Validator, expect, missing};
use crate::ir::*;

/// What an expression may mention.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// The node that the expression belongs to.
    pub reader: NodeId,
    /// How many axes exist.
    pub axes: usize,
    /// The type of the accumulator, inside an ordered fold.
    pub accumulator: Option<Element>,
}

/// The type of an expression, every rule inside it checked.
pub(crate) fn element_of(v: &Validator<'_>, expr: &Expr, scope: Scope) -> Result<Element, Broken> {
    match expr {
        Expr::Float(_) => Ok(Element::F32),
        Expr::Int(value) => match i32::try_from(*value) {
            Ok(_) => Ok(Element::I32),
            Err(_) => Err(("bounds", format!("{value} is no i32"))),
        },
        Expr::Bool(_) => Ok(Element::Bool),
        Expr::Id(_) => Ok(Element::Id),
        Expr::Axis(axis) if *axis < scope.axes => Ok(Element::I32),
        Expr::Axis(axis) => Err(("scope", format!("axis {axis} where {} exist", scope.axes))),
        Expr::Here => Ok(Element::I32),
        Expr::Accumulator => scope
            .accumulator
            .ok_or_else(|| ("scope", "an accumulator outside the body of an ordered fold".into())),
        Expr::Load { node, indices } => {
            v.earlier(*node)?;
            let loaded = &v.graph.nodes[node.index()];
            if matches!(loaded.kind, NodeKind::Scan(_)) {
                return Err(("scan", format!("{node} is a loop, only its results can be read")));
            }
            check_indices(v, &node.to_string(), &v.shapes[node.index()], indices, scope)?;
            Ok(loaded.element)
        }
        Expr::History { history, depth, indices } => {
            let number = history.index();
            let history = v.graph.histories.get(number).ok_or_else(|| missing("history", number))?;
            v.earlier(history.row)?;
            if history.row >= scope.reader {
                let detail =
                    format!("it reads `{}`, whose row {} comes no earlier", history.key, history.row);
                return Err(("order", detail));
            }
            expect("a depth", Element::I32, element_of(v, depth, scope)?)?;
            check_indices(v, &history.key, &v.shapes[history.row.index()], indices, scope)?;
            Ok(v.graph.nodes[history.row.index()].element)
        }
        Expr::Unary(op, operand) => unary(*op, element_of(v, operand, scope)?),
        Expr::Binary(op, left, right) => {
            binary(*op, element_of(v, left, scope)?, element_of(v, right, scope)?)
        }
        Expr::Select(condition, then, otherwise) => {
            expect("a condition", Element::Bool, element_of(v, condition, scope)?)?;
            let then = element_of(v, then, scope)?;
            expect("the other arm", then, element_of(v, otherwise, scope)?)?;
            Ok(then)
        }
    }
}

fn check_indices(
    v: &Validator<'_>,
    what: &str,
    shape: &[Option<usize>],
    indices: &[Expr],
    scope: Scope,
) -> Result<(), Broken> {
    if indices.len() != shape.len() {
        return Err((
            "rank",
            format!("{} indices into {what}, which has {} axes", indices.len(), shape.len()),
        ));
    }
    for (index, extent) in indices.iter().zip(shape) {
        match element_of(v, index, scope)? {
            Element::I32 | Element::Id => {}
            other => return Err(("type", format!("an index into {what} is {other:?}"))),
        }
        let literal = match index {
            Expr::Int(value) => Some(*value),
            Expr::Id(value) => Some(i64::from(*value)),
            _ => None,
        };
        if let (Some(value), Some(extent)) = (literal, extent)
            && (value < 0 || value >= *extent as i64)
        {
            return Err(("bounds", format!("index {value} into an axis of {extent} of {what}")));
        }
    }
    Ok(())
}

fn unary(op: Unary, operand: Element) -> Result<Element, Broken> {
    let (takes, gives) = match op {
        Unary::Negate | Unary::Absolute if operand == Element::I32 => return Ok(Element::I32),
        Unary::Not => (Element::Bool, Element::Bool),
        Unary::ToFloat => (Element::I32, Element::F32),
        Unary::ToInt => (Element::F32, Element::I32),
        Unary::IdToInt => (Element::Id, Element::I32),
        Unary::IntToId => (Element::I32, Element::Id),
        _ => (Element::F32, Element::F32),
    };
    if operand == takes { Ok(gives) } else { Err(("type", format!("{op:?} of {operand:?}"))) }
}

fn binary(op: Binary, left: Element, right: Element) -> Result<Element, Broken> {
    let wrong = || Err(("type", format!("{op:?} of {left:?} and {right:?}")));
    if left != right {
        return wrong();
    }
    let number = matches!(left, Element::F32 | Element::I32);
    match op {
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Min | Binary::Max
            if number =>
        {
            Ok(left)
        }
        Binary::Remainder if left == Element::I32 => Ok(left),
        Binary::Equal | Binary::NotEqual => Ok(Element::Bool),
        Binary::Less | Binary::LessEqual if number => Ok(Element::Bool),
        Binary::And | Binary::Or if left == Element::Bool => Ok(Element::Bool),
        _ => wrong(),
    }
}
