//! Folding of constants. No rule changes a bit of any value, in f32 or in f64, but one: a transcendental of a literal
//! is taken from f64, within the contract's 2 ulp. Nothing that can trap is dropped.

use super::affine::Affine;
use super::interval::{Interval, Surroundings};
use crate::ir::*;

/// What is known around an expression.
pub(crate) struct Simplifier<'a> {
    /// The graph that the expression loads from.
    pub graph: &'a Graph,
    /// The values of axes and of `here`.
    pub around: &'a Surroundings,
    /// The type of the accumulator, where there is one.
    pub accumulator: Element,
}

/// A graph with every expression simplified. `here` is known to lie in the interval given.
pub(crate) fn simplify(graph: &Graph, here: Interval) -> Graph {
    let mut result = graph.clone();
    for node in &mut result.nodes {
        match &mut node.kind {
            NodeKind::Compute(compute) => {
                *compute = simplify_compute(graph, compute, node.element, here);
            }
            NodeKind::Scan(scan) => {
                let turns = Interval::new(0, (scan.trips as i64 - 1).max(0));
                scan.body = simplify(&scan.body, turns);
            }
            _ => {}
        }
    }
    result
}

/// One tensor simplified.
pub(crate) fn simplify_compute(
    graph: &Graph,
    compute: &Compute,
    element: Element,
    here: Interval,
) -> Compute {
    let around = Surroundings::of(compute, here);
    let simplifier = Simplifier { graph, around: &around, accumulator: element };
    let mut result = compute.map_exprs(&mut |expr| simplifier.expr(expr).0);
    let fold_axes = result.fold.iter_mut().flat_map(|fold| &mut fold.axes);
    for range in result.axes.iter_mut().chain(fold_axes) {
        if let Range::Between { end, inclusive, .. } = range
            && *inclusive
            && let Some(past) = past(end, &around)
        {
            (*end, *inclusive) = (simplifier.expr(&past).0, false);
        }
        // Only an axis that starts at zero keeps its values when it becomes a fixed one.
        if let Range::Between { start: Expr::Int(0), end: Expr::Int(end), inclusive: false, .. } = range {
            *range = Range::Fixed((*end).max(0) as usize);
        }
    }
    match result.guard {
        Some(Expr::Bool(true)) => result.guard = None,
        Some(Expr::Bool(false)) => {
            result.body = zero(element);
            result.fold = None;
            result.guard = None;
        }
        _ => {}
    }
    result
}

/// The value after `last`, where it is an i32 for certain.
pub(crate) fn past(last: &Expr, around: &Surroundings) -> Option<Expr> {
    let sum = Affine::of(last).interval(around);
    let known = if sum.fits() { sum } else { around.interval(last) };
    (known.high < Interval::ALL.high).then(|| Expr::binary(Binary::Add, last.clone(), Expr::Int(1)))
}

fn zero(element: Element) -> Expr {
    match element {
        Element::F32 => Expr::Float(0.0),
        Element::I32 => Expr::Int(0),
        Element::Bool => Expr::Bool(false),
        Element::Id => Expr::Id(0),
    }
}

impl Simplifier<'_> {
    /// The simplest equal expression, and its type.
    pub fn expr(&self, expr: &Expr) -> (Expr, Element) {
        match expr {
            Expr::Float(_) => (expr.clone(), Element::F32),
            // `here` stays even where it has one value: `0 ..= here` is how a path is known.
            Expr::Int(_) | Expr::Axis(_) | Expr::Here => (expr.clone(), Element::I32),
            Expr::Bool(_) => (expr.clone(), Element::Bool),
            Expr::Id(_) => (expr.clone(), Element::Id),
            Expr::Accumulator => (Expr::Accumulator, self.accumulator),
            Expr::Load { node, .. } => {
                (expr.map_parts(&mut |part| self.expr(part).0), self.graph.node(*node).element)
            }
            Expr::History { history, .. } => {
                let row = self.graph.histories()[history.index()].row;
                (expr.map_parts(&mut |part| self.expr(part).0), self.graph.node(row).element)
            }
            Expr::Unary(op, operand) => {
                let (operand, element) = self.expr(operand);
                self.unary(*op, operand, element)
            }
            Expr::Binary(op, left, right) => {
                let (left, element) = self.expr(left);
                let (right, _) = self.expr(right);
                self.binary(*op, left, right, element)
            }
            Expr::Select(condition, then, otherwise) => self.select(condition, then, otherwise),
        }
    }

    fn select(&self, condition: &Expr, then: &Expr, otherwise: &Expr) -> (Expr, Element) {
        let (condition, _) = self.expr(condition);
        match condition {
            Expr::Bool(true) => self.expr(then),
            Expr::Bool(false) => self.expr(otherwise),
            Expr::Unary(Unary::Not, inner) => {
                let (then, element) = self.expr(then);
                (Expr::select(*inner, self.expr(otherwise).0, then), element)
            }
            condition => {
                let (then, element) = self.expr(then);
                let (otherwise, _) = self.expr(otherwise);
                (self.choice(condition, then, otherwise), element)
            }
        }
    }

    /// A choice between parts in their simplest form.
    pub fn choice(&self, condition: Expr, then: Expr, otherwise: Expr) -> Expr {
        if same(&then, &otherwise) && !self.may_trap(&condition) {
            then
        } else {
            Expr::select(condition, then, otherwise)
        }
    }

    /// The simplest form of an operation on an operand that is in its simplest form, and its type.
    pub fn unary(&self, op: Unary, operand: Expr, element: Element) -> (Expr, Element) {
        let result = match op {
            Unary::Not => Element::Bool,
            Unary::ToFloat => Element::F32,
            Unary::ToInt | Unary::IdToInt => Element::I32,
            Unary::IntToId => Element::Id,
            Unary::Negate | Unary::Absolute => element,
            _ => Element::F32,
        };
        let folded = match (op, &operand) {
            (Unary::Not, Expr::Bool(value)) => Some(Expr::Bool(!value)),
            (Unary::Not, Expr::Unary(Unary::Not, inner)) => Some((**inner).clone()),
            (Unary::ToFloat, Expr::Int(value)) => Some(Expr::Float(*value as f64)),
            (Unary::ToInt, Expr::Float(value)) => {
                Some(Expr::Int(i64::from(*value as i32))).filter(|_| *value as i32 == *value as f32 as i32)
            }
            (Unary::IdToInt, Expr::Id(value)) => i32::try_from(*value).ok().map(|v| Expr::Int(i64::from(v))),
            (Unary::IntToId, Expr::Int(value)) => u32::try_from(*value).ok().map(Expr::Id),
            (Unary::IntToId, Expr::Unary(Unary::IdToInt, inner)) => Some((**inner).clone()),
            (Unary::Negate, _) if element == Element::I32 => {
                Some(Affine::of(&operand).scaled(-1).into_expr())
            }
            (Unary::Negate, Expr::Unary(Unary::Negate, inner)) => Some((**inner).clone()),
            (Unary::Absolute, Expr::Int(value)) => Some(Expr::Int(i64::from((*value as i32).wrapping_abs()))),
            (_, Expr::Float(value)) => float_unary(op, *value).map(Expr::Float),
            _ => None,
        };
        (folded.unwrap_or_else(|| Expr::unary(op, operand)), result)
    }

    /// The simplest form of an operation on operands in their simplest form, of the type given, and its type.
    pub fn binary(&self, op: Binary, left: Expr, right: Expr, element: Element) -> (Expr, Element) {
        let result = match op {
            Binary::Equal | Binary::NotEqual | Binary::Less | Binary::LessEqual => Element::Bool,
            Binary::And | Binary::Or => Element::Bool,
            _ => element,
        };
        let folded = match element {
            Element::F32 => float_binary(op, &left, &right),
            Element::I32 => self.int_binary(op, &left, &right),
            Element::Bool => self.bool_binary(op, &left, &right),
            Element::Id => match (op, &left, &right) {
                (Binary::Equal, Expr::Id(left), Expr::Id(right)) => Some(Expr::Bool(left == right)),
                (Binary::NotEqual, Expr::Id(left), Expr::Id(right)) => Some(Expr::Bool(left != right)),
                _ => None,
            },
        };
        (folded.unwrap_or_else(|| Expr::binary(op, left, right)), result)
    }

    fn bool_binary(&self, op: Binary, left: &Expr, right: &Expr) -> Option<Expr> {
        let (absorbing, left_value) = match (op, left) {
            (Binary::And, Expr::Bool(value)) => (false, Some(*value)),
            (Binary::Or, Expr::Bool(value)) => (true, Some(*value)),
            (Binary::And, _) => (false, None),
            (Binary::Or, _) => (true, None),
            _ => return None,
        };
        match (left_value, right) {
            (Some(value), _) if value == absorbing => Some(Expr::Bool(value)),
            (Some(_), right) => Some(right.clone()),
            (None, Expr::Bool(value)) if *value != absorbing => Some(left.clone()),
            (None, Expr::Bool(value)) if !self.may_trap(left) => Some(Expr::Bool(*value)),
            _ => None,
        }
    }

    fn int_binary(&self, op: Binary, left: &Expr, right: &Expr) -> Option<Expr> {
        match op {
            Binary::Add | Binary::Subtract | Binary::Multiply => {
                let whole = Expr::binary(op, left.clone(), right.clone());
                let result = Affine::of(&whole).into_expr();
                // An atom that vanishes is dropped only when it could not trap.
                if self.may_trap(&whole) && !self.may_trap(&result) { None } else { Some(result) }
            }
            Binary::Divide | Binary::Remainder => match right {
                Expr::Int(by) if *by > 0 => {
                    let form = Affine::of(left);
                    let result = match op {
                        Binary::Divide => form.divided(*by, self.around),
                        _ => form.remainder(*by, self.around),
                    };
                    if self.may_trap(left) && !self.may_trap(&result) { None } else { Some(result) }
                }
                _ => None,
            },
            Binary::Min | Binary::Max => {
                let (a, b) = (self.around.interval(left), self.around.interval(right));
                let left_first = a.high <= b.low;
                let right_first = b.high <= a.low;
                let lesser = if left_first { Some(left) } else { right_first.then_some(right) };
                let greater = if right_first { Some(left) } else { left_first.then_some(right) };
                let (kept, lost) = if op == Binary::Min { (lesser, greater) } else { (greater, lesser) };
                kept.filter(|_| lost.is_some_and(|lost| !self.may_trap(lost))).cloned()
            }
            Binary::Equal | Binary::NotEqual | Binary::Less | Binary::LessEqual => {
                let (a, b) = (Affine::of(left), Affine::of(right));
                let (left_values, right_values) = (a.interval(self.around), b.interval(self.around));
                // The difference as a number decides only where it is no other number modulo 2^32.
                let exact = left_values.fits()
                    && right_values.fits()
                    && left_values.plus(right_values.times(-1)).fits();
                if !exact || self.may_trap(left) || self.may_trap(right) {
                    return None;
                }
                let difference = a.plus(b.scaled(-1));
                match op {
                    Binary::Equal if difference.misses_zero() => Some(Expr::Bool(false)),
                    Binary::NotEqual if difference.misses_zero() => Some(Expr::Bool(true)),
                    _ => decide(op, difference.interval(self.around)).map(Expr::Bool),
                }
            }
            Binary::And | Binary::Or => None,
        }
    }

    /// Whether evaluating the expression can trap.
    pub fn may_trap(&self, expr: &Expr) -> bool {
        expr.any(&mut |part| match part {
            Expr::Binary(Binary::Divide | Binary::Remainder, left, right) => match **right {
                Expr::Int(by) => by == 0,
                _ => left.element_in(self.graph, self.accumulator) != Element::F32,
            },
            Expr::Unary(Unary::IntToId, operand) => self.around.interval(operand).low < 0,
            Expr::Load { node, indices } => !self.in_range(&self.graph.axes(*node), indices),
            Expr::History { history, depth, indices } => {
                let row = self.graph.histories()[history.index()].row;
                let depth = Affine::of(depth).plus(Affine::of(&Expr::Here).scaled(-1));
                let above = depth.interval(self.around).high > 0;
                above || !self.in_range(&self.graph.axes(row), indices)
            }
            _ => false,
        })
    }

    /// Whether every index is proven to lie inside its fixed axis.
    pub fn in_range(&self, axes: &[Range], indices: &[Expr]) -> bool {
        axes.iter().zip(indices).all(|(range, index)| match range {
            Range::Fixed(n) => {
                let interval = self.around.interval(index);
                interval.low >= 0 && interval.high < *n as i64
            }
            Range::Between { .. } => false,
        })
    }
}

fn decide(op: Binary, difference: Interval) -> Option<bool> {
    let Interval { low, high } = difference;
    let zero_only = low == 0 && high == 0;
    let never_zero = low > 0 || high < 0;
    match op {
        Binary::Equal if zero_only => Some(true),
        Binary::Equal if never_zero => Some(false),
        Binary::NotEqual if zero_only => Some(false),
        Binary::NotEqual if never_zero => Some(true),
        Binary::Less if high < 0 => Some(true),
        Binary::Less if low >= 0 => Some(false),
        Binary::LessEqual if high <= 0 => Some(true),
        Binary::LessEqual if low > 0 => Some(false),
        _ => None,
    }
}

/// Equal down to the sign of zero.
fn same(left: &Expr, right: &Expr) -> bool {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    super::encode::expression(left, &mut a);
    super::encode::expression(right, &mut b);
    a == b
}

/// The value of an operation on a literal when f32 and f64 agree on it, or for a transcendental when the operand
/// itself is an f32.
fn float_unary(op: Unary, value: f64) -> Option<f64> {
    let narrow = value as f32;
    let exact = |wide: f64, narrow: f32| (wide as f32).to_bits() == narrow.to_bits();
    let wide = match op {
        Unary::Negate => -value,
        Unary::Absolute => value.abs(),
        Unary::Floor => value.floor(),
        Unary::Sqrt => value.sqrt(),
        _ if f64::from(narrow) != value => return None,
        Unary::Exp => value.exp(),
        Unary::Log => value.ln(),
        Unary::Rsqrt => 1.0 / value.sqrt(),
        Unary::Sin => value.sin(),
        Unary::Cos => value.cos(),
        Unary::Tanh => value.tanh(),
        _ => return None,
    };
    let agrees = match op {
        Unary::Floor => exact(wide, narrow.floor()),
        Unary::Sqrt => exact(wide, narrow.sqrt()),
        _ => true,
    };
    (agrees && wide.is_finite()).then_some(wide)
}

fn float_binary(op: Binary, left: &Expr, right: &Expr) -> Option<Expr> {
    if let (Expr::Float(left), Expr::Float(right)) = (left, right) {
        return float_literals(op, *left, *right);
    }
    let is =
        |expr: &Expr, value: f64| matches!(expr, Expr::Float(found) if found.to_bits() == value.to_bits());
    match op {
        Binary::Multiply if is(right, 1.0) => Some(left.clone()),
        Binary::Multiply if is(left, 1.0) => Some(right.clone()),
        Binary::Divide if is(right, 1.0) => Some(left.clone()),
        // Adding +0 turns -0 into +0, so only these leave every bit alone.
        Binary::Subtract if is(right, 0.0) => Some(left.clone()),
        Binary::Add if is(right, -0.0) => Some(left.clone()),
        Binary::Add if is(left, -0.0) => Some(right.clone()),
        _ => None,
    }
}

fn float_literals(op: Binary, left: f64, right: f64) -> Option<Expr> {
    let (a, b) = (left as f32, right as f32);
    let both = |wide: bool, narrow: bool| (wide == narrow).then_some(Expr::Bool(wide));
    let (wide, narrow) = match op {
        Binary::Add => (left + right, a + b),
        Binary::Subtract => (left - right, a - b),
        Binary::Multiply => (left * right, a * b),
        Binary::Divide => (left / right, a / b),
        Binary::Equal => return both(left == right, a == b),
        Binary::NotEqual => return both(left != right, a != b),
        Binary::Less => return both(left < right, a < b),
        Binary::LessEqual => return both(left <= right, a <= b),
        _ => return None,
    };
    let agrees = wide.is_finite() && (wide as f32).to_bits() == narrow.to_bits();
    agrees.then_some(Expr::Float(wide))
}
